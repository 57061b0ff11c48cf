"""Detect columns of a table that leak the true locations of its rows.

Two tests. First, a column leaks if its values can be decoded to the location: degrees, with or
without minutes and seconds, in any power of ten; WKT, WKB, a geohash, an H3 cell. Second, it leaks
if rows that are neighbours in the order of the column lie nearer to each other than rows in a
random order (von Neumann's ratio). The second test needs no list of encodings: it finds columns
whose order follows the locations (projected coordinates, cell numbers, row numbers of a sorted
table), and columns whose equal values share a place (addresses, postcodes, names of stations).

The tests do not find a column that is unique to each row and has no order, such as a hash of the
location, nor one that leaks a few rows only. So a column is kept only if the caller names it. A
column with more numbers per value than the tests examine is refused.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whereish.places import Array

SAMPLE = 50_000  # rows that are examined
_SHARE = 0.1  # of the variance along a direction; a column that explains more is refused
_SIGMAS = 5.0
_FEWEST_ROWS = 20  # with fewer rows an order says nothing
_MOST_NUMBERS = 64  # in one value; a column with more is refused
_READ = 5_000  # rows whose numbers are compared with their locations
_NEAR = 0.006  # degrees: for a number at a fixed position in the text, with two decimals
_NEARER = 0.0006  # degrees: for a number anywhere in the text
_SCALES = (math.pi / 180, *(10.0**power for power in range(17)))
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
# Marks between digits may be a decimal comma, separators of thousands, or separate two numbers.
_READINGS = (None, (r"(\d),(\d)", "${1}.${2}"), (r"[.,'_](\d{3})", "${1}"), (r"[.,]", " "))
_ENCODINGS = {
    "WKT": r"(?i)^\s*(SRID=\d+;)?\s*(MULTI)?(POINT|LINESTRING|POLYGON)\s*Z?M?\s*\(",
    "GeoJSON": r"\"coordinates\"\s*:",
    "WKB": r"(?i)^(01[0-9a-f]{2}0000[0-9a-f]{2}|0000000[1-7]|0020000[0-9a-f]{2})[0-9a-f]{32,}$",
    "an H3 cell": r"(?i)^(0x)?0?8[0-9a-f]{14}$",
    "a plus code": r"(?i)^[2-9CFGHJMPQRVWX]{4,8}\+[2-9CFGHJMPQRVWX]{0,7}$",
    "an MGRS square": r"(?i)^\d{1,2}[C-X]\s?[A-Z]{2}\s?\d{2,5}\s?\d{0,5}$",
}
_BASE32 = "0123456789bcdefghjkmnpqrstuvwxyz"


class ReservoirSample:
    """A uniform random sample of the rows of a stream: those with the smallest random keys."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._keys = np.empty(0)
        self._points = np.empty((0, 2))
        self._frame: Any = None
        self._rng = np.random.default_rng()

    def add(self, points: Array, frame: Any) -> None:
        """Add the rows of a batch that have a location."""
        import polars as pl

        known = np.isfinite(points).all(axis=1)
        if not self._columns or not known.any():
            return
        named = frame.select(self._columns).filter(pl.Series(known))
        self._frame = named if self._frame is None else pl.concat([self._frame, named])
        self._points = np.concatenate([self._points, points[known]])
        self._keys = np.concatenate([self._keys, self._rng.random(len(named))])
        if len(self._keys) > SAMPLE:
            least = np.argpartition(self._keys, SAMPLE)[:SAMPLE]
            self._frame, self._points = self._frame[least], self._points[least]
            self._keys = self._keys[least]

    def rows(self) -> tuple[Array, Any]:
        """Return the locations and the columns of the sample; no columns (None) if it is empty."""
        return self._points, self._frame


