"""The rows of a table that is obfuscated: points replaced batch by batch, counted as a whole."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whereish.device.column_leaks import Sample, reads_as_points, telling
from whereish.device.table_columns import Columns
from whereish.errors import InputError, WhereishError, seems_data
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array
from whereish.release import OUTSIDE


@dataclass(frozen=True)
class Obfuscated:
    """What became of a table.

    Attributes
    ----------
    rows, blank
        How many rows there were, and how many had no point: these stay without one.
    outside
        How many points were outside the area of the places.
    columns
        The two that were replaced.
    user, users, most_per_user
        The column that says whose point it is, if there is one, how many people there are, and how
        many points the one with the most has: so many times epsilon is what that one spends.
    kept, left_out
        The other columns: those in the new table, and those that are not.
    telling
        Kept columns that tell the true points, because they were to be kept anyway.
    order
        How the rows of the new table are ordered: "shuffled", "time" (by the time column, equal
        times shuffled) or "unchanged".
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


@dataclass
class Batch:
    """A batch of rows whose points are replaced, and what was found in it."""

    frame: Any
    before: Any  # the rows as they were
    points: Array
    wrong: int
    beyond: int
    outside: int


@dataclass
class Work:
    """Replaces points batch by batch, and counts over the whole file."""

    mechanism: Mechanism
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

    def __post_init__(self) -> None:
        names = self.columns
        self._sample = Sample([*names.declared, *names.checked, *names.anyway])

    def check(self) -> None:
        """Raise if nobody waits for this any more."""
        if self.stop.is_set():
            raise WhereishError("stopped")

    def in_turn(self, helpers: ThreadPoolExecutor, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches with their points replaced, in their order, two worked on at once."""
        waiting: list[Any] = []
        for frame in batches:
            self.check()
            waiting.append(helpers.submit(self._hide, frame))
            if len(waiting) > 2:
                yield self._counted(waiting.pop(0).result())
        for future in waiting:
            yield self._counted(future.result())

    def _hide(self, frame: Any) -> Batch:
        import polars as pl

        self.check()
        numbers = [frame[name].cast(pl.Float64, strict=False) for name in self.columns.pair]
        wrong = sum(
            int((frame[name].is_not_null() & number.is_null()).sum())
            for name, number in zip(self.columns.pair, numbers, strict=True)
        )
        points = np.column_stack([number.to_numpy() for number in numbers])
        known = np.isfinite(points).all(axis=1)
        earth = self.mechanism.inputs.plane is not None
        most = np.array([90.0, 180.0]) if earth else np.array([1e12, 1e12])
        beyond = known & (np.abs(points) > most).any(axis=1)
        hidden = np.full(points.shape, np.nan)
        usable, strayed = known & ~beyond, 0
        if usable.any() and not self.wrong and not wrong:
            # "error" is for `finish`, which knows the whole file.
            policy = "nearest" if self.policy == "error" else self.policy
            reports = self.mechanism.sample(points[usable], outside=policy)
            hidden[usable] = reports.xy if reports.latlon is None else reports.latlon
            strayed = int(reports.outside.sum())
        after = frame.with_columns(
            pl.Series(name, hidden[:, part]).fill_nan(None)
            for part, name in enumerate(self.columns.pair)
        )
        after = after.select(
            pl.col(name).cast(kind) for name, kind in self.columns.kinds.items()
        ).rechunk()
        return Batch(after, frame, points, wrong, int(beyond.sum()), strayed)

    def _counted(self, batch: Batch) -> Any:
        self.rows += len(batch.frame)
        self.blank += int((~np.isfinite(batch.points).all(axis=1)).sum())
        self.wrong += batch.wrong
        self.beyond += batch.beyond
        self.outside += batch.outside
        for name in () if self.columns.user is None else (self.columns.user,):
            counts = batch.before[name].alias("who").value_counts(name="rows")
            self.people.update(dict(counts.iter_rows()))
        self._sample.add(batch.points, batch.before)
        if self.progress is not None:
            self.progress(self.rows)
        return batch.frame

    def finish(self) -> None:
        """Refuse the table, with counts of the whole file, if anything in it cannot be used."""
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
        if self.outside and self.policy == "error":
            raise InputError(
                f"{self.outside:,} of {self.rows - self.blank:,} points must be inside the area, "
                f"within {self.mechanism.inputs.largest_snap_km:.3g} km of a place, and are not; "
                f"outside can be {' or '.join(OUTSIDE[1:])}, which says what to report for them"
            )
        self._check_columns()

    def _check_columns(self) -> None:
        """Refuse columns that tell the points, unless they are to be kept anyway."""
        names, (points, frame) = self.columns, self._sample.rows()
        if frame is None:
            return
        told = telling(frame, names.checked, points)
        told |= reads_as_points(frame, names.declared, points)
        if told:
            reasons = "; ".join(
                f"{'one whose name seems to be data' if seems_data(name) else name} ({reason})"
                for name, reason in told.items()
            )
            raise InputError(
                f"columns that are kept must not tell the true points, and these do: {reasons}. "
                "Leave them out, or name them in keep_anyway (--keep-anyway A,B), and the "
                "guarantee is void for whoever reads the table"
            )
        self.telling = telling(frame, names.anyway, points)

    def made(self, order: str) -> Obfuscated:
        """Say what became of the table."""
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
        )
