"""T-Drive: text files of taxis in Beijing, without a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from whereish.lazy import pl
from whereish.traces.readers import texts
from whereish.traces.readers.reader import Options, first_line
from whereish.traces.readers.texts import Line, TextReader

_FIELDS = ("user", "time", "lon", "lat")
_LINE = re.compile(rb"\xef?\xbb?\xbf?\s*\d+\s*,\s*\d{4}-\d\d?-\d\d?[ T][\d:]+\s*,[^,]*,[^,]*$")


class TDrive(TextReader):
    """Microsoft's T-Drive data set: taxi id, date and time, longitude, latitude."""

    name: ClassVar[str] = "t-drive"
    words: ClassVar[str] = (
        "text files of taxi id, date and time, longitude, latitude, without a heading. The id "
        "names the person. Times are Beijing's."
    )
    shared_suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    zone: ClassVar[str] = "Asia/Shanghai"
    names_people: ClassVar[bool] = True

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise a line of the data."""
        return _LINE.match(first_line(head)) is not None

    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Read some files."""
        rows = texts.scan_lines(files, _FIELDS).with_columns(blank=texts.all_null(*_FIELDS))
        yield from texts.without_cut_off(texts.typed_frames(rows, files, 1, options.zone), files)

    def line(self, file: Path, options: Options) -> Line:
        """Return how a line is read."""
        return Line(lambda f: (f[0], f[1], f[3], f[2]))
