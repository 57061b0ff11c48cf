"""The flags of ``whereish profile``, checked and put together by what they decide."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whereish as wh
from whereish.day_periods import as_hours
from whereish.errors import InputError
from whereish.limits import MOST_PLACES
from whereish.places import as_whole
from whereish.profiles import (
    ALL_DAY,
    COUNTS,
    PAPER_CELL_KM,
    PERIODS,
    Regions,
    as_cell_km,
    as_period,
    check_smooth,
)
from whereish.traces import check_zone
from whereish.units import length_km

_WINDOW_DAYS, _AT_LEAST, _TOP = 90, 20, 30  # of a group, as in the paper
_CHOOSES_PLACES = ("places", "area", "radius", "cell", "h3", "districts", "group")


@dataclass(frozen=True)
class Counting:
    """Which points count, and how: hours of the day, window of days, hours or points, periods."""

    zone: str
    hours: tuple[int, int]
    window: int | None
    count: str | None

    by_time: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        zone: str | None,
        period: str,
        window: int | None,
        count: str | None,
        group: bool,
        by_time: str | None = None,
    ) -> Counting:
        """Check the flags."""
        hours = _period(period)
        begins = None if by_time is None else _begins(by_time)
        if begins is not None:
            for flag, given in (("period", hours != PERIODS[ALL_DAY]), ("group", group)):
                if given:
                    raise InputError(f"--{flag} must be left out with --by-time")
            if zone is None:
                raise InputError("--by-time needs a time zone: --zone Europe/Paris, for instance")
            if count == "points":
                raise InputError("--by-time needs points with times: leave --count points out")
        if zone is None and (hours != PERIODS[ALL_DAY] or (group and count != "points")):
            more = "; points without times need --count points" if group else ""
            raise InputError(
                f"periods of the day need a time zone: --zone Europe/Paris, for instance{more}"
            )
        if count not in (None, *COUNTS):
            raise InputError(f"count must be one of {', '.join(COUNTS)}, got {count!r}")
        return cls(check_zone(zone or "UTC"), hours, window, count, begins)


@dataclass(frozen=True)
class Area:
    """Where places are chosen: given regions, or cells around the middle of the traces."""

    regions: Regions | None
    cell_km: tuple[float, float] | None
    radius_km: float

    @property
    def is_endless(self) -> bool:
        """Whether the regions cover the earth, so that the radius must limit them."""
        return isinstance(self.regions, wh.H3Cells)

    @classmethod
    def of(
        cls, area: str | None, radius: str, cell: str | None, h3: int | None, districts: Path | None
    ) -> Area:
        """Check the flags."""
        if sum(asked is not None for asked in (h3, districts, cell)) > 1:
            raise InputError("regions are of one kind: --cell, --h3 or --districts")
        if area is not None and (h3 is not None or districts is not None):
            raise InputError("--area goes with square cells; --radius limits --h3")
        cell_km = None if cell is None else cell_of(cell)
        regions: Regions | None = None
        if h3 is not None:
            regions = wh.H3Cells(h3)
        elif districts is not None:
            regions = wh.Districts.read(districts)
        elif area is not None:
            regions = wh.SquareCells.over(*_corners(area), cell_km or PAPER_CELL_KM)
        return cls(regions, cell_km, length_km(radius, "radius"))


@dataclass(frozen=True)
class Group:
    """How the profiles of many people are made."""

    own_places: bool
    at_least: int
    top: int

    @classmethod
    def of(
        cls, group: str | None, own_places: bool, at_least: int | None, top: int | None
    ) -> Group | None:
        """Check the flags; None if the profile is one person's."""
        if group not in (None, "users"):
            raise InputError(f"group must be users, got {group!r}")
        for name, given in (("own-places", own_places or None), ("at-least", at_least),
                            ("top", top)):  # fmt: skip
            if given is not None and group is None:
                raise InputError(f"--{name} goes with --group users")
        as_whole("top", _TOP if top is None else top)
        least = _AT_LEAST if at_least is None else at_least
        return None if group is None else cls(own_places, least, top or _TOP)

    @staticmethod
    def window_days(window: int | None, points: bool) -> int | None:
        """Return how many days count: 90, unless the user says or there are no times."""
        return (_WINDOW_DAYS if window is None and not points else window) or None


def check_places(places: int, smooth: float) -> None:
    """Check how many places there are to be, and how far the prior is spread."""
    if as_whole("places", places, 2) > MOST_PLACES:
        raise InputError(f"places must be at most {MOST_PLACES:,}, got {places:,}")
    check_smooth(smooth)


def check_on(on: Path | None, flags: dict[str, Any]) -> None:
    """Refuse flags that choose places beside a profile that has them."""
    for name in _CHOOSES_PLACES:
        if on is not None and name in flags:
            raise InputError(f"--{name} must be left out with --on: the profile has its places")


def columns_of(text: str | None) -> dict[str, str] | None:
    """Read ``time=when,lat=y,lon=x``."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(mark and name.strip() and value.strip() for name, mark, value in pairs):
        raise InputError(f"columns must be like time=when,lat=y,lon=x, got {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def cell_of(text: str) -> tuple[float, float]:
    """Read the size of a cell in km: ``500m`` or ``658m x 712m``."""
    sides = [length_km(side, "cell") for side in text.split("x")]
    if len(sides) > 2:
        raise InputError(f"cell must be like 500m or 658m x 712m, got {text!r}")
    return as_cell_km((sides[0], sides[-1]))


def _period(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if dash and first.strip().isdecimal() and last.strip().isdecimal():
        return as_period((int(first), int(last)))
    return as_period(text)


def _begins(text: str) -> tuple[int, ...]:
    """Read the hours at which periods of the day begin: ``0,7,18``."""
    try:
        return as_hours([int(part) for part in text.split(",")])
    except ValueError:
        raise InputError(
            f"by-time must be hours of the day, increasing, like 0,7,18, got {text!r:.40}"
        ) from None


def _corners(area: str) -> tuple[float, float, float, float]:
    try:
        south, west, north, east = (float(part) for part in area.split(","))
    except ValueError:
        raise InputError(f"area must be SOUTH,WEST,NORTH,EAST in degrees, got {area!r}") from None
    return south, west, north, east
