"""The budgets of many people, in whole numbers: for tables, where a ledger for each is too much.

One unit is 2^-40 of a draw. A draw costs 2^40 units, a test its share rounded up, and the budget is
rounded down. So a budget of k draws is exactly k draws, and no sum of costs within the budget in
units is above the budget in epsilon.

If the draws of a period have different epsilons, one unit is the largest amount of which all of
them are multiples: epsilons are decimal numbers. So all their sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from whereish.device.policies import NOTHING, Flags, Whole
from whereish.errors import InputError
from whereish.places import Array

_DRAW = 1 << 40
_MOST = 1 << 62
_UNLIMITED = 10**6  # draws of a period for which there is room without a limit


@dataclass(frozen=True)
class Totals:
    """What the traces of a table have spent, and what was left out.

    Attributes
    ----------
    policy, period, budget
        Epsilon of each person and period; None without a limit.
    people, periods
        The number of people, and of periods of a person with a report.
    tests, draws
        How many there were.
    most_spent, mean_spent
        Epsilon of the person and period that spent most, and of the mean one. What the reports of
        such a period reveal about two traces is at most this times their largest distance.
    most_spent_per_stay
        The most epsilon that the reports of one stay have cost in a period.
    most_spent_by_person
        The most epsilon that one person has spent in all periods.
    over_budget
        The number of periods of a person over the budget: 0, unless that was asked for.
    published, left_out
        The number of rows with a location that are in the new table, and that are not because the
        budget was spent.
    mean_error_km
        The mean distance between the true locations and their reports.
    """

    policy: str
    period: str
    budget: float | None
    people: int
    periods: int
    tests: int
    draws: int
    most_spent: float
    mean_spent: float
    most_spent_per_stay: float
    most_spent_by_person: float
    over_budget: int
    published: int
    left_out: int
    mean_error_km: float | None


class PeopleBudgets:
    """What each of many people has spent in the current period, and the totals of all.

    Parameters
    ----------
    epsilons, test
        The cost of the first draw of a period, of the second one and so on; and of a test.
    budget
        Epsilon of each person and period; None without a limit.
    period_s
        The length of a period in seconds.
    exceed
        Whether reports beyond the budget are allowed.
    """

    def __init__(
        self,
        epsilons: Sequence[float],
        test: float,
        budget: Fraction | None,
        period_s: float,
        exceed: bool,
    ) -> None:
        draws = [Fraction(repr(float(epsilon))) for epsilon in epsilons]
        self.unit = draws[0] / _DRAW if len(draws) == 1 else _common_unit(draws)
        self.test_units = math.ceil(Fraction(repr(float(test))) / self.unit)
        self.budget, self.period_s, self.exceed = budget, period_s, exceed
        self.limit = _MOST if budget is None else int(budget // self.unit)
        if self.limit > _MOST and len(draws) == 1:
            raise InputError("budget must be at most four million draws a period, got more")
        limited = budget is not None and not exceed
        if (self.limit if limited else max(draws) / self.unit * _UNLIMITED) > _MOST:
            raise InputError(
                "the epsilons of the draws must have fewer digits, so that their sums are exact: "
                "round them to 6 decimals"
            )
        self._draw_units = np.array([int(draw / self.unit) for draw in draws], np.int64)
        self.count = 0
        nothing = np.zeros(0, dtype=np.int64)
        self._period, self._used, self._stay, self._place = (nothing,) * 4
        self._last, self._total = np.zeros(0), np.zeros(0)
        self._most = self._most_stay = self._over = self._periods = self._tests = self._draws = 0
        self._finished = 0  # units of all periods

    def grow(self, people: int) -> None:
        """Begin the budgets of further people, up to this number."""
        self.count = max(self.count, people)
        new = people - len(self._used)
        if new > 0:
            size = max(new, len(self._used))
            zeros, unknown = np.zeros(size, np.int64), np.full(size, NOTHING, np.int64)
            self._used, self._stay = (
                np.concatenate([kept, zeros]) for kept in (self._used, self._stay)
            )
            self._total = np.concatenate([self._total, np.zeros(size)])
            self._place = np.concatenate([self._place, unknown])
            self._period = np.concatenate([self._period, np.full(size, -_MOST)])
            self._last = np.concatenate([self._last, np.full(size, -np.inf)])

    def out_of_order(self, who: Whole, times: Array) -> int:
        """Return how many rows are before the row of the same person above them."""
        order = np.argsort(who, kind="stable")
        people, when = who[order], times[order]
        same = people[1:] == people[:-1]
        before = int((same & (when[1:] < when[:-1])).sum())
        first: Flags = np.concatenate([[True], ~same])[: len(people)]
        before += int((when[first] < self._last[people[first]]).sum())
        np.maximum.at(self._last, people, when)
        return before

    def advance(self, who: Whole, times: Array) -> Flags:
        """Begin a new period for different people whose time has come; return for whom."""
        period = np.floor(times / self.period_s).astype(np.int64)
        new: Flags = period > self._period[who]
        begun = who[new]
        self._period[begun] = period[new]
        self._used[begun] = self._stay[begun] = 0
        self._place[begun] = NOTHING
        return new

    def covered(self, who: Whole, tested: Flags, levels: Whole) -> Flags:
        """Return whose budget covers a draw of these numbers, behind a test or not."""
        if self.exceed:
            return np.ones(len(who), dtype=bool)
        reserve = self._draw_units[levels] + np.where(tested, self.test_units, 0)
        return np.asarray(self._used[who] + reserve <= self.limit)

    def charge(self, who: Whole, tested: Flags, fresh: Flags, place: Whole, levels: Whole) -> None:
        """Charge tests and draws of different people at their true places.

        Parameters
        ----------
        levels
            Which of the epsilons each draw has.
        """
        if len(who) == 0:
            return
        drawn = np.where(fresh, self._draw_units[levels], 0)
        cost = drawn + np.where(tested, self.test_units, 0)
        before = self._used[who]
        now = before + cost
        self._used[who] = now
        self._total[who] += cost
        stay = cost + np.where(self._place[who] == place, self._stay[who], 0)
        self._stay[who], self._place[who] = stay, place
        self._most = max(self._most, int(now.max()))
        self._most_stay = max(self._most_stay, int(stay.max()))
        self._over += int(((before <= self.limit) & (now > self.limit)).sum())
        self._periods += int((before == 0).sum())
        self._tests += int(tested.sum())
        self._draws += int(fresh.sum())
        self._finished += int(cost.sum())

    def totals(
        self, policy: str, period: str, published: int, left_out: int, mean_error_km: float | None
    ) -> Totals:
        """Return the totals of all people and periods."""
        return Totals(
            policy=policy,
            period=period,
            budget=None if self.budget is None else float(self.budget),
            people=self.count,
            periods=self._periods,
            tests=self._tests,
            draws=self._draws,
            most_spent=self._epsilon(self._most),
            mean_spent=self._epsilon(self._finished) / max(self._periods, 1),
            most_spent_per_stay=self._epsilon(self._most_stay),
            most_spent_by_person=float(self._total.max(initial=0) * float(self.unit)),
            over_budget=self._over,
            published=published,
            left_out=left_out,
            mean_error_km=mean_error_km,
        )

    def _epsilon(self, units: int) -> float:
        return float(units * self.unit)


def _common_unit(epsilons: Sequence[Fraction]) -> Fraction:
    """Return the largest number of which all are multiples.

    >>> _common_unit([Fraction("1.07"), Fraction("0.5")])
    Fraction(1, 100)
    """
    below = math.lcm(*(one.denominator for one in epsilons))
    return Fraction(math.gcd(*(int(one * below) for one in epsilons)), below)
