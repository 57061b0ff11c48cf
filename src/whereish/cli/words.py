"""Words and numbers for people: levels, lengths, sentences. Nothing here prints."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from whereish.errors import InputError
from whereish.places import MapMetric, as_epsilon, as_number
from whereish.units import km, length_km

if TYPE_CHECKING:
    from whereish.spec import BuildSpec

_BUDGET = re.compile(r"\s*(\d+)\s+(?:new\s+)?places?(?:\s+(?:a|an|per|each|every)\s+(\w+))?\s*")


def privacy_level(epsilon: float | None, ratio: float | None, within: str | None) -> float:
    """Return epsilon per km from a number or from words.

    "Within 650 m, no report is more than 2 times likelier from one place than from another"
    is epsilon = ln(2) / 0.65 km: the paper's reading of 1.07 (Section 4.2).

    >>> round(privacy_level(None, 2.0, "650m"), 3)
    1.066
    """
    if epsilon is not None and (ratio is not None or within is not None):
        raise InputError("give the privacy level once: --epsilon, or --ratio with --within")
    if epsilon is not None:
        return as_epsilon(epsilon)
    if ratio is None or within is None:
        raise InputError("a privacy level is needed: --epsilon 1.07, or --ratio 2 --within 650m")
    return math.log(as_number("ratio", ratio, above=1)) / length_km(within)


def read_budget(
    text: str | None, new_places: int | None, period: str | None
) -> tuple[float | None, int | None, str | None]:
    """Read a budget: epsilon, or new places in words. Return epsilon, new places and the period.

    >>> read_budget("12 places a day", None, None)
    (None, 12, 'day')
    """
    if text is None:
        return None, new_places, period
    found = _BUDGET.fullmatch(text.lower())
    if found is None:
        try:
            return float(text), new_places, period
        except ValueError:
            raise InputError(
                f'budget must be epsilon, or words like "3 new places a day", got {text!r}'
            ) from None
    named = found[2]
    if new_places is not None or (named and period is not None and named != period):
        raise InputError(f"the budget must be given once, got {text!r} and other flags")
    return None, int(found[1]), named or period


def level_in_words(epsilon: float, metric: MapMetric | None = None) -> str:
    """Say what an epsilon means: per km, or per unit of a metric from a map."""
    apart = math.log(2) / epsilon
    if metric is not None and metric.words.is_km:
        return (
            f"epsilon {epsilon:.4g} {metric.words.epsilon_unit}: from two places {km(apart)} apart "
            "along the roads, no report is more than 2 times likelier from one than from the other"
        )
    if metric is not None:
        return (
            f"epsilon {epsilon:.4g} {metric.words.epsilon_unit}: around every place, the places "
            f"that together hold the mass {1 / epsilon**2:.3g} or more are within distance "
            f"{apart:.3g}, where no report is more than 2 times likelier from one than from the "
            "other (mass 1: what lies within 300 m in the middle of the map)"
        )
    return (
        f"epsilon {epsilon:.4g} per km: from two places {km(apart)} apart, no report is more than "
        f"2 times likelier from one than from the other ({km(2 * apart)}: 4 times)"
    )


def metric_of(spec: BuildSpec) -> MapMetric | None:
    """Return the metric of a build, if that was made from a map."""
    return spec.privacy_metric if isinstance(spec.privacy_metric, MapMetric) else None


def saved(loss: float, other: float) -> str:
    """Say how a loss compares with another.

    >>> saved(0.7, 1.4)
    'half as far off'
    >>> saved(0.9, 1.0)
    '10% closer'
    """
    if other <= 0 or loss > other * 0.995:
        return "no closer"
    ratio = other / loss if loss > 0 else math.inf
    if 1.9 <= ratio <= 2.1:
        return "half as far off"
    if ratio > 2.1:
        return f"{ratio:.1f} times closer" if ratio < 1000 else "far closer"
    return f"{1 - loss / other:.0%} closer"
