"""Traces: who was where and when, read from the files that people and researchers have.

Whatever the format, what comes out are batches of one table: ``user`` (text), ``time`` (UTC),
``lat`` and ``lon`` (degrees). A batch is a person or a file, never the whole set. Rows that cannot
be used are dropped, counted, and told by file and line; no message holds a coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whereish.errors import FormatError, InputError
from whereish.threads import cores

KINDS = ("geolife", "t-drive", "csv", "parquet")
_COLUMNS = ("user", "time", "lat", "lon")
_OTHER_NAMES = {
    "user": ("user", "user_id", "userid", "uid", "id", "taxi_id", "device", "device_id"),
    "time": ("time", "timestamp", "datetime", "date_time", "date", "when"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "longitude"),
}
_PLT_HEADER = 6
_FIRST_YEAR, _LAST_YEAR = 1990, 2100
_LINES_TOLD = 5


@dataclass
class Funnel:
    """What became of the rows that were read.

    Attributes
    ----------
    files, rows, kept
        How many there were, and how many rows could be used.
    unreadable, impossible, untimely
        Rows that are not numbers and a time; with coordinates that no place has, or 0, 0, where
        receivers are that do not know; or of a time when nobody had a receiver.
    broken
        Files that could not be read at all, with the reason.
    where
        File and line of the first rows that could not be read.
    """

    files: int = 0
    rows: int = 0
    kept: int = 0
    unreadable: int = 0
    impossible: int = 0
    untimely: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list)
    where: list[tuple[str, int]] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """How many rows were dropped."""
        return self.rows - self.kept


@dataclass(frozen=True)
class Traces:
    """Traces in files, read batch by batch.

    Attributes
    ----------
    kind
        One of `KINDS`.
    groups
        A name and the files of each batch: a person's for GeoLife, otherwise one file's.
    columns
        The names of user, time, lat and lon in a table; user is None if it has no such column.
    """

    kind: str
    groups: tuple[tuple[str, tuple[Path, ...]], ...]
    columns: tuple[str | None, str, str, str] | None = None
    strict: bool = False

    def batches(
        self,
        funnel: Funnel | None = None,
        progress: Callable[[int, int, int], object] | None = None,
    ) -> Iterator[Any]:
        """Yield polars tables with the columns user, time, lat and lon.

        Parameters
        ----------
        funnel
            Is filled in as batches are read.
        progress
            Called with files done, files in all, and rows so far.

        Raises
        ------
        FormatError
            If the traces were opened with ``strict`` and something cannot be used.
        """
        funnel = Funnel() if funnel is None else funnel
        files = sum(len(paths) for _, paths in self.groups)
        with ThreadPoolExecutor(cores()) as pool:
            # Read one batch ahead on every core, and hold no more than that.
            jobs: list[Any] = []
            waiting = iter(self.groups)
            while True:
                for group in waiting:
                    jobs.append(pool.submit(self._read, *group))
                    if len(jobs) > cores():
                        break
                if not jobs:
                    return
                table, seen = jobs.pop(0).result()
                _add(funnel, seen)
                if self.strict and (seen.dropped or seen.broken):
                    raise FormatError(_complaint(seen))
                if progress is not None:
                    progress(funnel.files, files, funnel.rows)
                if len(table):
                    yield table

    def _read(self, name: str, files: tuple[Path, ...]) -> tuple[Any, Funnel]:
        import polars as pl

        seen, tables = Funnel(files=len(files)), []
        for chunk in (files[start : start + 200] for start in range(0, len(files), 200)):
            try:
                tables.append(self._table(pl, name, chunk))
            except (pl.exceptions.PolarsError, OSError):
                # One of them is broken: find out which.
                for file in chunk:
                    try:
                        tables.append(self._table(pl, name, (file,)))
                    except (pl.exceptions.PolarsError, OSError) as wrong:
                        if isinstance(wrong, pl.exceptions.NoDataError):
                            continue  # nothing in it is nothing wrong
                        seen.broken.append((str(file), type(wrong).__name__))
        if not tables:
            return pl.DataFrame(schema=_schema(pl)), seen
        return _clean(pl, pl.concat(tables), seen)

    def _table(self, pl: Any, name: str, files: tuple[Path, ...]) -> Any:
        """Read some files of a kind, and give the columns their names and kinds."""
        there = [file for file in files if file.stat().st_size > 0]
        if not there:
            raise pl.exceptions.NoDataError("empty")
        text = {
            "has_header": False,
            "infer_schema": False,
            "truncate_ragged_lines": True,
            "include_file_paths": "file",
            "encoding": "utf8-lossy",
            "glob": False,
        }
        if self.kind == "geolife":
            raw = pl.scan_csv(there, skip_rows=_PLT_HEADER, **text)
            lat, lon, _, _, _, day, hour = _first(pl, raw, 7)
            when = pl.concat_str([day.str.strip_chars(), hour.str.strip_chars()], separator=" ")
            owner = pl.lit(name)
        elif self.kind == "t-drive":
            raw = pl.scan_csv(there, **text)
            owner, when, lon, lat = _first(pl, raw, 4)
        else:
            return self._named_table(pl, name, there, text)
        rows = raw.select(
            owner.str.strip_chars().alias("user"),
            when.str.strip_chars().alias("time"),
            lat.str.strip_chars().cast(pl.Float64, strict=False).alias("lat"),
            lon.str.strip_chars().cast(pl.Float64, strict=False).alias("lon"),
            "file",
        )
        return _timed(pl, rows.collect())

    def _named_table(self, pl: Any, name: str, there: list[Path], text: dict[str, Any]) -> Any:
        """Read a table with a heading, or what a Parquet file has."""
        user, when, lat, lon = self.columns or (None, *_COLUMNS[1:])
        if self.kind == "csv":
            raw = pl.scan_csv(there, **(text | {"has_header": True}))
        else:
            raw = pl.scan_parquet(there, include_file_paths="file", glob=False)
        moment = pl.col(when)
        kind = raw.collect_schema()[when]
        if kind == pl.String:
            stamp = moment.str.strip_chars()
        elif kind.is_numeric():
            stamp = pl.from_epoch(moment.cast(pl.Int64), time_unit="s").dt.replace_time_zone("UTC")
        else:
            zone = getattr(kind, "time_zone", None)
            stamp = moment.cast(pl.Datetime("us", zone))
            stamp = stamp.dt.convert_time_zone("UTC") if zone else stamp.dt.replace_time_zone("UTC")
        rows = raw.select(
            (pl.lit(name) if user is None else pl.col(user).cast(pl.String)).alias("user"),
            stamp.alias("time"),
            pl.col(lat).cast(pl.Float64, strict=False).alias("lat"),
            pl.col(lon).cast(pl.Float64, strict=False).alias("lon"),
            "file",
        ).collect()
        if kind == pl.String:
            return _timed(pl, rows)
        return rows.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))


def open_traces(path: str | Path, kind: str | None = None, *, strict: bool = False) -> Traces:
    """Find out what traces there are, without reading them yet.

    Parameters
    ----------
    path
        GeoLife's folder (or its ``Data``), T-Drive's folder of text files, a folder of CSV or
        Parquet files, or one such file.
    kind
        One of `KINDS`, if it is not to be found out.
    strict
        Make rows and files that cannot be used an error.

    Raises
    ------
    InputError, FormatError
        If there is nothing there, or nothing that is known.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"traces must be the name of a file or folder, got {path!r}")
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    root = Path(path)
    try:
        if not root.exists():
            raise InputError(f"traces must be a file or folder that exists, got {root}")
        files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, InputError):
            raise
        raise InputError("traces must be a file or folder that can be read") from None
    found = kind or _recognised(files)
    if found == "geolife":
        people: dict[str, list[Path]] = {}
        for file in files:
            if file.suffix.lower() == ".plt":
                owner = file.parent.parent if file.parent.name == "Trajectory" else file.parent
                people.setdefault(owner.name, []).append(file)
        groups = tuple((name, tuple(paths)) for name, paths in sorted(people.items()))
        columns = None
    else:
        suffixes = {"t-drive": (".txt",), "csv": (".csv",), "parquet": (".parquet", ".pq")}[found]
        chosen = [file for file in files if root.is_file() or file.suffix.lower() in suffixes]
        groups = tuple((file.stem, (file,)) for file in chosen)
        columns = None if found == "t-drive" or not chosen else _named(found, chosen[0])
    if not groups:
        raise FormatError(f"{root} has no {found} traces")
    return Traces(found, groups, columns, strict)


