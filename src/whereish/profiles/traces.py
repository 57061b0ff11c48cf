"""Traces: who was where and when, read from the files that people and researchers have.

Whatever the format, what comes out are batches of one table: ``user`` (text), ``time`` (UTC),
``lat`` and ``lon`` (degrees). A batch is a person, some files or a part of one, never the whole
set. Rows that cannot be used are dropped, counted, and told by file and line; no message holds a
coordinate.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from whereish.errors import FormatError, InputError, WhereishError
from whereish.profiles import formats
from whereish.profiles.documents import document_frames
from whereish.profiles.formats import COLUMNS, LARGE_BYTES, Funnel, clean, open_bytes, schema
from whereish.threads import cores

if TYPE_CHECKING:
    import polars as pl

KINDS = ("geolife", "t-drive", "csv", "parquet", "gpx", "geojson", "google")
_SUFFIXES = {
    ".plt": "geolife", ".txt": "t-drive", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet",
    ".pq": "parquet", ".gpx": "gpx", ".geojson": "geojson", ".json": "json",
}  # fmt: skip
# Where a folder holds several kinds, the one that says most about people is meant.
_RANK = ("geolife", "google", "gpx", "geojson", "parquet", "t-drive", "csv")
_TAXI_LINE = re.compile(rb"\xef?\xbb?\xbf?\s*\d+\s*,\s*\d{4}-\d\d?-\d\d?[ T][\d:]+\s*,[^,]*,[^,]*$")
_GOOGLE_KEYS = (b'"locations"', b'"timelineObjects"', b'"semanticSegments"', b'"rawSignals"')
_TEXTS = ("geolife", "t-drive", "csv")  # many files of these are read at once
_FILES_A_BATCH = 200
# T-Drive's clock is Beijing's; GPX and Google say theirs; GeoLife's is Greenwich.
_CLOCKS = {"t-drive": "Asia/Shanghai"}
Made = TypeVar("Made")
Progress = Callable[[int, int, int], object]


@dataclass(frozen=True)
class Traces:
    """Traces in files, read batch by batch.

    Attributes
    ----------
    kind
        One of `KINDS`.
    groups
        Whose they are, where the files' places tell, and the files of each batch.
    columns
        What the columns of a table are called.
    zone
        The time zone of times that do not say theirs.
    person
        All of it is this person's, whatever the files say.
    users
        Read only these people.
    strict
        Rows and files that cannot be used are an error.
    left_out
        How many files of other kinds there are, by kind.
    """

    kind: str
    groups: tuple[tuple[str | None, tuple[Path, ...]], ...] = field(repr=False)
    columns: dict[str, str] | None = None
    zone: str = "UTC"
    person: str | None = None
    users: frozenset[str] | None = None
    strict: bool = False
    root: Path = field(default=Path("."), repr=False)
    left_out: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, in the order in which they are read."""
        return tuple(file for _, files in self.groups for file in files)

    @property
    def tells_people(self) -> bool:
        """Whether the data itself says whose each point is."""
        if self.kind in ("geolife", "t-drive"):
            return True
        if self.kind not in ("csv", "parquet"):
            return False
        first: FormatError | None = None
        for file in self.files[:_FILES_A_BATCH]:
            try:
                return formats.find_columns(self.kind, file, self.columns).user is not None
            except FormatError as wrong:
                first = first or FormatError(f"{file} cannot be read: {wrong}")
        raise first or FormatError(f"{self.root} has no {self.kind} traces")

    def batches(
        self, funnel: Funnel | None = None, progress: Progress | None = None
    ) -> Iterator[pl.DataFrame]:
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
        for batch in self.map(lambda table: table, funnel, progress):
            if len(batch):
                yield batch

    def map(
        self,
        function: Callable[[pl.DataFrame], Made],
        funnel: Funnel | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Made]:
        """Yield what a function makes of each batch, in order; it is called on every core."""
        funnel = Funnel() if funnel is None else funnel
        files, rows_before = len(self.files), funnel.rows
        for made, seen in _ahead(self.groups, lambda *group: self._read(function, *group)):
            funnel.add(seen)
            if self.strict and (seen.dropped or seen.broken):
                raise FormatError(seen.complaint())
            if progress is not None:
                progress(funnel.files, files, funnel.rows - rows_before)
            yield made

    def digest(self) -> str:
        """Return a digest of the content of all files, and of how they are read."""

        def one(file: Path) -> bytes:
            told = hashlib.blake2b(digest_size=20)
            try:
                with file.open("rb") as stream:
                    while chunk := stream.read(1 << 20):
                        told.update(chunk)
            except OSError as wrong:
                return type(wrong).__name__.encode()
            return told.digest()

        users = None if self.users is None else sorted(self.users)
        how = [self.kind, self.columns, self.zone, self.person, users, self.strict]
        whole = hashlib.blake2b(json.dumps(how).encode(), digest_size=20)
        with ThreadPoolExecutor(cores()) as pool:
            for (user, files), told in zip(
                self.groups, pool.map(lambda group: [one(f) for f in group[1]], self.groups),
                strict=True,
            ):  # fmt: skip
                names = [str(self._name(file)) for file in files]
                whole.update(json.dumps([user, names]).encode() + b"".join(told))
        return whole.hexdigest()

    def _name(self, file: Path) -> Path:
        return file.relative_to(self.root) if file.is_relative_to(self.root) else file

    def _read(
        self, function: Callable[[pl.DataFrame], Made], user: str | None, files: tuple[Path, ...]
    ) -> Iterator[tuple[Made, Funnel]]:
        """Read the files of a batch, part by part; one that is broken is left out and counted."""
        import polars as pl

        for chunk in (files[s : s + _FILES_A_BATCH] for s in range(0, len(files), _FILES_A_BATCH)):
            there = tuple(file for file in chunk if _size(file) > 0)
            whole = Funnel(files=len(chunk))
            tables = []
            for frame, broken in self._unbroken(user, there):
                table, seen = clean(frame) if frame is not None else (None, Funnel())
                seen.broken = [*broken, *seen.broken]
                whole.add(seen)
                if table is not None:
                    tables.append(self._whose(table))
                if whole.rows >= formats.ROWS_A_FRAME:
                    yield function(pl.concat(tables)), whole
                    whole, tables = Funnel(), []
            if tables or whole.files or whole.broken:
                table = pl.concat(tables) if tables else pl.DataFrame(schema=schema())
                yield function(table), whole

    def _unbroken(
        self, user: str | None, files: tuple[Path, ...]
    ) -> Iterator[tuple[pl.DataFrame | None, list[tuple[str, str]]]]:
        """Yield the frames of some files; when one is broken, find out which."""
        import polars as pl

        if len(files) > 1 and self.kind not in _TEXTS:
            for file in files:
                yield from self._unbroken(user, (file,))
            return
        given = 0
        try:
            for frame in self._frames(user, files) if files else ():
                given += 1
                yield frame, []
        except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error, FormatError) as wrong:
            if len(files) > 1 and not given:
                for file in files:
                    yield from self._unbroken(user, (file,))
            elif isinstance(wrong, FormatError):
                yield None, [(str(file), str(wrong)) for file in files]
            elif self.kind in _TEXTS and not given:
                yield from self._slowly(user, files[0])
            elif not isinstance(wrong, pl.exceptions.NoDataError):
                # What a reader says of a bad row may hold the row.
                yield None, [(str(file), type(wrong).__name__) for file in files]
        except BaseException as wrong:
            if type(wrong).__name__ != "PanicException":  # polars gives up on some damaged files
                raise
            yield None, [(str(file), "damaged") for file in files]

    def _slowly(
        self, user: str | None, file: Path
    ) -> Iterator[tuple[pl.DataFrame | None, list[tuple[str, str]]]]:
        """Read line by line what polars has given up on."""
        whose = user or _whose_file(self.root, file)
        try:
            for frame in formats.slow_frames(self.kind, whose, file, self.columns, self.zone):
                yield frame, []
        except (FormatError, OSError, EOFError, zlib.error) as wrong:
            reason = str(wrong) if isinstance(wrong, FormatError) else type(wrong).__name__
            yield None, [(str(file), reason)]

    def _frames(self, user: str | None, files: tuple[Path, ...]) -> Iterator[pl.DataFrame]:
        if self.kind == "geolife":
            yield from formats.plt_frames(user or "", files, self.zone)
        elif self.kind == "t-drive":
            yield from formats.taxi_frames(files, self.zone)
        elif self.kind == "csv":
            columns = formats.find_columns("csv", files[0], self.columns)
            users = {str(file): _whose_file(self.root, file) for file in files}
            yield from formats.csv_frames(users, files, columns, self.zone)
        elif self.kind == "parquet":
            columns = formats.find_columns("parquet", files[0], self.columns)
            whose = _whose_file(self.root, files[0])
            yield from formats.parquet_frames(whose, files[0], columns, self.zone)
        else:
            whose = _whose_file(self.root, files[0])
            yield from document_frames(self.kind, whose, files[0], self.zone)

    def _whose(self, table: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if self.users is not None:
            table = table.filter(pl.col("user").is_in(list(self.users)))
        return table if self.person is None else table.with_columns(user=pl.lit(self.person))


def _ahead(groups: tuple[Any, ...], read: Callable[..., Iterator[Made]]) -> Iterator[Made]:
    """Read groups on every core, a little ahead of who consumes them, and yield in their order."""
    stop, done = threading.Event(), object()
    lines: list[queue.Queue[Any]] = [queue.Queue(2) for _ in groups]
    numbers = iter(range(len(groups)))
    taking = threading.Lock()
    open_now = threading.Semaphore(cores() + 1)

    def put(line: queue.Queue[Any], item: Any) -> None:
        while not stop.is_set():
            try:
                line.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def work() -> None:
        while not stop.is_set():
            # Not further ahead than a core each: what is read waits in memory.
            if not open_now.acquire(timeout=0.2):
                continue
            with taking:
                number = next(numbers, None)
            if number is None:
                open_now.release()
                return
            try:
                for item in read(*groups[number]):
                    put(lines[number], item)
                    if stop.is_set():
                        return
                put(lines[number], done)
            except BaseException as wrong:
                put(lines[number], wrong)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(cores())]
    for thread in threads:
        thread.start()
    try:
        for line in lines:
            while (item := line.get()) is not done:
                if isinstance(item, BaseException):
                    raise item
                yield item
            open_now.release()
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=5)


