"""The exact audit of released counts, in integer arithmetic.

A row of counts sums to 2^63, and place x reports output z with probability counts[x, z] / 2^63.
For all x, x', z it must hold that counts[x, z] <= exp(eps d(x, x')) counts[x', z]. exp(eps d) is
irrational, so a stricter condition is checked: exp(eps d) is replaced by a rational number f / 2^s
below it, with a 64-bit f, from ball arithmetic with the distance rounded down. That condition is a
comparison of integers and is evaluated exactly. The audit does not know how a mechanism was built.
The proof is in docs/proofs/audit.md.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whereish.compiled import for_rows
from whereish.errors import GuaranteeError, InputError
from whereish.measures.privacy import Verdict
from whereish.places import Array, as_epsilon, as_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

TOTAL = 2**63
_BITS = 192  # precision of the balls: far more than 64 bits remain after all roundings
_PRECISION = threading.Lock()
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

Counts = NDArray[np.uint64]


class Limits:
    """Rational lower bounds of exp(eps d(x, x')): factor / 2^shift.

    Every factor has 64 bits, every shift is from 0 to 63.

    Parameters
    ----------
    epsilon
        The privacy level, per km.
    points
        (n, 2) km in a plane: their Euclidean distances are rounded down.
    metric
        (n, n) distances to use instead of the Euclidean ones; taken as exact.
    """

    def __init__(self, epsilon: float, points: Array, metric: Array | None = None) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.points = as_numbers("points", points, (None, 2))
        n = len(self.points)
        self.metric = None if metric is None else as_numbers("metric", metric, (n, n))
        self.factor = np.full((n, n), TOTAL, dtype=np.uint64)
        self.shift = np.full((n, n), 63, dtype=np.uint8)
        for x, other, factor, shift in self._bounds():
            self.factor[x, other] = self.factor[other, x] = factor
            self.shift[x, other] = self.shift[other, x] = shift

    @property
    def exponents(self) -> Array:
        """The values of eps d, as floats."""
        if self.metric is not None:
            return self.epsilon * self.metric
        east, north = (np.subtract.outer(axis, axis) for axis in self.points.T)
        return np.asarray(self.epsilon * np.hypot(east, north))

    def _bounds(self) -> Iterator[tuple[int, int, int, int]]:
        n = len(self.points)
        with ball_arithmetic() as arb:
            level = arb(self.epsilon)
            at = [(arb(east), arb(north)) for east, north in self.points.tolist()]
            rows = None if self.metric is None else self.metric.tolist()
            for x in range(n):
                for other in range(x + 1, n):
                    if rows is None:
                        east, north = at[x][0] - at[other][0], at[x][1] - at[other][1]
                        distance = (east * east + north * north).sqrt()
                    else:
                        distance = arb(min(rows[x][other], rows[other][x]))
                    yield x, other, *_rational((level * distance).exp().lower())


@contextmanager
def ball_arithmetic() -> Iterator[Any]:
    """Yield the type of balls: intervals that contain the true value after every operation."""
    from flint import arb, ctx

    with _PRECISION:  # the precision is global to all threads
        before, ctx.prec = ctx.prec, _BITS
        try:
            yield arb
        finally:
            ctx.prec = before


def _rational(bound: Any) -> tuple[int, int]:
    """Return (f, s) of the largest f / 2^s below a number, with 2^63 <= f < 2^64.

    A number above 2^63 gives 2^63: no ratio of counts is larger.
    """
    mantissa, exponent = (int(part) for part in bound.man_exp())
    bits = mantissa.bit_length() + exponent  # 2^(bits - 1) <= bound < 2^bits
    if mantissa <= 0 or bits < 1:
        return TOTAL, 63  # the value 1: no distance is negative
    if bits > 63:
        return TOTAL, 0  # the value 2^63
    down = mantissa.bit_length() - 64
    factor = mantissa >> down if down >= 0 else mantissa << -down
    return factor, 64 - bits


def audit_counts(counts: Counts, limits: Limits) -> Verdict:
    """Check every row and every ratio of released counts, exactly.

    Raises
    ------
    GuaranteeError
        If a row or a ratio is wrong: the message names the place, or the pair and the output.
    """
    counts = check_rows(counts)
    n, m = counts.shape
    if limits.factor.shape != (n, n):
        raise InputError(f"limits must be for {n} places, got limits for {len(limits.factor)}")
    worst = np.full(n, -1, np.int64)
    shift = limits.shift.astype(np.int64)
    for_rows("wi_first_broken", n, m, np.ascontiguousarray(counts), limits.factor, shift, worst)
    for x in np.flatnonzero(worst >= 0)[:1]:
        other, z = divmod(int(worst[x]), m)
        raise GuaranteeError(
            f"not private: place {x} reports output {z} with probability {counts[x, z]} / 2^63, "
            f"place {other} with {counts[other, z]} / 2^63; at epsilon {limits.epsilon:g} the "
            f"ratio may be at most exp({limits.exponents[x, other]:g})"
        )
    return _tightest(counts, limits)


def check_rows(counts: Counts) -> Counts:
    """Raise GuaranteeError unless these are counts whose rows sum to exactly 2^63."""
    plain = type(counts) is np.ndarray  # a masked array would hide entries
    if not (plain and counts.dtype == np.uint64 and counts.ndim == 2):
        raise InputError("counts must be a matrix of unsigned 64-bit integers")
    if counts.size == 0:
        raise InputError("counts must hold at least one place and one output")
    # The 32-bit halves are summed separately: no sum of fewer than 2^32 of them overflows.
    high, low = (counts >> _HALF).sum(axis=1), (counts & _LOW).sum(axis=1)
    for x, (upper, lower) in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
        if upper * 2**32 + lower != TOTAL:
            raise GuaranteeError(
                f"not a mechanism: row {x} sums to {upper * 2**32 + lower}, not to 2^63"
            )
    return counts


def _tightest(counts: Counts, limits: Limits) -> Verdict:
    """Return the number of ratios and the smallest slack, in floats: for people to read."""
    n, m = counts.shape
    values, exponents = counts.astype(np.float64), limits.exponents
    least, pair, output = np.inf, (0, min(1, n - 1)), 0
    used = np.flatnonzero(values.max(axis=0) > 0)
    logs = np.log(values[:, used])
    for x in range(n):
        room = exponents[x] - (logs[x] - logs).max(axis=1)
        room[x] = np.inf
        other = int(room.argmin())
        if room[other] < least:
            least, pair = float(room[other]), (x, other)
            output = int(used[(logs[x] - logs[other]).argmax()])
    return Verdict(n * (n - 1) * m, least, pair, output)
