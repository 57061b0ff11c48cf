"""The inner loop of `privacy.check_private`, compiled with numba: for many millions of ratios."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

_AT_ONCE = 8


@njit(nogil=True, cache=True, error_model="numpy")
def worst_ratios(low, high, matrix, inverse, worst):
    """Set worst[x, y] to the largest k(x, z) / k(y, z) over z, for low <= x < high.

    ``inverse`` is 1 / k, (outputs, inputs). 0 / 0 is NaN, which compares as not larger.
    """
    n = len(matrix)
    largest = np.empty((_AT_ONCE, n))
    for first in range(low, high, _AT_ONCE):
        count = min(_AT_ONCE, high - first)
        largest[:] = 0.0
        for z in range(len(inverse)):
            other = inverse[z]
            for a in range(count):
                here = matrix[first + a, z]
                best = largest[a]
                for y in range(n):
                    ratio = here * other[y]
                    best[y] = ratio if ratio > best[y] else best[y]
        worst[first : first + count] = largest[:count]
