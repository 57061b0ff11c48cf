"""The mechanisms that are best at something: least quality loss, or most adversary error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import GuaranteeError, InputError, SolveError
from whereish.measures import loss_between
from whereish.mechanisms.mechanism import (
    Build,
    Mechanism,
    check_places,
    chosen_outputs,
    metric_or_euclidean,
    seal,
)
from whereish.places import (
    Array,
    Places,
    as_epsilon,
    as_number,
    as_prior,
)
from whereish.programs import (
    Size,
    Spanner,
    greedy_spanner,
    least_loss,
    least_loss_size,
    most_privacy,
)
from whereish.solvers import (
    Progress,
    attempts,
    check_solver,
    memory_needed,
    solve,
    solve_structured,
)

# Relative gaps: what the structured solver aims at, and what "auto" takes for solved.
AIM, TOLERANCE = 2e-7, 1e-6
# Below this many constraints HiGHS is done in a few seconds, and exact to the last digit.
STRUCTURED_FROM = 50_000
# Above this many it is not done in an hour, and an answer with an open gap is better.
HIGHS_UP_TO = 300_000
LARGEST_MEMORY = 8 * 10**9


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
    form: str | None = None,
    time_limit_s: float | None = None,
    announce: Callable[[Size], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Mechanism:
    """Build the private mechanism that loses the least quality of service.

    Among all mechanisms K with k(x, z) <= exp(eps d_X(x, x')) k(x', z), the one with the smallest
    expected d_Q between the true and the reported place (Definition 3, Sections 3.1 and 3.2).

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
    privacy_metric
        (n, n) d_X; Euclidean distance if not given. If a graph induces it, its edges are found
        and the result is exact.
    quality_metric
        (n, outputs) d_Q; Euclidean distance if not given. With ``outputs`` by number, (n, n).
    outputs
        The places that may be reported, or the numbers of some of the inputs; all inputs if
        not given.
    solver, form, time_limit_s
        "structured" is the interior-point method made for this program, exact to a proved
        relative gap of 1e-6; "auto" takes it for programs of some size and HiGHS for small ones,
        and HiGHS again should the gap stay open. Others: see `whereish.solvers.solve`.
    announce
        Called with the size of the program before anything is solved.
    progress
        Called at every iteration of the structured solver with loss, bound and gap so far.

    Raises
    ------
    InputError
        If what was given cannot be used.
    SolveError
        If no solver had an answer, or one that cannot be made private.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
    >>> bool(wh.tightest_epsilon(m) <= 1.0)
    True
    """
    start = time.perf_counter()
    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    level = as_epsilon(epsilon)
    check_solver(solver, form, time_limit_s)
    metric = metric_or_euclidean(privacy_metric, inputs)
    targets = chosen_outputs(inputs, outputs)
    loss = _quality_to(inputs, targets, outputs, quality_metric)

    spanner = greedy_spanner(metric, dilation)
    size = least_loss_size(len(inputs), len(targets), len(spanner.edges))
    if announce is not None:
        announce(size)
    stakes = weights[:, None] * loss
    made = Build(
        method="optimal",
        edges=len(spanner.edges),
        variables=size.variables,
        constraints=size.constraints,
        dilation=spanner.dilation,
        requested_dilation=spanner.requested,
        notes=_notes(spanner, len(inputs)),
    )
    exponents = level / spanner.stretch * spanner.lengths
    answers = _answers(
        weights, loss, spanner, exponents, level / spanner.stretch * metric, size, solver, form,
        time_limit_s, progress,
    )  # fmt: skip
    best: Mechanism | None = None
    problem = f"no solver had an answer within {time_limit_s} s"
    try:
        for answer in answers:
            build = replace(made, **answer.told, seconds=time.perf_counter() - start)
            try:
                found = seal(answer.matrix, inputs, targets, level, metric, build, stakes)
            except GuaranteeError as broken:
                problem = f"{build.solver} returned a matrix that cannot be used: {broken}"
                continue
            # A later answer as good as an earlier one whose gap stayed open settles the matter.
            if (
                best is None
                or (stakes * found.matrix).sum() <= (1 + TOLERANCE) * (stakes * best.matrix).sum()
            ):
                best = found
            if found.build.gap is None or found.build.gap <= TOLERANCE:
                break
    except SolveError:
        if best is None:
            raise
    if best is None:
        raise SolveError(problem)
    return best


@dataclass(frozen=True, eq=False)
class _Answer:
    """A matrix that some solver found, and what to tell of it."""

    matrix: Array
    told: dict[str, Any]


def _answers(
    prior: Array,
    loss: Array,
    spanner: Spanner,
    exponents: Array,
    reach: Array,
    size: Size,
    solver: str,
    form: str | None,
    time_limit_s: float | None,
    progress: Callable[[Progress], None] | None,
) -> Iterator[_Answer]:
    """Solve in the way asked for, or in the best way for the size, then in others."""
    n, m = loss.shape
    fits = memory_needed(n, m) <= LARGEST_MEMORY
    left = time_limit_s
    if solver == "structured" and not fits:
        raise SolveError(
            f"structured would need about {memory_needed(n, m) / 1e9:.0f} GB for {n} places and "
            f"{m} outputs: give fewer outputs, or use a closed form such as tight_constraints"
        )
    if solver == "structured" or (
        solver == "auto" and form is None and fits and size.constraints >= STRUCTURED_FROM
    ):
        found = solve_structured(
            prior, loss, spanner.edges, exponents, reach, AIM, time_limit_s, progress
        )
        yield _Answer(found.matrix, {"solver": "structured", "lower_bound_km": found.bound})
        # Whoever is still asking wants a smaller gap.
        left = None if time_limit_s is None else time_limit_s - found.seconds
        if solver == "structured" or size.constraints > HIGHS_UP_TO:
            return
    if left is None or left > 0:
        program = least_loss(prior, loss, spanner.edges, exponents)
        for solution in attempts(program, solver, form, left):
            matrix = solution.values.reshape(m, n).T
            yield _Answer(matrix, {"solver": solution.solver, "form": solution.form})


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
    loss = _quality_to(inputs, targets, outputs, quality_metric)
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


def _quality_to(
    inputs: Places,
    targets: Places,
    outputs: object,
    quality_metric: ArrayLike | None,
) -> Array:
    """Return the (inputs, outputs) quality metric; of an (n, n) one, the columns of the outputs."""
    if quality_metric is None or outputs is None or isinstance(outputs, Places):
        return loss_between("quality_metric", quality_metric, inputs, targets)
    square = loss_between("quality_metric", quality_metric, inputs, inputs)
    return square[:, np.asarray(outputs)]


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
