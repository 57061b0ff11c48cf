"""The protocol of the predictive mechanism: which traces are taken, and when they report.

A trace is a part of a person's points without a long pause, with one point a minute at most, and
only points at which the person moves slowly: others are in a car or a train. It has at least 20
points and lasts at least 20 minutes. A device that follows it reports after every minute; or, with
probability p at each report, after a jump of 30 or 60 minutes; or at a fixed rate.

References
----------
.. [1] Chatzikokolakis, Palamidessi, Stronati: A predictive differentially-private mechanism for
   mobility traces. PETS 2014, Section 5.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.lazy import pl
from whereish.places import Array, LocalPlane, as_number
from whereish.profiles.visits import checked_table
from whereish.traces import Funnel, Traces
from whereish.traces.source import Progress

MINUTE_S = 60.0
JUMPS_S = (1800.0, 3600.0)
BUDGET = np.log(10) / 0.1  # epsilon per km for a whole trace: ln 10 per 100 m
_SECONDS_OF_HOUR = 3600.0


@dataclass(frozen=True)
class Rules:
    """Which parts of a person's points are traces.

    Attributes
    ----------
    points, minutes
        A trace has at least so many points, one a minute at most, and lasts so long.
    speed_kmh
        Points that are reached faster are left out.
    pause_s
        A longer pause between two points ends a trace, before points are thinned to one a minute.
        It is longer than the longest jump.
    per_person
        At most so many traces of each person, drawn at random.
    """

    points: int = 20
    minutes: float = 20.0
    speed_kmh: float = 15.0
    pause_s: float = 2 * 3600.0
    per_person: int = 20

    def __post_init__(self) -> None:
        for name in ("points", "minutes", "speed_kmh", "pause_s", "per_person"):
            as_number(name, getattr(self, name))


@dataclass(frozen=True, eq=False)
class Trace:
    """Where a person was at some times. This is personal: repr does not show it.

    Attributes
    ----------
    user
        Whose it is.
    times_s
        (T,) seconds since 1970, increasing.
    xy
        (T, 2) km in a plane.
    """

    user: str
    times_s: Array = field(repr=False)
    xy: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.times_s)

    def __repr__(self) -> str:
        return f"Trace({len(self)} points)"

    def take(self, rows: NDArray[np.int64]) -> Trace:
        """Return some of the points."""
        return replace(self, times_s=self.times_s[rows], xy=self.xy[rows])


@dataclass(frozen=True)
class Sampling:
    """When a device reports along a trace.

    Attributes
    ----------
    name
        In tables and figures.
    gap_s
        Seconds between two reports: the next one is the first point at least so much later.
    jump
        The probability that the next report is after a jump instead: of 30 or of 60 minutes, each
        as likely.

    >>> trace = Trace("a", np.arange(0.0, 600.0, 60.0), np.zeros((10, 2)))
    >>> Sampling("every 3 minutes", 180.0).of(trace, np.random.default_rng(0)).times_s.tolist()
    [0.0, 180.0, 360.0, 540.0]
    """

    name: str
    gap_s: float = MINUTE_S
    jump: float = 0.0

    def __post_init__(self) -> None:
        as_number("gap_s", self.gap_s, unit="seconds")
        if not 0 <= self.jump <= 1:
            raise InputError(f"jump must be a probability from 0 to 1, got {self.jump:g}")

    def of(self, trace: Trace, rng: np.random.Generator) -> Trace:
        """Return the points of a trace at which the device reports."""
        rows, now = [0], 0
        while True:
            jumps = self.jump > 0 and rng.random() < self.jump
            gap = JUMPS_S[int(rng.integers(len(JUMPS_S)))] if jumps else self.gap_s
            # Half a second: times of readers are rounded, the gaps of people are not.
            now = int(np.searchsorted(trace.times_s, trace.times_s[now] + gap - 0.5))
            if now >= len(trace):
                return trace.take(np.array(rows))
            rows.append(now)


def sample_all(traces: Sequence[Trace], sampling: Sampling, seed: int) -> list[Trace]:
    """Return what each trace reports, at least two points of it; others are left out."""
    rng = np.random.default_rng(seed)
    sampled = [sampling.of(trace, rng) for trace in traces]
    return [trace for trace in sampled if len(trace) > 1]


def select_traces(
    source: Traces | Iterable[pl.DataFrame],
    plane: LocalPlane,
    area: tuple[float, float, float, float],
    rules: Rules | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Trace]:
    """Return the traces of people that the rules allow, in the order of the people.

    Parameters
    ----------
    source
        What `open_traces` found, or polars tables with the columns user, time, lat and lon, each
        of all points of a person.
    plane
        For the coordinates of the traces.
    area
        South, west, north and east, in degrees. Points elsewhere are left out, and end no trace.
    seed
        Draws the traces of people who have more than the rules allow.
    """
    chosen = rules or Rules()

    def work(table: pl.DataFrame) -> list[Trace]:
        found: list[Trace] = []
        rows = _inside(table, area).sort("user", "time").unique(["user", "time"], keep="first")
        for (user,), part in rows.sort("user", "time").group_by("user", maintain_order=True):
            own = traces_of(str(user), *_columns(part, plane), chosen)
            # A generator for each person: others change nothing.
            rng = np.random.default_rng([seed, zlib.crc32(str(user).encode())])
            some = np.sort(rng.permutation(len(own))[: chosen.per_person])
            found += [own[number] for number in some.tolist()]
        return found

    if isinstance(source, Traces):
        parts = source.map(work, progress=progress)
    else:
        parts = (work(checked_table(table, Funnel())) for table in source)
    return sorted(
        (trace for part in parts for trace in part), key=lambda one: (one.user, one.times_s[0])
    )


def traces_of(user: str, times_s: Array, xy: Array, rules: Rules) -> list[Trace]:
    """Return the traces of one person, from all points in the order of time."""
    if len(times_s) == 0:
        return []
    hours = np.diff(times_s) / _SECONDS_OF_HOUR
    speed = np.hypot(*np.diff(xy, axis=0).T) / np.maximum(hours, 1e-9)
    slow = np.concatenate([[True], speed < rules.speed_kmh])
    times, points = times_s[slow], xy[slow]
    cuts = np.flatnonzero(np.diff(times) > rules.pause_s) + 1
    found = []
    for part in np.split(np.arange(len(times)), cuts):
        rows = part[_a_minute_apart(times[part])]
        lasts = times[rows[-1]] - times[rows[0]]
        if len(rows) >= rules.points and lasts >= rules.minutes * MINUTE_S:
            found.append(Trace(user, times[rows], points[rows]))
    return found


def _a_minute_apart(times_s: Array) -> NDArray[np.int64]:
    """Return the first point, and each first point that is a minute after the one before."""
    rows, now = [], 0
    while now < len(times_s):
        rows.append(now)
        now = int(np.searchsorted(times_s, times_s[now] + MINUTE_S - 0.5))
    return np.array(rows, dtype=np.int64)


def _inside(table: pl.DataFrame, area: tuple[float, float, float, float]) -> pl.DataFrame:
    south, west, north, east = area
    return table.filter(
        pl.col("lat").is_between(south, north) & pl.col("lon").is_between(west, east)
    )


def _columns(rows: pl.DataFrame, plane: LocalPlane) -> tuple[Array, Array]:
    times = rows["time"].dt.epoch("us").to_numpy() / 1e6
    return times, plane.to_xy(rows.select("lat", "lon").to_numpy())
