"""The synthetic city: the same from a seed, the same in every format, and skewed as people are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whereish as wh
from whereish.profiles import PERIODS, Cohort, count_visits, paper_profiles, traces_by_file
from whereish.traces import Funnel

CITY = wh.SyntheticCity(users=12, days=40, seed=5, every_s=60)


def everything(path: Path, **options: Any) -> pl.DataFrame:
    funnel = Funnel()
    found = pl.concat(wh.open_traces(path, **options).batches(funnel))
    assert funnel.dropped == 0
    return found.sort("user", "time")


def pipeline(path: Path) -> Cohort:
    visits = count_visits(wh.open_traces(path), wh.SquareCells.over(*CITY.area), CITY.zone)
    return paper_profiles(visits, window_days=30, at_least=5, places=30)


@pytest.mark.slow
def test_a_tree_and_a_table_of_the_same_people_are_the_same(tmp_path: Path) -> None:
    whole = pl.concat(CITY.people()).sort("user", "time")
    tree = CITY.write_geolife(tmp_path / "tree")
    table = CITY.write_parquet(tmp_path / "t.parquet")
    assert everything(tree).equals(whole)
    assert everything(table).equals(whole)
    one, two = pipeline(tree), pipeline(table)
    assert one.users == two.users
    assert len(one.users) >= 8
    assert (one.ids == two.ids).all()
    assert one.scores.equals(two.scores)
    assert one.steps == two.steps
    for user in one.users:
        for period in PERIODS:
            assert (one.priors[user][period] == two.priors[user][period]).all()


@pytest.mark.slow
def test_a_file_is_a_trace_where_files_are(tmp_path: Path) -> None:
    tree = wh.open_traces(CITY.write_geolife(tmp_path / "tree"))
    visits = count_visits(tree, wh.SquareCells.over(*CITY.area), CITY.zone)
    counted = traces_by_file(visits, tree)
    assert counted.traces["traces"].sum() == len(tree.files)
    # The made-up loggers end a file where they pause, so the two readings hardly differ.
    assert int(visits.traces["traces"].sum()) == pytest.approx(len(tree.files), rel=0.05)
    with pytest.raises(wh.InputError, match="GeoLife's tree only"):
        traces_by_file(visits, wh.open_traces(CITY.write_parquet(tmp_path / "t.parquet")))


def test_taxis_are_the_same_people_on_another_clock(tmp_path: Path) -> None:
    found = everything(CITY.write_t_drive(tmp_path / "taxis"))
    first = found.filter(user="1").sort("time")
    told = CITY.person(0)
    assert first["time"].equals(told["time"])
    assert np.abs(first["lat"].to_numpy() - told["lat"].to_numpy()).max() <= 5.1e-6
    line = (tmp_path / "taxis" / "1.txt").read_text().splitlines()[0]
    assert len(line.split(",")) == 4
    assert line.split(",")[2].startswith("2.")


def test_a_seed_makes_the_same_city_and_another_another() -> None:
    again = wh.SyntheticCity(users=12, days=40, seed=5, every_s=60)
    assert again.person(3).equals(CITY.person(3))
    more = wh.SyntheticCity(users=500, days=40, seed=5, every_s=60)
    assert more.person(3).drop("user").equals(CITY.person(3).drop("user"))
    other = wh.SyntheticCity(users=12, days=40, seed=6, every_s=60)
    assert not other.person(3).equals(CITY.person(3))


def test_people_move_like_people() -> None:
    for number in range(4):
        told = CITY.person(number)
        gap = told["time"].diff().drop_nulls()
        assert gap.min() >= timedelta(seconds=0)  # type: ignore[operator]
        spots = wh.Places.from_latlon([[CITY.lat, CITY.lon]])
        assert spots.plane is not None
        xy = spots.plane.to_xy(told.select("lat", "lon").to_numpy())
        seconds = gap.dt.total_seconds().to_numpy()
        near = (seconds > 0) & (seconds <= CITY.every_s)
        speed = np.hypot(*np.diff(xy, axis=0)[near].T) / seconds[near] * 3600
        assert np.quantile(speed, 0.99) < 40  # km/h
        days = told["time"].dt.date().n_unique()
        assert 1 <= days <= 41


@pytest.mark.slow
@pytest.mark.thorough
def test_priors_are_as_skewed_as_real_ones() -> None:
    """GeoLife's medians on 50 shared places: 17 % at the likeliest, 55 % at five, 4.1 bits."""
    city = wh.SyntheticCity(users=60, seed=0)
    visits = count_visits(pl.concat(city.people()), wh.SquareCells.over(*city.area), city.zone)
    cohort = paper_profiles(visits)
    assert len(cohort.users) >= 48
    all_day = np.array([cohort.priors[user]["all day"] for user in cohort.users])
    ordered = -np.sort(-all_day, axis=1)
    assert 0.12 < np.median(ordered[:, 0]) < 0.25
    assert 0.45 < np.median(ordered[:, :5].sum(axis=1)) < 0.65
    logs = np.where(all_day > 0, np.log2(np.where(all_day > 0, all_day, 1)), 0)
    assert 3.6 < np.median(-(all_day * logs).sum(axis=1)) < 4.5
    night = np.array([cohort.priors[user]["night"] for user in cohort.users])
    assert np.median(np.abs(night - all_day).sum(axis=1) / 2) > 0.1


@pytest.mark.parametrize(
    "misuse",
    [
        lambda tmp: wh.SyntheticCity(users=0),
        lambda tmp: wh.SyntheticCity(days=-1),
        lambda tmp: wh.SyntheticCity(zone="Mars"),
        lambda tmp: wh.SyntheticCity(lat=99.0),
        lambda tmp: CITY.person(12),
        lambda tmp: CITY.write_parquet(tmp / "no" / "such.parquet"),
        lambda tmp: CITY.write_geolife(tmp),
    ],
)
def test_bad_wishes_are_refused(tmp_path: Path, misuse: Any) -> None:
    (tmp_path / "something").write_text("here")
    with pytest.raises(wh.InputError):
        misuse(tmp_path)


def test_a_city_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    def stop(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    for write in (CITY.write_geolife, CITY.write_t_drive, CITY.write_parquet):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "city", stop)
        assert not list(tmp_path.iterdir())
