"""One person's profile: an area, a grid and the places, all chosen by the person's traces.

The JavaScript client makes the same places (``clients/js/profile/grid.js``); a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from whereish.day_periods import DayPeriods
from whereish.errors import InputError, described
from whereish.lazy import pl
from whereish.places import Array, Places, as_number, as_whole, euclidean
from whereish.profiles.area import check_radius, distinct, find_middle, hours_divided, nearby
from whereish.profiles.cohorts import among, busiest_window
from whereish.profiles.defaults import CELL_SIZES_M, COVERAGE, PLACES, RADIUS_KM
from whereish.profiles.known_places import regions_of
from whereish.profiles.profile import Profile
from whereish.profiles.regions import (
    ELSEWHERE,
    DegreeTiles,
    Districts,
    Ids,
    Regions,
    SquareCells,
    as_cell_km,
)
from whereish.profiles.time_prior import TimeDependentPrior, prior_by_time
from whereish.profiles.visited import clustered_points, count_points
from whereish.profiles.visits import (
    ALL_DAY,
    PERIODS,
    CountOptions,
    Step,
    Visits,
    as_period,
    count_visits,
)
from whereish.traces.cleaning import Funnel
from whereish.traces.held import hold
from whereish.traces.source import Progress, Traces

_FINE_KM = CELL_SIZES_M[0] / 1000
SMOOTH_KM = 0.5


@dataclass(frozen=True, eq=False)
class PersonalProfile:
    """A person's profile, and how much of the person's life it covers.

    Attributes
    ----------
    profile
        Places and prior.
    user
        Whose it is.
    points, hours, days
        How many points were counted (the same region in the same hour once), and in how many
        hours of how many days anything was recorded.
    in_area, at_places
        Share of the recorded time in the area, and at the places: an hour counts as one, divided
        among the regions in which it was spent.
    visited
        At how many of the places the person was; the others lie around them.
    steps, funnel
        What each step left, and how many rows were read and dropped.
    counted
        "hours" or "points", see `count_visits`. Of points, shares are of points, and ``hours`` and
        ``days`` are 0.
    elsewhere
        How many of the points were counted at none of the places.
    """

    profile: Profile
    user: str
    points: int
    hours: int
    days: int
    in_area: float
    at_places: float
    visited: int
    steps: tuple[Step, ...] = field(default=(), repr=False)
    funnel: Funnel = field(default_factory=Funnel, repr=False)
    counted: str = "hours"
    elsewhere: int = 0


def personal_profile(
    traces: Traces | pl.DataFrame,
    places: int = PLACES,
    *,
    zone: str = "UTC",
    period: str | tuple[int, int] = ALL_DAY,
    window_days: int | None = None,
    regions: Regions | None = None,
    cell_km: tuple[float, float] | None = None,
    radius_km: float = RADIUS_KM,
    smooth: float = 0.0,
    count: str | None = None,
    on: Profile | None = None,
    points: bool = False,
    hours: tuple[int, ...] | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> PersonalProfile:
    """Make one person's profile from the person's traces.

    Parameters
    ----------
    places
        How many. If the person visited fewer, places around them are added: the person hides
        among those, too.
    zone, period
        The time zone, and which hours of the day count.
    window_days
        Count only so many days in a row, those with the most traces.
    regions
        Regions; by default square cells around where the person is most of the time.
    cell_km
        Width and height of these cells; otherwise the smallest of 100, 200, 400, 800 and 1,600 m
        with which the places cover 90 % of the time in the area, or the largest.
    radius_km
        How far the area reaches from its middle.
    smooth
        Share of the prior that is spread over places nearby, for times that were not recorded.
    count
        "hours" or "points", see `count_visits`.
    on
        A profile whose places are taken, for another period or other traces on the same places
        (``places``, ``cell_km`` and ``radius_km`` are then not used). Points elsewhere are left
        out.
    points
        Keep the visited points as well, as ``profile.visited``: see `whereish.profiles.visited`.
    hours
        Count a prior for each period of the day as well, as ``profile.by_time``: the hours at which
        the periods begin, like (0, 7, 18), in the time zone.

    Raises
    ------
    InputError
        If there is nothing to count, or more than one person.
    """
    as_whole("places", places, 2)
    check_radius(radius_km)
    check_smooth(smooth)
    if regions is not None and cell_km is not None:
        raise InputError("regions that are given have their size: leave cell_km out")
    if on is not None and (regions is not None or cell_km is not None):
        raise InputError("a profile has its places: leave regions and cell_km out")
    if isinstance(traces, Traces):
        traces = hold(traces, timed=count != "points")
    periods = None if hours is None else DayPeriods(hours, zone)
    if periods is not None and as_period(period) != PERIODS[ALL_DAY]:
        raise InputError("hours must be left out with a period: they divide the whole day")
    how: CountOptions = {"zone": zone, "count": count, "progress": progress, "cache": cache}
    middle = fine = None
    if on is not None:
        regions = regions_of(on)
    elif not isinstance(regions, SquareCells | Districts):
        middle = find_middle(_count_one(traces, DegreeTiles(), how), radius_km)
        if regions is None and cell_km is None:
            regions = fine = SquareCells(middle, (_FINE_KM, _FINE_KM))
        elif regions is None:
            regions = SquareCells(middle, as_cell_km(cell_km))
    visits = _count_one(traces, regions, how)
    if window_days is not None:
        visits = busiest_window(visits, window_days)
    if as_period(period) != PERIODS[ALL_DAY]:
        visits = visits.then("in the period", visits.during(period))
    counting = visits  # of the days and the period that count
    if middle is not None:
        visits = nearby(visits, middle, radius_km)
    if fine is not None:
        visits = _best_size(visits, fine, places)
    if on is not None:
        made = _profile_on(on, visits, smooth, periods)
    else:
        (user,) = visits.users or [""]
        made = profile_from_visits(visits, user, places, smooth=smooth, periods=periods)
    if not points:
        return made
    within = None if middle is not None else visits.regions
    if middle is None:
        middle = find_middle(_count_one(traces, DegreeTiles(), how), radius_km)
    cells, shares = count_points(traces, middle, counting, how)
    visited = clustered_points(cells, shares, None if within else radius_km, within)
    return replace(made, profile=replace(made.profile, visited=visited))


def profile_from_visits(
    visits: Visits,
    user: str,
    places: int,
    *,
    smooth: float = 0.0,
    periods: DayPeriods | None = None,
) -> PersonalProfile:
    """Make the profile of one of the people that visits are of, at the person's own places.

    Parameters
    ----------
    smooth
        See `personal_profile`.
    periods
        Count a prior for each of these periods of the day as well.
    """
    as_whole("places", places, 2)
    check_smooth(smooth)
    own = replace(visits, table=visits.table.filter(user=user))
    ids, counts = _most_visited(own.table["region"].to_numpy(), places)
    if len(ids) == 0:
        raise InputError(
            "traces must hold a point in the area and the period, got none: choose another area, "
            "radius or period, or smaller regions"
        )
    more = visits.regions.around(ids, places - len(ids)) if len(ids) < places else ids[:0]
    chosen = np.concatenate([ids, more])
    if len(chosen) < 2:
        raise InputError("a profile needs at least 2 places, and there is only one region")
    prior = np.concatenate([counts, np.zeros(len(more))]) / counts.sum()
    order = np.argsort(chosen, kind="stable")
    where = visits.regions.places(chosen[order])
    shapes = None if where.cell_km else tuple(visits.regions.shapes(chosen[order]))
    by_time = _by_time(own, chosen[order], where, smooth, periods)
    profile = Profile(where, smoothed(prior[order], where, smooth), shapes, by_time=by_time)
    return _with_coverage(profile, own, ids, len(ids), int(counts.sum()))


# Earlier names.
Portrait = PersonalProfile
"""The old name of `PersonalProfile`."""
portrait = profile_from_visits
"""The old name of `profile_from_visits`."""


def _profile_on(
    on: Profile, visits: Visits, smooth: float, periods: DayPeriods | None = None
) -> PersonalProfile:
    """Count one person's visits at the places of a profile."""
    at = visits.table["region"].to_numpy()
    counts = np.bincount(at[at != ELSEWHERE], minlength=len(on.places)).astype(np.float64)
    if counts.sum() == 0:
        raise InputError(
            "traces must hold a point at the places of the profile, in the period, got none"
        )
    prior = smoothed(counts / counts.sum(), on.places, smooth)
    by_time = _by_time(visits, np.arange(len(on.places)), on.places, smooth, periods)
    profile = Profile(on.places, prior, on.regions, on.backdrop, by_time=by_time)
    return _with_coverage(profile, visits, None, int((counts > 0).sum()), int(counts.sum()))


