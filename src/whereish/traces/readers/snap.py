"""SNAP: check-ins of Gowalla and Brightkite in the format of that collection, without a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from whereish.lazy import pl
from whereish.traces.readers import texts
from whereish.traces.readers.reader import Options, first_line
from whereish.traces.readers.texts import Line, TextReader

_FIELDS = ("user", "time", "lat", "lon", "place")
_LINE = re.compile(rb"\xef?\xbb?\xbf?\d+\t\d{4}-\d\d-\d\d[ T][\d:]+Z?\t[^\t]*\t[^\t]*\t[^\t]*$")


class Snap(TextReader):
    """Check-ins: user, time, latitude, longitude, place id."""

    name: ClassVar[str] = "snap"
    words: ClassVar[str] = (
        "check-ins of Gowalla and Brightkite in the format of the SNAP collection: user, time, "
        "latitude, longitude and place id, separated by tabs, without a heading. Times are UTC."
    )
    # Files end in .txt, which stays the name of T-Drive: how a file begins tells the two apart.
    names_people: ClassVar[bool] = True

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise a line of the data."""
        return _LINE.match(first_line(head)) is not None

    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Read some files."""
        rows = texts.scan_lines(files, _FIELDS, separator="\t")
        rows = rows.with_columns(blank=texts.all_null(*_FIELDS))
        yield from texts.typed_frames(rows, files, 1, options.zone)

    def line(self, file: Path, options: Options) -> Line:
        """Return how a line is read."""
        return Line(lambda f: tuple(f[:4]), separator="\t")
