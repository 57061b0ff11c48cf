"""What a file of version 2 can do: audit, measure, plot, report, obfuscate, and the ledger."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.cli import app
from whereish.device.reporter import square_of
from whereish.everywhere import at_visited_points, visits_in

DIGITS = ("8613579", "3124681")
POINT = f"48.{DIGITS[0]},2.{DIGITS[1]}"
SPOTS = np.array([[48.860, 2.30], [48.872, 2.335], [48.845, 2.36]])


def points_of_a_person() -> Any:
    rng = np.random.default_rng(5)
    return SPOTS[rng.choice(3, 60, p=[0.6, 0.3, 0.1])] + rng.normal(0, 0.0008, (60, 2))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    places = wh.Places.from_latlon(points_of_a_person())
    lattice = wh.optimal_everywhere(places, None, 1.07, vertices=60, method="lattice")
    noise = wh.planar_laplace_everywhere(places, None, 1.07)
    made = {name: folder / f"{name}.whereish" for name in ("kept", "blind", "noise")}
    wh.save_mechanism(made["kept"], lattice, (places, None))
    wh.save_mechanism(made["blind"], lattice)
    wh.save_mechanism(made["noise"], noise, (places, None))
    made["profile"] = folder / "me.csv"
    with made["profile"].open("w", newline="") as stream:
        rows = [[*spot, share] for spot, share in zip(SPOTS, (0.6, 0.3, 0.1), strict=True)]
        csv.writer(stream).writerows([["lat", "lon", "prior"], *rows])
    return made


def run(*words: object, given: str | None = None) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words], input=given)
    for digits in DIGITS:
        assert digits not in done.stdout + done.stderr
    return done


def test_audit_speaks_of_any_two_points(files: dict[str, Path]) -> None:
    done = run("audit", files["kept"])
    assert done.exit_code == 0, done.stderr
    said = done.stderr.replace("\n", " ")
    assert "Holds: epsilon 1.07 per km for any two points of the plane" in said
    assert "For any two points d km apart, wherever they are" in said
    assert "Smallest epsilon that the counts have" in said
    assert "Proved: every mechanism with this privacy and these outputs" in said
    assert "nearest place" not in said
    blind = run("audit", files["blind"]).stderr
    assert "The file holds no points." in blind.replace("\n", " ")
    assert "off on average for these points" not in blind
    assert "because of the noise" in run("audit", files["noise"]).stderr
    other = run("audit", files["blind"], "--prior", files["profile"], "--json")
    found = json.loads(other.stdout)
    mechanism, _ = wh.load_mechanism(files["blind"])
    where = wh.Places.from_latlon(SPOTS)
    assert found["quality_loss_km"] == pytest.approx(
        wh.expected_loss(mechanism, where, [0.6, 0.3, 0.1])
    )


def test_a_forged_file_ends_with_code_4(files: dict[str, Path], tmp_path: Path) -> None:
    import strategies

    file = tmp_path / "k.whereish"
    file.write_bytes(files["kept"].read_bytes())
    strategies.forge(file, claimed={"quality_loss_km": 0.001})
    done = run("audit", file)
    assert done.exit_code == 4
    assert "quality_loss_km" in done.stderr


@pytest.mark.parametrize("name", ["kept", "noise"])
def test_measure(files: dict[str, Path], name: str) -> None:
    done = run("measure", files[name], "--radius-of-interest", "300m", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    mechanism, visits = wh.load_mechanism(files[name])
    # By hand, at each point: no clusters are needed for 60 of them.
    rows = mechanism.probabilities(points_of_a_person())
    away = np.hypot(*(visits.xy[:, None, :] - mechanism.outputs.xy[None, :, :]).T).T
    joint = visits.weights[:, None] * rows
    assert facts["quality_loss_km"] == pytest.approx((joint * away).sum(), rel=1e-3)
    between = np.hypot(*(visits.xy[:, None, :] - visits.xy[None, :, :]).T)
    guesses = np.hstack([between, away])  # a point, or a report
    error = sum(min(joint[:, z] @ guesses) for z in range(len(mechanism.outputs)))
    assert facts["adversary_error_km"] == pytest.approx(error, rel=1e-6)
    assert error <= (joint * away).sum() * (1 + 1e-9)
    assert facts["worst_case_loss_km"] == pytest.approx((rows * away).sum(axis=1).max(), rel=1e-6)
    assert facts["tightest_epsilon_per_km"] <= 1.07
    assert "any two points of the plane" in done.stderr.replace("\n", " ")


def test_measure_needs_points(files: dict[str, Path]) -> None:
    done = run("measure", files["blind"])
    assert done.exit_code == 2
    assert "holds no prior: give --prior" in done.stderr.replace("\n", " ")
    assert run("measure", files["blind"], "--prior", files["profile"]).exit_code == 0


def test_points_closer_than_a_millimetre_are_measured_as_one() -> None:
    points = np.array([[0, 0], [1e-7, 0], [1, 1]])
    made = wh.optimal_everywhere(points, [0.25, 0.25, 0.5], 1.0, vertices=9, method="lattice")
    seen, weights = at_visited_points(made, visits_in(made, points, [0.25, 0.25, 0.5]))
    assert len(seen.inputs) == 2
    assert weights.tolist() == [0.5, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kept", "blind", "noise"])
@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.thorough
def test_plot(files: dict[str, Path], tmp_path: Path, name: str, kind: str) -> None:
    picture = tmp_path / f"k.{kind}"
    done = run("plot", files[name], "-o", picture)
    assert done.exit_code == 0, done.stderr
    assert picture.stat().st_size > 10_000
    assert picture.stat().st_mode & 0o777 == 0o600
    assert ("holds no points" in done.stderr) == (name == "blind")


@pytest.mark.slow
def test_a_line_can_be_drawn(tmp_path: Path) -> None:
    made = wh.optimal_everywhere(
        [[0, 0], [1, 0], [3, 0]], [0.5, 0.3, 0.2], 1.0, vertices=9, method="lattice"
    )
    wh.save_mechanism(tmp_path / "k", made)
    assert run("plot", tmp_path / "k", "-o", tmp_path / "k.png", "--place", 3).exit_code == 0


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("kept", ("--place", 60), "a vertex from 0 to"),
        ("noise", ("--place", 0), "it has no vertices"),
        ("kept", ("--dilation", 1.5), "it has no spanner"),
    ],
)
def test_what_cannot_be_drawn(
    files: dict[str, Path], tmp_path: Path, name: str, more: Any, words: str
) -> None:
    done = run("plot", files[name], "-o", tmp_path / "k.png", *more)
    assert done.exit_code == 2
    assert words in done.stderr.replace("\n", " ")


@pytest.mark.parametrize("name", ["kept", "noise"])
def test_reports_within_a_budget(files: dict[str, Path], tmp_path: Path, name: str) -> None:
    ask = ("report", files[name], "--ledger", tmp_path / "l", "--json")
    first = run(*ask, "--new-places", 2, given=POINT)
    assert first.exit_code == 0, first.stderr
    facts = json.loads(first.stdout)
    assert (facts["cost"], facts["new_places_left"]) == (1.07, 1)
    # A few metres away: the same square, the same report, no cost.
    near = json.loads(run(*ask, given=f"48.{DIGITS[0]},2.3124").stdout)
    assert (near["output"], near["cost"]) == (facts["output"], 0.0)
    # Far outside: reported, and charged as any other place.
    far = json.loads(run(*ask, given="49.9,3.3").stdout)
    assert (far["cost"], far["new_places_left"]) == (1.07, 0)
    full = run(*ask, given="48.845,2.36")
    assert full.exit_code == 5
    wrong = run(*ask, "--outside", "nearest", given=POINT)
    assert wrong.exit_code == 2
    assert "the guarantee still holds" in wrong.stderr.replace("\n", " ")
    for bad in ("91,2", "nan,2"):
        assert run(*ask, given=bad).exit_code == 2


def test_a_report_is_drawn_at_the_point_itself(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the middle of its square, and not at a vertex."""
    mechanism, _ = wh.load_mechanism(files["kept"])
    seen = []
    real = type(mechanism).sample

    def watched(self: Any, at: Any, *more: Any, **named: Any) -> Any:
        seen.append(np.asarray(at).tolist())
        return real(self, at, *more, **named)

    monkeypatch.setattr(type(mechanism), "sample", watched)
    reporter = wh.Reporter(mechanism, tmp_path / "l", new_places=3)
    reporter.report((48.86135, 2.31247))
    assert seen == [[48.86135, 2.31247]]
    with pytest.raises(wh.InputError, match="one point"):
        reporter.report([[48.86, 2.31], [48.87, 2.32]])


