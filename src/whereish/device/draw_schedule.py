"""The mechanisms of the draws of a period: which one is used follows from the number of the draw.

A constant epsilon must be small enough for the day with the most draws. Tapered draws begin with
more and end with less, so days with few draws have better reports, at the same budget. Each
mechanism is built, rounded to integers and audited at its own epsilon, like any other. The number
of a draw is public: it follows from the times and from earlier draws (docs/proofs/traces.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.device.charges import SLACK_S
from whereish.device.drawing import DeviceMechanism
from whereish.errors import InputError, described
from whereish.everywhere import Everywhere
from whereish.places import Array, as_number, as_numbers, as_whole

NO_PERIOD = -(1 << 62)  # no draw yet
_DECIMALS = 6
_MOST_LATER = 999

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DrawSchedule:
    """The mechanism of each draw of a period.

    Attributes
    ----------
    mechanisms
        Of the first draw of a period, of the second one, and so on. The last one also makes all
        draws after it. They have the same places and the same metric; their epsilons may differ.
    period_s
        The length of a period in seconds.
    """

    mechanisms: tuple[DeviceMechanism, ...]
    period_s: float

    @classmethod
    def of(
        cls, first: DeviceMechanism, later: Sequence[DeviceMechanism], period_s: float
    ) -> DrawSchedule:
        """Return the schedule of some mechanisms, if their draws can be in one run."""
        if isinstance(later, str) or not isinstance(later, Sequence):
            raise InputError(f"later must be a list of mechanisms, got {described(later)}")
        if len(later) > _MOST_LATER:
            raise InputError(
                f"later must be at most {_MOST_LATER} mechanisms, got {len(later)}: the last one "
                "makes all draws after it"
            )
        for number, other in enumerate(later):
            if not isinstance(other, DeviceMechanism) or other.epsilon is None:
                raise InputError(
                    f"later must be mechanisms with an epsilon, got {type(other).__name__} at "
                    f"{number + 1}"
                )
            _check_same_places(first, other)
        return cls((first, *later), float(as_number("period", period_s)))

    def __len__(self) -> int:
        """Return the number of mechanisms."""
        return len(self.mechanisms)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Of the mechanisms, in their order."""
        return tuple(float(one.epsilon or math.inf) for one in self.mechanisms)

    def budget_of(self, draws: int) -> Fraction:
        """Return what the first draws of a period cost together, in decimal arithmetic."""
        return budget_of(self.epsilons, draws)

    def made_before(self, made: Whole, last: Whole, times: Array) -> tuple[Whole, Whole]:
        """Return how many draws were made before in the period of each time, and its number.

        A clock that goes back by up to 31 days does not begin another period, as in the ledger.

        Parameters
        ----------
        made, last
            (n,) the number of draws in the period of the last draw, and the number of that period.
        """
        reading = np.floor(np.asarray(times) / self.period_s).astype(np.int64)
        behind = (last - reading) * self.period_s
        same = (last != NO_PERIOD) & (behind >= 0) & (behind <= SLACK_S)
        return np.where(same, made, 0), np.where(same, last, reading)

    def level(self, made: Whole) -> Whole:
        """Return the number of the mechanism of the next draw, after so many in the period."""
        return np.asarray(np.minimum(made, len(self) - 1))


def budget_of(epsilons: Sequence[float], draws: int) -> Fraction:
    """Return what the first draws of a period cost together; the last epsilon is repeated.

    >>> float(budget_of([1.07, 0.5], 3))
    2.07
    """
    count = as_whole("new_places", draws, 1)
    exact = [Fraction(repr(float(one))) for one in epsilons]
    return sum(exact[:count], Fraction(0)) + max(0, count - len(exact)) * exact[-1]


def tapered_epsilons(
    budget: float, shares: ArrayLike, decimals: int | None = _DECIMALS
) -> tuple[float, ...]:
    """Return the epsilons of the draws of a period, for the smallest mean error within a budget.

    Let w_k be the share of the reports that draw k serves: those after it and before draw k + 1.
    The mean error of a draw of epsilon e_k is about proportional to 1 / e_k (for planar Laplace
    noise it is 2 / e_k). The sum of w_k / e_k is smallest, for a sum of the e_k that is the budget,
    if e_k is proportional to the root of w_k.

    Parameters
    ----------
    budget
        Epsilon of a period.
    shares
        w_1, w_2, ...: positive. They must be counted from other people, or be a guess: a function
        of the person's own days would reveal them. They need not have the sum 1.
    decimals
        Round down to so many decimals, so that the exact sum is within the budget. None does not
        round.

    >>> tapered_epsilons(10.0, [0.75, 0.25], decimals=2)
    (6.33, 3.66)
    """
    weights = as_numbers("shares", np.asarray(shares), (None,))
    if len(weights) == 0 or not (weights > 0).all():
        raise InputError("shares must be positive numbers, at least one")
    roots = np.sqrt(weights)
    levels = as_number("budget", budget) * roots / roots.sum()
    if decimals is None:
        return tuple(levels.tolist())
    # A level of 1.07 may be a little less as a double. The exact sum decides in the end.
    whole = np.floor(levels * 10.0**decimals + 1e-3).astype(np.int64).tolist()
    limit = Fraction(repr(float(budget))) * 10**decimals
    whole[0] -= max(0, math.ceil(sum(whole) - limit))
    return tuple(float(Fraction(one, 10**decimals)) for one in whole)


def even_shares(draws: int) -> Array:
    """Return the shares for days of which nothing is known: each number of draws is as likely.

    If a day has 1, 2, ..., n draws with equal probability, draw k happens on n - k + 1 of n days.

    >>> even_shares(3).round(2).tolist()
    [0.5, 0.33, 0.17]
    """
    left = np.arange(as_whole("draws", draws, 1), 0, -1)
    return np.asarray(left / left.sum())


def _check_same_places(first: Any, other: Any) -> None:
    """Raise InputError unless draws of two mechanisms can be in one run."""
    if isinstance(first, Everywhere) != isinstance(other, Everywhere):
        raise InputError(
            "the mechanisms of later draws must have the guarantee of the first: for places, or "
            "for every point"
        )
    names = ("outputs",) if isinstance(first, Everywhere) else ("inputs", "outputs")
    for name in names:
        one, two = getattr(first, name), getattr(other, name)
        if not (one.same_as(two) and np.array_equal(one.xy, two.xy)):
            raise InputError(
                f"the mechanisms of later draws must have the {name} of the first, and one differs"
            )
    if first.epsilon_unit != other.epsilon_unit:
        raise InputError("the mechanisms of later draws must have the unit of the first")
    if not isinstance(first, Everywhere) and not np.array_equal(
        np.asarray(first.privacy_metric), np.asarray(other.privacy_metric)
    ):
        raise InputError("the mechanisms of later draws must have the metric of the first")
