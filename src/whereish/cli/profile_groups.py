"""The profiles of many people: on the same places, or on each person's own."""

from __future__ import annotations

import whereish as wh
from whereish.cli.profile_options import Area, Counting, Group
from whereish.errors import InputError
from whereish.profiles import (
    ALL_DAY,
    PAPER_CELL_KM,
    PERIODS,
    DegreeTiles,
    Step,
    Visits,
    area_cells,
    busiest_window,
    enough_points,
    find_middle,
    inside,
    nearby,
    profile_from_visits,
    region_priors,
    smoothed,
)
from whereish.profiles.visits import CountOptions

Profiles = dict[str, wh.Profile]


def group_visits(traces: wh.Traces, area: Area, how: CountOptions) -> Visits:
    """Count the visits of everybody: in the regions that were asked for, or in an area."""
    regions = area.regions
    if regions is None:
        regions = area_cells(traces, area.cell_km or PAPER_CELL_KM, area.radius_km, **how)
    visits = wh.count_visits(traces, regions, **how)
    if not area.is_endless:
        return visits
    middle = find_middle(wh.count_visits(traces, DegreeTiles(), **how), area.radius_km)
    return nearby(visits, middle, area.radius_km)


def group_profiles(
    visits: Visits, places: int, smooth: float, when: Counting, group: Group
) -> tuple[Profiles, tuple[Step, ...]]:
    """Return everybody's profile, and how many people and points each step left."""
    points = visits.counted == "points"
    days = group.window_days(when.window, points)
    periods = {ALL_DAY: PERIODS[ALL_DAY]} if points else PERIODS
    if group.own_places:
        now = visits if days is None else busiest_window(visits, days)
        now = enough_points(inside(now), group.at_least, periods)
        if not now.users:
            raise InputError(f"nobody has {group.at_least} points in the area in every period")
        now = _during(now, when.hours)
        made = {u: profile_from_visits(now, u, places, smooth=smooth).profile for u in now.users}
        return made, now.steps
    cohort = wh.paper_profiles(
        visits, window_days=days, at_least=group.at_least, top=group.top, places=places,
        periods=periods,
    )  # fmt: skip
    now = _during(cohort.visits, when.hours)
    where = cohort.places
    shapes = tuple(now.regions.shapes(cohort.ids)) if where.cell_km is None else None
    priors = region_priors(now, cohort.ids, {"asked": when.hours})
    made = {
        user: wh.Profile(where, smoothed(found["asked"], where, smooth), shapes)
        for user, found in priors.items()
    }
    return made, now.steps


def _during(visits: Visits, hours: tuple[int, int]) -> Visits:
    """Keep the points in a period of the day, and the people who have any there."""
    if hours == PERIODS[ALL_DAY]:
        return visits
    now = visits.then(f"from {hours[0]} to {hours[1]} o'clock", visits.during(hours))
    if not now.users:
        raise InputError(
            f"nobody who is left has a point from {hours[0]} to {hours[1]} o'clock: choose "
            "another period"
        )
    return now
