"""A ledger that was edited, restored, truncated, or misled by a clock never refunds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies as some
import whereish as wh
from whereish.device import Ledger
from whereish.device.charges import SLACK_S, Charges
from whereish.device.ledger_key import Intent, LedgerKey

DAY = 86400.0
NOW = 1.8e9
FAR = 4.0e9  # in 2096


def made(tmp_path: Path, budget: float = 3.0, reports: int = 2, period: str = "day") -> Ledger:
    ledger = Ledger(tmp_path / "l", budget, period)
    for place in range(reports):
        ledger.spend("m", place, 1.0, NOW, lambda: 5)
    return ledger


# Edits ------------------------------------------------------------------------------------------


EDITS = [
    "UPDATE spent SET epsilon = '0'",
    "UPDATE spent SET epsilon = '1'",
    "UPDATE spent SET carried = '0', epsilon = '0'",
    "UPDATE spent SET reports = 1",
    "UPDATE spent SET period = period - 1",
    "DELETE FROM spent",
    "INSERT INTO spent SELECT period + 9, epsilon, carried, reports, mac FROM spent",
    "UPDATE spent SET mac = x'00'",
    "UPDATE spent SET mac = 'x'",
    "UPDATE terms SET budget = '1000'",
    "UPDATE terms SET period_s = 3600.0",
    "UPDATE terms SET unit = 'per mile'",
    "INSERT INTO terms SELECT * FROM terms",
    "DELETE FROM terms",
    "UPDATE state SET number = number + 1",
    "UPDATE state SET current = current - 100",
    "UPDATE state SET current = NULL",
    "DELETE FROM state",
    "DELETE FROM sticky",
    "DELETE FROM sticky WHERE place = 0",
    "UPDATE sticky SET output = 1",
    "UPDATE sticky SET place = place + 10",
    "UPDATE sticky SET period = period + 1",
    "DROP TABLE sticky",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 3",
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_ledger_is_refused(tmp_path: Path, edit: str) -> None:
    ledger = made(tmp_path)
    with sqlite3.connect(tmp_path / "l") as file:
        file.execute(edit)
    file.close()
    before = (tmp_path / "l").read_bytes()
    for ask in (
        lambda: ledger.spend("m", 7, 1.0, NOW, lambda: pytest.fail("a report was drawn")),
        lambda: Ledger(tmp_path / "l"),
        lambda: ledger.spent(NOW),
        lambda: ledger.reset_clock(NOW),
    ):
        with pytest.raises(wh.FormatError):
            ask()
    assert (tmp_path / "l").read_bytes() == before


def test_rows_of_an_earlier_state_are_refused_though_their_macs_are_right(tmp_path: Path) -> None:
    ledger = made(tmp_path, reports=1)
    with sqlite3.connect(tmp_path / "l") as file:
        row = file.execute("SELECT * FROM spent").fetchone()
        state = file.execute("SELECT * FROM state").fetchone()
    ledger.spend("m", 1, 1.0, NOW, lambda: 5)
    for table, values in (("spent", row), ("state", state)):
        shutil.copy(tmp_path / "l", tmp_path / "copy")
        with sqlite3.connect(tmp_path / "l") as file:
            file.execute(f"DELETE FROM {table}")
            file.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(values))})", values)
        file.close()
        with pytest.raises(wh.FormatError, match="changed by something else"):
            ledger.spent(NOW)
        shutil.copy(tmp_path / "copy", tmp_path / "l")


def test_every_byte_of_the_key_counts(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    key = tmp_path / "l.key"
    whole = key.read_bytes()
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1
        key.write_bytes(spoiled)
        # The intent before the last may be damaged: it is of no use any more.
        if 128 <= place < 192:
            assert ledger.spent(NOW) == 2.0
        else:
            with pytest.raises(wh.FormatError):
                ledger.spent(NOW)
    for length in (0, 1, 31, 32, 64, 100, 191):
        key.write_bytes(whole[:length])
        with pytest.raises(wh.FormatError, match="no key of a ledger, or is damaged"):
            ledger.spent(NOW)
    key.unlink()
    with pytest.raises(wh.FormatError, match="is gone"):
        ledger.spent(NOW)
    with pytest.raises(wh.FormatError, match="is gone"):
        Ledger(tmp_path / "l", 3.0)
    key.write_bytes(whole)
    key.chmod(0o600)
    assert ledger.spent(NOW) == 2.0


def test_ledger_and_key_of_another_are_refused(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    other = Ledger(tmp_path / "other", 3.0)
    other.spend("m", 1, 1.0, NOW, lambda: 5)
    other.spend("m", 2, 1.0, NOW, lambda: 5)
    mine = (tmp_path / "l").read_bytes()
    shutil.copy(tmp_path / "other", tmp_path / "l")
    with pytest.raises(wh.FormatError):
        Ledger(tmp_path / "l")
    shutil.copy(tmp_path / "other.key", tmp_path / "l.key")
    with pytest.raises(wh.FormatError, match="another ledger than before"):
        ledger.spent(NOW)
    (tmp_path / "l").write_bytes(mine)
    with pytest.raises(wh.FormatError):
        ledger.spent(NOW)


# Old copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("which", ["ledger", "key"])
def test_an_older_copy_is_not_a_refund(tmp_path: Path, steps: int, which: str) -> None:
    ledger = made(tmp_path, budget=4.0, reports=1)
    name = "l" if which == "ledger" else "l.key"
    shutil.copy(tmp_path / name, tmp_path / "copy")
    for place in range(1, 1 + steps):
        ledger.spend("m", place, 1.0, NOW, lambda: 5)
    shutil.copy(tmp_path / "copy", tmp_path / name)
    if which == "ledger" and steps == 1:
        # As after a kill between the two writes: the last draw is paid for again, not given back.
        assert ledger.spent(NOW) == 2.0
        ledger.spend("m", 5, 1.0, NOW, lambda: 5)
        ledger.spend("m", 6, 1.0, NOW, lambda: 5)
        with pytest.raises(wh.BudgetError):
            ledger.spend("m", 1, 1.0, NOW, lambda: 5)
        return
    with pytest.raises(wh.FormatError, match="One of them is an older copy"):
        ledger.spend("m", 9, 1.0, NOW, lambda: 5)


def test_copying_and_putting_back_around_every_draw_gains_nothing(tmp_path: Path) -> None:
    ledger = made(tmp_path, budget=5.0, reports=0)
    drawn = 0
    for place in range(40):
        shutil.copy(tmp_path / "l", tmp_path / "copy")
        try:
            ledger.spend("m", place, 1.0, NOW, lambda: 5)
            drawn += 1
        except (wh.BudgetError, wh.FormatError):
            break
        shutil.copy(tmp_path / "copy", tmp_path / "l")
    assert drawn <= 5


def test_a_ledger_that_was_removed_is_not_begun_anew_while_its_key_is_there(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "l").unlink()
    with pytest.raises(wh.FormatError, match="its key is here"):
        Ledger(tmp_path / "l", 3.0)
    (tmp_path / "l").write_bytes(b"")
    (tmp_path / "l").chmod(0o600)
    with pytest.raises(wh.FormatError, match="is empty"):
        Ledger(tmp_path / "l", 3.0)


# Others on this machine -------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("name", ["l", "l.key"])
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o622, 0o601])
def test_a_ledger_that_others_can_read_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    ledger = made(tmp_path)
    for file in ("l", "l.key"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600
    (tmp_path / name).chmod(mode)
    with pytest.raises(wh.FormatError, match=r"owner only.*chmod 600"):
        ledger.spend("m", 7, 1.0, NOW, lambda: 1)
    with pytest.raises(wh.FormatError, match="chmod 600"):
        Ledger(tmp_path / "l")
    (tmp_path / name).chmod(0o600)
    assert ledger.spent(NOW) == 2.0


# Old versions -----------------------------------------------------------------------------------

_VERSION_1 = """
CREATE TABLE terms (budget REAL NOT NULL, period_s REAL NOT NULL, unit TEXT NOT NULL);
CREATE TABLE spent (period INTEGER PRIMARY KEY, epsilon TEXT NOT NULL, reports INTEGER NOT NULL);
CREATE TABLE sticky (period INTEGER, mechanism TEXT, place INTEGER, output INTEGER NOT NULL,
                     PRIMARY KEY (period, mechanism, place));
