"""Obfuscate a table of points: millions of rows in a stream; only declared columns are kept."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from whereish.device.shuffle import Spool, is_sorted, shuffle_ties
from whereish.device.table_columns import Columns, choose, find_pair, scan, size_of
from whereish.device.table_rows import Obfuscated, Work
from whereish.errors import FormatError, InputError, WhereishError, described
from whereish.files import check_writable, real_path
from whereish.mechanisms.mechanism import Mechanism
from whereish.release import OUTSIDE

__all__ = ["Obfuscated", "obfuscate_table"]

_KINDS = (".csv", ".parquet")
_BATCH = 100_000  # rows obfuscated at once


def obfuscate_table(
    mechanism: Mechanism,
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
    progress: Callable[[int], object] | None = None,
) -> Obfuscated:
    """Replace the points of a CSV or Parquet table by reports of them.

    The new table has the two columns of the reports and the columns that were declared: `user`,
    `time` and `keep`. All others are left out: no list of names says which columns hold a point.

    Parameters
    ----------
    source, target
        ``.csv`` or ``.parquet``, both. The target is written whole or not at all.
    columns
        Latitude and longitude (or x and y in km); by default ``lat, lon``, ``latitude,
        longitude``, ``lat, lng`` or ``x_km, y_km``.
    user
        The column that says whose point it is. Points of one person are correlated, and k of them
        cost k epsilon. By default one with a usual name is counted, but not kept.
    time
        The column that says when. It is kept as it is: exact times may identify somebody.
    keep
        Other columns to keep, or "all". A column that tells the points is refused.
    keep_anyway
        Columns to keep although they may tell the points, or "all".
    drop
        Columns to leave out, where `keep` is "all".
    shuffle
        Whether the rows are put into a random order: where they are in the table may tell the
        point. By default they are, unless the table is sorted by `time`: then that order is kept,
        and rows of equal times are shuffled.
    outside
        What is done with points outside the area, see `Mechanism.sample`.
    progress
        Called with the number of rows done.

    Notes
    -----
    Memory: a few hundred MB besides the libraries, whatever the size of the table; larger tables
    are shuffled in parts in a folder beside the target.
    """
    import polars as pl

    if not isinstance(mechanism, Mechanism):
        raise InputError(f"a mechanism is needed, got {type(mechanism).__name__}")
    if outside not in OUTSIDE:
        raise InputError(f"outside must be one of {', '.join(OUTSIDE)}, got {described(outside)}")
    if shuffle is not None and not isinstance(shuffle, bool):
        raise InputError(f"shuffle must be True, False or None, got {described(shuffle)}")
    from_file, to_file = _files(source, target)
    try:
        table = scan(from_file)
        schema = table.collect_schema()
        pair = find_pair(schema, columns, mechanism, from_file.suffix.lower() == ".csv")
        chosen = choose(schema, pair, user, time, keep, keep_anyway, drop)
        size = size_of(table, from_file, chosen)
    except (pl.exceptions.PolarsError, OSError) as wrong:
        raise FormatError(f"{from_file} cannot be read ({type(wrong).__name__})") from None

    work = Work(mechanism, chosen, outside, progress)
    spools: list[Spool] = []

    def run(out: Any) -> str:
        by_time = False
        if time is not None and shuffle is None:
            by_time = is_sorted(_batches(table.select(time)), time, work.check)
        mix = shuffle is True or (shuffle is None and not by_time)
        spools.append(spool := Spool(real_path(to_file), size, mix))
        for frame in work.in_turn(helpers, _batches(table.select(chosen.needed))):
            spool.add(frame)
        work.finish()
        frames = spool.frames()
        if by_time and time is not None:
            frames = shuffle_ties(frames, time)
        _write(frames, chosen, to_file, out, work.check)
        return "shuffled" if mix else "time" if by_time else "unchanged"

    # All of it runs in threads of ours, so that Ctrl-C finds this one in Python, once.
    worker, helpers = ThreadPoolExecutor(1), ThreadPoolExecutor(2)
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{to_file.name}.", suffix=to_file.suffix, dir=real_path(to_file).parent
    )
    try:
        with os.fdopen(descriptor, "wb") as out:
            order = worker.submit(run, out).result()
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, real_path(to_file))
    except WhereishError:
        raise
    except (pl.exceptions.PolarsError, OSError) as wrong:
        for ours in (wrong, wrong.__cause__, wrong.__context__):
            if isinstance(ours, WhereishError):
                raise ours from None
        # What the reader says of a bad row may hold the row.
        raise FormatError(
            f"{from_file} cannot be obfuscated: a row is not as the others are, or it cannot be "
            f"written ({type(wrong).__name__})"
        ) from None
    finally:
        work.stop.set()
        for pool in (worker, helpers):
            pool.shutdown(wait=True, cancel_futures=True)
        for spool in spools:
            spool.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return work.made(order)


def _batches(table: Any) -> Iterator[Any]:
    batches: Iterator[Any] = table.collect_batches(chunk_size=_BATCH, maintain_order=True)
    return batches


def _write(
    frames: Iterator[Any], columns: Columns, file: Path, out: Any, going: Callable[[], None]
) -> None:
    """Write a table piece by piece. Nothing of the old file's metadata is known here."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def give(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        for frame in frames:
            going()
            yield frame

    stream = register_io_source(give, schema=pl.Schema(columns.kinds))
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
        raise InputError(f"target must not be the table itself, got {to_file} for both")
    return from_file, to_file
