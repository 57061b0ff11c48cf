"""Walks: where people were at the times of their reports, from traces.

Traces have pauses: at night, and indoors. A person who is at nearly the same point before and after
a pause has stayed there, and a device would have gone on reporting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whereish.attacks.home_and_work import Anchor
from whereish.errors import InputError
from whereish.lazy import pl
from whereish.places import Array, Places, as_number
from whereish.profiles.movement import STAY_GAP_S
from whereish.profiles.visits import checked_table
from whereish.traces import Funnel, Traces

EVERY_S = 600.0
STAYED_KM = 0.2
_HOME_CELL_KM = 0.1
_LEAST_HOME = 6  # an hour of reports every ten minutes


@dataclass(frozen=True, eq=False)
class Walk:
    """Where a person was at the times of the reports. This is personal: repr does not show it.

    Attributes
    ----------
    user
        Whose it is.
    times_s
        (T,) seconds since 1970, increasing.
    latlon
        (T, 2) degrees.
    """

    user: str
    times_s: Array = field(repr=False)
    latlon: Array = field(repr=False)

    def __len__(self) -> int:
        return len(self.times_s)

    def __repr__(self) -> str:
        return f"Walk({len(self)} reports)"

    def part(self, begin_s: float, end_s: float) -> Walk:
        """Return what is from one time on, before another."""
        inside = (self.times_s >= begin_s) & (self.times_s < end_s)
        return Walk(self.user, self.times_s[inside], self.latlon[inside])

    def xy(self, places: Places) -> Array:
        """Return the points in the plane of places, in km."""
        if places.plane is None:
            raise InputError("places must be on the earth (lat, lon), got places in a plane")
        return places.plane.to_xy(self.latlon)

    def anchor(self, places: Places, anchor: Anchor, zone: str) -> Array | None:
        """Return where the person mostly is in the hours of an anchor, (2,) km; None if unknown.

        It is the mean of the points in the cell of 100 m that has most of them.
        """
        _, inside = anchor.days(self.times_s, zone)
        if inside.sum() < _LEAST_HOME:
            return None
        points = self.xy(places)[inside]
        cells = np.floor(points / _HOME_CELL_KM).astype(np.int64)
        _, cell, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        return np.asarray(points[cell.reshape(-1) == counts.argmax()].mean(axis=0))


def walks_of(
    traces: Traces | pl.DataFrame, every_s: float = EVERY_S, stay_gap_s: float = STAY_GAP_S
) -> dict[str, Walk]:
    """Return the walk of each person: a report in each step with a point, and in stays.

    Parameters
    ----------
    every_s
        Seconds between two reports.
    stay_gap_s
        The longest pause in which a person counts as staying, if the points before and after it
        are within 200 m.
    """
    every = as_number("every_s", every_s, unit="seconds")
    tables = list(traces.batches()) if isinstance(traces, Traces) else [traces]
    frames = [_first_of_steps(_checked(table), every) for table in tables]
    table = pl.concat(frames).sort("user", "time").unique(["user", "step"], keep="first")
    found = {}
    for (user,), rows in table.sort("user", "time").group_by("user", maintain_order=True):
        steps = rows["step"].to_numpy()
        latlon = rows.select("lat", "lon").to_numpy()
        found[str(user)] = _filled(str(user), steps, latlon, every, stay_gap_s)
    return found


def _checked(table: pl.DataFrame) -> pl.DataFrame:
    return checked_table(table, Funnel()).select("user", "time", "lat", "lon")


def _first_of_steps(table: pl.DataFrame, every: float) -> pl.DataFrame:
    step = (pl.col("time").dt.epoch("us") / (every * 1e6)).floor().cast(pl.Int64)
    rows = table.with_columns(step=step).sort("user", "time")
    return rows.unique(["user", "step"], keep="first", maintain_order=True)


def _filled(user: str, steps: Array, latlon: Array, every: float, stay_gap_s: float) -> Walk:
    """Repeat the point before a pause, where the person has stayed."""
    apart = np.diff(steps, append=steps[-1:] + 1)
    after = np.roll(latlon, -1, axis=0)
    metres = 111_000 * np.array([1, 1]) * (after - latlon)
    metres[:, 1] *= np.cos(np.radians(latlon[:, 0]))
    stayed = (np.hypot(*metres.T) <= STAYED_KM * 1000) & (apart * every <= stay_gap_s)
    lengths = np.where(stayed, apart, 1).astype(np.int64)
    number = np.repeat(np.arange(len(steps)), lengths)
    begin = np.repeat(np.cumsum(lengths) - lengths, lengths)
    times = (steps[number] + np.arange(len(number)) - begin) * every
    return Walk(user, times.astype(np.float64), latlon[number])
