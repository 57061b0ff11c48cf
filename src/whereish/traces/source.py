"""Traces: who was where and when, read from files.

Every format becomes batches of one table: ``user`` (text), ``time`` (UTC), ``lat`` and ``lon``
(degrees). A batch is a person, some files or a part of one, never the complete set. Rows that
cannot be used are dropped, counted, and named by file and line; no message holds a coordinate.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from whereish.compressed import UNREADABLE
from whereish.day_periods import check_zone
from whereish.errors import FormatError, InputError, described
from whereish.lazy import pl
from whereish.parallel import cores, read_ahead
from whereish.traces import detection
from whereish.traces.cleaning import COLUMNS, Funnel, clean, schema
from whereish.traces.readers import KINDS, READERS, Options, Reader, limits

Made = TypeVar("Made")
Progress = Callable[[int, int, int], object]


@dataclass(frozen=True)
class Traces:
    """Traces in files, read batch by batch.

    Attributes
    ----------
    kind, columns, zone, person, users, strict
        As in `open_traces`, which finds the format and the zone where they are not given.
    groups
        The files of each batch, and the user where folders name people.
    left_out
        How many files of other kinds there are, by kind.
    unnamed
        Files whose names are not UTF-8, and which are not read.
    timed
        Whether a row needs a time; it does not where points are counted, see `count_visits`.
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
    unnamed: tuple[str, ...] = field(default=(), repr=False)
    timed: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, in the order in which they are read."""
        return tuple(file for _, files in self.groups for file in files)

    @property
    def tells_people(self) -> bool:
        """Whether the data itself says whose each point is."""
        if not self._reader.has_columns:
            return self._reader.names_people
        first: FormatError | None = None
        found = []
        for file in self.files[: detection.FILES_A_BATCH]:
            try:
                found.append("user" in self._reader.columns(file, self._options(None)).named)
            except FormatError as wrong:
                first = first or FormatError(f"{file} cannot be read: {wrong}")
        if not found:
            raise first or FormatError(f"{self.root} has no {self.kind} traces")
        return any(found)

    @property
    def _reader(self) -> Reader:
        return READERS[self.kind]

    def _options(self, user: str | None) -> Options:
        """Return how files are read; where their folder names no user, their names do."""
        owner = partial(detection.whose_file, self.root) if user is None else lambda _: user
        return Options(self.zone, self.columns, self.timed, owner)

    def batches(
        self, funnel: Funnel | None = None, progress: Progress | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield polars tables with the columns user, time, lat and lon.

        The funnel is filled in as batches are read; progress is called with files done, files in
        all, and rows so far. With ``strict``, FormatError is raised if something cannot be used.
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
        funnel.broken += [(name, "a name that is not UTF-8") for name in self.unnamed]
        if self.strict and self.unnamed:
            raise FormatError(funnel.complaint())
        files, rows_before = len(self.files), funnel.rows
        for made, seen in read_ahead(self.groups, lambda *group: self._read(function, *group)):
            funnel.add(seen)
            if self.strict and (seen.dropped or seen.broken):
                raise FormatError(seen.complaint())
            if progress is not None:
                progress(funnel.files, files, funnel.rows - rows_before)
            yield made

    def of_people(self, users: Collection[str]) -> Traces:
        """Leave out the files of other people, where folders name people."""
        some = tuple(group for group in self.groups if group[0] is None or group[0] in users)
        return replace(self, groups=some)

    def digest(self) -> str:
        """Return a digest of the content of all files, and of how they are read."""

        def one(group: tuple[str | None, tuple[Path, ...]]) -> bytes:
            user, files = group
            inside = (f.relative_to(self.root) if f.is_relative_to(self.root) else f for f in files)
            names = [str(file) for file in inside]
            return json.dumps([user, names]).encode() + b"".join(map(_digest, files))

        users = None if self.users is None else sorted(self.users)
        how = [self.kind, self.columns, self.zone, self.person, users, self.strict]
        how += [] if self.timed else ["untimed"]
        digest = hashlib.blake2b(json.dumps(how).encode(), digest_size=20)
        with ThreadPoolExecutor(cores()) as pool:
            for part in pool.map(one, self.groups):
                digest.update(part)
        return digest.hexdigest()

    def _read(
        self, function: Callable[[pl.DataFrame], Made], user: str | None, files: tuple[Path, ...]
    ) -> Iterator[tuple[Made, Funnel]]:
        """Read the files of a batch, part by part; one that is broken is left out and counted."""
        for chunk in detection.batches_of(files):
            there = tuple(file for file in chunk if detection.size_of(file) > 0)
            whole = Funnel(files=len(chunk))
            tables = []
            for frame in self._unbroken(user, there):
                if isinstance(frame, list):
                    whole.broken += frame
                    continue
                table, seen = clean(frame, self.timed)
                whole.add(seen)
                tables.append(self._whose(table))
                if whole.rows >= limits.ROWS_A_FRAME:
                    yield function(pl.concat(tables)), whole
                    whole, tables = Funnel(), []
            if tables or whole.files or whole.broken:
                table = pl.concat(tables) if tables else pl.DataFrame(schema=schema())
                yield function(table), whole

    def _unbroken(
        self, user: str | None, files: tuple[Path, ...]
    ) -> Iterator[pl.DataFrame | list[tuple[str, str]]]:
        """Yield the frames of some files, and the files that are broken with the reason."""
        reader, options = self._reader, self._options(user)
        if len(files) > 1 and not reader.reads_many:
            for file in files:
                yield from self._unbroken(user, (file,))
            return
        begun = False
        try:
            for frame in reader.frames(files, options) if files else ():
                begun = True
                yield frame
        except (pl.exceptions.PolarsError, FormatError, *UNREADABLE) as wrong:
            if len(files) > 1 and not begun:
                for file in files:
                    yield from self._unbroken(user, (file,))
            elif reader.reads_many and not begun and not isinstance(wrong, FormatError):
                yield from _slowly(reader, files[0], options)
            elif not isinstance(wrong, pl.exceptions.NoDataError):
                yield [(str(file), _reason(wrong)) for file in files]
        except BaseException as wrong:
            if type(wrong).__name__ != "PanicException":  # polars gives up on some damaged files
                raise
            yield [(str(file), "damaged") for file in files]

    def _whose(self, table: pl.DataFrame) -> pl.DataFrame:
        if self.users is not None:
            table = table.filter(pl.col("user").is_in(list(self.users)))
        return table if self.person is None else table.with_columns(user=pl.lit(self.person))


def _digest(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, partial(hashlib.blake2b, digest_size=20)).digest()
    except OSError as wrong:
        return type(wrong).__name__.encode()


def _slowly(
    reader: Reader, file: Path, options: Options
) -> Iterator[pl.DataFrame | list[tuple[str, str]]]:
    """Read a file line by line that polars cannot read."""
    try:
        yield from reader.slow_frames(file, options)
    except (FormatError, *UNREADABLE) as wrong:
        yield [(str(file), _reason(wrong))]


def _reason(wrong: Exception) -> str:
    """Say why a file is broken; the words of polars about a bad row may hold the row."""
    return str(wrong) if isinstance(wrong, FormatError) else type(wrong).__name__


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
    """Find the files of traces and their format, without reading them yet.

    Parameters
    ----------
    path
        A file or a folder of one of the formats in `READERS` (GPX, CSV, GeoLife's ``Data``, a
        Google location history, ...); docs/traces.md describes each. All but Parquet
        may be compressed by gzip. Tables without a column of times are points: each row counts
        once.
    kind
        One of `KINDS`, if the format is not to be recognised.
    columns
        What the columns of a table are called: some of user, time, lat and lon.
    zone
        The time zone of times that do not say theirs; by default UTC, and Beijing's for T-Drive.
    person
        Everything is this person's, also where the files name others. Otherwise, where the data
        does not name people, everything in one folder (or file) at the top is one person's, named
        after it.
    users
        Read only these people.
    strict
        Make rows and files that cannot be used an error.

    Raises
    ------
    InputError, FormatError
        If there is nothing, or no known format.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"traces must be the name of a file or folder, got {described(path)}")
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {described(kind)}")
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"columns must be a mapping like {{'lat': 'y'}}, got {described(columns)}")
    if person is not None and not isinstance(person, str):
        raise InputError(f"person must be a name, got {described(person)}")
    named = dict(columns or {})
    if set(named) - set(COLUMNS):
        raise InputError(f"columns must name some of {', '.join(COLUMNS)}, got {', '.join(named)}")
    root = Path(path)
    files, unnamed = detection.listed(root)
    kinds = {file: detection.kind_of(file, alone=len(files) == 1) for file in files}
    found = kind or detection.recognised(root, set(kinds.values()))
    chosen = files
    if len(files) > 1:
        chosen = [file for file in files if _fits(file, kinds[file], found, named=bool(kind))]
    if not chosen:
        raise FormatError(f"{root} has no {found} traces")
    are_names = isinstance(users, Collection) and all(isinstance(user, str) for user in users)
    if users is not None and (isinstance(users, str) or not are_names):
        raise InputError(f"users must be a list of names, got {described(users)}")
    some = None if users is None else frozenset(users)
    base = root if root.is_dir() else root.parent
    taken = set(chosen)
    left_out = dict(Counter(k for f, k in kinds.items() if k in KINDS and f not in taken))
    traces = Traces(
        found, detection.grouped(found, chosen, some), named or None,
        check_zone(zone or READERS[found].zone, "the zone of the files' clock"), person,
        some, strict, base, left_out, unnamed,
    )  # fmt: skip
    if not traces.groups:
        raise InputError(f"users must be among the people of {root}, got {', '.join(some or [])}")
    return _with_columns(traces) if READERS[found].has_columns else traces


def _fits(file: Path, kind: str, wanted: str, *, named: bool) -> bool:
    """Tell whether a file is read: by its format or, where that is not known, by its name.

    A name that several formats have is enough only if the user named the format.
    """
    if kind:
        return kind == wanted
    by_name = detection.kinds_by_name(file)
    return wanted in by_name if named else by_name == (wanted,)


def _with_columns(traces: Traces) -> Traces:
    """Refuse tables without the columns before they are read; without times they are points."""
    try:
        _ = traces.tells_people
    except FormatError:
        points = replace(traces, timed=False)
        with contextlib.suppress(FormatError):
            _ = points.tells_people
            return points
        raise
    return traces
