"""Make a matrix that is private up to a solver's tolerance private to the last digit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.errors import GuaranteeError
from whereish.parallel import parallel_for
from whereish.places import Array

# An output that no place reports with at least this probability is never reported at all.
UNUSED = 1e-10
# Broken ratios are a matter of a solver's last digits. More than this is a wrong answer.
LARGEST_MIX = 0.01
# exp() overflows beyond this; asking for a smaller ratio than allowed is only stricter.
_LARGEST_EXPONENT = 700.0
_MANY = 10**8  # ratios, from which on compiled code is worth its start


@dataclass(frozen=True, eq=False)
class Repaired:
    """A matrix after repair, and the share of the uniform mechanism that was mixed in."""

    matrix: Array
    mix: float


def repair(matrix: Array, epsilon: float, metric: Array) -> Repaired:
    """Return the nearest mixture with the uniform mechanism that is private.

    Solvers satisfy their constraints to about 1e-9, so a probability that must be small but
    positive comes back zero, or below. First: negative entries become zero, outputs that are
    not really used are emptied for ALL inputs, every column is lifted to the smallest private
    one above it, k(x, z) = max over x' of exp(-eps d(x, x')) k(x', z), and rows are divided by
    their sums. What that leaves broken is relative to the probabilities themselves. Then
    K' = (1 - l) K + l U, with U uniform over the m outputs in use: a shortfall
    t = k(x, z) - exp(eps d) k(x', z) > 0 is covered when l / m (exp(eps d) - 1) >= (1 - l) t.
    The smallest such l is taken. The proof is in docs/proofs/repair.md.

    Raises
    ------
    GuaranteeError
        If more than `LARGEST_MIX` would have to be mixed in: that is no rounding.
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
            f"have to be replaced by chance (the closest places are {near:g} apart)"
        )
    if mix > 0:
        clean = (1 - mix) * clean + mix / used.sum()
    everything[:] = 0.0
    everything[:, used] = clean
    return Repaired(everything, mix)


def _lifted(matrix: Array, epsilon: float, metric: Array) -> Array:
    shrink = np.exp(-epsilon * metric)
    if len(matrix) * matrix.size >= _MANY:
        from whereish.release.compiled_repair import lift

        lifted = np.empty_like(matrix)
        parallel_for(lift, len(matrix), matrix, shrink, lifted)
        return lifted
    return np.stack([(row[:, None] * matrix).max(axis=0) for row in shrink])


def _needed_mix(matrix: Array, epsilon: float, metric: Array, outputs: int) -> float:
    # Room for the rounding of the mixing itself and of whoever checks it.
    exponents = epsilon * metric
    exponents = np.clip(exponents - 1e-14 * (4 + 2 * exponents), 0.0, _LARGEST_EXPONENT)
    factors = np.exp(exponents)
    growth = np.expm1(exponents) / outputs
    np.fill_diagonal(growth, 1.0)
    mix = 0.0
    if len(matrix) * matrix.size >= _MANY:
        from whereish.release.compiled_repair import shortfalls

        short = np.empty_like(factors)
        parallel_for(shortfalls, len(matrix), matrix, factors, short)
        np.fill_diagonal(short, 0.0)
        return float((short / (short + growth)).max())
    for x, row in enumerate(matrix):
        shortfall = (row - factors[x][:, None] * matrix).max(axis=1)
        shortfall[x] = 0.0
        broken = shortfall > 0
        if broken.any():
            needed = shortfall[broken] / (shortfall[broken] + growth[x][broken])
            mix = max(mix, float(needed.max()))
    return mix
