"""The two loops of the repair over all pairs and outputs, compiled: for very large matrices."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def lift(low, high, matrix, shrink, lifted):
    """Put max over y of shrink(x, y) k(y, z) into ``lifted``, for x in low .. high."""
    n, m = matrix.shape
    for x in range(low, high):
        for z in range(m):
            lifted[x, z] = matrix[x, z]
        for y in range(n):
            share = shrink[x, y]
            for z in range(m):
                least = share * matrix[y, z]
                lifted[x, z] = least if least > lifted[x, z] else lifted[x, z]


@njit(nogil=True, cache=True, error_model="numpy")
def shortfalls(low, high, matrix, factors, short):
    """Put max over z of k(x, z) - factor(x, y) k(y, z) into ``short``, for x in low .. high."""
    n, m = matrix.shape
    for x in range(low, high):
        for y in range(n):
            worst = 0.0
            for z in range(m):
                lost = matrix[x, z] - factors[x, y] * matrix[y, z]
                worst = lost if lost > worst else worst
            short[x, y] = worst
