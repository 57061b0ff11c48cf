"""Points without times, and other traces on the places of a profile: against slow counts."""

from __future__ import annotations

import csv
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.profiles import KnownPlaces, count_visits, regions_of

AREA = (48.80, 2.25, 48.90, 2.40)
CELLS = wh.SquareCells.over(*AREA, (1.0, 1.0))
MIDDLES: Any = CELLS.places(CELLS.all_ids).latlon


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def check_ins(seed: int, count: int = 400) -> list[tuple[str, float, float]]:
    """Make up rows: some regions often, the same point many times, some far away."""
    rng = np.random.default_rng(seed)
    often = some.skewed(len(MIDDLES), seed)
    rows = []
    for _ in range(count):
        lat, lon = MIDDLES[rng.choice(len(MIDDLES), p=often)] + rng.uniform(-0.003, 0.003, 2)
        if rng.random() < 0.1:
            lat, lon = 10.0, 20.0
        rows.append((str(rng.choice(["ann", "bob"], p=[0.8, 0.2])), float(lat), float(lon)))
        if rng.random() < 0.2:
            rows.append(rows[-1])
    return rows


def write(file: Path, rows: list[tuple[Any, ...]], heading: str) -> Path:
    with file.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(heading.split(","))
        table.writerows(rows)
    return file


def slow_cell(lat: float, lon: float) -> int | None:
    """Say which cell a point is in: the one whose middle is within half a cell, both ways."""
    x, y = CELLS.plane.to_xy([[lat, lon]])[0]
    for number, (east, north) in enumerate(CELLS.places(CELLS.all_ids).xy.tolist()):
        if -0.5 <= x - east < 0.5 and -0.5 <= y - north < 0.5:
            return number
    return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_points_without_times_are_counted_one_by_one(tmp_path: Path, kind: str, seed: int) -> None:
    rows = check_ins(seed)
    traces: Any = pl.DataFrame(rows, schema=["user", "lat", "lon"], orient="row")
    if kind == "csv":
        traces = wh.open_traces(write(tmp_path / "a.csv", rows, "user,lat,lon"))
    elif kind == "parquet":
        traces.write_parquet(tmp_path / "a.parquet")
        traces = wh.open_traces(tmp_path / "a.parquet")
    visits = count_visits(traces, CELLS)
    assert visits.counted == "points"
    number = {int(name): n for n, name in enumerate(CELLS.all_ids)}
    found = Counter(
        (user, number.get(region)) for user, region in visits.table["user", "region"].rows()
    )
    assert found == Counter((user, slow_cell(lat, lon)) for user, lat, lon in rows)
    with pytest.raises(wh.InputError, match="times"):
        count_visits(traces, CELLS, count="hours")


def test_a_profile_of_points(tmp_path: Path) -> None:
    rows = [row for row in check_ins(5) if row[0] == "ann"]
    write(tmp_path / "a.csv", rows, "user,lat,lon")
    made = wh.personal_profile(wh.open_traces(tmp_path), 20, regions=CELLS)
    slow = Counter(slow_cell(lat, lon) for _, lat, lon in rows)
    outside = slow.pop(None)
    best = sorted(slow.items(), key=lambda item: (-item[1], item[0]))[:20]
    assert sorted(np.flatnonzero(made.profile.prior > 0).tolist()) == list(range(len(best)))
    expected = np.array([count for _, count in sorted(best)]) / sum(c for _, c in best)
    assert made.profile.prior == pytest.approx(expected)
    assert made.points == len(rows)
    assert (made.hours, made.days, made.counted) == (0, 0, "points")
    assert made.at_places == pytest.approx(sum(c for _, c in best) / len(rows))
    assert made.in_area == pytest.approx(1 - outside / len(rows))
    for wrong in ({"period": "night"}, {"window_days": 3}):
        with pytest.raises(wh.InputError, match="times"):
            wh.personal_profile(wh.open_traces(tmp_path), 20, regions=CELLS, **wrong)


