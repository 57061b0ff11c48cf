"""The columns of a profile's table that hold its time-dependent prior.

``prior_07h`` has, for each place, the probability to be there in the period that begins at 7
o'clock; ``time_zone`` names the zone of the clock. The columns add up to ``prior``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whereish.day_periods import DayPeriods
from whereish.errors import FormatError
from whereish.places import Array, normalised
from whereish.profiles.time_prior import TimeDependentPrior

ZONE = "time_zone"
HOUR_OF = {f"prior_{hour:02d}h": hour for hour in range(24)}


def time_columns(prior: TimeDependentPrior) -> dict[str, Any]:
    """Return the columns of a prior, by name."""
    names = [f"prior_{hour:02d}h" for hour in prior.periods.hours]
    columns: dict[str, Any] = dict(zip(names, prior.joint, strict=True))
    return columns | {ZONE: [prior.periods.zone] * prior.joint.shape[1]}


def read_time_prior(
    columns: Mapping[str, Array], zones: list[Any] | None, normalise: bool
) -> TimeDependentPrior | None:
    """Return the prior of the columns in `HOUR_OF`; None if there are none.

    Raises
    ------
    FormatError
        If the time zone is missing, or differs between rows.
    """
    if not columns:
        return None
    if zones is None or len(set(zones)) != 1 or not isinstance(zones[0], str):
        raise FormatError(f"{ZONE} must name the same time zone in every row")
    by_hour = sorted(columns.items(), key=lambda column: HOUR_OF[column[0]])
    joint = np.array([numbers for _, numbers in by_hour])
    if normalise:
        joint = normalised(joint.reshape(-1)).reshape(joint.shape)
    hours = tuple(HOUR_OF[name] for name, _ in by_hour)
    return TimeDependentPrior(joint, DayPeriods(hours, zones[0].strip()))