def open_traces(
    path: str | Path,
    kind: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    zone: str | None = None,
    person: str | None = None,
    users: Collection[str] | None = None,
    strict: bool = False,
) -> Traces:
    """Find out what traces there are, without reading them yet.

    Parameters
    ----------
    path
        A file or a folder: GeoLife's (or its ``Data``), T-Drive's text files, CSV or Parquet
        tables, GPX, GeoJSON, or a Google location history (Takeout's, or the phone's Timeline).
        Any of them may be packed by gzip.
    kind
        One of `KINDS`, if it is not to be found out.
    columns
        What the columns of a table are called: some of user, time, lat and lon.
    zone
        The time zone of times that do not say theirs; by default UTC, and Beijing's for T-Drive.
    person
        All of it is this person's. Otherwise, where the data does not say, everything in one
        folder (or file) at the top is one person's, who is called by its name.
    users
        Read only these people.
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
    named = dict(columns or {})
    if set(named) - set(COLUMNS):
        raise InputError(f"columns must name some of {', '.join(COLUMNS)}, got {', '.join(named)}")
    root = Path(path)
    files = _listed(root)
    kinds = {file: _kind(file, alone=len(files) == 1) for file in files}
    found = kind or _recognised(root, set(kinds.values()))
    chosen = files if len(files) == 1 else [f for f in files if kinds[f] == found]
    if not chosen:  # named, and not what it looks like
        chosen = [file for file in files if _suffix(file) in (found, "json")]
    if not chosen:
        raise FormatError(f"{root} has no {found} traces")
    if users is not None and isinstance(users, str):
        raise InputError("users must be a list of names, got one text")
    some = None if users is None else frozenset(users)
    base = root if root.is_dir() else root.parent
    left_out = dict(Counter(k for f, k in kinds.items() if k in KINDS and f not in set(chosen)))
    traces = Traces(
        found, _grouped(found, chosen, some), named or None,
        check_zone(zone or _CLOCKS.get(found, "UTC"), "the zone of the files' clock"), person,
        some, strict, base, left_out,
    )  # fmt: skip
    if not traces.groups:
        raise InputError(f"users must be among the people of {root}, got {', '.join(some or [])}")
    if found in ("csv", "parquet"):
        _ = traces.tells_people  # a table without the columns is refused now, not after an hour
    return traces


def check_zone(zone: str, name: str = "zone") -> str:
    """Check the name of a time zone."""
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError, TypeError):
        raise InputError(
            f"{name} must be the name of a time zone, like Europe/Paris or UTC, got {zone!r}"
        ) from None
    return zone


def _listed(root: Path) -> list[Path]:
    try:
        if not root.exists():
            raise InputError(f"traces must be a file or folder that exists, got {root}")
        if root.is_file():
            return [root]
        found, seen = [], set()
        for folder, inner, names in os.walk(root, followlinks=True):
            here = os.stat(folder)
            if (here.st_dev, here.st_ino) in seen:  # a link that leads back
                inner.clear()
                continue
            seen.add((here.st_dev, here.st_ino))
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            found += [Path(folder, name) for name in sorted(names) if not name.startswith(".")]
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, WhereishError):
            raise
        raise InputError("traces must be a file or folder that can be read") from None
    return found


def _suffix(file: Path) -> str:
    name = file.name.lower().removesuffix(".gz")
    return _SUFFIXES.get("." + name.rpartition(".")[2], "") if "." in name else ""


def _kind(file: Path, *, alone: bool) -> str:
    """Tell the kind of a file from its name, and of texts from how it begins; "" if unknown."""
    ending = _suffix(file)
    if ending in ("json", "t-drive", "csv") or (alone and not ending):
        return _sniffed(file)
    return ending


def _recognised(root: Path, kinds: set[str]) -> str:
    """Tell which of the kinds of files in a folder is meant."""
    for kind in _RANK:
        if kind in kinds:
            return kind
    raise FormatError(
        f"{root} must hold traces of a kind that is known ({', '.join(KINDS)}), or the kind be "
        "named; an archive must be unpacked first"
    )


def _sniffed(file: Path) -> str:
    """Tell what a text is from how it begins; "" if it is nothing known."""
    head = b""
    with contextlib.suppress(OSError, EOFError, zlib.error), open_bytes(file) as stream:
        # In small steps, because a gzip that is cut off gives its last one up.
        while len(head) < 1 << 16 and (more := stream.read(512)):
            head += more
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:4] == b"PAR1":
        return "parquet"
    if start[:1] == b"<":
        return "gpx" if b"<gpx" in start else ""
    if start[:1] in (b"{", b"["):
        if any(key in start for key in _GOOGLE_KEYS):
            return "google"
        if b'"features"' in start or b'"geometry"' in start or b'"FeatureCollection"' in start:
            return "geojson"
        return "google" if start[:1] == b"[" and b'"startTime"' in start else ""
    if start[:18].lower() == b"geolife trajectory":
        return "geolife"
    line = head.split(b"\n", 1)[0].rstrip(b"\r")
    if _TAXI_LINE.match(line):
        return "t-drive"
    return "csv" if _suffix(file) == "csv" or (b"," in line and b"lat" in line.lower()) else ""


def _grouped(
    kind: str, files: list[Path], some: frozenset[str] | None
) -> tuple[tuple[str | None, tuple[Path, ...]], ...]:
    """Put files together that are read at once: a person's, or as many as make a batch."""
    if kind == "geolife":
        people: dict[str, list[Path]] = {}
        for file in files:
            owner = file.parent.parent if file.parent.name == "Trajectory" else file.parent
            people.setdefault(owner.resolve().name, []).append(file)
        return tuple(
            (name, tuple(paths))
            for name, paths in sorted(people.items())
            if some is None or name in some
        )
    groups: list[tuple[str | None, tuple[Path, ...]]] = []
    held: list[Path] = []
    size = 0
    for file in files:
        if held and (size + _size(file) > LARGE_BYTES or len(held) == _FILES_A_BATCH):
            groups.append((None, tuple(held)))
            held, size = [], 0
        held.append(file)
        size += _size(file)
    return (*groups, (None, tuple(held)))


def _whose_file(root: Path, file: Path) -> str:
    """Name the person a file is of: the folder or file at the top that it is in, or is."""
    top = file.relative_to(root).parts[0] if file.is_relative_to(root) else file.name
    if top != file.name:
        return top
    bare = top[:-3] if top.lower().endswith(".gz") else top
    return bare.rpartition(".")[0] if _suffix(file) else bare


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 1  # it is there, and cannot be read: let the reader say so
