"""OwnTracks: the ``.rec`` files of its Recorder, lines of a time, a mark and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from whereish.compressed import open_bytes, read_line
from whereish.traces.readers.points import Point, PointReader
from whereish.traces.readers.reader import first_line, start_of

_LINE = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z\t[^\t]*\t")


class OwnTracks(PointReader):
    """What OwnTracks' Recorder stores: a folder for each user, in it one for each device."""

    name: ClassVar[str] = "owntracks"
    words: ClassVar[str] = (
        "the `.rec` files of OwnTracks' Recorder, like `ann/phone/2026-01.rec`. Lines that are no "
        "location are skipped. The time is that of the fix (`tst`) or, without one, the line's."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".rec",)

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise a line of the data."""
        return _LINE.match(first_line(start_of(head))) is not None

    def points(self, file: Path) -> Iterator[Point]:
        """Yield the locations of a file."""
        with open_bytes(file) as stream:
            for number, raw in enumerate(iter(lambda: read_line(stream), b""), start=1):
                text = raw.decode("utf-8", "replace").strip("\ufeff \r\n")
                if text:
                    yield from _location(text, number)


def _location(text: str, line: int) -> Iterator[Point]:
    """Yield the location of a line, if it is one; of a damaged line, a point without a place."""
    time, _, rest = text.partition("\t")
    try:
        said: Any = json.loads(rest.partition("\t")[2])
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        yield time, None, None, line
    elif said.get("_type") == "location":
        fixed = said.get("tst")
        yield time if fixed is None else fixed, said.get("lat"), said.get("lon"), line
