"""GeoJSON: points and lines with their times in the properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from whereish.errors import FormatError
from whereish.traces.jsonstream import elements
from whereish.traces.readers.columns import OTHER_NAMES
from whereish.traces.readers.points import Point, PointReader
from whereish.traces.readers.reader import start_of

TIMES_NAMES = ("coordtimes", "times", "timestamps")  # of the property with a time for each vertex
SIGNS = (b'"features"', b'"geometry"', b'"FeatureCollection"')


class GeoJson(PointReader):
    """Features with a geometry and properties (RFC 7946)."""

    name: ClassVar[str] = "geojson"
    words: ClassVar[str] = (
        "points with a time in their properties, and lines with `coordTimes`, `times`, "
        "`timestamps` or `coordinateProperties.times`."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".geojson",)
    shared_suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise JSON with features or a geometry."""
        start = start_of(head)
        return start[:1] in (b"{", b"[") and any(sign in start for sign in SIGNS)

    def points(self, file: Path) -> Iterator[Point]:
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
    once, every = _first(about, OTHER_NAMES["time"]), _first(about, TIMES_NAMES)
    if every is None and isinstance(about.get("coordinateProperties"), dict):
        every = about["coordinateProperties"].get("times")
    nested = isinstance(every, list) and bool(every) and isinstance(every[0], list)
    times = every if isinstance(every, list) and nested else [every]
    lines = _lines(shape)
    for number, vertices in enumerate(lines if isinstance(lines, list) else []):
        stamps = times[number] if number < len(times) else None
        for index, vertex in enumerate(vertices if isinstance(vertices, list) else []):
            when = once
            if isinstance(stamps, list):
                when = stamps[index] if index < len(stamps) else None
            pair = vertex if isinstance(vertex, list) and len(vertex) >= 2 else [None, None]
            yield when, pair[1], pair[0], line


def _lines(shape: dict[str, Any]) -> Any:
    """Return the vertices of a geometry, line by line; a point is a line of one vertex."""
    kind, where = shape.get("type"), shape.get("coordinates")
    parts = shape.get("geometries")
    if kind == "GeometryCollection" and isinstance(parts, list):
        plain = [p for p in parts if isinstance(p, dict) and p.get("type") != kind]
        found = [_lines(part) for part in plain]
        return [line for lines in found if isinstance(lines, list) for line in lines]
    if kind == "MultiLineString":
        return where
    return {"Point": [[where]], "MultiPoint": [where], "LineString": [where]}.get(str(kind), [])


def _first(about: dict[str, Any], wanted: tuple[str, ...]) -> Any:
    """Return the first of the wanted properties that there is, in upper or lower case."""
    lower = {name.lower(): value for name, value in about.items()}
    return next((lower[name] for name in wanted if name in lower), None)
