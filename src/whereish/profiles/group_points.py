"""The visited points of many people, for the profiles of a group.

Everybody gets the points that they would have alone (`whereish.profiles.visited`): cells of 25 m in
a plane around their own middle, and clusters of these. Only the hours that count are held, and of
so many people at a time that memory stays bounded. For more people the traces are read again; where
folders name people, only those of the people whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from whereish.lazy import pl
from whereish.places import LocalPlane
from whereish.profiles.area import find_middle
from whereish.profiles.profile import VisitedPoints
from whereish.profiles.regions import DegreeTiles, Regions, SquareCells
from whereish.profiles.visited import (
    cell_shares,
    cells_around,
    clustered_points,
    divided_hours,
    reduced,
)
from whereish.profiles.visits import CountOptions, Visits, count_visits
from whereish.traces.cleaning import Funnel
from whereish.traces.source import Traces

# Hours (or points) of the people who are counted together. An hour has up to 20 rows of 24 bytes.
_MOST_AT_ONCE = 500_000
_HELD_PARTS = 16  # of a person: more are put together, so that there are neither many nor doubles


def own_middles(
    traces: Traces | pl.DataFrame, users: Iterable[str], radius_km: float, how: CountOptions
) -> dict[str, LocalPlane]:
    """Return the hundredth of a degree around which each person spends most time."""
    tiles = count_visits(traces, DegreeTiles(), **how)
    found = {}
    for (user,), table in tiles.table.partition_by("user", as_dict=True).items():
        found[str(user)] = find_middle(tiles.of(table), radius_km)
    return {user: found[user] for user in users}


def group_points(
    traces: Traces,
    middles: Mapping[str, LocalPlane],
    visits: Visits,
    how: CountOptions,
    *,
    radius_km: float | None = None,
    within: Regions | None = None,
    tell: Callable[[int], object] = lambda people: None,
) -> dict[str, VisitedPoints]:
    """Return the visited points of each person who has any in the area.

    Parameters
    ----------
    middles
        Where the plane of each person's cells touches the earth.
    visits
        The visits of these people, of the days and the period that count.
    radius_km, within
        Leave out points further than this from the middle, or in none of these regions.
    tell
        Called with the number of people who are done.
    """
    timed = visits.counted == "hours"
    found: dict[str, VisitedPoints] = {}
    done = 0
    for own in _portions(visits.table.select("user", "hour"), timed):
        hours = {
            str(user): rows.unique()
            for (user,), rows in own.partition_by("user", as_dict=True, include_key=False).items()
        }
        cells = {user: cells_around(middles[user]) for user in hours}
        reduce = partial(_reduced, cells, how["zone"], hours if timed else None)
        some = traces.of_people(frozenset(cells))
        held = _held(some.map(reduce, Funnel(), how["progress"]), timed)
        for user in sorted(cells):
            parts = held.pop(user, None)
            if parts:
                rows = _union(parts, timed)
                shares = cell_shares(divided_hours(rows) if timed else rows)
                points = clustered_points(cells[user], shares, radius_km, within)
                if points is not None:
                    found[user] = points
            done += 1
            tell(done)
    return found


def _portions(table: pl.DataFrame, timed: bool) -> Iterator[pl.DataFrame]:
    """Yield the visits of some people at a time, so that what is held has a limit."""
    size = pl.col("hour").n_unique() if timed else pl.len()
    sizes = table.group_by("user").agg(size=size).sort("user")
    sizes = sizes.with_columns(turn=(pl.col("size").cum_sum() - 1) // _MOST_AT_ONCE)
    for turn in sizes["turn"].unique().sort():
        yield table.join(sizes.filter(turn=turn).select("user"), on="user", how="semi")


def _reduced(
    cells: Mapping[str, SquareCells],
    zone: str,
    hours: Mapping[str, pl.DataFrame] | None,
    batch: pl.DataFrame,
) -> list[tuple[str, pl.DataFrame]]:
    """Return the cells of each person of a batch: by step in the hours that count, or by row."""
    found = []
    for (name,), rows in batch.partition_by("user", as_dict=True).items():
        user = str(name)
        if user in cells:
            part = reduced(cells[user], zone, hours is not None, rows)
            if hours is not None:
                part = part.join(hours[user], on="hour", how="semi")
            found.append((user, part))
    return found


def _held(
    batches: Iterable[list[tuple[str, pl.DataFrame]]], timed: bool
) -> dict[str, list[pl.DataFrame]]:
    """Return the parts of each person, put together before there are many."""
    held: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for user, part in batch:
            parts = held.setdefault(user, [])
            parts.append(part)
            if len(parts) >= _HELD_PARTS:
                held[user] = [_union(parts, timed)]
    return held


def _union(parts: list[pl.DataFrame], timed: bool) -> pl.DataFrame:
    table = pl.concat(parts)
    if timed:
        return table.unique()
    return table.group_by("cell").agg(weight=pl.col("weight").sum())
