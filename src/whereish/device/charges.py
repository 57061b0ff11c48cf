"""What has been charged to which period: the arithmetic of a ledger, without its file.

A draw is charged to the period of its clock reading, and a period takes at most the budget. Clocks
go wrong. Three rules hold for every sequence of readings, and docs/theory/repeated-reports.md has
the argument:

- A reading before the current period, by no more than `SLACK_S`, counts as the current period.
- A reading further back is believed: the clock was ahead before. What was charged to periods after
  it is charged to it and to those that follow, each filled up to the budget before the next.
- A period that was charged once stays charged, whether its time has come or not.

So nothing is ever given back: each period is charged at most the budget for draws made in it, and
whenever a draw is made in period p, all draws so far cost at most budget * (p - first + 1), where
first is the earliest period that was ever charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SLACK_S = 31 * 86400.0  # a clock this much back waits; one further back is believed


@dataclass(frozen=True)
class Charge:
    """What a period has been charged.

    Attributes
    ----------
    epsilon
        Draws made in it, and debts from periods that a wrong clock had begun too early.
    carried
        What was charged to it and is now charged to earlier periods. It still blocks this one.
    reports
        How many draws were made in it.
    """

    epsilon: Fraction = Fraction(0)
    carried: Fraction = Fraction(0)
    reports: int = 0

    @property
    def total(self) -> Fraction:
        """All that blocks the budget of this period."""
        return self.epsilon + self.carried


class Charges:
    """The charges of all periods, and the current one.

    Parameters
    ----------
    budget
        What a period takes.
    period_s
        Its length.
    rows, current
        What the file says: a `Charge` for each period, and the period of the last draw.
    """

    def __init__(
        self, budget: Fraction, period_s: float, rows: dict[int, Charge], current: int | None
    ) -> None:
        self.budget, self.period_s = budget, period_s
        self.rows, self.current = dict(rows), current
        self.changed: set[int] = set()

    def at(self, now: float) -> int:
        """Return the period that a reading of the clock belongs to."""
        reading = int(now // self.period_s)
        if self.current is None or reading >= self.current:
            return reading
        ahead = (self.current - reading) * self.period_s
        return self.current if ahead <= SLACK_S else reading

    def left(self, period: int) -> Fraction:
        """Return what a period still takes."""
        return max(self.budget - self.rows.get(period, Charge()).total, Fraction(0))

    def room_for(self, price: Fraction, period: int) -> int:
        """Return the first period from this one on that takes a price."""
        while self.left(period) < price <= self.budget:
            period += 1
        return period

    def move_to(self, period: int) -> None:
        """Make a period the current one; if it is an earlier one, carry over what came after."""
        before, self.current = self.current, period
        if before is None or period >= before:
            return
        debt = Fraction(0)
        for later in [number for number in self.rows if number > period]:
            row = self.rows[later]
            debt += row.epsilon
            self._set(later, Charge(Fraction(0), row.total, row.reports))
        while debt > 0:
            row = self.rows.get(period, Charge())
            part = min(debt, max(self.budget - row.epsilon, Fraction(0)))
            if part > 0:
                self._set(period, Charge(row.epsilon + part, row.carried, row.reports))
            debt, period = debt - part, period + 1

    def add(self, price: Fraction) -> None:
        """Charge a draw to the current period."""
        if self.current is None:
            raise ValueError("no period is current")
        row = self.rows.get(self.current, Charge())
        self._set(self.current, Charge(row.epsilon + price, row.carried, row.reports + 1))

    def _set(self, period: int, charge: Charge) -> None:
        self.rows[period] = charge
        self.changed.add(period)