def _recognised(files: list[Path]) -> str:
    """Tell the kind of traces from the names of files, and the first line of a text."""
    suffixes = {file.suffix.lower() for file in files}
    if ".plt" in suffixes:
        return "geolife"
    if suffixes & {".parquet", ".pq"}:
        return "parquet"
    for file in files:
        if file.suffix.lower() in (".txt", ".csv") and file.stat().st_size > 0:
            with file.open("rb") as stream:
                line = stream.readline(400).decode("utf-8", "replace").strip("\ufeff\r\n ")
            parts = line.split(",")
            if len(parts) == 4 and parts[0].strip().isdigit() and parts[1][:2].isdigit():
                return "t-drive"
            if file.suffix.lower() == ".csv":
                return "csv"
    raise FormatError(
        f"traces must be of a kind that is known ({', '.join(KINDS)}), or the kind be named"
    )


def _named(kind: str, file: Path) -> tuple[str | None, str, str, str]:
    """Find the columns of a table by their usual names."""
    import polars as pl

    try:
        scan = (
            pl.scan_csv(file, infer_schema=False, glob=False)
            if kind == "csv"
            else pl.scan_parquet(file, glob=False)
        )
        names = list(scan.collect_schema())
    except (pl.exceptions.PolarsError, OSError) as wrong:
        raise FormatError(f"{file} cannot be read: {type(wrong).__name__}") from None
    lower = {name.strip("\ufeff ").lower(): name for name in reversed(names)}
    found = [next((lower[n] for n in _OTHER_NAMES[c] if n in lower), None) for c in _COLUMNS]
    user, when, lat, lon = found
    if when is None or lat is None or lon is None:
        raise FormatError(
            f"{file} must have columns for time, lat and lon, got {', '.join(names[:12])}"
        )
    return user, when, lat, lon


