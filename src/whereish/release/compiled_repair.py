"""The two loops of `repair.repair` over pairs and outputs, compiled: for large matrices."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def lift(low, high, matrix, decay, lifted):
    """Set lifted[x, z] to the largest decay[x, y] k(y, z) over y, for low <= x < high.

    ``decay`` is exp(-eps d).
    """
    n, m = matrix.shape
    for x in range(low, high):
        for z in range(m):
            lifted[x, z] = matrix[x, z]
        for y in range(n):
            factor = decay[x, y]
            for z in range(m):
                least = factor * matrix[y, z]
                lifted[x, z] = least if least > lifted[x, z] else lifted[x, z]


@njit(nogil=True, cache=True, error_model="numpy")
def shortfalls(low, high, matrix, factors, short):
    """Set short[x, y] to max over z of k(x, z) - factors[x, y] k(y, z), for low <= x < high."""
    n, m = matrix.shape
    for x in range(low, high):
        for y in range(n):
            worst = 0.0
            for z in range(m):
                lost = matrix[x, z] - factors[x, y] * matrix[y, z]
                worst = lost if lost > worst else worst
            short[x, y] = worst
