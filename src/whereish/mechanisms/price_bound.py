"""A lower bound on the quality loss from prices, for more places than an exact solve allows.

A price b(x) for each place bounds the loss by the sum of b, if for every output z some y >= 0 has
A'y <= c_z - b, where c_z(x) = prior(x) d_Q(x, z): weak duality. The prices come from a coarser
program, or from one with small supports. For each output, flows from places with c_z > b cover the
places with c_z < b, at a loss exp(-eps d): a transport problem. What stays uncovered is taken off
the prices. Then all prices are raised a little, and what is not covered now is taken off again: the
sum grows, because what one place loses is less than what the others gain. The flows are the
multipliers of the proof; `measures.streamed_bound` computes the bound from them.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.compiled import address, library
from whereish.deadline import Deadline
from whereish.errors import SolveError
from whereish.measures import Proof, streamed_bound
from whereish.parallel import cores, in_order
from whereish.places import Array

_TOLERANCE = 1e-5  # the share of the need of an output that may stay uncovered
_SAMPLE = 32  # outputs whose time is measured
_FLOWS = 100_000  # of an output, at first: if there are more, they are computed again
_AT_ONCE = 32  # outputs in a call of the core
_STEP = 0.5  # the share of what is uncovered that is taken off the prices for another pass, ...
_LEFT = 0.25  # ... or for a proof, which has more rounds
_CUT = 1e-5  # smaller shares of a supply are dropped
_PASSES = 60  # over all outputs, at most
RAISE, GOOD_RAISE = 0.2, 0.02  # prices, and good ones, are raised by this share at first, ...
_BOLDER, _SHYER = 1.2, 0.4  # ... and by more after a success, by less after a failure
_LEAST_RAISE = 1e-3  # the end
_GAIN = 1e-4  # a relative gain of the bound below this counts as none
_LEAST_ROUNDS = 4  # where a proof is late
# Prices are lowered to the first of these shares at which a few outputs leave hardly anything
# uncovered: what is missing differs from output to output, and the worst output decides.
_SHARES = (1.0, 0.98, 0.97, 0.96, 0.95, 0.94, 0.92, 0.9, 0.87, 0.84)
_HARDLY = 8e-4


@dataclass(frozen=True)
class Effort:
    """How thoroughly transport problems are solved.

    Attributes
    ----------
    rounds
        Rounds of bids in a proof.
    smallest_decay
        Flows over distances with a smaller exp(-eps d) are left out.
    most_pairs
        Of a demand and a supply of one output: the supplies that can give most are used.
    trial_rounds
        Rounds in a pass that only looks for prices.
    """

    rounds: int
    smallest_decay: float
    most_pairs: int
    trial_rounds: int = 0


# With the least effort a proof takes about a tenth of the time of a full one.
EFFORTS = (
    Effort(60, np.exp(-4.5), 1 << 21, 30),
    Effort(24, np.exp(-3.0), 1 << 20, 12),
    Effort(8, np.exp(-2.0), 1 << 18, 6),
)


@dataclass(frozen=True, eq=False)
class Problem:
    """The least-loss program of a large set of places."""

    prior: Array
    loss: Array
    epsilon: float
    metric: Array

    def cost(self, outputs: slice) -> Array:
        """Return c_z(x) = prior(x) d_Q(x, z) for some outputs, (outputs, n)."""
        return np.ascontiguousarray((self.prior[:, None] * self.loss[:, outputs]).T)

    def decay(self) -> NDArray[np.float32]:
        """Return exp(-eps d) in single precision."""
        decay = np.empty(self.metric.shape, np.float32)
        for x, row in enumerate(self.metric):
            decay[x] = np.exp(-self.epsilon * row)
        return decay


def improved(
    problem: Problem,
    prices: Array,
    decay: NDArray[np.float32],
    progress: Callable[[int, int], object] | None = None,
    deadline: Deadline | None = None,
    effort: Effort = EFFORTS[0],
    raised: float = RAISE,
) -> Array:
    """Return prices that are covered for nearly all outputs; the more time, the larger their sum.

    A pass over all outputs tells what is missing at each place for the worst output. Prices less
    that are covered. The next pass starts with half of it taken off: a lower price helps all
    outputs, so half is enough for most places. After two passes, the best covered prices are
    raised, with the last move added once more, and projected again. One pass is always made. A
    proof has more rounds than a pass, so a part of what is missing is left for it to cover.
    """
    until = deadline or Deadline()
    best, partly, total = prices, prices, -np.inf
    move, trial = np.zeros_like(prices), prices
    longest, idle, passes = 0.0, 0, 0
    while passes < _PASSES and idle < 3 and raised > _LEAST_RAISE:
        found, found_partly, found_total = trial, trial, -np.inf
        for _ in range(2):
            if passes and until.left < longest:
                return partly if total >= found_total else found_partly
            begun = time.perf_counter()
            missing = _residual(problem, trial, decay, effort, progress)
            longest, passes = max(longest, time.perf_counter() - begun), passes + 1
            covered = trial + missing
            if covered.sum() > found_total:
                found, found_total = covered, float(covered.sum())
                found_partly = trial + np.where(missing < 0, _LEFT * missing, missing)
            trial = trial + np.where(missing < 0, _STEP * missing, missing)
        idle = idle + 1 if found_total <= total * (1 + _GAIN) else 0
        if found_total > total:
            move = np.zeros_like(prices) if total == -np.inf else found - best
            best, partly, total = found, found_partly, found_total
            raised *= _BOLDER
        else:
            move, raised = np.zeros_like(prices), raised * _SHYER
        trial = (best + move) * (1 + raised)
    return partly


def _residual(
    problem: Problem,
    prices: Array,
    decay: NDArray[np.float32],
    effort: Effort,
    progress: Callable[[int, int], object] | None,
) -> Array:
    """Return what is left at each place for the worst output; below 0 if a price is too high."""
    residual = np.full(len(prices), np.inf)
    calls = -(-problem.loss.shape[1] // _AT_ONCE)
    parts = _covered(problem, prices, decay, effort.trial_rounds, effort, flows=False)
    for number, (part, _) in enumerate(parts):
        if progress is not None:
            progress(number, calls)
        residual = np.minimum(residual, part)
    return residual


def _sample(problem: Problem, outputs: int) -> Problem:
    """Return the program with a few of the outputs."""
    m = problem.loss.shape[1]
    some = np.linspace(0, m - 1, min(m, outputs)).astype(np.int64)
    return Problem(problem.prior, problem.loss[:, some], problem.epsilon, problem.metric)


def nearly_covered(problem: Problem, prices: Array, decay: NDArray[np.float32]) -> Array:
    """Return these prices, or a share of them of which hardly anything is uncovered."""
    sample = _sample(problem, 2 * _SAMPLE)

    def suits(share: float) -> bool:
        missing = _residual(sample, share * prices, decay, EFFORTS[0], None)
        return bool(-np.minimum(missing, 0.0).sum() <= _HARDLY * prices.sum())

    first = bisect_left(_SHARES[:-1], True, key=suits)
    return _SHARES[first] * prices


def pass_seconds(
    problem: Problem, prices: Array, decay: NDArray[np.float32], effort: Effort = EFFORTS[0]
) -> tuple[float, float]:
    """Estimate the seconds of a pass and of a proof with its check, from a few outputs.

    Each is done twice: the first time, memory has to be found.
    """
    sample = _sample(problem, _SAMPLE)
    passes, proved = [], []
    for _ in range(2):
        start = time.perf_counter()
        missing = _residual(sample, prices, decay, effort, None)
        middle = time.perf_counter()
        # A proof is of covered prices, which takes less time than one of prices that are too high.
        rows = proofs(sample, prices + np.minimum(missing, 0.0), decay, effort)
        streamed_bound(rows, sample.prior, sample.loss, sample.metric)
        passes.append(middle - start)
        proved.append(time.perf_counter() - middle)
    # The sample is one call of the core, on one core.
    share = problem.loss.shape[1] / sample.loss.shape[1] / cores()
    return min(passes) * share, min(proved) * share


def proofs(
    problem: Problem,
    prices: Array,
    decay: NDArray[np.float32],
    effort: Effort = EFFORTS[0],
    deadline: Deadline | None = None,
) -> Iterator[Proof]:
    """Yield the multipliers that prove prices, for a few outputs at a time, in order.

    Outputs get fewer rounds while the proof is late for its deadline.
    """
    parts = _covered(problem, prices, decay, effort.rounds, effort, deadline, flows=True)
    yield from (proof for _, proof in parts)


def _covered(
    problem: Problem,
    prices: Array,
    decay: NDArray[np.float32],
    rounds: int,
    effort: Effort,
    deadline: Deadline | None = None,
    *,
    flows: bool,
) -> Iterator[tuple[Array, Proof]]:
    """Solve the transport problems of all outputs, some at a time on each core."""
    m = problem.loss.shape[1]
    most = _FLOWS  # flows of an output so far
    begun, until = time.perf_counter(), deadline or Deadline()

    def rounds_for(first: int) -> int:
        """Return how many rounds there is time for, at the speed so far."""
        if first < 4 * _AT_ONCE:
            return rounds
        needed = (time.perf_counter() - begun) / first * (m - first)
        share = max(until.left, 0.0) / needed
        return rounds if share >= 1 else max(_LEAST_ROUNDS, int(rounds * share))

    def covered(first: int) -> tuple[Array, Proof]:
        nonlocal most
        costs = problem.cost(slice(first, min(first + _AT_ONCE, m)))
        found = cover(costs, prices, decay, effort, most if flows else 0, rounds_for(first))
        most = max(most, 1 + len(found.value) // len(costs) * 5 // 4)
        proof = Proof(
            problem.epsilon, found.output + np.int32(first), found.left, found.right, found.value
        )
        return found.residual, proof

    yield from in_order(covered, range(0, m, _AT_ONCE))


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows that cover negative gains, and what is left at each place for the worst output."""

    residual: Array
    output: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array


