"""Steps of a run of reports over time, as the ledger sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

NOWHERE = -1  # not the number of a place


@dataclass(frozen=True)
class Step:
    """A step of a run: what it cost, and the public state after it.

    Attributes
    ----------
    cost
        Epsilon.
    public
        The state of the run as JSON: a function of the reports so far.
    place
        The number of the true place: for the cost of the present stay.
    """

    cost: float
    public: str
    place: int


@dataclass(frozen=True)
class Plan:
    """A step of a run before it is made. It depends on the run and the clock only.

    Attributes
    ----------
    reserve
        The most epsilon that the step can cost. 0 for a step that looks at nothing and draws
        nothing: then nothing is written.
    make
        Makes the step. It is called only if the budget covers the reserve.
    """

    reserve: float
    make: Callable[[], Step]


@dataclass(frozen=True)
class Spent:
    """What has been spent in a period, in both readings, after a step.

    Attributes
    ----------
    cost
        Epsilon of the step.
    spent, budget
        Epsilon of the period so far, and of a whole period: what the period reveals about two
        sequences of locations is at most `spent` times their largest distance.
    stay
        The largest epsilon of one stay in this period, of all reports in the ledger: what moving
        one stay by a distance d changes is at most `stay` times d. See `spent_per_stay`.
    period_ends
        The end of the period, in seconds since 1970.
    """

    cost: float
    spent: float
    budget: float
    stay: float
    period_ends: float


@dataclass(frozen=True)
class Stay:
    """The present stay of a run.

    Attributes
    ----------
    place, cost
        The number of its place, and what its reports have cost.
    largest, covered
        The most that a stay of this run has cost in the period, and what all of them have cost.
    """

    place: int = NOWHERE
    cost: Fraction = Fraction(0)
    largest: Fraction = Fraction(0)
    covered: Fraction = Fraction(0)

    def after(self, place: int, cost: Fraction) -> Stay:
        """Return the stay after a report at a place."""
        total = cost + (self.cost if place == self.place else 0)
        return Stay(place, total, max(self.largest, total), self.covered + cost)

    def text(self) -> str:
        """Return it as JSON."""
        amounts = (self.cost, self.largest, self.covered)
        return json.dumps([self.place, *map(str, amounts)])

    @classmethod
    def read(cls, text: str) -> Stay:
        """Return the stay of a text; an empty one is that of a new period."""
        if not text:
            return cls()
        place, cost, largest, *covered = json.loads(text)
        # Older ledgers do not say what the stays cover: then the largest, which is too little.
        all_of_them = Fraction(covered[0] if covered else largest)
        return cls(int(place), Fraction(cost), Fraction(largest), all_of_them)


def spent_per_stay(stays: Iterable[Stay], spent: Fraction) -> Fraction:
    """Return the most epsilon that the reports of one stay can have cost in a period.

    At most one stay of each run is the same one, so their largest costs are added up. What was
    charged beside the runs, as by a `Reporter`, may all have been for this stay: it is added, too.

    Parameters
    ----------
    spent
        What all reports of the period have cost.

    >>> one, other = Stay(3, Fraction(1), Fraction(2), Fraction(5)), Stay()
    >>> spent_per_stay([one, other], Fraction(6))
    Fraction(3, 1)
    """
    known = list(stays)
    beside = max(spent - sum((stay.covered for stay in known), Fraction(0)), Fraction(0))
    return min(spent, sum((stay.largest for stay in known), beside))
