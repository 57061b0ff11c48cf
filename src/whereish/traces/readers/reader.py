"""What every reader of a format does, and how files are to be read.

A reader ends in frames of ``user, time, lat, lon, file, line``. What cannot be read is null: it
goes no further than `cleaning.clean`, which drops the row and counts it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from whereish.lazy import pl
from whereish.traces.readers.columns import Columns

_BLANK = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True)
class Options:
    """How the files of some traces are read.

    Attributes
    ----------
    zone
        The time zone of times that do not say theirs.
    columns
        What the columns of a table are called, where they have unusual names.
    timed
        Whether a row needs a time.
    owner
        Names the person of a file, for formats whose rows do not.
    """

    zone: str = "UTC"
    columns: dict[str, str] | None = None
    timed: bool = True
    owner: Callable[[Path], str] = lambda file: file.stem


class Reader(ABC):
    """A format of traces. To add one: a subclass in a file of this folder, and a line in READERS.

    Attributes
    ----------
    name
        What the format is called: the ``kind`` of `open_traces`, and ``--kind``.
    words
        What the files hold, in a sentence or two for the documentation.
    suffixes
        Endings of file names that only this format has.
    shared_suffixes
        Endings that other formats have too: for those, `sniff` decides.
    zone
        The time zone of times that do not say theirs, unless the user names another.
    names_people
        Whether the data always says whose each point is.
    has_columns
        Whether it is a table, whose columns may be named; see `columns`.
    reads_many
        Whether `frames` reads many files at once. Such a reader also has `slow_frames`.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    shared_suffixes: ClassVar[tuple[str, ...]] = ()
    zone: ClassVar[str] = "UTC"
    names_people: ClassVar[bool] = False
    has_columns: ClassVar[bool] = False
    reads_many: ClassVar[bool] = False

    @abstractmethod
    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Yield what files hold, as frames; of one file, unless the reader reads many at once."""

    def sniff(self, file: Path, head: bytes) -> bool:
        """Return whether a file of this name that begins so is of this format."""
        return False

    def people(self, files: Sequence[Path]) -> dict[str, list[Path]] | None:
        """Return the files of each person, where their folders name people; None elsewhere."""
        return None

    def columns(self, file: Path, options: Options) -> Columns:
        """Find the columns of a table."""
        raise NotImplementedError

    def slow_frames(self, file: Path, options: Options) -> Iterator[pl.DataFrame]:
        """Read a file line by line, as far as it goes."""
        raise NotImplementedError


def start_of(head: bytes) -> bytes:
    """Return how a file begins, without a byte order mark and white space."""
    return head.lstrip(_BLANK)


def first_line(head: bytes) -> bytes:
    """Return the first line of a file."""
    return head.split(b"\n", 1)[0].rstrip(b"\r")
