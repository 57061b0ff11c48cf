"""Statistics from reports: the likelihood is at its largest, and what is not known is said."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import whereish as wh
from effort import examples
from strategies import Floats, grid, priors, skewed, stochastic
from whereish.cli import app
from whereish.estimation.errors import confused_groups
from whereish.solvers.mixture import maximise, newton, squarem


def likelihood(matrix: Any, shares: Any, weights: Any) -> float:
    """The mean log-likelihood of a report, one report after the other."""
    total = 0.0
    for z, share in enumerate(shares):
        if share > 0:
            total += share * math.log(
                sum(p * row[z] for p, row in zip(weights, matrix, strict=True))
            )
    return total


def slow_gap(matrix: Any, shares: Any, weights: Any) -> float:
    """The bound max_x g(x) - 1 on what the likelihood may gain, for weights with sum 1."""
    seen = [
        sum(p * row[z] for p, row in zip(weights, matrix, strict=True)) for z in range(len(shares))
    ]
    rows = [sum(s / f * k for s, f, k in zip(shares, seen, row, strict=True)) for row in matrix]
    return float(max(rows)) - 1


def slow_update(matrix: Any, shares: Any, steps: int) -> list[float]:
    """The iterative Bayesian update, as its paper writes it."""
    n = len(matrix)
    p = [1 / n] * n
    for _ in range(steps):
        seen = [sum(p[x] * matrix[x][z] for x in range(n)) for z in range(len(shares))]
        p = [
            sum(s * p[x] * matrix[x][z] / seen[z] for z, s in enumerate(shares) if s > 0)
            for x in range(n)
        ]
    return p


@st.composite
def cases(draw: st.DrawFn) -> tuple[Floats, Floats]:
    n, m = draw(st.integers(2, 6)), draw(st.integers(2, 7))
    return draw(stochastic(n, m)), draw(priors(m))


@examples(60)
@given(cases(), st.integers(0, 2**32 - 1))
def test_no_distribution_beats_the_certificate(case: tuple[Floats, Floats], seed: int) -> None:
    matrix, shares = case
    matrix = 0.99 * matrix + 0.01 / matrix.shape[1]
    found = maximise(matrix, shares)
    best = likelihood(matrix, shares, found.weights)
    assert found.gap <= 1e-6
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert found.gap == pytest.approx(slow_gap(matrix, shares, found.weights), abs=1e-9)
    others = [slow_update(matrix.tolist(), shares.tolist(), 40)]
    others += np.random.default_rng(seed).dirichlet(np.full(len(matrix), 0.3), 20).tolist()
    for other in others:
        assert likelihood(matrix, shares, other) <= best + found.gap + 1e-12


def test_both_methods_agree_where_places_can_be_told_apart() -> None:
    mechanism, prior = wh.tight_constraints(grid(4, 3), 4.0), skewed(12, 3)
    shares = np.random.default_rng(1).multinomial(5000, prior @ mechanism.matrix) / 5000
    seen = shares > 0
    matrix, q = mechanism.matrix[:, seen], shares[seen]
    one = newton(matrix, q, 1e-9, 100)
    other = squarem(
        lambda p: matrix @ (q / (p @ matrix)), lambda p: float(q @ np.log(p @ matrix)),
        np.full(12, 1 / 12), 1e-9,
    )  # fmt: skip
    assert one.gap <= 1e-9
    assert other.gap <= 1e-9
    assert np.abs(one.weights - other.weights).max() < 1e-4


def test_exact_reports_have_the_errors_of_a_multinomial() -> None:
    exact = wh.Mechanism(np.eye(4), grid(2, 2), grid(2, 2))
    counts = [500, 300, 200, 0]
    found = wh.estimate(exact, np.repeat(np.arange(4), counts))
    p = np.array(counts) / 1000
    assert found.shares == pytest.approx(p, abs=1e-6)
    assert found.standard_errors[:3] == pytest.approx(np.sqrt(p * (1 - p) / 1000)[:3], rel=1e-4)
    assert found.low[3] == 0 < found.high[3] < 0.01
    assert (found.rank, found.groups, found.warnings, found.reports) == (4, (), (), 1000)
    assert "0." not in repr(found)


def test_intervals_cover_the_truth() -> None:
    """The full simulation is benchmarks/estimation.py; this one finds an error of a factor."""
    mechanism = wh.tight_constraints(grid(3, 3), 3.0)
    prior = np.random.default_rng(5).dirichlet(np.full(9, 5.0))
    rng, inside = np.random.default_rng(6), []
    for _ in range(150):
        reports = np.repeat(np.arange(9), rng.multinomial(20_000, prior @ mechanism.matrix))
        found = wh.estimate(mechanism, reports)
        inside.append((found.low <= prior) & (prior <= found.high))
    assert 0.92 < np.mean(inside) < 0.975


def test_places_with_equal_rows_cannot_be_told_apart() -> None:
    matrix = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9]])
    merged = wh.Mechanism(matrix, grid(3, 1), grid(2, 1))
    found = wh.estimate(merged, [0] * 400 + [1] * 600)
    assert found.groups == ((0, 1),)
    assert found.rank == 2
    assert "cannot tell these places apart: 0, 1" in found.warnings[0]
    assert np.isnan(found.standard_errors[:2]).all()
    assert found.standard_errors[2] > 0
    assert (found.low[:2] == 0).all()
    assert (found.high[:2] == 1).all()
    assert found.shares[2] == pytest.approx((0.6 - 0.4) / 0.5, abs=1e-4)
    assert confused_groups(np.eye(3)) == (3, ())


def test_an_optimal_mechanism_is_said_to_merge_places() -> None:
    places, prior = grid(4, 3), skewed(12, 4)
    best = wh.optimal(places, prior, 1.0)
    found = wh.estimate(best, best.sample(0, size=500))
    assert found.rank < 12
    assert found.groups
    assert "cannot tell" in found.warnings[0]


def test_reports_of_many_mechanisms_add_up() -> None:
    places, prior = grid(3, 2), np.random.default_rng(2).dirichlet(np.full(6, 3.0))
    one, other = wh.tight_constraints(places, 3.0), wh.exponential(places, 2.0)
    rng = np.random.default_rng(3)
    draws = [
        np.repeat(np.arange(6), rng.multinomial(n, prior @ m.matrix))
        for m, n in ((one, 3000), (other, 3000))
    ]
    both = wh.estimate([one, other], draws)
    stacked = np.concatenate([one.matrix, other.matrix], axis=1)
    counts = np.concatenate([np.bincount(some, minlength=6) for some in draws])
    slow = slow_update(stacked.tolist(), (counts / 6000).tolist(), 3000)
    assert both.shares == pytest.approx(slow, abs=2e-3)
    assert both.gap <= 1e-6
    halves = wh.estimate([one, one], [draws[0][::2], draws[0][1::2]])
    whole = wh.estimate(one, draws[0])
    assert halves.shares == pytest.approx(whole.shares, abs=1e-6)
    assert halves.standard_errors == pytest.approx(whole.standard_errors, rel=1e-3)
    assert (both.standard_errors < whole.standard_errors).all()


def test_sticky_reports_count_once() -> None:
    mechanism = wh.tight_constraints(grid(2, 2), 3.0)
    reports = [0, 0, 0, 1, 0, 2, -1]
    people = ["a", "a", "b", "a", "a", "b", "b"]
    days = [1, 1, 1, 1, 2, 1, 1]
    found = wh.estimate(mechanism, reports, people=people, periods=days)
    assert (found.reports, found.repeated, found.outside) == (5, 1, 1)
    plain = wh.estimate(mechanism, [0, 0, 0, 1, 2])
    assert found.shares == pytest.approx(plain.shares)
    assert wh.estimate(mechanism, reports, people=people).repeated == 2


def test_points_and_reports_are_outputs() -> None:
    city = wh.embedded_city()
    mechanism = wh.planar_laplace(city.places, 3.0)
    drawn = mechanism.sample(3, size=200, rng=np.random.default_rng(1))
    assert drawn.latlon is not None
    expected = wh.estimate(mechanism, drawn.outputs)
    for same in (drawn, drawn.latlon, drawn.latlon.round(5)):
        assert (wh.estimate(mechanism, same).shares == expected.shares).all()


@pytest.mark.parametrize(
    ("reports", "more", "words"),
    [
        ([], {}, "at least one report"),
        ([0, 9], {}, "numbers of outputs from 0 to 3"),
        ([0.5], {}, "reports must be Reports"),
        ([[0.3, 0.3]], {}, "1 of 1 are not; the first one is report 0"),
        ([0, 1], {"people": ["a"]}, "people must have one value"),
        ([0, 1], {"periods": [1, 2]}, "periods must go with people"),
        ([0], {"gap": 0}, "gap must be"),
    ],
)
def test_what_cannot_be_estimated_is_refused(reports: Any, more: Any, words: str) -> None:
    with pytest.raises(wh.InputError, match=words) as wrong:
        wh.estimate(wh.tight_constraints(grid(2, 2), 3.0), reports, **more)
    assert "0.3" not in str(wrong.value)


def test_mechanisms_that_do_not_fit_are_refused() -> None:
    some = wh.tight_constraints(grid(2, 2), 3.0)
    other = wh.tight_constraints(grid(3, 2), 3.0)
    with pytest.raises(wh.InputError, match="same inputs"):
        wh.estimate([some, other], [[0], [0]])
    with pytest.raises(wh.InputError, match="one entry for each of 2"):
        wh.estimate([some, some], [0, 0, 0])
    with pytest.raises(wh.InputError, match="must be a Mechanism"):
        wh.estimate(np.eye(2), [0])  # type: ignore[arg-type]
    never = wh.Mechanism(np.array([[1.0, 0.0], [1.0, 0.0]]), grid(2, 1), grid(2, 1))
    with pytest.raises(wh.InputError, match="outputs that the mechanism draws, and .* are not"):
        wh.estimate(never, [0, 1])


@pytest.mark.parametrize("limit", [2000, 1])
def test_moves_are_estimated(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both methods, against the update of the joint with four loops."""
    monkeypatch.setattr("whereish.estimation.transitions.NEWTON_UP_TO", limit)
    mechanism = wh.tight_constraints(grid(3, 1), 6.0)
    truth = np.array([[0.3, 0.1, 0.0], [0.05, 0.2, 0.1], [0.0, 0.05, 0.2]])
    rng = np.random.default_rng(4)
    pairs = rng.choice(9, size=4000, p=truth.ravel())
    before, after = (
        np.array([rng.choice(3, p=mechanism.matrix[x]) for x in side])
        for side in (pairs // 3, pairs % 3)
    )
    found = wh.estimate_transitions(mechanism, before, after)
    assert found.gap <= 1e-4
    assert found.pairs == 4000
    assert np.abs(found.joint - truth).sum() / 2 < 0.06
    assert found.before == pytest.approx(found.joint.sum(axis=1))
    assert np.nansum(found.matrix, axis=1) == pytest.approx(np.ones(3))
    square = np.kron(mechanism.matrix, mechanism.matrix).tolist()
    shares = np.bincount(before * 3 + after, minlength=9) / 4000
    slow = slow_update(square, shares.tolist(), 60)
    best = likelihood(square, shares, found.joint.ravel())
    assert likelihood(square, shares, slow) <= best + found.gap
    with pytest.raises(wh.InputError, match="same length"):
        wh.estimate_transitions(mechanism, [0], [0, 1])
    with pytest.raises(wh.InputError, match="at least one pair"):
        wh.estimate_transitions(mechanism, [-1], [0])


def test_the_map_error_is_the_same_for_everybody() -> None:
    places, prior = grid(3, 3), skewed(9, 1)
    tight, best = wh.tight_constraints(places, 2.0), wh.optimal(places, prior, 2.0)
    error = wh.expected_map_error(tight, prior)
    assert error == wh.expected_map_error(tight, prior)
    assert error < wh.expected_map_error(best, prior)
    assert error > wh.expected_map_error(tight, prior, reports=1_000_000)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A mechanism, and the table that `obfuscate` wrote with it: two days, a row without point."""
    folder = tmp_path_factory.mktemp("reports")
    mechanism = wh.tight_constraints(wh.embedded_city().places, 3.0)
    wh.save_mechanism(folder / "k.whereish", mechanism)
    latlon = mechanism.inputs.latlon
    assert latlon is not None
    lines = ["user,time,lat,lon", "z,2024-01-01T08:00:00,,"]
    for k in range(300):
        lat, lon = latlon[k % 7]
        lines.append(f"u{k % 20},2024-01-0{1 + k % 2}T08:00:00,{lat},{lon}")
    (folder / "points.csv").write_text("\n".join(lines) + "\n")
    wh.obfuscate_table(
        mechanism, folder / "points.csv", folder / "safe.csv", user="user", time="time"
    )
    return folder / "k.whereish", folder / "safe.csv"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.slow
def test_the_command_reads_what_obfuscate_wrote(
    collected: tuple[Path, Path], tmp_path: Path
) -> None:
    output, picture = tmp_path / "map.csv", tmp_path / "map.png"
    done = run("estimate", *collected, "-o", output, "--picture", picture, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["reports"], told["blank"], told["rank"]) == (300, 1, 48)
    assert told["gap"] <= 1e-6
    assert picture.read_bytes().startswith(b"\x89PNG")
    who = wh.read_profile(output)  # the table is a profile
    assert len(who.places) == 48
    assert who.prior.sum() == pytest.approx(1)
    heading = output.read_text().splitlines()[0]
    assert heading == "lat,lon,prior,width_km,height_km,standard_error,low_95,high_95"
    once = run("estimate", *collected, "-o", output, "--user", "user", "--time", "time", "--json")
    assert once.exit_code == 0, once.stderr
    facts = json.loads(once.stdout)
    assert facts["reports"] + facts["repeated"] == 300
    assert facts["repeated"] > 0
    assert not re.search(r"\b48\.\d", done.stderr + once.stderr)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-o", "map.txt"), "output must be a .csv file"),
        (("-o", "map.csv", "--time", "time"), "--time must go with --user"),
        (("-o", "map.csv", "--user", "nobody"), "must have the columns"),
        (("-o", "map.csv", "--columns", "lat"), "columns must be two names"),
    ],
)
def test_the_command_refuses(
    collected: tuple[Path, Path], tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    flags = tuple(str(tmp_path / one) if one.startswith("map.") else one for one in flags)
    done = run("estimate", *collected, *flags)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_says_which_report_is_wrong(
    collected: tuple[Path, Path], tmp_path: Path
) -> None:
    for wrong in ("48.8601234,2.3401234", "148.86,2.34"):  # no output; no latitude
        other = tmp_path / "raw.csv"
        good = wh.load_mechanism(collected[0])[0].outputs.latlon[0]
        other.write_text(f"lat,lon\n{good[0]},{good[1]}\n,\n{wrong}\n")
        done = run("estimate", collected[0], other, "-o", tmp_path / "map.csv")
        assert done.exit_code == 2
        assert "1 of 2 are not; the first one is in row 3 of raw.csv" in done.stderr
        assert "48.86" not in done.stderr
        assert "place" not in done.stderr


def test_the_command_takes_several_mechanisms(collected: tuple[Path, Path], tmp_path: Path) -> None:
    """Two tables and one mechanism twice: the same as both tables in one."""
    both, output = tmp_path / "both.csv", tmp_path / "map.csv"
    heading, *rows = collected[1].read_text().splitlines()
    half = tmp_path / "half.csv"
    half.write_text("\n".join([heading, *rows[:100]]) + "\n")
    both.write_text("\n".join([heading, *rows, *rows[:100]]) + "\n")
    told = run("estimate", *collected, "--also", f"{collected[0]}={half}", "-o", output, "--json")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["mechanisms"] == 2
    shares = wh.read_profile(output).prior
    assert run("estimate", collected[0], both, "-o", output).exit_code == 0
    assert shares == pytest.approx(wh.read_profile(output).prior, abs=1e-4)
    for also in ("k.whereish", "=reports.csv"):
        refused = run("estimate", *collected, "--also", also, "-o", output)
        assert "--also must be MECHANISM=REPORTS" in refused.stderr
    half.write_text("")
    refused = run("estimate", collected[0], half, "-o", output)
    assert "must hold a heading and reports, and it is empty" in refused.stderr


def test_the_command_estimates_moves(tmp_path: Path) -> None:
    """At a large epsilon reports are the places: the moves can be counted by hand."""
    mechanism = wh.tight_constraints(wh.embedded_city().places, 60.0)
    wh.save_mechanism(tmp_path / "k.whereish", mechanism)
    latlon: Any = mechanism.outputs.latlon
    lines = ["user,time,lat,lon"]
    for person in range(40):
        visits = [(8, 0), (9, 0), (10, 1 if person % 4 else 2), (12, 0)]  # the second is sticky
        for hour, place in visits[:: (-1) ** person]:  # the order of the rows does not matter
            lat, lon = latlon[place]
            lines.append(f"u{person},2024-01-01T{hour:02}:00:00,{lat},{lon}")
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n")
    words = ("estimate", tmp_path / "k.whereish", tmp_path / "r.csv", "-o", tmp_path / "map.csv")
    done = run(*words, "--user", "user", "--time", "time", "--moves", tmp_path / "m.csv", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["moves"]["pairs"] == 80
    heading, *rows = (tmp_path / "m.csv").read_text().splitlines()
    assert heading == "from_row,to_row,share,probability"
    moves = {tuple(map(int, row.split(",")[:2])): float(row.split(",")[2]) for row in rows}
    expected = {(0, 1): 0.375, (1, 0): 0.375, (0, 2): 0.125, (2, 0): 0.125}
    for pair, share in expected.items():
        assert moves[pair] == pytest.approx(share, abs=0.01)
    alone = run(*words, "--moves", tmp_path / "m.csv")
    assert "--moves must go with --user" in alone.stderr
