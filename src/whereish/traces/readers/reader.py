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
    """How the files of some traces are read."""

    zone: str = "UTC"  # of times that do not say theirs
    columns: dict[str, str] | None = None  # what a table's are called, where that is unusual
    timed: bool = True  # whether a row needs a time
    # Names the person of a file, for formats whose rows do not.
    owner: Callable[[Path], str] = lambda file: file.stem


class Reader(ABC):
    """A format of traces. To add one: a subclass in a file of this folder, and `register` it."""

    name: ClassVar[str]  # the ``kind`` of `open_traces`, and ``--kind``
    words: ClassVar[str]  # what the files hold, in a sentence or two for the documentation
    suffixes: ClassVar[tuple[str, ...]] = ()  # endings of file names that only this format has
    shared_suffixes: ClassVar[tuple[str, ...]] = ()  # that others have too: `sniff` decides
    zone: ClassVar[str] = "UTC"  # of times that do not say theirs, unless the user names another
    names_people: ClassVar[bool] = False  # whether the data always says whose each point is
    has_columns: ClassVar[bool] = False  # whether it is a table: such a reader has `columns`
    reads_many: ClassVar[bool] = False  # many files at once: such a reader has `slow_frames`

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
