"""Periods of the day: hours of the clock in a time zone, and the period of a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError, described
from whereish.lazy import pl

_MINUTE_S = 60
_EARLIEST_S, _LATEST_S = -6.2e10, 2.5e11  # years 6 and 9892: what Python has dates for


@dataclass(frozen=True)
class DayPeriods:
    """The periods that the hours of a day are divided into.

    The period of a time follows from the time alone: the zone is a constant. A device that took
    the zone of where it is would choose by its location.

    Attributes
    ----------
    hours
        The hours of the day at which a period begins, increasing. The hours before the first
        belong to the last period.
    zone
        The time zone of the hours.

    >>> periods = DayPeriods((7, 19), "Europe/Paris")
    >>> periods.names, periods.number_at(1_790_000_000)  # 16:13 in Paris
    (('7-19', '19-7'), 0)
    """

    hours: tuple[int, ...]
    zone: str = "UTC"

    def __post_init__(self) -> None:
        object.__setattr__(self, "hours", as_hours(self.hours))
        check_zone(self.zone)

    def __len__(self) -> int:
        """Return the number of periods."""
        return len(self.hours)

    @property
    def names(self) -> tuple[str, ...]:
        """From and to which hour each period goes: ("0-7", "7-24")."""
        ends = (*self.hours[1:], self.hours[0] or 24)
        return tuple(f"{begin}-{end}" for begin, end in zip(self.hours, ends, strict=True))

    @property
    def lengths(self) -> NDArray[np.float64]:
        """(periods,) the share of the day that each period takes."""
        ends = (*self.hours[1:], self.hours[0] + 24)
        return np.asarray(np.subtract(ends, self.hours) / 24)

    def number_at(self, time_s: float) -> int:
        """Return the number of the period at a time, in seconds since 1970."""
        return int(self.numbers_at([time_s])[0])

    def numbers_at(self, times_s: ArrayLike) -> NDArray[np.intp]:
        """Return the number of the period at each of (n,) times, in seconds since 1970.

        Raises
        ------
        InputError
            If a time is not a number, or is too far from now for a date.
        """
        try:
            times = np.asarray(times_s, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            times = np.array([np.nan])
        if not ((times > _EARLIEST_S) & (times < _LATEST_S)).all():
            raise InputError("time must be in seconds since 1970, before the year 9892")
        # Zones differ from UTC by whole minutes, so one look at the zone serves a minute.
        minutes, which = np.unique(np.floor(times / _MINUTE_S), return_inverse=True)
        clock = [
            datetime.fromtimestamp(minute * _MINUTE_S, UTC).astimezone(self._zone).hour
            for minute in minutes.tolist()
        ]
        return period_of(self.hours, np.array(clock, dtype=np.int64)[which])

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)


def as_hours(hours: Any) -> tuple[int, ...]:
    """Check the hours at which the periods of a day begin.

    >>> as_hours([7, 19])
    (7, 19)
    """
    try:
        whole = tuple(int(hour) for hour in hours)
        fine = whole == tuple(hours) and len(whole) > 0 and whole[0] >= 0 and whole[-1] < 24
        fine = fine and all(a < b for a, b in pairwise(whole))
    except (TypeError, ValueError, OverflowError):
        fine = False
    if not fine:
        raise InputError(
            f"hours must be hours of the day from 0 to 23, increasing, like (0, 7, 19), got "
            f"{described(hours)}"
        )
    return whole


def period_of(hours: tuple[int, ...], hour: Any) -> NDArray[np.intp]:
    """Return the number of the period of an hour of the day, or of many."""
    return np.asarray((np.searchsorted(hours, hour, side="right") - 1) % len(hours))


def check_zone(zone: str, name: str = "zone") -> str:
    """Check the name of a time zone."""
    try:
        ZoneInfo(zone)
        # Polars does not know all zones that this machine has.
        pl.Series([0]).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    except (KeyError, ValueError, OSError, TypeError, pl.exceptions.PolarsError):
        raise InputError(
            f"{name} must be the name of a time zone, like Europe/Paris or UTC, got "
            f"{described(zone)}"
        ) from None
    return zone