PRAGMA user_version = 1;
"""


def version_1(path: Path, spent: str = "21/10") -> None:
    period = int(NOW // DAY)
    with sqlite3.connect(path) as file:
        file.executescript(_VERSION_1)
        file.execute("INSERT INTO terms VALUES (3.2, 86400.0, 'per km')")
        file.execute("INSERT INTO spent VALUES (?, '1', 1)", (period - 4,))
        file.execute("INSERT INTO spent VALUES (?, ?, 2)", (period, spent))
        file.execute("INSERT INTO sticky VALUES (?, 'm', 3, 8)", (period,))
    file.close()
    path.chmod(0o600)


def test_a_ledger_of_version_1_is_taken_over_with_what_it_has_spent(tmp_path: Path) -> None:
    path = tmp_path / "l"
    version_1(path)
    shutil.copy(path, tmp_path / "copy")
    ledger = Ledger(path)
    assert (tmp_path / "l.key").exists()
    assert ledger.budget == 3.2
    assert ledger.spent(NOW) == 2.1
    again = ledger.spend("m", 3, 1.0, NOW, lambda: 1)
    assert (again.output, again.fresh) == (8, False)
    ledger.spend("m", 4, 1.0, NOW, lambda: 1)
    with pytest.raises(wh.BudgetError):
        ledger.spend("m", 5, 1.0, NOW, lambda: 1)
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(wh.FormatError, match="older copy"):
        ledger.spent(NOW)


def test_a_ledger_of_version_1_that_others_can_read_or_that_is_spoiled_is_refused(
    tmp_path: Path,
) -> None:
    version_1(tmp_path / "l")
    (tmp_path / "l").chmod(0o644)
    with pytest.raises(wh.FormatError, match="chmod 600"):
        Ledger(tmp_path / "l")
    version_1(tmp_path / "b", spent="-100")
    with pytest.raises(wh.FormatError):
        Ledger(tmp_path / "b")
    assert not (tmp_path / "b.key").exists()


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder where syncing costs nothing, if there is one: a kill is no power cut."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


# Kills ------------------------------------------------------------------------------------------

# Runs an operation in a child that is killed at its n-th line in the ledger's code, for n = 0, 1,
# ... until it comes to its end; after each kill the ledger is opened and looked at.
_KILLS = r"""
import os, shutil, signal, sys
from pathlib import Path
from whereish.device import Ledger
import whereish.errors

