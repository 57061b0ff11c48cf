"""The ledger: it refuses the first report over budget, and never refunds."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strategies as some
import whereish as wh
from effort import ONE_OF
from test_sampler import fits
from whereish.device import Ledger

PLACES, PRIOR = some.grid(3, 2), some.skewed(6)
MECHANISM = wh.exponential(PLACES, 1.0)


def test_the_same_place_gets_the_same_report_all_period(tmp_path: Path) -> None:
    now = [1000.0]
    reporter = wh.Reporter(MECHANISM, tmp_path / "l", 3.0, "hour", clock=lambda: now[0])
    first = reporter.report(4)
    assert (first.fresh, first.cost, first.spent, first.budget) == (True, 1.0, 1.0, 3.0)
    for _ in range(50):
        again = reporter.report(4)
        assert (again.output, again.fresh, again.cost, again.spent) == (first.output, False, 0, 1.0)
    now[0] += 3600
    later = [reporter.report(4)]
    assert later[0].fresh
    assert later[0].spent == 1.0
    assert (tmp_path / "l").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_every_period_draws_from_the_mechanism(tmp_path: Path) -> None:
    now = [0.0]
    reporter = wh.Reporter(MECHANISM, tmp_path / "l", 1.0, "hour", clock=lambda: now[0])
    drawn = []
    for _ in range(400):
        now[0] += 3600
        drawn.append(reporter.report(2).output)
    assert fits(np.array(drawn), MECHANISM.counts[2])


@pytest.mark.slow
def test_random_histories_never_go_over_budget(tmp_path: Path) -> None:
    """The first report that would go over is refused, and none before, in every history."""
    rng = np.random.default_rng(0)
    histories = int(os.environ.get("WHEREISH_HISTORIES", 300 // ONE_OF))
    for number in range(histories):
        budget, cost = float(rng.uniform(0.5, 6)), float(rng.uniform(0.1, 2))
        path = tmp_path / f"l{number}"
        ledger = Ledger(path, budget, "day")
        now, last, spent = 1e9, -1, 0.0
        sticky: set[int] = set()
        for _ in range(int(rng.integers(5, 25))):
            now += float(rng.choice([60.0, 3600.0, 50_000.0, -90_000.0]))
            place = int(rng.integers(0, 6))
            period = max(int(now // 86400), last)
            if period != last:
                last, spent, sticky = period, 0.0, set()
            try:
                entry = ledger.spend("m", place, cost, now, lambda: 5)
            except wh.BudgetError:
                assert place not in sticky
                assert spent + cost > budget
                continue
            if place in sticky:
                assert not entry.fresh
            else:
                assert entry.fresh
                sticky.add(place)
                spent += cost
                assert spent <= budget * (1 + 1e-9)
            assert entry.spent == pytest.approx(spent)
        path.unlink()


_WORKER = """
import sys
from whereish.device import Ledger
ledger = Ledger(sys.argv[1], 1e9, "week")
place = int(sys.argv[2])
while True:
    place += 1
    ledger.spend("m", place, 1.0, 1e9, lambda: 3)
    print(place, flush=True)
