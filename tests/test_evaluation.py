"""The evaluation of the paper: its claims, its rows, and that an interrupted run continues."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shlex
import stat
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import whereish as wh
from stepping import halting
from whereish.cli import app
from whereish.studies import Choice, Design, claims, evaluate, load_people
from whereish.studies.charts import CHARTS
from whereish.studies.evaluation import OPTIMAL, loss_at_dilation, privacy_under_priors
from whereish.studies.runs import Part, run_parts

pytestmark = pytest.mark.slow

SMALL = ["--users", "14", "--days", "40", "--places", "12", "--at-least", "5", "--sizes", "12",
         "--epsilons", "0.5,1.07,2", "--dilations", "1,1.05,1.1,1.2", "--time-limit", "2",
         "--quick"]  # fmt: skip
FIGURES = {"figure-1", "figure-2", "figure-3", "figure-4", "figure-5", "figure-6",
           "figure-7", "bracket",
           "all-mechanisms", "wrong-prior", "repeated-reports"}  # fmt: skip
ROWS = {"funnel", "figure-1", "figure-2", "figure-3", "figure-4", "figure-5a",
        "figure-5b", "figure-6", "figure-7",
        "repeated-reports", "table-1", "other-mechanisms"}  # fmt: skip


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "rows" / f"{name}.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def timeless(folder: Path) -> dict[str, Any]:
    """Return all rows but for the seconds of Table 1, and whether they sufficed."""
    found: dict[str, Any] = {
        name: (folder / "rows" / f"{name}.csv").read_bytes() for name in ROWS - {"table-1"}
    }
    moving = ("seconds", "state", "words", "quality_loss_km")
    found["table-1"] = [
        {key: value for key, value in row.items() if key not in moving}
        for row in rows_of(folder, "table-1")
    ]
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper") / "run"
    done = run("paper", *SMALL, "-o", folder)
    assert done.exit_code == 0, done.stderr
    return folder


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.thorough
def test_everything_is_written_and_the_page_needs_nothing_else(finished: Path) -> None:
    assert {file.stem for file in (finished / "rows").iterdir()} == ROWS
    for ending in ("png", "pdf"):
        assert {file.stem for file in (finished / "figures").glob(f"*.{ending}")} == FIGURES
    page = (finished / "report.html").read_text()
    parsed = _Page()
    parsed.feed(page)
    assert not parsed.open
    assert len(parsed.addresses) == len(CHARTS)
    assert all(address.startswith("data:image/png;base64,") for address in parsed.addresses)
    for file in finished.rglob("*"):
        if file.is_file():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


@pytest.mark.thorough
def test_numbers_on_the_page_are_those_of_the_rows(finished: Path) -> None:
    page = re.sub(r"base64,[^\"]*", "", (finished / "report.html").read_text())
    rows = rows_of(finished, "figure-3")
    for period in ("all day", "morning", "afternoon", "night"):
        errors = [float(r["adversary_error_km"]) for r in rows
                  if (r["mechanism"], r["period"]) == (OPTIMAL, period)]  # fmt: skip
        assert f"{np.median(errors):.3f} km" in page
    for row in rows_of(finished, "figure-5b"):
        assert f"{int(row['constraints']):,}" in page
    for stated in ("87,250", "25,551", "0.946 km", "0.972 km", "1.018 km", "116", "86"):
        assert f">{stated}<" in page


@pytest.mark.thorough
def test_every_row_says_what_made_it(finished: Path) -> None:
    for name in ROWS:
        for row in rows_of(finished, name):
            assert (row["dataset"], row["seed"], row["version"]) == (
                "synthetic",
                "0",
                wh.__version__,
            )
            assert row["command"].startswith(
                "whereish reproduce --quick --dataset synthetic --users 14"
            )
    told = json.loads((finished / "run.json").read_text())
    assert told["command"] == row["command"]


@pytest.mark.thorough
def test_the_papers_claims_hold_on_made_up_people(finished: Path) -> None:
    told = json.loads((finished / "run.json").read_text())["claims"]
    assert len(told) == 11
    assert [claim["name"] for claim in told if not claim["holds"]] == []


def test_claims_can_fail() -> None:
    def row(name: str, period: str, error: float) -> dict[str, Any]:
        return {"user": "a", "mechanism": name, "period": period, "adversary_error_km": error}

    three = ("optimal", "Shokri et al.", "planar Laplace")
    worse = [row(n, "all day", e) for n, e in zip(three, (1.0, 1.1, 0.9), strict=True)]
    worse += [row(n, "night", e) for n, e in zip(three, (0.8, 0.7, 0.9), strict=True)]
    loss = [{"user": "a", "epsilon_per_km": 1.0, "mechanism": n, "quality_loss_km": q}
            for n, q in (("optimal", 1.0), ("planar Laplace", 0.9))]  # fmt: skip
    grown = [{"user": "a", "dilation": d, "quality_loss_km": q} for d, q in ((1.0, 1), (1.1, 1.2))]
    assert claims({"figure 5a": grown[:1]}) == claims({"figure 5a": grown[1:]}) == []
    found = claims({"figure 3": worse, "figure 4": loss, "figure 5a": grown})
    assert [claim.holds for claim in found] == [False, False, False, False]
    assert "planar Laplace 0.900 km" in found[1].detail


@pytest.fixture(scope="module")
def people() -> Any:
    return load_people(Choice(users=10, days=40, places=14, at_least=5))


def test_losses_are_equal_and_one_who_knows_less_errs_more(people: Any) -> None:
    cohort = people.cohort
    rows = privacy_under_priors(cohort, cohort.users, Design())
    for user in cohort.users:
        mine = [r for r in rows if r["user"] == user]
        losses = [r["quality_loss_km"] for r in mine]
        assert max(losses) - min(losses) < 1e-9
        assert len(mine) == 3 * len(cohort.priors[user])
        for r in mine:
            knows, guesses = r["adversary_error_km"], r["error_of_who_knows_all_day_only_km"]
            assert guesses >= knows - 1e-12
            if r["period"] == "all day":
                assert guesses == pytest.approx(knows, abs=1e-12)
            # By hand: the best guess after each report, for the prior of the period.
        best = wh.optimal(cohort.places, cohort.priors[user]["all day"], 1.07, 1.05)
        apart, prior = wh.euclidean(cohort.places), cohort.priors[user]["night"]
        by_hand = sum(
            min(sum(prior * column * apart[:, guess]) for guess in range(len(prior)))
            for column in best.matrix.T
        )
        told = next(r for r in mine if (r["mechanism"], r["period"]) == ("optimal", "night"))
        assert told["adversary_error_km"] == pytest.approx(by_hand, rel=1e-6)


def test_exact_is_never_above_a_spanner_and_never_below_its_bound(people: Any) -> None:
    exact = {r["user"]: r for r in loss_at_dilation(people.cohort, 1.0, Design())}
    for r in loss_at_dilation(people.cohort, 1.2, Design()):
        assert r["quality_loss_km"] >= exact[r["user"]]["quality_loss_km"] * (1 - 1e-6)
        if r["lower_bound_km"] is not None:
            assert r["lower_bound_km"] <= exact[r["user"]]["quality_loss_km"] * (1 + 1e-6)


@pytest.mark.thorough
def test_many_reports_give_more_away(finished: Path) -> None:
    rows = rows_of(finished, "repeated-reports")
    median = {
        k: np.median([float(r["adversary_error_km"]) for r in rows if r["reports"] == str(k)])
        for k in (1, 4, 64)
    }
    assert median[64] < median[4] < median[1]
    # One report is what the adversary's error is about, but for the draws.
    exact = [float(r["quality_loss_km"]) for r in rows_of(finished, "figure-5a")
             if r["dilation"] == "1.0"]  # fmt: skip
    assert median[1] == pytest.approx(np.median(exact), rel=0.15)


def test_a_run_is_not_mistaken_for_another(tmp_path: Path) -> None:
    calls = []

    def part(name: str) -> Part:
        def work() -> list[dict[str, Any]]:
            calls.append(name)
            return [{"name": name}]

        return Part("t", name, work)

    parts = [part("a"), part("b")]
    one = run_parts(parts, tmp_path, ["recipe"])
    assert run_parts(parts, tmp_path, ["recipe"]) == one == {"t": [{"name": "a"}, {"name": "b"}]}
    assert calls == ["a", "b"]
    run_parts(parts, tmp_path, ["another"])
    assert calls == ["a", "b"] * 2
    for file in (tmp_path / "parts").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    assert run_parts(parts, tmp_path, ["recipe"]) == one
    assert calls == ["a", "b"] * 3


@pytest.mark.thorough
def test_the_command_in_a_row_makes_the_row_again_though_it_is_killed(
    finished: Path, tmp_path: Path
) -> None:
    """In other processes; each goes on where the one before was."""
    folder = tmp_path / "killed"
    words = [*shlex.split(rows_of(finished, "figure-4")[0]["command"])[1:], "-o", str(folder)]
    moments = random.Random(int(os.environ.get("WHEREISH_SEED", "0")))
    parts = len(list((finished / "parts").glob("*.json")))
    kept = [0]
    while kept[-1] < parts - 4:
        # Before a part is written, or when all of it is in a file that has not its name yet.
        step = moments.choice(("whereish.studies.runs:write_whole", "whereish.files:os.replace"))
        most = min(parts // 3, parts - kept[-1])
        with halting(step, moments.randint(2, most), *words) as running:
            running.wait()
            running.process.kill()
        kept.append(len(list((folder / "parts").glob("*.json"))) if folder.exists() else 0)
    assert kept == sorted(kept)
    assert len(set(kept)) > 3, "it was to be killed in the middle"
    command = [sys.executable, "-m", "whereish", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert timeless(folder) == timeless(finished)


@pytest.mark.thorough
@pytest.mark.parametrize("dataset", ["geolife", "t-drive"])
def test_data_sets_are_read_in_their_formats(tmp_path: Path, dataset: str) -> None:
    city = wh.SyntheticCity(
        users=40, days=30, every_s=60, lat=39.93, lon=116.39, zone="Asia/Shanghai"
    )
    data = tmp_path / "data"
    (city.write_geolife if dataset == "geolife" else city.write_t_drive)(data)
    design = Design(epsilons=(1.07,), dilations=(1.0, 1.2), sizes=(), time_limit_s=1.0)
    users = 8 if dataset == "t-drive" else None
    choice = Choice(dataset, data, users=users, places=10, at_least=3)
    chosen = load_people(choice)
    assert chosen.visits.table["user"].n_unique() == (8 if users else 40)
    made = evaluate(chosen, design, tmp_path / "out", version="x", command="y")
    sure = [claim for claim in made.claims if "same privacy" in claim.name or "loses" in claim.name]
    assert [claim.holds for claim in sure] == [True, True]
    assert len(made.tables["figure 5a"]) == 2 * len(chosen.cohort.users)
    assert load_people(choice).cohort.users == chosen.cohort.users
    page = (tmp_path / "out" / "report.html").read_text()
    assert {"geolife": "GeoLife", "t-drive": "8 taxis drawn at random"}[dataset] in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "moon"], "dataset must be one of"),
        (["--dataset", "geolife"], "needs its folder"),
        (["--data", "x"], "needs no data"),
        (["--dataset", "geolife", "--data", "none"], "that exists"),
        (["--epsilon", "0"], "epsilon must be"),
        (["--dilation", "0.5"], "dilation must be at least 1"),
        (["--epsilons", "1,x"], "epsilons must be different numbers"),
        (["--dilations", "1,1"], "dilations must be different numbers"),
        (["--dilations", "0.9"], "dilations must be at least 1"),
        (["--places", "1"], "places must be"),
        (["--users", "0"], "users must be"),
        (["--sizes", "1"], "sizes must be"),
        (["--time-limit", "-1"], "time-limit must be"),
        (["--seed", "-1"], "seed must be"),
        (["--sizes", "nan"], "sizes must be"),
        (["--sizes", "12.7"], "sizes must be whole"),
        (["--periods", "lunch"], "periods must be like"),
        (["--periods", "lunch=11-11"], "a period must be"),
        (["--cell", "1km x 1km x 1km"], "cell must be like"),
        (["--dataset", "geolife", "--data", ".", "--users", "7"], "it has 182 people"),
        (["--dataset", "tdrive", "--data", ".", "--days", "7"], "has its own"),
        (["--cell", "5"], "a length with its unit"),
        (["--users", "2", "--days", "2"], "nobody is left"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, words: list[str], message: str) -> None:
    done = run("paper", "-o", tmp_path / "out", *words)
    assert done.exit_code == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    (tmp_path / "parts").mkdir()
    done = run("paper", "--quick", "-o", tmp_path)
    assert done.exit_code == 2
    assert "a new folder or that of an earlier run" in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["parts", "thesis.tex"]


@pytest.mark.thorough
def test_the_quick_version_as_it_is_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whereish", "paper", "--quick", "-o", str(tmp_path / "out"),
         "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert all(claim["holds"] for claim in told["claims"])
    assert told["people"] >= 20
    assert Path(told["report"]).is_file()


@pytest.mark.skipif(
    "WHEREISH_GEOLIFE" not in os.environ, reason="WHEREISH_GEOLIFE names no folder of GeoLife"
)
def test_the_papers_people_are_found_in_geolife() -> None:
    found = load_people(Choice("geolife", Path(os.environ["WHEREISH_GEOLIFE"])))
    assert [step.users for step in found.cohort.steps][3::2] == [116, 86]


def test_who_is_always_at_one_place_is_no_obstacle(people: Any) -> None:
    cohort = people.cohort
    user = cohort.users[0]
    still = np.eye(len(cohort.places))[3]
    alone = replace(cohort, priors={user: dict.fromkeys(cohort.priors[user], still)})
    rows = privacy_under_priors(alone, [user], Design())
    assert max(r["adversary_error_km"] for r in rows) < 1e-9
    assert {r["mechanism"] for r in rows} == {"optimal", "Shokri et al.", "planar Laplace"}


def test_how_long_it_takes_is_said_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And more places than the paper's take longer than the seconds of its parts."""
    command = sys.modules["whereish.cli.reproduce"]

    def stop(*_: Any, **__: Any) -> Any:
        raise wh.InputError("it began")

    monkeypatch.setattr(command, "evaluate", stop)
    took: list[float] = []

    def about(seconds: float) -> str:
        took.append(seconds)
        return f"about {seconds:.0f} s"

    monkeypatch.setattr(command, "_about", about)
    small = ["paper", "--quick", "--users", "6", "--days", "20", "--no-cache", "--at-least", "1"]
    for places in ("10", "60", "3000"):
        words = [*small, "--places", places, "-o", str(tmp_path / places)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        said, _, after = done.stderr.partition("it began")
        assert "takes roughly" in said
        assert not after.strip()
    assert took[0] < took[1] < took[2]
