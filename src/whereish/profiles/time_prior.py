"""A time-dependent prior: how likely a person is to be at each place in each period of the day."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.day_periods import DayPeriods, period_of
from whereish.errors import InputError
from whereish.places import Array, Immutable, as_numbers, as_prior, normalised, readonly

_SAME = 1e-6
SMOOTHING = 200.0  # visits: without it, GeoLife lost more on days that were not counted


@dataclass(frozen=True, eq=False)
class TimeDependentPrior(Immutable):
    """A prior over places for each period of the day. It is personal: repr does not show it.

    Attributes
    ----------
    joint
        (periods, n), read-only: the probability that a report is made in period p and at place x.
        All numbers sum to 1.
    periods
        The periods of the day, in a time zone.

    >>> prior = TimeDependentPrior.of([[0.9, 0.1], [0.2, 0.8]], DayPeriods((0, 12)))
    >>> prior.weights.round(3).tolist(), prior.prior.round(3).tolist()
    ([0.5, 0.5], [0.55, 0.45])
    """

    joint: Array = field(repr=False)
    periods: DayPeriods

    def __post_init__(self) -> None:
        if not isinstance(self.periods, DayPeriods):
            raise InputError(f"periods must be DayPeriods, got {type(self.periods).__name__}")
        joint = as_numbers("joint", self.joint, (len(self.periods), None))
        as_prior(joint.reshape(-1), joint.size, "joint")
        object.__setattr__(self, "joint", readonly(joint))

    @classmethod
    def of(
        cls, priors: ArrayLike, periods: DayPeriods, weights: ArrayLike | None = None
    ) -> TimeDependentPrior:
        """Make one of a prior for each period.

        Parameters
        ----------
        priors
            (periods, n): each row is a prior.
        weights
            (periods,) the share of reports in each period; by default its share of the day.
        """
        rows = as_numbers("priors", priors, (len(periods), None))
        shares = periods.lengths if weights is None else as_prior(weights, len(rows), "weights")
        each = [as_prior(row, rows.shape[1], "priors") for row in rows]
        return cls(normalised(np.asarray(shares)[:, None] * each), periods)

    def __repr__(self) -> str:
        """Say how large it is, but nothing of a person."""
        return f"TimeDependentPrior({self.joint.shape[1]} places, {len(self.periods)} periods)"

    @cached_property
    def weights(self) -> Array:
        """(periods,) the probability that a report is made in each period, read-only."""
        return readonly(self.joint.sum(axis=1))

    @cached_property
    def prior(self) -> Array:
        """(n,) the prior of the whole day, read-only."""
        return readonly(self.joint.sum(axis=0))

    @cached_property
    def priors(self) -> Array:
        """(periods, n) the prior of each period, read-only.

        A period in which nothing was recorded has the prior of the whole day.
        """
        known = self.weights[:, None] > 0
        rows = self.joint / np.where(known, self.weights[:, None], 1)
        rows = np.where(known, rows, self.prior / self.prior.sum())
        return readonly(rows / rows.sum(axis=1, keepdims=True))


def prior_by_time(
    places: NDArray[np.int64],
    clock: NDArray[np.int64],
    n: int,
    periods: DayPeriods,
    smoothing: float = SMOOTHING,
) -> TimeDependentPrior:
    """Count a prior for each period of the day.

    Few visits say little about each period. So with N visits, the prior of every period is mixed
    with the share s / (N + s) of the prior of the whole day, for a smoothing of s visits. The
    periods still add up to the prior of the day.

    Parameters
    ----------
    places, clock
        Of each visit, the number of the place and the hour of the day.
    n
        The number of places.
    smoothing
        In visits.

    >>> at, clock = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 13])
    >>> prior_by_time(at, clock, 2, DayPeriods((0, 12)), smoothing=0).priors.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> prior_by_time(at, clock, 2, DayPeriods((0, 12)), smoothing=4).priors.tolist()
    [[0.875, 0.125], [0.375, 0.625]]
    """
    counts = np.zeros((len(periods), n))
    np.add.at(counts, (period_of(periods.hours, clock), places), 1)
    joint = counts / counts.sum()
    share = smoothing / (counts.sum() + smoothing)
    day = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return TimeDependentPrior((1 - share) * joint + share * day, periods)


def check_same_prior(by_time: TimeDependentPrior, prior: Array) -> None:
    """Raise InputError unless the periods of a prior add up to the prior of the day."""
    if not isinstance(by_time, TimeDependentPrior):
        raise InputError(f"by_time must be a TimeDependentPrior, got {type(by_time).__name__}")
    if by_time.prior.shape != prior.shape or np.abs(by_time.prior - prior).max() > _SAME:
        raise InputError("the priors of the periods must add up to the prior of the whole day")
