"""The optimal mechanism: the least quality loss at a privacy level, for one prior or many."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.deadline import Deadline, OutOfTimeError
from whereish.distributed.cluster import join_cluster, machines_of
from whereish.errors import InputError, SolveError, WhereishError, described
from whereish.limits import DILATION, LARGE_PLACES, MEMORY_GB, TOLERANCE
from whereish.measures import Proof, relative_gap
from whereish.mechanisms.arguments import takes_map_metric
from whereish.mechanisms.closed_forms import closed_form
from whereish.mechanisms.large import large_mechanism
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.plan import Plan, plan
from whereish.mechanisms.price_bound import Problem
from whereish.mechanisms.search import Setting, Task, best_of, setting_of
from whereish.parallel import cores
from whereish.places import Array, Places, as_number, as_prior, as_whole, check_order, normalised
from whereish.profiles import Profile
from whereish.solvers import Progress, check_solver
from whereish.solvers.estimates import expected_edges

# Up to this many places, a solve runs on one core, and each core takes another prior.
_ONE_CORE_UP_TO = 100


@takes_map_metric
def optimal(
    places: Places | Profile,
    prior: ArrayLike | None = None,
    epsilon: float | None = None,
    dilation: float = DILATION,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    solver: str = "auto",
    *,
    method: str = "exact",
    form: str | None = None,
    tolerance: float = TOLERANCE,
    time_limit_s: float | None = None,
    memory_limit_gb: float = MEMORY_GB,
    announce: Callable[[Plan], object] | None = None,
    progress: Callable[[Progress], object] | None = None,
    cluster: str | None = None,
    normalise: bool = False,
) -> Mechanism:
    """Build the private mechanism that loses the least quality of service.

    Among all mechanisms K with k(x, z) <= exp(eps d_X(x, x')) k(x', z), the one with the smallest
    expected d_Q between the true and the reported place (Definition 3, Sections 3.1 and 3.2 of the
    paper [1]_). The steps: spanner, linear program, solver, repair, check, lower bound.

    After the time limit, or Ctrl-C, the structured solver returns the best mechanism so far. It has
    the same privacy; ``build.gap`` bounds how far it is from the optimum.

    Parameters
    ----------
    places
        Where the person may be; or a `Profile`, and no prior: ``optimal(profile, epsilon=1.07)``.
    prior
        n non-negative numbers with sum 1: how likely each place is.
    epsilon
        Privacy level, per km (or per unit of ``privacy_metric``); with a profile it may be second.
    dilation
        1 is exact. Above 1, only the edges of a greedy spanner are constrained, at epsilon divided
        by its measured dilation: the same privacy, fewer constraints, slightly more loss. The true
        optimum then lies between ``build.lower_bound_km`` and the loss.
    privacy_metric
        (n, n) d_X; Euclidean distance if not given. For a graph metric the edges are found, and
        the result is exact.
    quality_metric
        (n, outputs) d_Q; Euclidean distance if not given. With ``outputs`` by index, (n, n).
    outputs
        The places that may be reported, or the indices of some of the inputs; all inputs if
        not given.
    solver, form
        "structured" is the interior-point method for this program. "auto" uses HiGHS for the
        smallest programs, and otherwise the structured solver, followed by HiGHS if a gap remains.
        Others: see `whereish.solvers.solve`.
    method
        "exact"; "closed-form" (see `closed_form`), for thousands of places; or "auto": exact if
        the estimated time and memory are within the limits (without a time limit: two minutes),
        otherwise the closed form. From 500 places on, "auto" returns the better of it and of a
        mechanism from programs with small supports or with fewer places, and all have a lower
        bound and a gap (see docs/proofs/price-bound.md). ``build.notes`` gives the reason.
    tolerance
        The relative gap to the optimum at which the search ends.
    time_limit_s
        The time limit in seconds. It includes the spanner. The search ends early enough for the
        repair, the check and the closed form: an exact search that is stopped is never worse than
        the closed form. With "auto" and thousands of places the closed form is left out if there
        is no time for it.
        `Plan.after_s` estimates the time of these steps. If it exceeds the limit, there is no
        search, and the result is the closed form.
    memory_limit_gb
        The memory of the search in GB, on each machine.
    announce
        Called with the `Plan` before the solve.
    progress
        Called at every iteration of the structured solver with loss, bound and gap so far; the
        solve ends if it returns False. Without an exact solve, from 500 places on: called at every
        step, with the loss of the best constant report and a gap of 1.
    cluster
        A Ray cluster, ``auto`` or HOST:PORT, whose machines share the program: for more places than
        fit on one machine, see docs/scaling.md. The result is the same.
    normalise
        Divide the prior by its sum.

    Raises
    ------
    InputError
        If an argument cannot be used.
    SolveError
        If no solver found a matrix that can be made private, or the program does not fit into the
        memory.

    References
    ----------
    .. [1] Bordenabe, Chatzikokolakis, Palamidessi: Optimal geo-indistinguishable mechanisms for
       location privacy. CCS 2014.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
    >>> bool(wh.tightest_epsilon(m) <= 1.0)
    True
    >>> visits = wh.optimal(places, [2, 5, 3], epsilon=1.0, normalise=True)
    >>> bool((visits.counts == m.counts).all())
    True
    """
    start = time.perf_counter()
    places, prior, epsilon = _person(places, prior, epsilon, normalise)
    check_solver(solver, form, time_limit_s)
    clock = Deadline(time_limit_s)
    setting = setting_of(places, epsilon, dilation, privacy_metric, quality_metric, outputs)
    weights = as_prior(prior, len(setting.inputs))
    as_number("tolerance", tolerance)
    as_number("memory_limit_gb", memory_limit_gb, unit="GB")
    for name, callback in (("announce", announce), ("progress", progress)):
        if callback is not None and not callable(callback):
            raise InputError(f"{name} must be a function, got {type(callback).__name__}")
    structured = solver in ("auto", "structured")
    n, m = setting.loss.shape
    allowed = memory_limit_gb if structured else np.inf
    if cluster is not None:
        allowed *= _machines(cluster, solver, method)

    def closed() -> Mechanism:
        return closed_form(
            setting.inputs, weights, setting.level, privacy_metric, quality_metric, outputs
        )

    def closed_instead(chosen: Plan) -> Mechanism:
        if announce is not None:
            announce(chosen)
        if n >= LARGE_PLACES:
            problem = Problem(weights, setting.loss, setting.level, setting.metric)
            found = large_mechanism(
                setting.inputs, setting.targets, problem, closed, clock.seconds,
                lift=method == "auto", progress=progress,
            )  # fmt: skip
        else:
            found = closed()
        notes = (*found.build.notes, f"not exact, because {chosen.why}")
        build = replace(found.build, seconds=time.perf_counter() - start, notes=notes)
        return found.with_metadata(build, found.proof)

    expected = expected_edges(n, dilation, straight=privacy_metric is None)
    chosen = plan(method, n, m, expected, time_limit_s, allowed)
    if chosen.method == "closed-form":
        return closed_instead(chosen)
    setting = replace(setting, deadline=clock.earlier(chosen.after_s if structured else 0.0))
    try:
        # The spanner is known now, and with it the memory.
        known = plan(method, n, m, len(setting.spanner.edges), None, allowed)
        if known.method == "closed-form":
            return closed_instead(known)
        if announce is not None:
            announce(plan("exact", n, m, len(setting.spanner.edges), time_limit_s, np.inf))
        task = Task(setting, weights, tolerance, progress, cluster=cluster)
        best = best_of(task, solver, form, start)
    except SolveError as late:
        if not structured or not (isinstance(late, OutOfTimeError) or setting.deadline.passed):
            raise
        if announce is not None and "spanner" not in setting.__dict__:
            announce(chosen)
        return _without_search(closed(), weights, setting, time.perf_counter() - start, str(late))
    if best.build.stopped is None:
        return best
    return _better_of(best, closed, weights, setting)


def _machines(cluster: str, solver: str, method: str) -> int:
    """Return the number of machines of a cluster, if this build can use it."""
    if solver not in ("auto", "structured") or method == "closed-form":
        raise InputError(
            "cluster must be left out unless the structured solver is used, got a cluster with "
            f"solver {described(solver)} and method {described(method)}"
        )
    return len(machines_of(join_cluster(cluster)))


def _person(
    places: Places | Profile, prior: Any, epsilon: Any, normalise: bool
) -> tuple[Places, Any, Any]:
    """Return places, prior and epsilon from the first arguments of `optimal`."""
    if isinstance(places, Profile):
        if epsilon is None:
            prior, epsilon = None, prior  # optimal(profile, epsilon)
        if prior is not None:
            raise InputError("prior must be left out with a profile, which has one")
        prior, places = places.prior, places.places
    for name, value in (("prior", prior), ("epsilon", epsilon)):
        if value is None:
            raise InputError(f"{name} must be given, got None")
    return places, normalised(prior) if normalise else prior, epsilon


def _without_search(
    found: Mechanism, weights: Array, setting: Setting, seconds: float, why: str
) -> Mechanism:
    """Mark a closed form as the result of a build without time for a search: its bound is 0."""
    nothing = np.empty(0, np.int32)
    proof = Proof(setting.level, nothing, nothing, nothing, np.empty(0))
    loss = float((weights[:, None] * setting.loss * found.matrix).sum())
    build = replace(
        found.build, seconds=seconds, stopped="time", lower_bound_km=0.0,
        gap=relative_gap(loss, 0.0),
        notes=(*found.build.notes, f"there was no search for a better mechanism: {why}"),
    )  # fmt: skip
    return found.with_metadata(build, proof)


def _better_of(
    best: Mechanism, closed: Callable[[], Mechanism], weights: Array, setting: Setting
) -> Mechanism:
    """Return the better of the result of an interrupted search and the closed form."""
    try:
        other = closed()
    except WhereishError:
        return best
    weighted_loss = weights[:, None] * setting.loss
    loss = float((weighted_loss * other.matrix).sum())
    if loss >= float((weighted_loss * best.matrix).sum()):
        return best
    bound = best.build.lower_bound_km
    build = replace(
        other.build,
        seconds=best.build.seconds,
        stopped=best.build.stopped,
        lower_bound_km=bound,
        gap=None if bound is None else relative_gap(loss, bound),
        notes=(*other.build.notes, "the search was stopped before it found anything better"),
    )
    return other.with_metadata(build, best.proof)


def _rows(priors: ArrayLike) -> NDArray[np.object_]:
    try:
        return np.asarray(priors, dtype=object)
    except ValueError:
        raise InputError(
            f"priors must have one prior in each row, got {described(priors)}"
        ) from None


@takes_map_metric
def optimal_each(
    places: Places,
    priors: ArrayLike,
    epsilon: float,
    dilation: float = DILATION,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    *,
    tolerance: float = TOLERANCE,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[Mechanism]:
    """Build the optimal mechanisms of many people on the same places.

    The result is that of `optimal` for every prior. What does not depend on the prior (distances,
    spanner, the data of the solver) is computed once, and all cores are used.

    Parameters
    ----------
    priors
        (people, n): a prior for each person.
    threads
        By default one for each core. The result does not depend on it.
    progress
        Called with the number of mechanisms that are built, and of all.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> [m.epsilon for m in wh.optimal_each(places, [[0.2, 0.5, 0.3], [1, 0, 0]], epsilon=1.0)]
    [1.0, 1.0]
    """
    setting = setting_of(places, epsilon, dilation, privacy_metric, quality_metric, outputs)
    as_number("tolerance", tolerance)
    check_order("priors", priors, ("columns",))
    people = priors if isinstance(priors, list | tuple) else np.atleast_1d(_rows(priors))
    weights = [as_prior(prior, len(setting.inputs)) for prior in people]
    if not weights:
        raise InputError("priors must hold at least one prior, got none")
    available = cores() if threads is None else as_whole("threads", threads)
    at_once = available if len(setting.inputs) <= _ONE_CORE_UP_TO else 1
    stop = np.zeros(1, np.uint8)
    setting.prepare()

    def build(one: Array) -> Mechanism:
        task = Task(setting, one, tolerance, threads=max(1, available // at_once), stop=stop)
        return best_of(task, "auto", None, time.perf_counter())

    built: list[Mechanism] = []
    with ThreadPoolExecutor(at_once) as pool:
        jobs = [pool.submit(build, one) for one in weights]
        try:
            for job in jobs:
                built.append(job.result())
                if progress is not None:
                    progress(len(built), len(jobs))
        except BaseException:
            stop[0] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return built
