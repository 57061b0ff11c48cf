"""The mechanisms that are best at something: least quality loss, or most adversary error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import GuaranteeError, InputError, SolveError
from whereish.measures import Proof, loss_between, lower_bound, quality_loss
from whereish.mechanisms.closed import closed_form
from whereish.mechanisms.mechanism import (
    Build,
    Mechanism,
    check_places,
    chosen_outputs,
    metric_or_euclidean,
    quality_to,
    seal,
)
from whereish.mechanisms.parts import proof_by_parts
from whereish.mechanisms.plan import Plan, plan
from whereish.places import (
    Array,
    Places,
    as_epsilon,
    as_number,
    as_prior,
)
from whereish.programs import (
    Spanner,
    check_dilation,
    greedy_spanner,
    least_loss,
    most_privacy,
)
from whereish.solvers import (
    Progress,
    Structured,
    attempts,
    check_solver,
    prepare,
    solve,
    solve_on,
)
from whereish.threads import cores

if TYPE_CHECKING:
    from whereish.solvers.ground import Ground

# The relative gap that counts as solved.
TOLERANCE = 1e-6
# The lower end of the bracket around the true optimum need not be as exact.
BRACKET = 1e-4
# Below this many constraints HiGHS is done at once, and exact to the last digit.
STRUCTURED_FROM = 3_000
# Above this many it is not done in an hour, and an answer with an open gap is better.
HIGHS_UP_TO = 300_000
# A loss of this share of what could be lost is none: no gap matters.
NOTHING = 1e-12
MEMORY_GB = 8.0
# Up to so many places a solve is best left to one core, and each core given another prior.
_ALONE_UP_TO = 100


def optimal(
    places: Places,
    prior: ArrayLike,
    epsilon: float,
    dilation: float = 1.0,
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
) -> Mechanism:
    """Build the private mechanism that loses the least quality of service.

    Among all mechanisms K with k(x, z) <= exp(eps d_X(x, x')) k(x', z), the one with the smallest
    expected d_Q between the true and the reported place (Definition 3, Sections 3.1 and 3.2).

    Being stopped is no error: when the time is up, or at Ctrl-C, the structured solver hands over
    the best mechanism so far, as private as any; ``build`` says how far from optimal it may be.

    Parameters
    ----------
    places
        Where the person may be.
    prior
        n non-negative numbers with sum 1: how likely each place is.
    epsilon
        Privacy level, per km (or per unit of ``privacy_metric``).
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
        that is expected to fit the time and memory, otherwise in closed form. ``build.notes`` says
        which and why.
    tolerance
        The relative gap to the optimum that will do.
    time_limit_s, memory_limit_gb
        How much of both it may take.
    announce
        Called with the `Plan` before anything is solved.
    progress
        Called at every iteration of the structured solver with loss, bound and gap so far; the
        solve ends if it returns False.

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
    """
    start = time.perf_counter()
    setting = _setting(places, epsilon, dilation, privacy_metric, quality_metric, outputs)
    weights = as_prior(prior, len(setting.inputs))
    check_solver(solver, form, time_limit_s)
    as_number("tolerance", tolerance)
    as_number("memory_limit_gb", memory_limit_gb, unit="GB")
    n, m = setting.loss.shape

    allowed = memory_limit_gb if solver in ("auto", "structured") else np.inf
    expected = n * (n - 1) // 2 if dilation == 1 else min(n * (n - 1) // 2, 16 * n)
    chosen = plan(method, n, m, expected, time_limit_s, allowed)
    if chosen.method == "closed-form":
        if announce is not None:
            announce(chosen)
        found = closed_form(
            setting.inputs, weights, setting.level, privacy_metric, quality_metric, outputs
        )
        notes = (*found.build.notes, f"not exact, because {chosen.why}")
        build = replace(found.build, seconds=time.perf_counter() - start, notes=notes)
        return found.telling(build)

    if announce is not None:
        announce(plan("exact", n, m, len(setting.spanner.edges), time_limit_s, np.inf))
    task = _Task(setting, weights, tolerance, time_limit_s, progress)
    return _best(task, solver, form, start)


def optimal_each(
    places: Places,
    priors: ArrayLike,
    epsilon: float,
    dilation: float = 1.0,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    *,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], object] | None = None,
) -> list[Mechanism]:
    """Build the optimal mechanism of each of many people on the same places.

    Does what `optimal` does for every prior, but works out once what they share (distances, pairs,
    their spanner and everything the solver makes of them), and builds on all cores at a time.

    Parameters
    ----------
    priors
        (people, n): a prior for each.
    progress
        Called with how many are built, and how many there are.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> [m.epsilon for m in wh.optimal_each(places, [[0.2, 0.5, 0.3], [1, 0, 0]], epsilon=1.0)]
    [1.0, 1.0]
    """
    setting = _setting(places, epsilon, dilation, privacy_metric, quality_metric, outputs)
    as_number("tolerance", tolerance)
    people = np.atleast_1d(np.asarray(priors, dtype=object))
    weights = [as_prior(prior, len(setting.inputs)) for prior in people]
    if not weights:
        raise InputError("priors must hold at least one prior, got none")
    together = cores() if len(setting.inputs) <= _ALONE_UP_TO else 1
    stop = np.zeros(1, np.uint8)
    setting.prepare()

    def build(one: Array) -> Mechanism:
        task = _Task(setting, one, tolerance, threads=max(1, cores() // together), stop=stop)
        return _best(task, "auto", None, time.perf_counter())

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


def _best(task: _Task, solver: str, form: str | None, start: float) -> Mechanism:
    """Return the best mechanism that solvers find, repaired and checked."""
    setting, weights, tolerance = task.setting, task.prior, task.tolerance
    spanner, (n, m) = setting.spanner, setting.loss.shape
    chosen = plan("exact", n, m, len(spanner.edges), task.time_limit_s, np.inf)
    stakes = weights[:, None] * setting.loss
    made = Build(
        method="optimal",
        edges=len(spanner.edges),
        variables=chosen.variables,
        constraints=chosen.constraints,
        dilation=spanner.dilation,
        requested_dilation=spanner.requested,
        notes=_notes(spanner, n),
    )
    best: Mechanism | None = None
    problem = f"no solver had an answer within {task.time_limit_s} s"
    try:
        for answer in _answers(task, solver, form, chosen.constraints):
            told = dict(answer.told)
            if answer.proof is not None:
                bound = lower_bound(answer.proof, weights, setting.loss, setting.metric)
                told["lower_bound_km"] = max(bound, 0.0)
            build = replace(made, **told, seconds=time.perf_counter() - start)
            try:
                found = seal(
                    answer.matrix, setting.inputs, setting.targets, setting.level, setting.metric,
                    build, stakes, answer.proof, answer.bound,
                )  # fmt: skip
            except GuaranteeError as broken:
                problem = f"{build.solver} returned a matrix that cannot be used: {broken}"
                continue
            # A later answer as good as an earlier one whose gap stayed open settles the matter.
            lost = float((stakes * found.matrix).sum())
            if best is None or lost <= (1 + tolerance) * float((stakes * best.matrix).sum()):
                best = found
            gap = found.build.program_gap
            if gap is None or gap <= tolerance or lost <= NOTHING * stakes.sum():
                break
    except SolveError:
        if best is None:
            raise
    if best is None:
        raise SolveError(problem)
    return best


def how_far(
    mechanism: Mechanism,
    prior: ArrayLike,
    quality_metric: ArrayLike | None = None,
    *,
    time_limit_s: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Mechanism:
    """Return a mechanism with the best lower bound on the loss that can be afforded.

    For mechanisms in closed form, or any other with an epsilon: how much better could one with the
    same privacy be under this prior? ``build.lower_bound_km`` and ``build.gap`` say; the
    bound is one part of the places after another, see docs/theory/solver.md.

    Parameters
    ----------
    quality_metric
        (inputs, outputs) d_Q; Euclidean distance if not given.
    progress
        Called with how many parts are done, and how many there are.
    """
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"how_far needs a Mechanism, got {type(mechanism).__name__}")
    if time_limit_s is not None:
        as_number("time_limit_s", time_limit_s, unit="seconds")
    if mechanism.epsilon is None or mechanism.privacy_metric is None:
        raise InputError("how_far needs a mechanism with an epsilon, got one that promises none")
    weights = as_prior(prior, len(mechanism.inputs))
    loss = loss_between("quality_metric", quality_metric, mechanism.inputs, mechanism.outputs)
    proof, bound = proof_by_parts(
        weights, loss, mechanism.epsilon, mechanism.privacy_metric, time_limit_s, progress
    )
    bound = max(bound, 0.0)
    now = quality_loss(mechanism, weights, loss)
    gap = (now - bound) / now if now > 0 else 0.0
    build = replace(mechanism.build, lower_bound_km=bound, gap=gap)
    return mechanism.telling(build, proof)


@dataclass(frozen=True, eq=False)
class _Setting:
    """All of a program but the prior."""

    inputs: Places
    targets: Places
    level: float
    metric: Array
    loss: Array
    dilation: float

    @cached_property
    def spanner(self) -> Spanner:
        return greedy_spanner(self.metric, self.dilation)

    @cached_property
    def grounds(self) -> dict[float, Ground]:
        return {}

    def ground(self, level: float) -> Ground:
        """Return what the structured solver makes of all this, worked out once for a level."""
        if level not in self.grounds:
            lengths = level * self.spanner.lengths
            self.grounds[level] = prepare(
                self.loss, self.spanner.edges, lengths, level * self.metric
            )
        return self.grounds[level]

    def prepare(self) -> None:
        """Work out now what several threads are going to share, where it is going to be needed."""
        if self.constraints >= STRUCTURED_FROM:
            for level in {self.strict, self.level}:
                self.ground(level).prepare()

    @property
    def constraints(self) -> int:
        n, m = self.loss.shape
        return plan("exact", n, m, len(self.spanner.edges), None, np.inf).constraints

    @property
    def strict(self) -> float:
        """The level at which the pairs of the spanner make all pairs private."""
        return self.level / self.spanner.stretch


def _setting(
    places: Places,
    epsilon: float,
    dilation: float,
    privacy_metric: ArrayLike | None,
    quality_metric: ArrayLike | None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None,
) -> _Setting:
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    check_dilation(dilation)
    metric = metric_or_euclidean(privacy_metric, inputs)
    targets = chosen_outputs(inputs, outputs)
    loss = quality_to(inputs, targets, outputs, quality_metric)
    return _Setting(inputs, targets, level, metric, loss, dilation)


@dataclass(frozen=True, eq=False)
class _Task:
    """What is to be solved, and how well."""

    setting: _Setting
    prior: Array
    tolerance: float
    time_limit_s: float | None = None
    progress: Callable[[Progress], object] | None = None
    threads: int | None = None
    stop: NDArray[np.uint8] | None = None

    def structured(self, level: float, tolerance: float, time_limit_s: float | None) -> Structured:
        """Solve on the spanner at some level."""
        start = time.perf_counter()
        ground = self.setting.ground(level)
        return solve_on(
            ground, self.prior, tolerance, time_limit_s, self.progress, self.threads, start,
            self.stop,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Answer:
    """A matrix that some solver found, what to tell of it, and what proves how good it is."""

    matrix: Array
    told: dict[str, Any] = field(default_factory=dict)
    proof: Proof | None = None
    bound: float | None = None


def _answers(task: _Task, solver: str, form: str | None, constraints: int) -> Iterator[_Answer]:
    """Solve in the way asked for, or in the best way for the size, then in others."""
    start = time.perf_counter()

    def left() -> float | None:
        spent = time.perf_counter() - start
        return None if task.time_limit_s is None else task.time_limit_s - spent

    setting, spanner = task.setting, task.setting.spanner
    # Only the structured solver has something to hand over when its time is up.
    suits = constraints >= STRUCTURED_FROM or task.time_limit_s is not None
    if solver == "structured" or (solver == "auto" and form is None and suits):
        found = task.structured(setting.strict, task.tolerance, task.time_limit_s)
        stopped = found.stopped if found.stopped in ("time", "asked") else None
        # At the full epsilon, any multipliers on any pairs bound every mechanism with this
        # privacy. With a dilation, those that are best there are others than those found here.
        proof, more = _proof(found, setting.level), left()
        if spanner.stretch > 1 + 1e-9 and stopped is None and (more is None or more > 0):
            proof = _proof(task.structured(setting.level, BRACKET, more), setting.level)
        told = {"solver": "structured", "stopped": stopped}
        yield _Answer(found.matrix, told, proof, found.bound)
        # Whoever is still asking wants a smaller gap.
        if solver == "structured" or stopped is not None or constraints > HIGHS_UP_TO:
            return
    limit = left()
    if limit is None or limit > 0:
        exponents = setting.strict * spanner.lengths
        program = least_loss(task.prior, setting.loss, spanner.edges, exponents)
        n, m = setting.loss.shape
        for solution in attempts(program, solver, form, limit):
            matrix = solution.values.reshape(m, n).T
            yield _Answer(matrix, {"solver": solution.solver, "form": solution.form})


def _proof(found: Structured, level: float) -> Proof:
    y = found.multipliers
    return Proof(level, y.output, y.left, y.right, y.value)


def optimal_privacy(
    places: Places,
    prior: ArrayLike,
    quality_loss: float,
    quality_metric: ArrayLike | None = None,
    adversary_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    solver: str = "auto",
    *,
    form: str | None = None,
    time_limit_s: float | None = None,
) -> Mechanism:
    """Build the mechanism with the largest adversary error within a quality loss.

    Shokri et al. (CCS 2012), Definition 1 of the paper. It promises its quality loss and nothing
    else: its epsilon is None, and `tightest_epsilon` of it may well be infinite.

    Parameters
    ----------
    quality_loss
        The largest expected d_Q allowed, in km.
    quality_metric, adversary_metric
        (n, outputs) d_Q and (n, n) d_A; Euclidean distance if not given.
    """
    start = time.perf_counter()
    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    allowed = as_number("quality_loss", quality_loss, unit="km", or_equal=True)
    check_solver(solver, form, time_limit_s)
    targets = chosen_outputs(inputs, outputs)
    loss = quality_to(inputs, targets, outputs, quality_metric)
    least = float(weights @ loss.min(axis=1))
    if allowed < least:
        raise InputError(
            f"quality_loss must be at least {least:.6g} km with these outputs, got {allowed:g}"
        )
    adversary = loss_between("adversary_metric", adversary_metric, inputs, inputs)
    program = most_privacy(weights, loss, adversary, allowed)
    solution = solve(program, solver, form, time_limit_s)
    n, m = loss.shape
    build = Build(
        method="optimal-privacy",
        solver=solution.solver,
        form=solution.form,
        seconds=time.perf_counter() - start,
        variables=program.variables,
        constraints=program.constraints,
        notes=("promises its quality loss only: this mechanism has no epsilon",),
    )
    matrix = solution.values[: n * m].reshape(m, n).T
    return seal(matrix, inputs, targets, None, None, build)


def _notes(spanner: Spanner, n: int) -> tuple[str, ...]:
    pairs = n * (n - 1) // 2
    edges = len(spanner.edges)
    if spanner.requested > 1 and spanner.dilation > 1 + 1e-9:
        return (
            f"a spanner of {edges} of {pairs} pairs stands for all of them, at epsilon / "
            f"{spanner.dilation:.4g}: private as asked, its loss a little above the optimum",
        )
    if edges < pairs:
        return (
            f"the privacy metric is induced by a graph of {edges} of {pairs} pairs: constraints on "
            "these alone are exact",
        )
    return ("all pairs are constrained: exact",)
