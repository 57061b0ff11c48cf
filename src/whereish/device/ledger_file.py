"""The SQLite file of a privacy ledger: rows with a MAC each, and a MAC over all of them.

Crash safety. Every change n is an intent (n, period, cost). The intent is first written to the key
file and synced; then the ledger commits the state after change n. Both happen under the lock of
SQLite, so when the key is at change K, the ledger is at K or K - 1. At K - 1 the process was
stopped in between (or the ledger alone was restored from one change before): the pending intent is
replayed, and charged, before anything else. So the charges of an accepted ledger are always those
of intents 1 to K, as long as the key file is not restored. A ledger at any other number is refused.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from whereish.device.charges import Charge, Charges
from whereish.device.ledger_key import RECOVERY, Intent, LedgerKey, check_private, mac
from whereish.errors import FormatError, InputError

PERIODS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
_VERSION, _WITH_RUNS = 2, 3  # a ledger gets the second one with its first run
_TABLES = {
    "terms": "budget TEXT NOT NULL, period_s REAL NOT NULL, unit TEXT NOT NULL, mac BLOB NOT NULL",
    "spent": "period INTEGER PRIMARY KEY, epsilon TEXT NOT NULL, carried TEXT NOT NULL, "
    "reports INTEGER NOT NULL, mac BLOB NOT NULL",
    "sticky": "period INTEGER, mechanism TEXT, place INTEGER, output INTEGER NOT NULL, "
    "mac BLOB NOT NULL, PRIMARY KEY (period, mechanism, place)",
    "state": "number INTEGER NOT NULL, current INTEGER, mac BLOB NOT NULL",
}
_RUNS = "name TEXT PRIMARY KEY, public TEXT NOT NULL, stay TEXT NOT NULL, mac BLOB NOT NULL"


@dataclass(frozen=True)
class Terms:
    """What a ledger fixes when it is created: budget, period and unit of epsilon."""

    budget: Fraction
    period_s: float
    unit: str


@dataclass(frozen=True)
class Run:
    """The state of a sequence of reports over time, in one ledger.

    Attributes
    ----------
    public
        What follows from the reports so far, as JSON: nothing of the true location.
    stay
        The place of the present stay and the cost of its reports, as JSON: personal. Empty after
        the period has ended, as the places of sticky reports are.
    """

    public: str
    stay: str = ""


class LedgerTransaction:
    """An open ledger in a transaction, read and verified.

    Parameters
    ----------
    file
        A connection that holds the lock.
    new
        The terms of a ledger that is created now; None for one that exists.
    """

    def __init__(
        self, file: sqlite3.Connection, path: Path, key: LedgerKey, new: Terms | None
    ) -> None:
        self._file, self._path, self._key_file = file, path, key
        self.charges: Charges
        self.sticky: dict[tuple[str, int], int]
        self.runs: dict[str, Run] = {}
        version = self._version = self._user_version()
        tables = file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if tables == 0 and new is not None:
            check_private(path)
            self.key, intent = key.read()
            if intent.number > 0:
                raise FormatError(f"{path} is empty, but its key has been used. {RECOVERY}")
            self._create(new, {}, None, {})
        elif tables == 0 or version not in (1, _VERSION, _WITH_RUNS):
            raise FormatError(f"{path} is not a ledger, or one of another version")
        else:
            check_private(path)
            if version == 1:
                self._upgrade()
        self.key, self._intent = key.read()
        self._read()
        if self._number + 1 == self._intent.number:
            self._replay_pending()
        if self._number != self._intent.number:
            raise FormatError(
                f"ledger {path} and its key do not belong together: the ledger is at change "
                f"{self._number}, the key at {self._intent.number}. One of them is an older copy. "
                f"{RECOVERY}"
            )

    def move_to(self, period: int) -> None:
        """Make a period the current one, in memory only."""
        if self.charges.current is None or period > self.charges.current:
            # The reports of an earlier period are deleted: they say where somebody was.
            self.sticky = {}
        if period != self.charges.current:
            self.runs = {name: Run(run.public) for name, run in self.runs.items()}
        self.charges.move_to(period)

    def advance_to(self, now: float) -> int:
        """Move to the period of a clock reading, and return it.

        If the clock was ahead before, the correction is written to disk at once: the debt is
        repaid from then on, whether or not there is a report.
        """
        while self.charges.current is not None and self.charges.at(now) < self.charges.current:
            back = self.charges.at(now)
            self.move_to(back)
            self.commit(back, 0.0)
            self._reopen()
        period = self.charges.at(now)
        self.move_to(period)
        return period

    def commit(
        self,
        period: int,
        cost: float,
        at: tuple[str, int] | None = None,
        output: int = 0,
        run: tuple[str, Run] | None = None,
    ) -> None:
        """Write a change to disk: first the intent to the key file, then the ledger.

        Parameters
        ----------
        period, cost
            The current period, and the cost of a draw; 0 without one.
        at, output
            The mechanism and the place of the draw, and the reported output.
        run
            The name of a run, and its new state.
        """
        intent = Intent(self._number + 1, period, cost)
        self._key_file.write(self.key, intent)
        self._apply(intent)
        if at is not None:
            self.sticky[at] = output
        if run is not None:
            self.runs[run[0]] = run[1]
        self._write()
        self._file.execute("COMMIT")

    def _apply(self, intent: Intent) -> None:
        self.move_to(intent.period)
        if intent.cost > 0:
            self.charges.add(Fraction(repr(intent.cost)))
        self._number = intent.number

    def _replay_pending(self) -> None:
        """Apply the intent that an interrupted process left behind."""
        self._apply(self._intent)
        self._write()
        # Committed before the next intent: the key is never two changes ahead.
        self._file.execute("COMMIT")
        self._reopen()

    def _reopen(self) -> None:
        """Begin another transaction, and read and verify the ledger again."""
        self._file.execute("BEGIN IMMEDIATE")
        self.key, self._intent = self._key_file.read()
        self._read()
        if self._number != self._intent.number:
            raise FormatError(f"ledger {self._path} was changed by another process: try again")

    def _read(self) -> None:
        """Read all rows, and verify the MAC of each row and of all together."""
        self._version = self._user_version()
        (terms,) = self._rows("terms", "")
        budget, period_s, unit = terms
        self.terms = Terms(Fraction(budget), float(period_s), str(unit))
        if not 0 < self.terms.budget < 10**400 or period_s not in PERIODS.values():
            raise ValueError
        spent = self._rows("spent", "ORDER BY period")
        sticky = self._rows("sticky", "ORDER BY period, mechanism, place")
        if self._version == _WITH_RUNS:
            rows = self._rows("runs", "ORDER BY name")
            self.runs = {name: Run(public, stay) for name, public, stay in rows}
        (state,) = self._rows("state", "", self._macs())
        self._number, current = int(state[0]), state[1]
        charges = {
            period: Charge(Fraction(epsilon), Fraction(carried), reports)
            for period, epsilon, carried, reports in spent
        }
        self.charges = Charges(self.terms.budget, self.terms.period_s, charges, current)
        self.sticky = {
            (mechanism, place): output
            for period, mechanism, place, output in sticky
            if period == current
        }

    def _write(self) -> None:
        """Write the changed rows and their MACs."""
        for period in sorted(self.charges.changed):
            row = self.charges.rows[period]
            self._put("spent", (period, str(row.epsilon), str(row.carried), row.reports))
        self.charges.changed.clear()
        self._file.execute("DELETE FROM sticky")
        for (mechanism, place), output in self.sticky.items():
            self._put("sticky", (self.charges.current, mechanism, place, output))
        if self.runs and self._version == _VERSION:
            self._file.execute(f"CREATE TABLE runs ({_RUNS})")
            self._file.execute(f"PRAGMA user_version = {_WITH_RUNS}")
            self._version = _WITH_RUNS
        for name, run in self.runs.items():
            self._put("runs", (name, run.public, run.stay))
        self._file.execute("DELETE FROM state")
        self._put("state", (self._number, self.charges.current), self._macs())

    def _create(
        self,
        terms: Terms,
        rows: dict[int, Charge],
        current: int | None,
        sticky: dict[tuple[str, int], int],
    ) -> None:
        """Create the tables of a new ledger, at change 0."""
        for name, columns in _TABLES.items():
            self._file.execute(f"CREATE TABLE {name} ({columns})")
        self._file.execute(f"PRAGMA user_version = {_VERSION}")
        self._version = _VERSION
        self._put("terms", (str(terms.budget), terms.period_s, terms.unit))
        self.charges = Charges(terms.budget, terms.period_s, rows, current)
        self.charges.changed = set(rows)
        self.sticky, self._number = sticky, 0
        self._write()
        self._file.execute("COMMIT")
        self._file.execute("BEGIN IMMEDIATE")

    def _upgrade(self) -> None:
        """Convert a ledger of version 1, which had no key, with all its charges."""
        budget, period_s, unit = self._file.execute("SELECT * FROM terms").fetchone()
        usable = isinstance(budget, float) and 0 < budget < np.inf and isinstance(unit, str)
        if not usable or period_s not in PERIODS.values():
            raise FormatError(f"{self._path} has no budget or period that can be used")
        terms = Terms(Fraction(repr(budget)), period_s, unit)
        rows = {
            int(period): Charge(Fraction(epsilon), Fraction(0), int(reports))
            for period, epsilon, reports in self._file.execute("SELECT * FROM spent")
        }
        if any(row.epsilon < 0 for row in rows.values()):
            raise ValueError
        current = max(rows, default=None)
        sticky = {
            (str(mechanism), int(place)): int(output)
            for period, mechanism, place, output in self._file.execute("SELECT * FROM sticky")
            if period == current
        }
        if not self._key_file.exists():
            self._key_file.make()
        self.key, intent = self._key_file.read()
        if intent.number > 0:
            raise FormatError(
                f"{self._path} is an older copy: its key has been used with a later one. {RECOVERY}"
            )
        for name in ("terms", "spent", "sticky"):
            self._file.execute(f"DROP TABLE {name}")
        self._create(terms, rows, current, sticky)

    def _user_version(self) -> int:
        return int(self._file.execute("PRAGMA user_version").fetchone()[0])

    def _macs(self) -> str:
        """Return the MACs of all rows except the state, in order."""
        found = []
        tables = [("terms", "budget"), ("spent", "period"), ("sticky", "period, mechanism, place")]
        if self._version == _WITH_RUNS:
            tables.append(("runs", "name"))
        for name, order in tables:
            rows = self._file.execute(f"SELECT mac FROM {name} ORDER BY {order}")  # noqa: S608
            found.append([bytes(row[0]).hex() for row in rows])
        return json.dumps(found)

    def _rows(self, table: str, order: str, more: str = "") -> list[tuple[Any, ...]]:
        """Read a table, and verify the MAC of each row."""
        query = f"SELECT * FROM {table} {order}"  # noqa: S608  (constants of this file)
        rows = self._file.execute(query).fetchall()
        for *fields, stored_mac in rows:
            if not hmac.compare_digest(bytes(stored_mac), self._row_mac(table, fields, more)):
                raise self._tampered(table)
        if table in ("terms", "state") and len(rows) != 1:
            raise self._tampered(table)
        return [tuple(row[:-1]) for row in rows]

    def _put(self, table: str, fields: tuple[Any, ...], more: str = "") -> None:
        marks = ", ".join("?" * (len(fields) + 1))
        values = (*fields, self._row_mac(table, fields, more))
        put = f"INSERT OR REPLACE INTO {table} VALUES ({marks})"  # noqa: S608
        self._file.execute(put, values)

    def _row_mac(self, table: str, fields: Any, more: str) -> bytes:
        try:
            return mac(self.key, json.dumps([table, list(fields), more]).encode())
        except (TypeError, ValueError):
            raise self._tampered(table) from None

    def _tampered(self, table: str) -> InputError:
        return FormatError(
            f"ledger {self._path} was changed by something else than Whereish (table {table}), or "
            f"the key beside it belongs to another ledger. {RECOVERY}"
        )
