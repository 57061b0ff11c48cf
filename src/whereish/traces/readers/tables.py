"""The tables among the formats of traces: GeoLife, T-Drive, CSV and Parquet, read by polars.

Every format ends as frames of ``user, time, lat, lon, file, line``: what cannot be read is null
and goes no further than `rows.clean`, which drops it and counts it.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whereish.compressed import (
    check_plain,
    most_unpacked,
    open_bytes,
    read_line,
    unpacked_size,
    unpacks_to_more,
)
from whereish.errors import FormatError, column_names
from whereish.traces.cleaning import COLUMNS, moments, read_times

if TYPE_CHECKING:
    import polars as pl

OTHER_NAMES = {
    "user": ("user", "user_id", "userid", "uid", "taxi_id", "device", "device_id"),
    "time": ("time", "timestamp", "datetime", "date_time", "date", "when", "timestampms"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
}
LARGE_BYTES = 64 * 2**20
ROWS_A_FRAME = 500_000
_HEADING = 2**16
_ROW_BYTES = 24  # a time and two coordinates
_PLT_HEADING = 6
_PLT = ("lat", "lon", "zero", "feet", "days", "day", "clock")
_TAXI = ("user", "time", "lon", "lat")
# Columns of our own beside those of a table, whose names no table has.
_FILE, _LINE = "whereish: file", "whereish: line"


def plt_frames(user: str, files: Sequence[Path], zone: str) -> Iterator[pl.DataFrame]:
    """Read GeoLife's files of one person: six lines of heading, then seven columns."""
    import polars as pl

    raw = _text(files, _PLT, skip_rows=_PLT_HEADING)
    rows = raw.with_columns(
        user=pl.lit(user),
        time=pl.concat_str(["day", "clock"], separator=" "),
        blank=_nothing_in("lat", "lon", "day"),
    )
    yield from _frames(rows, files, _PLT_HEADING + 1, zone)


def taxi_frames(files: Sequence[Path], zone: str) -> Iterator[pl.DataFrame]:
    """Read T-Drive's files: taxi id, date and time, longitude, latitude; no heading."""
    rows = _text(files, _TAXI).with_columns(blank=_nothing_in(*_TAXI))
    yield from _believed(_frames(rows, files, 1, zone), files)


def _nothing_in(*columns: str) -> pl.Expr:
    """Return whether a line is empty, and so no row."""
    import polars as pl

    return pl.all_horizontal(pl.col(name).is_null() for name in columns)