def leaking_columns(frame: Any, columns: Sequence[str], points: Array) -> dict[str, str]:
    """Return the columns that leak the locations, with the reason for each.

    Parameters
    ----------
    frame
        A polars table with the columns: a sample of the rows.
    points
        (n, 2) true locations of the rows: latitude and longitude, or km in the plane.
    """
    found: dict[str, str] = {}
    ranks, limits = _ranks_and_limits(points)
    for name in columns:
        series = frame[name]
        if len(series) > 1 and series.n_unique() == 1:
            continue  # a constant leaks nothing
        reason = _readable_as(series, points)
        if reason is not None:
            found[name] = reason
            continue
        share = max((_explained(key, ranks, limits) for key in _sort_keys(series)), default=0.0)
        if share > 0:
            found[name] = f"its order or its equal values follow the points ({share:.0%})"
    return found


def encoded_columns(frame: Any, columns: Sequence[str], points: Array) -> dict[str, str]:
    """Return the columns that encode the locations (the first test only), with the reasons."""
    found = {name: _readable_as(frame[name], points) for name in columns}
    return {name: reason for name, reason in found.items() if reason is not None}


def _readable_as(series: Any, points: Array) -> str | None:
    """Return why the first test refuses a column: it encodes the locations, or is too long."""
    if _most_numbers(series) > _MOST_NUMBERS:
        return f"its values hold more than {_MOST_NUMBERS} numbers, too many to examine"
    encoding = _encoding(series, points)
    return None if encoding is None else f"its values can be read as {encoding}"


def _most_numbers(series: Any) -> int:
    """Return the largest number of numbers in a value of a column."""
    import polars as pl

    kind = series.dtype
    if isinstance(kind, pl.Struct):
        return sum(_most_numbers(series.struct.field(name)) for name in series.struct.fields)
    if isinstance(kind, pl.List | pl.Array):
        items, longest = _lists(series)
        return longest * _most_numbers(items.explode()) if longest else 0
    if kind == pl.Binary:
        series = series.bin.encode("hex")
    elif kind not in (pl.String, pl.Categorical, pl.Enum):
        return 1
    return int(series.cast(pl.String).str.count_matches(_NUMBER).max() or 0)


def _lists(series: Any) -> tuple[Any, int]:
    """Return a column of lists or arrays as lists, and the length of the longest."""
    import polars as pl

    items = series if isinstance(series.dtype, pl.List) else series.arr.to_list()
    return items, int(items.list.len().max() or 0)


def _items(series: Any) -> Iterator[Any]:
    """Yield the first, second, ... items of a column of lists."""
    items, longest = _lists(series)
    for place in range(min(longest, _MOST_NUMBERS)):
        yield items.list.get(place, null_on_oob=True)


def _ranks_and_limits(points: Array) -> tuple[list[Array], list[float]]:
    """Return the ranks of the locations along four directions, and the share due to chance."""
    from scipy.stats import rankdata

    if len(points) < _FEWEST_ROWS:
        return [], []
    ranks = [rankdata(points[:, side]) for side in (0, 1)]
    along = [*ranks, rankdata(ranks[0] + ranks[1]), rankdata(ranks[0] - ranks[1])]
    along = [line for line in along if np.ptp(line) > 0]
    rng = np.random.default_rng()
    limits = []
    for line in along:
        chance = [_von_neumann_ratio(line[rng.permutation(len(line))]) for _ in range(20)]
        limits.append(max(_SHARE, _SIGMAS * float(np.std(chance))))
    return along, limits


def _von_neumann_ratio(line: Array) -> float:
    """Return von Neumann's ratio: 1 for a random order, near 0 if neighbours are similar."""
    return float(np.square(np.diff(line)).mean() / (2 * line.var(ddof=1)))


def _explained(key: Array, along: list[Array], limits: list[float]) -> float:
    """Return the share of the variance that an order explains; 0 if it may be due to chance."""
    known = np.isfinite(key)
    if known.sum() < _FEWEST_ROWS:
        return 0.0
    shuffled = np.random.default_rng().permutation(np.flatnonzero(known))  # ties at random
    order = shuffled[np.argsort(key[shuffled], kind="stable")]
    most = 0.0
    for line, limit in zip(along, limits, strict=True):
        sorted_line = line[order]
        if np.ptp(sorted_line) > 0:
            share = 1 - _von_neumann_ratio(sorted_line)
            # With fewer rows than the limit was estimated for, chance explains more.
            if share > limit * math.sqrt(len(line) / len(order)):
                most = max(most, share)
    return most


