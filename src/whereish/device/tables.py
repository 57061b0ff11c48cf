"""Obfuscate a table of locations: replace them by reports, keep declared columns, shuffle rows.

Tables stream through polars in batches, so that they may be larger than the memory.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whereish.device.drawing import DeviceMechanism
from whereish.device.reporter import check_no_policy
from whereish.device.shuffle import RowBuffer, is_sorted, shuffle_ties
from whereish.device.table_columns import Columns, Declared, choose, find_pair, scan, size_of
from whereish.device.table_rows import Obfuscated, RowObfuscator
from whereish.device.table_times import usual_time
from whereish.device.trace_rows import OverTime, TraceObfuscator
from whereish.errors import FormatError, InputError, WhereishError, described
from whereish.everywhere import Everywhere
from whereish.files import check_writable, real_path
from whereish.mechanisms.by_time import MechanismByTime
from whereish.places import as_number
from whereish.release import OUTSIDE

__all__ = ["Obfuscated", "obfuscate_table"]

_KINDS = (".csv", ".parquet")
_BATCH = 100_000  # rows per batch


def obfuscate_table(
    mechanism: DeviceMechanism,
    source: str | Path,
    target: str | Path,
    columns: tuple[str, str] | None = None,
    user: str | None = None,
    *,
    time: str | None = None,
    keep: Sequence[str] = (),
    keep_anyway: Sequence[str] = (),
    drop: Sequence[str] = (),
    shuffle: bool | None = None,
    outside: str = "error",
    over_time: OverTime | None = None,
    round_times: float | None = None,
    progress: Callable[[int], object] | None = None,
) -> Obfuscated:
    """Replace the true locations in a CSV or Parquet table by reports.

    The new table has the two columns of the reports and the declared columns: `user`, `time` and
    `keep`. All others are left out, because no list of names says which columns leak a location.

    Parameters
    ----------
    mechanism
        Draws the reports. Of a `MechanismByTime` the time of a row chooses one: without `time`, a
        column with a usual name is read, but not kept.
    source, target
        ``.csv`` or ``.parquet``, both. The target is written atomically.
    columns
        Latitude and longitude (or x and y in km); by default ``lat, lon``, ``latitude,
        longitude``, ``lat, lng`` or ``x_km, y_km``.
    user
        The column of users. Locations of one person are correlated, and k of them cost k epsilon.
        By default a column with a usual name is counted, but not kept.
    time
        The column of times. It is kept unchanged: exact times may identify a person.
    keep
        Other columns to keep, or "all". A column that leaks the locations is refused.
    keep_anyway
        Columns to keep although they may leak the locations, or "all".
    drop
        Columns to leave out, where `keep` is "all".
    shuffle
        Whether the rows are shuffled: the position of a row may leak its location. By default they
        are, unless the table is sorted by `time`: then that order is kept, and rows with equal
        times are shuffled.
    outside
        The policy for locations outside the area, see `Mechanism.sample`. A mechanism with a
        guarantee for every point needs none: it takes the default only, and moves a location
        outside the rectangle of its lattice onto it. No location is moved to a place first.
    over_time
        Report whole traces with a policy and a budget for each person and period, instead of
        drawing every row. The rows of each person must be in the order of time. Without `time`, a
        column with a usual name is read, but not kept. Rows beyond the budget are left out.
    round_times
        Seconds to which the kept times are rounded down.
    progress
        Called with the number of rows done.

    Notes
    -----
    Memory: a few hundred MB besides the libraries, for a table of any size; larger tables are
    shuffled with temporary files in a folder beside the target.
    """
    if not isinstance(mechanism, DeviceMechanism):
        raise InputError(f"mechanism must be a Mechanism, got {type(mechanism).__name__}")
    if outside not in OUTSIDE:
        raise InputError(f"outside must be one of {', '.join(OUTSIDE)}, got {described(outside)}")
    if isinstance(mechanism, Everywhere):
        check_no_policy(outside)
    if shuffle is not None and not isinstance(shuffle, bool):
        raise InputError(f"shuffle must be True, False or None, got {described(shuffle)}")
    from_file, to_file = _files(source, target)
    declared = Declared(columns, user, time, keep, keep_anyway, drop)
    with _polars_errors(f"{from_file} cannot be read"):
        table = scan(from_file)
        schema = table.collect_schema()
        pair = find_pair(schema, declared, mechanism, from_file.suffix.lower() == ".csv")
        chosen = choose(schema, declared, pair)
        size = size_of(table, from_file, chosen)
    if round_times is not None:
        chosen = replace(chosen, round_s=float(as_number("round_times", round_times)))
    if over_time is not None or isinstance(mechanism, MechanismByTime):
        chosen = _with_time(chosen, schema)
    rows = RowObfuscator(mechanism, chosen, outside, progress)
    if over_time is not None:
        rows = _over_time(mechanism, chosen, outside, progress, over_time)
    pipeline = _Pipeline(table, rows, size, to_file, time, shuffle)
    with _polars_errors(
        f"{from_file} cannot be obfuscated: a row is not as the others are, or it cannot be written"
    ):
        return rows.summary(pipeline.run())


def _over_time(
    mechanism: DeviceMechanism,
    chosen: Columns,
    outside: str,
    progress: Callable[[int], object] | None,
    over_time: OverTime,
) -> TraceObfuscator:
    if not isinstance(over_time, OverTime):
        raise InputError(f"over_time must be OverTime, got {described(over_time)}")
    if outside == OUTSIDE[2]:
        raise InputError(f"outside must be error or nearest for reports over time, got {outside}")
    return TraceObfuscator(mechanism, chosen, outside, progress, over_time=over_time)


def _with_time(chosen: Columns, schema: Any) -> Columns:
    """Return the columns with that of the times: the declared one, or one with a usual name."""
    chosen = chosen if chosen.time is not None else replace(chosen, time=usual_time(schema))
    if chosen.time is None:
        raise InputError(
            "the table must have a column of times for reports over time, or for mechanisms by "
            "time, and none has a usual name: give its name as time (--time COLUMN)"
        )
    return chosen


@contextlib.contextmanager
def _polars_errors(problem: str) -> Iterator[None]:
    """Turn the errors of polars into FormatError without their text, which may hold a row."""
    import polars as pl

    try:
        yield
    except WhereishError:
        raise
    except (pl.exceptions.PolarsError, OSError) as wrong:
        for cause in (wrong, wrong.__cause__, wrong.__context__):
            if isinstance(cause, WhereishError):
                raise cause from None
        raise FormatError(f"{problem} ({type(wrong).__name__})") from None


@dataclass
class _Pipeline:
    """The steps from one table to the other: obfuscate all rows, order them, write them."""

    table: Any
    rows: RowObfuscator
    size: int
    target: Path
    time: str | None
    shuffle: bool | None
    buffer: RowBuffer | None = None

    def run(self) -> str:
        """Write the target through a temporary file, and return the order of its rows."""
        # All work is in other threads, so that Ctrl-C interrupts this one in Python code, once.
        worker, helpers = ThreadPoolExecutor(1), ThreadPoolExecutor(2)
        target = real_path(self.target)
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{self.target.name}.", suffix=self.target.suffix, dir=target.parent
        )
        try:
            with os.fdopen(descriptor, "wb") as out:
                order: str = worker.submit(self._write, out, helpers).result()
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, target)
        finally:
            self.rows.stop.set()
            for pool in (worker, helpers):
                pool.shutdown(wait=True, cancel_futures=True)
            if self.buffer is not None:
                self.buffer.close()
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return order

    def _write(self, out: Any, helpers: ThreadPoolExecutor) -> str:
        rows, columns, by_time = self.rows, self.rows.columns, False
        if self.time is not None and self.shuffle is None:
            times = _batches(self.table.select(self.time))
            by_time = is_sorted(times, self.time, rows.check_stopped)
        shuffled = self.shuffle is True or (self.shuffle is None and not by_time)
        self.buffer = RowBuffer(real_path(self.target), self.size, shuffled)
        for frame in rows.obfuscated(helpers, _batches(self.table.select(columns.needed))):
            self.buffer.add(frame)
        rows.finish()
        frames = self.buffer.frames()
        if by_time and self.time is not None:
            frames = shuffle_ties(frames, self.time)
        _write(frames, columns, self.target, out, rows.check_stopped)
        return "shuffled" if shuffled else "time" if by_time else "unchanged"


def _batches(table: Any) -> Iterator[Any]:
    batches: Iterator[Any] = table.collect_batches(chunk_size=_BATCH, maintain_order=True)
    return batches


def _write(
    frames: Iterator[Any], columns: Columns, file: Path, out: Any, check_stopped: Callable[[], None]
) -> None:
    """Write a table frame by frame. The metadata of the old file is not available here."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def source(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        for frame in frames:
            check_stopped()
            yield frame

    stream = register_io_source(source, schema=pl.Schema(columns.kinds))
    if file.suffix.lower() == ".csv":
        stream.sink_csv(out, engine="streaming")
    else:
        stream.sink_parquet(out, engine="streaming")


def _files(source: Any, target: Any) -> tuple[Path, Path]:
    if not all(isinstance(name, str | Path) for name in (source, target)):
        raise InputError("source and target must be the names of files")
    from_file, to_file = Path(source), Path(target)
    for name, file in (("source", from_file), ("target", to_file)):
        if file.suffix.lower() not in _KINDS:
            raise InputError(f"{name} must be a .csv or .parquet file, got {file}")
    if not from_file.is_file():
        raise InputError(f"source must be a file that exists, got {from_file}")
    check_writable(to_file)
    if to_file.exists() and to_file.samefile(from_file):
        raise InputError(f"target must be another file than source, got {to_file} for both")
    return from_file, to_file
