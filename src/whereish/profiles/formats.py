"""The tables among the formats of traces: GeoLife, T-Drive, CSV and Parquet, read by polars.

Every format ends as frames of ``user, time, lat, lon, file, line``: what cannot be read is null
and goes no further than `clean`, which drops it and counts it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from whereish.errors import FormatError

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("user", "time", "lat", "lon")
OTHER_NAMES = {
    "user": ("user", "user_id", "userid", "uid", "id", "taxi_id", "device", "device_id"),
    "time": ("time", "timestamp", "datetime", "date_time", "date", "when", "timestampms"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
}
LARGE_BYTES = 64 * 2**20
ROWS_A_FRAME = 500_000
_PLT_HEADING = 6
_PLT = ("lat", "lon", "zero", "feet", "days", "day", "clock")
_TAXI = ("user", "time", "lon", "lat")
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M")
# Receivers that do not know the date say 1980, 1999 or 2000; nobody's history begins before.
EARLIEST = datetime(2001, 1, 1, tzinfo=UTC)
_LINES_TOLD = 5
SWAPPED = "latitude and longitude seem to have changed places: name the columns"


@dataclass
class Funnel:
    """What became of the rows that were read.

    Attributes
    ----------
    files, rows, kept
        How many there were, and how many rows could be used.
    unreadable, impossible, untimely
        Rows that are not numbers and a time; with coordinates that no place has, or 0, 0, where
        receivers are that do not know; or of a time before 2001, when receivers that do not know
        the date say it is, or after tomorrow.
    broken
        Files that could not be read, or not as they are, with the reason.
    where
        File and line of the first rows that were dropped, and why.
    """

    files: int = 0
    rows: int = 0
    kept: int = 0
    unreadable: int = 0
    impossible: int = 0
    untimely: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list)
    where: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """How many rows were dropped."""
        return self.rows - self.kept

    def add(self, part: Funnel) -> None:
        """Count what another funnel has seen."""
        for name in ("files", "rows", "kept", "unreadable", "impossible", "untimely"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.broken += part.broken
        self.where += part.where[: max(0, _LINES_TOLD - len(self.where))]

    def complaint(self) -> str:
        """Say the first thing that is wrong, in one line that holds no coordinate."""
        if self.broken:
            file, reason = self.broken[0]
            return f"{file} cannot be read ({reason})"
        file, line, why = self.where[0]
        return f"{file}, line {line}: {why}"


def schema() -> dict[str, Any]:
    """Return the columns of every batch."""
    import polars as pl

    kinds = (pl.String, pl.Datetime("us", "UTC"), pl.Float64, pl.Float64)
    return dict(zip(COLUMNS, kinds, strict=True))


def plt_frames(user: str, files: Sequence[Path], zone: str) -> Iterator[pl.DataFrame]:
    """Read GeoLife's files of one person: six lines of heading, then seven columns."""
    import polars as pl

    raw = _text(files, _PLT, skip_rows=_PLT_HEADING)
    rows = raw.with_columns(user=pl.lit(user), time=pl.concat_str(["day", "clock"], separator=" "))
    yield from _frames(rows, files, _PLT_HEADING + 1, zone)


def taxi_frames(files: Sequence[Path], zone: str) -> Iterator[pl.DataFrame]:
    """Read T-Drive's files: taxi id, date and time, longitude, latitude; no heading.

    The latitude comes last, so a file that was cut off ends in a latitude with fewer digits: a
    last line without an end is not believed unless it has as many as the one before.
    """
    import polars as pl

    for frame in _frames(_text(files, _TAXI), files, 1, zone):
        cut = {str(file) for file in files if _cut_off(file)}
        if cut:
            last = pl.int_range(pl.len()).over("file") == pl.len().over("file") - 1
            spoiled = last & pl.col("file").is_in(list(cut))
            yield frame.with_columns(lat=pl.when(~spoiled).then(pl.col("lat")))
        else:
            yield frame


