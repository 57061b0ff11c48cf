"""The comparison: which rows hold between places and which between any two points, and the loss."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.mechanisms import MECHANISMS, register_mechanism
from whereish.profiles import VisitedPoints
from whereish.studies import Row, compare

EVERYWHERE = ["optimal everywhere", "planar Laplace everywhere + remap"]


def profile(visited: bool = True) -> wh.Profile:
    """Nine places a km apart; visited points between them, skewed like the prior."""
    chance = np.random.default_rng(5)
    points = wh.Places.from_xy(chance.uniform(-0.4, 2.4, (14, 2)).round(3))
    found = VisitedPoints(points, some.skewed(14, 3)) if visited else None
    return wh.Profile(some.grid(3, 3), some.skewed(9), visited=found)


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row.name: row for row in compare(profile(), 1.07)}


def built(rows: dict[str, Row]) -> dict[str, Row]:
    """All but tight constraints, which does not exist here."""
    found = {name: row for name, row in rows.items() if row.problem is None}
    assert len(found) == len(rows) - 2
    return found


def loss_by_hand(row: Row, points: wh.Places, weights: Any) -> float:
    """The sum of weight times probability times distance, one term after the other."""
    total = 0.0
    for (x, y), weight in zip(points.xy.tolist(), weights.tolist(), strict=True):
        made = row.mechanism
        assert made is not None
        if isinstance(made, wh.Mechanism):
            away = [math.hypot(x - a, y - b) for a, b in made.inputs.xy.tolist()]
            chances = made.matrix[away.index(min(away))]
        else:
            chances = made.probabilities((x, y))
        for chance, (a, b) in zip(chances.tolist(), made.outputs.xy.tolist(), strict=True):
            total += weight * chance * math.hypot(x - a, y - b)
    return total


def test_every_row_says_what_its_epsilon_is_between(rows: dict[str, Row]) -> None:
    assert [name for name, row in rows.items() if row.guarantee == "everywhere"] == EVERYWHERE
    for name, row in built(rows).items():
        assert (row.guarantee is None) == (row.epsilon_per_km is None)
        if name not in EVERYWHERE:
            assert row.mechanism is not None
            # Two points on either side of a border differ by a factor that nothing limits.
            assert math.isinf(float(wh.tightest_epsilon_everywhere(row.mechanism)))
    for name in EVERYWHERE:
        assert rows[name].epsilon_per_km == 1.07
        assert 0 < (rows[name].tightest_epsilon_per_km or 0) <= 1.07


def test_the_loss_at_points_is_that_of_raw_points(rows: dict[str, Row]) -> None:
    who = profile()
    assert who.visited is not None
    for row in built(rows).values():
        close = 1e-9 if row.name != EVERYWHERE[1] else 1e-3  # the noise is integrated
        by_hand = loss_by_hand(row, who.visited.places, who.visited.weights)
        assert row.point_loss_km == pytest.approx(by_hand, rel=close)
        assert row.quality_loss_km == pytest.approx(
            loss_by_hand(row, who.places, who.prior), rel=close
        )
        assert row.point_loss_km != pytest.approx(row.quality_loss_km, rel=1e-3)


def test_the_mechanisms_for_all_points_are_built_for_the_visited_points(
    rows: dict[str, Row],
) -> None:
    own = profile().as_points
    lattice = wh.optimal_everywhere(own.places, own.prior, 1.07, vertices=300, method="lattice")
    noise = wh.planar_laplace_everywhere(own.places, own.prior, 1.07)
    for name, alone in zip(EVERYWHERE, (lattice, noise), strict=True):
        assert rows[name].point_loss_km == pytest.approx(alone.build.loss_km, rel=1e-9)


def test_the_adversary_may_guess_a_place_or_a_report(rows: dict[str, Row]) -> None:
    who = profile()
    for name in EVERYWHERE:
        made = rows[name].mechanism
        assert made is not None
        assert not isinstance(made, wh.Mechanism)
        joint = who.prior[:, None] * made.probabilities(who.places.xy)
        guesses = np.vstack([who.places.xy, made.outputs.xy])
        away = np.hypot(*(who.places.xy[:, None] - guesses).transpose(2, 0, 1))
        by_hand = sum(min(joint[:, z] @ away) for z in range(joint.shape[1]))
        assert rows[name].adversary_error_km == pytest.approx(by_hand, rel=1e-6)
        assert by_hand <= (rows[name].quality_loss_km or 0) * (1 + 1e-6)


def test_places_stand_for_points_where_there_are_none() -> None:
    rows = {row.name: row for row in compare(profile(visited=False), 1.07)}
    for row in built(rows).values():
        assert row.point_loss_km == pytest.approx(row.quality_loss_km, rel=1e-9)


@pytest.fixture
def plugin() -> Iterator[None]:
    register_mechanism(
        "own-everywhere", "noise of a program of somebody",
        for_points=lambda asked: wh.planar_laplace_everywhere(
            asked.places, asked.prior, asked.level, normalise=True
        ),
    )  # fmt: skip
    register_mechanism("none-everywhere", "cannot be built", for_points=_refused)
    yield
    MECHANISMS.pop("own-everywhere")
    MECHANISMS.pop("none-everywhere")


def _refused(asked: Any) -> Any:
    raise wh.SolveError("it does not exist")


@pytest.mark.usefixtures("plugin")
def test_a_registered_mechanism_for_all_points_is_a_row() -> None:
    told: list[str] = []
    rows = {row.name: row for row in compare(profile(), 1.07, tell=told.append)}
    assert list(rows) == told
    assert rows["own-everywhere"].guarantee == "everywhere"
    assert rows["own-everywhere"].point_loss_km == rows[EVERYWHERE[1]].point_loss_km
    assert rows["none-everywhere"].problem == "it does not exist"
    assert rows["none-everywhere"].guarantee == "everywhere"
    assert "own-everywhere" not in wh.mechanisms.method_names()
    assert not set(EVERYWHERE) & {row.name for row in compare(profile(), 1.07, everywhere=False)}


@pytest.mark.parametrize("visited", [True, False])
def test_the_command_says_which_guarantee_and_which_loss(tmp_path: Path, visited: bool) -> None:
    wh.write_profile(tmp_path / "me.csv", profile(visited))
    done = CliRunner().invoke(
        app, ["compare", str(tmp_path / "me.csv"), "--epsilon", "1.07", "--json"]
    )
    assert done.exit_code == 0, done.stderr
    first, second = done.stderr.split("Private between any two points")
    assert "Private between the 9 places only" in first
    assert "optimal everywhere" in second
    assert "optimal everywhere" not in first
    assert ("14 visited points" in second) == visited
    assert ("the profile has no visited points" in second) == (not visited)
    assert "300 vertices" in second
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows if row["guarantee"] == "everywhere"] == EVERYWHERE
    assert all(row["point_loss_km"] > 0 for row in rows if row["problem"] is None)
    assert "mechanism" not in rows[0]
