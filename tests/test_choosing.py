"""Choosing a level: the target is met, impossible targets are refused, the table is the truth."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from typer.testing import CliRunner

import checks
import whereish as wh
from effort import examples
from strategies import Floats, grid, profiles, skewed
from whereish.choosing import level as level_module
from whereish.choosing.trade_off import usual_levels
from whereish.cli import app


def least_loss(xy: list[list[float]], prior: list[float], epsilon: float) -> float:
    """The optimum by a general solver: one row for every ratio, nothing shared with the library."""
    n = len(xy)
    cost = [prior[x] * math.dist(xy[x], xy[z]) for x in range(n) for z in range(n)]
    rows = []
    for x in range(n):
        for other in range(n):
            for z in range(n):
                row = [0.0] * (n * n)
                row[x * n + z] += 1.0
                row[other * n + z] -= math.exp(epsilon * math.dist(xy[x], xy[other]))
                if other != x:
                    rows.append(row)
    sums = [[1.0 if k // n == x else 0.0 for k in range(n * n)] for x in range(n)]
    found = linprog(cost, rows, [0.0] * len(rows), sums, [1.0] * n, (0, 1), method="highs")
    assume(found.status == 0)
    return float(found.fun or 0.0)


def best_guess_error(
    matrix: list[list[float]], prior: list[float], distance: list[list[float]]
) -> float:
    """For every report, the guess with the least expected distance."""
    places, outputs = range(len(prior)), range(len(matrix[0]))
    return sum(
        min(sum(prior[x] * matrix[x][z] * distance[x][g] for x in places) for g in places)
        for z in outputs
    )


@examples(12)
@given(profiles(3, 5), st.sampled_from([0.05, 0.4, 0.9]))
def test_the_loss_of_the_optimum_is_met(profile: tuple[wh.Places, Floats], share: float) -> None:
    places, prior = profile
    most = float((prior @ wh.euclidean(places)).min())
    assume(most > 1e-3)
    found = wh.epsilon_for(places, prior, loss=share * most)
    assume(found.epsilon * wh.euclidean(places).max() < 8)  # for the other solver's sake
    assert found.hit
    truth = least_loss(places.xy.tolist(), prior.tolist(), found.epsilon)
    assert truth == pytest.approx(share * most, rel=1.1e-3)
    assert found.reached == pytest.approx(truth, rel=1e-4)
    assert found.mechanism is not None
    assert found.mechanism.epsilon == found.epsilon


@examples(20)
@given(profiles(3, 9), st.sampled_from([0.1, 0.5, 0.8]))
def test_the_adversary_error_is_met(profile: tuple[wh.Places, Floats], share: float) -> None:
    places, prior = profile
    most = float((prior @ wh.euclidean(places)).min())
    assume(most > 1e-3)
    found = wh.epsilon_for(places, prior, adversary_error=share * most)
    again = wh.optimal(places, prior, found.epsilon)
    error = best_guess_error(again.matrix.tolist(), prior.tolist(), wh.euclidean(places).tolist())
    assert error == pytest.approx(share * most, rel=1e-3)


def test_a_target_that_jumps_is_said_to_be_missed() -> None:
    """With the discrete loss the adversary error is not continuous in epsilon."""
    places, prior = grid(3, 2), skewed(6, 1)
    most = float((prior @ wh.euclidean(places)).min())
    for share in (0.3, 0.6, 0.9):
        found = wh.epsilon_for(
            places, prior, adversary_error=share * most, quality_metric=wh.discrete(6)
        )
        missed = abs(found.reached / (share * most) - 1) > 1e-3
        assert found.hit != missed
        if missed:
            assert found.reached > share * most  # on the private side
            assert "no epsilon reaches" in found.words


def test_ratio_and_within_need_no_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_module, "person_of", None)
    for within in (0.65, "650m", "0.65 km"):
        found = wh.epsilon_for(grid(2, 2), ratio=2, within=within)
        assert found.epsilon == pytest.approx(math.log(2) / 0.65)
        assert (found.hit, found.solves, found.mechanism) == (True, 0, None)
        assert "650 m" in found.words


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ({}, "exactly one target must be given.*none"),
        ({"loss": 0.5, "ratio": 2, "within": 1}, "exactly one target"),
        ({"loss": 0.5, "within": 1}, "exactly one target"),
        ({"ratio": 2}, "exactly one target"),
        ({"loss": 0.0}, "loss must be"),
        ({"loss": 50.0}, "best constant report.*no epsilon reaches 50 km"),
        ({"adversary_error": 50.0}, "best guess without a report.*no epsilon reaches"),
        ({"ratio": 1.0, "within": 1}, "ratio must be"),
        ({"ratio": 2.0, "within": "650"}, "within must be a length"),
    ],
)
def test_what_cannot_be_met_is_refused(targets: dict[str, object], words: str) -> None:
    with pytest.raises(wh.InputError, match=words):
        wh.epsilon_for(grid(3, 2), skewed(6), **targets)  # type: ignore[arg-type]


def test_a_loss_below_that_of_the_outputs_is_refused() -> None:
    with pytest.raises(wh.InputError, match="without any privacy"):
        wh.epsilon_for(grid(3, 2), np.full(6, 1 / 6), outputs=[0], loss=0.001)


def test_the_table_is_what_each_optimum_has() -> None:
    places, prior = grid(4, 3), skewed(12, 5)
    calls: list[tuple[int, int]] = []
    table = wh.trade_off(
        places, prior, [2.0, 0.5, 1.07], progress=lambda done, of: calls.append((done, of))
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert [row.epsilon for row in table] == [0.5, 1.07, 2.0]
    for row, mechanism in zip(table, table.mechanisms, strict=True):
        again = wh.optimal(places, prior, row.epsilon)
        assert np.array_equal(mechanism.counts, again.counts)
        matrix, distance = again.matrix.tolist(), wh.euclidean(places).tolist()
        assert row.loss_km == pytest.approx(
            checks.expected_distance(matrix, prior.tolist(), distance)
        )
        assert row.adversary_error_km == pytest.approx(
            best_guess_error(matrix, prior.tolist(), distance)
        )
        right = sum(max(prior[x] * matrix[x][z] for x in range(12)) for z in range(12))
        assert row.guess_success == pytest.approx(right)
    for name, falls in (("loss_km", True), ("adversary_error_km", True), ("guess_success", False)):
        steps = np.diff(table.column(name))
        assert (steps <= 1e-9).all() if falls else (steps >= -1e-9).all()
    assert table.blind_success == prior.max() <= table.rows[0].guess_success
    assert table.constant_loss_km >= table.rows[0].loss_km
    assert "0." not in repr(table)
    with pytest.raises(wh.InputError, match="column must be one of"):
        table.column("words")


def test_levels_of_a_table() -> None:
    assert len(wh.trade_off(wh.Profile(grid(2, 2), skewed(4)))) == 20
    for wrong in ([], [1.0, 1.0], [0.0], [[1.0]], "abc"):
        with pytest.raises(wh.InputError):
            wh.trade_off(grid(2, 2), skewed(4), wrong)
    with pytest.raises(wh.InputError, match="prior must be left out"):
        wh.trade_off(wh.Profile(grid(2, 2), skewed(4)), skewed(4))
    levels = usual_levels(grid(5, 5), 7)
    assert len(levels) == 7
    assert sorted(levels) == levels


@pytest.fixture
def who(tmp_path: Path) -> Path:
    path = tmp_path / "me.csv"
    wh.write_profile(path, wh.Profile(grid(3, 3), skewed(9, 2)))
    return path


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_writes_the_curve_and_the_table(who: Path, tmp_path: Path) -> None:
    curve = tmp_path / "curve.png"
    done = run("trade-off", who, "-o", curve, "--epsilons", "0.5,1,2", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["epsilon"] for row in told["levels"]] == [0.5, 1.0, 2.0]
    assert told["chosen"] is None
    assert curve.read_bytes().startswith(b"\x89PNG")
    assert curve.stat().st_mode & 0o077 == 0
    assert "best guess off" in done.stderr


@pytest.mark.parametrize("flag", ["--loss", "--adversary-error"])
def test_the_command_finds_the_epsilon(who: Path, tmp_path: Path, flag: str) -> None:
    done = run("trade-off", who, flag, "100m", "--json")
    assert done.exit_code == 0, done.stderr
    chosen = json.loads(done.stdout)["chosen"]
    assert chosen["reached"] == pytest.approx(0.1, rel=1e-3)
    assert f"--epsilon {chosen['epsilon']:.6g}" in done.stderr
    marked = run("trade-off", who, flag, "100m", "-o", tmp_path / "curve.svg", "--points", 3)
    assert marked.exit_code == 0, marked.stderr
    assert (tmp_path / "curve.svg").is_file()


def test_the_command_takes_a_level_in_words_and_shows_its_row(who: Path) -> None:
    done = run("trade-off", who, "--ratio", "2", "--within", "650m", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["chosen"]["epsilon"] == pytest.approx(np.log(2) / 0.65)
    assert [row["epsilon"] for row in told["levels"]] == [told["chosen"]["epsilon"]]
    assert "best guess off" in done.stderr


@pytest.mark.parametrize(
    "target", [("--ratio", "3", "--within", "1 km"), ("--loss", "100m", "--dilation", "1.3")]
)
def test_the_command_that_it_proposes_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 3},{i // 3},{i + 1}\n" for i in range(9))  # weights, not probabilities
    Path("my places.csv").write_text("x_km,y_km,prior\n" + rows)
    done = run("trade-off", "my places.csv", *target, "--normalise", "--json")
    assert done.exit_code == 0, done.stderr
    (line,) = re.findall(r"^Next: whereish (.*)$", done.stderr, re.MULTILINE)
    assert ("--dilation 1.3" in line) == ("--dilation" in target)
    built = run(*shlex.split(line))
    assert built.exit_code == 0, built.stderr
    chosen = json.loads(done.stdout)["chosen"]
    mechanism, _ = wh.load_mechanism("k.whereish")
    assert mechanism.epsilon == pytest.approx(chosen["epsilon"], rel=1e-5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--loss", "100m", "--adversary-error", "100m"), "exactly one target"),
        (("--loss", "100m", "--ratio", "2", "--within", "1km"), "exactly one target"),
        (("--ratio", "2"), "exactly one target"),
        (("--within", "650m"), "exactly one target"),
        (("--ratio", "2", "--within", "650"), "within must be a length with its unit"),
        (("--loss", "0.5"), "loss must be a length with its unit"),
        (("--loss", "900km"), "best constant report"),
        (("--epsilons", "1,x"), "epsilons must be different numbers"),
        (("-o", "curve.txt"), "must end in .png"),
    ],
)
def test_the_command_refuses(who: Path, flags: tuple[str, ...], words: str) -> None:
    done = run("trade-off", who, *flags)
    assert done.exit_code == 2
    assert words in done.stderr


def test_the_page_about_levels_has_the_rows_of_the_guide() -> None:
    root = Path(__file__).resolve().parent.parent
    guide = (root / "docs" / "guides" / "which-epsilon.md").read_text()
    page = (root / "src" / "whereish" / "service" / "page" / "which-epsilon.html").read_text()
    rows = [line for line in guide.splitlines() if line.startswith("|") and line.count("|") == 7]
    assert len(rows) == 9
    for row in rows[2:]:
        _, within, off, right, _, after = (cell.strip() for cell in row.strip("|").split("|"))
        cells = "".join(f"<td>{cell}</td>" for cell in (within, off, right, after))
        assert f"<tr>{cells}</tr>" in page
    assert "which-epsilon.html" in (page_folder() / "index.html").read_text()


def page_folder() -> Path:
    return Path(wh.__file__).parent / "service" / "page"
