"""The visited points of a group: everybody's own, whatever is read at a time, kept if asked."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.cli import app
from whereish.profiles import (
    SquareCells,
    VisitedPoints,
    busiest_window,
    count_visits,
    group_points,
    own_middles,
    personal_profile,
)
from whereish.profiles.visits import CountOptions
from whereish.traces.held import hold
from whereish.traces.readers import limits

AREA = (48.7936, 2.2569, 48.9195, 2.4477)
HOW: CountOptions = {"zone": "Europe/Paris", "count": None, "progress": None, "cache": None}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An own cache; and small batches, so that a person's hour is in several of a table."""
    monkeypatch.setenv("WHEREISH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(limits, "ROWS_A_FRAME", 1000)


def city(folder: Path, form: str = "geolife") -> Path:
    """Five people, unequally at their spots; a table has their rows mixed."""
    made = wh.SyntheticCity(users=5, days=24, every_s=90, seed=2)
    target = folder / ("city" if form == "geolife" else "city.parquet")
    if form == "geolife":
        made.write_geolife(target)
    else:
        made.write_parquet(target)
        rows = pl.read_parquet(target)
        rows.sample(fraction=1, shuffle=True, seed=1).write_parquet(target)
    return target


def points(traces: wh.Traces, how: CountOptions = HOW, days: int | None = 10) -> Any:
    cells = SquareCells.over(*AREA)
    visits = count_visits(traces, cells, **how)
    if days is not None:
        visits = busiest_window(visits, days)
    middles = own_middles(traces, visits.users, 25, how)
    return group_points(traces, middles, visits, how, within=cells)


def assert_same(one: VisitedPoints, other: VisitedPoints) -> None:
    assert one.places.latlon is not None
    assert other.places.latlon is not None
    np.testing.assert_allclose(one.places.latlon, other.places.latlon, atol=1e-9)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["geolife", "parquet"])
@pytest.mark.parametrize("count", ["hours", "points"])
def test_everybody_has_the_points_that_they_have_alone(
    tmp_path: Path, form: str, count: str
) -> None:
    where = city(tmp_path, form)
    how: CountOptions = {**HOW, "count": count}
    days = 10 if count == "hours" else None
    traces = hold(wh.open_traces(where), timed=count == "hours")
    found = points(traces, how, days)
    assert len(found) == 5
    assert len({len(some.places) for some in found.values()}) > 1
    for user, some in found.items():
        alone = personal_profile(
            wh.open_traces(where, users=[user]), 20, zone="Europe/Paris", window_days=days,
            regions=SquareCells.over(*AREA), points=True, count=count,
        ).profile.visited  # fmt: skip
        assert alone is not None
        assert_same(some, alone)


@pytest.mark.parametrize("form", ["geolife", "parquet"])
def test_few_people_at_a_time_have_the_same_points(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded by reading again: of folders, only those of the people in turn."""
    where = city(tmp_path, form)
    at_once = points(wh.open_traces(where))
    seen: list[frozenset[str]] = []
    of_people = wh.Traces.of_people

    def noted(self: wh.Traces, users: frozenset[str]) -> wh.Traces:
        some = of_people(self, users)
        seen.append(users)
        assert form == "parquet" or {user for user, _ in some.groups} == users
        return some

    module = sys.modules["whereish.profiles.group_points"]
    monkeypatch.setattr(wh.Traces, "of_people", noted)
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 60)
    monkeypatch.setattr(module, "_HELD_PARTS", 2)
    few = points(wh.open_traces(where))
    assert len(seen) > 2
    assert sorted(user for users in seen for user in users) == sorted(at_once)
    assert few.keys() == at_once.keys()
    for user, some in few.items():
        assert_same(some, at_once[user])


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def group(where: Path, output: Path, *more: object) -> Any:
    return run("profile", where, "--group", "users", "--zone", "Europe/Paris", "--at-least", 3,
               "--places", 12, "-o", output, "--json", *more)  # fmt: skip


def visited(path: Path) -> list[str | None]:
    return [] if "visited" not in (table := pl.read_parquet(path)) else table["visited"].to_list()


@pytest.mark.slow
def test_a_group_keeps_points_only_if_asked_and_one_person_unless_refused(tmp_path: Path) -> None:
    """The file of a group tells shares of common cells, and is often another person's to read."""
    where = city(tmp_path)
    plain = group(where, tmp_path / "plain.parquet")
    assert json.loads(plain.stdout)["visited_points"] == 0
    assert visited(tmp_path / "plain.parquet") == []
    somebody = pl.read_parquet(tmp_path / "plain.parquet")["user"][0]
    refused = run("build", tmp_path / "plain.parquet", "--user", somebody, "--everywhere",
                  "--epsilon", 1, "-o", tmp_path / "k.whereish")  # fmt: skip
    assert refused.exit_code == 2
    assert "whereish profile TRACES --group users --points -o" in refused.stderr
    kept = group(where, tmp_path / "kept.parquet", "--points")
    assert json.loads(kept.stdout)["visited_points"] > 20
    assert "homes to some metres" in kept.stderr
    assert len(visited(tmp_path / "kept.parquet")) > 0
    same = ["user", "lat", "lon", "prior"]
    one, other = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("plain", "kept"))
    assert one.select(same).equals(other.select(same))
    for flags, number in (((), 100), (("--points",), 100), (("--no-points",), 0)):
        me = tmp_path / "me.csv"
        done = run("profile", where, "--user", "001", "-o", me, "--json", *flags)
        assert done.exit_code == 0, done.stderr
        assert (json.loads(done.stdout)["visited_points"] > number) or number == 0
        assert (wh.read_profile(me).visited is None) == (flags == ("--no-points",))
        assert ("visited" in me.read_text()) == (flags != ("--no-points",))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "own places", "folder"])
@pytest.mark.thorough
def test_from_traces_to_mechanisms_for_every_point_in_two_commands(
    tmp_path: Path, form: str
) -> None:
    where, out = city(tmp_path), tmp_path / "out"
    people = tmp_path / ("people" if form == "folder" else "people.parquet")
    more = ("--own-places",) if form == "own places" else ()
    made = group(where, people, "--points", *more)
    assert made.exit_code == 0, made.stderr
    users = json.loads(made.stdout)["users"]
    done = run("batch", people, "-o", out, "--everywhere", "--vertices", 40, "--epsilon", 1.07,
               "--workers", 1)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    files = sorted(out.glob("*.whereish"))
    assert len(files) == users >= 3
    with (out / "summary.csv").open() as stream:
        rows = {row["user"]: row for row in csv.DictReader(stream)}
    for file in files:
        assert wh.audit_file(file)["certified"]
        own = wh.read_profile(
            people / f"{file.stem}.csv" if form == "folder" else people,
            user=None if form == "folder" else file.stem,
        ).as_points
        mechanism, _ = wh.load_mechanism(file)
        assert isinstance(mechanism, wh.EverywhereMechanism | wh.PlanarLaplaceEverywhere)
        loss = wh.expected_loss(mechanism, own.places, own.prior, normalise=True)
        assert float(rows[file.stem]["loss_km"]) == pytest.approx(loss, rel=1e-6)
