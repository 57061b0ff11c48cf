"""Reduce what an extract holds to a map of a size that a page can draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.lazy import shapely
from whereish.maps.area import KM_PER_DEGREE, Area
from whereish.maps.extract import Found
from whereish.maps.kinds import COAST, LEFT_OUT_FIRST, PLACES, Kind
from whereish.maps.map_file import MapFile, make_map
from whereish.maps.sea import sea_of

LARGEST_BYTES = 4_000_000  # of a map file, unless another size is asked for
LEAST_BYTES = 20_000
_POINT_BYTES = 19  # of "[2.34567,48.85678],"
_FINEST_M = 2.0
_COARSEST = 1500  # parts of the area's width: what is smaller is less than a pixel of a page
_MOST_NAMES = 600
_SMALL = 6.0  # a polygon is left out below this many squares of the tolerance


@dataclass(frozen=True)
class Kept:
    """What is in a map: the tolerance, the points of each class, and the classes left out."""

    tolerance_m: float
    points: dict[Kind, int]
    left_out: list[Kind]
    names: int
    sea: bool
    broken_coast: bool


def reduce_map(found: Found, most_bytes: int = LARGEST_BYTES) -> tuple[MapFile, Kept]:
    """Return a map of at most so many bytes, and what was kept.

    The lines of one class are merged and simplified (Douglas-Peucker). The tolerance is doubled
    until the map fits; if it would be seen, classes are left out instead, small streets first.

    Raises
    ------
    InputError
        If not even names and the largest roads fit.
    """
    if most_bytes < LEAST_BYTES:
        raise InputError(f"size must be at least {LEAST_BYTES // 1000} kB, got {most_bytes} bytes")
    area = found.area
    names = _names(found)
    shapes = dict(found.shapes)
    coasts = shapes.pop(COAST, [])
    sea = sea_of(coasts, area) if coasts else []
    if sea:
        shapes["water", "sea"] = sea
    merged = {kind: _merged(parts) for kind, parts in shapes.items()}
    tolerance_m, left_out = _FINEST_M, list[Kind]()
    coarsest_m = max(2 * _FINEST_M, 1000 * max(area.size_km) / _COARSEST)
    droppable = [kind for kind in LEFT_OUT_FIRST if kind in merged]
    while True:
        simple = {kind: _simplified(geometry, kind, tolerance_m, area)
                  for kind, geometry in merged.items()}  # fmt: skip
        simple = {kind: parts for kind, parts in simple.items() if parts}
        points = {kind: int(shapely.get_num_coordinates(parts).sum())
                  for kind, parts in simple.items()}  # fmt: skip
        if _POINT_BYTES * sum(points.values()) <= most_bytes:
            made = make_map(area, simple, names)
            if made.size <= most_bytes:
                broken = bool(coasts) and not sea
                return made, Kept(tolerance_m, points, left_out, len(names), bool(sea), broken)
        if 2 * tolerance_m <= coarsest_m:
            tolerance_m *= 2
        elif droppable:
            left_out.append(droppable[0])
            del merged[droppable.pop(0)]
        elif tolerance_m < 64 * coarsest_m:
            tolerance_m *= 2
        else:
            raise InputError(
                f"size must be larger: names and the largest roads of this area do not fit into "
                f"{most_bytes / 1e6:g} MB"
            )


def _merged(parts: list[Any]) -> Any:
    """Join the parts of one class: lines that meet become one; areas stay as they are."""
    flat = shapely.get_parts(np.array(parts, dtype=object))
    lines = flat[shapely.get_type_id(flat) == 1]
    if len(lines):
        return shapely.get_parts(shapely.line_merge(shapely.multilinestrings(lines)))
    return flat[shapely.get_type_id(flat) == 3]


def _simplified(parts: Any, kind: Kind, tolerance_m: float, area: Area) -> list[Any]:
    """Simplify in metres, and leave out what is too small to be seen."""
    north, east = _metres(area)
    flat = shapely.transform(parts, lambda lonlat: lonlat * [east, north])
    flat = shapely.simplify(flat, tolerance_m, preserve_topology=True)
    if len(flat) and shapely.get_type_id(flat[0]) == 3:
        seen = shapely.area(flat) >= _SMALL * tolerance_m**2
    else:
        # A short street matters less than a short part of a motorway, which leaves a gap.
        least = 3 if kind[1] in ("street", "stream", "tertiary") else 1
        seen = shapely.length(flat) >= least * tolerance_m
    back = shapely.transform(flat[seen], lambda xy: xy / [east, north])
    return list(back[~shapely.is_empty(back)])


def _metres(area: Area) -> tuple[float, float]:
    """Return the metres of a degree of latitude and of longitude."""
    north = 1000 * KM_PER_DEGREE
    return north, float(north * np.cos(np.radians((area.south + area.north) / 2)))


def _names(found: Found) -> list[tuple[str, str, float, float]]:
    """Return the names to keep, the most important first: places by class, then large areas."""
    rank = {kind: number for number, kind in enumerate(PLACES)}
    places = sorted((n for n in found.names if n[0] in rank), key=lambda n: rank[n[0]])
    width, height = found.area.size_km
    least = 2e-4 * width * height / KM_PER_DEGREE**2  # a park that can hold its name
    # An area's name has the class "park:0.0012": its kind, and its size in square degrees.
    sized = [
        (float(kind.split(":")[1]), (kind.split(":")[0], name, lon, lat))
        for kind, name, lon, lat in found.names
        if ":" in kind
    ]
    large = [name for size, name in sorted(sized, reverse=True) if size >= least]
    seen: set[tuple[str, str]] = set()
    kept = []
    for kind, name, lon, lat in [*places, *large]:
        if (kind, name) not in seen:
            seen.add((kind, name))
            kept.append((kind, name, lon, lat))
    return kept[:_MOST_NAMES]
