"""The area of a profile: where people spend most of their time.

The grid does not show where its owner lives: the plane touches the earth at a hundredth of a
degree, and cells are counted from there, so that no centre of a cell is anybody's home.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whereish.errors import InputError
from whereish.lazy import pl
from whereish.places import Array, LocalPlane, as_number
from whereish.profiles.defaults import EARTH_RADIUS_KM, HEAVIEST_TILES, RADIUS_KM
from whereish.profiles.regions import (
    ELSEWHERE,
    FAR_KM,
    PAPER_CELL_KM,
    DegreeTiles,
    SquareCells,
    as_cell_km,
)
from whereish.profiles.visits import Visits, count_visits
from whereish.traces.source import Progress, Traces

_SAME_DEGREES = 1e-9  # more than any rounding error, much less than a place


def area_cells(
    traces: Traces | pl.DataFrame,
    cell_km: tuple[float, float] = PAPER_CELL_KM,
    radius_km: float = RADIUS_KM,
    zone: str = "UTC",
    *,
    count: str | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> SquareCells:
    """Return square cells over the area where people are most of the time."""
    check_radius(radius_km)
    width, height = as_cell_km(cell_km)
    tiles = count_visits(traces, DegreeTiles(), zone, count=count, progress=progress, cache=cache)
    columns, rows = (2 * int(np.ceil(radius_km / side)) for side in (width, height))
    corner = (-columns * width / 2, -rows * height / 2)
    return SquareCells(find_middle(tiles, radius_km), (width, height), corner, columns, rows)


def find_middle(visits: Visits, radius_km: float) -> LocalPlane:
    """Return the hundredth of a degree around which most time was spent."""
    weights = hours_divided(visits).group_by("region").agg(time=pl.col("share").sum())
    if len(weights) == 0:
        raise InputError("traces must hold at least one point that can be used, got none")
    ranked = weights.sort("time", "region", descending=[True, False])
    heaviest = ranked.head(HEAVIEST_TILES).sort("region")
    time = heaviest["time"].to_numpy()
    lat, lon = DegreeTiles().middles(heaviest["region"].to_numpy())
    near = _apart_km(lat, lon, lat[:, None], lon[:, None]) <= radius_km
    best = int(np.argmax(near @ time))
    east = (lon - lon[best] + 180) % 360 - 180  # the date line is an ordinary place
    weight = near[best] * time / (near[best] @ time)
    middle = (lon[best] + weight @ east + 180) % 360 - 180
    return LocalPlane(*_hundredths(float(weight @ lat), float(middle)))


def _hundredths(lat: float, lon: float) -> tuple[float, float]:
    """Round to hundredths of a degree.

    The middle of a tile lies half-way between two hundredths, and a mean of such middles is off by
    a rounding error, which differs between machines. So a mean that is the middle of a tile is
    replaced by that middle.
    """
    tiles = DegreeTiles()
    (north,), (east,) = tiles.middles(tiles.of(np.array([lat]), np.array([lon])))
    north, east = float(north), (float(east) + 180) % 360 - 180
    return (
        round(north if abs(lat - north) < _SAME_DEGREES else lat, 2),
        round(east if abs(lon - east) < _SAME_DEGREES else lon, 2),
    )


def _apart_km(lat: Array, lon: Array, other_lat: Array, other_lon: Array) -> Array:
    """Return distances on a sphere: good enough to tell near from far."""
    a, b, c, d = (np.radians(angle) for angle in (lat, lon, other_lat, other_lon))
    chord = np.sin((a - c) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((b - d) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0, 1))))


def nearby(visits: Visits, middle: LocalPlane, radius_km: float) -> Visits:
    """Count regions further from the middle than the area reaches as `ELSEWHERE`."""
    ids = visits.table["region"].unique().sort().to_numpy()
    ids = ids[ids != ELSEWHERE]
    if len(ids) == 0:
        return visits
    lat, lon = np.asarray(visits.regions.places(ids).latlon).T
    away = _apart_km(lat, lon, np.array(middle.lat), np.array(middle.lon))
    far = pl.Series(ids[away > radius_km], dtype=pl.Int64)
    region = pl.when(pl.col("region").is_in(far.implode())).then(ELSEWHERE)
    table = visits.table.with_columns(region=region.otherwise(pl.col("region")))
    return visits.then(f"within {radius_km:g} km, or elsewhere", distinct(table))


def distinct(table: pl.DataFrame) -> pl.DataFrame:
    """Return every row once, sorted."""
    return table.unique().sort("user", "hour", "region")


def hours_divided(visits: Visits) -> pl.DataFrame:
    """Divide every hour among the regions in which it was spent: column ``share``."""
    if visits.counted == "points":
        return visits.table.with_columns(share=pl.lit(1.0))
    return visits.table.with_columns(share=1 / pl.len().over("user", "hour"))


def check_radius(radius_km: float) -> None:
    """Check how far an area reaches."""
    if as_number("radius_km", radius_km, unit="km") > FAR_KM:
        raise InputError(f"radius_km must be at most {FAR_KM:g} km, got {radius_km:g}")
