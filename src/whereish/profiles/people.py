"""The profiles of many people, one after the other: a folder of files, or one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whereish.compressed import unpacked_size
from whereish.errors import FormatError, InputError
from whereish.files import is_utf8
from whereish.lazy import pl
from whereish.limits import MOST_PLACES
from whereish.parquet import check_parquet
from whereish.profiles.profile import Profile
from whereish.profiles.tables import (
    NEEDED,
    coordinate_columns,
    from_columns,
    one_line,
    read_profile,
)

_FILES = (".csv", ".tsv", ".json", ".geojson", ".parquet", ".pq")
_ROWS = 200_000


@dataclass(frozen=True)
class Person:
    """The name of a person, and the profile or the problem with it."""

    user: str
    profile: Profile | None
    problem: str | None = None


class People:
    """The people of a folder of profiles, or of a table with a column ``user``.

    What can be wrong with all of it is found when it is opened: InputError if there is nobody, or
    somebody twice. What is wrong with one person's profile is theirs alone.
    """

    def __init__(self, path: str | Path, *, normalise: bool = False) -> None:
        self._path, self._normalise = Path(path), normalise
        self._is_parquet = self._path.suffix.lower() in (".parquet", ".pq")
        self._columns: list[str] = []  # those of a table that are read
        if self._path.is_dir():
            self._files = _people_of(self._path)
            self.count = len(self._files)
        elif self._path.is_file():
            self._files = {}
            self.count = self._count_rows()
        else:
            raise InputError(f"profiles must be a folder or a table that exists, got {path}")
        if not self.count:
            raise InputError(f"profiles must hold at least one person's, and {path} holds none")

    def __iter__(self) -> Iterator[Person]:
        if not self._path.is_dir():
            yield from self._from_table()
            return
        for user, file in self._files.items():
            try:
                yield Person(user, read_profile(file, normalise=self._normalise))
            except InputError as wrong:
                yield Person(user, None, str(wrong))

    def _scan(self) -> Any:
        if self._is_parquet:
            return pl.scan_parquet(self._path, glob=False)
        return pl.scan_csv(self._path, infer_schema=False, glob=False)

    def _needed(self) -> Any:
        return self._scan().select(self._columns).with_columns(pl.col("user").cast(pl.String))

    def _check_table(self) -> None:
        """Check the columns, and that it does not unpack to far more than it is."""
        try:
            if not self._is_parquet:
                unpacked_size(self._path)
            names = self._scan().collect_schema().names()
            if "user" not in names:
                raise FormatError("profiles must be a table with a column user, and this has none")
            coordinate_columns(names)
            self._columns = [name for name in names if name in NEEDED]
            if self._is_parquet:
                check_parquet(self._path, self._columns)
        except FormatError as wrong:
            raise FormatError(f"{self._path}: {wrong}") from None

    def _count_rows(self) -> int:
        try:
            self._check_table()
            user = pl.col("user")
            counts = self._needed().select(
                people=user.n_unique(), runs=user.rle_id().max(), nameless=user.is_null().any()
            )
            people, runs, nameless = counts.collect().row(0)
        except (pl.exceptions.PolarsError, OSError) as wrong:
            raise FormatError(
                f"profiles must be a Parquet or CSV table, and {self._path} is not one "
                f"({type(wrong).__name__})"
            ) from None
        if nameless:
            raise FormatError(f"profiles must name everybody: in {self._path} user is empty once")
        if runs is not None and runs + 1 > people:
            raise FormatError(
                f"profiles must have everybody's rows together: in {self._path} somebody comes "
                "twice, with others in between; sort the table by user"
            )
        return int(people)

    def _from_table(self) -> Iterator[Person]:
        rest: pl.DataFrame | None = None
        at = 0
        while True:
            piece = self._needed().slice(at, _ROWS).collect()
            at += piece.height
            last = piece.height < _ROWS
            whole = piece if rest is None else pl.concat([rest, piece])
            parts = whole.partition_by("user", maintain_order=True) if whole.height else []
            rest = None if last or not parts else parts.pop().head(MOST_PLACES + 1)
            for part in parts:
                yield self._person(part)
            if last:
                return

    def _person(self, rows: Any) -> Person:
        user = str(rows["user"][0])
        columns = rows.drop("user").head(MOST_PLACES + 1).to_dict(as_series=False)
        try:
            return Person(user, from_columns(columns, self._normalise))
        except InputError as wrong:
            return Person(user, None, one_line(wrong))


def _people_of(folder: Path) -> dict[str, Path]:
    """Return the profiles of a folder by the name of the file; nobody twice."""
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if not file.is_file() or file.suffix.lower() not in _FILES or file.name.startswith("."):
            continue
        if not is_utf8(file.name):
            raise InputError(
                f"profiles must have names in UTF-8, and one in {folder} has none: rename {file!r}"
            )
        if file.stem in found:
            raise InputError(
                f"profiles must be one a person: {found[file.stem].name} and {file.name} are both "
                f"{file.stem}'s"
            )
        found[file.stem] = file
    return found
