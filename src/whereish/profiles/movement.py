"""Movement models: how people move between places, by time of day, counted from traces.

A model is a Markov chain on places, with one transition matrix for each period of the day. The
device filters its reports with it, and attacks (`whereish.attacks`) follow people with it. It is
counted from the traces of other people, never from the trace that is protected. Then it is
reweighted by the prior of the person: without that, filtered reports were worse than unfiltered
ones in GeoLife.

A model that is reweighted is personal. Its file can be read by its owner only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.day_periods import as_hours, check_zone, period_of
from whereish.errors import InputError
from whereish.lazy import pl
from whereish.places import Array, Places, as_number, as_numbers
from whereish.profiles.known_places import KnownPlaces, regions_of
from whereish.profiles.movement_file import load_movement, save_movement
from whereish.profiles.movement_model import MovementModel, as_step
from whereish.profiles.profile import Profile
from whereish.profiles.regions import ELSEWHERE, Regions
from whereish.profiles.visits import checked_table
from whereish.traces.cleaning import Funnel
from whereish.traces.source import Progress, Traces

__all__ = ["HOURS", "STEP_S", "MovementModel", "count_movement", "load_movement", "save_movement"]

STEP_S = 600.0
HOURS = (0, 7, 10, 16, 20)  # night, the way to work, the day, the way home, the evening
SMOOTHING = 1.0
STAY_GAP_S = 12 * 3600.0

# Users with (times in seconds since 1970, numbers of places), or these pairs alone.
Paths = Mapping[str, tuple[ArrayLike, ArrayLike]] | Iterable[tuple[ArrayLike, ArrayLike]]


def count_movement(
    source: Traces | pl.DataFrame | Paths,
    places: Places | Profile,
    step_s: float = STEP_S,
    hours: tuple[int, ...] = HOURS,
    *,
    leave_out: str | None = None,
    zone: str = "UTC",
    smoothing: float = SMOOTHING,
    stay_gap_s: float = STAY_GAP_S,
    progress: Progress | None = None,
) -> MovementModel:
    """Count how people move between places.

    In each step, a person is at the place with most points. Two steps in a row count as one
    transition. A person who is at the same place before and after a pause has stayed there.

    Parameters
    ----------
    source
        What `open_traces` found, or a polars table with the columns user, time, lat and lon; or
        paths that are known: a mapping from users to (times in seconds since 1970, numbers of
        places), or these pairs alone.
    places
        The places, or a profile that has them. Points elsewhere are not counted.
    leave_out
        The person whose reports are protected: nothing of theirs is counted.
    smoothing
        Weight of what is added to the counts of each row, in transitions: a row of a period is
        smoothed towards the row of the whole day, and that towards staying with the share of all
        stays, or moving to a place by the time that is spent there.
    stay_gap_s
        The longest pause that counts as a stay.

    >>> places = Places.from_xy([[0, 0], [1, 0]])
    >>> model = count_movement({"a": ([0, 600, 1200], [0, 0, 1])}, places, hours=(0,))
    >>> model.transitions[0].round(2).tolist()
    [[0.53, 0.47], [0.31, 0.69]]
    """
    where = places.places if isinstance(places, Profile) else places
    if not isinstance(where, Places):
        raise InputError(f"places must be Places or a Profile, got {type(places).__name__}")
    step, begins, n = as_step(step_s), as_hours(hours), len(where)
    check_zone(zone)
    weight = as_number("smoothing", smoothing)
    if isinstance(source, Traces | pl.DataFrame):
        regions = regions_of(places) if isinstance(places, Profile) else KnownPlaces(where)
        rows = _rows(source, regions, step, progress)
    else:
        rows = _known_rows(source, n, step)
    if leave_out is not None:
        rows = rows.filter(pl.col("user") != leave_out)
    moves, stays = _counts(rows, n, step, begins, zone, as_number("stay_gap_s", stay_gap_s))
    if moves.sum() == 0:
        raise InputError(
            "traces must hold two steps in a row at the places, of somebody who is not left out, "
            "and they hold none: give the traces of other people in the same area"
        )
    overall = _smoothed(stays.sum(axis=0), weight, np.full(n, 1 / n))
    # Of a place that few people visit, little is known but that people stay as they do elsewhere.
    stay = np.trace(moves.sum(axis=0)) / moves.sum()
    all_day = _smoothed(moves.sum(axis=0), weight, stay * np.eye(n) + (1 - stay) * overall)
    return MovementModel(
        where, step, begins, _smoothed(moves, weight, all_day), _smoothed(stays, weight, overall),
        zone, overall,
    )  # fmt: skip


def _rows(
    source: Traces | pl.DataFrame, regions: Regions, step: float, progress: Progress | None
) -> pl.DataFrame:
    """Return user, step and place, of the place with most points in each step."""
    reduce = partial(_reduced, regions, step)
    if isinstance(source, Traces):
        parts = list(source.map(reduce, Funnel(), progress))
    else:
        parts = [reduce(checked_table(source, Funnel()))]
    counts = pl.concat(parts).group_by("user", "step", "place").agg(pl.col("points").sum())
    order = counts.sort(["user", "step", "points", "place"], descending=[False, False, True, False])
    return order.unique(["user", "step"], keep="first", maintain_order=True).drop("points")


def _reduced(regions: Regions, step: float, batch: pl.DataFrame) -> pl.DataFrame:
    at = pl.Series(regions.of(batch["lat"].to_numpy(), batch["lon"].to_numpy()), dtype=pl.Int64)
    number = (pl.col("time").dt.epoch("us") / (step * 1e6)).floor().cast(pl.Int64)
    rows = batch.select("user", step=number, place=at).filter(pl.col("place") != ELSEWHERE)
    return rows.group_by("user", "step", "place").agg(points=pl.len())


def _known_rows(paths: Paths, n: int, step: float) -> pl.DataFrame:
    """Return user, step and place of paths that are given."""
    named = (
        paths.items() if isinstance(paths, Mapping) else ((str(k), p) for k, p in enumerate(paths))
    )
    parts = []
    for user, path in named:
        try:
            times, at = path
        except (TypeError, ValueError):
            raise InputError("a path must be (times, numbers of places), two lists") from None
        when = as_numbers("times", times, (None,))
        where = as_numbers("numbers of places", at, (len(when),))
        if ((where < 0) | (where >= n) | (where != np.floor(where))).any():
            raise InputError(f"numbers of places must be whole, from 0 to {n - 1}, and one is not")
        steps = np.floor(when / step).astype(np.int64)
        rows = {"user": [user] * len(when), "step": steps, "place": where.astype(np.int64)}
        parts.append(
            pl.DataFrame(rows, schema={"user": pl.String, "step": pl.Int64, "place": pl.Int64})
        )
    if not parts:
        raise InputError("paths must hold at least one person's, got none")
    return pl.concat(parts).unique(["user", "step"], keep="first").sort("user", "step")


def _counts(
    rows: pl.DataFrame, n: int, step: float, hours: tuple[int, ...], zone: str, gap_s: float
) -> tuple[Array, Array]:
    """Return transitions (periods, n, n) and steps spent (periods, n), of rows in order."""
    moves, stays = np.zeros((len(hours), n, n)), np.zeros((len(hours), n))
    same_user = (rows["user"] == rows["user"].shift(-1)).fill_null(False).to_numpy()
    first, place = rows["step"].to_numpy(), rows["place"].to_numpy()
    then, after = np.roll(first, -1), np.roll(place, -1)
    apart = then - first
    stayed = same_user & (place == after) & (apart * step <= max(gap_s, step))
    moved = same_user & (apart == 1) & ~stayed
    np.add.at(moves, (_periods(first[moved], step, hours, zone), place[moved], after[moved]), 1)
    # Every step of a stay is a transition from the place to itself.
    lengths = apart[stayed]
    begin = np.repeat(first[stayed] - np.cumsum(lengths) + lengths, lengths)
    when = _periods(begin + np.arange(lengths.sum()), step, hours, zone)
    where = np.repeat(place[stayed], lengths)
    np.add.at(moves, (when, where, where), 1)
    np.add.at(stays, (when, where), 1)
    rest = ~stayed
    np.add.at(stays, (_periods(first[rest], step, hours, zone), place[rest]), 1)
    return moves, stays


def _periods(
    steps: NDArray[np.int64], step: float, hours: tuple[int, ...], zone: str
) -> NDArray[np.intp]:
    """Return the period of the day of each step, by the time at which it begins."""
    moments = pl.Series((steps * step * 1e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    clock = moments.dt.convert_time_zone(zone).dt.hour().to_numpy()
    return period_of(hours, clock)


def _smoothed(counts: Array, weight: float, towards: Array) -> Array:
    """Return shares of counts, with `weight` more counts of the distribution `towards`."""
    return np.asarray((counts + weight * towards) / (counts.sum(axis=-1, keepdims=True) + weight))