def _by_time(
    visits: Visits, ids: Ids, places: Places, smooth: float, periods: DayPeriods | None
) -> TimeDependentPrior | None:
    """Count the prior of each period at the places of these regions, whose numbers increase."""
    if periods is None:
        return None
    visits.check_timed("a prior for each period of the day")
    if periods.zone != visits.zone:
        raise InputError("periods must be in the time zone of the visits")
    at, clock = (visits.table[name].to_numpy() for name in ("region", "clock"))
    there = np.isin(at, ids)
    counted = prior_by_time(np.searchsorted(ids, at[there]), clock[there], len(ids), periods)
    rows = [smoothed(prior, places, smooth) for prior in counted.priors]
    return TimeDependentPrior(counted.weights[:, None] * rows, periods)


def _with_coverage(
    profile: Profile, own: Visits, ids: Ids | None, visited: int, at_places: int
) -> PersonalProfile:
    """Add how much of one person's visits a profile covers, whose regions these are (None: all)."""
    hours, days = (own.table[name].drop_nulls().n_unique() for name in ("hour", "day"))
    return PersonalProfile(
        profile, own.users[0], len(own.table), hours, days, _time_share(own, None),
        _time_share(own, ids), visited, own.steps, own.funnel, own.counted,
        len(own.table) - at_places,
    )  # fmt: skip


