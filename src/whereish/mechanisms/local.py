"""A mechanism and a lower bound for thousands of places, from programs with small supports.

A few solves (`solvers.local`), each with larger supports. The prices of one give the costs of what
is outside the supports in the next one (`outside`), and its columns say how much probability is
there. When the prices of two solves agree, the multipliers of the last one and the flows outside
prove them, and its columns are nearly a mechanism. Nothing here is trusted:
`measures.streamed_bound` computes the bound, and the repair and the check of every ratio follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whereish.deadline import Deadline
from whereish.measures import Proof
from whereish.mechanisms.coarse import Coarse
from whereish.mechanisms.lifted import extended_columns, smallest_extension
from whereish.mechanisms.outside import (
    Outside,
    Rows,
    applied,
    common_flows,
    joined,
    near_and_inside,
    outside_of,
    slices,
)
from whereish.mechanisms.price_bound import Effort, Problem, cover
from whereish.mechanisms.supports import pairs_of, supports_of
from whereish.parallel import cores, in_order
from whereish.places import Array
from whereish.solvers.local import LocalSolution, Supports, solve_local

_FIRST_RADIUS = 4.0  # of the supports of the first solve, in units of 1 / eps
_RADII = (6.5, 6.0, 5.5, 5.0, 4.5)  # of the later ones: the largest for which there is time
_FAR = 12  # likely places in a support that are far from its centre
_CROWDED = 1.5  # a support has at most this many times the usual number of places, ...
_FEWEST = 8  # ... or so many
_FIRST_TOLERANCE, _TOLERANCE = 1e-2, 5e-3
_EARLY = 3e-2  # a solve with a larger gap was ended early
_ENTRY_S = 1.2e-4  # seconds of one core for each place of a support, in a solve
_MORE_STEPS = 1.2  # a solve with larger supports takes this many times the steps
_AGREE = 0.98  # the share of the prices that the last two solves should have in common
_SOLVES = 4
_SAFE = 1.1  # a solve may take this many times the one before
# Of what a price is above that of the solve before, this share is proved, or all if most agree.
_HIGHER, _MOST_AGREE = 0.5, 0.9
_START_DECAY = 0.5  # first columns decay like exp(-eps d) to this power, ...
_LONGEST = 300.0  # ... but no further: a column must not be 0
_LEAST_AMOUNT = 0.3  # of the probability of a place that supports hold, at least
_STEADY = 0.8  # prices that have less in common with the last ones are averaged with them
_SOME_PLACES = 500  # whose supports tell the usual size
_IN_USE = 1e-3  # a column that is smaller everywhere does not count, ...
_IN_MECHANISM = 0.02  # ... or is not in the mechanism
_REST = Effort(60, np.exp(-4.5), 1 << 18)  # for what the multipliers leave uncovered
ROUNDS = 80  # of steps towards privacy, about: the columns are nearly private


@dataclass(frozen=True, eq=False)
class Local:
    """The last of the solves.

    Attributes
    ----------
    outputs
        The outputs of the program, in order.
    columns
        (n, outputs) the probabilities: 0 outside the supports.
    radius
        The radius of the supports, in units of 1 / eps.
    agreed
        The sum of the smaller of the last two prices of each place, divided by the sum of the last.
    """

    outputs: NDArray[np.int64]
    supports: Supports
    outside: Outside
    solution: LocalSolution
    columns: Array
    radius: float
    agreed: float

    def in_use(self, least: float) -> NDArray[np.int64]:
        """Return which columns are not below this everywhere."""
        return np.flatnonzero(self.columns.max(axis=0) > least)


def solve_in_rounds(
    problem: Problem,
    outputs: NDArray[np.int64],
    coarse: Coarse,
    decay: NDArray[np.float32],
    deadline: Deadline,
    progress: Callable[[], object] | None = None,
) -> Local | None:
    """Solve programs with small supports until their prices agree, or the time is up.

    Parameters
    ----------
    outputs
        The outputs of the programs, in order.
    coarse
        The prices to begin with, and the columns of some of the outputs.

    Returns None if there is no time for supports that are large enough.
    """
    if len(outputs) < problem.loss.shape[1]:
        problem = replace(problem, loss=np.ascontiguousarray(problem.loss[:, outputs]))
    centres = problem.loss.argmin(axis=0)
    usual = _usual_sizes(problem)
    pairs = pairs_of(problem)
    prices, known = coarse.prices, np.searchsorted(outputs, coarse.outputs)
    spread = extended_columns(problem.epsilon, problem.metric, coarse)
    found: Local | None = None
    radius, tolerance, seconds = _FIRST_RADIUS, _FIRST_TOLERANCE, 0.0
    for number in range(_SOLVES):
        if number > 1 and deadline.left < _SAFE * seconds:
            break
        start = time.perf_counter()
        size = max(_FEWEST, int(_CROWDED * usual[radius]))
        supports = supports_of(problem, centres, radius, size, _FAR)
        reach = problem.epsilon * problem.metric[supports.place, centres[supports.output]]
        outside = outside_of(problem, supports, centres, np.ascontiguousarray(prices), decay)
        held = _held(problem, supports, known, spread)
        solution = solve_local(
            supports, *pairs, outside.costs, reach, held, _start(supports, reach, held),
            tolerance, max(deadline.left, 0.0), progress,
        )  # fmt: skip
        if solution.gap > _EARLY:
            break
        columns = np.zeros(problem.loss.shape)
        columns[supports.place, supports.output] = solution.columns
        agreed = float(np.minimum(solution.prices, prices).sum() / solution.prices.sum())
        found = Local(outputs, supports, outside, solution, columns, radius, agreed)
        seconds = time.perf_counter() - start
        if number == 0:
            chosen = _largest(usual, seconds, deadline.left)
            if chosen is None:
                return None
            radius, tolerance = chosen, _TOLERANCE
        elif agreed > _AGREE:
            break
        common = np.minimum(solution.prices, prices).sum()
        unsteady = number > 1 and common < _STEADY * np.maximum(solution.prices, prices).sum()
        prices = (prices + solution.prices) / 2 if unsteady else solution.prices
        known = found.in_use(_IN_USE)
        spread = smallest_extension(
            problem.epsilon, problem.metric, np.ascontiguousarray(columns[:, known])
        )
    return None if found is None or found.radius == _FIRST_RADIUS else found


def has_time(problem: Problem, outputs: int, deadline: Deadline) -> bool:
    """Tell whether there is time for supports of so many outputs that are large enough."""
    size = _usual_sizes(problem)[_RADII[-1]]
    return _ENTRY_S / cores() * outputs * 2 * size <= deadline.left


def _usual_sizes(problem: Problem) -> dict[float, float]:
    """Return how many places a support of each radius usually has."""
    some = np.linspace(0, len(problem.metric) - 1, _SOME_PLACES).astype(np.int64)
    reach = problem.epsilon * problem.metric[some]
    return {
        radius: float(np.median((reach <= radius).sum(axis=1))) + _FAR
        for radius in (_FIRST_RADIUS, *_RADII)
    }


def _largest(usual: dict[float, float], seconds: float, left: float) -> float | None:
    """Return the largest radius for which two solves fit into the time left, or one."""
    for solves in (2 * _SAFE, _SAFE):
        for radius in _RADII:
            if solves * seconds * _MORE_STEPS * usual[radius] / usual[_FIRST_RADIUS] < left:
                return radius
    return None


def _held(problem: Problem, supports: Supports, known: NDArray[np.int64], spread: Array) -> Array:
    """Return how much of the probability of each place is inside the supports."""
    n, m = problem.loss.shape
    shares = np.zeros((n, m))
    shares[:, known] = spread / spread.sum(axis=1, keepdims=True)
    inside = shares[supports.place, supports.output]
    return np.clip(np.bincount(supports.place, inside, n), _LEAST_AMOUNT, 1.0)


def _start(supports: Supports, reach: Array, amounts: Array) -> Array:
    """Return columns that add up to the amounts."""
    columns = np.exp(-np.minimum(_START_DECAY * reach, _LONGEST))
    sums = np.bincount(supports.place, columns, len(amounts))
    return np.asarray(columns * (amounts / np.maximum(sums, 1e-300))[supports.place])


def local_proofs(problem: Problem, local: Local, decay: NDArray[np.float32]) -> Iterator[Proof]:
    """Yield the multipliers that prove the prices of the last solve, some outputs at a time.

    Prices that the flows outside were found for are proved by them. Of what a price is above them,
    a share is proved as far as flows can be found.
    """
    n, m = problem.loss.shape
    outside, y = local.outside, local.solution.multipliers
    more = np.maximum(local.solution.prices - outside.prices, 0.0)
    share = 1.0 if local.agreed > _MOST_AGREE else _HIGHER
    prices = np.minimum(local.solution.prices, outside.prices) + share * more
    first = outside.common
    rows = (np.zeros(len(first.value), np.int64), first.left, first.right, first.value)
    second = common_flows(problem, applied(first.cost[None], rows, problem)[0], prices, decay)
    order = np.argsort(y.output, kind="stable")
    pieces = slices(m)
    cuts = np.searchsorted(y.output[order], [some.start for some in pieces] + [m])

    def piece(number: int) -> Proof:
        some = pieces[number]
        near, inside = near_and_inside(local.supports, some, n)
        known = joined([first.rows(near), second.rows(inside)])
        reduced = applied(problem.cost(some), known, problem)
        given = _at_most(reduced - prices, outside.given[number])
        mine = order[cuts[number] : cuts[number + 1]]
        solved: Rows = (
            y.output[mine].astype(np.int64) - some.start, y.left[mine], y.right[mine],
            y.value[mine],
        )  # fmt: skip
        own = joined([given, outside.charged[number], solved])
        reduced = applied(reduced, own, problem)
        last = cover(
            np.ascontiguousarray(reduced), prices, decay, _REST,
        )  # fmt: skip
        rest: Rows = (last.output.astype(np.int64), last.left, last.right, last.value)
        output, left, right, value = joined([known, own, rest])
        used = value > 0
        return Proof(
            problem.epsilon, (output[used] + some.start).astype(np.int32), left[used], right[used],
            value[used],
        )  # fmt: skip

    yield from in_order(piece, range(len(pieces)))


def _at_most(gain: Array, rows: Rows) -> Rows:
    """Return flows that take no more from a place than it has."""
    output, left, right, value = rows
    n = gain.shape[1]
    wanted = np.bincount(output * n + right, value, gain.size).reshape(gain.shape)
    share = np.clip(gain / np.maximum(wanted, 1e-300), 0.0, 1.0)
    return output, left, right, value * share[output, right]


def local_columns(problem: Problem, local: Local) -> Array:
    """Return the columns in use, extended to all places."""
    columns = np.ascontiguousarray(local.columns[:, local.in_use(_IN_MECHANISM)])
    return smallest_extension(problem.epsilon, problem.metric, columns)
