"""The area of a map: a rectangle of degrees, given in words or around places."""

from __future__ import annotations

import math
from typing import NamedTuple

from whereish.errors import InputError
from whereish.places import Places

KM_PER_DEGREE = 111.2
_FURTHEST_LAT = 85.0  # of Web Mercator, which pages draw


class Area(NamedTuple):
    """A rectangle in degrees. It tells where somebody lives: no message repeats it."""

    south: float
    west: float
    north: float
    east: float

    @property
    def size_km(self) -> tuple[float, float]:
        """Return its width and height."""
        shrink = math.cos(math.radians((self.south + self.north) / 2))
        return (
            (self.east - self.west) * KM_PER_DEGREE * shrink,
            (self.north - self.south) * KM_PER_DEGREE,
        )

    def grown(self, km: float) -> Area:
        """Return the area with a margin on every side."""
        up = km / KM_PER_DEGREE
        wide = up / max(math.cos(math.radians((self.south + self.north) / 2)), 0.05)
        return Area(
            max(self.south - up, -_FURTHEST_LAT), max(self.west - wide, -180.0),
            min(self.north + up, _FURTHEST_LAT), min(self.east + wide, 180.0),
        )  # fmt: skip


def parse_area(text: str) -> Area:
    """Read ``south,west,north,east`` in degrees.

    Raises
    ------
    InputError
        If it is no such rectangle. The message does not repeat a number.
    """
    try:
        south, west, north, east = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "area must be four numbers in degrees, south,west,north,east, like 48.8,2.2,48.9,2.5"
        ) from None
    if not (-_FURTHEST_LAT <= south < north <= _FURTHEST_LAT and -180 <= west < east <= 180):
        raise InputError(
            "area must be south,west,north,east with south < north (from -85 to 85) and west < "
            "east (from -180 to 180), and this one is not: is the order right?"
        )
    return Area(south, west, north, east)


def area_around(places: Places, margin_km: float | None) -> Area:
    """Return the rectangle around places, with a margin (by default a fifth of its size)."""
    if places.plane is None:
        raise InputError("places must be in degrees (lat, lon) to find a map around them")
    latlon = places.plane.to_latlon(places.xy)
    (south, west), (north, east) = latlon.min(axis=0), latlon.max(axis=0)
    tight = Area(float(south), float(west), float(north), float(east))
    return tight.grown(max(max(tight.size_km) / 5, 1.0) if margin_km is None else margin_km)