folder, what = Path(sys.argv[1]), sys.argv[2]
start, work = folder / "start", folder / "work"
NOW = 1.8e9
FILES = {"ledger.py", "ledger_file.py", "ledger_key.py", "charges.py"}

def operate():
    if what == "make":
        Ledger(work / "l", 3.0)
    elif what == "upgrade":
        Ledger(work / "l")
    elif what == "reset":
        Ledger(work / "l").reset_clock(NOW - 5 * 86400)
    else:
        Ledger(work / "l").spend("m", 9, 1.0, NOW, lambda: 4)
        os.write(1, b"handed\n")

def child(kill_at):
    seen, times = 0, {}
    def trace(frame, event, argument):
        nonlocal seen
        if os.path.basename(frame.f_code.co_filename) not in FILES:
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        times[line] = times.get(line, 0) + (event == "line")
        if event == "line" and times[line] <= 2:  # the rest of a loop is as its beginning
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1
        return trace
    sys.settrace(trace)
    operate()
    sys.settrace(None)
    os._exit(0)

kills = 0
while True:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 1)
        child(kills)
    os.close(write)
    handed = b"handed" in os.read(read, 100)
    os.close(read)
    ended = os.waitpid(pid, 0)[1]
    # Never locked out, never refunded: what is asked of it depends on the operation.
    ledger = Ledger(work / "l", 3.0 if what == "make" else None)
    spent = ledger.spent(NOW)
    low, high = {"make": (0, 0), "upgrade": (2.1, 2.1), "reset": (2, 2), "spend": (1, 2)}[what]
    assert low <= spent <= high, (kills, spent)
    assert not handed or spent == 2, (kills, spent)
    ledger.spend("m", 3, 1.0, NOW, lambda: 8)  # and it goes on
    assert ledger.spent(NOW) <= 3.2
    if ended == 0:
        break
    assert os.WTERMSIG(ended) == signal.SIGKILL
    kills += 1
