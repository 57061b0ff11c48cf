"""whereish map: an OpenStreetMap extract becomes a small map of an area."""

from __future__ import annotations

import json
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import shape
from typer.testing import CliRunner

import whereish as wh
from effort import ONE_OF
from osm_files import EAST, NORTH, SEA_SOUTH_OF, SOUTH, WEST, Extract, square, town
from whereish.cli import app
from whereish.errors import FormatError, InputError
from whereish.maps import Area, parse_area, read_extract, read_map, reduce_map
from whereish.maps.kinds import area_kind, line_kind
from whereish.maps.parser import TooManyPointsError
from whereish.maps.sea import sea_of

pytest.importorskip("osmium", reason="osmium is not installed")
AREA = Area(SOUTH, WEST, NORTH, EAST)
DEGREES = f"{SOUTH},{WEST},{NORTH},{EAST}"


@pytest.fixture(scope="module")
def extract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return town().write(tmp_path_factory.mktemp("osm") / "town.osm.pbf")


@pytest.fixture(scope="module")
def made(extract: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("maps") / "town.geojson"
    done = run("map", extract, "-o", file, "--area", DEGREES)
    assert done.exit_code == 0, done.output
    return file


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def features(file: Path) -> dict[tuple[str, str], Any]:
    document = json.loads(file.read_text())
    return {(f["properties"]["kind"], f["properties"]["class"]): shape(f["geometry"])
            for f in document["features"]}  # fmt: skip


def test_a_map_has_roads_water_parks_and_names(made: Path) -> None:
    found = features(made)
    assert set(found) == {
        ("park", "park"), ("park", "wood"), ("rail", "rail"), ("road", "motorway"),
        ("road", "primary"), ("road", "secondary"), ("road", "street"), ("water", "lake"),
        ("water", "river"), ("water", "sea"), ("name", "city"), ("name", "village"),
        ("name", "suburb"), ("name", "park"), ("name", "water"),
    }  # fmt: skip
    document = json.loads(made.read_text())
    assert document["attribution"] == "© OpenStreetMap contributors, ODbL"
    assert document["bbox"] == [WEST, SOUTH, EAST, NORTH]
    names = {f["properties"].get("name") for f in document["features"]} - {None}
    assert names == {"Testville", "Upper Village", "East End", "The park", "The lake"}
    assert "not shown" not in made.read_text()


def test_the_lake_has_its_island_and_the_sea_is_south_of_the_coast(made: Path) -> None:
    found = features(made)
    lake, sea = found["water", "lake"], found["water", "sea"]
    assert lake.contains(shapely.Point(7.205, 43.745))
    assert not lake.contains(shapely.Point(7.215, 43.755))
    rng = random.Random(3)
    for _ in range(300):
        lon = rng.uniform(WEST + 0.001, EAST - 0.001)
        wet = shapely.Point(lon, rng.uniform(SOUTH + 0.001, 43.614))  # south of the island
        dry = shapely.Point(lon, rng.uniform(SEA_SOUTH_OF + 0.005, NORTH - 0.001))
        assert sea.contains(wet)
        assert not sea.contains(dry)
    assert not sea.contains(shapely.Point(7.105, 43.62))  # an island


def test_the_area_clips_everything(extract: Path) -> None:
    small = Area(43.68, 7.10, 43.72, 7.18)
    found = read_extract(extract, small)
    made, kept = reduce_map(found)
    box = shapely.box(small.west, small.south, small.east, small.north).buffer(0.002)
    for feature in made.document["features"]:
        assert box.contains(shape(feature["geometry"]))
    assert kept.left_out == []
    assert ("road", "motorway") not in kept.points  # it is north of the area


def hausdorff_m(a: Any, b: Any) -> float:
    """Return the largest distance of a point of a from b, in metres."""
    flat = [shapely.transform(g, lambda ll: ll * [111_200 * 0.7226, 111_200]) for g in (a, b)]
    points = shapely.points(shapely.get_coordinates(shapely.segmentize(flat[0], 5)))
    return float(shapely.distance(points, flat[1]).max())


def test_simplified_lines_stay_within_the_tolerance(extract: Path) -> None:
    found = read_extract(extract, AREA)
    made, kept = reduce_map(found, 20_000)
    assert kept.tolerance_m > 2
    assert made.size <= 20_000
    after = {(f["properties"]["kind"], f["properties"]["class"]): shape(f["geometry"])
             for f in made.document["features"]}  # fmt: skip
    for kind in (("road", "motorway"), ("road", "primary"), ("water", "river")):
        before = shapely.union_all(found.shapes[kind])
        assert hausdorff_m(before, after[kind]) < kept.tolerance_m + 2


@pytest.mark.slow
def test_what_does_not_fit_is_left_out_streets_first(tmp_path: Path) -> None:
    large = town(streets=6000).write(tmp_path / "large.osm.pbf")
    made, kept = reduce_map(read_extract(large, AREA), 60_000)
    assert made.size <= 60_000
    assert ("road", "street") in kept.left_out
    assert ("road", "motorway") in kept.points
    with pytest.raises(InputError, match="at least 20 kB"):
        reduce_map(read_extract(large, AREA), 10_000)


def test_the_sea_of_generated_coasts() -> None:
    """Islands and bays, drawn with land on the left: water is where a ray test says it is."""
    rng = np.random.default_rng(5)
    area = Area(0.0, 0.0, 1.0, 1.0)
    for _ in range(40):
        middle, turns = rng.uniform(0.2, 0.8, 2), np.linspace(0, 2 * np.pi, 40)[:-1]
        radius = rng.uniform(0.05, 0.6) * (1 + 0.3 * np.sin(3 * turns + rng.uniform(0, 6)))
        ring = middle + radius[:, None] * np.column_stack([np.cos(turns), np.sin(turns)])
        inside_is_land = bool(rng.random() < 0.5)
        ring = ring if inside_is_land else ring[::-1]  # anticlockwise: land on the left
        closed = np.vstack([ring, ring[:1]])
        cut = int(rng.integers(1, len(closed) - 1))
        coasts = [shapely.LineString(closed[: cut + 1]), shapely.LineString(closed[cut:])]
        island = shapely.Polygon(closed)
        sea = shapely.union_all(sea_of(coasts, area))
        for x, y in rng.uniform(0, 1, (60, 2)):
            point = shapely.Point(x, y)
            if island.exterior.distance(point) > 1e-3:
                assert sea.contains(point) == (island.contains(point) != inside_is_land)


def test_a_coast_that_ends_inside_the_area_makes_no_sea() -> None:
    assert sea_of([shapely.LineString([(0.2, 0.5), (0.8, 0.5)])], Area(0, 0, 1, 1)) == []
    assert sea_of([shapely.LineString([(5, 5), (6, 6)])], Area(0, 0, 1, 1)) == []


@pytest.mark.slow
def test_around_a_profile_and_a_mechanism(extract: Path, tmp_path: Path) -> None:
    places = wh.square_grid(43.68, 7.12, 43.70, 7.16, cell_km=(0.8, 0.8))
    prior = np.arange(1.0, len(places) + 1) ** 3
    me = tmp_path / "me.csv"
    wh.write_profile(me, wh.Profile(places, prior / prior.sum()))
    wh.save_mechanism(tmp_path / "k.whereish", wh.planar_laplace(places, 1.0))
    boxes = []
    for file in (me, tmp_path / "k.whereish"):
        out = tmp_path / f"{file.stem}.geojson"
        done = run("map", extract, "-o", out, "--around", file, "--margin", "1km", "--json")
        assert done.exit_code == 0, done.output
        boxes.append(json.loads(out.read_text())["bbox"])
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        # No coordinate is printed.
        assert not any(word in done.output for word in ("43.6", "43.7", "7.1", "43.68"))
    assert boxes[0] == pytest.approx(boxes[1], abs=1e-4)
    west, south, east, north = boxes[0]
    latlon = places.plane.to_latlon(places.xy)  # type: ignore[union-attr]
    margin_km = (latlon[:, 0].min() - south) * 111.2
    assert margin_km == pytest.approx(1, abs=0.01)
    assert west < latlon[:, 1].min() < latlon[:, 1].max() < east
    assert north > latlon[:, 0].max()


@pytest.mark.parametrize(
    "area",
    ["", "1,2,3", "a,b,c,d", "43.8,7,43.6,7.3", "43.6,7.3,43.8,7.0", "-91,0,10,10", "nan,0,1,1",
     "0,0,1,inf"],
)  # fmt: skip
def test_a_wrong_area_is_refused_without_its_numbers(area: str, extract: Path) -> None:
    with pytest.raises(InputError, match="area must be") as wrong:
        parse_area(area)
    assert "43.8,7," not in str(wrong.value)


def refused(extract: Path, out: Path, *more: str) -> str:
    done = run("map", extract, "-o", out, *more)
    assert done.exit_code == 2, done.output
    assert not out.exists()
    last: str = done.output.strip().splitlines()[-1]
    assert last.startswith("whereish: ")
    return last


@pytest.mark.slow
def test_bad_input_ends_in_one_line(extract: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.geojson"
    whole = extract.read_bytes()
    files = {
        "text": b"this is no extract" * 100,
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "tail": whole[:-7],
    }
    for name, content in files.items():
        file = tmp_path / f"{name}.osm.pbf"
        file.write_bytes(content)
        assert "must be an OpenStreetMap extract" in refused(file, out, "--area", DEGREES)
    assert "exists" in refused(tmp_path / "none.osm.pbf", out)
    assert "none there" in refused(extract, out, "--area", "10,10,11,11")
    assert "not both" in refused(extract, out, "--area", DEGREES, "--around", "x.csv")
    assert "--around" in refused(extract, out, "--margin", "1km")
    assert "size must be" in refused(extract, out, "--area", DEGREES, "--size", "0.001")
    assert ".geojson" in refused(extract, tmp_path / "out.png")


def test_an_area_with_too_many_points_is_refused(
    extract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whereish.maps import extract as module

    monkeypatch.setattr(module, "MOST_POINTS", 100)
    reader = module._Reader(AREA, lambda news: None)
    with pytest.raises(TooManyPointsError):
        reader.read(str(extract), "sparse_mem_array")


@pytest.mark.slow
def test_damaged_extracts_never_end_in_a_traceback(extract: Path, tmp_path: Path) -> None:
    """Bytes are changed and lengths are forged: an error or a map comes back."""
    whole = extract.read_bytes()
    rng = random.Random(11)
    file = tmp_path / "damaged.osm.pbf"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(18 // ONE_OF):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 3, 30))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            damaged[0:4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
        file.write_bytes(bytes(damaged))
        try:
            read_extract(file, AREA)
            outcomes["read"] += 1
        except InputError as wrong:
            assert "\n" not in str(wrong)
            outcomes["refused"] += 1
    assert outcomes["refused"] > 0


def test_ways_that_are_cut_off_keep_their_parts(tmp_path: Path) -> None:
    made = Extract()
    made.way([(43.7, 7.1), (43.7, 7.11), (43.7, 7.12), (43.7, 7.13), (43.7, 7.14)],
             highway="primary")  # fmt: skip
    made.ways[0][0][2] = 999  # a node that the extract does not have
    made.way(square(43.71, 7.1, 0.01), closed=True, leisure="park")
    made.ways[1][0][1] = 998
    found = read_extract(made.write(tmp_path / "cut.osm.pbf"), AREA)
    parts = found.shapes["road", "primary"]
    assert sorted(round(part.length, 4) for part in parts) == [0.01, 0.01]


def test_tags_decide_the_kind() -> None:
    assert line_kind({"highway": "motorway_link"}) == ("road", "motorway")
    assert line_kind({"highway": "primary", "tunnel": "yes"}) is None
    assert line_kind({"highway": "footway"}) is None
    assert area_kind({"building": "yes"}) is None
    assert area_kind({"natural": "tree", "leisure": "park"}) == ("park", "park")


@pytest.mark.parametrize(
    "document",
    [
        "no JSON",
        "[]",
        '{"type": "FeatureCollection"}',
        '{"type": "FeatureCollection", "features": [{}]}',
        '{"type": "FeatureCollection", "features": []}',  # without attribution
        '{"type": "FeatureCollection", "attribution": "x", "features": [{"type": "Feature", '
        '"properties": {"kind": "road", "class": "street"}, "geometry": {"type": "LineString", '
        '"coordinates": [[7, 430], [7, 43]]}}]}',
        '{"type": "FeatureCollection", "attribution": "x", "features": [{"type": "Feature", '
        '"properties": {"kind": "road", "class": "street"}, "geometry": {"type": "LineString", '
        '"coordinates": [["a", 43], [7, 43]]}}]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_map_is_refused(document: str, tmp_path: Path) -> None:
    file = tmp_path / "map.geojson"
    file.write_text(document)
    with pytest.raises(FormatError, match=r"map\.geojson") as wrong:
        read_map(file)
    assert "430" not in str(wrong.value)


@pytest.mark.slow
def test_pictures_draw_a_map_and_say_who_made_it(made: Path, tmp_path: Path) -> None:
    places = wh.square_grid(43.66, 7.10, 43.72, 7.20, cell_km=(1.5, 1.5))
    prior = np.arange(1.0, len(places) + 1) ** 3
    me = tmp_path / "me.csv"
    wh.write_profile(me, wh.Profile(places, prior / prior.sum()))
    plain, mapped = tmp_path / "plain.svg", tmp_path / "mapped.svg"
    assert run("plot", me, "-o", plain).exit_code == 0
    assert run("plot", me, "-o", mapped, "--map", made).exit_code == 0
    assert mapped.stat().st_size > plain.stat().st_size
    done = run("build", me, "--epsilon", "1", "-o", tmp_path / "k.whereish", "--map", made)
    assert done.exit_code == 2
    assert "--picture" in done.output
    flat = tmp_path / "flat.csv"
    flat.write_text("x_km,y_km,prior\n0,0,0.3\n1,0,0.7\n")
    done = run("plot", flat, "-o", tmp_path / "no.png", "--map", made)
    assert done.exit_code == 2
    assert "degrees" in done.output


def test_ctrl_c_while_a_compiled_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module raises ImportError, not KeyboardInterrupt."""

    def interrupted(_name: str) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    extract = town(streets=20).write(tmp_path / "town.osm.pbf")
    monkeypatch.setattr("whereish.extras.importlib", SimpleNamespace(import_module=interrupted))
    # The threads of the test run are not the command's.
    monkeypatch.setattr("whereish.cli.console.threading.active_count", lambda: 1)
    done = CliRunner().invoke(app, ["map", str(extract), "-o", str(tmp_path / "out.geojson")])
    assert done.exit_code == 130
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == [extract]


@pytest.mark.heavy
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    large = town(streets=20_000).write(tmp_path / "large.osm.pbf")
    out = tmp_path / "out.geojson"
    command = [sys.executable, "-m", "whereish", "map", str(large), "-o", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "reading" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        code = process.wait()
    assert code in (0, 130), rest
    assert "Traceback" not in rest
    if code == 130:
        assert list(tmp_path.iterdir()) == [large]
