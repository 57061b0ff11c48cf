"""The page and the library make the same places and the same prior of the same traces."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whereish.profiles import PersonalProfile, personal_profile
from whereish.traces import open_traces

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node to run the page's code in")
_SCRIPT = """
import { readFileSync } from "node:fs";
import { basename } from "node:path";
const [client, file] = process.argv.slice(1);
const { profileOf, readTraces } = await import(client);
const points = await readTraces([{ name: basename(file), bytes: readFileSync(file) }]);
process.stdout.write(JSON.stringify(profileOf(points)));
"""
Row = tuple[datetime, float, float]


def test_the_constants_of_the_page_are_the_librarys() -> None:
    tool = ROOT / "tools" / "page_constants.py"
    spec = importlib.util.spec_from_file_location("page_constants", tool)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, values in module.FILES.items():
        written = (ROOT / name).read_text()
        assert written == module.constants(values), "run python tools/page_constants.py"


def life(seed: int, lat: float, lon: float, days: int = 20) -> list[Row]:
    """A made-up person: home, work, some errands, ways between, and a journey far away."""
    rng = np.random.default_rng(seed)
    spots = [(lat, lon), *((lat + a, lon + b) for a, b in rng.normal(0, 0.03, (30, 2)))]
    time, rows = datetime(2024, 5, 1, 6, 7, 8, tzinfo=UTC), list[Row]()
    here = spots[0]
    for _ in range(days * 8):
        there = spots[int(rng.integers(31) * rng.random() ** 2)]
        for step in np.linspace(0, 1, 12):
            time += timedelta(seconds=float(rng.uniform(60, 240)))
            rows.append((time, *(a + step * (b - a) for a, b in zip(here, there, strict=True))))
        here = there
        time += timedelta(minutes=float(rng.uniform(10, 200)))
    time += timedelta(hours=2)
    rows += [(time + timedelta(minutes=20 * k), lat + 3 + 0.001 * k, lon) for k in range(40)]
    return [(t.replace(microsecond=0), round(a, 6), _wrap(b)) for t, a, b in rows]


def _wrap(lon: float) -> float:
    return round((lon + 180) % 360 - 180, 6)


def as_csv(rows: list[Row]) -> str:
    return "Longitude;WHEN;lat\n" + "".join(
        f'{b:.6f};"{t:%Y-%m-%d %H:%M:%S}";{a:.6f}\n'.replace(".", ",") for t, a, b in rows
    )


def as_gpx(rows: list[Row]) -> str:
    track = "".join(
        f'<trkpt lon="{b:.6f}" lat="{a:.6f}"><ele>3</ele><time>{t:%Y-%m-%dT%H:%M:%SZ}</time>'
        f"<extensions><time>2020-01-01T00:00:00Z</time></extensions></trkpt>\n"
        for t, a, b in rows[:-20]
    )
    marks = "".join(
        f'<wpt lat="{a:.6f}" lon="{b:.6f}"><time>{t:%Y-%m-%dT%H:%M:%SZ}</time></wpt>'
        for t, a, b in rows[-20:]
    )
    plan = '<rte><rtept lat="10" lon="10"></rtept></rte>'
    return f'<gpx version="1.1">{marks}{plan}<trk><trkseg>{track}</trkseg></trk></gpx>'


def as_geojson(rows: list[Row]) -> str:
    line, points = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    features: list[Any] = [
        {
            "type": "Feature",
            "properties": {"coordTimes": [t.isoformat() for t, _, _ in line]},
            "geometry": {"type": "LineString", "coordinates": [[b, a] for _, a, b in line]},
        }
    ]
    features += [
        {
            "type": "Feature",
            "properties": {"Timestamp": round(t.timestamp() * 1000)},
            "geometry": {"type": "Point", "coordinates": [b, a]},
        }
        for t, a, b in points
    ]
    features[-1]["geometry"] = {
        "type": "GeometryCollection",
        "geometries": [features[-1]["geometry"], features[-2]["geometry"]],
    }
    return json.dumps({"type": "FeatureCollection", "features": features})


def as_timeline(rows: list[Row]) -> str:
    segments: list[Any] = []
    for one, two in zip(rows[::6], rows[6::6], strict=False):
        begin, end = (t.astimezone().isoformat() for t in (one[0], two[0]))
        place = f"{one[1]:.6f}°, {one[2]:.6f}°"
        inside: dict[str, Any] = {"visit": {"topCandidate": {"placeLocation": {"latLng": place}}}}
        if len(segments) % 3:
            path = {"point": place, "durationMinutesOffsetFromStartTime": "3"}
            inside = {"timelinePath": [path], "activity": {"start": place, "end": place}}
        segments.append({"startTime": begin, "endTime": end, **inside})
    return json.dumps({"semanticSegments": segments})


def as_takeout(rows: list[Row]) -> str:
    """The semantic months: stays, stays within stays, and journeys."""
    objects: list[Any] = []
    for one, two in zip(rows[::6], rows[6::6], strict=False):
        during = {"startTimestamp": one[0].isoformat(), "endTimestamp": two[0].isoformat()}
        places = [{"latitudeE7": round(a * 1e7), "longitudeE7": round(b * 1e7) % 2**32}
                  for _, a, b in (one, two)]  # fmt: skip
        if len(objects) % 2:
            child = {"location": places[1], "duration": during}
            visit = {"location": places[0], "duration": during, "childVisits": [child]}
            objects.append({"placeVisit": visit})
        else:
            way = {"startLocation": places[0], "endLocation": places[1], "duration": during}
            objects.append({"activitySegment": way})
    return json.dumps({"timelineObjects": objects})


def by_page(file: Path) -> dict[str, Any]:
    """Run the modules of the client in node: the page loads the same ones."""
    script = [str(NODE), "--input-type=module", "-e", _SCRIPT]
    command = [*script, str(CLIENT / "profile.js"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def same(page: dict[str, Any], made: PersonalProfile) -> None:
    where = made.profile.places
    assert where.latlon is not None
    assert where.plane is not None
    assert page["centre"] == [where.plane.lat, where.plane.lon]
    assert page["cellKm"] == pytest.approx(where.cell_km, abs=0)
    assert page["visited"] == made.visited
    assert page["covered"] == pytest.approx(made.at_places, abs=1e-12)
    assert page["inArea"] == pytest.approx(made.in_area, abs=1e-12)
    off_km = where.plane.to_xy(np.array(page["places"])) - where.xy
    assert np.abs(off_km).max() < 1e-6
    assert page["prior"] == pytest.approx(made.profile.prior.tolist(), abs=1e-15)
    visited = made.profile.visited
    assert visited is not None
    off_km = where.plane.to_xy(np.array(page["visits"]["points"])) - visited.places.xy
    assert np.abs(off_km).max() < 1e-6
    assert page["visits"]["weights"] == pytest.approx(visited.weights.tolist(), abs=1e-12)


FORMS: dict[str, Callable[[list[Row]], str]] = {
    "a.csv": as_csv,
    "a.gpx": as_gpx,
    "a.geojson": as_geojson,
    "Timeline.json": as_timeline,
    "2024_MAY.json": as_takeout,
}


@pytest.mark.slow
@needs_node
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("seed", "lat", "lon"), [(1, 48.86, 2.33), (2, -33.87, 179.99), (3, 64.125, -21.875)]
)
def test_the_same_traces_give_the_same_places(
    tmp_path: Path, name: str, seed: int, lat: float, lon: float
) -> None:
    file = tmp_path / name
    file.write_text(FORMS[name](life(seed, lat, lon)))
    made = personal_profile(replace(open_traces(file), person="me"), points=True)
    assert len(made.profile.places) == 50
    assert 0 < made.in_area < 1
    assert made.profile.visited is not None
    assert len(made.profile.visited.weights) > 50
    same(by_page(file), made)


@needs_node
@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("timed", [True, False])
def test_a_few_points_are_the_same_too(tmp_path: Path, count: int, timed: bool) -> None:
    """All in one row of tiles, where the middle is half-way between two hundredths."""
    file = tmp_path / "a.csv"
    rows = [(k, 40.125, -3.7 + 0.0137 * (k % count)) for k in range(4 * count + 1)]
    head = "time,lat,lon\n" if timed else "lat,lon\n"
    file.write_text(
        head
        + "".join(
            (f"2024-05-01T{k % 24:02d}:00:00+02:00," if timed else "") + f"{a:.4f},{b:.4f}\n"
            for k, a, b in rows
        )
    )
    made = personal_profile(replace(open_traces(file), person="me"), points=True)
    assert made.counted == ("hours" if timed else "points")
    same(by_page(file), made)


@needs_node
def test_a_coordinate_that_is_cut_off_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = "".join(f"2024-05-01 0{k}:00:00,48.8512,2.35{k}1\n" for k in range(9))
    file.write_text("time,lat,lon\n" + rows + "2024-05-01 09:00:00,48.8512,2.3")
    made = personal_profile(replace(open_traces(file), person="me"), points=True)
    assert made.points == 9
    same(by_page(file), made)
