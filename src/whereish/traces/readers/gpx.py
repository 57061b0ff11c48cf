"""GPX: tracks, routes and way points as XML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from xml.parsers import expat

from whereish.compressed import open_bytes, read_steps
from whereish.errors import FormatError
from whereish.traces.readers.points import Point, PointReader
from whereish.traces.readers.reader import start_of

_CHUNK = 1 << 18
_LARGEST_TAG = 2**22
_TIME_PIECES = 100  # no time is longer
_POINTS = ("trkpt", "rtept", "wpt")


class Gpx(PointReader):
    """The format that most receivers and apps write."""

    name: ClassVar[str] = "gpx"
    words: ClassVar[str] = (
        "tracks, and those points of routes and way points that have a time. Times are UTC."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".gpx",)

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise XML with the element gpx."""
        start = start_of(head)
        return start[:1] == b"<" and b"<gpx" in start

    def points(self, file: Path) -> Iterator[Point]:
        """Yield the track points (and route and way points) of a file."""
        points: list[Point] = []
        place: list[Any] = []  # latitude, longitude, line and time of the point that is open
        text: list[str] = []
        inside_time = False
        depth = within = 0  # of the element, and of the point that is open

        def begin(tag: str, given: dict[str, str]) -> None:
            nonlocal place, inside_time, depth, within
            name = tag.rpartition(":")[2]
            if depth == 0 and name != "gpx":
                raise FormatError("not GPX, though its name says so")
            depth += 1
            if name in _POINTS:
                place = [given.get("lat"), given.get("lon"), parser.CurrentLineNumber, None]
                within = depth
            elif name == "time" and place and depth == within + 1:  # not one of its extensions
                inside_time = True
                text.clear()

        def end(tag: str) -> None:
            nonlocal place, inside_time, depth
            name = tag.rpartition(":")[2]
            depth -= 1
            if inside_time and name == "time":
                place[3], inside_time = "".join(text), False
            elif name in _POINTS and place:
                # A route that somebody planned has no times: its points are not visits.
                if name == "trkpt" or place[3] is not None:
                    points.append((place[3], place[0], place[1], place[2]))
                place = []

        def say(data: str) -> None:
            if inside_time and len(text) < _TIME_PIECES:
                text.append(data[:_TIME_PIECES])

        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = begin, end
        parser.CharacterDataHandler = say
        parser.EntityDeclHandler = _no_entities
        with open_bytes(file) as stream:
            try:
                read = 0
                for chunk in read_steps(stream, _CHUNK):
                    parser.Parse(chunk, False)
                    read += len(chunk)
                    if read - parser.CurrentByteIndex > _LARGEST_TAG:
                        raise FormatError(f"a tag larger than {_LARGEST_TAG >> 20} MB")
                    yield from points
                    points.clear()
                parser.Parse(b"", True)
            except expat.ExpatError as wrong:
                yield from points
                raise FormatError(f"not whole XML from line {wrong.lineno} on") from None
            except (ValueError, LookupError) as wrong:
                if isinstance(wrong, FormatError):
                    raise
                raise FormatError("not in an encoding that can be read: save it as UTF-8") from None
        yield from points


def _no_entities(*_: object) -> None:
    raise FormatError("entities are declared, which GPX has no use for")
