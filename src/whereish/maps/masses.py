"""How much lies in each cell of a grid: buildings and amenities by kind, from an extract.

They are the mass of the elastic metric, or a prior that is public: see `whereish.maps.elastic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.maps.area import Area
from whereish.maps.parser import MOST_POINTS, Progress, TooManyPointsError, parse_extract
from whereish.places import Array, LocalPlane, as_number
from whereish.places.elastic import Grid

# Which amenities are of which kind; all others are "other". A building is a "building".
_KINDS = {
    "food": ("restaurant", "cafe", "bar", "pub", "fast_food", "food_court", "biergarten",
             "ice_cream", "marketplace"),
    "education": ("school", "kindergarten", "college", "university", "library", "music_school",
                  "language_school", "research_institute", "childcare"),
    "health": ("hospital", "clinic", "doctors", "dentist", "pharmacy", "social_facility",
               "nursing_home", "veterinary"),
    "culture": ("theatre", "cinema", "arts_centre", "community_centre", "nightclub", "casino",
                "conference_centre", "events_venue", "studio"),
    "worship": ("place_of_worship", "monastery"),
    "transport": ("bus_station", "ferry_terminal", "taxi", "car_rental", "bicycle_rental",
                  "fuel", "parking"),
    "office": ("townhall", "courthouse", "embassy", "bank", "post_office", "police",
               "fire_station"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
KINDS_OF_MASS = ("building", *_KINDS, "shop", "other")
# Things in the street that hide nobody: benches and bins are amenities, too.
_SMALL = (
    "bench", "waste_basket", "bicycle_parking", "vending_machine", "post_box", "recycling",
    "parking_space", "parking_entrance", "drinking_water", "telephone", "atm", "clock", "fountain",
    "hunting_stand", "shelter", "toilets", "charging_station", "waste_disposal", "loading_dock",
    "grit_bin", "motorcycle_parking", "parcel_locker", "smoking_area", "bbq",
)  # fmt: skip
WEIGHTS = dict.fromkeys(KINDS_OF_MASS, 1.0)
_NEWS = 50_000


def mass_kind(tags: Mapping[str, str]) -> str | None:
    """Return the kind of what an object of OpenStreetMap adds to the mass; None for nothing.

    >>> mass_kind({"building": "yes", "amenity": "school"})
    'education'
    """
    if (amenity := tags.get("amenity")) is not None and amenity not in _SMALL:
        return _KIND_OF.get(amenity, "other")
    if tags.get("shop", "no") not in ("no", "vacant"):
        return "shop"
    return "building" if tags.get("building", "no") != "no" else None


class MassReader:
    """Collect the positions of buildings, shops and amenities, inside the area."""

    def __init__(self, area: Area | None, news: Progress) -> None:
        self.area, self.news = area, news
        self.found: list[tuple[float, float, int]] = []

    def read(self, path: str, store: str) -> None:
        """Read a file. An outline is where the middle of its nodes is."""
        import osmium

        objects: Any = (
            osmium.FileProcessor(path, osmium.osm.NODE | osmium.osm.WAY)
            .with_locations(store)
            .with_filter(osmium.filter.KeyFilter("building", "amenity", "shop"))
        )
        for one in objects:
            kind = mass_kind(dict(one.tags))
            if kind is None:
                continue
            nodes = [one.location] if one.is_node() else [node.location for node in one.nodes]
            at = [(node.lat, node.lon) for node in nodes if node.valid()]
            if at:
                lat, lon = (sum(part) / len(at) for part in zip(*at, strict=True))
                self._add(lat, lon, KINDS_OF_MASS.index(kind))

    def _add(self, lat: float, lon: float, kind: int) -> None:
        a = self.area
        if a is not None and not (a.south <= lat <= a.north and a.west <= lon <= a.east):
            return
        self.found.append((lat, lon, kind))
        if len(self.found) > MOST_POINTS:
            raise TooManyPointsError
        if len(self.found) % _NEWS == 0:
            self.news(f"{len(self.found):,} buildings and amenities found")

    def result(self) -> tuple[Array, NDArray[np.int64]] | None:
        """Return positions in degrees, and their kinds."""
        if not self.found:
            return None
        table = np.array(self.found)
        return table[:, :2], table[:, 2].astype(np.int64)


@dataclass(frozen=True)
class Found:
    """Buildings, shops and amenities: positions in degrees, and numbers of `KINDS_OF_MASS`."""

    latlon: Array
    kind: NDArray[np.int64]

    @property
    def area(self) -> Area:
        """The rectangle around all of them."""
        (south, west), (north, east) = self.latlon.min(axis=0), self.latlon.max(axis=0)
        return Area(float(south), float(west), float(north), float(east))

    def counts(self) -> dict[str, int]:
        """Return how many there are of each kind."""
        many = np.bincount(self.kind, minlength=len(KINDS_OF_MASS)).tolist()
        return dict(zip(KINDS_OF_MASS, many, strict=True))

    def in_cells(self, grid: Grid, plane: LocalPlane, weights: Mapping[str, float]) -> Array:
        """Return (n,) the weighted number of them in each cell of a grid around its plane."""
        xy = plane.to_xy(self.latlon) / np.array(grid.cell_km)
        at = np.floor(xy + np.array([grid.columns, grid.rows]) / 2).astype(np.int64)
        inside = ((at >= 0) & (at < [grid.columns, grid.rows])).all(axis=1)
        each = np.array([weights.get(kind, 0.0) for kind in KINDS_OF_MASS])[self.kind]
        cell = at[:, 1] * grid.columns + at[:, 0]
        return np.bincount(cell[inside], each[inside], minlength=grid.size).astype(np.float64)


def read_masses(path: Path, area: Area | None, progress: Progress = lambda news: None) -> Found:
    """Read the buildings, shops and amenities of an area, or of the whole extract.

    Raises
    ------
    InputError
        If the file cannot be read, or has none there; if osmium is not installed.
    """
    return Found(
        *parse_extract(
            path, MassReader, area, progress, "whereish metric", "buildings or amenities"
        )
    )


def parse_weights(texts: list[str]) -> dict[str, float]:
    """Read weights like ``health=5``: those that are not named keep theirs, which is 1.

    >>> parse_weights(["building=0.5", "shop=0"])["shop"]
    0.0
    """
    weights = dict(WEIGHTS)
    for text in texts:
        name, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = np.nan
        if name not in weights or not np.isfinite(value):
            raise InputError(
                f"weight must be KIND=NUMBER with a kind of {', '.join(KINDS_OF_MASS)}, like "
                f"health=5, got {text[:40]!r}"
            )
        weights[name] = as_number(f"weight of {name}", value, or_equal=True)
    return weights
