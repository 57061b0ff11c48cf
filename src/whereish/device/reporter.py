"""A reporter: what runs on somebody's device and decides what is told to others."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from whereish.device.ledger import Ledger
from whereish.errors import InputError, described
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import as_whole
from whereish.release import OUTSIDE, check_outside, snap


@dataclass(frozen=True)
class Report:
    """What may be told to others, and what it cost.

    Attributes
    ----------
    output
        The number of the reported place.
    xy_km, latlon
        Where that is.
    fresh
        False if it is this period's report for this place again: that costs nothing.
    cost, spent, budget
        Epsilon of this report, of this period so far, and what may be spent in a period.
    new_places_left
        How many more new places the budget of this period allows.
    period_ends
        When this period ends, in UTC: ``2026-11-17T00:00:00Z``.
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
    """Report where-ish somebody is, within a budget.

    k reports cost k epsilon, and independent reports of the same place can be averaged. So the same
    place gets the same report all through a period, and a new place is paid for from a budget
    that is kept in a file. That somebody has stayed, or moved, does show.

    Parameters
    ----------
    mechanism
        With an epsilon.
    ledger
        The file of the ledger, made when there is none.
    budget, period
        Epsilon that may be spent in an "hour", "day" or "week"; this or `new_places` is needed for
        a new ledger. By default a day.
    new_places
        How many new places may be reported in a period, instead of a budget: exactly so many times
        the mechanism's epsilon, as decimal numbers.
    outside
        "error" or "nearest", for points outside the area of the places.

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
        mechanism: Mechanism,
        ledger: str | Path,
        budget: float | None = None,
        period: str | None = None,
        *,
        new_places: int | None = None,
        outside: str = "error",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(mechanism, Mechanism) or mechanism.epsilon is None:
            raise InputError(
                f"a Reporter needs a mechanism with an epsilon, got {described(mechanism)}"
            )
        if outside not in ("error", "nearest"):
            raise InputError(f'outside must be "error" or "nearest", got {described(outside)}')
        self.mechanism, self.outside, self.clock = mechanism, outside, clock
        unit = mechanism.epsilon_unit
        if not mechanism.is_per_km and mechanism.privacy_metric is not None:
            unit += " " + hashlib.sha256(mechanism.privacy_metric.tobytes()).hexdigest()[:16]
        self.ledger = Ledger(ledger, _budget(budget, new_places, mechanism.epsilon), period, unit)
        whole = mechanism.counts.tobytes() + mechanism.inputs.xy.tobytes()
        self._digest = hashlib.sha256(whole).hexdigest()

    def report(self, at: Any) -> Report:
        """Return what to tell about one place or point; see `Mechanism.sample`.

        Raises
        ------
        BudgetError
            If the budget of this period does not allow it. Nothing is reported.
        """
        snapped = snap(self.mechanism.inputs, at)
        if len(snapped.rows) != 1:
            raise InputError(f"at must be one place or point, got {len(snapped.rows)}")
        check_outside(snapped, self.mechanism.inputs, self.outside, OUTSIDE[:2])
        place, cost = int(snapped.rows[0]), float(self.mechanism.epsilon or 0.0)
        entry = self.ledger.spend(
            self._digest, place, cost, self.clock(),
            lambda: int(self.mechanism.sample(place).outputs[0]),
        )  # fmt: skip
        places = self.mechanism.outputs
        if not 0 <= entry.output < len(places):
            raise InputError("the ledger holds a report that this mechanism cannot have made")
        east, north = places.xy[entry.output].tolist()
        degrees = None if places.latlon is None else places.latlon[entry.output].tolist()
        return Report(
            entry.output,
            (east, north),
            None if degrees is None else (degrees[0], degrees[1]),
            entry.fresh,
            entry.cost,
            entry.spent,
            entry.budget,
            entry.new_places_left,
            _utc(entry.period_ends),
        )


def _budget(
    budget: float | None, new_places: int | None, epsilon: float
) -> float | Fraction | None:
    """Return what may be spent in a period: so many times epsilon, exactly, for new places."""
    if new_places is None:
        return budget
    if budget is not None:
        raise InputError("either budget or new_places must be given, got both")
    return as_whole("new_places", new_places, 1) * Fraction(repr(float(epsilon)))


def _utc(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return "far from now"
