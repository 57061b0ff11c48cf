"""A private mechanism for many places from the optimal mechanisms of coarser programs.

The columns of a coarser optimum are extended to all places, between the largest and the smallest
private extension (McShane 1934). Two steps alternate: rows are divided by their sums, and
logarithms of columns are moved towards |ln k(x, z) - ln k(x', z)| <= eps d(x, x'). The excess of a
pair is shared so that the less likely place moves more. The steps converge to a mechanism that is
private up to rounding; the usual repair and check follow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from whereish.compiled import address, for_rows, library
from whereish.mechanisms.coarse import Coarse
from whereish.parallel import parallel_for
from whereish.places import Array

_NEIGHBOURS = 80
# The weights of places are powers of their probability: at the end all places weigh the same.
_SCHEDULE = ((1.0, 40), (0.5, 30), (0.25, 30), (0.0, 400))
_BLEND = 0.5  # how fast the share of a region falls with distance, in units of 1 / eps
_LIFTS = 4
_FLOOR = 1e-12  # no probability of a coarser optimum is below
_LESS = 1e-3  # the share of epsilon that is left for the last division by the sums


def lifted_matrix(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    coarse: list[Coarse],
    progress: Callable[[int, int], object] | None = None,
) -> Array:
    """Return a matrix that is private up to rounding, over all outputs."""
    outputs = np.unique(np.concatenate([one.outputs for one in coarse]))
    columns = _blended(epsilon, metric, coarse, outputs)
    exponents = epsilon * (1 - _LESS) * metric
    logs = _relaxed(np.log(columns), prior, exponents, progress)
    rows = _all_pairs(np.exp(logs), np.exp(-exponents))
    to = ((prior[:, None] * rows).T @ loss).argmin(axis=1)
    matrix = np.zeros(loss.shape)
    np.add.at(matrix.T, to, rows.T)
    return matrix


def _blended(epsilon: float, metric: Array, coarse: list[Coarse], outputs: NDArray[np.int64]) -> Array:
    """Extend the columns of all programs to all places, and blend them by region."""
    columns = np.full((len(metric), len(outputs)), 0.0)
    shares = [np.exp(-_BLEND * epsilon * metric[one.region].min(axis=0)) for one in coarse]
    total = np.sum(shares, axis=0)
    for one, share in zip(coarse, shares, strict=True):
        decay = np.exp(-epsilon * metric[:, one.medoids])
        known = np.maximum(one.columns, _FLOOR)
        at = np.searchsorted(outputs, one.outputs)
        extended = np.empty((len(metric), len(at)))
        for column in range(len(at)):
            low = (decay * known[:, column]).max(axis=1)
            high = (decay / known[:, column]).max(axis=1)
            extended[:, column] = np.sqrt(low / high)
        extended /= extended.sum(axis=1, keepdims=True)
        columns[:, at] += (share / total)[:, None] * extended
    return np.maximum(columns, np.finfo(float).tiny)


def _all_pairs(rows: Array, decay: Array) -> Array:
    """Make all pairs private, also those of places that are no neighbours, and divide by the sums.

    Columns are lifted to the smallest private ones above. The sums then differ a little, and the
    division breaks a few ratios again, less each time.
    """
    for _ in range(_LIFTS):
        rows /= rows.sum(axis=1, keepdims=True)
        above = np.empty_like(rows)
        for_rows("wi_lift", *rows.shape, rows, decay, above)
        rows = above
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _relaxed(
    logs: Array, prior: Array, exponents: Array, progress: Callable[[int, int], object] | None
) -> Array:
    n, m = logs.shape
    count = min(_NEIGHBOURS, n - 1)
    other = np.empty((n, count), np.int32)
    exponent = np.empty((n, count))
    for x, row in enumerate(exponents):
        near = np.argpartition(row, count)[: count + 1]
        near = near[near != x][:count]
        other[x], exponent[x] = near, row[near]
    core = library()
    steps = sum(rounds for _, rounds in _SCHEDULE)
    done = 0
    for power, rounds in _SCHEDULE:
        weights = np.maximum(prior, 1e-12 * prior.max()) ** power
        share = np.ascontiguousarray(weights[other] / (weights[other] + weights[:, None]))
        for _ in range(rounds):
            if progress is not None and done % 10 == 0:
                progress(done, steps)
            done += 1
            sums = np.log(np.exp(logs).sum(axis=1, keepdims=True))
            if power == 0.0 and (np.abs(sums[other, 0] - sums) <= _LESS / 2 * exponent).all():
                return logs  # what the division by the sums costs is left of epsilon
            logs = logs - sums
            moved = np.empty_like(logs)
            parallel_for(
                core.wi_relax, n, m, count, address(logs, "f8"), address(other, "i4"),
                address(exponent, "f8"), address(share, "f8"), address(moved, "f8"),
            )  # fmt: skip
            logs = moved
    return logs
