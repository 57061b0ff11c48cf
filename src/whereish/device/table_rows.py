"""Replace the true locations of a table by reports, batch by batch, and check the whole table.

Errors are raised at the end, with counts over the whole file.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.device.column_leaks import ReservoirSample, encoded_columns, leaking_columns
from whereish.device.drawing import DeviceMechanism, draw_at
from whereish.device.people_budgets import Totals
from whereish.device.table_columns import Columns
from whereish.device.table_times import check_times, rounded, seconds_of
from whereish.errors import InputError, WhereishError, seems_data
from whereish.everywhere import Everywhere
from whereish.mechanisms.by_time import MechanismByTime
from whereish.places import Array
from whereish.release import OUTSIDE, Reports


@dataclass(frozen=True)
class Obfuscated:
    """The summary of an obfuscated table.

    Attributes
    ----------
    rows, blank
        The number of rows, and of rows without a location, which stay without one.
    outside
        The number of locations outside the area of the places, or the rectangle of a lattice.
    columns
        The two columns that were replaced.
    user, users, most_per_user
        The column of users, if there is one; the number of users; and the largest number of
        locations of one user, who spends that many times epsilon.
    kept, left_out
        The other columns that are in the new table, and those that are not.
    telling
        Columns that leak the true locations, and were kept because the caller asked for it.
    order
        The order of the rows: "shuffled", "time" (sorted by the time column, with equal times
        shuffled) or "unchanged".
    over_time
        What the traces have spent, and what was left out; None without a policy over time.
    """

    rows: int
    blank: int
    outside: int
    columns: tuple[str, str]
    user: str | None
    users: int | None
    most_per_user: int | None
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    telling: tuple[str, ...] = ()
    order: str = "unchanged"
    over_time: Totals | None = None


@dataclass
class Batch:
    """An obfuscated batch of rows.

    Attributes
    ----------
    frame, before
        The rows with reports, and with the true locations.
    points
        (n, 2) true locations.
    wrong, beyond, outside, untimed
        The number of values that are no numbers, of locations that are no coordinates, of locations
        outside the area, and of rows without a time that need one.
    """

    frame: Any
    before: Any
    points: Array
    wrong: int
    beyond: int
    outside: int
    untimed: int = 0


@dataclass(frozen=True, eq=False)
class _Points:
    """The points of a batch: which are known and usable; values and points that are not."""

    points: Array
    known: NDArray[np.bool_]
    usable: NDArray[np.bool_]
    wrong: int
    beyond: int


@dataclass
class RowObfuscator:
    """Obfuscates batches of rows, and counts over the whole file.

    Parameters
    ----------
    policy
        For locations outside the area, see `Mechanism.sample`.
    stop
        Set it to end the work of other threads.
    """

    mechanism: DeviceMechanism
    columns: Columns
    policy: str
    progress: Callable[[int], object] | None
    stop: threading.Event = field(default_factory=threading.Event)
    people: Counter[Any] = field(default_factory=Counter)
    telling: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    blank: int = 0
    outside: int = 0
    wrong: int = 0
    beyond: int = 0
    untimed: int = 0

    def __post_init__(self) -> None:
        names = self.columns
        self._sample = ReservoirSample([*names.declared, *names.checked, *names.anyway])

    def check_stopped(self) -> None:
        """Raise WhereishError if `stop` is set."""
        if self.stop.is_set():
            raise WhereishError("stopped")

    def obfuscated(self, helpers: ThreadPoolExecutor, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches with reports, in order, two at a time in threads."""
        waiting: list[Any] = []
        for frame in batches:
            self.check_stopped()
            waiting.append(helpers.submit(self._obfuscate, frame))
            if len(waiting) > 2:
                yield self._count(waiting.pop(0).result())
        for future in waiting:
            yield self._count(future.result())

    def _obfuscate(self, frame: Any) -> Batch:
        self.check_stopped()
        read = self._read_points(frame)
        reported, outside, untimed = np.full(read.points.shape, np.nan), 0, 0
        if read.usable.any() and not self.wrong and not read.wrong:
            times = self._times(frame)[read.usable]
            untimed = int((~np.isfinite(times)).sum())
            if not untimed:
                reports = self._reports(read.points[read.usable], times)
                reported[read.usable] = reports.xy if reports.latlon is None else reports.latlon
                outside = int(reports.outside.sum())
        after = self._with_reports(frame, reported)
        return Batch(after, frame, read.points, read.wrong, read.beyond, outside, untimed)

    def _read_points(self, frame: Any) -> _Points:
        import polars as pl

        numbers = [frame[name].cast(pl.Float64, strict=False) for name in self.columns.pair]
        wrong = sum(
            int((frame[name].is_not_null() & number.is_null()).sum())
            for name, number in zip(self.columns.pair, numbers, strict=True)
        )
        points = np.column_stack([number.to_numpy() for number in numbers])
        known = np.isfinite(points).all(axis=1)
        earth = self.mechanism.outputs.plane is not None
        most = np.array([90.0, 180.0]) if earth else np.array([1e12, 1e12])
        beyond = known & (np.abs(points) > most).any(axis=1)
        return _Points(points, known, known & ~beyond, wrong, int(beyond.sum()))

    def _with_reports(self, frame: Any, reported: Array) -> Any:
        """Return the columns of the new table, with these coordinates and with rounded times."""
        import polars as pl

        columns = self.columns
        after = frame.with_columns(
            pl.Series(name, reported[:, part]).fill_nan(None)
            for part, name in enumerate(columns.pair)
        )
        if columns.round_s is not None and columns.time in columns.kinds:
            after = after.with_columns(rounded(frame[columns.time], columns.round_s))
        return after.select(
            pl.col(name).cast(kind) for name, kind in columns.kinds.items()
        ).rechunk()

    def _times(self, frame: Any) -> Array:
        """Return the times of the rows where the clock chooses the mechanism; otherwise zeros."""
        if not isinstance(self.mechanism, MechanismByTime):
            return np.zeros(len(frame))
        return seconds_of(frame[self.columns.time])

    def _reports(self, points: Array, times: Array) -> Reports:
        if isinstance(self.mechanism, Everywhere):
            return self.mechanism.sample(points)
        # `finish` raises the error, with counts of the whole file.
        policy = "nearest" if self.policy == "error" else self.policy
        return draw_at(self.mechanism, points, times, outside=policy)

    def _count(self, batch: Batch) -> Any:
        self.rows += len(batch.before)
        self.blank += int((~np.isfinite(batch.points).all(axis=1)).sum())
        self.wrong += batch.wrong
        self.beyond += batch.beyond
        self.outside += batch.outside
        self.untimed += batch.untimed
        if self.columns.user is not None:
            counts = batch.before[self.columns.user].alias("who").value_counts(name="rows")
            self.people.update(dict(counts.iter_rows()))
        self._sample.add(batch.points, batch.before)
        if self.progress is not None:
            self.progress(self.rows)
        return batch.frame

    def finish(self) -> None:
        """Raise InputError, with counts of the whole file, if values or columns are unusable."""
        first, second = self.columns.pair
        if self.wrong:
            raise InputError(
                f"columns {first} and {second} must hold numbers, and {self.wrong:,} of the "
                f"values in {self.rows:,} rows do not"
            )
        if self.beyond:
            raise InputError(
                f"{first} and {second} must be latitude from -90 to 90 and longitude from -180 to "
                f"180 degrees, in this order, or finite km in a plane; {self.beyond:,} of "
                f"{self.rows:,} rows are not"
            )
        check_times(self.columns.time, self.untimed)
        if not isinstance(self.mechanism, Everywhere) and self.outside and self.policy == "error":
            raise InputError(
                f"{self.outside:,} of {self.rows - self.blank:,} points must be inside the area, "
                f"within {self.mechanism.inputs.largest_snap_km:.3g} km of a place, and are not; "
                f"to report them anyway: --outside {' or '.join(OUTSIDE[1:])} (outside= in Python)"
            )
        self._check_columns()

    def _check_columns(self) -> None:
        """Refuse columns that leak the locations, unless the caller keeps them anyway."""
        names, (points, frame) = self.columns, self._sample.rows()
        if frame is None:
            return
        leaks = leaking_columns(frame, names.checked, points)
        leaks |= encoded_columns(frame, names.declared, points)
        if leaks:
            reasons = "; ".join(
                f"{'one whose name seems to be data' if seems_data(name) else name} ({reason})"
                for name, reason in leaks.items()
            )
            raise InputError(
                f"columns that are kept must not leak the true locations, and these do: {reasons}. "
                "Leave them out. Or name them in keep_anyway (--keep-anyway A,B): then the "
                "guarantee does not hold for a reader of the table"
            )
        self.telling = leaking_columns(frame, names.anyway, points)

    def summary(self, order: str) -> Obfuscated:
        """Return the summary of the new table, whose rows are in this order."""
        columns, known = self.columns, self.columns.user is not None
        return Obfuscated(
            rows=self.rows,
            blank=self.blank,
            outside=self.outside,
            columns=columns.pair,
            user=columns.user,
            users=len(self.people) if known else None,
            most_per_user=max(self.people.values(), default=0) if known else None,
            kept=columns.kept,
            left_out=columns.left_out,
            telling=tuple(self.telling),
            order=order,
            over_time=self.totals(),
        )

    def totals(self) -> Totals | None:
        """Return what traces have spent; None without a policy over time."""
        return None