def cover(
    costs: Array,
    prices: Array,
    decay: NDArray[np.float32],
    effort: Effort,
    flows: int = _FLOWS,
    rounds: int | None = None,
) -> Flows:
    """Solve the transport problems of some outputs, by an auction.

    Parameters
    ----------
    costs
        (outputs, n).
    flows
        How many are expected for an output; with 0, none are returned.
    rounds
        Those of the effort if not given.
    """
    outputs, n = costs.shape
    count = flows * outputs
    while True:
        residual, uncovered = np.full(n, np.inf), np.empty(outputs)
        rows = [np.empty(count, np.int32) for _ in range(3)]
        value = np.empty(count)
        found = library().wi_cover(
            outputs, n, address(costs, "f8"), address(prices, "f8"), address(decay, "f4"),
            effort.smallest_decay, effort.rounds if rounds is None else rounds, effort.most_pairs,
            _TOLERANCE, _CUT, address(residual, "f8"),
            address(uncovered, "f8"), count, *(address(row, "i4") for row in rows),
            address(value, "f8"),
        )  # fmt: skip
        if found < 0:
            raise SolveError("the lower bound needs more memory than there is")
        if found <= count:
            break
        count = found
    output, left, right = (row[:found].copy() for row in rows)
    return Flows(residual, output, left, right, value[:found].copy())
