"""From visits to priors in the steps of Section 4 of the paper: a function for each step.

`paper_profiles` takes all steps. Each step records in ``steps`` how many people and points it
leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from whereish.errors import InputError, described
from whereish.lazy import pl
from whereish.places import Array, Places, as_whole
from whereish.profiles.profile import Profile
from whereish.profiles.regions import ELSEWHERE, Ids
from whereish.profiles.visits import ALL_DAY, PERIODS, Step, Visits, in_period

Periods = Mapping[str, tuple[int, int]]
_ALL_DAYS = 100_000  # more than any record


def busiest_window(visits: Visits, days: int = 90) -> Visits:
    """Keep, of each person, the days in a row in which most traces were recorded.

    Of several such windows it is the first. A person with fewer days keeps all.
    """
    days = min(as_whole("days", days), _ALL_DAYS)
    visits.check_timed("a window of days")
    totals = visits.traces.rolling(
        index_column="day", period=f"{days}d", offset="0d", closed="left", group_by="user"
    ).agg(pl.col("traces").sum())
    best = totals.sort("user", "traces", "day", descending=[False, True, False])
    first = best.group_by("user", maintain_order=True).agg(start=pl.col("day").first())
    since = pl.col("day") - pl.col("start")
    kept = visits.table.join(first, on="user", how="inner", maintain_order="left").filter(
        since >= pl.duration(days=0), since < pl.duration(days=days)
    )
    return visits.then(f"in the {days} days with the most traces", kept.drop("start"))


def inside(visits: Visits, ids: Ids | None = None, name: str = "inside the area") -> Visits:
    """Keep the points in some regions: in these, or in any."""
    return visits.then(name, visits.table.filter(among(ids)))


def among(ids: Ids | None) -> pl.Expr:
    """Tell which visits are in some regions (None: in any)."""
    if ids is None:
        return pl.col("region") != ELSEWHERE
    return pl.col("region").is_in(pl.Series(ids, dtype=pl.Int64).implode())


def enough_points(visits: Visits, at_least: int = 20, periods: Periods = PERIODS) -> Visits:
    """Keep people with so many points in every period of the day."""
    as_whole("at_least", at_least, 0)
    if not periods:
        raise InputError("periods must name at least one period of the day, got none")
    if any(hours != PERIODS[ALL_DAY] for hours in periods.values()):
        visits.check_timed("a period of the day")
    counted = visits.table.group_by("user").agg(
        **{name: in_period(hours).sum() for name, hours in periods.items()}
    )
    fine = counted.filter(pl.min_horizontal(periods.keys()) >= at_least)["user"]
    kept = visits.table.filter(pl.col("user").is_in(fine.implode()))
    return visits.then(f"people with at least {at_least} points in every period", kept)


def region_scores(visits: Visits, top: int = 30) -> pl.DataFrame:
    """Return every region's score: how many people have it among their most visited.

    Among equally visited regions of a person, and equal scores, the more visited by all come
    first, then the southern, then the western (the smaller number).

    Returns
    -------
    ``region``, ``score`` and ``points`` (of all people), the best first.
    """
    as_whole("top", top)
    all_points = visits.table.group_by("region").agg(points=pl.len())
    own = visits.table.group_by("user", "region").agg(own=pl.len()).join(all_points, on="region")
    ranked = own.sort(
        "user", "own", "points", "region", descending=[False, True, True, False]
    ).filter(pl.int_range(pl.len()).over("user") < top)
    score = ranked.group_by("region").agg(score=pl.len())
    scored = all_points.join(score, on="region", how="left")
    table = scored.select("region", pl.col("score").fill_null(0), "points")
    return table.sort("score", "points", "region", descending=[True, True, False])


def popular_regions(visits: Visits, places: int = 50, top: int = 30) -> Ids:
    """Return the regions with the highest score, in the order of their numbers."""
    as_whole("places", places)
    scores = region_scores(visits, top)
    chosen = scores.filter(scores["score"] > 0).head(places)
    return np.sort(chosen["region"].to_numpy().astype(np.int64))


def region_priors(
    visits: Visits, ids: Ids, periods: Periods = PERIODS
) -> dict[str, dict[str, Array]]:
    """Return each person's share of points in each region, in each period of the day.

    A period in which somebody has no point there is left out.
    """
    index = pl.DataFrame({"region": np.asarray(ids, np.int64), "place": np.arange(len(ids))})
    rows = visits.table.join(index, on="region", how="inner")
    priors: dict[str, dict[str, Array]] = {user: {} for user in visits.users}
    for name, hours in periods.items():
        counts = rows.filter(in_period(hours)).group_by("user", "place").agg(n=pl.len())
        for (user,), part in counts.sort("user", "place").group_by("user", maintain_order=True):
            shares = np.zeros(len(ids))
            shares[part["place"].to_numpy()] = part["n"].to_numpy()
            priors[str(user)][name] = shares / shares.sum()
    return priors


@dataclass(frozen=True, eq=False)
class Cohort:
    """People on the same places, with a prior for every period of the day.

    Attributes
    ----------
    places, ids
        The chosen regions, as places and by their numbers.
    scores
        The score of every region (see `region_scores`).
    priors
        By person and period.
    steps
        How many people and points each step left.
    visits
        The visits of which the priors are shares.
    """

    places: Places
    ids: Ids = field(repr=False)
    scores: pl.DataFrame = field(repr=False)
    priors: dict[str, dict[str, Array]] = field(repr=False)
    steps: tuple[Step, ...]
    visits: Visits = field(repr=False)

    @property
    def users(self) -> list[str]:
        """The people, sorted."""
        return list(self.priors)

    def profile(self, user: str, period: str = ALL_DAY) -> Profile:
        """Return a person's profile in a period of the day."""
        if user not in self.priors:
            known = f"one of the {len(self.priors)} people"
            raise InputError(f"user must be {known}, got {described(user)}")
        if period not in self.priors[user]:
            known = f"one of {', '.join(self.priors[user])} for this person"
            raise InputError(f"period must be {known}, got {described(period)}")
        shapes = None if self.places.cell_km else tuple(self.visits.regions.shapes(self.ids))
        return Profile(self.places, self.priors[user][period], shapes)


def paper_profiles(
    visits: Visits,
    *,
    window_days: int | None = 90,
    at_least: int = 20,
    top: int = 30,
    places: int = 50,
    periods: Periods = PERIODS,
) -> Cohort:
    """Take every step of Section 4.2: the same places for all, and priors for those who stay.

    Parameters
    ----------
    window_days
        The window with the most traces; None keeps all days.
    at_least
        Points a person needs in every period: in the area, and again at the chosen places.
    top, places
        How many regions of each person count for the score, and how many are chosen.
    periods
        Periods of the day, each with the hours it begins and ends.

    Raises
    ------
    InputError
        If nobody is left; the message says what each step left.
    """
    now = visits if window_days is None else busiest_window(visits, window_days)
    now = enough_points(inside(now), at_least, periods)
    scores = region_scores(now, top)
    ids = popular_regions(now, places, top)
    now = inside(now, ids, f"in the {len(ids)} most popular regions")
    now = enough_points(now, at_least, periods)
    if len(now.table) == 0:
        steps = "; ".join(f"{step.users} {step.name}" for step in now.steps)
        raise InputError(f"nobody is left with enough points in every period: {steps}")
    return Cohort(
        visits.regions.places(ids), ids, scores, region_priors(now, ids, periods), now.steps, now
    )
