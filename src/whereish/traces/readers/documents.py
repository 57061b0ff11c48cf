"""The documents among the formats of traces: GPX, GeoJSON, and Google's location histories.

Each is read as a stream, an element at a time, however large the file. What comes out are points
``(time, lat, lon, line)`` whose time is text or seconds since 1970.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from whereish.compressed import open_bytes, read_steps
from whereish.errors import FormatError
from whereish.traces.cleaning import read_times
from whereish.traces.jsonstream import elements
from whereish.traces.readers.google import google_points
from whereish.traces.readers.tables import OTHER_NAMES

if TYPE_CHECKING:
    import polars as pl

Point = tuple[Any, Any, Any, int]
_POINTS_A_FRAME = 100_000
_CHUNK = 1 << 18
_LARGEST_TAG = 2**22
_TIME_PIECES = 100  # no time is longer
_GPX_POINTS = ("trkpt", "rtept", "wpt")


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
    text = pl.Series([None if t is None else _sound(t) for t in time], dtype=pl.String)
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


def _sound(value: Any) -> str:
    """Write a time as text that is text: halves of letters are none."""
    return str(value)[:100].encode(errors="replace").decode()


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


def geojson_points(file: Path) -> Iterator[Point]:
    """Yield points and the vertices of lines, with the time or times in their properties."""
    alone: dict[str, Any] = {}  # a document that is one feature
    broken: FormatError | None = None
    try:
        for key, value, line in elements(file):
            if key == "features" and isinstance(value, dict):
                yield from _feature_points(value, line)
            elif key in ("geometry", "properties", "type"):
                if key in alone:  # the next of several documents, one after another
                    yield from _alone(alone)
                    alone = {}
                alone[key] = value
                alone.setdefault("line", line)
    except FormatError as wrong:
        broken = wrong
    yield from _alone(alone)
    if broken is not None:
        raise broken


def _alone(feature: dict[str, Any]) -> Iterator[Point]:
    if feature.get("type") == "Feature":
        yield from _feature_points(feature, feature["line"])


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
