"""Rows of traces: how times are read, which rows are dropped, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from whereish.lazy import pl

COLUMNS = ("user", "time", "lat", "lon")
_FORMS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M", "%Y%m%d %H%M%S",
)  # fmt: skip
_OFFSETS = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z", "%Y%m%d %H%M%S%#z")
_NUMBER = "number"
_Way = tuple["pl.Series", str, str | None]
# Receivers that do not know the date report 1980, 1999 or 2000.
EARLIEST = datetime(2001, 1, 1, tzinfo=UTC)
_LINES_SHOWN = 5
SWAPPED = "latitude and longitude seem to be swapped: name the columns"


@dataclass
class Funnel:
    """How many rows were read, how many were dropped, and why.

    Attributes
    ----------
    files, rows, kept
        How many files and rows were read, and how many rows could be used.
    unreadable
        Rows without numbers or a time.
    impossible
        Rows with coordinates that no place has, or 0, 0: receivers without a signal report that.
    untimely
        Rows of a time before 2001 (receivers that do not know the date) or after tomorrow.
    broken
        Files that could not be read completely, with the reason.
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
        """Add the counts of another funnel."""
        for name in ("files", "rows", "kept", "unreadable", "impossible", "untimely"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.broken += part.broken
        self.where += part.where[: max(0, _LINES_SHOWN - len(self.where))]

    def complaint(self) -> str:
        """Return the first problem in one line, without a coordinate."""
        if self.broken:
            file, reason = self.broken[0]
            return f"{file} cannot be read ({reason})"
        file, line, why = self.where[0]
        return f"{file}, line {line}: {why}"


def schema() -> dict[str, Any]:
    """Return the columns of every batch."""
    kinds = (pl.String, pl.Datetime("us", "UTC"), pl.Float64, pl.Float64)
    return dict(zip(COLUMNS, kinds, strict=True))


def moments(when: pl.Series, zone: str) -> pl.Series:
    """Turn a column of dates or numbers into times."""
    if when.dtype.is_numeric():
        return _epochs(when.cast(pl.Float64, strict=False))
    if not isinstance(when.dtype, pl.Datetime):  # a day alone is no time
        return pl.Series("time", [None] * len(when), dtype=pl.Datetime("us", "UTC"))
    # Times far out of range would overflow in other units and zones.
    placed = when.dtype.time_zone is not None
    there = when.dt.convert_time_zone("UTC") if placed else when.dt.replace_time_zone("UTC")
    sane = pl.col("t").is_between(
        datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    )
    kept = pl.DataFrame({"t": there}).select(pl.when(sane).then(pl.col("t")))["t"]
    kept = kept.dt.cast_time_unit("us")
    return kept if placed else _placed(kept.dt.replace_time_zone(None), zone)


def _epochs(number: pl.Series) -> pl.Series:
    """Read seconds, milli-, micro- or nanoseconds since 1970: the size tells which."""
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
    """Read local times of a time zone."""
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    placed = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return placed.dt.convert_time_zone("UTC")


def read_times(text: pl.Series, zone: str) -> pl.Series:
    """Read times from text: with an offset as they say, without one as in the given zone."""
    time = _parsed(text, _FORMS[0], zone)
    if time.null_count() == text.null_count():
        return time.alias("time")  # nearly always
    text = text.str.strip_chars()
    plain = text.str.replace("T", " ", literal=True)
    is_zulu = text.str.ends_with("Z")
    bare = plain.set(~is_zulu, None).str.strip_suffix("Z")
    zulu: list[_Way] = [(bare, form, "UTC") for form in (_FORMS[1], *_FORMS)]
    ways: list[_Way] = [
        *((plain, form, zone) for form in _FORMS[:-1]),
        *zulu,
        (text, "%+", None),
        *((plain, form, None) for form in _OFFSETS[:-1]),
        # Digits only are a number. A date without dashes is tried after that.
        (text, _NUMBER, None),
        (plain, _FORMS[-1], zone),
        (plain, _OFFSETS[-1], None),
    ]
    # Likely forms first: the others are tried only for times that are not read yet.
    for way in zulu + ways if is_zulu.head(1).any() else ways:
        if time.null_count() == text.null_count():
            break
        time = time.zip_with(time.is_not_null(), _parsed(*way))
    return time.alias("time")


def _parsed(text: pl.Series, form: str, zone: str | None) -> pl.Series:
    """Read times of one form; without a zone, they have an offset or are numbers."""
    if form == _NUMBER:
        return _epochs(text.cast(pl.Float64, strict=False))
    if zone is not None:
        return _placed(text.str.to_datetime(form, time_unit="us", strict=False), zone)
    return text.str.to_datetime(form, time_unit="us", strict=False, time_zone="UTC")


def clean(frame: pl.DataFrame, timed: bool = True) -> tuple[pl.DataFrame, Funnel]:
    """Drop and count rows that cannot be used; if not timed, their times do not matter."""
    seen = Funnel(rows=len(frame))
    nowhere = (pl.col("lat").abs() < 1e-9) & (pl.col("lon").abs() < 1e-9)
    there = pl.col("lat").is_between(-90, 90) & pl.col("lon").is_between(-180, 180) & ~nowhere
    lately = pl.col("time").is_between(EARLIEST, datetime.now(UTC) + timedelta(days=1))
    fate: pl.Expr = (
        pl.when(~there.fill_null(False)).then(_IMPOSSIBLE)
        .when(~lately.fill_null(False) & timed).then(_UNTIMELY).otherwise(0)
    )  # fmt: skip
    for number, name in reversed(list(enumerate(COLUMNS, start=1))):
        if name == "time" and not timed:
            continue
        fate = pl.when(pl.col(name).is_null()).then(number).otherwise(fate)
    judged = frame.with_columns(fate=fate.cast(pl.Int8))
    kept = judged.filter(fate=0)
    seen.kept = len(kept)
    if seen.kept < seen.rows:
        wrong = judged.filter(pl.col("fate") > 0)
        counts = dict(wrong["fate"].value_counts().iter_rows())
        seen.impossible, seen.untimely = (counts.get(f, 0) for f in (_IMPOSSIBLE, _UNTIMELY))
        seen.unreadable = seen.rows - seen.kept - seen.impossible - seen.untimely
        for file, line, why in wrong.select("file", "line", "fate").head(_LINES_SHOWN).rows():
            seen.where.append((file, line, _WHY[why]))
        if seen.impossible:
            seen.broken += _swapped(judged)
    return kept.select(COLUMNS), seen


_IMPOSSIBLE, _UNTIMELY = len(COLUMNS) + 1, len(COLUMNS) + 2
_WHY = {
    1: "the user is empty",
    2: "the time cannot be read (2024-05-01 12:30:00, with or without an offset, always can)",
    3: "the latitude is not a number",
    4: "the longitude is not a number",
    _IMPOSSIBLE: "coordinates that no place has, or 0, 0",
    _UNTIMELY: f"a time before {EARLIEST.year} or after tomorrow",
}


def _swapped(judged: pl.DataFrame) -> list[tuple[str, str]]:
    """Find files most of whose rows would be places if latitude were longitude."""
    other_way = pl.col("lat").is_between(-180, 180) & pl.col("lon").is_between(-90, 90)
    share = (pl.col("fate").eq(_IMPOSSIBLE) & other_way & pl.col("lat").abs().gt(90)).mean()
    found = judged.group_by("file", maintain_order=True).agg(share=share)
    return [(file, SWAPPED) for file in found.filter(pl.col("share") > 0.5)["file"]]
