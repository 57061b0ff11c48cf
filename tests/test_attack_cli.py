"""Walks, exposure and ``whereish attack``, on synthetic people whose homes are known."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.attacks.exposure import hypotheses, model_without_data
from whereish.attacks.walks import STAYED_KM
from whereish.cli import app

CITY = wh.SyntheticCity(users=3, days=6, seed=4)


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    return pl.concat([CITY.whole_path(number) for number in range(3)])


@pytest.fixture(scope="module")
def mechanism(people: pl.DataFrame) -> wh.Mechanism:
    everybody = people.with_columns(user=pl.lit("x"))
    who = wh.personal_profile(everybody, 16, zone=CITY.zone).profile
    return wh.exponential(who.places, 4.0)


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_synthetic_people_are_at_home_at_night_and_at_work_by_day(people: pl.DataFrame) -> None:
    walks = wh.attacks.walks_of(people)
    plane = wh.LocalPlane(CITY.lat, CITY.lon)
    for number in range(3):
        walk = walks[CITY.name(number)]
        home, work = plane.to_xy(CITY.home_and_work(number))
        places = wh.Places.from_latlon([[48.85, 2.34], [48.87, 2.36]])
        for anchor, true in ((wh.attacks.HOME, home), (wh.attacks.WORK, work)):
            found = walk.anchor(places, anchor, CITY.zone)
            assert found is not None
            there = plane.to_xy(places.plane.to_latlon(found[None]))  # type: ignore[union-attr]
            assert math.dist(there[0], true) < 0.1
    assert CITY.person(0).equals(wh.SyntheticCity(users=3, days=6, seed=4).person(0))


def test_pauses_at_the_same_point_are_filled_and_others_are_not() -> None:
    begin, minutes = 1_700_000_400, [0, 5, 10, 60, 70, 800]
    far = STAYED_KM / 111 * 1.2
    latitudes = [48.0, 48.0, 48.0, 48.0, 48 + far, 48 + far]
    table = pl.DataFrame(
        {
            "user": ["a"] * 6,
            "time": pl.Series([(begin + m * 60) * 1_000_000 for m in minutes]).cast(
                pl.Datetime("us", "UTC")
            ),
            "lat": latitudes,
            "lon": [2.0] * 6,
        }
    )
    walk = wh.attacks.walks_of(table, 600)["a"]
    assert walk.times_s.tolist() == [begin + 600.0 * k for k in (0, 1, 2, 3, 4, 5, 6, 7, 80)]
    assert walk.latlon[:, 0].tolist() == [48.0] * 7 + [48 + far] * 2
    again = wh.attacks.walks_of(table, 600, stay_gap_s=13 * 3600)["a"]
    assert len(again) == 81
    assert "48" not in repr(walk)


@pytest.mark.slow
@pytest.mark.parametrize("policy", wh.attacks.policy_names())
@pytest.mark.thorough
def test_exposure_has_every_attack(
    policy: str, people: pl.DataFrame, mechanism: wh.Mechanism
) -> None:
    walks = wh.attacks.walks_of(people)
    rng = np.random.default_rng(1)
    found = wh.attacks.expose(mechanism, walks, policy, zone=CITY.zone, rng=rng)
    assert [one.user for one in found] == ["000", "001", "002"]
    for one in found:
        assert {"the report itself", "single report", "smoother", "Viterbi"} <= set(one.scores)
        assert all(0 <= score.success_rate <= 1 for score in one.scores.values())
        assert set(one.found) == {"home", "work"}
        assert 1 <= (one.rank or 0) <= 3
        assert 0 < one.draws <= one.reports
        home = one.found["home"]
        assert home.days is None or home.errors_km[-1] <= 0.3
    if policy == "independent":
        assert all(one.draws == one.reports for one in found)
        # At epsilon 4 per km, hundreds of reports tell the place.
        errors = [one.scores["smoother"].mean_error_km for one in found]
        assert np.mean(errors) < np.mean([one.report_error_km for one in found])
        # Nobody's own ways are in the models of the others only.
        assert [one.rank for one in found] == [1, 1, 1]


@pytest.mark.slow
def test_mechanisms_for_every_point_are_exposed(people: pl.DataFrame) -> None:
    points = wh.Places.from_latlon(np.unique(people.select("lat", "lon").to_numpy()[::400], axis=0))
    weights = np.full(len(points), 1 / len(points))
    everywhere = wh.planar_laplace_everywhere(points, weights, epsilon=3.0)
    grid = hypotheses(everywhere)
    assert len(grid) == 400
    walk = wh.attacks.walks_of(people)["000"]
    short = {"000": walk.part(0, walk.times_s[60])}
    (found,) = wh.attacks.expose(everywhere, short, "sticky", zone=CITY.zone)
    assert found.rank is None
    assert found.scores["smoother"].mean_error_km < 5


def test_the_model_without_data_stays_an_hour() -> None:
    model = model_without_data(wh.Places.from_xy([[0, 0], [1, 0], [2, 0]]))
    assert np.allclose(np.diagonal(model.transitions[0]), 5 / 6)


@pytest.mark.slow
def test_the_command_says_what_is_learned(
    tmp_path: Path, people: pl.DataFrame, mechanism: wh.Mechanism
) -> None:
    people.write_parquet(tmp_path / "people.parquet")
    wh.save_mechanism(tmp_path / "k.whereish", mechanism)
    code, out, err = run(
        "attack", tmp_path / "k.whereish", "--traces", tmp_path / "people.parquet", "--zone",
        CITY.zone, "--policy", "sticky", "--days", "3", "--picture", tmp_path / "p.png", "--json",
    )  # fmt: skip
    assert code == 0, err
    told = json.loads(out)
    (name,) = told["policies"]
    assert name == "sticky"
    assert len(told["policies"]["sticky"]) == 3
    assert "home" in err
    assert "within 300 m" in err
    assert "of 3 people" in err
    assert stat.S_IMODE((tmp_path / "p.png").stat().st_mode) == 0o600
    # No coordinate, in words or JSON: none begins as those of the city do.
    assert "48.8" not in out + err
    assert "2.35" not in err
    code, _, err = run(
        "attack", tmp_path / "k.whereish", "--traces", tmp_path / "people.parquet", "--people", "1",
        "--zone", CITY.zone, "--policy", "independent", "--every", "30m", "--days", "4",
    )  # fmt: skip
    assert code == 0, err
    assert "1 person" in err


def test_wrong_flags_are_refused(tmp_path: Path, mechanism: wh.Mechanism) -> None:
    wh.save_mechanism(tmp_path / "k.whereish", mechanism)
    other = model_without_data(wh.Places.from_xy([[0, 0], [1, 0]]))
    wh.save_movement(tmp_path / "m.json", other)
    for flags in (
        ("--policy", "mine"), ("--every", "10"), ("--days", "0"), ("--people", "0"),
        ("--within", "3"), ("--zone", "Here"), ("--picture", "p.gif"),
        ("--model", tmp_path / "m.json"), ("--model", tmp_path / "none"),
        ("--policy", "sticky", "--later", tmp_path / "k.whereish"), ("--later", tmp_path / "none"),
        ("--later", ","),
    ):  # fmt: skip
        code, _, err = run("attack", tmp_path / "k.whereish", "--traces", tmp_path, *flags)
        assert code == 2, flags
        assert len(err.strip().splitlines()) == 1


def test_profile_writes_a_model_of_other_people(tmp_path: Path, people: pl.DataFrame) -> None:
    people.write_parquet(tmp_path / "people.parquet")
    code, out, err = run(
        "profile", tmp_path / "people.parquet", "--user", "001", "--zone", CITY.zone, "-o",
        tmp_path / "me.csv", "--places", "12", "--cell", "1km", "--no-cache", "--json", "--model",
        tmp_path / "people.parquet",
    )  # fmt: skip
    assert code == 0, err
    file = tmp_path / "me.movement.json"
    assert json.loads(out)["model"] == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    model, profile = wh.load_movement(file), wh.read_profile(tmp_path / "me.csv")
    assert model.places.same_as(profile.places)
    others = wh.count_movement(people, profile, leave_out="001", zone=CITY.zone)
    assert np.allclose(model.transitions, others.reweighted(profile.prior).transitions)
    assert np.allclose(model.prior, profile.prior)
    people.filter(user="001").write_parquet(tmp_path / "me.parquet")
    code, _, err = run(
        "profile", tmp_path / "me.parquet", "--user", "001", "-o", tmp_path / "again.csv",
        "--model", tmp_path / "me.parquet", "--no-cache", "--places", "12",
    )  # fmt: skip
    assert code == 2
    assert "other people" in err
    code, _, err = run(
        "profile", tmp_path / "people.parquet", "--group", "users", "--zone", CITY.zone, "-o",
        tmp_path / "all", "--model", tmp_path / "people.parquet",
    )  # fmt: skip
    assert code == 2
