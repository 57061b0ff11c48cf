"""The places of a profile as regions: to count other traces, or another time of day, at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.places import Array, Places
from whereish.profiles.profile import Profile
from whereish.profiles.regions import ELSEWHERE, Districts, Ids, Regions

# A file gives the centres of cells, not the grid: edges are known to this share of a cell.
_EDGE = 0.005
_PAIRS_A_STEP = 1_000_000


@dataclass(frozen=True, eq=False)
class KnownPlaces(Regions):
    """Places that are given, numbered as they come.

    A point is at the nearest place, in cells' widths and heights where the places are cells; it is
    elsewhere if it is outside that cell or, where there are no cells, further away than any place
    is from the one next to it.
    """

    known: Places = field(repr=False)

    def of(self, lat: Array, lon: Array) -> Ids:
        """Return the number of the place each point is at."""
        plane, cell = self.known.plane, self.known.cell_km
        if plane is None:
            raise InputError("the profile must have places on the earth (lat, lon), got x_km, y_km")
        lat, lon = np.asarray(lat, np.float64), np.asarray(lon, np.float64)
        found = np.full(len(lat), ELSEWHERE)
        step = max(1, _PAIRS_A_STEP // len(self.known))
        for start in range(0, len(lat), step):
            part = slice(start, start + step)
            xy = plane.to_xy(np.column_stack([lat[part], lon[part]]))
            off = np.abs(xy[:, None] - self.known.xy)
            away = (off / cell).max(axis=2) if cell else np.hypot(off[..., 0], off[..., 1])
            best = away.argmin(axis=1)
            reach = 0.5 + _EDGE if cell else self.known.largest_snap_km
            there = away[np.arange(len(best)), best] <= reach
            found[part] = np.where(there, best, ELSEWHERE)
        return found

    def places(self, ids: Ids) -> Places:
        """Return some of the places."""
        return self.known.subset(ids.tolist())

    def recipe(self) -> Any:
        """Return where the places are."""
        latlon = [] if self.known.latlon is None else self.known.latlon.tolist()
        return ["known", latlon, self.known.cell_km]


def regions_of(profile: Profile) -> Regions:
    """Return the places of a profile as regions, numbered as they come in it."""
    if not isinstance(profile, Profile):
        raise InputError(f"a profile is needed, got {type(profile).__name__}")
    if profile.regions is not None:
        return Districts(profile.regions)
    if profile.places.plane is None:
        raise InputError("the profile must have places on the earth (lat, lon), got x_km, y_km")
    return KnownPlaces(profile.places)
