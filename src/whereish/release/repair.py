"""Repair a matrix that is private up to the tolerance of a solver: make every ratio hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.compiled import for_rows
from whereish.errors import GuaranteeError
from whereish.places import Array

# An output whose probability is below this for every place is removed.
UNUSED = 1e-10
# A solver breaks ratios in the last digits only. A larger mix means that its answer is wrong.
LARGEST_MIX = 0.01
# exp() overflows beyond this. A smaller limit on the ratio is stricter, so it is safe.
_LARGEST_EXPONENT = 700.0
_AT_ONCE = 2**16  # numbers that stay in the cache


@dataclass(frozen=True, eq=False)
class Repaired:
    """A matrix after repair, and the share of the uniform mechanism that was mixed in."""

    matrix: Array
    mix: float


def repair(matrix: Array, epsilon: float, metric: Array) -> Repaired:
    """Return a private matrix near to one that is private up to the tolerance of a solver.

    Solvers satisfy their constraints to about 1e-9, so a probability that must be small but
    positive may be zero or negative. The steps:

    1. Negative entries become zero. Outputs below `UNUSED` for all inputs are removed.
    2. Every column is lifted to the smallest private one above it: the new k(x, z) is the largest
       exp(-eps d(x, x')) k(x', z) over x'. Rows are divided by their sums. A ratio that is broken
       now is broken relative to the probabilities themselves.
    3. K' = (1 - l) K + l U, with U uniform over the m outputs in use. A shortfall
       t = k(x, z) - exp(eps d) k(x', z) > 0 is covered if l / m (exp(eps d) - 1) >= (1 - l) t.
       The smallest such l is taken.

    The proof is in docs/proofs/repair.md.

    Raises
    ------
    GuaranteeError
        If l is above `LARGEST_MIX`: rounding does not explain that.
    """
    clean = np.where(matrix > 0, matrix, 0.0)
    used = clean.max(axis=0) >= UNUSED
    everything, clean = clean, np.ascontiguousarray(clean[:, used])
    clean = _lifted(clean, epsilon, metric)
    sums = clean.sum(axis=1, keepdims=True)
    if not used.any() or (sums <= 0).any() or not np.isfinite(clean).all():
        raise GuaranteeError("not a mechanism: some place would have nothing to report")
    clean /= sums

    mix = _needed_mix(clean, epsilon, metric, int(used.sum()))
    if mix > LARGEST_MIX:
        near = float(metric[metric > 0].min()) if (metric > 0).any() else 0.0
        raise GuaranteeError(
            f"the matrix is too far from private at epsilon {epsilon:g}: {mix:.1%} of it would "
            f"have to be replaced by the uniform mechanism (the closest places are {near:g} apart)"
        )
    if mix > 0:
        clean = (1 - mix) * clean + mix / used.sum()
    everything[:] = 0.0
    everything[:, used] = clean
    return Repaired(everything, mix)


def _lifted(matrix: Array, epsilon: float, metric: Array) -> Array:
    decay = np.exp(-epsilon * np.ascontiguousarray(metric))
    lifted = np.empty_like(matrix)
    for_rows("wi_lift", *matrix.shape, matrix, decay, lifted)
    return lifted


def _needed_mix(matrix: Array, epsilon: float, metric: Array, outputs: int) -> float:
    def exponents(distances: Array) -> Array:
        # A margin for the rounding of the mixture and of the check that follows.
        exact = epsilon * distances
        return np.clip(exact - 1e-14 * (4 + 2 * exact), 0.0, _LARGEST_EXPONENT)

    factors, short = np.empty(metric.shape), np.empty(metric.shape)
    step = max(1, _AT_ONCE // len(metric))
    for first in range(0, len(metric), step):  # n x n numbers are 0.8 GB at 10,000 places
        factors[first : first + step] = np.exp(exponents(metric[first : first + step]))
    for_rows("wi_shortfalls", *matrix.shape, matrix, factors, short)
    np.fill_diagonal(short, 0.0)
    broken = short > 0
    growth = np.expm1(exponents(metric[broken])) / outputs
    return float((short[broken] / (short[broken] + growth)).max(initial=0.0))
