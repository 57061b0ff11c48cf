"""The JavaScript module that draws map files, in node; and the map of the world that is built."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import shapely
from shapely.geometry import shape

import whereish as wh
from whereish.maps import read_map
from whereish.maps.map_file import KINDS

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
WORLD = Path(wh.__file__).parent / "service" / "page" / "vendor" / "world.geojson"


@pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
def test_the_module_in_node() -> None:
    done = subprocess.run(
        [str(NODE), "--test", str(CLIENT / "test" / "background.test.js")],
        capture_output=True,
        text=True,
        env={**os.environ, "NODE_OPTIONS": ""},
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    if not WORLD.exists():
        pytest.skip("the page is not built: python hatch_build.py")
    found: dict[str, Any] = json.loads(WORLD.read_text())
    return found


def test_the_world_is_small_and_a_map_file(world: dict[str, Any]) -> None:
    assert WORLD.stat().st_size < 1_000_000
    assert world["attribution"] == "Natural Earth; towns: GeoNames (CC BY 4.0)"
    assert {f["properties"]["kind"] for f in world["features"]} <= set(KINDS)


@pytest.mark.parametrize(
    ("lat", "lon", "land"),
    [
        (48.86, 2.34, True), (52.5, 13.4, True), (-33.5, 150.0, True), (0.0, 25.0, True),
        (40.0, -100.0, True), (0.0, -30.0, False), (43.0, 7.5, False), (56.0, 3.0, False),
        (-40.0, 100.0, False), (35.0, -140.0, False),
    ],
)  # fmt: skip
def test_land_is_where_it_is(world: dict[str, Any], lat: float, lon: float, land: bool) -> None:
    (found,) = (f for f in world["features"] if f["properties"]["kind"] == "land")
    outlines = shape(found["geometry"])
    assert any(part.buffer(0).contains(shapely.Point(lon, lat)) for part in outlines.geoms) == land


def test_the_world_has_lakes_rivers_and_towns(world: dict[str, Any]) -> None:
    by_class = {f["properties"]["class"]: f for f in world["features"]}
    lakes = shape(by_class["lake"]["geometry"])
    assert lakes.buffer(0).contains(shapely.Point(-87.0, 44.0))  # Lake Michigan
    rivers = shape(by_class["river"]["geometry"])
    assert rivers.distance(shapely.Point(31.2, 27.2)) < 0.2  # the Nile
    names = [
        n for name in ("metropolis", "city", "town") for n in by_class[name]["properties"]["names"]
    ]
    assert len(names) > 4000
    assert {"Paris", "Nairobi", "Heidelberg", "Lima"} <= set(names)


def world_map_tool() -> Any:
    spec = importlib.util.spec_from_file_location("world_map", ROOT / "tools" / "world_map.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_world_is_reduced_by_its_definition() -> None:
    """Simplified lines keep their ends and stay within the tolerance of every point."""
    tool = world_map_tool()
    import random

    rng = random.Random(2)
    for _ in range(50):
        line = [(x / 10, rng.uniform(-1, 1) * rng.choice((0.01, 0.3))) for x in range(60)]
        tolerance = rng.choice((0.02, 0.1, 0.5))
        simple = tool._simplified(line, tolerance)
        assert (simple[0], simple[-1]) == (line[0], line[-1])
        away = shapely.distance(shapely.points(line), shapely.LineString(simple))
        assert float(away.max()) <= tolerance + 1e-12
    quantised = {
        "transform": {"scale": [0.5, 0.25], "translate": [-10, 5]},
        "arcs": [[[0, 0], [2, 4]], [[2, 4], [2, -4]]],
        "objects": {"x": {"type": "GeometryCollection", "geometries": [
            {"type": "LineString", "arcs": [0, 1]}, {"type": "MultiLineString", "arcs": [[-1]]}]}},
    }  # fmt: skip
    assert tool._lines(quantised, "x") == [
        [(-10, 5), (-9, 6), (-8, 5)],
        [(-9, 6), (-10, 5)],
    ]


def test_towns_are_read_from_their_file() -> None:
    """Messages with their lengths, written here by hand: each position is relative to the last."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)

    def text(number: int, value: str) -> bytes:
        return bytes([number << 3 | 2, len(value.encode())]) + value.encode()

    def signed(number: int, value: int) -> bytes:
        return bytes([number << 3]) + varint(2 * value if value >= 0 else -2 * value - 1)

    data = b""
    last = (0, 0)
    for name, code, people, lon, lat in [
        ("São Paulo", "PPLA", 10021295, -4663611, -2354750),
        ("Anvers", "PPLX", 5000, 234423, 4888000),
        ("Paris", "PPLC", 2138551, 234880, 4885341),
        ("Nowhere", "PPL", 0, 0, 0),
    ]:
        body = text(2, name) + text(7, code) + (bytes([72]) + varint(people) if people else b"")
        body += signed(10, lon - last[0]) + signed(11, lat - last[1])
        data += varint(len(body)) + body
        last = (lon, lat)
    tool = world_map_tool()
    towns = tool._read_towns(data)
    assert [tuple(one.values()) for one in towns] == [
        ("São Paulo", 10021295, -23.5475, -46.63611),
        ("Paris", 2138551, 48.85341, 2.3488),
        ("Nowhere", 0, 0.0, 0.0),
    ]
    classes = {f["properties"]["class"]: f["properties"]["names"] for f in tool._towns(towns)}
    assert classes == {"metropolis": ["São Paulo", "Paris"], "city": [], "town": []}


def test_read_map_takes_the_form_of_the_world(tmp_path: Path) -> None:
    small = {
        "type": "FeatureCollection", "attribution": "Natural Earth", "bbox": [-180, -90, 180, 90],
        "features": [{"type": "Feature", "properties": {"kind": "land", "class": "land"},
                      "geometry": {"type": "MultiPolygon",
                                   "coordinates": [[[[0, 0], [1, 0], [1, 1], [0, 0]]]]}}],
    }  # fmt: skip
    file = tmp_path / "w.geojson"
    file.write_text(json.dumps(small))
    assert read_map(file).attribution == "Natural Earth"
