"""(epsilon, delta) after many independent reports, beside the pure epsilon that adds up.

k independent reports cost k epsilon: that is the default everywhere, and it never fails. If it may
fail with a small probability delta, less epsilon is enough. The smallest one follows from the
privacy-loss distribution of a pair of places: how likely each value of log(k(x, z) / k(x', z)) is.
It is computed from the integers that are sampled, with Google's dp-accounting, and rounded against
us (pessimistic). See docs/theory/attacks.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError, described
from whereish.extras import require
from whereish.measures.audit import TOTAL
from whereish.places import Array, as_number, as_whole, euclidean

# Losses of one report are rounded up to a 2000th of the largest one, or so that at most 2^20 values
# are possible for all reports together.
_FINEST, _MOST_VALUES = 2000, 2**20
# Sums and logarithms in floating point: their error is added to the result, for each report.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Accounted:
    """What many independent reports reveal about a pair of places.

    Attributes
    ----------
    epsilon
        For every set S of sequences of reports, P(S | x) <= exp(epsilon) P(S | x') + delta, and the
        same with x and x' exchanged. It has no unit: it is for these two places.
    pure_epsilon
        The same for delta = 0: the sum over all reports.
    delta, reports
        As asked.
    pair
        The two places with the largest epsilon.
    pairs
        How many pairs were compared.
    """

    epsilon: float
    pure_epsilon: float
    delta: float
    reports: int
    pair: tuple[int, int]
    pairs: int


def accounted_epsilon(
    mechanism: Any,
    reports: int,
    delta: float,
    *,
    pair: tuple[int, int] | None = None,
    within_km: float | None = None,
) -> Accounted:
    """Return the epsilon of independent reports that may fail with probability delta.

    Parameters
    ----------
    mechanism
        A mechanism between places. Another one is first taken at some points:
        `wh.Mechanism(m.probabilities(points), places, m.outputs)`.
    reports
        The number of reports, all drawn at the same place.
    delta
        Above 0 and below 1, like 1e-6.
    pair
        Two places; by default the worst of all pairs.
    within_km
        Only pairs of places that are at most so far apart. The time grows with their number.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [0.1, 0]])
    >>> found = accounted_epsilon(wh.optimal(places, [0.5, 0.5], 1.0), 1000, 1e-6)
    >>> round(found.pure_epsilon), found.epsilon < 40
    (100, True)
    """
    counts = getattr(mechanism, "counts", None)
    if counts is None or not hasattr(mechanism, "inputs"):
        raise InputError(f"mechanism must be between places, got {type(mechanism).__name__}")
    times = as_whole("reports", reports)
    if not 0 < as_number("delta", delta) < 1:
        raise InputError(f"delta must be above 0 and below 1, got {delta:g}")
    chosen = _pairs(mechanism.inputs, pair, within_km)
    with np.errstate(divide="ignore"):
        logs = np.log(counts.astype(np.float64)) - math.log(TOTAL)
    found = [(*_of_pair(logs[a], logs[b], times, delta), (a, b)) for a, b in chosen]
    epsilon, _, worst = max(found)
    return Accounted(epsilon, max(pure for _, pure, _ in found), delta, times, worst, len(found))


def _pairs(
    places: Any, pair: tuple[int, int] | None, within_km: float | None
) -> list[tuple[int, int]]:
    n = len(places)
    if pair is not None:
        try:
            a, b = (int(place) for place in pair)
            fine = (a, b) == tuple(pair) and a != b and min(a, b) >= 0 and max(a, b) < n
        except (TypeError, ValueError):
            fine = False
        if not fine or within_km is not None:
            raise InputError(
                f"pair must be two different places from 0 to {n - 1}, without within_km, got "
                f"{described(pair)}"
            )
        return [(a, b)]
    reach = math.inf if within_km is None else as_number("within_km", within_km, unit="km")
    away = euclidean(places)
    found = [(a, b) for a in range(n) for b in range(a + 1, n) if away[a, b] <= reach]
    if not found:
        raise InputError("within_km must be at least the smallest distance between two places")
    return found


def _of_pair(one: Array, other: Array, times: int, delta: float) -> tuple[float, float]:
    """Return the epsilon of a pair for this delta, and for delta = 0."""
    losses = _losses(one, other)
    if not np.isfinite(losses).all():
        pure = math.inf
        largest = float(np.abs(losses[np.isfinite(losses)]).max(initial=0.0))
    else:
        largest = float(np.abs(losses).max(initial=0.0))
        pure = times * (largest + _ROUNDING)
    if largest == 0:
        return (0.0, 0.0) if pure != math.inf else (math.inf, math.inf)
    interval = max(largest / _FINEST, 2 * largest * times / _MOST_VALUES)
    pld = require("dp_accounting.pld.privacy_loss_distribution", "accounting with delta")
    both = [dict(enumerate(row.tolist())) for row in (one, other)]
    made = pld.from_two_probability_mass_functions(
        *both, pessimistic_estimate=True, value_discretization_interval=interval, symmetric=False
    )
    epsilon = float(made.self_compose(times).get_epsilon_for_delta(delta))
    return min(epsilon + times * _ROUNDING, pure), pure


def _losses(one: Array, other: Array) -> NDArray[np.float64]:
    """Return the log ratios of the outputs that one of two places can report."""
    there = np.isfinite(one) | np.isfinite(other)
    return np.asarray(one[there] - other[there])