print(kills)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need a POSIX system")
@pytest.mark.parametrize(
    "what",
    [
        "spend",
        *(pytest.param(it, marks=pytest.mark.thorough) for it in ("make", "upgrade", "reset")),
    ],
)
def test_a_kill_at_any_line_neither_refunds_nor_locks_out(in_memory: Path, what: str) -> None:
    start = in_memory / "start"
    start.mkdir()
    if what == "upgrade":
        version_1(start / "l")
    elif what == "reset":
        made(start, reports=2)
    elif what == "spend":
        made(start, reports=1)
    done = subprocess.run(
        [sys.executable, "-c", _KILLS, str(in_memory), what], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40


def test_an_intent_that_is_cut_off_at_any_byte_leaves_the_one_before(tmp_path: Path) -> None:
    made(tmp_path, reports=1)
    key = LedgerKey(tmp_path / "l")
    secret, last = key.read()
    before = key.path.read_bytes()
    key.write(secret, Intent(last.number + 1, 5, 1.5))
    after = key.path.read_bytes()
    place = 64 + 64 * ((last.number + 1) % 2)
    for cut in range(64):
        key.path.write_bytes(before[:place] + after[place : place + cut] + before[place + cut :])
        assert key.read()[1] in (last, Intent(last.number + 1, 5, 1.5))
    assert after[:64] == before[:64]


# Clocks -----------------------------------------------------------------------------------------


def test_a_reading_in_2096_does_not_lock_a_ledger_for_decades(tmp_path: Path) -> None:
    ledger = made(tmp_path, budget=3.0, reports=1)
    for place in (10, 11):
        ledger.spend("m", place, 1.0, FAR, lambda: 5)
    assert ledger.spent(NOW) == 3.0  # one of today and two of 2096: nothing was given back
    with pytest.raises(wh.BudgetError):
        ledger.spend("m", 12, 1.0, NOW, lambda: 5)
    for place in (20, 21, 22):
        ledger.spend("m", place, 1.0, NOW + DAY, lambda: 5)
    with pytest.raises(wh.BudgetError):
        ledger.spend("m", 23, 1.0, NOW + DAY, lambda: 5)
    # And 2096 has nothing to give a second time but what it had left.
    ledger.spend("m", 30, 1.0, FAR, lambda: 5)
    with pytest.raises(wh.BudgetError):
        ledger.spend("m", 31, 1.0, FAR, lambda: 5)


def test_what_was_drawn_in_2096_is_the_report_of_its_place_today(tmp_path: Path) -> None:
    ledger = made(tmp_path, reports=1)
    ledger.spend("m", 10, 1.0, FAR, lambda: 77)
    ledger.spend("m", 11, 1.0, NOW, lambda: 5)  # back
    again = ledger.spend("m", 10, 1.0, NOW, lambda: 1)
    assert (again.output, again.fresh) == (77, False)


def test_a_debt_is_paid_back_period_by_period_and_said_so(tmp_path: Path) -> None:
    ledger = made(tmp_path, budget=1.0, reports=1)
    for year in range(4):
        ledger.spend("m", 0, 1.0, FAR + year * 365 * DAY, lambda: 5)
    with pytest.raises(wh.BudgetError, match="paid back in 5 periods"):
        ledger.spend("m", 7, 1.0, NOW, lambda: 5)
    for day in range(5):
        with pytest.raises(wh.BudgetError):
            ledger.spend("m", 7, 1.0, NOW + day * DAY, lambda: 5)
    assert ledger.spend("m", 7, 1.0, NOW + 5 * DAY, lambda: 5).fresh


def test_a_clock_that_was_a_little_ahead_can_be_reset(tmp_path: Path) -> None:
    ledger = made(tmp_path, budget=1.0, reports=0)
    ledger.spend("m", 0, 1.0, NOW + 20 * DAY, lambda: 5)
    with pytest.raises(wh.BudgetError):
        ledger.spend("m", 1, 1.0, NOW + DAY, lambda: 5)
    again = ledger.reset_clock(NOW)
    assert again == (NOW // DAY + 1) * DAY
    with pytest.raises(wh.BudgetError):
        ledger.spend("m", 1, 1.0, NOW, lambda: 5)
    assert ledger.spend("m", 1, 1.0, NOW + DAY, lambda: 5).fresh
    assert Ledger(tmp_path / "l").spent(NOW + DAY) == 1.0


readings = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 5, 20, 40, 45, 100, 9000, 9001, 25000]),
        st.fractions(Fraction(1, 4), Fraction(2), max_denominator=8),
        st.booleans(),
    ),
    max_size=60,
)


