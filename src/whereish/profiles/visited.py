"""The points that a person visits, in clusters, weighted by time.

A mechanism with a guarantee for every point is built for points, not for cells. The points of the
traces are counted in square cells of 25 m. An hour counts as one, as in a profile: it is divided
equally among its steps of five minutes with a point, and a step among the cells in which it was
spent. So a long stay weighs more than a walk through many cells. Where points are counted, each
point counts as one.

Then cells become clusters. The heaviest cell takes the cells within 50 m, then the heaviest of the
rest, and so on. The 200 heaviest clusters stay. The others are merged in squares of 100 m, 200 m
and so on, until at most 100 are left. A point is the weighted mean of a cluster, to a metre.
"""

from __future__ import annotations

import io
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from whereish.lazy import pl
from whereish.parquet import parquet_bytes
from whereish.places import Array, LocalPlane, Places, normalised
from whereish.profiles.profile import VisitedPoints
from whereish.profiles.regions import ELSEWHERE, Ids, Regions, SquareCells
from whereish.profiles.visits import STEP_S, CountOptions, Visits, checked_table
from whereish.traces.cache import cached, keep, place_for
from whereish.traces.cleaning import Funnel
from whereish.traces.source import Traces

POINT_CELL_KM = 0.025
MERGED_CELLS = 2  # cells within so many of a heavier one, 50 m, are one cluster with it
HEAVIEST, OTHERS = 200, 100  # clusters of 50 m, and larger ones
_TIE = 9  # decimals: weights that agree to so many are equal, in whatever order they were summed
_FORMAT = 1  # of the cache: to be raised when the same traces give other points


def count_points(
    traces: Traces | pl.DataFrame, middle: LocalPlane, visits: Visits, how: CountOptions
) -> tuple[SquareCells, pl.DataFrame]:
    """Return small cells, and their share of the time in the hours of the visits of one person.

    Parameters
    ----------
    middle
        Where the plane of the cells touches the earth.
    visits
        The person's visits, of the days and the period that count.

    Returns
    -------
    tuple
        The cells, and a table of ``cell`` (its number) and ``weight``.
    """
    cells = cells_around(middle)
    timed = visits.counted == "hours"
    file, table = None, None
    if timed and how["cache"] is not None and isinstance(traces, Traces):
        key = ["points", _FORMAT, cells.recipe(), how["zone"]]
        file = place_for(Path(how["cache"]), traces, key)
        table = _unpacked(cached(file))
    if table is None:
        table = _counted(traces, cells, timed, how)
        if file is not None:
            keep(file, parquet_bytes(table))
    if timed:
        table = table.join(visits.table.select("hour").unique(), on="hour", how="semi")
    return cells, cell_shares(table)


def cells_around(middle: LocalPlane) -> SquareCells:
    """Return the cells in which the points of a person are counted."""
    return SquareCells(middle, (POINT_CELL_KM, POINT_CELL_KM))


def cell_shares(table: pl.DataFrame) -> pl.DataFrame:
    """Return the weight of each cell, of a table of weights; points elsewhere are left out."""
    shares = table.filter(pl.col("cell") != ELSEWHERE).group_by("cell")
    return shares.agg(weight=pl.col("weight").sum()).sort("cell")


def _counted(
    traces: Traces | pl.DataFrame, cells: SquareCells, timed: bool, how: CountOptions
) -> pl.DataFrame:
    """Return how much of each hour was spent in each cell; or how many points each cell has."""
    reduce = partial(reduced, cells, how["zone"], timed)
    if isinstance(traces, Traces):
        parts = list(traces.map(reduce, Funnel(), how["progress"]))
    else:
        if not timed:
            traces = traces.with_columns(time=pl.lit(None, pl.Datetime("us", "UTC")))
        parts = [reduce(checked_table(traces, Funnel(), timed))]
    table = pl.concat(parts)
    if not timed:
        return table.group_by("cell").agg(weight=pl.col("weight").sum())
    return divided_hours(table.unique())


def divided_hours(table: pl.DataFrame) -> pl.DataFrame:
    """Divide each hour of one person among its steps, and these among their cells."""
    steps = pl.col("step").n_unique().over("hour")
    share = 1 / (steps * pl.len().over("hour", "step"))
    shares = table.with_columns(weight=share)
    return shares.group_by("hour", "cell").agg(weight=pl.col("weight").sum()).sort("hour", "cell")


def reduced(cells: SquareCells, zone: str, timed: bool, batch: pl.DataFrame) -> pl.DataFrame:
    """Return the cells of a batch: each hour, step and cell once; or how many points each has."""
    return (_hours if timed else _rows)(cells, zone, batch)


