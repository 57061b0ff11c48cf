"""A ledger of what reports have cost: a small SQLite file that never refunds.

Before a report is handed over its cost is on the disk. Somebody who is killed in between has paid
for a report that nobody saw, never the other way round. In one period the same place gets the same
report again, for nothing: that is what defeats averaging (docs/theory/repeated-reports.md).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from whereish.errors import BudgetError, FormatError, InputError
from whereish.places import as_number

PERIODS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
_VERSION = 1
_SCHEMA = """
CREATE TABLE terms (budget REAL NOT NULL, period_s REAL NOT NULL);
CREATE TABLE spent (period INTEGER PRIMARY KEY, epsilon REAL NOT NULL, reports INTEGER NOT NULL);
CREATE TABLE sticky (period INTEGER, mechanism TEXT, place INTEGER, output INTEGER NOT NULL,
                     PRIMARY KEY (period, mechanism, place));
"""


@dataclass(frozen=True)
class Entry:
    """A report and what the ledger says after it.

    Attributes
    ----------
    output
        The number of the place that is reported.
    fresh
        Whether it was drawn now, or is the same as before in this period.
    cost, spent, budget
        Epsilon of this report, of this period so far, and what may be spent in a period.
    """

    output: int
    fresh: bool
    cost: float
    spent: float
    budget: float


class Ledger:
    """A ledger in a file, made when there is none.

    Parameters
    ----------
    path
        The file; only its owner may read it.
    budget
        Epsilon that may be spent in a period. Kept in the file: needed only the first time.
    period
        "hour", "day" or "week".
    """

    def __init__(
        self, path: str | Path, budget: float | None = None, period: str | None = None
    ) -> None:
        if not isinstance(path, str | Path):
            raise InputError(f"ledger must be the name of a file, got {path!r}")
        if period is not None and period not in PERIODS:
            raise InputError(f"period must be one of {', '.join(PERIODS)}, got {period!r}")
        if budget is not None:
            budget = as_number("budget", budget)
        self.path = Path(path)
        asked = None if period is None else PERIODS[period]
        with self._open() as file:
            row = file.execute("SELECT budget, period_s FROM terms").fetchone()
            if row is None:
                if budget is None:
                    raise InputError("budget must be given for a new ledger, got none")
                row = (budget, asked or PERIODS["day"])
                file.execute("INSERT INTO terms VALUES (?, ?)", row)
        self.budget, self.period_s = (float(value) for value in row)
        for name, given, kept in (
            ("budget", budget, self.budget),
            ("period", asked, self.period_s),
        ):
            if given is not None and given != kept:
                raise InputError(
                    f"{name} must be that of the ledger, {kept:g}, got {given:g}: a new ledger "
                    "would forget what has been spent"
                )

    def spend(
        self, mechanism: str, place: int, cost: float, now: float, draw: Callable[[], int]
    ) -> Entry:
        """Return this period's report for a place, drawing and paying for it if there is none.

        Parameters
        ----------
        mechanism
            A digest: reports of another mechanism are other reports.
        now
            Seconds since the epoch. A clock that goes back does not bring back a period.

        Raises
        ------
        BudgetError
            If it would cost more than is left. Nothing is drawn.
        """
        with self._open() as file:
            last = file.execute("SELECT MAX(period) FROM spent").fetchone()[0]
            period = max(int(now // self.period_s), -(2**62) if last is None else last)
            found = file.execute(
                "SELECT epsilon, reports FROM spent WHERE period = ?", (period,)
            ).fetchone()
            spent, reports = found or (0.0, 0)
            kept = file.execute(
                "SELECT output FROM sticky WHERE period = ? AND mechanism = ? AND place = ?",
                (period, mechanism, place),
            ).fetchone()
            if kept is not None:
                return Entry(int(kept[0]), False, 0.0, spent, self.budget)
            if not spent + cost <= self.budget * (1 + 1e-12):
                raise BudgetError(
                    f"a report costs epsilon {cost:g}, and {max(self.budget - spent, 0.0):g} of "
                    f"{self.budget:g} is left in this period: nothing was reported"
                )
            output = draw()
            file.execute(
                "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (period, spent + cost, reports + 1)
            )
            file.execute(
                "INSERT INTO sticky VALUES (?, ?, ?, ?)", (period, mechanism, place, output)
            )
            # Where somebody was in an earlier period is nobody's business, the ledger's included.
            file.execute("DELETE FROM sticky WHERE period < ?", (period,))
        return Entry(output, True, cost, spent + cost, self.budget)

    def spent(self, now: float) -> float:
        """Return what has been spent in the period of this time."""
        with self._open() as file:
            row = file.execute(
                "SELECT epsilon FROM spent WHERE period = ?", (int(now // self.period_s),)
            ).fetchone()
        return 0.0 if row is None else float(row[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file in a transaction of its own; what is not committed never was."""
        try:
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            file = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
        except (OSError, ValueError, sqlite3.Error) as wrong:
            raise InputError(f"ledger {self.path} cannot be opened: {wrong}") from None
        try:
            file.execute("PRAGMA synchronous = FULL")
            file.execute("BEGIN IMMEDIATE")
            version = file.execute("PRAGMA user_version").fetchone()[0]
            empty = not file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
            if version == 0 and empty:
                for statement in _SCHEMA.split(";")[:-1]:
                    file.execute(statement)
                file.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise FormatError(f"{self.path} is not a ledger, or one of another version")
            yield file
            file.execute("COMMIT")
        except sqlite3.Error as wrong:
            raise FormatError(f"ledger {self.path} cannot be used: {wrong}") from None
        finally:
            if file.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    file.execute("ROLLBACK")
            file.close()