@given(steps=readings, budget=st.fractions(Fraction(1, 2), Fraction(4), max_denominator=8))
def test_no_sequence_of_clock_readings_gains_budget(
    steps: list[tuple[int, Fraction, bool]], budget: Fraction
) -> None:
    """The rules of docs/theory/repeated-reports.md, counted by hand over all draws."""
    charges = Charges(budget, DAY, {}, None)
    drawn: dict[int, Fraction] = {}
    believed: list[int] = []
    total = Fraction(0)
    for day, price, reset in steps:
        reading = day * DAY + 5.0
        period = charges.at(reading)
        if reset and charges.current is not None and day < charges.current:
            period = day
        # A period is that of the reading, or the last one, at most the slack ahead of it.
        assert period == day or (period == charges.current and 0 < (period - day) * DAY <= SLACK_S)
        trial = Charges(budget, DAY, charges.rows, charges.current)
        trial.move_to(period)
        if price > trial.left(period):
            if charges.current is not None and period < charges.current:
                charges = trial  # the debt is kept though nothing was drawn
                believed.append(period)
            continue
        trial.add(price)
        charges = trial
        drawn[period] = drawn.get(period, Fraction(0)) + price
        believed.append(period)
        total += price
        # 1. No period takes more than the budget.
        assert drawn[period] <= budget
        # 2. All draws so far fit into the periods from the first charged one to this one.
        first = min(number for number, row in charges.rows.items() if row.epsilon > 0)
        assert total <= budget * (period - first + 1)
        assert first >= min(believed)
        # 3. Nothing was given back, and nothing was charged twice.
        assert sum(row.epsilon for row in charges.rows.values()) == total
        # 4. The lock that a wrong clock leaves is as long as what was drawn, and no longer.
        assert charges.first_affordable(budget, period) - period <= total / budget + len(drawn) + 1


