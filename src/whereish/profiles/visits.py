"""Visits: a person was in a region in an hour. All counts and priors are made of visits.

"Whenever we count points, those falling within the same grid region during the same hour are
counted only once" (Section 4.2). So the result of reading is the set of (user, hour, region): it is
small, and does not depend on the order of the points or on the files that they are in.

Points without times (check-ins, photographs) are counted otherwise: each row counts once.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypedDict

from whereish.day_periods import check_zone
from whereish.errors import InputError, described
from whereish.lazy import pl
from whereish.parquet import parquet_bytes
from whereish.profiles.regions import Regions
from whereish.traces.cache import cached, keep, place_for
from whereish.traces.cleaning import COLUMNS, Funnel, clean
from whereish.traces.source import Progress, Traces

ALL_DAY = "all day"
# From and to which hour on the clock; a period may go over midnight (Section 4).
PERIODS: dict[str, tuple[int, int]] = {
    ALL_DAY: (0, 24),
    "morning": (7, 12),
    "afternoon": (12, 19),
    "night": (19, 7),
}
# A trace ends where nothing is recorded for 20 minutes: four steps of five.
STEP_S, _PAUSE_STEPS = 300, 4
_HELD_ROWS = 4_000_000
COUNTS = ("hours", "points")
_FORMAT = 1  # of the cache: to be raised when the same traces give other visits


class CountOptions(TypedDict):
    """The options of `count_visits`, to hand on together."""

    zone: str
    count: str | None
    progress: Progress | None
    cache: Path | None


@dataclass(frozen=True)
class Step:
    """How many users and points are left after a step from points to priors."""

    name: str
    users: int
    points: int


@dataclass(frozen=True, eq=False)
class Visits:
    """Who was in which region in which hour. This is personal: repr does not show it.

    Attributes
    ----------
    table
        ``user``, ``hour`` (when it began, UTC), ``clock`` (0 to 23, where the zone is), ``day``
        (there), ``region`` (its number, or `ELSEWHERE`): every row once, sorted.
    traces
        ``user``, ``day``, ``traces``: how many traces began that day.
    regions
        What the regions are.
    zone
        The time zone of clock and day.
    funnel
        How many rows were read and dropped.
    steps
        What is left after each step so far.
    counted
        "hours": a region in an hour once, as above. "points": each row once; then ``hour`` and
        ``day`` are null, ``clock`` is 0, and a column ``point`` numbers the rows.
    """

    table: pl.DataFrame = field(repr=False)
    traces: pl.DataFrame = field(repr=False)
    regions: Regions = field(repr=False)
    zone: str
    funnel: Funnel = field(default_factory=Funnel, repr=False)
    steps: tuple[Step, ...] = ()
    counted: str = "hours"

    @property
    def users(self) -> list[str]:
        """The people, sorted."""
        return list(self.table["user"].unique().sort())

    def then(self, name: str, table: pl.DataFrame) -> Visits:
        """Return what is left after a step."""
        left = Step(name, table["user"].n_unique(), len(table))
        return replace(self, table=table, steps=(*self.steps, left))

    def of(self, table: pl.DataFrame) -> Visits:
        """Return some of these visits: rows of the table."""
        return replace(self, table=table)

    def during(self, period: str | tuple[int, int]) -> pl.DataFrame:
        """Return the rows of a period of the day."""
        if as_period(period) != PERIODS[ALL_DAY]:
            self.check_timed("a period of the day")
        return self.table.filter(in_period(period))

    def check_timed(self, what: str) -> None:
        """Raise InputError if points were counted, which have no times."""
        if self.counted != "hours":
            raise InputError(
                f"{what} needs points with times, and here each point counts once, whatever its "
                "time: leave it out"
            )


def in_period(period: str | tuple[int, int]) -> pl.Expr:
    """Return whether the clock is in a period: from its first hour on, before its last."""
    begin, end = as_period(period)
    clock = pl.col("clock")
    if begin < end:
        return (clock >= begin) & (clock < end)
    return (clock >= begin) | (clock < end)


def as_period(period: str | tuple[int, int]) -> tuple[int, int]:
    """Check a period: one of `PERIODS`, or two hours of the clock.

    >>> as_period("night"), as_period((22, 6))
    ((19, 7), (22, 6))
    """
    hours = PERIODS.get(period.replace("-", " ")) if isinstance(period, str) else period
    try:
        begin, end = hours  # type: ignore[misc]
        fine = 0 <= int(begin) == begin < 24 and 0 <= int(end) == end <= 24 and begin != end
    except (TypeError, ValueError, OverflowError):
        fine = False
    if not fine:
        raise InputError(
            f"a period must be one of {', '.join(PERIODS)}, or two hours like (22, 6), "
            f"got {described(period)}"
        )
    return int(begin), int(end)


def count_visits(
    traces: Traces | pl.DataFrame,
    regions: Regions,
    zone: str = "UTC",
    *,
    count: str | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> Visits:
    """Read traces, and return who was in which region in which hour.

    Parameters
    ----------
    traces
        What `open_traces` found, or a polars table with the columns user, time, lat and lon.
    zone
        The time zone of hours, days and periods.
    count
        "hours": a region in an hour once. "points": each row once, whatever its time. If not
        given, hours where there are times, and points where there are none.
    progress
        Called with files done, files in all, and rows so far.
    cache
        A folder that only its owner may read; the same traces are not read twice.
    """
    check_zone(zone)
    if not isinstance(regions, Regions):
        raise InputError(
            f"regions must be SquareCells, H3Cells or Districts, got {described(regions)}"
        )
    if _counting(traces, count) == "points":
        return _points(traces, regions, zone, progress)
    reduce, funnel = partial(_reduce, regions, zone), Funnel()
    file = known = None
    if cache is not None and isinstance(traces, Traces):
        file = place_for(Path(cache), traces, [_FORMAT, regions.recipe(), zone])
        known = _unpacked(cached(file) or b"", traces.root)
    if known is not None:
        table, steps, funnel = known
    elif isinstance(traces, Traces):
        table, steps = _merged(traces.map(reduce, funnel, progress))
        if file is not None:
            keep(file, _packed(table, steps, funnel, traces.root))
    else:
        table, steps = _merged([reduce(checked_table(traces, funnel))])
    visited = table.with_columns(
        clock=pl.col("wall").dt.hour().cast(pl.Int8), day=pl.col("wall").dt.date()
    ).select("user", "hour", "clock", "day", "region")
    counted = Visits(visited, _begun(steps, zone), regions, zone, funnel)
    return counted.then("recorded, the same region in the same hour once", visited)


def _counting(traces: Traces | pl.DataFrame, count: str | None) -> str:
    """Return how traces are counted: as asked or, by default, by hours where there are times."""
    if count is not None and count not in COUNTS:
        raise InputError(f"count must be one of {', '.join(COUNTS)}, got {described(count)}")
    timed = traces.timed if isinstance(traces, Traces) else "time" in getattr(traces, "columns", ())
    if count == "hours" and not timed:
        raise InputError("count must be points where there are no times, got hours")
    return count or ("hours" if timed else "points")


def _points(
    traces: Traces | pl.DataFrame, regions: Regions, zone: str, progress: Progress | None
) -> Visits:
    """Count every row once."""

    def reduce(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.select("user", region=_regions_of(regions, batch))

    funnel = Funnel()
    if isinstance(traces, Traces):
        untimed = replace(traces, timed=False) if traces.timed else traces
        parts = list(untimed.map(reduce, funnel, progress))
    elif not isinstance(traces, pl.DataFrame):
        raise InputError("traces must be Traces, or a polars table with user, lat and lon")
    else:
        table = traces.with_columns(time=pl.lit(None, pl.Datetime("us", "UTC")))
        parts = [reduce(checked_table(table, funnel, timed=False))]
    numbered = pl.concat(parts).sort("user", "region").with_row_index("point")
    table = numbered.select(
        "user",
        hour=pl.lit(None, pl.Datetime("us", "UTC")),
        clock=pl.lit(0, pl.Int8),
        day=pl.lit(None, pl.Date),
        region="region",
        point="point",
    )
    none = pl.DataFrame(schema={"user": pl.String, "day": pl.Date, "traces": pl.UInt32})
    counted = Visits(table, none, regions, zone, funnel, counted="points")
    return counted.then("recorded, each row once", table)


def checked_table(table: pl.DataFrame, funnel: Funnel, timed: bool = True) -> pl.DataFrame:
    """Check and clean a table that the caller made."""
    if not isinstance(table, pl.DataFrame) or set(COLUMNS) - set(table.columns):
        raise InputError("traces must be Traces, or a polars table with user, time, lat and lon")
    when = table.schema["time"]
    if not isinstance(when, pl.Datetime) or when.time_zone is None:
        raise InputError(f"time must be a column of times with a time zone, got {when}")
    if not all(table.schema[name].is_numeric() for name in ("lat", "lon")):
        raise InputError("lat and lon must be columns of numbers")
    kept, seen = clean(
        table.select(
            pl.col("user").cast(pl.String),
            pl.col("time").dt.convert_time_zone("UTC").dt.cast_time_unit("us"),
            pl.col("lat", "lon").cast(pl.Float64),
        ).with_columns(file=pl.lit("the table"), line=pl.int_range(1, pl.len() + 1)),
        timed,
    )
    funnel.add(seen)
    return kept


_Pair = tuple["pl.DataFrame", "pl.DataFrame"]  # visits, and moments
_VISITS, _MOMENTS = ("user", "hour", "wall", "region"), ("user", "step")


def _reduce(regions: Regions, zone: str, batch: pl.DataFrame) -> _Pair:
    """Return the visits of a batch, and the steps of five minutes with a point."""
    wall = pl.col("time").dt.convert_time_zone(zone).dt.replace_time_zone(None)
    # When the local hour began: when clocks are put back, two hours have the same name.
    began = pl.col("time") - (pl.col("wall") - pl.col("wall").dt.truncate("1h"))
    rows = batch.select("user", "time", wall=wall).select(
        "user",
        hour=began,
        wall=pl.col("wall").dt.truncate("1h"),
        region=_regions_of(regions, batch),
        step=pl.col("time").dt.epoch("s").floordiv(STEP_S),
    )
    return rows.select(_VISITS).unique(), rows.select(_MOMENTS).unique()


def _regions_of(regions: Regions, batch: pl.DataFrame) -> pl.Series:
    inside = regions.of(batch["lat"].to_numpy(), batch["lon"].to_numpy())
    return pl.Series(inside, dtype=pl.Int64)


def _merged(parts: Iterable[_Pair]) -> _Pair:
    """Return each row of the parts once, sorted; parts are merged early to bound the memory."""
    held: list[_Pair] = []
    rows = 0
    for part in parts:
        held.append(part)
        rows += len(part[0]) + len(part[1])
        if rows > _HELD_ROWS and len(held) > 1:
            held = [_union(held)]
            rows = (len(held[0][0]) + len(held[0][1])) // 2  # merge again after as many more
    visits, moments = _union(held)
    return visits.sort(_VISITS), moments.sort(_MOMENTS)


def _union(parts: list[_Pair]) -> _Pair:
    visits, moments = zip(*parts, strict=True)
    return pl.concat(visits).unique(), pl.concat(moments).unique()


def _begun(steps: pl.DataFrame, zone: str) -> pl.DataFrame:
    """Count the traces that begin each day: those after a pause, and the first."""
    pause = pl.col("step").diff().over("user")
    starts = steps.filter(pause.is_null() | (pause > _PAUSE_STEPS))
    return _by_day(starts, pl.from_epoch(pl.col("step") * STEP_S, time_unit="s"), zone)


def _by_day(starts: pl.DataFrame, moment: pl.Expr, zone: str) -> pl.DataFrame:
    """Count the traces of each user and day: they begin at a moment, in UTC."""
    day = moment.dt.replace_time_zone("UTC").dt.convert_time_zone(zone).dt.date()
    days = starts.select("user", day=day).drop_nulls()
    return days.group_by("user", "day").agg(traces=pl.len()).sort("user", "day")


def traces_by_file(visits: Visits, traces: Traces) -> Visits:
    """Count a file as a trace, as the authors of GeoLife do, by the time in its name.

    For `busiest_window`: without this, a pause of 20 minutes ends a trace.
    """
    if traces.kind != "geolife":
        raise InputError(f"a file is a trace in GeoLife's tree only, got {traces.kind} traces")
    rows = [(user, file.name.partition(".")[0]) for user, files in traces.groups for file in files]
    names = pl.DataFrame(rows, schema=["user", "name"], orient="row")
    moment = pl.col("name").str.to_datetime("%Y%m%d%H%M%S", strict=False, time_unit="us")
    return replace(visits, traces=_by_day(names, moment, visits.zone))


def _packed(table: pl.DataFrame, steps: pl.DataFrame, funnel: Funnel, root: Path) -> bytes:
    """Put the counts into one archive; files are named relative to their root, which may move."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("visits", parquet_bytes(table))
        archive.writestr("steps", parquet_bytes(steps))
        rows = asdict(funnel)
        for name in ("broken", "where"):
            rows[name] = [(os.path.relpath(file, root), *rest) for file, *rest in rows[name]]
        archive.writestr("funnel", json.dumps(rows))
    return packed.getvalue()


def _unpacked(content: bytes, root: Path) -> tuple[pl.DataFrame, pl.DataFrame, Funnel] | None:
    """Return the counts of an archive; None if it is something else."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            frames = [pl.read_parquet(io.BytesIO(archive.read(n))) for n in ("visits", "steps")]
            rows = json.loads(archive.read("funnel"))
        for name in ("broken", "where"):
            rows[name] = [(str(root / file), *rest) for file, *rest in rows[name]]
        return frames[0].select(_VISITS), frames[1].select(_MOMENTS), Funnel(**rows)
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, pl.exceptions.PolarsError):
        return None
