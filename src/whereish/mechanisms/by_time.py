"""MechanismByTime: a mechanism for each period of the day, chosen by the clock.

People are at home at night and at work by day. A mechanism that is built for the prior of a period
loses less in that period. The choice depends on the time only, which is public, so every report has
the same epsilon as before (docs/proofs/by-time.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.day_periods import DayPeriods
from whereish.errors import InputError
from whereish.limits import DILATION, TOLERANCE
from whereish.measures import quality_loss
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.optimal import optimal_each
from whereish.places import Array, Immutable, Places
from whereish.profiles.time_prior import TimeDependentPrior
from whereish.release import Reports, snap


@dataclass(frozen=True, eq=False)
class MechanismByTime(Immutable):
    """Mechanisms on the same places with the same epsilon, one for each period of the day.

    At a time t it is the mechanism K of the period of t, whatever the location: for all places x,
    x', all reports z and every t, K(t)(x, z) <= exp(epsilon d(x, x')) K(t)(x', z).

    Attributes
    ----------
    mechanisms
        One for each period, with the same inputs, outputs, metric and epsilon.
    periods
        The periods of the day, in a time zone that is a constant.

    Raises
    ------
    InputError
        If a mechanism has no epsilon, or differs from the first one in more than its numbers.
    """

    mechanisms: tuple[Mechanism, ...] = field(repr=False)
    periods: DayPeriods

    def __post_init__(self) -> None:
        if not isinstance(self.periods, DayPeriods):
            raise InputError(f"periods must be DayPeriods, got {type(self.periods).__name__}")
        members = tuple(self.mechanisms)
        object.__setattr__(self, "mechanisms", members)
        if len(members) != len(self.periods):
            raise InputError(
                f"mechanisms must be one for each of {len(self.periods)} periods, got "
                f"{len(members)}"
            )
        for member in members:
            check_member(member)
            check_alike(members[0], member)

    def __repr__(self) -> str:
        n, m = len(self.inputs), len(self.outputs)
        level = f"epsilon={self.epsilon:g} {self.epsilon_unit}"
        hours = ", ".join(self.periods.names)
        return f"MechanismByTime({n} places -> {m} outputs, {level}, {hours} {self.periods.zone})"

    def at(self, time: float) -> Mechanism:
        """Return the mechanism of a time, in seconds since 1970. No location is looked at."""
        return self.mechanisms[self.periods.number_at(time)]

    def sample(
        self,
        at: Any,
        size: int | None = None,
        *,
        time: float | ArrayLike,
        outside: str = "error",
        rng: np.random.Generator | None = None,
    ) -> Reports:
        """Draw reports at a time; see `Mechanism.sample`.

        Parameters
        ----------
        time
            Of the report, in seconds since 1970; for several locations also one for each.

        >>> import whereish as wh
        >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
        >>> prior = wh.TimeDependentPrior.of(
        ...     [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], wh.DayPeriods((0, 12))
        ... )
        >>> m = wh.optimal_by_time(places, prior, epsilon=1.0)
        >>> len(m.sample([0, 1], time=[0, 50_000]))
        2
        """
        number = self.periods.numbers_at(time)
        if np.ndim(time) == 0:
            always: Mechanism = self.mechanisms[int(number[0])]
            return always.sample(at, size, outside=outside, rng=rng)
        if size is not None:
            raise InputError("size must not be given for several times")
        count = len(snap(self.inputs, at).rows)
        if count != len(number):
            raise InputError(f"time must be one for each location, got {len(number)} for {count}")
        if count == 1:
            only: Mechanism = self.mechanisms[int(number[0])]
            return only.sample(at, outside=outside, rng=rng)
        places = np.asarray(at)
        parts = [
            (where, self.mechanisms[p].sample(places[where], outside=outside, rng=rng))
            for p in range(len(self.periods))
            if len(where := np.flatnonzero(number == p))
        ]
        return _joined(parts, len(number))

    @property
    def inputs(self) -> Places:
        """The possible true places."""
        return self.mechanisms[0].inputs

    @property
    def outputs(self) -> Places:
        """The places that may be reported."""
        return self.mechanisms[0].outputs

    @property
    def epsilon(self) -> float:
        """The privacy level of every report."""
        epsilon = self.mechanisms[0].epsilon
        assert epsilon is not None  # noqa: S101  (checked when it was made)
        return epsilon

    @property
    def privacy_metric(self) -> Array | None:
        """(inputs, inputs) the metric that epsilon refers to."""
        return self.mechanisms[0].privacy_metric

    @property
    def is_per_km(self) -> bool:
        """Whether epsilon is per km of Euclidean distance, and not of another metric."""
        return self.mechanisms[0].is_per_km

    @property
    def epsilon_unit(self) -> str:
        """The unit of epsilon, in words."""
        return self.mechanisms[0].epsilon_unit

    @cached_property
    def _identity(self) -> bytes:
        found = hashlib.sha256(repr((self.periods.hours, self.periods.zone)).encode())
        found.update(self.inputs.xy.tobytes())
        for member in self.mechanisms:
            found.update(member.counts.tobytes())
        return found.digest()

    def identity(self) -> bytes:
        """Return what a ledger knows it by: periods, places and the counts of all mechanisms."""
        return self._identity


def optimal_by_time(
    places: Places,
    prior: TimeDependentPrior,
    epsilon: float,
    dilation: float = DILATION,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    *,
    tolerance: float = TOLERANCE,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> MechanismByTime:
    """Build the optimal mechanism for the prior of each period of the day.

    Each is that of `optimal` for the prior of its period. So at every time the expected loss is the
    least of all mechanisms with this epsilon, for a person with this prior.

    Parameters
    ----------
    prior
        The prior of each period, as `personal_profile` counts it (``profile.by_time``).
    dilation, privacy_metric, quality_metric, outputs, tolerance, threads, progress
        See `optimal_each`.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> prior = wh.TimeDependentPrior.of([[0.8, 0.1, 0.1], [0, 0, 1]], wh.DayPeriods((0, 12)))
    >>> wh.optimal_by_time(places, prior, epsilon=1.0).at(50_000).matrix[:, 2].tolist()
    [1.0, 1.0, 1.0]
    """
    if not isinstance(prior, TimeDependentPrior):
        raise InputError(f"prior must be a TimeDependentPrior, got {type(prior).__name__}")
    made = optimal_each(
        places, prior.priors, epsilon, dilation, privacy_metric, quality_metric, outputs,
        tolerance=tolerance, threads=threads, progress=progress,
    )  # fmt: skip
    return MechanismByTime(tuple(made), prior.periods)


def quality_loss_by_time(
    mechanism: MechanismByTime, prior: TimeDependentPrior, metric: ArrayLike | None = None
) -> float:
    """Return the expected quality loss of reports at all times, in km.

    It is the mean of the losses of the periods, each weighted by the share of reports in it.

    Parameters
    ----------
    metric
        See `quality_loss`.
    """
    check_same_periods(mechanism, prior)
    pairs = zip(mechanism.mechanisms, prior.priors, strict=True)
    each = [quality_loss(member, own, metric) for member, own in pairs]
    return float(np.dot(prior.weights, each))


def check_same_periods(mechanism: MechanismByTime, prior: TimeDependentPrior) -> None:
    """Raise InputError unless a prior is for the periods and the places of a mechanism."""
    if not isinstance(prior, TimeDependentPrior):
        raise InputError(f"prior must be a TimeDependentPrior, got {type(prior).__name__}")
    if prior.periods != mechanism.periods:
        raise InputError("prior must be for the periods of the mechanism, in its time zone")
    if prior.joint.shape[1] != len(mechanism.inputs):
        raise InputError(
            f"prior must be for {len(mechanism.inputs)} places, got {prior.joint.shape[1]}"
        )


def check_member(member: object) -> None:
    """Raise InputError unless a mechanism can be one of several by time."""
    if not isinstance(member, Mechanism):
        raise InputError(
            "mechanisms by time must be mechanisms between places, got "
            f"{type(member).__name__}: for a guarantee for every point, build one for the whole day"
        )
    if member.epsilon is None:
        raise InputError("mechanisms by time must have an epsilon, and one has none")


def check_not_by_time(mechanism: object, what: str) -> None:
    """Raise InputError where one mechanism is needed, and mechanisms by time were given."""
    if isinstance(mechanism, MechanismByTime):
        raise InputError(
            f"{what} needs one mechanism, and there is one for each period of the day: take that "
            "of a time, .at(time), or build one for the whole day"
        )


def check_alike(first: Mechanism, other: Mechanism) -> None:
    """Raise InputError unless two mechanisms have the same places, metric and epsilon."""
    for name in ("inputs", "outputs"):
        one, two = getattr(first, name), getattr(other, name)
        if not (one.same_as(two) and np.array_equal(one.xy, two.xy)):
            raise InputError(f"mechanisms by time must have the same {name}, and two differ")
    if not np.array_equal(np.asarray(first.privacy_metric), np.asarray(other.privacy_metric)):
        raise InputError("mechanisms by time must have the same metric, and two differ")
    if first.epsilon != other.epsilon:
        raise InputError("mechanisms by time must have the same epsilon, and two differ")


def _joined(parts: Sequence[tuple[NDArray[np.intp], Reports]], n: int) -> Reports:
    """Put the reports of several mechanisms into one, each at its rows."""
    first = parts[0][1]
    outputs, inside = np.zeros(n, dtype=first.outputs.dtype), np.zeros(n, dtype=bool)
    xy, snapped = np.zeros((n, 2)), np.zeros(n)
    degrees = None if first.latlon is None else np.zeros((n, 2))
    for rows, part in parts:
        outputs[rows], xy[rows] = part.outputs, part.xy
        snapped[rows], inside[rows] = part.snapped_km, part.outside
        if degrees is not None and part.latlon is not None:
            degrees[rows] = part.latlon
    return Reports(outputs, xy, degrees, snapped, inside, first.seeded)