@pytest.mark.slow
def test_ledger_files_follow_the_rules_too(tmp_path: Path) -> None:
    """Random clocks against the file: as many draws as a plain list of charges allows."""
    rng = np.random.default_rng(4)
    for number in range(12):
        ledger = Ledger(tmp_path / f"l{number}", Fraction(5, 2), "day")
        model = Charges(Fraction(5, 2), DAY, {}, None)
        seen: dict[int, set[int]] = {}
        for _ in range(25):
            day = int(rng.choice([1, 2, 3, 20, 60, 9000]))
            place = int(rng.integers(0, 40)) + 100 * day
            period = model.at(day * DAY)
            try:
                entry = ledger.spend("m", place, 1.0, day * DAY, lambda: 5)
            except wh.BudgetError:
                trial = Charges(model.budget, DAY, model.rows, model.current)
                trial.move_to(period)
                assert trial.left(period) < 1
                if model.current is not None and period < model.current:
                    model = trial
                continue
            if entry.fresh:
                model.move_to(period)
                assert model.left(period) >= 1
                model.add(Fraction(1))
                seen.setdefault(period, set()).add(place)
        assert ledger.spent(NOW * 10) == 0.0


# New places -------------------------------------------------------------------------------------

PLACES = some.grid(3, 2)


@pytest.mark.parametrize("epsilon", [1.07, 0.1, 1 / 3, 1.0663803, 2e-9, 0.7, 1.1, 12345.678])
@pytest.mark.parametrize("new_places", [1, 2, 3, 5])
def test_a_budget_of_new_places_allows_exactly_so_many(
    tmp_path: Path, epsilon: float, new_places: int
) -> None:
    mechanism = wh.exponential(PLACES, epsilon)
    reporter = wh.Reporter(mechanism, tmp_path / "l", new_places=new_places, clock=lambda: NOW)
    for place in range(new_places):
        made = reporter.report(place)
        assert made.fresh
        assert made.new_places_left == new_places - 1 - place
        assert made.period_ends == "2027-01-16T00:00:00Z"
    with pytest.raises(wh.BudgetError, match=r"no new place is left.*ends 2027-01-16 00:00 UTC"):
        reporter.report(5)
    assert reporter.report(0).fresh is False
    again = wh.Reporter(mechanism, tmp_path / "l", new_places=new_places)
    assert again.ledger.terms.budget == new_places * Fraction(repr(epsilon))
    with pytest.raises(wh.InputError, match="budget must be that of the ledger"):
        wh.Reporter(mechanism, tmp_path / "l", new_places=new_places + 1)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_numbers_of_new_places_that_are_none(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(wh.InputError, match="new_places"):
        wh.Reporter(wh.exponential(PLACES, 1.0), tmp_path / "l", new_places=wrong)  # type: ignore[arg-type]  # the wrong type is the test
    with pytest.raises(wh.InputError, match="got both"):
        wh.Reporter(wh.exponential(PLACES, 1.0), tmp_path / "l", 2.0, new_places=2)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_another_process_makes_meanwhile_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not there at the first look; when the key is read, another process has spent."""
    path = tmp_path / "l"
    read = LedgerKey.read
    made: list[float] = []

    def meanwhile(key: LedgerKey) -> tuple[bytes, Intent]:
        monkeypatch.setattr(LedgerKey, "read", read)
        other = Ledger(path, 100.0)
        other.spend("m", 1, 1.0, 1.8e9, lambda: 1)
        made.append(1.0)
        return read(key)

    monkeypatch.setattr(LedgerKey, "read", meanwhile)
    ledger = Ledger(path, 100.0)
    ledger.spend("m", 2, 1.0, 1.8e9, lambda: 1)
    assert made == [1.0]
    assert ledger.spent(1.8e9) == pytest.approx(2.0)


@pytest.mark.slow
def test_many_processes_make_one_ledger_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from whereish.device import Ledger\n"
        "ledger = Ledger(sys.argv[1], 100.0)\n"
        "ledger.spend('m', int(sys.argv[2]), 1.0, 1.8e9, lambda: 1)"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "l"), str(number)], stderr=subprocess.PIPE
        )
        for number in range(5)
    ]
    for worker in workers:
        assert worker.communicate()[1] == b""
        assert worker.returncode == 0
    assert Ledger(tmp_path / "l").spent(NOW) == 5.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l", "l.key"]
