"""Trackers that are killed, shared and given wrong clocks: never over the budget, never refunded.

``WHEREISH_HISTORIES=10000`` tries ten thousand random histories, ``WHEREISH_KILLS=100`` kills a
hundred times.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strategies as some
import whereish as wh
from test_tracker import Walk
from whereish.device.charges import Charge, Charges
from whereish.device.ledger import Ledger
from whereish.device.tracker import Tracker

PLACES = some.grid(3, 2)
MECHANISM = wh.exponential(PLACES, 0.9)
DAY = 86400.0
HISTORIES = int(os.environ.get("WHEREISH_HISTORIES", "25"))
KILLS = int(os.environ.get("WHEREISH_KILLS", "4"))
POLICIES = ("predictive", "sporadic", "filtered", "sticky")
# Steps of the clock: minutes, hours, a day on, a day back, and far back.
STEPS = (60.0, 3000.0, 30_000.0, DAY, -DAY, -40 * DAY)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: a file that is synced is fast there."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        yield tmp_path
        return
    import shutil
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="whereish-", dir=memory))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def tracker(file: Path, policy: str, new_places: int, rate: float | None) -> Tracker:
    if policy == "sporadic" and rate is None:
        rate = 1800.0
    return Tracker(
        MECHANISM, file, policy, new_places=new_places,
        rate=None if policy == "sticky" else rate,
        model=Walk(PLACES, some.skewed(6) + 0.05) if policy == "filtered" else None,
    )  # fmt: skip


def history(file: Path, seed: int) -> list[str]:
    """Live one random history, and return what is wrong with it, by another way of counting."""
    rng = np.random.default_rng(seed)
    policy, new_places = POLICIES[seed % 4], int(rng.integers(1, 6))
    made = tracker(file, policy, new_places, (None, 900.0, 7200.0)[seed % 3])
    budget = new_places * Fraction("0.9")
    # The ledger's period of a clock reading: docs/theory/repeated-reports.md.
    now, latest, total, first = 1e9, None, Fraction(0), None
    of_period: dict[int, Fraction] = defaultdict(Fraction)
    wrong = []
    for _ in range(int(rng.integers(5, 30))):
        now += float(rng.choice(STEPS, p=[0.4, 0.25, 0.15, 0.1, 0.08, 0.02]))
        period = int(now // DAY)
        if latest is not None and period < latest:
            if (latest - period) * DAY > 31 * DAY:
                latest = period  # a clock that goes far back is believed at once
                first = None if first is None else min(first, period)
            period = latest
        try:
            report = made.report(int(rng.integers(0, 6)), now)
        except wh.BudgetError:
            continue
        cost = Fraction(repr(report.cost))
        of_period[period] += cost
        total += cost
        if cost:
            latest = period  # known to the ledger from the first draw on
            first = period if first is None else min(first, period)
            if total > budget * (period - first + 1):
                wrong.append("more than a budget for every period so far")
        if of_period[period] > budget:
            wrong.append("a period is over its budget")
        if not float(of_period[period]) <= report.spent <= float(budget):
            wrong.append("the report says another sum")
        if report.spent_per_stay > report.spent * (1 + 1e-12):
            wrong.append("a stay has cost more than its period")
    return wrong


@pytest.mark.slow
def test_random_histories_never_go_over_the_budget(folder: Path) -> None:
    for seed in range(HISTORIES):
        assert not history(folder / f"l{seed}", seed), seed
        for file in folder.iterdir():
            file.unlink()


_WORKER = """
import sys
import whereish as wh
from whereish.device.tracker import Tracker
mechanism, _ = wh.load_mechanism(sys.argv[1])
tracker = Tracker(mechanism, sys.argv[2], sys.argv[3], rate=60.0)
start, count = int(sys.argv[4]), int(sys.argv[5])
print("ready", flush=True)
for k in range(start, start + count):
    try:
        report = tracker.report(k % 6, 1e9 + 100.0 * k)
    except wh.BudgetError:
        print("refused", flush=True)
        continue
    print(repr(report.cost), flush=True)
