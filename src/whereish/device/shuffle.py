"""The rows of a table between reading and writing: in a new random order, or in their own.

A random order comes in two steps, so that no table has to fit into memory (Rao 1961, Sandelius
1962). Each row goes to one of P parts, drawn for each row; then the parts follow one another, each
in an order that is drawn among all its orders. Every order of the whole is equally likely. All
draws are the operating system's.
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

HELD = 1 << 27  # bytes of rows in memory before they go to the disk; a part is about as large
_MOST_PARTS = 256
_SLICE = 250_000  # rows handed on at once


class Spool:
    """Takes a table piece by piece, and gives it back when it is whole.

    Memory: a few times `HELD`, for tables of up to `HELD` * 256 bytes. What goes to the disk goes
    to a new folder that only its owner may enter.

    Parameters
    ----------
    beside
        The file whose folder the pieces are kept in, if they do not fit into memory.
    size
        Bytes the whole may have, roughly.
    shuffle
        Whether the rows come back in a random order, or in their own.
    """

    def __init__(self, beside: Path, size: int, shuffle: bool, held: int = HELD) -> None:
        parts = 1
        while shuffle and parts < _MOST_PARTS and parts * held < size:
            parts *= 2  # a power of two: 63 random bits are shared out evenly
        self._beside, self._parts, self._shuffle, self._most = beside, parts, shuffle, held
        self._held: list[Any] = []
        self._bytes = 0
        self._folder: Path | None = None
        self._pieces: list[list[Path]] = [[] for _ in range(parts)]

    def add(self, frame: Any) -> None:
        """Take some rows."""
        self._held.append(frame)
        self._bytes += int(frame.estimated_size())
        if self._bytes > self._most and (self._parts > 1 or not self._shuffle):
            self._spill()

    def frames(self) -> Iterator[Any]:
        """Give the rows back, once."""
        import polars as pl

        if self._folder is not None and self._held:
            self._spill()
        for part, pieces in enumerate(self._pieces):
            if not self._shuffle:
                yield from (pl.read_ipc(piece) for piece in pieces)
            if part == 0 and self._held:
                pieces_held, self._held = self._held, []
                yield from self._given(pieces_held)
            elif pieces and self._shuffle:
                yield from self._given([pl.read_ipc(piece) for piece in pieces])
            for piece in pieces:
                piece.unlink()

    def close(self) -> None:
        """Remove what is on the disk."""
        self._held = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _given(self, frames: list[Any]) -> Iterator[Any]:
        import polars as pl

        whole = pl.concat(frames)
        if self._shuffle:
            whole = whole[permutation(len(whole))]
        yield from whole.iter_slices(_SLICE)

    def _spill(self) -> None:
        import polars as pl

        if self._folder is None:
            self._folder = Path(
                tempfile.mkdtemp(prefix=f".{self._beside.name}.", dir=self._beside.parent)
            )
        whole = pl.concat(self._held)
        self._held, self._bytes = [], 0
        part = uniform(len(whole)) % np.uint64(self._parts)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part.astype(np.int64), minlength=self._parts))
        whole = whole if self._parts == 1 else whole[order]
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                file = self._folder / f"{number}-{len(self._pieces[number])}.ipc"
                whole[start:end].write_ipc(file, compression="lz4")
                self._pieces[number].append(file)
            start = end


def permutation(size: int) -> NDArray[np.int64]:
    """Return an order of so many rows, each equally likely."""
    while True:
        keys = uniform(size)
        order = np.argsort(keys)
        if size < 2 or bool((np.diff(keys[order]) > 0).all()):  # two equal keys: draw again
            return order


def shuffle_ties(frames: Iterator[Any], column: str) -> Iterator[Any]:
    """Give rows that are sorted by a column back with equal ones in a random order.

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


def is_sorted(batches: Iterator[Any], column: str, going: Callable[[], None]) -> bool:
    """Whether a table is sorted by a column: as numbers, or as the text or time it is."""
    import polars as pl

    last: Any = None
    as_number = as_itself = True
    for frame in batches:
        going()
        values = frame[column]
        if len(values) == 0:
            continue
        if values.null_count():
            return False
        number = values.cast(pl.Float64, strict=False) if values.dtype == pl.String else None
        whole = values if last is None else pl.concat([last, values])
        as_itself = as_itself and bool(whole.is_sorted())
        as_number = as_number and number is not None and not number.null_count()
        if as_number:
            as_number = bool(whole.cast(pl.Float64).is_sorted())
        if not (as_itself or as_number):
            return False
        last = values[-1:]
    return True
