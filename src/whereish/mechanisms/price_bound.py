"""A lower bound on the quality loss from prices, for more places than an exact solve allows.

A price b(x) for each place bounds the loss by the sum of b, if for every output z some y >= 0 has
A'y <= c_z - b, where c_z(x) = prior(x) d_Q(x, z): weak duality. The prices come from coarser
programs. For each output, flows from places with c_z > b cover the places with c_z < b, at a loss
exp(-eps d): a transport problem. What stays uncovered is taken off the prices. The flows are the
multipliers of the proof; `measures.streamed_bound` computes the bound from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.compiled import address, library
from whereish.errors import SolveError
from whereish.measures import Proof, streamed_bound
from whereish.mechanisms.coarse import Coarse
from whereish.parallel import cores
from whereish.places import Array

_TOLERANCE = 1e-5  # the share of the need of an output that may stay uncovered
_SAMPLE = 32  # outputs whose time is measured
_LOWER = 0.97  # for that, prices are made about as low as `improved` makes them
_FLOWS = 20_000  # of an output, at first: if there are more, they are computed again
_AT_ONCE = 32  # outputs in a call of the core
_SMALLEST_DECAY = np.exp(-4.5)  # farther flows are left out
_STEP = 0.5  # the share of what is uncovered that is taken off the prices
_ROUNDS, _LAST_ROUNDS = 30, 60  # of the transport problem, in a trial and in the proof
_CUT = 1e-5  # smaller shares of a supply are dropped


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


def first_prices(coarse: list[Coarse]) -> Array:
    """Return the prices of each place from the program that is finest for it."""
    prices = coarse[0].prices.copy()
    for one in coarse:
        prices[one.region] = one.prices[one.region]
    return prices


def improved(
    problem: Problem,
    prices: Array,
    decay: NDArray[np.float32],
    progress: Callable[[int, int], object] | None,
) -> Array:
    """Lower prices where they are not covered, by half of what is missing for the worst output.

    Half is enough for most: a lower price helps all outputs, and the rest of what is missing is
    taken off in the bound.
    """
    residual = np.full(len(prices), np.inf)
    calls = -(-problem.loss.shape[1] // _AT_ONCE)
    parts = _covered(problem, prices, decay, _ROUNDS, _TOLERANCE, _CUT, flows=False)
    for number, (part, _) in enumerate(parts):
        if progress is not None:
            progress(number, calls)
        residual = np.minimum(residual, part)
    return prices + np.where(residual < 0, _STEP * residual, residual)


def pass_seconds(
    problem: Problem, prices: Array, decay: NDArray[np.float32]
) -> tuple[float, float]:
    """Estimate the seconds of `improved` and of a proof with its check, from a few outputs."""
    m = problem.loss.shape[1]
    some = np.linspace(0, m - 1, min(m, _SAMPLE)).astype(np.int64)
    sample = Problem(problem.prior, problem.loss[:, some], problem.epsilon, problem.metric)
    start = time.perf_counter()
    improved(sample, prices, decay, None)
    middle = time.perf_counter()
    lower = _LOWER * prices
    streamed_bound(proofs(sample, lower, decay), sample.prior, sample.loss, sample.metric)
    # The sample is one call of the core, on one core.
    share = m / len(some) / cores()
    return (middle - start) * share, (time.perf_counter() - middle) * share


def proofs(problem: Problem, prices: Array, decay: NDArray[np.float32]) -> Iterator[Proof]:
    """Yield the multipliers that prove prices, for a few outputs at a time, in order."""
    parts = _covered(problem, prices, decay, _LAST_ROUNDS, _TOLERANCE, _CUT, flows=True)
    yield from (proof for _, proof in parts)


def _covered(
    problem: Problem,
    prices: Array,
    decay: NDArray[np.float32],
    rounds: int,
    tolerance: float,
    cut: float,
    *,
    flows: bool,
) -> Iterator[tuple[Array, Proof]]:
    """Solve the transport problems of all outputs, some at a time on each core."""
    n, m = problem.loss.shape
    core = library()
    most = _FLOWS  # flows of an output so far

    def cover(first: int) -> tuple[Array, Proof]:
        some = slice(first, min(first + _AT_ONCE, m))
        cost = problem.cost(some)
        nonlocal most
        count = most * len(cost) if flows else 0
        while True:
            residual, uncovered = np.full(n, np.inf), np.empty(len(cost))
            rows = [np.empty(count, np.int32) for _ in range(3)]
            value = np.empty(count)
            found = core.wi_cover(
                len(cost), n, address(cost, "f8"), address(prices, "f8"), address(decay, "f4"),
                _SMALLEST_DECAY, rounds, tolerance, cut, address(residual, "f8"),
                address(uncovered, "f8"), count, *(address(row, "i4") for row in rows),
                address(value, "f8"),
            )  # fmt: skip
            if found < 0:
                raise SolveError("the lower bound needs more memory than there is")
            if found <= count:
                break
            count, most = found, max(most, 1 + found // len(cost) * 5 // 4)
        output, left, right = (row[:found].copy() for row in rows)
        return residual, Proof(
            problem.epsilon, output + np.int32(first), left, right, value[:found].copy()
        )

    with ThreadPoolExecutor(cores()) as pool:
        starts = range(0, m, _AT_ONCE)
        ahead = cores() + 2
        jobs = [pool.submit(cover, first) for first in starts[:ahead]]
        for number in range(len(starts)):
            result = jobs[number].result()
            jobs[number] = None  # type: ignore[call-overload]
            if number + ahead < len(starts):
                jobs.append(pool.submit(cover, starts[number + ahead]))
            yield result
