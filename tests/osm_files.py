"""Generated OpenStreetMap extracts: a town at a coast, with everything that a map shows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

SOUTH, WEST, NORTH, EAST = 43.60, 7.00, 43.80, 7.30
SEA_SOUTH_OF = 43.65  # the coast is a wavy line around this latitude: land is north of it


class Extract:
    """Writes nodes, ways and relations in the order that a PBF file needs."""

    def __init__(self) -> None:
        self.nodes: list[tuple[float, float, dict[str, str]]] = []
        self.ways: list[tuple[list[int], dict[str, str]]] = []
        self.relations: list[tuple[list[tuple[str, int, str]], dict[str, str]]] = []

    def node(self, lat: float, lon: float, **tags: str) -> int:
        self.nodes.append((lat, lon, tags))
        return len(self.nodes)

    def way(self, points: list[tuple[float, float]], closed: bool = False, **tags: str) -> int:
        ids = [self.node(lat, lon) for lat, lon in points]
        self.ways.append(([*ids, *ids[:1]] if closed else ids, tags))
        return len(self.ways)

    def relation(self, members: list[tuple[int, str]], **tags: str) -> None:
        self.relations.append(([("w", way, role) for way, role in members], tags))

    def write(self, path: Path) -> Path:
        osmium = pytest.importorskip("osmium")
        make: Any = osmium.osm.mutable
        path.unlink(missing_ok=True)
        writer = osmium.SimpleWriter(str(path))
        for number, (lat, lon, tags) in enumerate(self.nodes, 1):
            writer.add_node(make.Node(id=number, location=(lon, lat), tags=tags))
        for number, (ids, tags) in enumerate(self.ways, 1):
            writer.add_way(make.Way(id=number, nodes=ids, tags=tags))
        for number, (members, tags) in enumerate(self.relations, 1):
            writer.add_relation(make.Relation(id=number, members=members, tags=tags))
        writer.close()
        return path


def square(lat: float, lon: float, size: float) -> list[tuple[float, float]]:
    return [(lat, lon), (lat, lon + size), (lat + size, lon + size), (lat + size, lon)]


def town(seed: int = 1, streets: int = 400) -> Extract:
    """Return a town: sea in the south, a river, a lake with an island, parks, roads, names."""
    rng = random.Random(seed)
    made = Extract()
    # From west to east: land is on the left of the coastline.
    steps = 61
    coast = [(SEA_SOUTH_OF + 0.004 * rng.uniform(-1, 1), WEST - 0.02 + 0.34 * k / (steps - 1))
             for k in range(steps)]  # fmt: skip
    half = steps // 2
    made.way(coast[: half + 1], natural="coastline")
    made.way(coast[half:], natural="coastline")
    made.way(square(43.615, 7.10, 0.01)[::-1], closed=True, natural="coastline")  # not an island
    made.ways[-1][0].reverse()  # now it is one: land on the left
    made.way([(43.81, 7.15), (43.75, 7.16), (43.70, 7.14), (SEA_SOUTH_OF, 7.15)], waterway="river",
             name="The river")  # fmt: skip
    outer = made.way(square(43.74, 7.20, 0.03), closed=True)
    inner = made.way(square(43.75, 7.21, 0.01), closed=True)
    made.relation([(outer, "outer"), (inner, "inner")], type="multipolygon", natural="water",
                  name="The lake")  # fmt: skip
    made.way(square(43.70, 7.05, 0.03), closed=True, leisure="park", name="The park")
    made.way(square(43.72, 7.26, 0.02), closed=True, landuse="forest")
    made.way(square(43.66, 7.12, 0.0002), closed=True, building="yes")
    for kind, lat in (("motorway", 43.78), ("primary", 43.69), ("secondary", 43.71)):
        wavy = [(lat + 0.002 * rng.uniform(-1, 1), WEST + 0.3 * k / 40) for k in range(41)]
        made.way(wavy, highway=kind)
    made.way([(43.67, WEST), (43.69, EAST)], railway="rail")
    made.way([(43.70, WEST), (43.72, EAST)], railway="rail", tunnel="yes")
    made.way([(43.70, WEST), (43.72, EAST)], highway="footway")
    for _ in range(streets):
        lat, lon = rng.uniform(43.66, 43.73), rng.uniform(7.08, 7.22)
        made.way([(lat, lon), (lat + rng.uniform(-1, 1) * 0.004, lon + rng.uniform(-1, 1) * 0.006)],
                 highway="residential", name="A street")  # fmt: skip
    made.node(43.70, 7.15, place="city", name="Testville")
    made.node(43.77, 7.05, place="village", name="Upper Village")
    made.node(43.69, 7.20, place="suburb", name="East End")
    made.node(43.70, 7.151, amenity="cafe", name="not shown")
    return made