"""


def worker(folder: Path, policy: str, start: int, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(folder / "k.whereish"), str(folder / "l"), policy,
         str(start), str(count)],
        stdout=subprocess.PIPE,
    )  # fmt: skip


def paid(lines: bytes) -> Fraction:
    """Return the sum of the costs that a worker has printed in whole lines."""
    costs = [line for line in lines.decode().split("\n")[:-1] if line not in ("ready", "refused")]
    return sum((Fraction(cost) for cost in costs), Fraction(0))


@pytest.mark.heavy
def test_kill_9_loses_nothing_that_was_spent(folder: Path) -> None:
    """What was handed over is charged, wherever the process was killed; one step more at most."""
    wh.save_mechanism(folder / "k.whereish", MECHANISM)
    Ledger(folder / "l", 1e9, "week")
    handed, rng = Fraction(0), np.random.default_rng(3)
    most = Fraction(repr(wh.BudgetManager.for_draw(0.9).epsilon_test)) + Fraction("0.9000001")
    for round_ in range(KILLS):
        policy = ("predictive", "sporadic")[round_ % 2]
        running = worker(folder, policy, 5 + 10**6 * (round_ // 1000) + 2000 * round_, 2000)
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        first = running.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.1)))
        running.send_signal(signal.SIGKILL)
        handed += paid(first + running.stdout.read())
        running.wait()
        running.stdout.close()
        spent = Fraction(repr(all_spent(folder / "l")))
        assert handed <= spent * (1 + Fraction(1, 10**12))
        assert spent <= handed + (round_ + 1) * most
        with Ledger(folder / "l")._open() as ledger:  # every state is whole
            for run in ledger.runs.values():
                assert len(json.loads(run.public)) == 4


def all_spent(file: Path) -> float:
    with Ledger(file)._open() as ledger:
        return float(sum((row.epsilon for row in ledger.charges.rows.values()), Fraction(0)))


@pytest.mark.heavy
def test_two_processes_share_one_budget_and_one_run(folder: Path) -> None:
    wh.save_mechanism(folder / "k.whereish", MECHANISM)
    budget = 20 * Fraction("0.9")
    Ledger(folder / "l", budget, "week")
    workers = [worker(folder, "predictive", start, 60) for start in (0, 30)]
    said = [process.communicate()[0] for process in workers]
    handed = sum((paid(lines) for lines in said), Fraction(0))
    assert all(b"refused" in lines for lines in said)
    assert handed <= budget
    # Refused at the end: less is left than a test and a draw may cost.
    manager = wh.BudgetManager.for_draw(0.9)
    assert budget - handed < Fraction(repr(manager.epsilon_test)) + Fraction("0.9000001")
    assert all_spent(folder / "l") == pytest.approx(float(handed))


def spent_by_day(file: Path, days: tuple[int, ...]) -> dict[int, float]:
    """Ask on each of these days of the clock until the budget refuses."""
    made = tracker(file, "predictive", 4, None)
    spent: dict[int, float] = defaultdict(float)
    for day in days:
        for k in range(50):
            try:
                spent[day] += made.report(k % 6, day * DAY + 50.0).cost
            except wh.BudgetError:
                break
        else:
            raise AssertionError("no budget ends after fifty tests")
    return spent


def test_a_clock_that_jumps_a_day_either_way_gains_nothing(folder: Path) -> None:
    spent = spent_by_day(folder / "l", (100, 101, 100, 101, 100, 99, 102))
    assert all(cost <= 3.6 for cost in spent.values())
    assert spent[99] == 0.0  # it counts as the latest day, which is spent


@pytest.mark.parametrize("bug", [None, "refund at the end of a period", "refund at a jump"])
def test_planted_refunds_are_caught(
    folder: Path, monkeypatch: pytest.MonkeyPatch, bug: str | None
) -> None:
    """A clock that is set back by 41 days and then comes back finds the first days spent."""
    real = Charges.move_to

    def move_to(self: Charges, period: int) -> None:
        before = self.current
        real(self, period)
        ended = before is not None and period > before
        back = before is not None and period < before
        if ended if bug == "refund at the end of a period" else back:
            for number in list(self.rows):
                self._set(number, Charge())

    if bug is not None:
        monkeypatch.setattr(Charges, "move_to", move_to)
    spent = spent_by_day(folder / "l", (100, 101, 60, 100, 101))
    assert (max(spent.values()) > 3.6) == (bug is not None)


def test_a_ledger_of_a_reporter_is_taken_on_and_its_charges_count(folder: Path) -> None:
    """A ledger of version 2 becomes one of version 3 at the first step of a run, and not before."""
    import sqlite3

    def version() -> Any:
        file = sqlite3.connect(folder / "l")
        try:
            return file.execute("PRAGMA user_version").fetchone()[0]
        finally:
            file.close()

    now = [1e9]
    reporter = wh.Reporter(MECHANISM, folder / "l", new_places=3, clock=lambda: now[0])
    first = reporter.report(2)
    made = tracker(folder / "l", "sporadic", 3, 60.0)
    assert version() == 2
    assert made.report(0, 1e9).spent == pytest.approx(1.8)
    assert version() == 3
    again = reporter.report(2)
    assert (again.output, again.fresh) == (first.output, False)
    assert again.spent == pytest.approx(1.8)
    assert made.report(0, 1e9 + 60).spent == pytest.approx(2.7)
    with pytest.raises(wh.BudgetError):
        reporter.report(4)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE runs SET public = replace(public, '[', '[ ')",
        "UPDATE runs SET stay = ''",
        "DELETE FROM runs",
        "PRAGMA user_version = 2",
        "DROP TABLE runs",
    ],
)
def test_an_edited_run_is_refused(folder: Path, edit: str) -> None:
    import sqlite3

    made = tracker(folder / "l", "sporadic", 3, 60.0)
    made.report(0, 1e9)
    file = sqlite3.connect(folder / "l")
    file.execute(edit)
    file.commit()
    file.close()
    with pytest.raises(wh.FormatError):
        made.report(0, 2e9)