def _believed(frames: Iterator[pl.DataFrame], files: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """Yield frames without the last coordinate of files that end in the middle of it."""
    import polars as pl

    held: pl.DataFrame | None = None
    for frame in frames:
        if held is not None:
            yield held
        held = frame
    if held is None:
        return
    cut = [str(file) for file in files if _cut_off(file)]
    if cut:
        last = pl.int_range(pl.len()).over("file") == pl.len().over("file") - 1
        spoiled = last & pl.col("file").is_in(cut)
        held = held.with_columns(lat=pl.when(~spoiled).then(pl.col("lat")))
    yield held


def _cut_off(file: Path) -> bool:
    """Tell whether a file ends in the middle of a number.

    Where a coordinate comes last, a file that was cut off ends in one with fewer digits: a last
    line without an end is not believed unless it has as many as the one before.
    """
    with file.open("rb") as stream:
        if stream.read(2) == b"\x1f\x8b":
            return False  # a gzip that is cut off says so itself
        stream.seek(max(0, file.stat().st_size - 200))
        lines = stream.read().split(b"\n")
    if not lines[-1].strip() or len(lines) < 2:
        return False
    numbers = [re.split(rb"[,;\t]", line.strip())[-1] for line in lines[-2:]]
    digits = [len(number.partition(b".")[2]) for number in numbers]
    return digits[1] < digits[0]


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are called, and what parts them; user and time may be missing."""

    user: str | None
    time: str | None
    lat: str
    lon: str
    separator: str = ","
    coordinate_last: bool = False

    @property
    def named(self) -> dict[str, str]:
        """Return the names there are."""
        pairs = zip(COLUMNS, (self.user, self.time, self.lat, self.lon), strict=True)
        return {column: name for column, name in pairs if name is not None}


def find_columns(
    kind: str, file: Path, given: dict[str, str] | None = None, timed: bool = True
) -> Columns:
    """Find the columns of a table: as they were named, or by their usual names."""
    import polars as pl

    separator = _separator(file) if kind == "csv" else ","
    try:
        if kind == "csv":
            with open_bytes(file) as stream:
                head = stream.read(_HEADING)
            check_plain(head)
            scan = pl.scan_csv(io.BytesIO(head), infer_schema=False, separator=separator)
        else:
            scan = pl.scan_parquet(file, glob=False)
        names = list(scan.collect_schema())
    except FormatError:
        raise
    except Exception as wrong:
        raise FormatError(type(wrong).__name__) from None  # its own words may hold a row
    lower = {_plain(name): name for name in reversed(names)}
    found: dict[str, str | None] = {}
    for column in COLUMNS:
        if given and column in given:
            if _plain(given[column]) not in lower:
                raise FormatError(
                    f"no column {given[column]!r} for {column}, only {column_names(names)}"
                )
            found[column] = lower[_plain(given[column])]
        else:
            found[column] = next((lower[n] for n in OTHER_NAMES[column] if n in lower), None)
    if found["time"] is None and "prior" in lower:
        raise FormatError("it has a prior and no times: a profile, which whereish build takes")
    if not timed:
        found["time"] = None
    if (found["time"] is None and timed) or found["lat"] is None or found["lon"] is None:
        raise FormatError(
            f"no columns for time, lat and lon, only {column_names(names)}; name them, on the "
            "command line by --columns time=A,lat=B,lon=C"
        )
    last = bool(names) and names[-1] in (found["lat"], found["lon"])
    return Columns(
        found["user"], found["time"], found["lat"], found["lon"], separator, kind == "csv" and last
    )


def _plain(name: str) -> str:
    return name.strip("\ufeff \t\r\"'").lower()


def csv_frames(
    users: dict[str, str], files: Sequence[Path], columns: Columns, zone: str
) -> Iterator[pl.DataFrame]:
    """Read texts with the same heading; users names whose each file is, where no column does."""
    import polars as pl

    raw = _scan_csv(files, has_header=True, separator=columns.separator)
    named = {"time": pl.lit(None, pl.String)}
    named |= {column: pl.col(name) for column, name in columns.named.items()}
    if columns.user is None and len(files) == 1:
        named["user"] = pl.lit(users[str(files[0])])  # streams; a look-up would not
    elif columns.user is None:
        named["user"] = pl.col(_FILE).replace_strict(users)
    empty = pl.all_horizontal(pl.all().exclude(_FILE, _LINE).is_null())
    if columns.separator == ";":  # who parts columns so has decimal commas
        named |= {c: named[c].str.replace(",", ".", literal=True) for c in ("lat", "lon")}
    rows = raw.select(_FILE, _LINE, **named, blank=empty)
    frames = _frames(rows, files, 2, zone)
    yield from _believed(frames, files) if columns.coordinate_last else frames


def parquet_frames(user: str, file: Path, columns: Columns, zone: str) -> Iterator[pl.DataFrame]:
    """Read a Parquet table, some row groups at a time."""
    import polars as pl

    raw = pl.scan_parquet(file, glob=False)
    kinds = raw.collect_schema()
    named = {"time": pl.lit(None, pl.String)}
    named |= {column: pl.col(name) for column, name in columns.named.items()}
    whose = named["user"].cast(pl.String) if "user" in named else pl.lit(user)
    rows = raw.select(
        user=whose,
        time=named["time"],
        lat=named["lat"].cast(pl.Float64, strict=False),
        lon=named["lon"].cast(pl.Float64, strict=False),
    )
    kind = pl.String if columns.time is None else kinds[columns.time]
    for name in (columns.lat, columns.lon):
        if not (kinds[name].is_numeric() or kinds[name] == pl.String):
            raise FormatError(f"the column {name!r:.40} must hold numbers")
    count, most = raw.select(pl.len()).collect().item(), most_unpacked(file.stat().st_size)
    if count * _ROW_BYTES > most:
        raise FormatError(unpacks_to_more(most))
    for start in range(0, count, ROWS_A_FRAME):
        frame = rows.slice(start, ROWS_A_FRAME).collect()
        line = pl.int_range(start + 1, start + 1 + len(frame), eager=True)
        yield frame.with_columns(
            time=read_times(frame["time"], zone)
            if kind == pl.String
            else moments(frame["time"], zone),
            file=pl.lit(str(file)),
            line=line.cast(pl.Int64),
        )


def slow_frames(
    kind: str,
    user: str,
    file: Path,
    given: dict[str, str] | None,
    zone: str,
    timed: bool = True,
) -> Iterator[pl.DataFrame]:
    """Read a text line by line: for files that polars gives up on, as far as they go.

    A quote that is never closed spoils its own line only, and a gzip that was cut off gives what
    comes before the end.
    """
    rows: list[tuple[Any, ...]] = []
    broken, number = False, 0
    pick, skip, separator = _picker(kind, user, file, given, timed)
    try:
        with open_bytes(file) as stream:
            for number, raw in enumerate(iter(lambda: read_line(stream), b""), start=1):
                text = raw.decode("utf-8", "replace").strip("\ufeff\r\n")
                if number > skip and text.strip():
                    rows.append((*pick(_fields(text, separator)), str(file), number))
                if len(rows) == ROWS_A_FRAME:
                    yield _slow_frame(rows, separator, zone)
                    rows = []
    except (OSError, EOFError, zlib.error):
        broken = True
    if rows:
        yield _slow_frame(rows, separator, zone)
    if broken:
        raise FormatError(f"damaged after line {number}")


def _picker(
    kind: str, user: str, file: Path, given: dict[str, str] | None, timed: bool
) -> tuple[Callable[[list[Any]], tuple[Any, ...]], int, str]:
    """Return how to take user, time, lat and lon out of a line, and what parts its fields."""
    if kind == "geolife":
        return lambda f: (user, f[6] and f"{f[5]} {f[6]}", f[0], f[1]), _PLT_HEADING, ","
    if kind == "t-drive":
        return lambda f: (f[0], f[1], f[3], f[2]), 0, ","
    columns = find_columns("csv", file, given, timed)
    with open_bytes(file) as stream:
        text = read_line(stream).decode("utf-8", "replace").strip("\ufeff\r\n")
    heading = [_plain(name) for name in next(csv.reader([text], delimiter=columns.separator), [])]
    at = {column: heading.index(_plain(name)) for column, name in columns.named.items()}

    def pick(fields: list[Any]) -> tuple[Any, ...]:
        told = {column: fields[place] for column, place in at.items() if place < len(fields)}
        return tuple(told.get(c) if c in at or c != "user" else user for c in COLUMNS)

    return pick, 1, columns.separator


def _fields(text: str, separator: str) -> list[str | None]:
    """Part a line into fields, and nothing after them."""
    try:
        fields: list[str | None] = [
            f or None for f in next(csv.reader([text], delimiter=separator))
        ]
    except (csv.Error, StopIteration):
        fields = []  # a field of a hundred thousand letters is none of ours
    return [*fields, *[None] * 7]


def _slow_frame(rows: list[tuple[Any, ...]], separator: str, zone: str) -> pl.DataFrame:
    import polars as pl

    names = (*COLUMNS, "file", "line")
    kinds = dict.fromkeys(names[:-1], pl.String) | {"line": pl.Int64}
    told = pl.DataFrame(rows, schema=kinds, orient="row")
    number = {c: told[c].str.strip_chars() for c in ("lat", "lon")}
    if separator == ";":
        number = {c: text.str.replace(",", ".", literal=True) for c, text in number.items()}
    number = {c: text.cast(pl.Float64, strict=False) for c, text in number.items()}
    return told.with_columns(time=read_times(told["time"], zone), **number)


def _scan_csv(files: Sequence[Path], **options: Any) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_csv(
        list(files),
        infer_schema=False,
        truncate_ragged_lines=True,
        include_file_paths=_FILE,
        row_index_name=_LINE,
        encoding="utf8-lossy",
        glob=False,
        **options,
    )


def _text(files: Sequence[Path], names: Sequence[str], skip_rows: int = 0) -> pl.LazyFrame:
    """Open texts without a heading; rows that are too short end in nulls."""
    import polars as pl

    plain = {"has_header": False, "quote_char": None, "skip_rows": skip_rows}
    if len(files) > 1 or _width(files[0], skip_rows) == len(names):
        return _scan_csv(files, schema=dict.fromkeys(names, pl.String), **plain)
    # The first row is not as it should be, and polars would take it as the measure of all others.
    lines = _scan_csv(files, schema={"whole": pl.String}, separator="\x1f", **plain)
    fields = pl.col("whole").str.split_exact(",", len(names))
    parts = [fields.struct.field(f"field_{n}").alias(name) for n, name in enumerate(names)]
    return lines.with_columns(parts)


def _width(file: Path, skip_rows: int) -> int:
    """Count the columns of the first row."""
    with open_bytes(file) as stream:
        for _ in range(skip_rows):
            read_line(stream)
        return read_line(stream).count(b",") + 1


def _frames(
    rows: pl.LazyFrame, files: Sequence[Path], first_line: int, zone: str
) -> Iterator[pl.DataFrame]:
    """Give texts their kinds: whole where they are small, in parts where they are large."""
    import polars as pl

    number = {c: pl.col(c).str.strip_chars(" \t\r\"'") for c in ("lat", "lon")}
    wanted = rows.select(
        pl.col("user").str.strip_chars(" \t\r\ufeff"),
        "time",
        **{c: text.cast(pl.Float64, strict=False) for c, text in number.items()},
        file=_FILE,
        line=pl.col(_LINE).cast(pl.Int64),
        blank="blank",
    )
    large = sum(unpacked_size(file) for file in files) > LARGE_BYTES
    frames = wanted.collect_batches(chunk_size=ROWS_A_FRAME) if large else [wanted.collect()]
    begun: dict[str, int] = {}
    for frame in frames:
        for file, start in frame.group_by("file").agg(pl.col("line").min()).rows():
            begun.setdefault(file, start)
        line = pl.col("line") - pl.col("file").replace_strict(begun, return_dtype=pl.Int64)
        yield (
            frame.with_columns(time=read_times(frame["time"], zone), line=line + first_line)
            .filter(~pl.col("blank"))
            .drop("blank")
        )


def _separator(file: Path) -> str:
    """Tell what parts the columns of a text: a comma, a semicolon or a tab."""
    try:
        with open_bytes(file) as stream:
            heading = stream.readline(10_000)
    except (OSError, EOFError, zlib.error) as wrong:
        raise FormatError(type(wrong).__name__) from None
    return max(",;\t", key=lambda mark: heading.count(mark.encode()))
