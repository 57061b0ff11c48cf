"""The command line as its users meet it: a process, its output, its exit code."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from stepping import halting
from whereish.cli import app
from whereish.format import unpack

KEYS = {
    "quality_loss_km",
    "adversary_error_km",
    "tightest_epsilon_per_km",
    "epsilon_per_km",
    "constraints",
    "variables",
    "edges",
    "dilation",
    "solver",
    "seconds",
}


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    places, prior = some.grid(4, 3), some.skewed(12, 3)
    rows = [
        f"{x!r},{y!r},{p!r}" for (x, y), p in zip(places.xy.tolist(), prior.tolist(), strict=True)
    ]
    file = tmp_path / "me.csv"
    file.write_text("\n".join(["x_km,y_km,prior", *rows]) + "\n")
    return file


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def build(profile: Path, *more: object) -> tuple[Path, dict[str, Any]]:
    out = profile.parent / "k.whereish"
    done = run("build", profile, "--epsilon", 1.07, "-o", out, "--json", *more)
    assert done.exit_code == 0, done.stderr
    return out, json.loads(done.stdout)


def test_build_and_measure_agree_with_the_library(profile: Path) -> None:
    out, facts = build(profile, "--keep-prior")
    assert facts.keys() >= KEYS
    who = wh.read_profile(profile)
    expected = wh.optimal(who.places, who.prior, 1.07)
    assert facts["quality_loss_km"] == pytest.approx(wh.quality_loss(expected, who.prior))
    assert facts["tightest_epsilon_per_km"] <= facts["epsilon_per_km"] == 1.07
    assert facts["constraints"] == expected.build.constraints
    done = run("measure", out, "--json")
    assert done.exit_code == 0
    measured = json.loads(done.stdout)
    assert measured.keys() >= KEYS
    assert measured["quality_loss_km"] == pytest.approx(facts["quality_loss_km"], rel=1e-12)
    assert measured["adversary_error_km"] == pytest.approx(facts["quality_loss_km"])
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_words_go_to_stderr_and_only_json_to_stdout(profile: Path) -> None:
    out = profile.parent / "k.whereish"
    quiet = run("build", profile, "--epsilon", 1.07, "-o", out)
    assert quiet.stdout == ""
    assert "no report is more than 2 times likelier" in quiet.stderr
    assert "off on average" in quiet.stderr
    loud = run("build", profile, "--epsilon", 1.07, "-o", out, "--json")
    json.loads(loud.stdout)


def test_a_level_in_words(profile: Path) -> None:
    out = profile.parent / "k.whereish"
    done = run("build", profile, "--ratio", 2, "--within", "650m", "-o", out, "--json")
    facts = json.loads(done.stdout)
    assert facts["epsilon_per_km"] == pytest.approx(np.log(2) / 0.65)
    assert facts["ratio_2_within_km"] == pytest.approx(0.65)
    assert "650 m apart" in done.stderr
    assert "epsilon 1.066 per km" in done.stderr


def test_other_priors_and_adversaries(profile: Path, tmp_path: Path) -> None:
    out, _ = build(profile, "--keep-prior")
    lines = profile.read_text().splitlines()
    other = tmp_path / "night.csv"
    other.write_text(
        "\n".join([lines[0], *(f"{line.rsplit(',', 1)[0]},{1 / 12}" for line in lines[1:])])
    )
    night = json.loads(run("measure", out, "--prior", other, "--json").stdout)
    who = wh.read_profile(other)
    mechanism, _ = wh.load_mechanism(out)
    assert night["quality_loss_km"] == pytest.approx(wh.quality_loss(mechanism, who.prior))
    hits = json.loads(run("measure", out, "--adversary-metric", "discrete", "--json").stdout)
    assert hits["adversary_error_unit"] == "share of wrong guesses"
    own = wh.read_profile(profile)
    assert hits["adversary_error_km"] == pytest.approx(
        wh.adversary_error(mechanism, own.prior, wh.discrete(12))
    )
    asked = json.loads(run("measure", out, "--interest", "300m", "--json").stdout)
    assert asked["radius_to_ask_km"] == pytest.approx(
        wh.radius_to_ask(mechanism, 0.3, 0.95, own.prior)
    )


def test_a_prior_that_was_forgotten_is_asked_for(profile: Path) -> None:
    out, _ = build(profile, "--forget-prior")
    assert "prior" not in unpack(out.read_bytes())[0]
    done = run("measure", out)
    assert done.exit_code == 2
    assert "--prior PROFILE" in done.stderr
    assert run("measure", out, "--prior", profile).exit_code == 0
    assert run("plot", out, "-o", profile.parent / "k.png").exit_code == 0


def test_spanner(profile: Path) -> None:
    edges = profile.parent / "edges.csv"
    done = run("spanner", profile, "--dilation", 1.2, "--json", "-o", edges)
    facts = json.loads(done.stdout)
    expected = wh.greedy_spanner(wh.euclidean(wh.read_profile(profile).places), 1.2)
    assert facts["edges"] == len(expected.edges) == len(edges.read_text().splitlines()) - 1
    assert facts["dilation"] == expected.dilation <= 1.2
    assert facts["constraints"] == 2 * len(expected.edges) * 12 + 12


def test_compare_puts_the_optimal_first(profile: Path) -> None:
    done = run("compare", profile, "--epsilon", 1.07, "--json")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)
    same = [row for row in rows if row["epsilon_per_km"] == 1.07]
    assert len(same) >= 4
    assert min(same, key=lambda row: row["quality_loss_km"])["name"] == "optimal"
    shokri = next(row for row in rows if row["name"].startswith("Shokri"))
    assert shokri["epsilon_per_km"] is None
    assert shokri["adversary_error_km"] == pytest.approx(rows[0]["quality_loss_km"], abs=1e-6)


@pytest.mark.slow
@pytest.mark.thorough
def test_plots_of_everything(profile: Path, tmp_path: Path) -> None:
    out, _ = build(profile)
    for number, words in enumerate(
        [
            ("plot", profile, "-o", "a.png"),
            ("plot", profile, "--dilation", "1.1", "-o", "b.pdf"),
            ("plot", out, "-o", "c.svg"),
            ("plot", out, "--place", 3, "-o", "d.png"),
            ("spanner", profile, "--dilation", 1.1, "-o", "e.png"),
        ]
    ):
        target = tmp_path / f"{number}-{words[-1]}"
        done = run(*words[:-1], target)
        assert done.exit_code == 0, done.stderr
        start = target.read_bytes()[:64]
        assert {".png": b"PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[target.suffix] in start


@pytest.mark.slow
def test_the_demo_talks_like_a_person(tmp_path: Path) -> None:
    done = run("demo", "-o", tmp_path / "demo", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["quality_loss_km"] < facts["planar_laplace_quality_loss_km"]
    assert facts["tightest_epsilon_per_km"] <= facts["epsilon_per_km"]
    for words in ("look alike", "off on average", "Planar Laplace", "Checked: all", "Try next"):
        assert words in done.stderr
    for picture in facts["pictures"]:
        assert Path(picture).read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["build", "P", "-o", "K"], 2, "a privacy level is needed"),
        (["build", "P", "--epsilon", "0", "-o", "K"], 2, "epsilon must be positive"),
        (["build", "P", "--epsilon", "-1", "-o", "K"], 2, "epsilon must be positive"),
        (["build", "P", "--epsilon", "inf", "-o", "K"], 2, "got inf"),
        (["build", "P", "--epsilon", "nan", "-o", "K"], 2, "got nan"),
        (["build", "P", "--epsilon", "1", "--ratio", "2", "-o", "K"], 2, "privacy level once"),
        (["build", "P", "--ratio", "1", "--within", "1km", "-o", "K"], 2, "ratio must be above 1"),
        (["build", "P", "--ratio", "2", "--within", "650", "-o", "K"], 2, "length with its unit"),
        (["build", "P", "--ratio", "2", "--within", "-5m", "-o", "K"], 2, "length with its unit"),
        (["build", "P", "--epsilon", "1", "--dilation", "0.5", "-o", "K"], 2, "dilation must be"),
        (
            ["build", "P", "--epsilon", "1", "--solver", "gurobi", "-o", "K"],
            2,
            "solver must be one of",
        ),
        (["build", "P", "--epsilon", "1", "--form", "x", "-o", "K"], 2, "form must be one of"),
        (["build", "P", "--epsilon", "1", "-o", "/nowhere/K"], 2, "folder that exists"),
        (["build", "P", "--epsilon", "1", "-o", "."], 2, "is a folder"),
        (["build", "missing.csv", "--epsilon", "1", "-o", "K"], 2, "file that exists"),
        (
            [
                "build",
                "P",
                "--epsilon",
                "1",
                "--time-limit",
                "1e-6",
                "-o",
                "K",
                "--solver",
                "highs-ipm",
            ],
            3,
            "the time allowed",  # in whichever step it was up
        ),
        (["build", "P", "--epsilon", "1", "--method", "fast", "-o", "K"], 2, "method must be one"),
        (["build", "P", "--epsilon", "1", "--tolerance", "0", "-o", "K"], 2, "tolerance must"),
        (["build", "P", "--epsilon", "1", "--memory-limit", "-1", "-o", "K"], 2, "memory-limit"),
        (
            ["build", "P", "--epsilon", "1", "--memory-limit", "1e-4", "-o", "K"],
            3,
            'what fits is method "closed-form"',
        ),
        (["build", "P", "--epsilon", "1", "--time-limit", "-3", "-o", "K"], 2, "time_limit_s must"),
        (
            ["build", "P", "--epsilon", "1", "--solver", "structured", "--form", "dual", "-o", "K"],
            2,
            "form must be left out",
        ),
        (["measure", "P"], 2, "not a mechanism"),
        (["measure", "missing.whereish"], 2, "file that exists"),
        (["spanner", "P", "--dilation", "0.9"], 2, "dilation must be at least 1"),
        (["plot", "P", "-o", "K.gif"], 2, "must end in .png"),
        (["plot", "P", "--place", "2", "-o", "K.png"], 2, "--place must go with a mechanism"),
        (["compare", "P", "--epsilon", "x"], 2, "Invalid value"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_bad_input_gets_one_line_and_no_file(
    profile: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    line: str,
) -> None:
    monkeypatch.chdir(profile.parent)
    before = set(profile.parent.iterdir())
    done = run(*[profile.name if word == "P" else word for word in words])
    assert done.exit_code == code, done.output
    assert line in done.stderr
    assert done.stdout == ""
    assert set(profile.parent.iterdir()) == before
    if "Usage" not in done.stderr:
        assert len([text for text in done.stderr.splitlines() if text.startswith("whereish:")]) == 1
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["build", "-o", "k.whereish"], ["compare"]])
def test_one_place_gets_one_line(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "one.csv"
    file.write_text("x_km,y_km,prior\n0,0,1\n")
    done = run(command[0], file, "--epsilon", 1, *command[1:])
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "whereish: places must hold at least 2 places, got 1: one place hides nothing"
    ]


def test_a_mechanism_that_was_edited_is_not_trusted(profile: Path) -> None:
    out, _ = build(profile)
    some.forge(out, told={"epsilon": 0.5}, claimed={"epsilon": 0.5})
    for command in ("measure", "audit"):
        done = run(command, out)
        assert done.exit_code == 4
        assert "not private: place" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"about": {"format": "else"}}, 'must say "format"'),
        ({"about": {"version": "99"}}, "version must be 1, 2 or 3, got '99'"),
        ({"arrays": {"counts": np.full((1, 1), 2**63, np.uint64)}}, "counts must have 12 rows"),
        ({"arrays": {"counts": np.ones((12, 12))}}, "not one that a mechanism has"),
        ({"told": {"inputs": None}}, "the wrong type"),
        ({"arrays": {"prior": np.ones(1)}}, "prior must be 12 numbers"),
        ({"arrays": {"more": np.ones(1)}}, "not one that a mechanism has"),
        ({"told": {"epsilon": "high"}}, "epsilon must be a number"),
        ({"told": {"build": {}}}, "the wrong type"),
    ],
)
def test_a_file_that_is_no_mechanism(
    profile: Path, change: dict[str, dict[str, Any]], words: str
) -> None:
    out, _ = build(profile)
    some.forge(out, **change)
    done = run("measure", out)
    assert done.exit_code == 2, done.output
    assert words in done.stderr


def test_a_prior_for_other_places_is_refused(profile: Path, tmp_path: Path) -> None:
    out, _ = build(profile)
    other = tmp_path / "elsewhere.csv"
    other.write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.5\n")
    done = run("measure", out, "--prior", other)
    assert done.exit_code == 2
    assert "must have the places of" in done.stderr


def interrupted(folder: Path, side: int, solver: str, function: str, call: int) -> tuple[int, str]:
    """Build in a real process, and send it a real signal as it calls a function of the solver."""
    places, prior = some.grid(side, side), some.skewed(side * side)
    rows = [f"{x},{y},{p!r}" for (x, y), p in zip(places.xy.tolist(), prior.tolist(), strict=True)]
    (folder / "big.csv").write_text("\n".join(["x_km,y_km,prior", *rows]))
    options = ["--epsilon", "1.07", "-o", "k.whereish", "--solver", solver, "--keep-prior"]
    with halting(function, call, "build", "big.csv", *options, cwd=folder) as running:
        running.wait()
        running.process.send_signal(signal.SIGINT)
        running.resume()
        _, said = running.process.communicate()
        return running.process.returncode, said


@pytest.mark.heavy
def test_ctrl_c_hands_over_the_best_so_far(tmp_path: Path) -> None:
    code, rest = interrupted(tmp_path, 12, "auto", "whereish.solvers.structured:Progress", 10)
    assert code == 130
    assert "stopped       by you, with the best mechanism so far; its privacy is complete" in rest
    mechanism, _ = wh.load_mechanism(tmp_path / "k.whereish")
    assert mechanism.build.stopped == "asked"
    assert mechanism.build.gap is not None
    assert mechanism.build.gap > 1e-6


@pytest.mark.heavy
def test_ctrl_c_in_another_solver_leaves_no_file(tmp_path: Path) -> None:
    code, rest = interrupted(tmp_path, 10, "highs-ipm", "whereish.solvers.highs:Thread.join", 1)
    assert code == 130
    assert "stopped; no file was left half written" in rest
    assert [file.name for file in tmp_path.iterdir()] == ["big.csv"]


def test_version_and_help() -> None:
    assert wh.__version__ in run("--version").stdout
    helped = run("--help").stdout
    for name in ("build", "measure", "spanner", "compare", "plot", "audit", "demo"):
        assert name in helped
