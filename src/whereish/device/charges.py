"""The accounting of the privacy ledger: how much epsilon each period has been charged.

Every draw is charged to the period of the clock reading, and a period takes at most the budget.
A clock may be wrong, so three rules hold for every sequence of readings. The proof is in
docs/theory/repeated-reports.md.

- A reading that is earlier than the current period by at most `SLACK_S` counts as the current
  period.
- A reading that is earlier by more is accepted: the clock was ahead before. The charges of all
  later periods are then charged to this period and to those that follow, each up to the budget.
- A charge of a period is never removed, even if that period is still in the future.

So no charge is ever refunded. Each period is charged at most the budget for draws made in it, and
when a draw is made in period p, all draws so far cost at most budget * (p - first + 1), where first
is the earliest period that was ever charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SLACK_S = 31 * 86400.0  # a clock that goes back by more than this is accepted


@dataclass(frozen=True)
class Charge:
    """The charges of one period.

    Attributes
    ----------
    epsilon
        Of draws in this period, and of later periods that a wrong clock began too early.
    carried
        Charges of this period that are now charged to earlier ones. They still use its budget.
    reports
        The number of draws in this period.
    """

    epsilon: Fraction = Fraction(0)
    carried: Fraction = Fraction(0)
    reports: int = 0

    @property
    def total(self) -> Fraction:
        """The part of the budget of this period that is used."""
        return self.epsilon + self.carried


class Charges:
    """The charges of all periods, and the current one.

    Parameters
    ----------
    budget
        Epsilon per period.
    period_s
        The length of a period in seconds.
    rows, current
        From the file: a `Charge` for each period, and the period of the last draw.
    """

    def __init__(
        self, budget: Fraction, period_s: float, rows: dict[int, Charge], current: int | None
    ) -> None:
        self.budget, self.period_s = budget, period_s
        self.rows, self.current = dict(rows), current
        self.changed: set[int] = set()

    def at(self, now: float) -> int:
        """Return the number of the period that a clock reading counts for."""
        reading = int(now // self.period_s)
        if self.current is None or reading >= self.current:
            return reading
        ahead = (self.current - reading) * self.period_s
        return self.current if ahead <= SLACK_S else reading

    def left(self, period: int) -> Fraction:
        """Return the rest of the budget of a period."""
        return max(self.budget - self.rows.get(period, Charge()).total, Fraction(0))

    def first_affordable(self, price: Fraction, period: int) -> int:
        """Return the first period, from this one on, whose rest of the budget covers a price."""
        while self.left(period) < price <= self.budget:
            period += 1
        return period

    def move_to(self, period: int) -> None:
        """Make a period the current one; if it is earlier, carry the charges of later ones over."""
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
