"""Grids: equal cells over an area of the earth."""

from __future__ import annotations

import numpy as np

from whereish.errors import InputError, described
from whereish.places.points import LocalPlane, Places, as_latlon
from whereish.places.validation import as_number


def square_grid(
    south: float, west: float, north: float, east: float,
    cell_km: tuple[float, float] = (0.658, 0.712),
) -> Places:  # fmt: skip
    """Cover an area of the earth with equal cells and return their centres.

    The cells are laid out in the local plane of the area, row by row from the south-west, so
    that distances between them are those of a perfect grid. ``west`` may be larger than
    ``east``: the area then crosses the date line. A cell that is partly inside counts; for a given
    number of rows and columns take `Places.from_xy`.

    Parameters
    ----------
    south, west, north, east
        The area, in degrees.
    cell_km
        Width and height of a cell. The default is the paper's (Section 4.2).

    >>> square_grid(south=48.84, west=2.29, north=48.89, east=2.38, cell_km=(1.0, 1.0))
    Places(42 within 6 x 5 km, around 48.865, 2.335)
    """
    plane, cell, (columns, rows) = grid_layout(south, west, north, east, cell_km)
    x = (np.arange(columns) - (columns - 1) / 2) * cell[0]
    y = (np.arange(rows) - (rows - 1) / 2) * cell[1]
    xy = np.column_stack([np.tile(x, rows), np.repeat(y, columns)])
    return Places(xy, plane.to_latlon(xy), plane, cell)


def grid_layout(
    south: float, west: float, north: float, east: float, cell_km: tuple[float, float]
) -> tuple[LocalPlane, tuple[float, float], tuple[int, int]]:
    """Lay cells over an area: return the plane, a cell's size, and how many columns and rows.

    The middle of the grid is where the plane touches the earth.
    """
    (south, west), (north, east) = as_latlon([[south, west], [north, east]]).tolist()
    if north <= south:
        raise InputError("north must be above south, and it is not")
    try:
        width, height = cell_km
    except (TypeError, ValueError):
        raise InputError(
            f"cell_km must be (width, height) in km, got {described(cell_km)}"
        ) from None
    cell_width = as_number("cell_km[0]", width, unit="km")
    cell_height = as_number("cell_km[1]", height, unit="km")
    span = (east - west) % 360
    if span == 0:
        raise InputError("east must differ from west, and they are the same")
    if span > 90:
        raise InputError(f"an area must be a region, not a hemisphere, got {span:g} degrees of lon")
    middle = (south + north) / 2
    plane = LocalPlane(middle, (west + span / 2 + 180) % 360 - 180)
    corners = plane.to_xy([[lat, lon] for lat in (south, middle, north) for lon in (west, east)])
    columns = _cells(np.ptp(corners[:, 0]), cell_width)
    rows = _cells(np.ptp(corners[:, 1]), cell_height)
    if columns * rows > 1_000_000:
        raise InputError(f"cell_km makes {columns * rows:,} cells: take larger cells")
    return plane, (cell_width, cell_height), (columns, rows)


def _cells(length: float, cell: float) -> int:
    # A cell that would stick out by less than a millionth of itself is rounding, not area.
    return max(1, int(np.ceil(length / cell - 1e-6)))
