"""The movement model: a Markov chain on places, with transitions for each period of the day.

It is counted from traces in `movement.py`, and kept in a file by `movement_file.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike

from whereish.day_periods import as_hours, check_zone, period_of
from whereish.errors import InputError
from whereish.places import (
    Array,
    Immutable,
    Places,
    as_number,
    as_numbers,
    as_prior,
    readonly,
)

WEEK_S = 7 * 86400.0
_HOUR_S, _DAY_S = 3600, 86400
_SQUARINGS = 30  # a lazy chain of 2^30 days is at its limit
_KEPT_POWERS = 256
_ROWS_SUM = 1e-9


@dataclass(frozen=True, eq=False)
class MovementModel(Immutable):
    """A Markov chain on places, with a transition matrix for each period of the day.

    Attributes
    ----------
    places
        Where people may be.
    step_s
        The length of one step, in seconds.
    hours
        The hours of the day at which a period begins, increasing. The hours before the first
        belong to the last period.
    transitions
        (periods, n, n), read-only: transitions[p, x, y] is the probability to be at y a step
        after x, in period p.
    initial
        (periods, n), read-only: the probability to be at each place in a period.
    zone
        The time zone of the hours.
    prior
        (n,) the probability to be at each place at any time; if not given, the mean of `initial`
        over the hours of the day.
    """

    places: Places
    step_s: float = field(repr=False)
    hours: tuple[int, ...]
    transitions: Array = field(repr=False)
    initial: Array = field(repr=False)
    zone: str = "UTC"
    prior: Array = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.places, Places):
            raise InputError(f"places must be Places, got {type(self.places).__name__}")
        n = len(self.places)
        object.__setattr__(self, "hours", as_hours(self.hours))
        object.__setattr__(self, "step_s", as_step(self.step_s))
        check_zone(self.zone)
        for name, shape in (("transitions", (n, n)), ("initial", (n,))):
            rows = as_numbers(name, getattr(self, name), (len(self.hours), *shape))
            if (rows < 0).any() or (np.abs(rows.sum(axis=-1) - 1) > _ROWS_SUM).any():
                raise InputError(f"{name} must be non-negative, and every row must sum to 1")
            object.__setattr__(self, name, readonly(rows / rows.sum(axis=-1, keepdims=True)))
        ends = (*self.hours[1:], self.hours[0] + 24)
        lengths = np.subtract(ends, self.hours) / 24
        prior = lengths @ self.initial if np.size(self.prior) == 0 else self.prior
        object.__setattr__(self, "prior", readonly(as_prior(prior, n)))

    def __repr__(self) -> str:
        """Say how large the model is, but nothing of the places."""
        size = f"{len(self.places)} places, {len(self.hours)} periods of the day"
        return f"MovementModel({size}, steps of {self.step_s:g} s)"

    def period_at(self, time_s: float) -> int:
        """Return the number of the period of the day at a time, in seconds since 1970."""
        hour = int(self._seconds_of_day(time_s) // _HOUR_S)
        return int(period_of(self.hours, hour))

    def initial_at(self, time_s: float) -> Array:
        """Return the probability to be at each place, for a person of whom nothing is known."""
        return np.asarray(self.initial[self.period_at(time_s)])

    def transition(self, start_s: float, end_s: float) -> Array:
        """Return the (n, n) transition between two times, in seconds since 1970.

        It is the product of the steps in between, each of the period in which it begins. A part of
        a step, a share f, is (1 - f) I + f M. After more than a week, every row is the stationary
        distribution at the end.
        """
        start, end = (
            as_number("start_s", start_s, above=-1e12),
            as_number("end_s", end_s, above=-1e12),
        )
        if end < start:
            raise InputError("end_s must not be before start_s, and it is")
        if end - start > WEEK_S:
            return np.tile(self.stationary_at(end), (len(self.places), 1))
        product = np.eye(len(self.places))
        runs = self._runs(start, end)
        if len(runs) == 1 and runs[0][1] == int(runs[0][1]):
            return self._power(runs[0][0], int(runs[0][1]))
        for period, steps in runs:
            product = product @ self._power(period, int(steps))
            share = steps - int(steps)
            if share > 0:
                product = (1 - share) * product + share * (product @ self.transitions[period])
        return product

    def stationary_at(self, time_s: float) -> Array:
        """Return where the chain is in the long run, at the time of day of `time_s`."""
        midnight = time_s - self._seconds_of_day(time_s)
        return np.asarray(self._stationary @ self.transition(midnight, time_s))

    def reweighted(self, prior: ArrayLike, *, keep_stays: bool = False) -> MovementModel:
        """Return the model of a person with a prior: M_u(x, y) ~ M(x, y) prior_u(y) / prior(y).

        A place that nobody else visits keeps the weight of the rarest visited one. A row that would
        be zero becomes the prior of the person.

        Parameters
        ----------
        keep_stays
            Change only where people go: the probabilities to stay remain. For short steps, where a
            place that others rarely visit would otherwise end every stay elsewhere.
        """
        own = as_prior(prior, len(self.places))
        known = self.prior[self.prior > 0]
        weight = own / np.maximum(self.prior, known.min())
        rows = _normalised(self.transitions * weight, own)
        if keep_stays and len(own) > 1:
            stay = np.diagonal(self.transitions, axis1=1, axis2=2)[:, :, None]
            moves = self.transitions * weight * (1 - np.eye(len(own)))
            rows = _normalised(moves, self._elsewhere(own)) * (1 - stay) + stay * np.eye(len(own))
        return replace(
            self,
            transitions=rows,
            initial=_normalised(self.initial * weight, own),
            prior=own,
        )

    def with_stays(self, mean_stay_s: ArrayLike) -> MovementModel:
        """Return the model with this mean stay at every place, or (n,) one for each.

        The diagonal becomes 1 - step_s / mean_stay_s (0 for shorter stays). The rest of a row keeps
        its proportions.
        """
        n = len(self.places)
        scalar = np.ndim(mean_stay_s) == 0
        stays = as_numbers("mean_stay_s", np.full(n, mean_stay_s) if scalar else mean_stay_s, (n,))
        if (stays <= 0).any():
            raise InputError("mean_stay_s must be positive, in seconds, and a number in it is not")
        if n == 1:
            return self
        stay = np.maximum(0.0, 1 - self.step_s / stays)
        moves = _normalised(self.transitions * (1 - np.eye(n)), self._elsewhere(self.prior))
        return replace(self, transitions=moves * (1 - stay[:, None]) + np.diag(stay))

    def _elsewhere(self, prior: Array) -> Array:
        """Return where somebody goes who leaves a place, if only the prior is known, (n, n)."""
        n = len(prior)
        rows = (np.tile(prior, (n, 1)) + 1e-12) * (1 - np.eye(n))
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def _seconds_of_day(self, time_s: float) -> float:
        utc = datetime.fromtimestamp(time_s, UTC)
        wall = utc.astimezone(self._zone)
        return wall.hour * 3600 + wall.minute * 60 + wall.second + wall.microsecond / 1e6

    def _runs(self, start: float, end: float) -> list[tuple[int, float]]:
        """Return the periods of the day between two times, with the number of steps in each."""
        runs: list[tuple[int, float]] = []
        now = start
        while end - now > 1e-6:
            clock = self._seconds_of_day(now)
            begins = [hour * _HOUR_S for hour in self.hours]
            rest = min((begin - clock) % _DAY_S or _DAY_S for begin in begins)
            # Whole steps only, so that a step belongs to the period in which it begins.
            steps = min(np.ceil(rest / self.step_s - 1e-9), (end - now) / self.step_s)
            nearest = round(steps)
            steps = float(nearest if abs(steps - nearest) < 1e-9 else steps)
            if steps <= 0:
                break
            runs.append((self.period_at(now), steps))
            now += steps * self.step_s
        return runs

    def _power(self, period: int, steps: int) -> Array:
        if (period, steps) not in self._powers:
            if len(self._powers) >= _KEPT_POWERS:
                self._powers.clear()
            found = np.linalg.matrix_power(self.transitions[period], steps)
            self._powers[period, steps] = found / found.sum(axis=1, keepdims=True)
        return self._powers[period, steps]

    @cached_property
    def _powers(self) -> dict[tuple[int, int], Array]:
        return {}

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    @cached_property
    def _stationary(self) -> Array:
        """The distribution at midnight after very many days.

        The lazy chain (I + D) / 2 has the same stationary distributions as the day D, and no
        cycles. Where there are several, the prior decides between them.
        """
        noon = datetime(2026, 1, 5, 12, tzinfo=self._zone).timestamp()
        day = self.transition(noon - 12 * 3600, noon + 12 * 3600)
        lazy = (np.eye(len(day)) + day) / 2
        for _ in range(_SQUARINGS):
            lazy = lazy @ lazy
            lazy /= lazy.sum(axis=1, keepdims=True)
        return np.asarray(self.prior @ lazy)


def as_step(step_s: Any) -> float:
    """Check the length of a step: from a second to an hour."""
    step = as_number("step_s", step_s, unit="seconds")
    if not 1 <= step <= _HOUR_S:
        raise InputError(f"step_s must be from 1 to {_HOUR_S} seconds, got {step:g}")
    return step


def _normalised(rows: Array, otherwise: Array) -> Array:
    """Divide rows by their sums; a row of zeros becomes another distribution."""
    sums = rows.sum(axis=-1, keepdims=True)
    return np.where(sums > 0, rows / np.where(sums > 0, sums, 1), otherwise)