def test_squares_have_100_metres_and_differ() -> None:
    middle = np.array([[0.05, 0.05]])
    assert square_of(middle) == square_of(middle + 0.04)
    others = {
        square_of(middle + np.array([0.1 * i, 0.1 * j])) for i in range(-9, 9) for j in range(-9, 9)
    }
    assert len(others) == 18 * 18
    assert 0 <= square_of(np.array([[-1e12, 1e12]])) < 2**63


def test_other_points_have_other_ledgers(files: dict[str, Path], tmp_path: Path) -> None:
    """A mechanism has its own reports; the budget is shared."""
    one, other = (wh.load_mechanism(files[name])[0] for name in ("kept", "noise"))
    first = wh.Reporter(one, tmp_path / "l", new_places=2).report((48.86, 2.31))
    second = wh.Reporter(other, tmp_path / "l").report((48.86, 2.31))
    assert first.fresh
    assert second.fresh
    assert second.new_places_left == 0
    places = wh.exponential(wh.Places.from_xy([[0, 0], [1, 0]]), 1.07)
    with pytest.raises(wh.BudgetError):
        wh.Reporter(places, tmp_path / "l").report(0)


@pytest.mark.parametrize("name", ["kept", "noise"])
def test_tables_of_raw_points(files: dict[str, Path], tmp_path: Path, name: str) -> None:
    table, target = tmp_path / "t.csv", tmp_path / "o.csv"
    rows = [*points_of_a_person().tolist(), [49.5, 3.0], ["", ""]]
    with table.open("w", newline="") as stream:
        named = [[*row, k % 3] for k, row in enumerate(rows)]
        csv.writer(stream).writerows([["lat", "lon", "who"], *named])
    done = run("obfuscate", files[name], table, "-o", target, "--user", "who", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["blank"]) == (62, 1)
    assert facts["outside"] == (1 if name == "kept" else 0)
    said = done.stderr.replace("\n", " ")
    assert "none was moved to a place first" in said
    assert "k points of one person cost k times epsilon" in said
    mechanism, _ = wh.load_mechanism(files[name])
    known = {tuple(np.round(place, 9)) for place in mechanism.outputs.latlon.tolist()}
    with target.open() as stream:
        made = [row for row in csv.DictReader(stream) if row["lat"]]
    assert len(made) == 61
    assert {(round(float(r["lat"]), 9), round(float(r["lon"]), 9)) for r in made} <= known
    wrong = run("obfuscate", files[name], table, "-o", target, "--outside", "nearest")
    assert wrong.exit_code == 2
    assert "outside must not be given" in wrong.stderr.replace("\n", " ")


