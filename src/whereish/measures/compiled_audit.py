"""The inner loop of `audit.audit_counts`, compiled with numba: for many millions of ratios.

It is the same integer comparison as ``audit._broken``.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def first_broken(low, high, counts, factor, shift, worst):
    """Set worst[x] to the first x' m + z at which counts[x, z] is too large, for low <= x < high.

    Too large means above factor[x, x'] counts[x', z] / 2^shift[x, x'], in exact arithmetic. If
    there is none, worst[x] is not changed.
    """
    n, m = counts.shape
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    for x in range(low, high):
        for other in range(n):
            f, s = factor[x, other], np.uint64(shift[x, other])
            f1, f0 = f >> half, f & mask
            broken = -1
            for z in range(m - 1, -1, -1):
                c = counts[other, z]
                c1, c0 = c >> half, c & mask
                middle, more = f1 * c0, f0 * c1
                carry = ((f0 * c0) >> half) + (middle & mask) + (more & mask)
                top = f1 * c1 + (middle >> half) + (more >> half) + (carry >> half)
                bottom = f * c
                allowed = ((top << (np.uint64(63) - s)) << np.uint64(1)) | (bottom >> s)
                if s == 0:
                    allowed = bottom
                if (top >> s) == 0 and counts[x, z] > allowed:
                    broken = z
            if broken >= 0:
                worst[x] = other * m + broken
                break
