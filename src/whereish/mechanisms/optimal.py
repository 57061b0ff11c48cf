"""The mechanism with the least quality loss among all with some privacy, for one person or many."""

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
from whereish.limits import DILATION, MEMORY_GB, TOLERANCE
from whereish.measures import Proof, relative_gap
from whereish.mechanisms.closed_forms import closed_form
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.plan import Plan, expected_edges, plan
from whereish.mechanisms.search import Setting, Task, best_of, setting_of
from whereish.parallel import cores
from whereish.places import Array, Places, as_number, as_prior, as_whole, check_order, normalised
from whereish.profiles import Profile
from whereish.solvers import Progress, check_solver

# Up to so many places a solve is best left to one core, and each core given another prior.
_ALONE_UP_TO = 100


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
    expected d_Q between the true and the reported place (Definition 3, Sections 3.1 and 3.2).

    Being stopped is no error: when the time is up, or at Ctrl-C, the structured solver hands over
    the best mechanism so far, as private as any; ``build`` says how far from optimal it may be.

    Parameters
    ----------
    places
        Where the person may be; or a `Profile`, and no prior: ``optimal(profile, epsilon=1.07)``.
    prior
        n non-negative numbers with sum 1: how likely each place is.
    epsilon
        Privacy level, per km (or per unit of ``privacy_metric``); with a profile it may be second.
    dilation
        1 is exact. With more, only the edges of a greedy spanner are constrained, at epsilon
        divided by its measured dilation: the same privacy, fewer constraints, a little more loss.
        The true optimum then lies between ``build.lower_bound_km`` and the loss.
    privacy_metric
        (n, n) d_X; Euclidean distance if not given. If a graph induces it, its edges are found
        and the result is exact.
    quality_metric
        (n, outputs) d_Q; Euclidean distance if not given. With ``outputs`` by number, (n, n).
    outputs
        The places that may be reported, or the numbers of some of the inputs; all inputs if
        not given.
    solver, form
        "structured" is the interior-point method made for this program; "auto" takes it for all
        but the smallest programs, and HiGHS for those and should a gap stay open. Others: see
        `whereish.solvers.solve`.
    method
        "exact"; "closed-form" (see `closed_form`), for thousands of places; or "auto": exact if
        that is expected to fit the time (two minutes if not given) and memory, otherwise in
        closed form. ``build.notes`` says
        which and why.
    tolerance
        The relative gap to the optimum that will do.
    time_limit_s
        How many seconds it may take. Finding the pairs and compiling the solver count. The search
        ends early enough for the repair, the check of every ratio and the closed form, than which
        the result is never worse; `Plan.after_s` says about how long these take. Where they alone
        take longer than the limit, there is no search, and they are all that is done.
    memory_limit_gb
        How much memory the search may take, on each machine.
    announce
        Called with the `Plan` before anything is solved.
    progress
        Called at every iteration of the structured solver with loss, bound and gap so far; the
        solve ends if it returns False.
    cluster
        A Ray cluster, ``auto`` or its HOST:PORT, whose machines hold the program together: for more
        places than one machine can hold, see docs/scaling.md. The result is the same.
    normalise
        Divide the prior by its sum.

    Raises
    ------
    InputError
        If what was given cannot be used.
    SolveError
        If no solver had an answer, or one that cannot be made private; or it does not fit into
        the memory.

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
    for name, told in (("announce", announce), ("progress", progress)):
        if told is not None and not callable(told):
            raise InputError(f"{name} must be a function, got {type(told).__name__}")
    n, m = setting.loss.shape

    allowed = memory_limit_gb if solver in ("auto", "structured") else np.inf
    if cluster is not None:
        if solver not in ("auto", "structured") or method == "closed-form":
            raise InputError(
                "cluster must be left out unless the structured solver is to be used, got one with "
                f"solver {described(solver)} and method {described(method)}"
            )
        allowed *= len(machines_of(join_cluster(cluster)))

    def closed() -> Mechanism:
        told = (setting.inputs, weights, setting.level, privacy_metric, quality_metric, outputs)
        return closed_form(*told)

    def instead(chosen: Plan) -> Mechanism:
        if announce is not None:
            announce(chosen)
        found = closed()
        notes = (*found.build.notes, f"not exact, because {chosen.why}")
        build = replace(found.build, seconds=time.perf_counter() - start, notes=notes)
        return found.telling(build)

    expected = expected_edges(n, dilation, straight=privacy_metric is None)
    chosen = plan(method, n, m, expected, time_limit_s, allowed)
    if chosen.method == "closed-form":
        return instead(chosen)
    ours = solver in ("auto", "structured")
    setting = replace(setting, deadline=clock.earlier(chosen.after_s if ours else 0.0))
    try:
        # Now that the pairs are known, so is the memory.
        known = plan(method, n, m, len(setting.spanner.edges), None, allowed)
        if known.method == "closed-form":
            return instead(known)
        if announce is not None:
            announce(plan("exact", n, m, len(setting.spanner.edges), time_limit_s, np.inf))
        task = Task(setting, weights, tolerance, progress, cluster=cluster)
        best = best_of(task, solver, form, start)
    except SolveError as late:
        if not ours or not (isinstance(late, OutOfTimeError) or setting.deadline.passed):
            raise
        if announce is not None and "spanner" not in setting.__dict__:
            announce(chosen)
        return _unsearched(closed(), weights, setting, time.perf_counter() - start, str(late))
    if best.build.stopped is None:
        return best
    return _or_closed_form(best, closed, weights, setting)