def test_a_table_has_the_distribution_of_its_points(files: dict[str, Path], tmp_path: Path) -> None:
    """20,000 rows of one raw point between vertices: chi-square against the interpolated row."""
    from scipy.stats import chisquare

    mechanism, _ = wh.load_mechanism(files["kept"])
    point = (48.8613, 2.3124)
    table, target = tmp_path / "t.csv", tmp_path / "o.csv"
    table.write_text("lat,lon\n" + f"{point[0]},{point[1]}\n" * 20_000)
    wh.obfuscate_table(mechanism, table, target)
    expected = mechanism.probabilities(point)
    names = {tuple(np.round(p, 9)): k for k, p in enumerate(mechanism.outputs.latlon.tolist())}
    counts = np.zeros(len(expected))
    with target.open() as stream:
        for row in csv.DictReader(stream):
            counts[names[(round(float(row["lat"]), 9), round(float(row["lon"]), 9))]] += 1
    used = 20_000 * expected > 5
    observed = np.append(counts[used], counts[~used].sum())
    wanted = np.append(expected[used], expected[~used].sum()) * 20_000
    keep = wanted > 0
    assert chisquare(observed[keep], wanted[keep]).pvalue > 1e-6
    corner = mechanism.matrix[mechanism.lattice.weights(
        mechanism.outputs.plane.to_xy([point]))[0][0, 0]]  # fmt: skip
    biased = np.append(corner[used], corner[~used].sum()) * 20_000
    keep = biased > 0
    scaled = biased[keep] * observed[keep].sum() / biased[keep].sum()
    assert chisquare(observed[keep], scaled).pvalue < 1e-6


def test_sign(files: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "k.whereish"
    file.write_bytes(files["blind"].read_bytes())
    assert run("sign", "--new-key", tmp_path / "p.pem").exit_code == 0
    done = run("sign", file, "--key", tmp_path / "p.pem")
    assert done.exit_code == 0, done.stderr
