"""Draws of a mechanism, which may be one for each period of the day: then the time chooses it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.everywhere import AnyMechanism
from whereish.mechanisms.by_time import MechanismByTime
from whereish.release import Reports

# What a device draws reports from.
DeviceMechanism = AnyMechanism | MechanismByTime


def mechanisms_of(mechanism: DeviceMechanism) -> tuple[AnyMechanism, ...]:
    """Return the mechanism of each period of the day; one that serves all day is alone."""
    return mechanism.mechanisms if isinstance(mechanism, MechanismByTime) else (mechanism,)


def number_at(mechanism: DeviceMechanism, time: float) -> int:
    """Return the number of the mechanism of a time among `mechanisms_of`, by the clock alone."""
    return mechanism.periods.number_at(time) if isinstance(mechanism, MechanismByTime) else 0


def draw_at(
    mechanism: DeviceMechanism,
    at: Any,
    times: ArrayLike,
    rng: np.random.Generator | None = None,
    **policy: Any,
) -> Reports:
    """Draw reports of locations at times, in seconds since 1970.

    Parameters
    ----------
    times
        One for all locations, or one for each.
    policy
        See ``outside`` of `Mechanism.sample`.
    """
    if isinstance(mechanism, MechanismByTime):
        return mechanism.sample(at, time=times, rng=rng, **policy)
    return mechanism.sample(at, rng=rng, **policy)