def _person(
    places: Places | Profile, prior: Any, epsilon: Any, normalise: bool
) -> tuple[Places, Any, Any]:
    """Return places, prior and epsilon from what `optimal` was given."""
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


def _unsearched(
    found: Mechanism, weights: Array, setting: Setting, seconds: float, why: str
) -> Mechanism:
    """Tell of a closed form that there was no time for a search, so that nothing is proved."""
    nothing = np.empty(0, np.int32)
    proof = Proof(setting.level, nothing, nothing, nothing, np.empty(0))
    loss = float((weights[:, None] * setting.loss * found.matrix).sum())
    build = replace(
        found.build, seconds=seconds, stopped="time", lower_bound_km=0.0,
        gap=relative_gap(loss, 0.0),
        notes=(*found.build.notes, f"nothing better was looked for: {why}"),
    )  # fmt: skip
    return found.telling(build, proof)


def _or_closed_form(
    best: Mechanism, closed: Callable[[], Mechanism], weights: Array, setting: Setting
) -> Mechanism:
    """Return the closed form if a search that was stopped has found nothing better."""
    try:
        other = closed()
    except WhereishError:
        return best
    stakes = weights[:, None] * setting.loss
    loss = float((stakes * other.matrix).sum())
    if loss >= float((stakes * best.matrix).sum()):
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
    return other.telling(build, best.proof)


def _rows(priors: ArrayLike) -> NDArray[np.object_]:
    try:
        return np.asarray(priors, dtype=object)
    except ValueError:
        raise InputError(f"priors must be one prior a row, got {described(priors)}") from None


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
    """Build the optimal mechanism of each of many people on the same places.

    Does what `optimal` does for every prior, but works out once what they share (distances, pairs,
    their spanner and everything the solver makes of them), and builds on all cores at a time.

    Parameters
    ----------
    priors
        (people, n): a prior for each.
    threads
        How many to work with; as many as cores if not given. The result is the same.
    progress
        Called with how many are built, and how many there are.

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
    all_ = cores() if threads is None else as_whole("threads", threads)
    together = all_ if len(setting.inputs) <= _ALONE_UP_TO else 1
    stop = np.zeros(1, np.uint8)
    setting.prepare()

    def build(one: Array) -> Mechanism:
        task = Task(setting, one, tolerance, threads=max(1, all_ // together), stop=stop)
        return best_of(task, "auto", None, time.perf_counter())

    built: list[Mechanism] = []
    with ThreadPoolExecutor(together) as pool:
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
