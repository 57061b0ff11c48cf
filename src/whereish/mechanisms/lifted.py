"""A private mechanism for many places from the optimal mechanism of a coarser program.

The columns of a coarser optimum are extended to all places, between the largest and the smallest
private extension (McShane 1934). Two steps alternate: rows are divided by their sums, and
logarithms of columns are moved towards |ln k(x, z) - ln k(x', z)| <= eps d(x, x'). The excess of a
pair is shared so that the less likely place moves more. The steps converge to a mechanism that is
private up to rounding; the usual repair and check follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from whereish.compiled import address, for_rows, library
from whereish.deadline import Deadline
from whereish.mechanisms.coarse import Coarse
from whereish.parallel import parallel_for
from whereish.places import Array

_NEIGHBOURS = 80
# The weights of places are powers of their probability: at the end all places weigh the same.
_SCHEDULE = ((1.0, 40), (0.5, 30), (0.25, 30), (0.0, 400))
_ROUNDS = 200  # that the steps take together, about
_LIFTS, _FEWEST_LIFTS = 12, 4  # the latter if it is late
_FLOOR = 1e-12  # no probability of a coarser optimum is below
_LESS = 1e-3  # the share of epsilon that is left for the last division by the sums


def lifted_matrix(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    coarse: Coarse,
    progress: Callable[[int, int], object] | None = None,
    deadline: Deadline | None = None,
) -> Array | None:
    """Return a matrix that is private up to rounding, over all outputs; None if it is late."""
    columns = extended_columns(epsilon, metric, coarse)
    return private_matrix(prior, loss, epsilon, metric, columns, progress, deadline)


def private_matrix(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    columns: Array,
    progress: Callable[[int, int], object] | None = None,
    deadline: Deadline | None = None,
    rounds: int = _ROUNDS,
) -> Array | None:
    """Move positive columns to a matrix that is private up to rounding; None if it is late.

    The result is over all outputs: each column is reported as the output that suits it best. It is
    late if about so many ``rounds`` take longer than there is time.
    """
    exponents = epsilon * (1 - _LESS) * metric
    until = deadline or Deadline()
    logs = _relaxed(np.log(columns), prior, exponents, progress, until, rounds)
    if logs is None:
        return None
    np.exp(np.negative(exponents, out=exponents), out=exponents)  # now the decay
    rows = _all_pairs(np.exp(logs), exponents, epsilon * _LESS, metric, until)
    del exponents
    to = ((prior[:, None] * rows).T @ loss).argmin(axis=1)
    matrix = np.zeros(loss.shape)
    np.add.at(matrix.T, to, rows.T)
    return matrix


def smallest_extension(epsilon: float, metric: Array, columns: Array) -> Array:
    """Return the smallest private columns above columns that are 0 at some places."""
    above = np.empty_like(columns)
    for_rows("wi_lift", *columns.shape, columns, np.exp(-epsilon * (1 - _LESS) * metric), above)
    return np.maximum(above, np.finfo(float).tiny)


def extended_columns(epsilon: float, metric: Array, coarse: Coarse) -> Array:
    """Extend the columns to all places: the geometric mean of the two extreme extensions."""
    decay = np.exp(-epsilon * metric[:, coarse.medoids])
    known = np.maximum(coarse.columns, _FLOOR)
    columns = np.empty((len(metric), known.shape[1]))
    for column, values in enumerate(known.T):
        smallest = (decay * values).max(axis=1)
        largest = 1 / np.maximum((decay / values).max(axis=1), np.finfo(float).tiny)
        columns[:, column] = np.sqrt(smallest * largest)
    return np.maximum(columns, np.finfo(float).tiny)


def _all_pairs(rows: Array, decay: Array, left: float, metric: Array, deadline: Deadline) -> Array:
    """Make all pairs private, also those of places that are no neighbours, and divide by the sums.

    Columns are lifted to the smallest private ones above. The sums then differ a little, and the
    division breaks a few ratios again, less each time. It ends once the division costs no more
    than what is ``left`` of epsilon for it.
    """
    for number in range(_LIFTS):
        rows /= rows.sum(axis=1, keepdims=True)
        above = np.empty_like(rows)
        for_rows("wi_lift", *rows.shape, rows, decay, above)
        rows = above
        sums = np.log(rows.sum(axis=1))
        if number + 1 >= _FEWEST_LIFTS and deadline.passed:
            break
        if all((np.abs(sums - sums[x]) <= left * row).all() for x, row in enumerate(metric)):
            break
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _relaxed(
    logs: Array,
    prior: Array,
    exponents: Array,
    progress: Callable[[int, int], object] | None,
    deadline: Deadline,
    expected: int,
) -> Array | None:
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
    done, begun = 0, time.perf_counter()
    for power, rounds in _SCHEDULE:
        weights = np.maximum(prior, 1e-12 * prior.max()) ** power
        share = np.ascontiguousarray(weights[other] / (weights[other] + weights[:, None]))
        for _ in range(rounds):
            if progress is not None and done % 10 == 0:
                progress(done, steps)
            if done >= 5 and done % 5 == 0:
                needed = (time.perf_counter() - begun) / done * max(expected - done, 0)
                if deadline.left < needed:
                    return None
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