def _cut_off(file: Path) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 200))
        lines = stream.read().split(b"\n")
    if not lines[-1].strip() or lines[-1][:1] == b"\x1f" or len(lines) < 2:
        return False
    digits = [len(line.strip().rpartition(b".")[2]) for line in lines[-2:]]
    return digits[1] < digits[0]


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are called, and what parts them; user may be missing."""

    user: str | None
    time: str
    lat: str
    lon: str
    separator: str = ","

    @property
    def named(self) -> dict[str, str]:
        """Return the names there are."""
        pairs = zip(COLUMNS, (self.user, self.time, self.lat, self.lon), strict=True)
        return {column: name for column, name in pairs if name is not None}


def find_columns(kind: str, file: Path, given: dict[str, str] | None = None) -> Columns:
    """Find the columns of a table: as they were named, or by their usual names."""
    import polars as pl

    separator = _separator(file) if kind == "csv" else ","
    try:
        scan = (
            pl.scan_csv(file, infer_schema=False, glob=False, separator=separator)
            if kind == "csv"
            else pl.scan_parquet(file, glob=False)
        )
        names = list(scan.collect_schema())
    except Exception as wrong:
        raise _unreadable(file, wrong) from None
    lower = {name.strip("\ufeff \"'").lower(): name for name in reversed(names)}
    found: dict[str, str | None] = {}
    for column in COLUMNS:
        if given and column in given:
            if given[column] not in names:
                raise FormatError(
                    f"{file} must have a column {given[column]!r} for {column}, "
                    f"got {', '.join(names[:12])}"
                )
            found[column] = given[column]
        else:
            found[column] = next((lower[n] for n in OTHER_NAMES[column] if n in lower), None)
    if found["time"] is None or found["lat"] is None or found["lon"] is None:
        raise FormatError(
            f"{file} must have columns for time, lat and lon, got {', '.join(names[:12])}; name "
            "them: --columns time=A,lat=B,lon=C"
        )
    return Columns(found["user"], found["time"], found["lat"], found["lon"], separator)


def csv_frames(
    users: dict[str, str], files: Sequence[Path], columns: Columns, zone: str
) -> Iterator[pl.DataFrame]:
    """Read texts with the same heading; users names whose each file is, where no column does."""
    import polars as pl

    raw = _scan_csv(files, has_header=True, separator=columns.separator)
    named = {column: pl.col(name) for column, name in columns.named.items()}
    if columns.user is None:
        named["user"] = pl.col("file").replace_strict(users)
    yield from _frames(raw.with_columns(**named), files, 2, zone)


def parquet_frames(user: str, file: Path, columns: Columns, zone: str) -> Iterator[pl.DataFrame]:
    """Read a Parquet table, some row groups at a time."""
    import polars as pl

    raw = pl.scan_parquet(file, glob=False)
    kinds = raw.collect_schema()
    named = {column: pl.col(name) for column, name in columns.named.items()}
    whose = named["user"].cast(pl.String) if "user" in named else pl.lit(user)
    rows = raw.select(
        user=whose,
        time=named["time"],
        lat=named["lat"].cast(pl.Float64, strict=False),
        lon=named["lon"].cast(pl.Float64, strict=False),
    )
    kind = kinds[columns.time]
    for start in range(0, raw.select(pl.len()).collect().item(), ROWS_A_FRAME):
        frame = rows.slice(start, ROWS_A_FRAME).collect()
        line = pl.int_range(start + 1, start + 1 + len(frame), eager=True)
        yield frame.with_columns(
            time=read_times(frame["time"], zone) if kind == pl.String else _moments(frame, zone),
            file=pl.lit(str(file)),
            line=line.cast(pl.Int64),
        )


def _moments(frame: pl.DataFrame, zone: str) -> pl.Series:
    """Turn a column of dates or numbers into times."""
    import polars as pl

    when = frame["time"]
    if when.dtype.is_numeric():
        return _epochs(when.cast(pl.Float64, strict=False))
    if not isinstance(when.dtype, pl.Datetime | pl.Date):
        return pl.Series("time", [None] * len(when), dtype=pl.Datetime("us", "UTC"))
    if getattr(when.dtype, "time_zone", None):
        return when.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    return _placed(when.cast(pl.Datetime("us")), zone)


def _epochs(number: pl.Series) -> pl.Series:
    """Read seconds, milli-, micro- or nanoseconds since 1970: nobody lived in the year 5000."""
    import polars as pl

    size = pl.col("n").abs()
    scale = (
        pl.when(size < 1e11).then(1e6).when(size < 1e14).then(1e3).when(size < 1e17).then(1.0)
        .otherwise(1e-3)
    )  # fmt: skip
    micro = (pl.col("n") * scale).round().cast(pl.Int64, strict=False)
    return pl.DataFrame({"n": number}).select(
        time=micro.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    )["time"]


def _placed(wall: pl.Series, zone: str) -> pl.Series:
    """Read what a clock on the wall said in a time zone."""
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    placed = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return placed.dt.convert_time_zone("UTC")


def read_times(text: pl.Series, zone: str) -> pl.Series:
    """Read times from text: with an offset as they say, without one as in the given zone."""
    import polars as pl

    time = _placed(text.str.to_datetime(_FORMS[0], time_unit="us", strict=False), zone)
    if time.null_count() == text.null_count():
        return time.alias("time")  # nearly always: the rest is for what is not so plain
    text = text.str.strip_chars()
    plain = text.str.replace("T", " ", literal=True)
    zulu = text.str.ends_with("Z")
    ways = ("Z", *_FORMS, "%+", "number") if zulu.head(1).any() else (*_FORMS, "Z", "%+", "number")
    for way in ways:
        # The likely form first: others are tried only where something is left.
        if time.null_count() == text.null_count():
            break
        if way == "Z":
            bare = plain.set(~zulu, None).str.strip_suffix("Z")
            more = _placed(bare.str.to_datetime(_FORMS[1], time_unit="us", strict=False), "UTC")
        elif way == "%+":
            more = text.str.to_datetime("%+", time_unit="us", strict=False, time_zone="UTC")
        elif way == "number":
            more = _epochs(text.cast(pl.Float64, strict=False))
        else:
            more = _placed(plain.str.to_datetime(way, time_unit="us", strict=False), zone)
        time = time.zip_with(time.is_not_null(), more)
    return time.alias("time")


def clean(frame: pl.DataFrame) -> tuple[pl.DataFrame, Funnel]:
    """Drop and count rows that cannot be used."""
    import polars as pl

    seen = Funnel(rows=len(frame))
    whole = ~pl.any_horizontal(pl.col(name).is_null() for name in COLUMNS)
    nowhere = (pl.col("lat").abs() < 1e-9) & (pl.col("lon").abs() < 1e-9)
    there = pl.col("lat").is_between(-90, 90) & pl.col("lon").is_between(-180, 180) & ~nowhere
    lately = pl.col("time").is_between(EARLIEST, datetime.now(UTC) + timedelta(days=1))
    fate = (
        pl.when(~whole).then(1).when(~there.fill_null(False)).then(2)
        .when(~lately.fill_null(False)).then(3).otherwise(0).cast(pl.Int8)
    )  # fmt: skip
    judged = frame.with_columns(fate=fate)
    kept = judged.filter(fate=0)
    seen.kept = len(kept)
    if seen.kept < seen.rows:
        wrong = judged.filter(pl.col("fate") > 0)
        counts = dict(wrong["fate"].value_counts().iter_rows())
        seen.unreadable, seen.impossible, seen.untimely = (counts.get(f, 0) for f in (1, 2, 3))
        for file, line, why in wrong.select("file", "line", "fate").head(_LINES_TOLD).rows():
            seen.where.append((file, line, _WHY[why]))
        if seen.impossible:
            seen.broken += _swapped(judged)
    return kept.select(COLUMNS), seen


_WHY = {
    1: "not a user, a time and two numbers",
    2: "coordinates that no place has, or 0, 0",
    3: f"a time before {EARLIEST.year} or after tomorrow",
}


def _swapped(judged: pl.DataFrame) -> list[tuple[str, str]]:
    """Find files most of whose rows would be places if latitude were longitude."""
    import polars as pl

    other_way = pl.col("lat").is_between(-180, 180) & pl.col("lon").is_between(-90, 90)
    share = (pl.col("fate").eq(2) & other_way & pl.col("lat").abs().gt(90)).mean()
    found = judged.group_by("file", maintain_order=True).agg(share=share)
    return [(file, SWAPPED) for file in found.filter(pl.col("share") > 0.5)["file"]]


def _scan_csv(files: Sequence[Path], **options: Any) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_csv(
        list(files),
        infer_schema=False,
        truncate_ragged_lines=True,
        include_file_paths="file",
        row_index_name="line",
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
            stream.readline()
        return stream.readline().count(b",") + 1


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
        file="file",
        line=pl.col("line").cast(pl.Int64),
        blank=pl.all_horizontal(pl.col(c).is_null() for c in ("time", "lat", "lon")),
    )
    large = sum(file.stat().st_size for file in files) > LARGE_BYTES
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


def open_bytes(file: Path) -> IO[bytes]:
    """Open a file, unpacking it on the way if it is a gzip."""
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(file)) if packed else file.open("rb")


def _separator(file: Path) -> str:
    """Tell what parts the columns of a text: a comma, a semicolon or a tab."""
    try:
        with open_bytes(file) as stream:
            heading = stream.readline(10_000)
    except (OSError, EOFError) as wrong:
        raise _unreadable(file, wrong) from None
    return max(",;\t", key=lambda mark: heading.count(mark.encode()))


def _unreadable(file: Path, wrong: BaseException) -> FormatError:
    # What the reader itself says may hold a row.
    return FormatError(f"{file} cannot be read ({type(wrong).__name__})")