"""


@pytest.mark.heavy
def test_kill_9_loses_no_spent_budget(tmp_path: Path) -> None:
    """Every report that was handed over is in the ledger, wherever the process was killed."""
    path, handed, rng = tmp_path / "l", 0, np.random.default_rng(1)
    Ledger(path, 1e9, "week")
    for round_ in range(int(os.environ.get("WHEREISH_KILLS", "8"))):
        worker = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(path), str(round_ * 10**6)], stdout=subprocess.PIPE
        )
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.15)))
        worker.send_signal(signal.SIGKILL)
        handed += 1 + worker.stdout.read().count(b"\n")
        worker.wait()
        worker.stdout.close()
        spent = Ledger(path).spent(1e9)
        assert spent >= handed
        assert spent <= handed + round_ + 1  # one at most was paid for and not handed over


def test_two_processes_share_one_budget(tmp_path: Path) -> None:
    path = tmp_path / "l"
    Ledger(path, 20.0, "week")
    code = _WORKER.replace('1e9, "week"', '20.0, "week"').replace(
        "while True", "for _ in range(15)"
    )
    code = code.replace("    ledger.spend", "    try: ledger.spend").replace(
        "lambda: 3)\n", "lambda: 3)\n    except Exception: continue\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(start)], stdout=subprocess.PIPE
        )
        for start in (0, 1000)
    ]
    lines = sum(worker.communicate()[0].count(b"\n") for worker in workers)
    assert lines == 20
    assert Ledger(path).spent(1e9) == 20.0


def test_a_clock_that_goes_back_does_not_bring_back_a_period(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l", 1.0, "day")
    ledger.spend("m", 0, 1.0, 86400.0 * 10, lambda: 1)
    for now in (86400.0 * 10 + 5, 86400.0 * 3):
        with pytest.raises(wh.BudgetError, match="is left in this period"):
            ledger.spend("m", 1, 1.0, now, lambda: 1)


def test_where_somebody_was_is_forgotten_with_its_period(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l", 5.0, "hour")
    ledger.spend("m", 3, 1.0, 0.0, lambda: 1)
    ledger.spend("m", 4, 1.0, 4000.0, lambda: 1)
    with sqlite3.connect(tmp_path / "l") as file:
        assert file.execute("SELECT place FROM sticky").fetchall() == [(4,)]
        assert file.execute("SELECT SUM(epsilon) FROM spent").fetchone() == (2.0,)


def test_no_name_is_a_ledger_that_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reporter = wh.Reporter(MECHANISM, ":memory:", budget=1.0)
    reporter.report(0)
    with pytest.raises(wh.BudgetError):
        reporter.report(1)
    assert (tmp_path / ":memory:").stat().st_size > 0


def test_no_report_is_squeezed_in(tmp_path: Path) -> None:
    """Sums are of decimal numbers, exactly: neither rounding nor a large budget hides one."""
    tight = Ledger(tmp_path / "a", 3 * (1 - 5e-13))
    for place in range(2):
        tight.spend("m", place, 1.0, 0.0, lambda: 0)
    with pytest.raises(wh.BudgetError):
        tight.spend("m", 2, 1.0, 0.0, lambda: 0)
    decimal = Ledger(tmp_path / "b", 0.3)
    for place in range(3):
        decimal.spend("m", place, 0.1, 0.0, lambda: 0)
    large = Ledger(tmp_path / "c", 1e6)
    large.spend("m", 0, 1e6, 0.0, lambda: 0)
    with pytest.raises(wh.BudgetError):
        large.spend("m", 1, 1e-8, 0.0, lambda: 0)


def test_a_ledger_that_is_gone_or_emptied_is_not_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "l"
    reporter = wh.Reporter(MECHANISM, path, budget=5.0)
    reporter.report(0)
    path.unlink()
    with pytest.raises(wh.FormatError, match="is gone"):
        reporter.report(1)
    assert not path.exists()
    path.write_bytes(b"")
    with pytest.raises(wh.FormatError, match="is empty"):
        wh.Reporter(MECHANISM, path, budget=5.0)


def test_epsilons_of_different_metrics_do_not_add_up(tmp_path: Path) -> None:
    metres = wh.exponential(PLACES, 0.001, privacy_metric=1000 * wh.euclidean(PLACES))
    wh.Reporter(MECHANISM, tmp_path / "l", budget=5.0)
    with pytest.raises(wh.InputError, match="epsilon must be that of the ledger"):
        wh.Reporter(metres, tmp_path / "l")


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE terms SET budget = 'x'",
        "UPDATE terms SET budget = 9e999",
        "UPDATE terms SET period_s = 0",
        "DELETE FROM terms",
        "UPDATE spent SET epsilon = 'x'",
        "UPDATE spent SET epsilon = '-100'",
        "UPDATE spent SET reports = 'x'",
        "UPDATE sticky SET output = 'x'",
    ],
)
def test_a_spoiled_ledger_is_refused(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "l"
    reporter = wh.Reporter(MECHANISM, path, budget=5.0, clock=lambda: 1e9)
    reporter.report(0)
    with sqlite3.connect(path) as file:
        file.execute(spoil)
    with pytest.raises(wh.InputError):
        reporter.report(0)


@pytest.mark.parametrize("now", [float("nan"), float("inf"), 1e25, None])
def test_clocks_that_are_none(tmp_path: Path, now: Any) -> None:
    with pytest.raises(wh.InputError):
        Ledger(tmp_path / "l", 5.0).spend("m", 0, 1.0, now, lambda: 0)


def test_terms_cannot_be_changed_to_spend_more(tmp_path: Path) -> None:
    Ledger(tmp_path / "l", 2.0, "day")
    assert Ledger(tmp_path / "l").budget == 2.0
    with pytest.raises(wh.InputError, match="budget must be that of the ledger"):
        Ledger(tmp_path / "l", 3.0)
    with pytest.raises(wh.InputError, match="period must be that of the ledger"):
        Ledger(tmp_path / "l", 2.0, "hour")


@pytest.mark.parametrize(
    "misuse",
    [
        lambda path: Ledger(path),
        lambda path: Ledger(path, -1.0),
        lambda path: Ledger(path, float("nan")),
        lambda path: Ledger(path, 1.0, "year"),
        lambda path: Ledger(None, 1.0),  # type: ignore[arg-type]  # the wrong type is the test
        lambda path: Ledger(path / "no" / "folder", 1.0),
        lambda path: wh.Reporter(wh.optimal_privacy(PLACES, PRIOR, 0.3), path, 1.0),
        lambda path: wh.Reporter(MECHANISM, path, 1.0, outside="planar-laplace"),
        lambda path: wh.Reporter(MECHANISM, path, 1.0).report([1, 2]),
        lambda path: wh.Reporter(MECHANISM, path, 1.0).report((90.0, 90.0)),
    ],
)
def test_misuse_is_refused(tmp_path: Path, misuse: Any) -> None:
    with pytest.raises(wh.InputError):
        misuse(tmp_path / "l")


def test_a_file_that_is_no_ledger_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "l"
    path.write_text("something else, and more than a hundred bytes of it" * 5)
    before = path.read_bytes()
    with pytest.raises(wh.FormatError):
        Ledger(path, 1.0)
    assert path.read_bytes() == before
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE mine (a)")
    with pytest.raises(wh.FormatError, match="not a ledger"):
        Ledger(other, 1.0)


def test_a_place_is_reported_where_it_is(tmp_path: Path) -> None:
    city = wh.embedded_city()
    reporter = wh.Reporter(wh.exponential(city.places, 1000.0), tmp_path / "l", 5000.0)
    assert city.places.latlon is not None
    made = reporter.report(tuple(city.places.latlon[7] + 1e-4))
    assert made.output == 7
    assert made.latlon == tuple(city.places.latlon[7])