def _sort_keys(series: Any) -> Iterator[Array]:
    """Yield the keys that a column can be sorted by: its values, and the numbers in them."""
    import polars as pl

    kind = series.dtype
    if isinstance(kind, pl.Struct):
        for name in series.struct.fields:
            yield from _sort_keys(series.struct.field(name))
        return
    if isinstance(kind, pl.List | pl.Array):
        for item in _items(series):
            yield from _sort_keys(item)
        return
    if kind == pl.Object or kind == pl.Null:
        return
    if kind == pl.Binary:
        yield from _doubles(series)
        series = series.bin.encode("hex")
    if kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean:
        yield _floats(series if kind.is_numeric() else series.to_physical())
        return
    text = series.cast(pl.String)
    yield _floats(text.rank("dense"))
    yield from _numbers(text, _MOST_NUMBERS)


def _numbers(text: Any, limit: int) -> Iterator[Array]:
    """Yield the first, second, ... numbers of a column of texts."""
    import polars as pl

    parts = text.str.extract_all(_NUMBER)
    most = parts.list.len().max() or 0
    for place in range(min(int(most), limit)):
        yield _floats(parts.list.get(place, null_on_oob=True).cast(pl.Float64, strict=False))


def _floats(series: Any) -> Array:
    import polars as pl

    numbers: Array = series.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return numbers


def _doubles(series: Any) -> Iterator[Array]:
    """Yield the two coordinates of points in WKB, which are the last 16 bytes."""
    for order in ("<dd", ">dd"):
        pairs = np.full((len(series), 2), np.nan)
        for row, value in enumerate(series):
            if value is not None and len(value) in (21, 25):
                with contextlib.suppress(struct.error):
                    pairs[row] = struct.unpack(order, value[-16:])
        yield from (np.where(np.abs(side) < 1e9, side, np.nan) for side in pairs.T)