def test_points_that_have_times_may_be_counted_too(tmp_path: Path) -> None:
    """Also those whose times cannot be read: the time is not what is counted."""
    rows = [("ann", "2024-05-01 10:10:00", 48.85, 2.30)] * 5
    rows += [("ann", "2024-05-01 11:10:00", 48.87, 2.35), ("ann", "some day", 48.87, 2.35)]
    file = write(tmp_path / "a.csv", rows, "user,time,lat,lon")
    hours = wh.personal_profile(wh.open_traces(file), 2, regions=CELLS)
    assert sorted(hours.profile.prior.tolist()) == [0.5, 0.5]
    points = wh.personal_profile(wh.open_traces(file), 2, regions=CELLS, count="points")
    assert sorted(points.profile.prior.tolist()) == pytest.approx([2 / 7, 5 / 7])
    with pytest.raises(wh.InputError, match="count must be one of"):
        wh.personal_profile(wh.open_traces(file), 2, regions=CELLS, count="days")


def test_the_command_counts_points_and_says_so(tmp_path: Path) -> None:
    rows = [row for row in check_ins(5) if row[0] == "ann"]
    file = write(tmp_path / "a.csv", [row[1:] for row in rows], "lat,lon")
    done = run("profile", file, "--places", 10, "--json", "-o", tmp_path / "me.csv")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["counted"] == "points"
    assert facts["points"] == len(rows)
    assert "each row once" in done.stderr
    assert len(wh.read_profile(tmp_path / "me.csv").places) == 10
    for flags in (["--count", "hours"], ["--count", "days"], ["--window", 3],
                  ["--period", "night", "--zone", "UTC"]):  # fmt: skip
        done = run("profile", file, *flags, "-o", tmp_path / "x.csv")
        assert done.exit_code == 2, flags
        assert not (tmp_path / "x.csv").exists()
    write(file, check_ins(5), "user,lat,lon")
    area = ",".join(map(str, AREA))
    flags = [
        "--group",
        "users",
        "--count",
        "points",
        "--area",
        area,
        "--at-least",
        1,
        "--places",
        8,
    ]
    done = run("profile", file, *flags, "-o", tmp_path / "group")
    assert done.exit_code == 0, done.stderr
    assert sorted(path.stem for path in (tmp_path / "group").iterdir()) == ["ann", "bob"]


def slow_on(profile: wh.Profile, points: list[tuple[float, float]]) -> list[int | None]:
    """Say which place of a profile of cells each point is at, from its own plane."""
    plane, cell = profile.places.plane, profile.places.cell_km
    assert plane is not None
    assert cell is not None
    found: list[int | None] = []
    for lat, lon in points:
        x, y = plane.to_xy([[lat, lon]])[0]
        off = [max(abs(x - a) / cell[0], abs(y - b) / cell[1]) for a, b in profile.places.xy]
        near = min(range(len(off)), key=off.__getitem__)
        found.append(near if off[near] <= 0.505 else None)
    return found


ROW = st.tuples(st.integers(0, 71), st.floats(48.82, 48.88), st.floats(2.27, 2.38), st.booleans())


@given(st.lists(ROW, min_size=1, max_size=40), st.sampled_from(["UTC", "Europe/Paris"]))
def test_a_period_on_the_places_of_a_profile(rows: list[Any], zone: str) -> None:
    """The hours of the night, at the places of a profile, one by one on the clock."""
    day = wh.Profile(CELLS.places(CELLS.all_ids[10:30]), some.skewed(20, 3))
    begin = datetime(2024, 10, 26, tzinfo=UTC)  # clocks change in that night
    points = [(lat, lon) if far else tuple(MIDDLES[15]) for _, lat, lon, far in rows]
    times = [begin + timedelta(minutes=40 * step) for step, _, _, _ in rows]
    frame = pl.DataFrame(
        {
            "user": ["me"] * len(rows),
            "time": pl.Series(times, dtype=pl.Datetime("us", "UTC")),
            "lat": [float(lat) for lat, _ in points],
            "lon": [float(lon) for _, lon in points],
        }
    )
    seen = set()
    for when, place in zip(times, slow_on(day, points), strict=True):
        wall = when.astimezone(ZoneInfo(zone))
        if wall.hour >= 19 or wall.hour < 7:
            hour = (wall.replace(minute=0), wall.utcoffset())
            seen.add((hour, place))
    there = Counter(place for _, place in seen if place is not None)
    if not there:
        with pytest.raises(wh.InputError, match="point"):
            wh.personal_profile(frame, on=day, zone=zone, period="night")
        return
    made = wh.personal_profile(frame, on=day, zone=zone, period="night")
    expected = np.array([there[place] for place in range(20)]) / sum(there.values())
    assert made.profile.prior == pytest.approx(expected)
    assert made.profile.places.same_as(day.places)
    assert made.elsewhere == sum(place is None for _, place in seen)
    assert made.points == len(seen)


