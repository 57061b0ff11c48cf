"""The profiles of many people: on the same places, or on each person's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import whereish as wh
from whereish.cli.console import waiting
from whereish.cli.profile_options import Area, Counting, Group
from whereish.errors import InputError
from whereish.lazy import pl
from whereish.profiles import (
    ALL_DAY,
    PAPER_CELL_KM,
    PERIODS,
    DegreeTiles,
    Step,
    VisitedPoints,
    Visits,
    area_cells,
    busiest_window,
    enough_points,
    find_middle,
    group_points,
    inside,
    nearby,
    own_middles,
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


def with_points(
    everybody: Profiles,
    traces: wh.Traces,
    visits: Visits,
    area: Area,
    when: Counting,
    group: Group,
    how: CountOptions,
) -> Profiles:
    """Add the visited points of each person: in the area, the days and the period that count."""
    many = f"{len(everybody):,} people"
    with waiting(f"finding the visited points of {many}") as bar:

        def reading(done: int, files: int, rows: int) -> None:
            bar(f"{done:,} files, {rows:,} rows", done / files)

        def found(people: int) -> None:
            bar(f"{people:,} of {many}", people / len(everybody))

        how = {**how, "progress": reading}
        points = _points_of(everybody, traces, visits, area, when, group, how, found)
    return {user: replace(who, visited=points.get(user)) for user, who in everybody.items()}


def _points_of(
    users: Iterable[str],
    traces: wh.Traces,
    visits: Visits,
    area: Area,
    when: Counting,
    group: Group,
    how: CountOptions,
    tell: Callable[[int], object],
) -> dict[str, VisitedPoints]:
    days = group.window_days(when.window, visits.counted == "points")
    now = visits if days is None else busiest_window(visits, days)
    names = pl.Series(list(users), dtype=pl.String)
    own = now.of(now.during(when.hours).filter(pl.col("user").is_in(names.implode())))
    if not area.is_endless:
        middles = own_middles(traces, names, area.radius_km, how)
        return group_points(traces, middles, own, how, within=visits.regions, tell=tell)
    # The regions have no end: what counts is the distance from the middle of all.
    middle = find_middle(wh.count_visits(traces, DegreeTiles(), **how), area.radius_km)
    return group_points(
        traces, dict.fromkeys(names, middle), own, how, radius_km=area.radius_km, tell=tell
    )


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
