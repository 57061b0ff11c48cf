"""Steps of a run of reports over time, as the ledger sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
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
        The largest epsilon of one stay in this period: what moving one stay by a distance d changes
        is at most `stay` times d.
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
    """The present stay: its place, what its reports cost, and the most that a stay has cost."""

    place: int = NOWHERE
    cost: Fraction = Fraction(0)
    largest: Fraction = Fraction(0)

    def after(self, place: int, cost: Fraction) -> Stay:
        """Return the stay after a report at a place."""
        total = cost + (self.cost if place == self.place else 0)
        return Stay(place, total, max(self.largest, total))

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps([self.place, str(self.cost), str(self.largest)])

    @classmethod
    def read(cls, text: str) -> Stay:
        """Return the stay of a text; an empty one is that of a new period."""
        if not text:
            return cls()
        place, cost, largest = json.loads(text)
        return cls(int(place), Fraction(cost), Fraction(largest))