def test_the_same_cells_from_a_file(tmp_path: Path) -> None:
    """Cells that were written and read are the same, but for their last half per cent."""
    rng = np.random.default_rng(1)
    ids = CELLS.all_ids[20:60]
    wh.write_profile(tmp_path / "me.csv", wh.Profile(CELLS.places(ids), some.skewed(40)))
    known = regions_of(wh.read_profile(tmp_path / "me.csv"))
    xy = rng.uniform(-7, 7, (3000, 2))
    inside = (xy - CELLS.corner_km) / CELLS.cell_km % 1
    clear = (np.abs(inside - 0.5) < 0.49).all(axis=1)
    lat, lon = CELLS.plane.to_latlon(xy[clear]).T
    before = CELLS.of(lat, lon)
    after = known.of(lat, lon)
    number = {int(name): n for n, name in enumerate(ids)}
    assert after.tolist() == [number.get(int(name), wh.profiles.ELSEWHERE) for name in before]
    assert (after >= 0).sum() > 100


def test_places_without_cells_and_regions_of_any_shape(tmp_path: Path) -> None:
    spots = wh.Places.from_latlon([[48.85, 2.30], [48.85, 2.31], [48.86, 2.30]])
    known = KnownPlaces(spots)
    apart = [min(np.hypot(*(a - b)) for b in spots.xy if (a != b).any()) for a in spots.xy]
    for lat, lon in np.random.default_rng(0).uniform([48.82, 2.26], [48.89, 2.35], (300, 2)):
        xy = spots.plane.to_xy([[lat, lon]])[0]  # type: ignore[union-attr]
        away = [float(np.hypot(*(xy - spot))) for spot in spots.xy]
        place = int(np.argmin(away))
        expected = place if away[place] <= max(apart) else wh.profiles.ELSEWHERE
        assert known.of(np.array([lat]), np.array([lon]))[0] == expected
    wh.write_profile(tmp_path / "me.geojson", wh.Profile(CELLS.places(CELLS.all_ids[:9]),
                     np.full(9, 1 / 9)))  # fmt: skip
    rows = [("me", "2024-05-01 10:10:00", *MIDDLES[4])]
    traces = wh.open_traces(write(tmp_path / "a.csv", rows, "user,time,lat,lon"))
    made = wh.personal_profile(traces, on=wh.read_profile(tmp_path / "me.geojson"))
    assert made.profile.prior.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    plane = wh.Profile(some.grid(2, 2), some.skewed(4))
    with pytest.raises(wh.InputError, match="on the earth"):
        wh.personal_profile(traces, on=plane)


@pytest.mark.slow
def test_night_on_the_places_of_the_day(tmp_path: Path) -> None:
    run("city", "-o", tmp_path / "city", "--users", 1, "--days", 10, "--every", 120)
    common = ("profile", tmp_path / "city", "--zone", "Europe/Paris", "--no-cache")
    assert run(*common, "--places", 20, "-o", tmp_path / "day.csv").exit_code == 0
    flags = ("--period", "night", "--on", tmp_path / "day.csv")
    done = run(*common, *flags, "--json", "-o", tmp_path / "night.csv")
    assert done.exit_code == 0, done.stderr
    assert "elsewhere are left out" in done.stderr
    day, night = (wh.read_profile(tmp_path / name) for name in ("day.csv", "night.csv"))
    assert night.places.same_as(day.places)
    assert not np.allclose(night.prior, day.prior)
    out = tmp_path / "k.whereish"
    assert run("build", tmp_path / "day.csv", "--epsilon", 1, "-o", out).exit_code == 0
    assert run("measure", out, "--prior", tmp_path / "night.csv").exit_code == 0
    for wrong in (["--places", 30], ["--cell", "500m"], ["--h3", 8], ["--radius", "9km"],
                  ["--group", "users"], ["--area", "1,2,3,4"]):  # fmt: skip
        done = run(*common, *flags, *wrong, "-o", tmp_path / "x.csv")
        assert done.exit_code == 2
        assert wrong[0] in done.stderr
