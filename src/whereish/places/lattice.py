"""A rectangular lattice in the plane: any spacings, bilinear weights, and cells of raw points.

Coordinates are whole numbers of a unit of 2^-40 km, about a nanometre. A raw point is rounded to
units first, and from then on everything is exact: the cell of a point, its position in the cell,
and so the probabilities of a mechanism on the lattice. See docs/proofs/everywhere.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.places.points import SAME_PLACE_KM
from whereish.places.validation import Array, Immutable, as_numbers, readonly

Whole = NDArray[np.int64]

UNITS_PER_KM = 2.0**40  # a power of two: a multiplication by it is exact
# A lattice is within this distance of the origin, so that its coordinates in units, and their
# differences, are exact doubles. That is further than an epsilon per km is allowed on the earth.
FURTHEST_LATTICE_KM = 4096.0


def to_units(points: Array) -> Whole:
    """Round coordinates in km to whole units: floor(2^40 x + 1/2).

    Coordinates beyond 8192 km count as 8192 km: no lattice goes that far, so the projection onto a
    lattice is the same. Up to 4096 km, where lattices end, the sum is exact.
    """
    limit = 2 * FURTHEST_LATTICE_KM
    return np.floor(np.clip(points, -limit, limit) * UNITS_PER_KM + 0.5).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Position:
    """Where points are in a lattice, after the projection onto its rectangle.

    Attributes
    ----------
    lower, upper
        (n, 2) indices in xs and ys of the lower left and the upper right corner of the cell; the
        same index twice where an axis has one coordinate.
    steps, widths
        (n, 2) units from the lower corner to the point, and to the upper corner. 0 and 1 where an
        axis has one coordinate.
    moved_km
        (n,) how far the projection onto the rectangle moved each point.
    """

    lower: Whole
    upper: Whole
    steps: Whole
    widths: Whole
    moved_km: Array


@dataclass(frozen=True, eq=False)
class Lattice(Immutable):
    """The vertices (x, y) of all x in xs and y in ys.

    Vertex iy * len(xs) + ix is at (xs[ix], ys[iy]). One coordinate in xs or ys makes a line, one
    in each a single vertex.

    Parameters
    ----------
    xs, ys
        Increasing coordinates in km. They are rounded to units of 2^-40 km.

    >>> lattice = Lattice([0, 1, 3], [0, 2])
    >>> len(lattice), lattice.vertices[5].tolist()
    (6, [3.0, 2.0])
    >>> Lattice([0, 0], [0, 2])
    Traceback (most recent call last):
    whereish.errors.InputError: xs must be increasing by a millimetre or more at each step, and at \
[1] it is not
    """

    xs: Array
    ys: Array

    def __post_init__(self) -> None:
        for name in ("xs", "ys"):
            given = as_numbers(name, getattr(self, name), (None,))
            if len(given) == 0:
                raise InputError(f"{name} must hold at least one coordinate, got none")
            if np.abs(given).max() > FURTHEST_LATTICE_KM:
                raise InputError(
                    f"{name} must be within {FURTHEST_LATTICE_KM:g} km of the origin, and a "
                    "coordinate is not"
                )
            whole = to_units(given)
            steps = np.diff(whole)
            if (steps < SAME_PLACE_KM * UNITS_PER_KM).any():
                at = int(np.argmax(steps < SAME_PLACE_KM * UNITS_PER_KM)) + 1
                raise InputError(
                    f"{name} must be increasing by a millimetre or more at each step, and at "
                    f"[{at}] it is not"
                )
            object.__setattr__(self, name, readonly(whole / UNITS_PER_KM))

    def __len__(self) -> int:
        return len(self.xs) * len(self.ys)

    def __iter__(self) -> Iterator[Array]:
        """Return xs and ys, so that ``xs, ys = lattice`` works."""
        return iter((self.xs, self.ys))

    def __repr__(self) -> str:
        width, height = np.ptp(self.xs), np.ptp(self.ys)
        return f"Lattice({len(self.xs)} x {len(self.ys)} within {width:.3g} x {height:.3g} km)"

    @cached_property
    def units(self) -> tuple[Whole, Whole]:
        """Return xs and ys in whole units."""
        return to_units(self.xs), to_units(self.ys)

    @cached_property
    def vertices(self) -> Array:
        """(n, 2) coordinates of the vertices, in km."""
        nx, ny = len(self.xs), len(self.ys)
        return np.column_stack([np.tile(self.xs, ny), np.repeat(self.ys, nx)])

    @property
    def cells(self) -> int:
        """The number of cells; of intervals, if the lattice is a line."""
        return max(1, len(self.xs) - 1) * max(1, len(self.ys) - 1)

    def position(self, points: ArrayLike) -> Position:
        """Return where (n, 2) points in km are, after rounding and the projection."""
        raw = as_numbers("points", points, (None, 2))
        whole = to_units(raw)
        parts = [_on_axis(axis, whole[:, k]) for k, axis in enumerate(self.units)]
        lower, upper, steps, widths = (np.column_stack(part) for part in zip(*parts, strict=True))
        corner = np.array([[self.xs[0], self.ys[0]], [self.xs[-1], self.ys[-1]]])
        moved = np.hypot(*(raw - np.clip(raw, corner[0], corner[1])).T)
        return Position(lower, upper, steps, widths, moved)

    def weights(self, points: ArrayLike) -> tuple[Whole, Array]:
        """Return the (n, 4) corners of the cells of points, and their bilinear weights, as floats.

        >>> corners, weights = Lattice([0, 1], [0, 1]).weights([[0.25, 0.5]])
        >>> corners.tolist(), weights.tolist()
        ([[0, 1, 2, 3]], [[0.375, 0.125, 0.375, 0.125]])
        """
        at = self.position(points)
        s, t = (at.steps / at.widths).T
        corners = [
            y[:, 1] * len(self.xs) + x[:, 0]
            for y in (at.lower, at.upper)
            for x in (at.lower, at.upper)
        ]
        return np.column_stack(corners), np.column_stack(
            [(1 - t) * (1 - s), (1 - t) * s, t * (1 - s), t * s]
        )

    def spread(self, points: ArrayLike, values: Array) -> Array:
        """Return (vertices, m) sums over the points of weight times values, which are (n, m)."""
        corners, weights = self.weights(points)
        total = np.zeros((len(self), values.shape[1]))
        for k in range(4):
            np.add.at(total, corners[:, k], weights[:, k, None] * values)
        return total


def _on_axis(axis: Whole, at: Whole) -> tuple[Any, ...]:
    if len(axis) == 1:
        nothing = np.zeros(len(at), np.int64)
        return nothing, nothing, nothing, nothing + 1
    inside = np.clip(at, axis[0], axis[-1])
    lower = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, len(axis) - 2)
    return lower, lower + 1, inside - axis[lower], axis[lower + 1] - axis[lower]
