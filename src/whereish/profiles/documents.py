"""The documents among the formats of traces: GPX, GeoJSON, and Google's location histories.

Each is read as a stream, an element at a time, however large the file. What comes out are points
``(time, lat, lon, line)`` whose time is text or seconds since 1970; a stay of some hours is a point
at its beginning, at its end and at every quarter of an hour between: hours are what is counted, and
a stay is one trace.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.parsers import expat

from whereish.errors import FormatError
from whereish.profiles.formats import OTHER_NAMES, open_bytes, read_times

if TYPE_CHECKING:
    import polars as pl

Point = tuple[Any, Any, Any, int]
_POINTS_A_FRAME = 100_000
_CHUNK = 1 << 18
_LARGEST_ELEMENT = 1 << 28
_LONGEST_STAY_S = 400 * 24 * 3600
_QUARTER_S = 900
_GPX_POINTS = ("trkpt", "rtept", "wpt")
_ENDS = frozenset(",:]} \t\r\n")


def document_frames(kind: str, user: str, file: Path, zone: str) -> Iterator[pl.DataFrame]:
    """Read a GPX, GeoJSON or Google file as frames of user, time, lat, lon, file, line."""
    points = {"gpx": gpx_points, "geojson": geojson_points, "google": google_points}[kind](file)
    held: list[Point] = []
    broken: Exception | None = None
    try:
        for point in points:
            held.append(point)
            if len(held) == _POINTS_A_FRAME:
                yield _frame(user, file, held, zone)
                held = []
    except (FormatError, OSError, EOFError, zlib.error) as wrong:
        broken = wrong  # but what came before it counts
    if held:
        yield _frame(user, file, held, zone)
    if broken is not None:
        raise broken


def _frame(user: str, file: Path, points: list[Point], zone: str) -> pl.DataFrame:
    import polars as pl

    time, lat, lon, line = zip(*points, strict=True)
    text = pl.Series([None if t is None else str(t) for t in time], dtype=pl.String)
    return pl.DataFrame(
        {
            "user": [user] * len(points),
            "time": read_times(text, zone),
            "lat": pl.Series([_degrees(value) for value in lat], dtype=pl.Float64),
            "lon": pl.Series([_degrees(value) for value in lon], dtype=pl.Float64),
            "file": [str(file)] * len(points),
            "line": pl.Series(line, dtype=pl.Int64),
        }
    )


def _degrees(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 1e9 else None


def gpx_points(file: Path) -> Iterator[Point]:
    """Yield the track points (and route and way points) of a GPX file; times are UTC."""
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
        if name in _GPX_POINTS:
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
        elif name in _GPX_POINTS and place:
            # Where somebody means to go has no time, and nothing is wrong with that.
            if name == "trkpt" or place[3] is not None:
                points.append((place[3], place[0], place[1], place[2]))
            place = []

    def say(data: str) -> None:
        if inside_time:
            text.append(data)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = say
    parser.EntityDeclHandler = _no_entities
    with open_bytes(file) as stream:
        try:
            while chunk := stream.read(_CHUNK):
                parser.Parse(chunk, False)
                yield from points
                points.clear()
            parser.Parse(b"", True)
        except expat.ExpatError as wrong:
            yield from points
            raise FormatError(f"not whole XML from line {wrong.lineno} on") from None
    yield from points


def _no_entities(*_: object) -> None:
    raise FormatError("entities are declared, which GPX has no use for")


def geojson_points(file: Path) -> Iterator[Point]:
    """Yield points and the vertices of lines, with the time or times in their properties."""
    alone: dict[str, Any] = {}  # a document that is one feature, or one geometry
    for key, value, line in elements(file):
        if key == "features" and isinstance(value, dict):
            yield from _feature_points(value, line)
        elif key in ("geometry", "properties", "type"):
            alone[key] = value
    if alone.get("type") == "Feature":
        yield from _feature_points(alone, 1)


def _feature_points(feature: dict[str, Any], line: int) -> Iterator[Point]:
    shape, about = feature.get("geometry"), feature.get("properties")
    if not isinstance(shape, dict):
        return
    about = about if isinstance(about, dict) else {}
    kind, where = shape.get("type"), shape.get("coordinates")
    lines = {"Point": [[where]], "MultiPoint": [where], "LineString": [where]}.get(
        str(kind), where if kind == "MultiLineString" else []
    )
    once = next((about[n] for n in _names(about, OTHER_NAMES["time"])), None)
    every = next((about[n] for n in _names(about, ("coordtimes", "times", "timestamps"))), None)
    if every is None and isinstance(about.get("coordinateProperties"), dict):
        every = about["coordinateProperties"].get("times")
    nested = isinstance(every, list) and bool(every) and isinstance(every[0], list)
    times = every if isinstance(every, list) and nested else [every]
    for number, vertices in enumerate(lines if isinstance(lines, list) else []):
        stamps = times[number] if number < len(times) else None
        for index, vertex in enumerate(vertices if isinstance(vertices, list) else []):
            when = once
            if isinstance(stamps, list):
                when = stamps[index] if index < len(stamps) else None
            pair = vertex if isinstance(vertex, list) and len(vertex) >= 2 else [None, None]
            yield when, pair[1], pair[0], line


def _names(about: dict[str, Any], wanted: tuple[str, ...]) -> list[str]:
    lower = {name.lower(): name for name in about}
    return [lower[name] for name in wanted if name in lower]


def google_points(file: Path) -> Iterator[Point]:
    """Yield the points of a Google location history, whichever of its forms it has.

    Takeout's ``Records.json`` and its semantic months, and the phone's Timeline export of Android
    and iOS.
    """
    for key, item, line in elements(file):
        if isinstance(item, dict):
            for time, lat, lon in _GOOGLE.get(key, _nothing)(item):
                yield time, lat, lon, line


Where = tuple[Any, Any]
Stamped = tuple[Any, Any, Any]


def _nothing(_: dict[str, Any]) -> Iterator[Stamped]:
    return iter(())


def _record(item: dict[str, Any]) -> Iterator[Stamped]:
    yield (_stamp(item, "timestamp"), *_e7(item))


def _semantic(item: dict[str, Any]) -> Iterator[Stamped]:
    """Read a stay or a journey of the semantic months."""
    stay, way = _part(item, "placeVisit"), _part(item, "activitySegment")
    if stay:
        during = _part(stay, "duration")
        begin, end = _stamp(during, "startTimestamp"), _stamp(during, "endTimestamp")
        where = _e7(_part(stay, "location"))
        if where == (None, None):
            where = _e7(stay, "centerLatE7", "centerLngE7")
        yield from _stay(begin, end, where)
        for child in _list(stay, "childVisits"):
            if isinstance(child, dict):
                yield from _semantic({"placeVisit": child})
    if way:
        during = _part(way, "duration")
        yield (_stamp(during, "startTimestamp"), *_e7(_part(way, "startLocation")))
        for point in _list(_part(way, "simplifiedRawPath"), "points"):
            if isinstance(point, dict):
                yield (_stamp(point, "timestamp"), *_e7(point, "latE7", "lngE7"))
        yield (_stamp(during, "endTimestamp"), *_e7(_part(way, "endLocation")))


def _segment(item: dict[str, Any]) -> Iterator[Stamped]:
    """Read a segment of the phone's Timeline, of Android or of iOS."""
    begin, end = item.get("startTime"), item.get("endTime")
    if "visit" in item:
        place = _part(_part(item, "visit"), "topCandidate").get("placeLocation")
        yield from _stay(begin, end, _spoken(place))
    if "activity" in item:
        way = _part(item, "activity")
        yield (begin, *_spoken(way.get("start")))
        yield (end, *_spoken(way.get("end")))
    for point in _list(item, "timelinePath"):
        if isinstance(point, dict):
            when = point.get("time")
            if when is None:
                when = _later(begin, point.get("durationMinutesOffsetFromStartTime"))
            yield (when, *_spoken(point.get("point")))


