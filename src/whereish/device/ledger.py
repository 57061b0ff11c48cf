"""The privacy ledger: a small SQLite file with the epsilon that reports have cost.

The cost of a report is on disk before the report is returned. A process that is killed in between
has paid for a report that nobody saw, never the reverse. Within a period a place always gets the
same report, and only the first one is charged: this prevents an adversary from averaging
independent reports (docs/theory/repeated-reports.md).

Reports over time (`Tracker`) are steps of a run: the ledger keeps the public state of the run. The
cost that a step may have is reserved before it; the cost that it had is on disk, with the new
state, before its report is returned.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from whereish.device.charges import Charges
from whereish.device.ledger_file import PERIODS, LedgerTransaction, Run, Terms
from whereish.device.ledger_key import RECOVERY, LedgerKey
from whereish.device.run_steps import Plan, Spent, Stay, spent_per_stay
from whereish.errors import BudgetError, FormatError, InputError, described
from whereish.places import as_number
from whereish.units import utc

_NO_BUDGET = (
    "budget must be given for a new ledger, got none: give it as new places per period, like "
    "new_places=3 (--new-places 3)"
)


@dataclass(frozen=True)
class Entry:
    """A report, and the state of the ledger after it.

    Attributes
    ----------
    output
        The index of the reported place.
    fresh
        Whether it was drawn now; False if this place was reported before in this period.
    cost, spent, budget
        Epsilon of this report, of this period so far, and of a whole period.
    new_places_left
        The number of new places that this period still allows, at the cost of this mechanism.
    period_ends
        The end of the period, in seconds since 1970.
    """

    output: int
    fresh: bool
    cost: float
    spent: float
    budget: float
    new_places_left: int = 0
    period_ends: float = 0.0


class Ledger:
    """A privacy ledger in a file, with its key in a second file. A missing one is created.

    Parameters
    ----------
    path
        The file; only its owner may read it. ``PATH.key`` authenticates it.
    budget
        Epsilon per period, exact: a Fraction, or a float that means its decimal representation.
        It is stored in the file, and needed only for a new ledger.
    period
        "hour", "day" or "week".
    unit
        The unit of epsilon: those of different metrics cannot be added. None accepts the unit of
        the ledger.
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
            self.path = Path(path).resolve()  # absolute, so never ":memory:"
        except (OSError, ValueError, RuntimeError) as wrong:
            raise InputError(f"ledger must be the name of a file, got {described(path)}") from wrong
        self._key = LedgerKey(self.path)
        self._identity: bytes | None = None
        period_s = None if period is None else PERIODS[period]
        new = None if exact is None else Terms(exact, period_s or PERIODS["day"], unit or "per km")
        with self._open(new, make=True) as ledger:
            self.terms = ledger.terms
            self._identity = hashlib.sha256(ledger.key).digest()
        self.budget, self.period_s, self.unit = (
            float(self.terms.budget), self.terms.period_s, self.terms.unit,
        )  # fmt: skip
        for name, given, kept in (
            ("budget", exact, self.terms.budget),
            ("period", period_s, self.period_s),
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
        """Return the report of a place in this period; draw and charge it if there is none yet.

        Parameters
        ----------
        mechanism
            The digest of the mechanism: each mechanism has its own reports.
        place
            The index of the true place.
        cost
            Epsilon of a draw.
        now
            Seconds since 1970. A clock that goes back does not refund a period.
        draw
            Returns the index of the reported place; called only if the budget allows it.

        Raises
        ------
        BudgetError
            If the cost exceeds the rest of the budget. Nothing is drawn.
        """
        now = _time(now)
        cost = as_number("cost", cost)
        price = Fraction(repr(cost))
        with self._open() as ledger:
            period = ledger.advance_to(now)
            charges = ledger.charges
            output, fresh = ledger.sticky.get((mechanism, place)), False
            if output is None:
                # Compared as exact fractions: rounding never allows one report more.
                if price > charges.left(period):
                    raise BudgetError(self._refusal(charges, period, cost, price))
                output, fresh = draw(), True
                # The cost is on disk, in both files, before the report is returned.
                ledger.commit(period, cost, (mechanism, place), output)
            left = charges.left(period)
            return Entry(
                output, fresh, cost if fresh else 0.0, float(charges.budget - left), self.budget,
                left // price, (period + 1) * self.period_s,
            )  # fmt: skip

    def step(self, run: str, now: float, plan: Callable[[str | None], Plan]) -> Spent:
        """Make a step of a run, if the budget covers what it may cost.

        Parameters
        ----------
        run
            The name of the run. Several runs in one ledger share its budget.
        now
            Seconds since 1970, see `spend`.
        plan
            Returns the plan for the public state of the run, which is None before its first step.

        Raises
        ------
        BudgetError
            If the reserve exceeds the rest of the budget. Nothing is tested or drawn.
        """
        now = _time(now)
        with self._open() as ledger:
            period = ledger.advance_to(now)
            charges, before = ledger.charges, ledger.runs.get(run)
            planned = plan(None if before is None else before.public)
            stay, cost = Stay.read("" if before is None else before.stay), 0.0
            if planned.reserve > 0:
                reserve = Fraction(repr(as_number("reserve", planned.reserve)))
                if reserve > charges.left(period):
                    raise BudgetError(self._refusal(charges, period, planned.reserve, reserve))
                made = planned.make()
                cost = as_number("cost", made.cost)
                if Fraction(repr(cost)) > reserve:
                    raise InputError("a step must not cost more than was reserved for it")
                stay = stay.after(made.place, Fraction(repr(cost)))
                # The cost is on disk, in both files, before the report is returned.
                ledger.commit(period, cost, run=(run, Run(made.public, stay.text())))
            spent = charges.budget - charges.left(period)
            return Spent(
                cost, float(spent), self.budget, float(_per_stay(ledger, spent)),
                (period + 1) * self.period_s,
            )  # fmt: skip

    def spent(self, now: float) -> float:
        """Return the epsilon that has been spent in the period of this time."""
        with self._open() as ledger:
            ledger.move_to(period := ledger.charges.at(_time(now)))
            return float(ledger.charges.budget - ledger.charges.left(period))

    def spent_per_stay(self, now: float) -> float | None:
        """Return the most epsilon that the reports of one stay can have cost in this period.

        All reports in the ledger count: see `whereish.device.run_steps.spent_per_stay`. None
        without a tracker's run.
        """
        with self._open() as ledger:
            ledger.move_to(period := ledger.charges.at(_time(now)))
            spent = ledger.charges.budget - ledger.charges.left(period)
            return float(_per_stay(ledger, spent)) if ledger.runs else None

    def spent_per_sticky_stay(self, mechanism: str, cost: float, now: float) -> float:
        """Return the same for the sticky reports of a mechanism.

        A place is drawn once in a period, however long and often somebody stays there. If anything
        else is charged to the period, all of it may have been for the same stay.
        """
        price = Fraction(repr(as_number("cost", cost)))
        with self._open() as ledger:
            ledger.move_to(period := ledger.charges.at(_time(now)))
            spent = ledger.charges.budget - ledger.charges.left(period)
            draws = sum(name == mechanism for name, _ in ledger.sticky)
            return float(min(spent, price) if spent == draws * price else spent)

    def left(self, now: float, cost: float | None = None) -> tuple[float, int | None, float]:
        """Return the rest of the budget in the period of this time.

        Returns
        -------
        tuple
            Epsilon; the number of new places at this cost each, if one is given; and the end of
            the period, in seconds since 1970.
        """
        with self._open() as ledger:
            ledger.move_to(period := ledger.charges.at(_time(now)))
            left = ledger.charges.left(period)
            new = None if cost is None else left // Fraction(repr(as_number("cost", cost)))
            return float(left), new, (period + 1) * self.period_s

    def reset_clock(self, now: float) -> float:
        """Set the clock of the ledger back to this time, after a clock that was ahead.

        The charges of later periods are charged to this one and to those that follow it: nothing
        is refunded. It is needed for a clock that was ahead by up to 31 days; a larger difference
        is corrected without it.

        Returns
        -------
        float
            The time from which the budget allows a report: the start of a period, or `now`.
        """
        now = _time(now)
        with self._open() as ledger:
            charges, reading = ledger.charges, int(now // self.period_s)
            if charges.current is not None and reading < charges.current:
                ledger.move_to(reading)
                ledger.commit(reading, 0.0)
            period = charges.at(now)
            while charges.left(period) <= 0:
                period += 1
            return max(now, period * self.period_s)

    def _refusal(self, charges: Charges, period: int, cost: float, price: Fraction) -> str:
        left = float(charges.left(period))
        refusal = (
            f"no new place is left: one costs epsilon {cost:g}, and {left:g} of {self.budget:g} "
            f"is left in this period, {_when(period, self.period_s)}: nothing was reported"
        )
        if price > charges.budget:
            return f"{refusal}. This budget is less than one report costs: it allows none"
        later = charges.first_affordable(price, period)
        if later > period + 1:
            return (
                f"{refusal}. The ledger's clock was ahead, and what was spent then is paid back in "
                f"{later - period} periods, the last of {_when(later - 1, self.period_s)}"
            )
        return refusal

    @contextmanager
    def _open(self, new: Terms | None = None, make: bool = False) -> Iterator[LedgerTransaction]:
        """Open the file in a transaction, which is rolled back unless it is committed."""
        try:
            if make:
                self._create_file(new)
            elif self.path.stat().st_size == 0:
                raise FormatError(f"{self.path} is empty: it was a ledger once. {RECOVERY}")
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
            ledger = LedgerTransaction(file, self.path, self._key, new if make else None)
            if self._identity not in (None, hashlib.sha256(ledger.key).digest()):
                raise FormatError(f"{self.path} is another ledger than before. {RECOVERY}")
            yield ledger
        except sqlite3.Error as wrong:
            raise FormatError(f"ledger {self.path} cannot be used: {wrong}") from None
        except OSError as wrong:
            raise FormatError(f"ledger {self.path} cannot be used: {wrong.strerror}") from None
        except (ValueError, TypeError, ArithmeticError) as wrong:
            if isinstance(wrong, InputError):
                raise
            raise FormatError(f"ledger {self.path} holds values that no ledger has") from None
        finally:
            if file.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    file.execute("ROLLBACK")
            file.close()

    def _create_file(self, new: Terms | None) -> None:
        """Create the key and an empty file for a new ledger; refuse if one has been used here."""
        here = self.path.exists()
        if here and self.path.stat().st_size > 0:
            return
        if not here and not self._key.exists():
            if new is None:
                raise InputError(_NO_BUDGET)
            self._key.make()
        if not self._key.exists():
            raise FormatError(
                f"{self.path} is empty: it is no ledger, or was one once; delete it to begin "
                "a new one"
            )
        # With intent 0 nothing was ever spent: a process was killed before it made the ledger.
        if self._key.read()[1].number > 0:
            if self.path.exists() and self.path.stat().st_size > 0:
                return  # another process has made it since, and has spent
            state = "is empty" if here else "is gone"
            raise FormatError(
                f"ledger {self.path} {state}, but its key is here: it has been used. {RECOVERY}"
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


def _per_stay(ledger: LedgerTransaction, spent: Fraction) -> Fraction:
    return spent_per_stay((Stay.read(run.stay) for run in ledger.runs.values()), spent)


def _time(now: Any) -> float:
    now = as_number("the time", now, above=-1e15)
    if now > 1e15:
        raise InputError("the time must be seconds since 1970, got something far beyond")
    return float(now)


def _when(period: int, period_s: float) -> str:
    """Describe the end of a period, in UTC."""
    return f"which ends {utc((period + 1) * period_s) or 'far from now'}"
