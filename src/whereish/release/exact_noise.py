"""Exact planar Laplace noise on a grid of integers: no floating point, no remainder.

The noise (a, b) has probability proportional to exp(-rate sqrt(a^2 + b^2)) on all pairs of
integers. It is drawn by rejection from two independent discrete Laplace variables, which are drawn
exactly from uniform integers [1]_. The probability to keep a pair is exp(-g) with

    g = rate sqrt(a^2 + b^2) - (|a| + |b|) / t >= 0,    t >= sqrt(2) / rate an integer.

g is irrational; it is enclosed in rational intervals that get narrower until a comparison is
decided. The number of words that are used depends on the noise: who sees a report must not see how
long it took to draw. The proof is in docs/proofs/everywhere.md.

References
----------
.. [1] Canonne, Kamath, Steinke: The discrete Gaussian for differential privacy. NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from whereish.errors import InputError
from whereish.release.sampler import uniform

_BUFFER = 256  # words that are fetched at a time; what is left over is thrown away

Bounds = Callable[[int], tuple[int, int, int]]


class PlanarNoise:
    """A source of planar Laplace noise on pairs of integers; for one call, it keeps no state.

    Parameters
    ----------
    rate
        The decay per step of the grid, a positive double taken as the rational number that it is.
    rng
        A seeded generator, for studies only.
    """

    def __init__(self, rate: float, rng: np.random.Generator | None = None) -> None:
        if rng is not None and not isinstance(rng, np.random.Generator):
            raise InputError(f"rng must be a numpy Generator, got {type(rng).__name__}")
        self._rng = rng
        self._words: list[int] = []
        self._rate = Fraction(rate)
        # The least integer t with t^2 >= 2 / rate^2, so that 1 / t <= rate / sqrt(2).
        square = 2 / self._rate**2
        self._scale = math.isqrt(math.ceil(square) - 1) + 1

    def draw(self) -> tuple[int, int]:
        """Return one pair."""
        while True:
            a, b = self._discrete_laplace(), self._discrete_laplace()
            if self._kept(a, b):
                return a, b

    def _word(self) -> int:
        if not self._words:
            self._words = uniform(_BUFFER, self._rng).tolist()[::-1]
        return self._words.pop()

    def _chance(self, p: int, q: int) -> bool:
        """Return True with probability p / q, for 0 <= p <= q."""
        rest = p
        while True:
            quotient, rest = divmod(rest << 63, q)
            word = self._word()
            if word != quotient or rest == 0:
                return word < quotient

    def _below(self, bound: int) -> int:
        """Return a uniform integer from 0 to bound - 1."""
        bits = (bound - 1).bit_length()
        words = -(-bits // 63)
        while True:
            value = 0
            for _ in range(words):
                value = value << 63 | self._word()
            value >>= 63 * words - bits
            if value < bound:
                return value

    def _chance_exp(self, p: int, q: int) -> bool:
        """Return True with probability exp(-p / q), for 0 <= p <= q (Algorithm 1 of [1])."""
        k = 1
        while self._chance(p, q * k):
            k += 1
        return k % 2 == 1

    def _discrete_laplace(self) -> int:
        """Return an integer a with probability proportional to exp(-|a| / t) (Algorithm 2)."""
        while True:
            small = self._below(self._scale)
            if not self._chance_exp(small, self._scale):
                continue
            large = 0
            while self._chance_exp(1, 1):
                large += 1
            size = small + self._scale * large
            negative = self._word() & 1
            if size or not negative:
                return -size if negative else size

    def _kept(self, a: int, b: int) -> bool:
        """Return True with probability exp(-g): exp(-g / n) n times, with n >= g."""
        p, q = self._rate.numerator, self._rate.denominator
        square, steps = p * p * (a * a + b * b), abs(a) + abs(b)

        def bounds(bits: int) -> tuple[int, int, int]:
            """Return integers low, high and d with low / d <= g <= high / d."""
            root = math.isqrt(square << 2 * bits)
            most = root if root * root == square << 2 * bits else root + 1
            less = steps * (q << bits)
            return (
                max(0, root * self._scale - less),
                most * self._scale - less,
                (q << bits) * self._scale,
            )

        _, high, whole = bounds(64)
        times = max(1, -(-high // whole))
        return all(self._chance_exp_of(bounds, times) for _ in range(times))

    def _chance_exp_of(self, bounds: Bounds, times: int) -> bool:
        """Return True with probability exp(-g / times), as `_chance_exp`."""
        k = 1
        while self._chance_of(bounds, times * k):
            k += 1
        return k % 2 == 1

    def _chance_of(self, bounds: Bounds, divisor: int) -> bool:
        """Return True with probability g / divisor: a uniform real number is below it."""
        value = bits = 0
        while True:
            value, bits = value << 63 | self._word(), bits + 63
            low, high, whole = bounds(bits + 64)
            if (value + 1) * whole * divisor <= low << bits:
                return True
            if value * whole * divisor >= high << bits:
                return False
