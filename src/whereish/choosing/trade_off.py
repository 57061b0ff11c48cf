"""The trade-off between privacy and quality: the optimal mechanism at many levels, as a table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.choosing.levels import Person, person_of
from whereish.errors import InputError
from whereish.limits import DILATION, TOLERANCE
from whereish.measures import adversary_error, quality_loss
from whereish.mechanisms import Mechanism, check_places
from whereish.places import Array, Immutable, Places, as_epsilon, as_whole, euclidean, readonly
from whereish.profiles import Profile
from whereish.units import km

POINTS = 20


@dataclass(frozen=True)
class TradeOffRow:
    """The optimal mechanism at one level, measured.

    Attributes
    ----------
    epsilon
        The level, per km (or per unit of the privacy metric).
    words
        What it hides: the distance within which reports are at most 2 times likelier.
    loss_km
        The expected quality loss.
    adversary_error_km
        The expected error of the best guess of an adversary who knows the prior.
    guess_success
        The probability that this adversary guesses the true place: the sum over reports z of the
        largest prior(x) k(x, z).
    gap
        The relative gap between the loss and its proved lower bound; None from a solver without a
        proof, which is exact to its tolerance.
    seconds
        The time of the solve.
    """

    epsilon: float
    words: str
    loss_km: float
    adversary_error_km: float
    guess_success: float
    gap: float | None
    seconds: float


@dataclass(frozen=True, eq=False)
class TradeOff(Immutable):
    """The loss and the privacy of the optimal mechanism at several levels, most private first.

    Attributes
    ----------
    rows
        One `TradeOffRow` for each level.
    constant_loss_km, blind_error_km, blind_success
        The limits at epsilon 0: the loss of the best constant report, and the error and success of
        the best guess without a report.
    seconds
        The time of all solves together, as it passed.
    mechanisms
        The mechanisms, each checked and certified.
    """

    rows: tuple[TradeOffRow, ...]
    constant_loss_km: float
    blind_error_km: float
    blind_success: float
    seconds: float
    mechanisms: tuple[Mechanism, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TradeOffRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"TradeOff({len(self)} levels)"

    def column(self, name: str) -> Array:
        """Return a column as an array, such as "loss_km"; a missing gap is NaN."""
        if name not in TradeOffRow.__dataclass_fields__ or name == "words":
            known = [one for one in TradeOffRow.__dataclass_fields__ if one != "words"]
            raise InputError(f"column must be one of {', '.join(known)}, got {name!r:.40}")
        values = [getattr(row, name) for row in self.rows]
        return readonly(np.array([np.nan if one is None else one for one in values]))


def trade_off(
    places: Places | Profile,
    prior: ArrayLike | None = None,
    epsilons: ArrayLike | None = None,
    *,
    dilation: float = DILATION,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], object] | None = None,
) -> TradeOff:
    """Build the optimal mechanism at many privacy levels, and measure each.

    Distances and spanner are shared, and each core solves another level.

    Parameters
    ----------
    places, prior
        As in `optimal`; or a `Profile`, and no prior: ``trade_off(profile)``.
    epsilons
        The levels, different and positive; by default 20 that span the useful ones (see
        `usual_levels`).
    progress
        Called with the number of levels that are done, and of all.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> table = wh.trade_off(places, [0.2, 0.5, 0.3], [0.5, 1, 2])
    >>> [round(row.loss_km, 2) for row in table]
    [0.5, 0.43, 0.19]
    """
    person = person_of(places, prior, dilation, privacy_metric, quality_metric, outputs, tolerance)
    levels = usual_levels(person.setting.inputs) if epsilons is None else _levels(epsilons)
    start = time.perf_counter()
    found = person.at_each(levels, progress)
    seconds = time.perf_counter() - start
    blind = euclidean(person.setting.inputs)
    return TradeOff(
        tuple(_row(person, one) for one in found),
        person.constant_loss,
        float((person.prior @ blind).min()),
        float(person.prior.max()),
        seconds,
        tuple(found),
    )


def usual_levels(places: Places, points: int = POINTS) -> list[float]:
    """Return levels from one that hides most of the area to one that hides little.

    At the first, reports are at most 2 times likelier across half of the area; at the last, 100
    times between a place and its nearest neighbour (the median of them).

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> [round(level, 2) for level in wh.usual_levels(places, points=3)]
    [0.69, 1.79, 4.61]
    """
    check_places(places)
    as_whole("points", points, 2)
    distances = euclidean(places)
    nearest = float(np.median(np.sort(distances, axis=1)[:, 1]))
    wide = float(distances.max()) / 2
    low = math.log(2) / wide
    high = max(math.log(100) / nearest, 2 * low)
    return [float(level) for level in np.geomspace(low, high, points)]


def _levels(epsilons: ArrayLike) -> list[float]:
    values = np.atleast_1d(np.asarray(epsilons, dtype=object))
    if values.ndim != 1 or not len(values):
        raise InputError("epsilons must be a list of at least one privacy level")
    levels = sorted(as_epsilon(value) for value in values)
    if len(set(levels)) < len(levels):
        raise InputError("epsilons must be different numbers, and some are equal")
    return levels


def _row(person: Person, mechanism: Mechanism) -> TradeOffRow:
    level = float(mechanism.epsilon or 0.0)
    apart = math.log(2) / level
    where = km(apart) if mechanism.is_per_km else f"{apart:.3g} of the metric"
    joint = person.prior[:, None] * mechanism.matrix
    return TradeOffRow(
        level,
        f"at most 2 times likelier within {where}",
        quality_loss(mechanism, person.prior, person.setting.loss),
        adversary_error(mechanism, person.prior),
        float(joint.max(axis=0).sum()),
        mechanism.build.gap,
        float(mechanism.build.seconds or 0.0),
    )