def _encoding(series: Any, points: Array) -> str | None:
    """Return the encoding of the locations in most values of a column; None if there is none."""
    import polars as pl

    kind = series.dtype
    if isinstance(kind, pl.Struct):
        found = (_encoding(series.struct.field(name), points) for name in series.struct.fields)
        return next((encoding for encoding in found if encoding), None)
    if kind in (pl.Object, pl.Null, pl.Boolean):
        return None
    if kind.is_temporal():
        # Compared with a smaller tolerance: the number of a week is not a longitude.
        return _time_encoding(series, points)
    if isinstance(kind, pl.List | pl.Array):
        items, _ = _lists(series)
        if items.dtype.inner.is_nested() or items.dtype.inner == pl.Binary:
            found = (_encoding(item, points) for item in _items(items))
            return next((encoding for encoding in found if encoding), None)
        series = items.cast(pl.List(pl.String)).list.join(" ", ignore_nulls=True)
    elif kind == pl.Binary:
        series = series.bin.encode("hex")
    text = series.cast(pl.String)
    known = text.is_not_null().to_numpy()
    if not known.any():
        return None
    for encoding, pattern in _ENCODINGS.items():
        if 5 * int(text.str.contains(pattern).sum()) >= 4 * int(known.sum()):
            return encoding
    if kind.is_integer() or kind == pl.String:
        cells = series.cast(pl.UInt64, strict=False)
        if 5 * int(((cells // 2**59) == 1).sum()) >= 4 * int(known.sum()):
            return "an H3 cell"
    if _are_coordinates(text, known, points):
        return "a coordinate"
    few = np.flatnonzero(known)[:500]
    hashes = [_is_geohash(text[int(row)], points[row]) for row in few]
    return "a geohash" if 5 * sum(hashes) >= 4 * len(few) else None


def _time_encoding(series: Any, points: Array) -> str | None:
    """Return "a coordinate" if times, their parts or their numbers are coordinates; else None."""
    import polars as pl

    known = series.is_not_null().to_numpy()
    if not known.any():
        return None
    written = series.to_physical() if isinstance(series.dtype, pl.Duration) else series
    physical = _floats(series.to_physical())[known, None]
    read = _are_coordinates(written.cast(pl.String), known, points)
    found = read or _match(physical, points[known], _SCALES, _NEAR / 100)
    return "a coordinate" if found else None


def _are_coordinates(text: Any, known: Any, points: Array) -> bool:
    """Whether the texts hold a coordinate of their location, in a usual notation."""
    rows = np.flatnonzero(known)
    if len(rows) > _READ:
        rows = np.sort(np.random.default_rng().choice(rows, _READ, replace=False))
    text, points = text[rows], points[rows]
    for reading in _READINGS:
        written = text if reading is None else text.str.replace_all(*reading)
        columns = list(_numbers(written, 4 * _MOST_NUMBERS))
        if not columns:
            continue
        numbers = np.abs(np.column_stack(columns))
        if _match(numbers, points, _SCALES, _NEAR) or any(
            _match(degrees, points, (1.0,), _NEAR) for degrees in _sexagesimal(numbers)
        ):
            return True
    return False


def _sexagesimal(numbers: Array) -> Iterator[Array]:
    """Yield the degrees of sexagesimal angles: in two or three numbers, or packed in one."""
    nothing = np.full((len(numbers), 1), np.nan)
    second = np.hstack([numbers[:, 1:], nothing])
    third = np.hstack([second[:, 1:], nothing])
    with np.errstate(invalid="ignore", over="ignore"):
        hundreds, rest = np.divmod(numbers, 100)  # ddmm.mmmm
        degrees, minutes = np.divmod(hundreds, 100)  # ddmmss.ss
    zero = np.zeros_like(numbers)
    for place in (
        (numbers, second, zero), (numbers, second, third), (hundreds, rest, zero),
        (degrees, minutes, rest),
    ):  # fmt: skip
        with np.errstate(invalid="ignore", over="ignore"):
            angle = (place[0] <= 180) & (place[1] < 60) & (place[2] < 60)
            yield np.where(angle, place[0] + place[1] / 60 + place[2] / 3600, np.nan)


def _match(numbers: Array, points: Array, scales: Sequence[float], near: float) -> bool:
    """Whether four in five rows hold a coordinate of their location.

    Signs are not compared: west may be written as a letter.
    """
    most, goal = 4 * len(points), np.abs(points)
    nearer = min(near, _NEARER)
    for scale in scales:
        # Close to 0 degrees, any number is near in a large unit.
        usable = (goal > near) | (scale == 1.0)
        anywhere = np.zeros(len(points), bool)
        for number in np.abs(numbers.T):
            with np.errstate(over="ignore"):  # 1e308 in radians
                off = np.where(usable, np.abs(number[:, None] / scale - goal), np.inf)
            if 5 * int((off <= near).any(axis=1).sum()) >= most:
                return True
            anywhere |= (off <= nearer).any(axis=1)
        if 5 * int(anywhere.sum()) >= most:
            return True
    return False


def _is_geohash(value: str, point: Array) -> bool:
    """Whether a text of 5 to 12 letters is the geohash of a location or of a cell next to it."""
    word = value.strip().lower()
    if not 5 <= len(word) <= 12 or any(letter not in _BASE32 for letter in word):
        return False
    bounds = [[-180.0, 180.0], [-90.0, 90.0]]
    bits = "".join(f"{_BASE32.index(letter):05b}" for letter in word)
    for place, bit in enumerate(bits):
        side = bounds[place % 2]
        side[bit == "0"] = (side[0] + side[1]) / 2
    return all(
        low - (high - low) <= value <= high + (high - low)
        for (low, high), value in zip(bounds, (point[1], point[0]), strict=True)
    )
