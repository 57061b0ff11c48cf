"""The exact audit of counts on a lattice: a guarantee for all points of the plane.

Between the vertices of a lattice, probabilities are interpolated bilinearly. The mechanism is
eps-geo-indistinguishable on the whole plane if at every corner v of every cell, with a and b its
horizontal and vertical neighbour in that cell, at distances g and h,

    ((N_a - N_v) / g)^2 + ((N_b - N_v) / h)^2 <= (eps N_v)^2,

and only then. Distances are whole units of the lattice and eps is a double, so both sides are
rational, and the comparison is one of integers. Clear cases are decided in floating point, with a
margin that covers its rounding; the others in Python's integers. The audit does not know how a
mechanism was built. The proof is in docs/proofs/everywhere.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from whereish.errors import GuaranteeError, InputError
from whereish.measures.audit import Counts, check_rows
from whereish.places import Array, as_epsilon
from whereish.places.lattice import UNITS_PER_KM, Lattice

# Each side of a comparison is at most 8 roundings of 2^-53 away from its true value.
_MARGIN = 2.0**-48


@dataclass(frozen=True)
class LatticeVerdict:
    """The result of an audit on a lattice.

    Attributes
    ----------
    corners
        The number of comparisons: corners of cells, times outputs.
    tightest
        The smallest epsilon, per km, for which the counts pass, rounded up to a double: the
        largest of sqrt(((N_a - N_v) / g)^2 + ((N_b - N_v) / h)^2) / N_v. Never above epsilon.
    vertex, output
        The corner and the output that attain it.
    """

    corners: int
    tightest: float
    vertex: int
    output: int


@dataclass(frozen=True, eq=False)
class _Corners:
    """The corners of all cells on one side, such as the lower left ones, as slices of a lattice."""

    here: tuple[slice, slice]  # the corners, in (ny, nx)
    beside: tuple[slice, slice]  # their horizontal neighbours; the corners themselves on a line
    above: tuple[slice, slice]  # their vertical neighbours
    widths: NDArray[np.int64]  # (1, cells in a row) distance to the horizontal neighbour, in units
    heights: NDArray[np.int64]  # (cells in a column, 1)


def audit_lattice(counts: Counts, lattice: Lattice, epsilon: float) -> LatticeVerdict:
    """Check every row and every corner of released counts, exactly.

    Raises
    ------
    GuaranteeError
        If a row or a corner is wrong: the message names the vertex and the output.
    """
    level = as_epsilon(epsilon)
    table = _as_table(counts, lattice)
    rate = level / UNITS_PER_KM  # exact: a division by a power of two
    exact_rate, corners = Fraction(rate), 0
    for part in _sides(lattice):
        slopes, allowed = _squares(table, part, rate)
        corners += slopes.size
        unclear = ~(slopes * (1 + _MARGIN) <= allowed)
        for flat in np.flatnonzero(unclear):  # no list: of a forged file, all may be unclear
            iy, ix, z = (int(index) for index in np.unravel_index(flat, unclear.shape))
            square, here = _exact_square(table, part, iy, ix, z)
            if square > (exact_rate * here) ** 2:
                raise GuaranteeError(
                    f"not private everywhere: output {z} changes too fast at vertex "
                    f"{_vertex(lattice, part, iy, ix)} for epsilon {level:g}"
                )
    value, vertex, output = steepest(counts, lattice)
    return LatticeVerdict(corners, value, vertex, output)


def steepest(counts: Counts, lattice: Lattice) -> tuple[float, int, int]:
    """Return the tightest epsilon of counts on a lattice per km, and the vertex and output of it.

    It is rounded up to a double, and infinite if an output has no counts at one corner of a cell
    and some at a neighbouring one.
    """
    table = _as_table(counts, lattice)
    best, at = 0.0, (0, 0)
    found: list[tuple[_Corners, Array]] = []
    for part in _sides(lattice):
        slopes, squares = _squares(table, part, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.nan_to_num(slopes / squares, nan=0.0, posinf=np.inf)
        found.append((part, ratios))
        best = max(best, float(ratios.max(initial=0.0)))
    exact = Fraction(0)
    for part, ratios in found:
        if best == 0:
            break
        where = ratios >= best * (1 - 2 * _MARGIN) if best < np.inf else np.isinf(ratios)
        for iy, ix, z in np.argwhere(where).tolist():
            square, here = _exact_square(table, part, iy, ix, z)
            if here == 0:
                return math.inf, _vertex(lattice, part, iy, ix), int(z)
            if square / here**2 > exact:
                exact = square / here**2
                at = _vertex(lattice, part, iy, ix), int(z)
    return _root_above(exact * Fraction(UNITS_PER_KM) ** 2), *at


def _as_table(counts: Counts, lattice: Lattice) -> Counts:
    counts = check_rows(counts)
    if len(counts) != len(lattice):
        raise InputError(f"counts must have {len(lattice)} rows, got {len(counts)}")
    return counts.reshape(len(lattice.ys), len(lattice.xs), -1)


def _sides(lattice: Lattice) -> Iterator[_Corners]:
    """Yield the corners of all cells: the lower left ones, the lower right ones, and so on.

    An axis with one coordinate has no neighbour: a corner stands for it, with a difference of 0.
    """
    spacing = [np.diff(axis) for axis in lattice.units]
    low, high, only = slice(None, -1), slice(1, None), slice(None)
    sides = [[(low, high), (high, low)] if len(steps) else [(only, only)] for steps in spacing]
    one = np.ones(1, np.int64)
    widths, heights = (steps if len(steps) else one for steps in spacing)
    if len(lattice) == 1:
        return
    for x, beside in sides[0]:
        for y, above in sides[1]:
            yield _Corners((y, x), (y, beside), (above, x), widths[None, :], heights[:, None])


def _squares(table: Counts, part: _Corners, rate: float) -> tuple[Array, Array]:
    """Return the squares of the slopes, and of rate times the counts, as floats.

    The differences are exact. Each is converted, divided and squared, and two are added: at most 6
    roundings. The other side has at most 5.
    """
    here = table[part.here]
    east = _distance(table[part.beside], here) / part.widths[:, :, None]
    north = _distance(table[part.above], here) / part.heights[:, :, None]
    return east * east + north * north, np.square(rate * here.astype(np.float64))


def _distance(one: Counts, other: Counts) -> Array:
    """Return |one - other|, exact before the conversion to floats: no difference wraps around."""
    return np.where(one > other, one - other, other - one).astype(np.float64)


def _exact_square(table: Counts, part: _Corners, iy: int, ix: int, z: int) -> tuple[Fraction, int]:
    """Return the square of the slope at one corner, and its count, exactly."""
    here, beside, above = (
        int(table[slices][iy, ix, z]) for slices in (part.here, part.beside, part.above)
    )
    width, height = int(part.widths[0, ix]), int(part.heights[iy, 0])
    return Fraction(beside - here, width) ** 2 + Fraction(above - here, height) ** 2, here


def _vertex(lattice: Lattice, part: _Corners, iy: int, ix: int) -> int:
    y, x = (index + (side.start or 0) for index, side in zip((iy, ix), part.here, strict=True))
    return int(y * len(lattice.xs) + x)


def _root_above(square: Fraction) -> float:
    """Return the smallest double, or the one after it, that is not below the square root."""
    guess = math.sqrt(square)
    while Fraction(guess) ** 2 < square:
        guess = math.nextafter(guess, math.inf)
    return guess