def _hours(cells: SquareCells, zone: str, batch: pl.DataFrame) -> pl.DataFrame:
    wall = pl.col("time").dt.convert_time_zone(zone).dt.replace_time_zone(None)
    rows = batch.select("time", wall=wall, cell=_cells_of(cells, batch))
    return rows.select(
        "cell",
        hour=pl.col("time") - (pl.col("wall") - pl.col("wall").dt.truncate("1h")),
        step=pl.col("time").dt.epoch("s").floordiv(STEP_S),
    ).unique()


def _rows(cells: SquareCells, zone: str, batch: pl.DataFrame) -> pl.DataFrame:
    of = pl.DataFrame({"cell": _cells_of(cells, batch)})
    return of.group_by("cell").agg(weight=pl.len().cast(pl.Float64))


def _cells_of(cells: SquareCells, batch: pl.DataFrame) -> pl.Series:
    return pl.Series(cells.of(batch["lat"].to_numpy(), batch["lon"].to_numpy()), dtype=pl.Int64)


def _unpacked(content: bytes | None) -> pl.DataFrame | None:
    """Return a table of the cache; None if there is none, or it is something else."""
    try:
        found = pl.read_parquet(io.BytesIO(content or b""))
        return found.select("hour", "cell", "weight")
    except (pl.exceptions.PolarsError, OSError):
        return None


def clustered_points(
    cells: SquareCells,
    shares: pl.DataFrame,
    radius_km: float | None = None,
    within: Regions | None = None,
) -> VisitedPoints | None:
    """Merge cells into clusters; None if no cell is left.

    Parameters
    ----------
    cells, shares
        What `count_points` returned.
    radius_km
        Leave out cells further than this from the middle.
    within
        Leave out cells that are in none of these regions.
    """
    ids, weights = shares["cell"].to_numpy(), shares["weight"].to_numpy()
    if len(ids):
        where = _centres(cells, ids)
        near = np.ones(len(ids), dtype=bool)
        if radius_km is not None:
            near &= np.hypot(*where.T) <= radius_km
        if within is not None:
            lat, lon = cells.plane.to_latlon(where).T
            near &= within.of(lat, lon) != ELSEWHERE
        ids, weights = ids[near], weights[near]
    if len(ids) == 0 or weights.sum() <= 0:
        return None
    of = _clusters(*SquareCells.grid(ids), weights)
    total = np.bincount(of, weights)
    xy = _centres(cells, ids)
    means = np.column_stack([np.bincount(of, weights * axis) / total for axis in xy.T])
    # To a metre: means that are the same point then are one. A middle between two metres is first
    # rounded to a millimetre, so that the last digits of the weights do not decide.
    points, same = np.unique(means.round(6).round(3), axis=0, return_inverse=True)
    total = np.bincount(same.reshape(-1), total)
    order = np.argsort(-total.round(_TIE), kind="stable")
    places = Places(points[order], cells.plane.to_latlon(points[order]), cells.plane)
    return VisitedPoints(places, normalised(total[order]))


def _centres(cells: SquareCells, ids: Ids) -> Array:
    grid = np.column_stack(cells.grid(ids))
    return np.asarray((grid + 0.5) * cells.cell_km + cells.corner_km)


def _clusters(column: Ids, row: Ids, weights: Array) -> Ids:
    """Return the number of the cluster of each cell."""
    cell_at = {at: k for k, at in enumerate(zip(column.tolist(), row.tolist(), strict=True))}
    reach = range(-MERGED_CELLS, MERGED_CELLS + 1)
    near = [(a, b) for a, b in product(reach, reach) if a * a + b * b <= MERGED_CELLS**2]
    of = np.full(len(weights), -1, np.int64)
    places = list(cell_at)
    count = 0
    for k in np.lexsort((row, column, -weights.round(_TIE))).tolist():
        if of[k] >= 0:
            continue
        x, y = places[k]
        found = [j for a, b in near if (j := cell_at.get((x + a, y + b))) is not None]
        of[[j for j in found if of[j] < 0]] = count
        count += 1
    heavy = np.argsort(-np.bincount(of, weights).round(_TIE), kind="stable")
    if count <= HEAVIEST + OTHERS:
        return of
    number = np.full(count, -1)
    number[heavy[:HEAVIEST]] = np.arange(HEAVIEST)
    of = np.asarray(number[of], np.int64)
    rest = of < 0
    side = 2 * MERGED_CELLS
    while True:
        squares = np.column_stack([column[rest] // side, row[rest] // side])
        _, square = np.unique(squares, axis=0, return_inverse=True)
        if square.max() < OTHERS:
            of[rest] = HEAVIEST + square.reshape(-1)
            return of
        side *= 2
