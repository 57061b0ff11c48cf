"""What the readers of documents share: points one by one, put together to frames.

A document is read as a stream, an element at a time, however large the file is. A reader of such a
format yields points ``(time, lat, lon, line)``; the time is text, or seconds since 1970.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from whereish.compressed import UNREADABLE
from whereish.errors import FormatError
from whereish.lazy import pl
from whereish.traces.cleaning import read_times
from whereish.traces.readers.reader import Options, Reader

Point = tuple[Any, Any, Any, int]
_POINTS_A_FRAME = 100_000


class PointReader(Reader):
    """A format that is read point by point."""

    @abstractmethod
    def points(self, file: Path) -> Iterator[Point]:
        """Yield the points of a file: time, latitude, longitude, line."""

    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Read a file; what comes before a damage counts."""
        (file,) = files
        user, held = options.owner(file), list[Point]()
        broken: Exception | None = None
        try:
            for point in self.points(file):
                held.append(point)
                if len(held) == _POINTS_A_FRAME:
                    yield _frame(user, file, held, options.zone)
                    held = []
        except (FormatError, *UNREADABLE) as wrong:
            broken = wrong
        if held:
            yield _frame(user, file, held, options.zone)
        if broken is not None:
            raise broken


def _frame(user: str, file: Path, points: list[Point], zone: str) -> pl.DataFrame:
    time, lat, lon, line = zip(*points, strict=True)
    text = pl.Series([None if t is None else _as_text(t) for t in time], dtype=pl.String)
    return pl.DataFrame(
        {
            "user": [user] * len(points),
            "time": read_times(text, zone),
            "lat": pl.Series([_degrees(value) for value in lat], dtype=pl.Float64),
            "lon": pl.Series([_degrees(value) for value in lon], dtype=pl.Float64),
            "file": [str(file)] * len(points),
            "line": pl.Series(line, dtype=pl.Int64),
        }
    )


def _as_text(value: Any) -> str:
    """Write a time as text, without characters that UTF-8 does not have."""
    return str(value)[:100].encode(errors="replace").decode()


def _degrees(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 1e9 else None