def _schema(pl: Any) -> dict[str, Any]:
    kinds = (pl.String, pl.Datetime("us", "UTC"), pl.Float64, pl.Float64)
    return dict(zip(_COLUMNS, kinds, strict=True))


def _first(pl: Any, raw: Any, count: int) -> list[Any]:
    """Return the first columns of a text without a heading."""
    names = list(raw.collect_schema())[:-1]
    if len(names) < count:
        raise pl.exceptions.SchemaError("too few columns")
    return [pl.col(name) for name in names[:count]]


_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%Y/%m/%d %H:%M:%S")


def _timed(pl: Any, table: Any) -> Any:
    """Read the times of a table: with a zone as they say, without one as UTC."""
    text = table["time"]
    plain = text.str.replace("T", " ", literal=True).str.strip_suffix("Z")
    time = pl.Series("time", [None] * len(text), dtype=pl.Datetime("us", "UTC"))
    for form in (*_FORMS, None):
        # The usual form first: others are tried for what it does not fit.
        if form is None:
            more = text.str.to_datetime("%+", time_unit="us", strict=False, time_zone="UTC")
        else:
            more = plain.str.to_datetime(form, time_unit="us", strict=False)
            more = more.dt.replace_time_zone("UTC")
        time = time.zip_with(time.is_not_null(), more)
        if time.null_count() == text.null_count():
            break
    return table.with_columns(time.alias("time"))


def _clean(pl: Any, table: Any, seen: Funnel) -> tuple[Any, Funnel]:
    """Drop and count rows that cannot be used."""
    seen.rows = len(table)
    bad = pl.any_horizontal(pl.col(name).is_null() for name in _COLUMNS)
    unreadable = table.select("file", bad=bad).with_columns(
        line=pl.int_range(pl.len()).over("file")
    )
    for file, line in unreadable.filter("bad").select("file", "line").head(_LINES_TOLD).rows():
        seen.where.append((file, line + 1))
    readable = table.filter(~bad)
    seen.unreadable = len(table) - len(readable)
    nowhere = (pl.col("lat").abs() < 1e-9) & (pl.col("lon").abs() < 1e-9)
    possible = readable.filter(
        pl.col("lat").is_between(-90, 90) & pl.col("lon").is_between(-180, 180) & ~nowhere
    )
    seen.impossible = len(readable) - len(possible)
    timely = possible.filter(
        pl.col("time").dt.year().is_between(_FIRST_YEAR, _LAST_YEAR, closed="left")
    )
    seen.untimely = len(possible) - len(timely)
    seen.kept = len(timely)
    return timely.select(_COLUMNS), seen


def _add(whole: Funnel, part: Funnel) -> None:
    for name in ("files", "rows", "kept", "unreadable", "impossible", "untimely"):
        setattr(whole, name, getattr(whole, name) + getattr(part, name))
    whole.broken += part.broken
    whole.where += part.where[: max(0, _LINES_TOLD - len(whole.where))]


def _complaint(seen: Funnel) -> str:
    if seen.broken:
        file, reason = seen.broken[0]
        return f"{file} cannot be read ({reason})"
    if seen.where:
        file, line = seen.where[0]
        return f"{file}: row {line} after the heading is not a user, a time and two numbers"
    return f"{seen.dropped} rows have coordinates or times that nobody can have"
