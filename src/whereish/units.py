"""Lengths, durations and times as text. Inside the library a length is a float in km.

Epsilon is per km. A quantity in any other unit says so in its name (``period_s``, ``moved_bytes``).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from whereish.errors import InputError, described

_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*([0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_LENGTH = re.compile(r"\s*([0-9.]+(?:e[-+]?[0-9]+)?)\s*(km|m)\s*", re.IGNORECASE)


def km(value: float) -> str:
    """Format a length that is given in km.

    >>> km(0.7244), km(1.5), km(0.0012), km(1e-9)
    ('724 m', '1.50 km', '1.2 m', '0 m')
    """
    if value >= 0.9995:
        return f"{value:.2f} km"
    metres = value * 1000
    if metres < 1e-3:
        return "0 m"
    return f"{metres:.0f} m" if metres >= 10 else f"{metres:.2g} m"


def percent(share: float) -> str:
    """Format a share that is small: a gap, an error.

    >>> percent(0.034), percent(0.00012), percent(1e-9)
    ('3.4 %', '0.012 %', '< 0.0001 %')
    """
    return "< 0.0001 %" if share < 1e-6 else f"{100 * share:.2g} %"


def hidden_in_words(epsilon: float) -> str:
    """Say what an epsilon per km hides.

    >>> hidden_in_words(1.07)
    'between points 648 m apart: a report is at most 2 times likelier from one of them'
    """
    apart = km(math.log(2) / epsilon)
    return f"between points {apart} apart: a report is at most 2 times likelier from one of them"


def length_km(text: str, name: str = "within") -> float:
    """Parse a length with its unit, m or km, and return it in km.

    Parameters
    ----------
    text
        A positive number and its unit.
    name
        The name of the option, for the message.

    >>> length_km("650m"), length_km("0.65 km")
    (0.65, 0.65)
    """
    match = _LENGTH.fullmatch(text)
    try:
        number = float(match.group(1)) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or not math.isfinite(number) or number <= 0:
        raise InputError(
            f"{name} must be a length with its unit, above 0, like 650m or 0.65km, got "
            f"{described(text)}"
        )
    return number / 1000 if match.group(2).lower() == "m" else number


def duration_s(text: str, name: str = "retention") -> float:
    """Parse a duration with its unit, and return it in seconds.

    >>> duration_s("90m"), duration_s("30 min"), duration_s("1d")
    (5400.0, 1800.0, 86400.0)
    """
    match = _DURATION.fullmatch(text)
    try:
        value = float(match[1]) * _SECONDS[match[2].lower()] if match else math.nan
    except (ValueError, KeyError):
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise InputError(
            f"{name} must be a duration with its unit, like 90m, 24h or 7d, got {text!r}"
        )
    return value


def duration(seconds: float) -> str:
    """Format a duration in the unit that a person would choose.

    >>> duration(0.2), duration(90), duration(600), duration(3 * 3600)
    ('a second', '90 seconds', '10 minutes', '3 hours')
    """
    if seconds < 1.5:
        return "a second"
    for size, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def utc(seconds: float, form: str = "%Y-%m-%d %H:%M UTC") -> str | None:
    """Format seconds since 1970 as a date and a time; None if no calendar has such a date.

    >>> utc(1.8e9), utc(1e18)
    ('2027-01-15 08:00 UTC', None)
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):{form}}"
    except (ValueError, OverflowError, OSError):
        return None
