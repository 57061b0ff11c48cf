"""Home and work: where somebody is in the hours of the night, and of the day from Monday to Friday.

A place x is the home if the person is there at night. On some nights the person is elsewhere, with
probability a. So the reports of one night have the probability

    (1 - a) product over t of L_t(x)  +  a product over t of sum_y p(y) L_t(y),

and nights are independent. Reports that repeat the one before count once.
"""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from whereish.attacks.estimate import Estimate, best_guesses
from whereish.attacks.evidence import Evidence
from whereish.attacks.sequences import log_sum
from whereish.errors import InputError
from whereish.lazy import pl
from whereish.places import Array, as_number, as_prior
from whereish.traces import check_zone

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Anchor:
    """A place where somebody is at certain hours.

    Attributes
    ----------
    name
        "home" or "work".
    begin, end
        From and to which hour on the clock.
    weekdays
        Whether only the days from Monday to Friday count.
    """

    name: str
    begin: int
    end: int
    weekdays: bool

    def days(self, times_s: Array, zone: str) -> tuple[NDArray[np.int32], Flags]:
        """Return the number of the day of each time, on the clock, and whether the time counts."""
        moments = pl.Series((np.asarray(times_s) * 1e6).astype(np.int64))
        clock = moments.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
        hour, day = clock.dt.hour().to_numpy(), clock.dt.date().cast(pl.Int32).to_numpy()
        inside = (hour >= self.begin) & (hour < self.end)
        if self.weekdays:
            inside &= clock.dt.weekday().to_numpy() <= 5
        return day, inside


HOME, WORK = Anchor("home", 0, 6, False), Anchor("work", 10, 16, True)
AWAY = 0.1


def find_anchor(
    evidence: Evidence,
    prior: Array,
    anchor: Anchor = HOME,
    *,
    zone: str = "UTC",
    away: float = AWAY,
) -> Estimate:
    """Guess the home (or the place of work) after each day with reports in its hours.

    Parameters
    ----------
    prior
        (n,) how likely each place is to be it, and where the person is otherwise.
    away
        Probability to be elsewhere on a day.

    Returns
    -------
    Estimate
        One row for each such day, at the time of its last report.

    Raises
    ------
    InputError
        If there is no report in the hours.
    """
    ZoneInfo(check_zone(zone))
    weights = as_prior(prior, len(evidence.places))
    if not 0 <= as_number("away", away, or_equal=True) < 1:
        raise InputError(f"away must be from 0 to below 1, got {away:g}")
    day, inside = anchor.days(evidence.times_s, zone)
    if not inside.any():
        raise InputError(
            f"reports must be between {anchor.begin} and {anchor.end} o'clock to find "
            f"{anchor.name}, and none is: give more reports, or the zone"
        )
    with np.errstate(divide="ignore"):
        log_prior, log_away, log_there = np.log(weights), np.log(away), np.log1p(-away)
    belief, rows, times = log_prior, [], []
    for number in np.unique(day[inside]):
        chosen = inside & (day == number)
        logs = evidence.log_likelihood[chosen & _counts(evidence, chosen)]
        elsewhere = log_sum((log_prior + logs).T).sum() if len(logs) else 0.0
        here = np.array([logs.sum(axis=0) + log_there, np.full(len(weights), elsewhere + log_away)])
        step = belief + log_sum(here)
        if np.isfinite(step.max()):
            belief = step - log_sum(step)
        rows.append(np.exp(belief))
        times.append(float(evidence.times_s[chosen][-1]))
    posterior = np.array(rows)
    return Estimate(
        evidence.places, np.array(times), posterior, best_guesses(posterior, evidence.places), 0.0
    )


def _counts(evidence: Evidence, chosen: Flags) -> Flags:
    """Return which reports count: drawn ones, and the first of a night (of an evening before)."""
    first = np.zeros(len(evidence), dtype=bool)
    first[np.flatnonzero(chosen)[:1]] = True
    return evidence.drawn | first
