"""The visited points of a profile: where the time was spent, in few clusters, kept in its file."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whereish as wh
from test_person import HOME, START, WORK, stays
from whereish.profiles import Districts, VisitedPoints, personal_profile
from whereish.profiles.visited import HEAVIEST, OTHERS


def rows(*parts: tuple[float, float, float]) -> pl.DataFrame:
    """A table of one person: minutes since the start, latitude, longitude."""
    table = pl.DataFrame(
        [(START + timedelta(minutes=minute), lat, lon) for minute, lat, lon in parts],
        schema=["time", "lat", "lon"],
        orient="row",
    )
    return table.with_columns(user=pl.lit("me"), time=pl.col("time").dt.cast_time_unit("us"))


def visited(table: Any, **more: Any) -> VisitedPoints:
    found = personal_profile(table, 20, points=True, **more).profile.visited
    assert found is not None
    assert found.weights.sum() == pytest.approx(1)
    return found


def share_near(found: VisitedPoints, spot: tuple[float, float], km: float = 0.05) -> float:
    plane = found.places.plane
    assert plane is not None
    away = np.hypot(*(found.places.xy - plane.to_xy([spot])[0]).T)
    return float(found.weights[away <= km].sum())


def test_spots_have_the_share_of_hours_spent_there() -> None:
    found = visited(stays((HOME, 20, 3), (WORK, 9, 1)))
    assert len(found.places) == 2
    assert share_near(found, HOME, 0.02) == pytest.approx(0.75)
    assert share_near(found, WORK, 0.02) == pytest.approx(0.25)


def test_a_stay_weighs_more_than_a_walk_through_many_cells() -> None:
    """50 minutes in one spot and 10 on the way: 5/6 of the hour, though the way has 40 cells."""
    stay = [(float(minute), *HOME) for minute in range(50)]
    way = [(50 + k / 4, HOME[0] + 0.001 + 0.0003 * k, HOME[1]) for k in range(40)]
    found = visited(rows(*stay, *way))
    assert share_near(found, HOME) == pytest.approx(10 / 12)


def test_points_within_50_m_are_one_and_others_are_not() -> None:
    """About 11 m between two, and 220 m to the third."""
    near = (HOME[0] + 0.0001, HOME[1])
    apart = (HOME[0] + 0.002, HOME[1])
    table = rows((0, *HOME), (60, *near), (120, *apart), (180, *apart))
    found = visited(table)
    assert len(found.places) == 2
    assert share_near(found, HOME) == pytest.approx(0.5)
    assert share_near(found, apart) == pytest.approx(0.5)


def test_there_are_few_points_and_the_heavy_ones_stay() -> None:
    rng = np.random.default_rng(1)
    scattered = rng.uniform(-0.08, 0.08, (3000, 2)) + HOME
    table = rows(*((float(60 * k), *spot) for k, spot in enumerate(scattered.tolist())))
    home = rows(*((float(60 * k), *HOME) for k in range(3000, 4000)))
    found = visited(pl.concat([table, home]), radius_km=50)
    assert HEAVIEST < len(found.places) <= HEAVIEST + OTHERS
    assert share_near(found, HOME, 0.03) == pytest.approx(0.25, abs=0.01)


def test_points_follow_area_period_window_and_count() -> None:
    table = stays((HOME, 20, 3), (WORK, 9, 1))
    at_night = visited(table, period="night")
    assert share_near(at_night, HOME) == pytest.approx(1)
    far = rows((0, *HOME), (60, *HOME), (120, HOME[0] + 2, HOME[1]))
    assert len(visited(far).places) == 1
    by_row = visited(table.drop("time"), count="points")
    assert share_near(by_row, HOME) == pytest.approx(0.75)
    many = pl.concat([table, *[table.filter(pl.col("lat") == HOME[0])] * 3])
    assert share_near(visited(many, count="points"), HOME) == pytest.approx(12 / 13)
    window = visited(pl.concat([table, rows((60 * 24 * 40, *WORK))]), window_days=5)
    assert share_near(window, HOME) == pytest.approx(0.75)


def test_points_are_in_the_regions_that_were_given() -> None:
    from shapely.geometry import box

    lat, lon = HOME
    around = (box(lon - 0.01, lat - 0.01, lon, lat + 0.01), box(lon, lat - 0.01, lon + 1, lat + 1))
    only = visited(stays((HOME, 20, 3), (WORK, 9, 1)), regions=Districts(around))
    assert len(only.places) == 1
    assert share_near(only, HOME) == pytest.approx(1)


def test_a_profile_has_no_points_unless_asked() -> None:
    made = personal_profile(stays((HOME, 20, 3), (WORK, 9, 1)), 20).profile
    assert made.visited is None
    with pytest.raises(wh.InputError, match="must hold the visited points"):
        _ = made.as_points


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet", "a.geojson"])
def test_every_format_keeps_the_points(tmp_path: Path, name: str) -> None:
    made = wh.embedded_city()
    wh.write_profile(tmp_path / name, made)
    read = wh.read_profile(tmp_path / name)
    assert made.visited is not None
    assert read.visited is not None
    assert read.places.same_as(made.places) or name == "a.geojson"
    here, there = read.visited.places.latlon, made.visited.places.latlon
    assert here is not None
    assert there is not None
    one, other = np.lexsort(here.T), np.lexsort(there.T)
    np.testing.assert_allclose(here[one], there[other], atol=1e-7)
    np.testing.assert_allclose(read.visited.weights[one], made.visited.weights[other], atol=1e-6)


def test_points_in_a_plane_and_tables_of_several_people(tmp_path: Path) -> None:
    where = wh.Places.from_xy([[0, 0], [2, 0]])
    with_points = wh.Profile(
        where,
        np.array([0.5, 0.5]),
        visited=VisitedPoints(wh.Places.from_xy([[0.1, 0.2], [1.9, 0]]), np.array([0.3, 0.7])),
    )
    without = replace(with_points, visited=None)
    wh.write_profiles(tmp_path / "all.parquet", {"ann": with_points, "bob": without})
    ann = wh.read_profile(tmp_path / "all.parquet", user="ann")
    assert ann.as_points.places.xy.tolist() == [[0.1, 0.2], [1.9, 0.0]]
    assert ann.as_points.prior.tolist() == [0.3, 0.7]
    assert wh.read_profile(tmp_path / "all.parquet", user="bob").visited is None


@pytest.mark.parametrize(
    "text",
    ["48.8123", "48.8123 2.3456", "48.8123 2.3456 x", "48.8123 2.3456 -1", "48.8123 2.3456 nan",
     "48.8123 2.3456 0", "98.8123 2.3456 1", "48.8123 2.3456 1; 48.8123 2.3456 1",
     "48.8123 2.3456 1 7"],
)  # fmt: skip
def test_points_that_cannot_be_read_are_refused_without_a_number_of_them(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "me.csv"
    file.write_text(f"lat,lon,prior,visited\n48.85,2.35,0.5,{text}\n48.86,2.36,0.5,\n")
    with pytest.raises(wh.InputError) as wrong:
        wh.read_profile(file)
    for number in ("48.8123", "2.3456", "98.81"):
        assert number not in str(wrong.value)


def test_nothing_shows_the_points() -> None:
    found = wh.embedded_city().visited
    assert found is not None
    assert repr(found) == f"VisitedPoints({len(found.places)} points)"
    assert "Visited" not in repr(wh.embedded_city())
    assert pickle.loads(pickle.dumps(found)).weights.tolist() == found.weights.tolist()
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1
    with pytest.raises(wh.InputError, match="visited must be VisitedPoints"):
        replace(wh.embedded_city(), visited=np.zeros((1, 2)))  # type: ignore[arg-type]
