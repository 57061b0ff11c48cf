"""The tightest epsilon of released counts, from the integers themselves.

The largest ln(counts[x, z] / counts[x', z]) / d(x, x') over places x, x' and outputs z. Floats find
the few ratios that may be the largest; ball arithmetic computes these from the integers and the
coordinates. So the result is rounded up, by less than one unit in the last place of a double.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.measures.audit import Counts, ball_arithmetic, check_rows
from whereish.measures.privacy import TightestEpsilon
from whereish.places import Array, as_numbers

# A difference of two logarithms of counts, as floats, is wrong by less than 2e-14 (a logarithm is
# at most 43.7); a distance by less than 3e-16 of itself. The margins are tens of times larger.
_LOG_ERROR = 1e-12
_RELATIVE_ERROR = 1e-14


def exact_tightest_epsilon(counts: Counts, points: Array) -> TightestEpsilon:
    """Return the smallest epsilon, per km, for which released counts are private.

    It is infinite if one place may report an output and another never does. See `TightestEpsilon`
    for the pair and the output that attain it.

    Parameters
    ----------
    counts
        (n, m) integers; every row sums to 2^63.
    points
        (n, 2) km in a plane; the coordinates are taken as exact.

    >>> half = 2**62
    >>> counts = np.array([[half + half // 2, half // 2], [half, half]], np.uint64)
    >>> exact_tightest_epsilon(counts, np.array([[0.0, 0.0], [1.0, 0.0]]))  # ln 2, rounded up
    0.6931471805599454
    """
    counts = check_rows(counts)
    xy = as_numbers("points", points, (len(counts), 2))
    if len(counts) < 2:
        raise InputError("the tightest epsilon needs at least two places, got one")
    used = np.flatnonzero(counts.max(axis=0) > 0)
    table = counts[:, used]
    zero = table == 0
    for x, row in enumerate(zero):
        never = (~row & zero).any(axis=1)  # another place never reports what x may report
        if never.any():
            other = int(never.argmax())
            z = int((~row & zero[other]).argmax())
            return TightestEpsilon(math.inf, (x, other), int(used[z]))
    best = _candidates(np.log(table.astype(np.float64)), xy)
    value, pair, z = _largest(table, xy, best)
    return TightestEpsilon(value, pair, int(used[z]))


def _candidates(logs: Array, xy: Array) -> list[tuple[int, int, int]]:
    """Return every (x, x', z) whose ratio may be the largest for its distance."""
    n = len(logs)
    apart = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    worst = np.array([(row - logs).max(axis=1) for row in logs])
    least = ((worst - _LOG_ERROR) / apart * (1 - _RELATIVE_ERROR)).max()
    may_be = (worst + _LOG_ERROR) / apart * (1 + _RELATIVE_ERROR) >= least
    found = []
    for x, other in np.argwhere(may_be & ~np.eye(n, dtype=bool)).tolist():
        ratios = logs[x] - logs[other]
        near = np.flatnonzero(ratios >= worst[x, other] - 2 * _LOG_ERROR)
        found += [(x, other, int(z)) for z in near]
    return found


def _largest(
    table: Counts, xy: Array, candidates: list[tuple[int, int, int]]
) -> tuple[float, tuple[int, int], int]:
    value, pair, output = 0.0, candidates[0][:2], candidates[0][2]
    with ball_arithmetic() as ball:
        at = [(ball(east), ball(north)) for east, north in xy.tolist()]
        for x, other, z in candidates:
            east, north = at[x][0] - at[other][0], at[x][1] - at[other][1]
            ratio = ball(int(table[x, z])) / ball(int(table[other, z]))
            upper = _above((ratio.log() / (east * east + north * north).sqrt()).upper(), ball)
            if upper > value:
                value, pair, output = upper, (x, other), z
    return value, pair, output


def _above(bound: Any, ball: Any) -> float:
    """Return the least double that is at least a bound."""
    nearest = float(bound)
    if nearest <= 0:
        return 0.0 if bound <= 0 else math.ulp(0.0)
    return nearest if ball(nearest) >= bound else math.nextafter(nearest, math.inf)
