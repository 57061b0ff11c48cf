"""From where somebody is to a row of the mechanism: the nearest place, and what is outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError, described
from whereish.places import Array, Places, as_numbers

OUTSIDE = ("error", "nearest", "planar-laplace")


@dataclass(frozen=True, eq=False)
class Reports:
    """What is reported, and how it came about.

    Attributes
    ----------
    outputs
        The numbers of the places that are reported; -1 for a point outside that was given planar
        Laplace noise instead.
    xy
        (n, 2) km in the plane of the places.
    latlon
        (n, 2) degrees, where the places lie on the earth.
    snapped_km
        How far each point was from the place that stood for it; 0 for a place given by number.
        It says something of where somebody is: it is not for passing on.
    outside
        Which points were outside the area of the places.
    seeded
        Whether a seeded generator was used: then the reports protect nobody.
    """

    outputs: NDArray[np.int64]
    xy: Array
    latlon: Array | None
    snapped_km: Array
    outside: NDArray[np.bool_]
    seeded: bool

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        seeded = ", seeded: for studies only" if self.seeded else ""
        return f"Reports({len(self)}{seeded})"


@dataclass(frozen=True, eq=False)
class Located:
    """Which place stands for each point, how far away it is, and whether that is outside."""

    rows: NDArray[np.int64]
    xy: Array
    snapped_km: Array
    outside: NDArray[np.bool_]


def locate(places: Places, at: Any) -> Located:
    """Find the place that stands for each of some points, or take places by number.

    Parameters
    ----------
    at
        An integer, or integers: places by number. A tuple of two numbers, or (n, 2) points:
        degrees of latitude and longitude for places on the earth, km in the plane for others.
    """
    try:
        given = np.asarray(at)
    except ValueError:
        given = np.empty(0, dtype=object)
    point = isinstance(at, tuple) and len(at) == 2  # (48, 2) is a point, [48, 2] two places
    if given.dtype.kind in "iu" and given.ndim <= 1 and not point:
        rows = given.reshape(-1).astype(np.int64)
        if len(rows) == 0 or rows.min() < 0 or rows.max() >= len(places):
            raise InputError(f"at must be the number of a place, from 0 to {len(places) - 1}")
        inside = np.zeros(len(rows), dtype=bool)
        return Located(rows, places.xy[rows], np.zeros(len(rows)), inside)
    shaped = given.shape == (2,) or (given.ndim == 2 and given.shape[1] == 2)
    if given.dtype.kind not in "fiu" or not shaped or given.size == 0:
        raise InputError("at must be the number of a place, or points of two coordinates each")
    try:
        points = as_numbers("at", given.reshape(-1, 2), (None, 2))
        xy = points if places.plane is None else places.plane.to_xy(points)
    except InputError:
        # No message holds a number of it: it is where somebody is.
        raise InputError(
            "at must be latitude from -90 to 90 and longitude from -180 to 180 degrees, in this "
            "order, or finite km in a plane"
        ) from None
    away, rows = places.tree.query(xy)
    return Located(rows.astype(np.int64), xy, away, away > places.reach_km * (1 + 1e-9))


def check_outside(
    located: Located, places: Places, outside: str, choices: tuple[str, ...] = OUTSIDE
) -> None:
    """Raise InputError if there are points outside and the policy does not say what to do."""
    if not isinstance(outside, str) or outside not in choices:
        raise InputError(f"outside must be one of {', '.join(choices)}, got {described(outside)}")
    if outside == "error" and located.outside.any():
        count = int(located.outside.sum())
        raise InputError(
            f"{count} of {len(located.rows)} points must be inside the area, within "
            f"{places.reach_km:.3g} km of a place, and are not; outside can be "
            f"{' or '.join(choices[1:])}, which says what to report for them"
        )
