"""Shuffle the rows of a table that may not fit into memory: the order of rows leaks locations.

An external shuffle in two steps (Rao 1961, Sandelius 1962). Each row goes to one of P parts, drawn
at random; then the parts are written one after the other, each in a random order. Every order of
the table is equally likely. All randomness comes from the operating system.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.release import uniform

HELD = 1 << 27  # bytes of rows in memory before they are written to disk; about one part
_MOST_PARTS = 256
_SLICE = 250_000  # rows per frame that is returned


class RowBuffer:
    """Collects the rows of a table, and returns them in a random order or in the same order.

    Memory: a few times `HELD`, for tables of up to `HELD` * 256 bytes. Temporary files are in a new
    folder that only its owner may enter.

    Parameters
    ----------
    beside
        A file; the temporary folder is created in the same folder.
    size
        About how many bytes the table has.
    shuffle
        Whether the rows are returned in a random order.
    held
        Bytes of rows in memory.
    """

    def __init__(self, beside: Path, size: int, shuffle: bool, held: int = HELD) -> None:
        parts = 1
        while shuffle and parts < _MOST_PARTS and parts * held < size:
            parts *= 2  # a power of two, so that 63 random bits give every part the same chance
        self._beside, self._parts, self._shuffle, self._most = beside, parts, shuffle, held
        self._held: list[Any] = []
        self._bytes = 0
        self._folder: Path | None = None
        self._pieces: list[list[Path]] = [[] for _ in range(parts)]

    def add(self, frame: Any) -> None:
        """Add rows."""
        self._held.append(frame)
        self._bytes += int(frame.estimated_size())
        if self._bytes > self._most and (self._parts > 1 or not self._shuffle):
            self._spill()

    def frames(self) -> Iterator[Any]:
        """Return the rows; call it once."""
        import polars as pl

        if self._folder is not None and self._held:
            self._spill()
        for part, pieces in enumerate(self._pieces):
            if not self._shuffle:
                yield from (pl.read_ipc(piece) for piece in pieces)
            if part == 0 and self._held:
                pieces_held, self._held = self._held, []
                yield from self._slices(pieces_held)
            elif pieces and self._shuffle:
                yield from self._slices([pl.read_ipc(piece) for piece in pieces])
            for piece in pieces:
                piece.unlink()

    def close(self) -> None:
        """Delete the temporary files."""
        self._held = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _slices(self, frames: list[Any]) -> Iterator[Any]:
        import polars as pl

        rows = pl.concat(frames)
        if self._shuffle:
            rows = rows[permutation(len(rows))]
        yield from rows.iter_slices(_SLICE)

    def _spill(self) -> None:
        """Write the rows in memory to the temporary files of their parts."""
        import polars as pl

        if self._folder is None:
            self._folder = Path(
                tempfile.mkdtemp(prefix=f".{self._beside.name}.", dir=self._beside.parent)
            )
        rows = pl.concat(self._held)
        self._held, self._bytes = [], 0
        part = uniform(len(rows)) % np.uint64(self._parts)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part.astype(np.int64), minlength=self._parts))
        rows = rows if self._parts == 1 else rows[order]
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                file = self._folder / f"{number}-{len(self._pieces[number])}.ipc"
                rows[start:end].write_ipc(file, compression="lz4")
                self._pieces[number].append(file)
            start = end


def permutation(size: int) -> NDArray[np.int64]:
    """Return a uniformly random permutation of `size` rows."""
    while True:
        keys = uniform(size)
        order = np.argsort(keys)
        if size < 2 or bool((np.diff(keys[order]) > 0).all()):  # two equal keys: draw again
            return order


def shuffle_ties(frames: Iterator[Any], column: str) -> Iterator[Any]:
    """Shuffle rows with equal values of the column that the rows are sorted by.

    Memory: the rows of one value of the column.
    """
    import polars as pl

    open_run: list[Any] = []
    for frame in frames:
        values = frame[column]
        starts = np.flatnonzero((values != values.shift(1)).fill_null(True).to_numpy())
        if open_run and len(frame) and values[0] == open_run[-1][column][-1]:
            starts = starts[1:]
        if len(starts) == 0:
            open_run.append(frame)
            continue
        cut = int(starts[-1])
        open_run.append(frame[:cut])
        yield _within_runs(pl.concat(open_run), column)
        open_run = [frame[cut:]]
    if open_run:
        yield _within_runs(pl.concat(open_run), column)


def _within_runs(frame: Any, column: str) -> Any:
    values = frame[column]
    runs = np.cumsum((values != values.shift(1)).fill_null(True).to_numpy())
    shuffled = permutation(len(frame))
    return frame[shuffled[np.argsort(runs[shuffled], kind="stable")]]


def is_sorted(batches: Iterator[Any], column: str, check_stopped: Callable[[], None]) -> bool:
    """Whether a table is sorted by a column, as numbers or in the order of its type."""
    import polars as pl

    last: Any = None
    as_number = as_itself = True
    for frame in batches:
        check_stopped()
        values = frame[column]
        if len(values) == 0:
            continue
        if values.null_count():
            return False
        number = values.cast(pl.Float64, strict=False) if values.dtype == pl.String else None
        joined = values if last is None else pl.concat([last, values])
        as_itself = as_itself and bool(joined.is_sorted())
        as_number = as_number and number is not None and not number.null_count()
        if as_number:
            as_number = bool(joined.cast(pl.Float64).is_sorted())
        if not (as_itself or as_number):
            return False
        last = values[-1:]
    return True
