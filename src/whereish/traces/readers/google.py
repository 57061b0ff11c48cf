"""Google's location histories: the two forms of Takeout, and those of the Timeline on a phone.

A stay of some hours becomes a point at its beginning, one at its end and one at every quarter of
an hour between. So each of its hours is counted, and the stay is one trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from whereish.traces.jsonstream import elements
from whereish.traces.readers.geojson import SIGNS
from whereish.traces.readers.points import Point, PointReader
from whereish.traces.readers.reader import start_of

_KEYS = (b'"locations"', b'"timelineObjects"', b'"semanticSegments"', b'"rawSignals"')

LONGEST_STAY_S = 400 * 24 * 3600
QUARTER_S = 900


class Google(PointReader):
    """Whichever of the forms a file has."""

    name: ClassVar[str] = "google"
    words: ClassVar[str] = (
        "Takeout's `Records.json` and its semantic months, and the Timeline that a phone exports "
        "(Android and iOS). A stay of some hours becomes a point at its beginning, one at its end "
        "and one every quarter of an hour between."
    )
    shared_suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise JSON by the key of the list of places."""
        start = start_of(head)
        ios = start[:1] == b"[" and b'"startTime"' in start
        is_geojson = any(sign in start for sign in SIGNS)
        has_key = any(key in start for key in _KEYS)
        return start[:1] in (b"{", b"[") and (has_key or (ios and not is_geojson))

    def points(self, file: Path) -> Iterator[Point]:
        """Yield the points of a file."""
        for key, item, line in elements(file):
            if isinstance(item, dict):
                for time, lat, lon in _FORMS[key](item) if key in _FORMS else ():
                    yield time, lat, lon, line


Where = tuple[Any, Any]
Stamped = tuple[Any, Any, Any]


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
        for child in _parts(stay, "childVisits"):
            yield from _semantic({"placeVisit": child})
    if way:
        during = _part(way, "duration")
        yield (_stamp(during, "startTimestamp"), *_e7(_part(way, "startLocation")))
        for point in _parts(_part(way, "simplifiedRawPath"), "points"):
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
    for point in _parts(item, "timelinePath"):
        when = point.get("time")
        if when is None:
            when = _later(begin, point.get("durationMinutesOffsetFromStartTime"))
        yield (when, *_spoken(point.get("point")))


def _signal(item: dict[str, Any]) -> Iterator[Stamped]:
    seen = _part(item, "position")
    if seen:
        yield (seen.get("timestamp"), *_spoken(seen.get("LatLng", seen.get("latLng"))))


_FORMS: dict[str, Callable[[dict[str, Any]], Iterator[Stamped]]] = {
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


def _parts(item: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = item.get(name)
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _spoken(value: Any) -> Where:
    """Read "48.85°, 2.35°", "geo:48.85,2.35" or a mapping with such a ``latLng``."""
    if isinstance(value, dict):
        value = value.get("latLng", value.get("LatLng"))
    match = _SPOKEN.fullmatch(value) if isinstance(value, str) else None
    return (match.group(1), match.group(2)) if match else (None, None)


def _e7(item: dict[str, Any], lat: str = "latitudeE7", lon: str = "longitudeE7") -> Where:
    """Read degrees times ten million; some exports have negative ones wrapped round at 2^32."""

    def degrees(value: Any, limit: int) -> float | None:
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**40:
            return None
        return (value - 2**32 if limit < value < 2**32 else value) / 1e7

    return degrees(item.get(lat), 900_000_000), degrees(item.get(lon), 1_800_000_000)


def _stamp(item: dict[str, Any], name: str) -> Any:
    """Return a time as text, or as the milliseconds that older exports have."""
    return item.get(name, item.get(name + "Ms"))


def _later(begin: Any, minutes: Any) -> float | None:
    start = _seconds(begin)
    try:
        return None if start is None else start + 60 * float(minutes)
    except (TypeError, ValueError, OverflowError):
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
    if first is None or last is None or not 1 < last - first < LONGEST_STAY_S:
        return
    quarter = first // QUARTER_S * QUARTER_S + QUARTER_S
    while quarter < last - 1:
        yield (quarter, *where)
        quarter += QUARTER_S
    yield (last - 1, *where)
