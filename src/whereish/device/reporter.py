"""The reporter of a device: draws reports of the true location within a privacy budget."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.device.drawing import DeviceMechanism, draw_at
from whereish.device.ledger import Ledger
from whereish.errors import InputError, described
from whereish.everywhere import Everywhere
from whereish.everywhere.mechanism import points_of
from whereish.mechanisms.by_time import MechanismByTime
from whereish.places import Array, as_whole
from whereish.places.lattice import UNITS_PER_KM, to_units
from whereish.release import OUTSIDE, check_outside, snap
from whereish.units import utc

SQUARE_KM = 0.1  # GPS fixes of a person who stays are within it, or in a square beside it
_SQUARES = 2**20  # more than there are on an axis on each side of the origin: 8192 km


@dataclass(frozen=True)
class Report:
    """A report that may be sent to a service, and its cost.

    Attributes
    ----------
    output
        The index of the reported place.
    xy_km, latlon
        Its coordinates.
    fresh
        False if this place was reported before in this period: then the report costs nothing.
    cost, spent, budget
        Epsilon of this report, of this period so far, and of a whole period.
    new_places_left
        The number of new places that the budget of this period still allows.
    period_ends
        The end of this period in UTC: ``2026-11-17T00:00:00Z``.
    """

    output: int
    xy_km: tuple[float, float]
    latlon: tuple[float, float] | None
    fresh: bool
    cost: float
    spent: float
    budget: float
    new_places_left: int = 0
    period_ends: str = ""


class Reporter:
    """Draw reports of a true location, within a privacy budget.

    k reports cost k epsilon, and an adversary can average independent reports of the same place. So
    within a period a place always gets the same report, and the report of a new place is charged to
    a budget in a ledger file. The reports do show whether somebody has moved.

    For a mechanism with a guarantee for every point, a place is a square of 100 m: the first report
    from it is drawn at the point itself, and repeated for other points of the square. A point
    outside the rectangle of the lattice is moved onto it first.

    For mechanisms by time, the clock chooses the one that draws. A place that has a report keeps it
    until the budget's period ends, even if the next period of the day begins before.

    Parameters
    ----------
    mechanism
        A mechanism with an epsilon, between places or between all points; or a `MechanismByTime`.
    ledger
        The file of the ledger; a missing one is created.
    budget, period
        Epsilon per "hour", "day" (the default) or "week". A new ledger needs this or `new_places`.
    new_places
        The budget as a number of new places per period: exactly this many times the epsilon of the
        mechanism, in decimal arithmetic.
    outside
        "error" or "nearest", for points outside the area of the places. A mechanism with a
        guarantee for every point has no such area: it takes the default only.
    clock
        Returns the time in seconds since 1970.

    >>> import tempfile
    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reporter = Reporter(m, folder + "/ledger", new_places=2)
    ...     one, again = reporter.report(1), reporter.report(1)
    >>> (again.output == one.output, one.cost, again.cost, again.spent, again.new_places_left)
    (True, 1.0, 0.0, 1.0, 1)
    """

    def __init__(
        self,
        mechanism: DeviceMechanism,
        ledger: str | Path,
        budget: float | Fraction | None = None,
        period: str | None = None,
        *,
        new_places: int | None = None,
        outside: str = "error",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(mechanism, DeviceMechanism) or mechanism.epsilon is None:
            raise InputError(
                f"a Reporter needs a mechanism with an epsilon, got {described(mechanism)}"
            )
        if outside not in ("error", "nearest"):
            raise InputError(f'outside must be "error" or "nearest", got {described(outside)}')
        self.mechanism, self.outside, self.clock = mechanism, outside, clock
        unit = mechanism.epsilon_unit
        if isinstance(mechanism, Everywhere):
            check_no_policy(outside)
        elif not mechanism.is_per_km and mechanism.privacy_metric is not None:
            unit += " " + hashlib.sha256(mechanism.privacy_metric.tobytes()).hexdigest()[:16]
        self.ledger = Ledger(ledger, _budget(budget, new_places, mechanism.epsilon), period, unit)
        self.digest = digest_of(mechanism)

    def report(self, at: Any) -> Report:
        """Return the report of one place or point; see `Mechanism.sample` for `at`.

        Raises
        ------
        BudgetError
            If the budget of this period does not allow it. Nothing is reported.
        """
        place, true = self.locate(at)
        cost, now = float(self.mechanism.epsilon or 0.0), self.clock()
        entry = self.ledger.spend(
            self.digest, place, cost, now,
            lambda: int(draw_at(self.mechanism, true, now).outputs[0]),
        )  # fmt: skip
        places = self.mechanism.outputs
        if not 0 <= entry.output < len(places):
            raise InputError("the ledger holds a report that this mechanism cannot have made")
        east, north = places.xy[entry.output].tolist()
        degrees = None if places.latlon is None else places.latlon[entry.output].tolist()
        return Report(
            entry.output, (east, north), None if degrees is None else (degrees[0], degrees[1]),
            entry.fresh, entry.cost, entry.spent, entry.budget, entry.new_places_left,
            utc(entry.period_ends, "%Y-%m-%dT%H:%M:%SZ") or "far from now",
        )  # fmt: skip

    def locate(self, at: Any) -> tuple[int, Any]:
        """Return the number of the place of a report, and the location that it is drawn from."""
        if isinstance(self.mechanism, Everywhere):
            points, _ = points_of(self.mechanism.outputs, at)
            if len(points) != 1:
                raise InputError(f"at must be one point, got {len(points)}")
            return square_of(self.mechanism.projected(points)), np.asarray(at).reshape(2)
        snapped = snap(self.mechanism.inputs, at)
        if len(snapped.rows) != 1:
            raise InputError(f"at must be one place or point, got {len(snapped.rows)}")
        check_outside(snapped, self.mechanism.inputs, self.outside, OUTSIDE[:2])
        place = int(snapped.rows[0])
        return place, place


def digest_of(mechanism: DeviceMechanism) -> str:
    """Return what a ledger knows a mechanism by."""
    if isinstance(mechanism, Everywhere | MechanismByTime):
        content = mechanism.identity()
    else:
        content = mechanism.counts.tobytes() + mechanism.inputs.xy.tobytes()
    return hashlib.sha256(content).hexdigest()


def square_of(point: Array) -> int:
    """Return the number of the square of 100 m that a point is in, (1, 2) km."""
    return int(squares_of(point)[0])


def squares_of(points: Array) -> NDArray[np.int64]:
    """Return the number of the square of 100 m that each point is in, (n, 2) km."""
    east, north = np.floor(to_units(points) / (SQUARE_KM * UNITS_PER_KM)).astype(np.int64).T
    return np.asarray((east + _SQUARES) * 2 * _SQUARES + north + _SQUARES)


def check_no_policy(outside: str) -> None:
    """Raise InputError for a policy where none is needed: the guarantee has no border."""
    if outside != "error":
        raise InputError(
            "outside must not be given for a mechanism with a guarantee for every point: a point "
            "outside the rectangle of its lattice is moved onto it, and the guarantee still holds"
        )


def _budget(
    budget: float | Fraction | None, new_places: int | None, epsilon: float
) -> float | Fraction | None:
    """Return the budget of a period; for a number of new places, exactly so many epsilons."""
    if new_places is None:
        return budget
    if budget is not None:
        raise InputError("either budget or new_places must be given, got both")
    return as_whole("new_places", new_places, 1) * Fraction(repr(float(epsilon)))
