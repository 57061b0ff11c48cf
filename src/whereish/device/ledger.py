"""A ledger of what reports have cost: a small SQLite file that never refunds.

Before a report is handed over its cost is on the disk. Somebody who is killed in between has paid
for a report that nobody saw, never the other way round. In one period the same place gets the same
report again, for nothing: that is what defeats averaging (docs/theory/repeated-reports.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from whereish.device.ledger_file import PERIODS, Books, Terms
from whereish.device.ledger_key import WAY_OUT, LedgerKey
from whereish.errors import BudgetError, FormatError, InputError, described
from whereish.places import as_number

_NO_BUDGET = (
    "budget must be given for a new ledger, got none: ask for it in new places a period, like "
    "new_places=3 (--new-places 3)"
)


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
    new_places_left
        How many more places can be drawn for in this period, at this mechanism's cost.
    period_ends
        When the period ends, in seconds since 1970.
    """

    output: int
    fresh: bool
    cost: float
    spent: float
    budget: float
    new_places_left: int = 0
    period_ends: float = 0.0


class Ledger:
    """A ledger in a file, made when there is none, with its key in another beside it.

    Parameters
    ----------
    path
        The file; only its owner may read it. ``PATH.key`` authenticates it.
    budget
        Epsilon that may be spent in a period; a Fraction is kept as it is, a float as the decimal
        number that it is written as. Kept in the file: needed only the first time.
    period
        "hour", "day" or "week".
    unit
        What the epsilons are per: those of different metrics do not add up. None is what the
        ledger says.
    """

    def __init__(
        self,
        path: str | Path,
        budget: float | Fraction | None = None,
        period: str | None = None,
        unit: str | None = "per km",
    ) -> None:
        if not isinstance(path, str | Path):
            raise InputError(f"ledger must be the name of a file, got {described(path)}")
        if period is not None and period not in PERIODS:
            raise InputError(f"period must be one of {', '.join(PERIODS)}, got {described(period)}")
        exact = None if budget is None else _exact("budget", budget)
        try:
            self.path = Path(path).resolve()  # and never ":memory:"
        except (OSError, ValueError, RuntimeError) as wrong:
            raise InputError(f"ledger must be the name of a file, got {described(path)}") from wrong
        self._key = LedgerKey(self.path)
        self._identity: bytes | None = None
        asked = None if period is None else PERIODS[period]
        new = None if exact is None else Terms(exact, asked or PERIODS["day"], unit or "per km")
        with self._open(new, make=True) as books:
            self.terms = books.terms
            self._identity = hashlib.sha256(books.key).digest()
        self.budget, self.period_s, self.unit = (
            float(self.terms.budget), self.terms.period_s, self.terms.unit,
        )  # fmt: skip
        for name, given, kept in (
            ("budget", exact, self.terms.budget),
            ("period", asked, self.period_s),
            ("epsilon", unit, self.unit),
        ):
            if given is not None and given != kept:
                shown = [f"{float(x):.6g}" if isinstance(x, Fraction) else x for x in (kept, given)]
                raise InputError(
                    f"{name} must be that of the ledger, {shown[0]}, got {shown[1]}: a new ledger "
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
        now = _time(now)
        cost = as_number("cost", cost)
        price = Fraction(repr(cost))
        with self._open() as books:
            period = books.follow(now)
            charges = books.charges
            output, fresh = books.sticky.get((mechanism, place)), False
            if output is None:
                # Exactly, in the decimal numbers that people gave: no report is squeezed in.
                if price > charges.left(period):
                    raise BudgetError(self._refusal(books, period, cost, price))
                output, fresh = draw(), True
                # On return from here the cost is on the disk, twice; before it, nothing is told.
                books.commit(period, cost, (mechanism, place), output)
            left = charges.left(period)
            return Entry(
                output,
                fresh,
                cost if fresh else 0.0,
                float(charges.budget - left),
                self.budget,
                left // price,
                (period + 1) * self.period_s,
            )

    def spent(self, now: float) -> float:
        """Return what has been spent in the period of this time, or the last one seen."""
        now = _time(now)
        with self._open() as books:
            books.move_to(period := books.charges.at(now))
            return float(books.charges.budget - books.charges.left(period))

    def left(self, now: float, cost: float | None = None) -> tuple[float, int | None, float]:
        """Return what is left in the period of this time.

        Returns
        -------
        tuple
            Epsilon; the number of new places at this cost each, if one is given; and the end of
            the period, in seconds since 1970.
        """
        now = _time(now)
        with self._open() as books:
            period = books.charges.at(now)
            books.move_to(period)
            left = books.charges.left(period)
            new = None if cost is None else left // Fraction(repr(as_number("cost", cost)))
            return float(left), new, (period + 1) * self.period_s

    def reset_clock(self, now: float) -> float:
        """Believe that it is this time, although the ledger has seen later ones.

        What was spent in later periods is charged to this one and to those that follow it: nothing
        is given back. Needed for a clock that was ahead by up to 31 days; one that was further
        ahead is found out without.

        Returns
        -------
        float
            When there is something to spend again: the beginning of a period, or `now`.
        """
        now = _time(now)
        with self._open() as books:
            charges, reading = books.charges, int(now // self.period_s)
            if charges.current is not None and reading < charges.current:
                books.move_to(reading)
                books.commit(reading, 0.0)
            period = charges.at(now)
            while charges.left(period) <= 0:
                period += 1
            return max(now, period * self.period_s)

    def _refusal(self, books: Books, period: int, cost: float, price: Fraction) -> str:
        charges = books.charges
        left = float(charges.left(period))
        words = (
            f"no new place is left: one costs epsilon {cost:g}, and {left:g} of {self.budget:g} "
            f"is left in this period, {_when(period, self.period_s)}: nothing was reported"
        )
        if price > charges.budget:
            return f"{words}. This budget is less than one report costs: it allows none"
        later = charges.room_for(price, period)
        if later > period + 1:
            return (
                f"{words}. The ledger's clock was ahead, and what was spent then is paid back in "
                f"{later - period} periods, the last of {_when(later - 1, self.period_s)}"
            )
        return words

    @contextmanager
    def _open(self, new: Terms | None = None, make: bool = False) -> Iterator[Books]:
        """Open the file in a transaction; what is not committed never was."""
        try:
            if make:
                self._begin(new)
            elif self.path.stat().st_size == 0:
                raise FormatError(f"{self.path} is empty: it was a ledger once. {WAY_OUT}")
            before = self.path.stat()
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
            if not os.path.samestat(before, self.path.stat()):
                raise FormatError(f"{self.path} was replaced while it was opened: try again")
            books = Books(file, self.path, self._key, new if make else None)
            if self._identity not in (None, hashlib.sha256(books.key).digest()):
                raise FormatError(f"{self.path} is another ledger than it was. {WAY_OUT}")
            yield books
        except sqlite3.Error as wrong:
            raise FormatError(f"ledger {self.path} cannot be used: {wrong}") from None
        except OSError as wrong:
            raise FormatError(f"ledger {self.path} cannot be used: {wrong.strerror}") from None
        except (ValueError, TypeError, ArithmeticError) as wrong:
            if isinstance(wrong, InputError):
                raise
            raise FormatError(f"ledger {self.path} holds something that is no ledger's") from None
        finally:
            if file.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    file.execute("ROLLBACK")
            file.close()

    def _begin(self, new: Terms | None) -> None:
        """Make an empty file for a new ledger, and its key first; refuse to begin one anew."""
        here = self.path.exists()
        if here and self.path.stat().st_size > 0:
            return
        if not here and not self._key.exists():
            if new is None:
                raise InputError(_NO_BUDGET)
            self._key.make()
        if not self._key.exists():
            raise FormatError(
                f"{self.path} is empty: it is no ledger, or was one once; remove it to begin "
                "a new one"
            )
        # Intent 0: nothing was ever spent. Somebody was killed before the ledger was made.
        if self._key.read()[1].number > 0:
            state = "is empty" if here else "is gone"
            raise FormatError(
                f"ledger {self.path} {state}, but its key is here: it has been used. {WAY_OUT}"
            )
        if new is None:
            raise InputError(_NO_BUDGET)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _exact(name: str, value: float | Fraction) -> Fraction:
    if isinstance(value, Fraction):
        try:
            as_number(name, float(value))
        except OverflowError:
            raise InputError(f"{name} must be a number, got one that is too large") from None
        return value
    return Fraction(repr(as_number(name, value)))


def _time(now: Any) -> float:
    now = as_number("the time", now, above=-1e15)
    if now > 1e15:
        raise InputError("the time must be seconds since 1970, got something far beyond")
    return float(now)


def _when(period: int, period_s: float) -> str:
    """Say when a period ends: in UTC, as periods are."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        end = datetime.fromtimestamp((period + 1) * period_s, UTC)
        return f"which ends {end:%Y-%m-%d %H:%M} UTC"
    return "which ends far from now"
