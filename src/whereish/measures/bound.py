"""A lower bound on the quality loss of every private mechanism, from dual multipliers.

Like the check of privacy, it does not know how a mechanism was built. Every rounding is downwards,
so that a bound is never too high. The proof is in docs/proofs/bound.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import GuaranteeError, InputError
from whereish.measures.audit import ball_arithmetic
from whereish.places import Array, Immutable, as_epsilon, as_numbers, as_prior

# A fixed-point number has _LIMBS limbs of _BITS bits each.
_BITS, _LIMBS = 30, 4
# Relative margin for rounding in the arguments: distances, priors, losses.
_ROOM = 2.0**-44
# Solvers find no multiplier near this limit, and no sum of smaller ones overflows.
_LARGEST = 1e100

_Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Proof(Immutable):
    """Multipliers y >= 0 of some rows k(right, z) >= exp(-eps d(left, right)) k(left, z).

    Attributes
    ----------
    epsilon
        The level that the rows are about.
    output, left, right
        (r,) which output each row is about, and the two places.
    value
        (r,) multipliers, in the units of prior times quality loss.
    """

    epsilon: float
    output: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array

    def __repr__(self) -> str:
        return f"Proof({len(self.value):,} multipliers at epsilon={self.epsilon:g})"


def lower_bound(
    proof: Proof,
    prior: ArrayLike,
    quality_metric: ArrayLike,
    privacy_metric: ArrayLike,
    decay: Decay | None = None,
) -> float:
    """Return a lower bound on the quality loss of every private mechanism, in km.

    LB(y) = sum over x of min over z of prior(x) d_Q(x, z) - (A'y)(x, z). In A'y, the multiplier y
    of a row adds + y at its right place and - y exp(-eps d) at its left place. For any y >= 0 and
    any private K, sum prior d_Q K >= sum (prior d_Q - A'y) K >= LB(y): the first inequality holds
    because A K >= 0, the second because the rows of K sum to 1 (weak duality).

    The result is LB(y) rounded down: exp is computed with ball arithmetic, sums with integers.
    It holds for these numbers and for all within a relative 2^-51 of them, so for the true
    Euclidean distances too. Several calls for the same places are faster with one ``decay``.

    Raises
    ------
    GuaranteeError
        If these are not multipliers of rows: one is negative, infinite or above 1e100, or does not
        belong to a pair of different places. Then nothing is proved.
    """
    if not isinstance(proof, Proof):
        raise InputError(
            f"proof must be a Proof, got {type(proof).__name__}: take the proof of a mechanism "
            'that optimal(..., solver="structured") builds'
        )
    quality = as_numbers("quality_metric", quality_metric, (None, None))
    n, m = quality.shape
    weights = as_prior(prior, n)
    metric = as_numbers("privacy_metric", privacy_metric, (n, n))
    for name, values in (("quality_metric", quality), ("privacy_metric", metric)):
        if values.size == 0 or (values < 0).any():
            raise InputError(f"{name} must hold numbers, none of them negative")
    output, left, right, y = valid_rows(proof, n, m)
    if decay is None or decay.epsilon != proof.epsilon:
        decay = Decay(proof.epsilon)
    values = decay.of_rows(metric, left, right)
    return _down(math.fsum(_least(weights[:, None] * quality, output, left, right, y, values)))


def relative_gap(loss: float, bound: float) -> float:
    """Return the optimality gap (loss - bound) / loss, rounded up.

    The gap of a loss of 0 is 0.

    >>> relative_gap(0.0, 0.0)
    0.0
    """
    if not loss > 0:
        return 0.0
    return min(1.0, max(0.0, (loss - bound) / loss + _ROOM))


def valid_rows(proof: Proof, n: int, m: int) -> tuple[_Integers, _Integers, _Integers, Array]:
    """Return the output, the two places and the multiplier of each row, after checking them.

    Raises
    ------
    GuaranteeError
        If these are not multipliers of rows for n inputs and m outputs.
    """
    try:
        y = np.asarray(proof.value, dtype=np.float64)
    except (TypeError, ValueError):
        raise GuaranteeError("not a proof: its multipliers are not numbers") from None
    if y.ndim != 1 or not ((y >= 0) & (y <= _LARGEST)).all():
        raise GuaranteeError("not a proof: a multiplier is negative or not a number, or too large")
    found: list[_Integers] = []
    for part, most, what in (
        (proof.output, m, "an output"), (proof.left, n, "a place"), (proof.right, n, "a place"),
    ):  # fmt: skip
        numbers = np.asarray(part)
        if numbers.shape != y.shape or (len(y) and numbers.dtype.kind not in "iu"):
            raise GuaranteeError("not a proof: every row must have an output, two places, a number")
        if len(y) and not (numbers.min() >= 0 and numbers.max() < most):
            raise GuaranteeError(f"not a proof: a row is about {what} that is none of the {most}")
        found.append(numbers.astype(np.int64))
    if (found[1] == found[2]).any():
        raise GuaranteeError("not a proof: a row is about a place and itself")
    return found[0], found[1], found[2], y


class Decay:
    """The values of exp(-eps d), rounded down by ball arithmetic, each computed once.

    People on the same places need the same ones.
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = as_epsilon(epsilon)
        self._known: dict[float, float] = {}

    def of_rows(self, metric: Array, left: _Integers, right: _Integers) -> Array:
        """Return the value for the pair of every row."""
        # The distances of (x, x') and (x', x) may differ by rounding; the longer one is safe.
        far = np.maximum(metric[left, right], metric[right, left])
        distances, which = np.unique(far, return_inverse=True)
        missing = [d for d in distances.tolist() if d not in self._known]
        if missing:
            with ball_arithmetic() as arb:
                scale = -(arb(self.epsilon) * (1 + arb(2) ** -50))
                self._known |= {d: float((scale * arb(d)).exp().lower()) for d in missing}
        low = np.array([self._known[d] for d in distances.tolist()])
        return np.asarray(_below(low)[which])


def _least(
    weighted_loss: Array,
    output: _Integers,
    left: _Integers,
    right: _Integers,
    y: Array,
    decay: Array,
) -> Array:
    """Return for every place the smallest prior d_Q - A'y over the outputs, rounded down.

    Every number is cut into limbs: integers, whose sums are exact.
    """
    m = weighted_loss.shape[1]
    largest = max(float(weighted_loss.max()), float(y.max(initial=0.0)))
    # The sum of all terms stays below 2^top.
    top = max(math.frexp(largest)[1], -800) + (2 * len(y) + 1).bit_length()
    limbs = _cut(_below(weighted_loss).ravel(), top)
    for limb, part in zip(limbs, _cut(_below(y * decay), top), strict=True):
        np.add.at(limb, left * m + output, part)
    for limb, part in zip(limbs, _cut(y, top, up=True), strict=True):
        np.subtract.at(limb, right * m + output, part)
    for upper, lower in zip(limbs[-2::-1], limbs[:0:-1], strict=True):
        upper += lower >> _BITS
        lower &= (1 << _BITS) - 1
    high = _as_double((limbs[0] << _BITS) + limbs[1], top - 2 * _BITS)
    low = _as_double((limbs[2] << _BITS) + limbs[3], top - 4 * _BITS)
    return np.asarray(np.nextafter(high + low, -np.inf).reshape(weighted_loss.shape).min(axis=1))


def _cut(numbers: Array, top: int, *, up: bool = False) -> list[_Integers]:
    """Cut non-negative numbers below 2^top into limbs, rounded down, or up to the next limb."""
    rest, limbs = np.ldexp(numbers, -top), []
    for _ in range(_LIMBS):
        rest = np.ldexp(rest, _BITS)
        integers = np.floor(rest)
        limbs.append(integers.astype(np.int64))
        rest = rest - integers
    if up:
        limbs[-1] += numbers > 0
    return limbs


def _as_double(integers: _Integers, exponent: int) -> Array:
    """Return the largest doubles not above integers 2^exponent, for integers of less than 2^62."""
    near = integers.astype(np.float64)
    low = np.where(near.astype(np.int64) > integers, np.nextafter(near, -np.inf), near)
    return np.asarray(np.ldexp(low, exponent))


def _below(numbers: Array) -> Array:
    """Return a lower bound of non-negative numbers that were rounded to nearest."""
    return np.maximum(np.nextafter(numbers, -np.inf), 0.0)


def _down(value: float) -> float:
    """Round a sum down by the rounding error that its terms may have."""
    return math.nextafter(value - abs(value) * _ROOM, -math.inf)
