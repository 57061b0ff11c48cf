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
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import BudgetError, FormatError, InputError
from whereish.places import as_number

PERIODS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
_VERSION = 1
_SCHEMA = """
CREATE TABLE terms (budget REAL NOT NULL, period_s REAL NOT NULL, unit TEXT NOT NULL);
CREATE TABLE spent (period INTEGER PRIMARY KEY, epsilon TEXT NOT NULL, reports INTEGER NOT NULL);
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
    unit
        What the epsilons are per: those of different metrics do not add up.
    """

    def __init__(
        self,
        path: str | Path,
        budget: float | None = None,
        period: str | None = None,
        unit: str = "per km",
    ) -> None:
        if not isinstance(path, str | Path):
            raise InputError(f"ledger must be the name of a file, got {path!r}")
        if period is not None and period not in PERIODS:
            raise InputError(f"period must be one of {', '.join(PERIODS)}, got {period!r}")
        if budget is not None:
            budget = as_number("budget", budget)
        try:
            self.path = Path(path).resolve()  # and never ":memory:"
        except (OSError, ValueError, RuntimeError) as wrong:
            raise InputError(f"ledger must be the name of a file, got {path!r}") from wrong
        asked = None if period is None else PERIODS[period]
        with self._open(make=True) as file:
            row = file.execute("SELECT budget, period_s, unit FROM terms").fetchone()
            if row is None:
                if budget is None:
                    raise InputError("budget must be given for a new ledger, got none")
                row = (budget, asked or PERIODS["day"], unit)
                file.execute("INSERT INTO terms VALUES (?, ?, ?)", row)
        self.budget, self.period_s, self.unit = self._terms(row)
        for name, given, kept in (
            ("budget", budget, self.budget),
            ("period", asked, self.period_s),
            ("epsilon", unit, self.unit),
        ):
            if given is not None and given != kept:
                raise InputError(
                    f"{name} must be that of the ledger, {kept}, got {given}: a new ledger "
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
        now = as_number("the time", now, above=-1e15)
        if now > 1e15:
            raise InputError("the time must be seconds since 1970, got something far beyond")
        price = Fraction(repr(as_number("cost", cost)))
        with self._open() as file:
            if self._terms(file.execute("SELECT * FROM terms").fetchone())[0] != self.budget:
                raise FormatError(f"{self.path} is another ledger than it was")
            period, spent, reports = self._now(file, now)
            # Where somebody was in an earlier period is nobody's business, the ledger's included.
            file.execute("DELETE FROM sticky WHERE period < ?", (period,))
            kept = file.execute(
                "SELECT output FROM sticky WHERE period = ? AND mechanism = ? AND place = ?",
                (period, mechanism, place),
            ).fetchone()
            if kept is not None:
                return Entry(int(kept[0]), False, 0.0, float(spent), self.budget)
            # Exactly, in the decimal numbers that people gave: no report is squeezed in.
            left = Fraction(repr(self.budget)) - spent
            if price > left:
                raise BudgetError(
                    f"a report costs epsilon {cost:g}, and {max(float(left), 0.0):g} of "
                    f"{self.budget:g} is left in this period, {self._ends(period)}: nothing was "
                    "reported"
                )
            output, spent = draw(), spent + price
            file.execute(
                "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (period, str(spent), reports + 1)
            )
            file.execute(
                "INSERT INTO sticky VALUES (?, ?, ?, ?)", (period, mechanism, place, output)
            )
        return Entry(output, True, cost, float(spent), self.budget)

    def spent(self, now: float) -> float:
        """Return what has been spent in the period of this time, or the last one seen."""
        with self._open() as file:
            return float(self._now(file, now)[1])

    def _now(self, file: sqlite3.Connection, now: float) -> tuple[int, Fraction, int]:
        """Return the period, what has been spent in it, and how many reports that were."""
        last = file.execute("SELECT MAX(period) FROM spent").fetchone()[0]
        period = max(int(now // self.period_s), -(2**62) if last is None else int(last))
        row = file.execute("SELECT epsilon, reports FROM spent WHERE period = ?", (period,))
        epsilon, reports = row.fetchone() or ("0", 0)
        spent = Fraction(epsilon)
        if spent < 0:
            raise ValueError
        return period, spent, int(reports)

    def _ends(self, period: int) -> str:
        """Say when a period ends: in UTC, as periods are."""
        with contextlib.suppress(ValueError, OverflowError, OSError):
            end = datetime.fromtimestamp((period + 1) * self.period_s, UTC)
            return f"which ends {end:%Y-%m-%d %H:%M} UTC"
        return "which ends far from now"

    def _terms(self, row: Any) -> tuple[float, float, str]:
        budget, period_s, unit = row
        if not (isinstance(budget, float) and 0 < budget < np.inf):
            raise FormatError(f"{self.path} has no budget that can be used")
        if period_s not in PERIODS.values() or not isinstance(unit, str):
            raise FormatError(f"{self.path} has no period that can be used")
        return budget, period_s, unit

    @contextmanager
    def _open(self, make: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file in a transaction of its own; what is not committed never was."""
        try:
            new = make and not self.path.exists()
            if new:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            elif self.path.stat().st_size == 0:
                raise FormatError(
                    f"{self.path} is empty: it is no ledger, or was one once; remove it to begin "
                    "a new one"
                )
            file = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
        except FileNotFoundError:
            raise FormatError(f"ledger {self.path} is gone, and what it kept with it") from None
        except (OSError, ValueError, sqlite3.Error) as wrong:
            if isinstance(wrong, InputError):
                raise
            raise InputError(f"ledger {self.path} cannot be opened: {wrong}") from None
        try:
            file.execute("PRAGMA synchronous = FULL")
            file.execute("PRAGMA secure_delete = ON")
            file.execute("BEGIN IMMEDIATE")
            version = file.execute("PRAGMA user_version").fetchone()[0]
            if new:
                for statement in _SCHEMA.split(";")[:-1]:
                    file.execute(statement)
                file.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise FormatError(f"{self.path} is not a ledger, or one of another version")
            yield file
            file.execute("COMMIT")
        except sqlite3.Error as wrong:
            raise FormatError(f"ledger {self.path} cannot be used: {wrong}") from None
        except (ValueError, TypeError, ArithmeticError) as wrong:
            if isinstance(wrong, InputError):
                raise
            raise FormatError(f"ledger {self.path} holds something that is no ledger's") from None
        finally:
            if file.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    file.execute("ROLLBACK")
            file.close()
            if new and self.path.exists() and self.path.stat().st_size == 0:
                self.path.unlink()