def _signal(item: dict[str, Any]) -> Iterator[Stamped]:
    seen = _part(item, "position")
    if seen:
        yield (seen.get("timestamp"), *_spoken(seen.get("LatLng", seen.get("latLng"))))


_GOOGLE: dict[str, Callable[[dict[str, Any]], Iterator[Stamped]]] = {
    "locations": _record,
    "timelineObjects": _semantic,
    "semanticSegments": _segment,
    "rawSignals": _signal,
    "": _segment,  # iOS: the segments alone
}
_SPOKEN = re.compile(r"\s*(?:geo:)?\s*(-?[0-9.]+)\s*°?\s*,\s*(-?[0-9.]+)\s*°?\s*")


def _part(item: dict[str, Any], name: str) -> dict[str, Any]:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _list(item: dict[str, Any], name: str) -> list[Any]:
    value = item.get(name)
    return value if isinstance(value, list) else []


def _spoken(value: Any) -> Where:
    """Read "48.85°, 2.35°", "geo:48.85,2.35" or a mapping with such a ``latLng``."""
    if isinstance(value, dict):
        value = value.get("latLng", value.get("LatLng"))
    match = _SPOKEN.fullmatch(value) if isinstance(value, str) else None
    return (match.group(1), match.group(2)) if match else (None, None)