def smoothed(prior: Array, places: Places, share: float, reach_km: float = SMOOTH_KM) -> Array:
    """Spread a share of a prior over places nearby, less the further away they are.

    >>> spots = Places.from_xy([[0, 0], [0.5, 0], [9, 0]])
    >>> smoothed(np.array([1.0, 0, 0]), spots, 0.1).round(3).tolist()
    [0.973, 0.027, 0.0]
    """
    check_smooth(share)
    if share == 0:
        return np.asarray(prior)
    near = np.exp(-euclidean(places) / reach_km)
    spread = np.asarray(prior) @ (near / near.sum(axis=1, keepdims=True))
    mixed = (1 - share) * np.asarray(prior) + share * spread
    return np.asarray(mixed / mixed.sum())


def check_smooth(share: float) -> None:
    """Check the share of a prior that is to be spread."""
    if not 0 <= as_number("smooth", share, above=-1) <= 1:
        raise InputError(f"smooth must be a share from 0 to 1, got {described(share)}")


def _count_one(traces: Traces | pl.DataFrame, regions: Regions, how: CountOptions) -> Visits:
    """Count the visits of one person, and refuse several."""
    visits = count_visits(traces, regions, **how)
    people = visits.users
    if len(people) > 1:
        raise InputError(
            f"traces must be of one person, got {len(people)}: name one (users=[{people[0]!r}], or "
            f"--user {people[0]}), say that all are yours (person='me', or --merge-users), or make "
            "a profile of each (paper_profiles, or --group users)"
        )
    if not people:
        seen = visits.funnel
        reason = f": {seen.complaint()}" if seen.dropped or seen.broken else ""
        if seen.kept:
            reason = " of the people asked for: leave them out if the traces name nobody"
        raise InputError(f"traces must hold at least one point that can be used, got none{reason}")
    return visits


def _best_size(visits: Visits, cells: SquareCells, places: int) -> Visits:
    """Return the visits to the smallest cells of which some places cover the time well."""
    column, row = SquareCells.grid(visits.table["region"].to_numpy())
    nowhere = visits.table["region"].to_numpy() == ELSEWHERE
    for factor in (size // CELL_SIZES_M[0] for size in CELL_SIZES_M):
        ids = np.where(nowhere, ELSEWHERE, cells.numbered(column // factor, row // factor))
        table = distinct(visits.table.with_columns(region=pl.Series(ids)))
        coarse = replace(visits, table=table, regions=cells.coarser(factor))
        best, _ = _most_visited(table["region"].to_numpy(), places)
        if _time_share(coarse, best) >= COVERAGE * _time_share(coarse, None):
            break
    return coarse


def _most_visited(regions: Ids, places: int) -> tuple[Ids, Array]:
    ids, counts = np.unique(regions[regions != ELSEWHERE], return_counts=True)
    best = np.lexsort((ids, -counts))[:places]
    return ids[best], counts[best].astype(np.float64)


def _time_share(visits: Visits, ids: Ids | None) -> float:
    """Return the share of the recorded hours in some regions (None: in any)."""
    there = among(ids)
    share = (pl.col("share") * there).sum() / pl.col("share").sum()
    return float(hours_divided(visits).select(share).item() or 0.0)
