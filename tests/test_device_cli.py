"""The commands of a device: no other process, and no history, sees where it is."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.cli import app
from whereish.device import Ledger
from whereish.profiles import write_profile

CITY = wh.embedded_city()
POINT = "48.8712345,2.3412345"
DIGITS = ("8712345", "3412345")  # no place has these


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, wh.exponential(CITY.places, 1.07))
    return path


def run(*words: object, given: str | None = None) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


def silent(done: Any) -> None:
    """No output holds the true point."""
    for digits in DIGITS:
        assert digits not in done.stderr + done.stdout


def test_the_point_comes_from_standard_input(kernel: Path, tmp_path: Path) -> None:
    ask = ("report", kernel, "--ledger", tmp_path / "l")
    done = run(*ask, "--new-places", 3, "--json", given=POINT + "\nmore\n")
    assert done.exit_code == 0, done.stderr
    silent(done)
    assert "Careful" not in done.stderr
    facts = json.loads(done.stdout)
    assert (facts["cost"], facts["budget"], facts["new_places_left"]) == (1.07, 3.21, 2)
    same = run(*ask, "--at", "-", "--json", given=POINT)
    assert json.loads(same.stdout)["output"] == facts["output"]
    assert json.loads(same.stdout)["cost"] == 0.0
    assert "Careful" not in same.stderr


def test_at_works_and_warns(kernel: Path, tmp_path: Path) -> None:
    done = run("report", kernel, "--at", POINT, "--ledger", tmp_path / "l", "--budget", "3.2")
    assert done.exit_code == 0, done.stderr
    assert "Careful: other programs on this machine can see what follows --at" in done.stderr
    silent(done)


@pytest.mark.parametrize(
    "given", ["", "\n", "48.8712345", "48.8712345;2.3412345", "north,2.3412345", "9" * 5000,
              "48.8712345,202.3412345", "nan,nan", "10.8712345,2.3412345"],
)  # fmt: skip
def test_points_that_are_none_are_refused_and_not_repeated(
    kernel: Path, tmp_path: Path, given: str
) -> None:
    done = run("report", kernel, "--ledger", tmp_path / "l", "--new-places", 1, given=given)
    assert done.exit_code == 2
    silent(done)
    assert "10.87" not in done.stderr
    assert "999" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_at_a_terminal_it_is_asked_for_and_not_shown(kernel: Path, tmp_path: Path) -> None:
    """A real terminal, and the arguments that other processes see."""
    master, slave = pty.openpty()
    code = "from whereish.cli import main; main()"
    words = ["report", str(kernel), "--ledger", str(tmp_path / "l"), "--new-places", "2", "--json"]
    worker = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=slave, stdout=subprocess.PIPE, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    said = b""
    while b"LAT,LON" not in said:
        said += os.read(master, 1000)
    line = Path(f"/proc/{worker.pid}/cmdline")
    if line.exists():
        assert b"48.87" not in line.read_bytes()
    # The prompt comes after echo was switched off.
    os.write(master, POINT.encode() + b"\n")
    assert worker.stdout is not None
    answer = worker.stdout.read()
    assert worker.wait() == 0
    try:
        while more := os.read(master, 1000):
            said += more
    except OSError:
        pass  # the other side is closed
    os.close(master)
    worker.stdout.close()
    for digits in DIGITS:
        assert digits.encode() not in said + answer
    assert json.loads(answer)["fresh"]


@pytest.mark.parametrize(
    ("words", "budget", "period_s"),
    [
        (["--new-places", "3"], 3.21, 86400),
        (["--new-places", "3", "--period", "hour"], 3.21, 3600),
        (["--budget", "3 new places a day"], 3.21, 86400),
        (["--budget", "3 places"], 3.21, 86400),
        (["--budget", "1 new place per week"], 1.07, 7 * 86400),
        (["--budget", "2 places an hour"], 2.14, 3600),
        (["--budget", "3.2"], 3.2, 86400),
    ],
)
def test_budgets_in_words(
    kernel: Path, tmp_path: Path, words: list[str], budget: float, period_s: float
) -> None:
    done = run("report", kernel, "--ledger", tmp_path / "l", *words, given=POINT)
    assert done.exit_code == 0, done.stderr
    ledger = Ledger(tmp_path / "l")
    assert (ledger.budget, ledger.period_s) == (budget, period_s)


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "some places"],
        ["--budget", "3 places a month"],
        ["--budget", "3 places a day", "--period", "hour"],
        ["--budget", "3 places a day", "--new-places", "3"],
        ["--budget", "3.2", "--new-places", "3"],
        ["--budget", "0 places"],
        ["--budget", "nan"],
        ["--new-places", "0"],
        [],
    ],
)
def test_budgets_that_are_none(kernel: Path, tmp_path: Path, words: list[str]) -> None:
    done = run("report", kernel, "--ledger", tmp_path / "l", *words, given=POINT)
    assert done.exit_code == 2
    assert not (tmp_path / "l").exists()
    silent(done)


def test_three_new_places_a_day_are_three(kernel: Path, tmp_path: Path) -> None:
    """What README shows: three new places, not two; and the refusal says until when."""
    assert CITY.places.latlon is not None
    ask = ("report", kernel, "--ledger", tmp_path / "l")
    codes = []
    for number, point in enumerate(CITY.places.latlon[:4].tolist()):
        more = ("--new-places", 3) if number == 0 else ()
        done = run(*ask, *more, given=f"{point[0]},{point[1]}")
        codes.append(done.exit_code)
    assert codes == [0, 0, 0, 5]
    assert "no new place is left" in done.stderr
    assert "UTC: nothing was reported" in done.stderr


def test_the_ledger_can_be_looked_at_and_its_clock_reset(kernel: Path, tmp_path: Path) -> None:
    path = tmp_path / "l"
    ledger = Ledger(path, 3.0)
    now = time.time()
    ledger.spend("m", 1, 3.0, now + 20 * 86400, lambda: 1)
    before = json.loads(run("ledger", "show", path, "--json").stdout)
    assert before["left"] == 0.0
    done = run("ledger", "reset-clock", path)
    assert done.exit_code == 0, done.stderr
    assert ledger.spent(now) == 3.0
    assert ledger.spent(now + 2 * 86400) == 0.0
    assert run("ledger", "show", tmp_path / "no").exit_code == 2
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["K", POINT],
        ["K", *POINT.split(",")],
        ["K", "-" + POINT],
        ["K", "--", "-" + POINT],
        ["K", "--" + POINT],
        ["K", "--att=" + POINT],
        ["K", "geo:" + POINT],
        ["K", "--new-places", POINT],
        ["K", "--budget", POINT],
        ["K", "--period", POINT],
        ["K", "--outside", POINT],
        [POINT],
        [POINT, "K"],
        ["K", "--json=" + POINT],
    ],
)
def test_a_point_given_as_an_argument_by_mistake_is_not_repeated(
    kernel: Path, tmp_path: Path, words: list[str]
) -> None:
    named = [str(kernel) if word == "K" else word for word in words]
    for command in (["report"], [], ["ledger"], ["ledger", "show"], ["sign"]):
        done = run(*command, *named, "--ledger", tmp_path / "l", given=POINT)
        assert done.exit_code == 2
        silent(done)
        assert "48.8" not in done.stderr
        assert "-4" not in done.stderr


def test_tapered_mechanisms_are_built_and_used(tmp_path: Path) -> None:
    """Three files whose epsilons fall, audited each; a table takes them in their order."""
    places = wh.square_grid(48.85, 2.33, 48.87, 2.36, (1.0, 1.0))
    share = np.arange(1.0, len(places) + 1)
    write_profile(tmp_path / "me.csv", wh.Profile(places, share / share.sum()))
    out = tmp_path / "k.whereish"
    done = run(
        "build", tmp_path / "me.csv", "--epsilon", "1.07", "--taper", "3", "-o", out, "--json"
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    files = [tmp_path / name for name in ("k.whereish", "k-2.whereish", "k-3.whereish")]
    levels = [wh.audit_file(file)["epsilon"] for file in files]
    assert levels == [one["epsilon"] for one in told["draws"]]
    assert levels[0] > levels[1] > levels[2]
    assert sum(Fraction(repr(one)) for one in levels) <= Fraction("3.21")
    assert sum(levels) == pytest.approx(3.21, abs=1e-5)
    for wrong in (
        ("--taper", "1"),
        ("--taper", "3", "--by-time"),
        ("--taper", "3", "--everywhere"),
    ):
        refused = run("build", tmp_path / "me.csv", "--epsilon", "1", "-o", tmp_path / "x", *wrong)
        assert refused.exit_code == 2, wrong
    assert not (tmp_path / "x").exists()