def _e7(item: dict[str, Any], lat: str = "latitudeE7", lon: str = "longitudeE7") -> Where:
    """Read degrees times ten million; some exports have negative ones wrapped round at 2^32."""
    found: list[float | None] = []
    for name, limit in ((lat, 900_000_000), (lon, 1_800_000_000)):
        value = item.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = value - 2**32 if limit < value < 2**32 else value
            found.append(value / 1e7)
        else:
            found.append(None)
    return found[0], found[1]


def _stamp(item: dict[str, Any], name: str) -> Any:
    """Return a time as text, or as the milliseconds that older exports have."""
    return item.get(name, item.get(name + "Ms"))


def _later(begin: Any, minutes: Any) -> float | None:
    start = _seconds(begin)
    try:
        return None if start is None else start + 60 * float(minutes)
    except (TypeError, ValueError):
        return None


def _seconds(when: Any) -> float | None:
    try:
        if str(when).isdigit():
            return float(when) / (1000 if len(str(when)) > 11 else 1)
        moment = datetime.fromisoformat(str(when))
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _stay(begin: Any, end: Any, where: Where) -> Iterator[Stamped]:
    """Yield a stay: its beginning, its last second, and every quarter of an hour between."""
    yield (begin, *where)
    first, last = _seconds(begin), _seconds(end)
    if first is None or last is None or not 1 < last - first < _LONGEST_STAY_S:
        return
    quarter = first // _QUARTER_S * _QUARTER_S + _QUARTER_S
    while quarter < last - 1:
        yield (quarter, *where)
        quarter += _QUARTER_S
    yield (last - 1, *where)


def elements(file: Path) -> Iterator[tuple[str, Any, int]]:
    """Yield the elements of the arrays at the top of a JSON document: key, element, line.

    The document is an array (then the key is empty) or an object, whose values that are no arrays
    are yielded whole. Only one element is held at a time.
    """
    with open_bytes(file) as stream:
        yield from _Scanner(stream).elements()


class _Scanner:
    """Reads JSON from a stream, one value at a time."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._line, self._over = "", 0, 1, False
        self._bytes = codecs.getincrementaldecoder("utf-8-sig")()

    def elements(self) -> Iterator[tuple[str, Any, int]]:
        opening = self._next()
        if opening == "[":
            yield from self._array("")
        elif opening == "{":
            while self._next(peek=True) not in ("}", ""):
                key = self._value()
                self._expect(":")
                if self._next(peek=True) == "[":
                    self._next()
                    yield from self._array(str(key))
                else:
                    yield str(key), self._value(), self._line
                if self._next(peek=True) == ",":
                    self._next()
            self._expect("}")
        else:
            raise FormatError("not JSON: neither an object nor an array")

    def _array(self, key: str) -> Iterator[tuple[str, Any, int]]:
        while self._next(peek=True) != "]":
            line = self._line
            yield key, self._value(), line
            if self._next(peek=True) == ",":
                self._next()
            elif self._next(peek=True) != "]":
                raise FormatError(f"not whole JSON from line {self._line} on")
        self._next()

    def _value(self) -> Any:
        """Decode the next value; read on while it is not all there."""
        self._next(peek=True)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                # A number may go on behind what is read: 0 of 0.5, unless something ends it.
                if self._over or self._text[end : end + 1] in _ENDS:
                    break
            except (ValueError, RecursionError) as wrong:
                if self._over or isinstance(wrong, RecursionError):
                    raise FormatError(f"not whole JSON from line {self._line} on") from None
            if len(self._text) - self._at > _LARGEST_ELEMENT:
                raise FormatError(f"an element larger than 256 MB at line {self._line}")
            self._read()
        self._skip(end)
        return value

    def _next(self, peek: bool = False) -> str:
        """Return the next mark that is not white space; "" at the end."""
        while True:
            while self._at < len(self._text):
                mark = self._text[self._at]
                if mark not in " \t\r\n":
                    if not peek:
                        self._at += 1
                    return mark
                self._line += mark == "\n"
                self._at += 1
            if self._over:
                return ""
            self._read()

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise FormatError(f"not whole JSON from line {self._line} on")

    def _skip(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _read(self) -> None:
        # As much again as is held: an element of any size is read in a few steps.
        chunk = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        self._over = not chunk
        try:
            more = self._bytes.decode(chunk, final=self._over)
        except UnicodeDecodeError:
            raise FormatError(f"not UTF-8 after line {self._line}") from None
        self._text, self._at = self._text[self._at :] + more, 0
