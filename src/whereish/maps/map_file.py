"""The map file: one GeoJSON FeatureCollection, with who made the data written into it.

Each feature has ``kind`` (land, park, water, rail, road, name) and ``class``; a name has ``name``.
The lines of a class are one MultiLineString, its areas one MultiPolygon.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import FormatError, InputError
from whereish.files import write_whole
from whereish.lazy import shapely
from whereish.maps.area import Area
from whereish.maps.kinds import Kind

ATTRIBUTION = "© OpenStreetMap contributors, ODbL"
KINDS = ("land", "park", "water", "rail", "road", "name")  # the order in which they are drawn
_LARGEST = 50_000_000  # bytes of a file that is read
_DIGITS = 5  # a metre
_GEOMETRIES = (
    "Point", "LineString", "MultiLineString", "Polygon", "MultiPolygon",
)  # fmt: skip


@dataclass(frozen=True)
class MapFile:
    """A map: features in the order of drawing, and the attribution to show with it."""

    document: dict[str, Any]
    content: bytes

    @property
    def attribution(self) -> str:
        """Return who made the data: to be shown wherever the map is drawn."""
        return str(self.document["attribution"])

    @property
    def size(self) -> int:
        """Return the bytes of the file."""
        return len(self.content)


def make_map(
    area: Area, shapes: dict[Kind, list[Any]], names: list[tuple[str, str, float, float]]
) -> MapFile:
    """Return the map file of shapes in degrees (lon, lat)."""
    features = [
        {
            "type": "Feature",
            "properties": {"kind": kind, "class": name},
            "geometry": _geometry(shapes[kind, name]),
        }
        for kind, name in sorted(shapes, key=lambda both: (KINDS.index(both[0]), both[1]))
    ]
    features += [
        {
            "type": "Feature",
            "properties": {"kind": "name", "class": kind, "name": name},
            "geometry": {"type": "Point", "coordinates": [round(lon, 5), round(lat, 5)]},
        }
        for kind, name, lon, lat in names
    ]
    south, west, north, east = (round(value, _DIGITS) for value in area)
    document = {
        "type": "FeatureCollection",
        "attribution": ATTRIBUTION,
        "bbox": [west, south, east, north],
        "features": features,
    }
    content = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return MapFile(document, content.encode())


def _geometry(parts: list[Any]) -> dict[str, Any]:
    if parts[0].geom_type == "LineString":
        return {"type": "MultiLineString", "coordinates": [_rounded(line) for line in parts]}
    rings = [[_rounded(ring) for ring in (p.exterior, *p.interiors)] for p in parts]
    return {"type": "MultiPolygon", "coordinates": rings}


def _rounded(line: Any) -> list[list[float]]:
    found: list[list[float]] = np.round(shapely.get_coordinates(line), _DIGITS).tolist()
    return found


def write_map(path: Path, made: MapFile) -> None:
    """Write a map file that only its owner may read: its area tells where somebody lives."""
    write_whole(path, made.content, private=True)


def read_map(path: Path) -> MapFile:
    """Read a map file that `whereish map` has written, or another of the same form.

    Raises
    ------
    FormatError
        If it is none. The message repeats no coordinate.
    """
    if not path.is_file():
        raise InputError(f"a map must be a file that exists, got {path}")
    if path.stat().st_size > _LARGEST:
        raise FormatError(
            f"a map must have at most {_LARGEST // 1_000_000} MB: {path.name} has more"
        )
    content = path.read_bytes()
    try:
        document = json.loads(content)
        features = document["features"]
        whole = document["type"] == "FeatureCollection" and all(map(_is_feature, features))
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise FormatError(
            f"a map must be GeoJSON as whereish map writes it (a FeatureCollection with kind and "
            f"class), and {path.name} is not: make it with whereish map EXTRACT.osm.pbf -o MAP"
        )
    if not isinstance(document.get("attribution"), str) or not document["attribution"].strip():
        raise FormatError(f"a map must say who made it (attribution), and {path.name} does not")
    return MapFile(document, content)


def _is_feature(feature: Any) -> bool:
    """Tell whether a feature has a kind, and coordinates that are finite degrees."""
    geometry, told = feature["geometry"], feature["properties"]
    depth = {"Point": 1, "LineString": 2, "MultiLineString": 3, "Polygon": 3, "MultiPolygon": 4}
    if geometry["type"] not in _GEOMETRIES or told["kind"] not in KINDS:
        return False
    if not isinstance(told["class"], str) or not isinstance(told.get("name", ""), str):
        return False
    return _are_degrees(geometry["coordinates"], depth[geometry["type"]])


def _are_degrees(value: Any, depth: int) -> bool:
    if not isinstance(value, list):
        return False
    if depth > 2:
        return all(_are_degrees(part, depth - 1) for part in value)
    array = np.asarray(value, dtype=float)
    if array.ndim != depth or array.shape[-1] != 2:
        return False
    lon, lat = array[..., 0], array[..., 1]
    return bool(np.all((abs(lon) <= 180) & (abs(lat) <= 90)))  # false for NaN, too
