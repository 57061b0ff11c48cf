"""GPX, GeoJSON, OwnTracks, Google's histories: streamed, by their own clocks, in all forms."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whereish as wh
from effort import examples
from whereish.profiles import DegreeTiles, count_visits
from whereish.traces import Funnel, jsonstream, open_traces

MOMENTS = [datetime(2024, 3, 30, 22, 10, tzinfo=UTC) + timedelta(minutes=7 * i) for i in range(20)]
SPOTS = [(round(48.85 + i / 1000, 6), round(-2.35 - i / 1000, 6)) for i in range(20)]


def expected(user: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "user": [user] * 20,
            "time": pl.Series(MOMENTS).dt.cast_time_unit("us"),
            "lat": [lat for lat, _ in SPOTS],
            "lon": [lon for _, lon in SPOTS],
        }
    )


def gpx() -> str:
    points = "".join(
        f'<trkpt lat="{lat}" lon="{lon}"><ele>35</ele><time>{t:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>\n'
        for t, (lat, lon) in zip(MOMENTS, SPOTS, strict=True)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">\n'
        "<metadata><time>2001-01-01T00:00:00Z</time></metadata>\n"
        f"<trk><trkseg>\n{points}</trkseg></trk></gpx>\n"
    )


def points_geojson() -> Any:
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"Timestamp": t.isoformat()},
                "geometry": {"type": "Point", "coordinates": [lon, lat, 35.0]},
            }
            for t, (lat, lon) in zip(MOMENTS, SPOTS, strict=True)
        ],
    }


def line_geojson(key: str) -> Any:
    times = [t.isoformat() for t in MOMENTS]
    about = {"coordinateProperties": {"times": times}} if key == "nested" else {key: times}
    return {
        "type": "Feature",
        "properties": about,
        "geometry": {"type": "LineString", "coordinates": [[lon, lat] for lat, lon in SPOTS]},
    }


def records(milliseconds: bool) -> Any:
    return {
        "locations": [
            {
                "latitudeE7": round(lat * 1e7),
                # Some exports wrap negative numbers round.
                "longitudeE7": round(lon * 1e7) + (2**32 if i % 2 else 0),
                "accuracy": 12,
                **(
                    {"timestampMs": str(int(t.timestamp() * 1000))}
                    if milliseconds
                    else {"timestamp": t.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
                ),
            }
            for i, (t, (lat, lon)) in enumerate(zip(MOMENTS, SPOTS, strict=True))
        ]
    }


def android_path() -> Any:
    return {
        "semanticSegments": [
            {
                "startTime": "2024-03-30T23:00:00.000+01:00",
                "endTime": "2024-03-31T03:00:00.000+02:00",
                "timelinePath": [
                    {"point": f"{lat}°, {lon}°", "time": t.isoformat()}
                    for t, (lat, lon) in zip(MOMENTS[:10], SPOTS[:10], strict=True)
                ],
            }
        ],
        "rawSignals": [
            {"position": {"LatLng": f"{lat}°, {lon}°", "timestamp": t.isoformat()}}
            for t, (lat, lon) in zip(MOMENTS[10:], SPOTS[10:], strict=True)
        ]
        + [{"wifiScan": {"devicesRecords": []}}],
        "userLocationProfile": {"frequentPlaces": []},
    }


def ios_path() -> Any:
    return [
        {
            "startTime": MOMENTS[0].isoformat(),
            "endTime": MOMENTS[-1].isoformat(),
            "timelinePath": [
                {"point": f"geo:{lat},{lon}", "durationMinutesOffsetFromStartTime": str(7 * i)}
                for i, (lat, lon) in enumerate(SPOTS)
            ],
        }
    ]


def rec() -> str:
    """Return what OwnTracks' Recorder stores; every second location says its time only outside."""
    lines = []
    for i, (t, (lat, lon)) in enumerate(zip(MOMENTS, SPOTS, strict=True)):
        fix = {"tst": int(t.timestamp())} if i % 2 else {}
        # The Recorder received it later than the phone knew it.
        outside = t + timedelta(minutes=i % 2)
        said = {"_type": "location", "lat": lat, "lon": lon, "acc": 12, **fix}
        lines.append(f"{outside:%Y-%m-%dT%H:%M:%SZ}\t*                 \t{json.dumps(said)}\n")
        other = {"_type": "waypoint", "lat": 1.0, "lon": 2.0, "tst": int(t.timestamp())}
        lines.append(f"{t:%Y-%m-%dT%H:%M:%SZ}\twaypoint          \t{json.dumps(other)}\n")
    return "".join(lines)


FORMS: dict[str, tuple[str, str, Any]] = {
    "gpx": ("me.gpx", "gpx", gpx()),
    "points": ("me.geojson", "geojson", points_geojson()),
    "a line": ("me.geojson", "geojson", line_geojson("coordTimes")),
    "a line, the other way": ("me.json", "geojson", line_geojson("nested")),
    "records": ("me.json", "google", records(False)),
    "old records": ("me.json", "google", records(True)),
    "android": ("me.json", "google", android_path()),
    "ios": ("me.json", "google", ios_path()),
    "rec": ("me.rec", "owntracks", rec()),
    "rec without an ending": ("me", "owntracks", rec()),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_points(tmp_path: Path, form: str, packed: bool) -> None:
    name, kind, content = FORMS[form]
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else b"\xef\xbb\xbf" + text.encode())
    traces = open_traces(path)
    assert traces.kind == kind
    found = pl.concat(traces.batches(funnel := Funnel()))
    assert found.sort("time").equals(expected("me"))
    assert (funnel.rows, funnel.dropped, funnel.broken) == (20, 0, [])


def semantic(stay_ms: bool) -> Any:
    begin, end = datetime(2020, 5, 1, 9, 50, tzinfo=UTC), datetime(2020, 5, 1, 12, 10, tzinfo=UTC)
    during = (
        {
            "startTimestampMs": str(int(begin.timestamp() * 1000)),
            "endTimestampMs": str(int(end.timestamp() * 1000)),
        }
        if stay_ms
        else {
            "startTimestamp": begin.isoformat().replace("+00:00", "Z"),
            "endTimestamp": end.isoformat(),
        }
    )
    where = {"latitudeE7": 488500000, "longitudeE7": 23500000}
    there = {"latitudeE7": 488600000, "longitudeE7": 23600000}
    return {
        "timelineObjects": [
            {"placeVisit": {"location": where, "duration": during}},
            {
                "activitySegment": {
                    "startLocation": where,
                    "endLocation": there,
                    "duration": {
                        "startTimestamp": "2020-05-01T12:10:00Z",
                        "endTimestamp": "2020-05-01T12:30:00Z",
                    },
                    "simplifiedRawPath": {
                        "points": [
                            {
                                "latE7": 488550000,
                                "lngE7": 23550000,
                                "timestamp": "2020-05-01T12:20:00Z",
                            }
                        ]
                    },
                }
            },
        ]
    }


@pytest.mark.parametrize("stay_ms", [False, True])
def test_a_stay_is_a_point_in_every_hour_of_it(tmp_path: Path, stay_ms: bool) -> None:
    month = tmp_path / "Semantic Location History" / "2020" / "2020_MAY.json"
    month.parent.mkdir(parents=True)
    month.write_text(json.dumps(semantic(stay_ms)))
    (tmp_path / "Settings.json").write_text('{"createdTime": "2020"}')
    traces = open_traces(tmp_path, person="me")
    found = pl.concat(traces.batches()).sort("time")
    told = [(f"{t:%H:%M:%S}", lat) for _, t, lat, _ in found.rows()]
    quarters = [(f"{h}:{m:02d}:00", 48.85) for h in (10, 11) for m in (0, 15, 30, 45)]
    assert told == [
        ("09:50:00", 48.85), *quarters, ("12:00:00", 48.85), ("12:09:59", 48.85),
        ("12:10:00", 48.85), ("12:20:00", 48.855), ("12:30:00", 48.86),
    ]  # fmt: skip
    visits = count_visits(traces, wh.SquareCells(wh.LocalPlane(48.85, 2.35), (0.5, 0.5)))
    assert visits.traces["traces"].to_list() == [1]


@pytest.mark.parametrize("ios", [False, True])
def test_visits_and_activities_of_a_timeline(tmp_path: Path, ios: bool) -> None:
    place: Any = "geo:48.85,2.35" if ios else {"latLng": "48.85°, 2.35°"}
    segments = [
        {
            "startTime": "2024-06-01T22:30:00.000-07:00",
            "endTime": "2024-06-02T00:15:00.000-07:00",
            "visit": {"topCandidate": {"placeLocation": place}},
        },
        {
            "startTime": "2024-06-02T00:15:00.000-07:00",
            "endTime": "2024-06-02T00:45:00.000-07:00",
            "activity": {"start": place, "end": place, "distanceMeters": "3"},
        },
        {"startTime": "2024-06-02T00:45:00.000-07:00", "timelineMemory": {}},
    ]
    path = tmp_path / "Timeline.json"
    path.write_text(json.dumps(segments if ios else {"semanticSegments": segments}))
    found = pl.concat(open_traces(path).batches()).sort("time")
    assert found["time"].dt.hour().unique().to_list() == [5, 6, 7]
    times = [f"{moment:%H:%M}" for moment in found["time"].to_list()]
    assert (times[0], times[-1]) == ("05:30", "07:45")
    # Whose clock is half an hour off has a point in every hour as well.
    hours = count_visits(found, DegreeTiles(), "Asia/Kolkata").table["clock"].unique()
    assert hours.to_list() == [11, 12, 13]


DIRT: dict[str, tuple[str, str, int, int]] = {
    # name, content, points that are good, rows dropped
    "gpx cut off": ("a.gpx", gpx()[: len(gpx()) // 2], 9, 0),
    "gpx without times": ("a.gpx", gpx().replace("time>", "thyme>"), 0, 20),
    "gpx with letters": ("a.gpx", gpx().replace('lat="48.86"', 'lat="north"'), 19, 1),
    "gpx with a time in an extension": (
        "a.gpx",
        gpx().replace("<ele>", "<extensions><x:time>x</x:time></extensions><ele>"),
        20,
        0,
    ),
    "gpx with places to go": (
        "a.gpx",
        gpx().replace("<trk>", '<wpt lat="1" lon="2"/><rte><rtept lat="1" lon="2"/></rte><trk>'),
        20,
        0,
    ),
    "a page for a track": ("a.gpx", "<html><trkpt/></html>", 0, 0),
    "gpx with entities": ("a.gpx", '<!DOCTYPE x [<!ENTITY a "b">]>' + gpx(), 0, 0),
    "json cut off": ("a.json", json.dumps(records(False))[:-700], -1, 0),
    "records of nothing": ("a.json", '{"locations": [{}, 3, {"latitudeE7": "x"}]}', 0, 2),
    "a line with too few times": (
        "a.geojson",
        json.dumps(line_geojson("coordTimes")).replace('"2024-03-30T22:10:00+00:00", ', ""),
        19,
        1,
    ),
    "rec that ends in a location": ("a.rec", rec().rpartition(', "acc": 12')[0], 19, 1),
    "rec with letters": ("a.rec", rec().replace('"lat": 48.86,', '"lat": "north",'), 19, 1),
    "rec with other JSON": ("a.rec", rec() + "2024-03-31T01:00:00Z\t*\t[1]\n", 20, 1),
    "rec with lines of nothing": ("a.rec", rec() + "\n\r\nx\n\t\t\n\t\t{\n", 20, 3),
    "rec that is another's": ("a.rec", gpx(), 0, gpx().count("\n")),
}


@pytest.mark.parametrize("what", DIRT)
def test_dirt_is_counted_and_the_rest_is_read(tmp_path: Path, what: str) -> None:
    name, content, good, dropped = DIRT[what]
    (tmp_path / name).write_text(content)
    funnel = Funnel()
    rows = sum(len(batch) for batch in open_traces(tmp_path / name).batches(funnel))
    if good >= 0:
        assert rows == good
    else:
        assert 0 < rows < 20
    assert funnel.dropped == dropped
    spoiled = "cut off" in what or "entities" in what or "a page" in what
    assert bool(funnel.broken) == spoiled
    assert "48." not in str(funnel)
    if spoiled or dropped:
        with pytest.raises(wh.FormatError, match=name):
            list(open_traces(tmp_path / name, strict=True).batches())


@pytest.mark.parametrize("kind", ["gpx", "rec"])
def test_a_folder_of_tracks_is_one_person_a_folder_or_whoever_is_named(
    tmp_path: Path, kind: str
) -> None:
    for name in ("ann/1", "ann/old/2", "bob/1", "cy", ".hidden"):
        file = tmp_path / f"{name}.{kind}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(gpx() if kind == "gpx" else rec())
    found = pl.concat(open_traces(tmp_path).batches())
    assert dict(found["user"].value_counts().iter_rows()) == {"ann": 40, "bob": 20, "cy": 20}
    assert set(pl.concat(open_traces(tmp_path, person="me").batches())["user"]) == {"me"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)  # fmt: skip


@examples(150)
@given(
    document=st.lists(JSON, max_size=5) | st.dictionaries(st.text(max_size=5), JSON),
    indent=st.sampled_from([None, 1]),
    chunk=st.integers(1, 9),
    ascii_only=st.booleans(),
)
@pytest.mark.slow
def test_a_stream_of_json_is_what_it_is_as_a_whole(
    tmp_path_factory: pytest.TempPathFactory,
    document: Any,
    indent: int | None,
    chunk: int,
    ascii_only: bool,
) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonstream, "_CHUNK", chunk)
        found = [(key, value) for key, value, _ in jsonstream.elements(path)]
    if isinstance(document, list):
        assert found == [("", value) for value in document]
    else:
        assert found == [
            (key, item)
            for key, value in document.items()
            for item in (value if isinstance(value, list) else [value])
        ]


@examples(100)
@given(cut=st.integers(1, 400))
def test_json_that_is_cut_off_is_never_taken_for_whole(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps(records(False))[:-cut])
    with pytest.raises(wh.FormatError):
        list(jsonstream.elements(path))


def test_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{\n"locations": [\n{"a": 1},\n{\n"a": 2\n}\n]\n}')
    assert [(key, line) for key, _, line in jsonstream.elements(path)] == [
        ("locations", 3),
        ("locations", 4),
    ]


@pytest.mark.parametrize("kind", ["gpx", "json", "parquet"])
def test_one_damaged_file_costs_no_other(tmp_path: Path, kind: str) -> None:
    content = {"gpx": gpx().encode(), "json": json.dumps(records(False)).encode()}
    for name in "abcde":
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            expected("me").write_parquet(path)
        else:
            path.write_bytes(content[kind])
    spoiled = tmp_path / f"b.{kind}"
    spoiled.write_bytes(spoiled.read_bytes()[:-400])
    found = pl.concat(open_traces(tmp_path, person="me").batches(funnel := Funnel()))
    assert 80 <= len(found) < 100
    assert [Path(file).name for file, _ in funnel.broken] == [spoiled.name]


def test_a_gzip_that_is_cut_off_gives_what_comes_before(tmp_path: Path) -> None:
    many = {"locations": records(False)["locations"] * 400}
    for name, text in (("a.json.gz", json.dumps(many)), ("b.gpx.gz", gpx() * 1)):
        whole = gzip.compress(text.encode())
        (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
        funnel = Funnel()
        rows = sum(len(b) for b in open_traces(tmp_path / name).batches(funnel))
        assert funnel.broken
        assert rows > 0 or name == "b.gpx.gz"


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.json", '{"locations": [{"latitudeE7": HUGE, "longitudeE7": 1, "timestamp": "x"}]}', 0),
        ("a.json", '{"locations": [{"latitudeE7": 1, "longitudeE7": 1, "timestamp": "\\ud8"}]}', 0),
        ("a.json", '{"locations": [{"latitudeE7": 1, "timestamp": "\\ud800"}]}', 0),
        ("a.json", '[{"startTime": "2024-01-01T00:00:00Z", "timelinePath": [{"point": "geo:1,2",'
         ' "durationMinutesOffsetFromStartTime": "HUGE"}]}]', 0),
        ("a.gpx", '<?xml version="1.0" encoding="gb2312"?>' + gpx().split("\n", 1)[1], 0),
        ("a.gpx", '<?xml version="1.0" encoding="xyzzy"?>' + gpx().split("\n", 1)[1], 0),
        ("a.geojson", "\n".join(json.dumps(line_geojson("times")) for _ in range(3)), 60),
        ("a.geojson", json.dumps(line_geojson("times")) + " rubbish", 20),
        ("a.rec", rec() + "2024-03-31T01:00:00Z\t*\t" + "[" * 10**6, 20),
        ("a.rec", rec() + rec().split("\n")[0].replace("{", '{"x": "' + "x" * 2**22 + '", '), 20),
        ("a.rec", '2024-03-31T01:00:00Z\t*\t{"_type": "location", "lat": HUGE, "lon": 1}', 0),
        ("a.rec", 'x\t*\t{"_type": "location", "tst": "\\ud800", "lat": 1, "lon": NaN}', 0),
    ],
)  # fmt: skip
def test_what_is_strange_ends_no_run(tmp_path: Path, name: str, content: str, rows: int) -> None:
    (tmp_path / name).write_text(content.replace("HUGE", HUGE))
    funnel = Funnel()
    assert sum(len(batch) for batch in open_traces(tmp_path / name).batches(funnel)) == rows
    if rows != 60:
        assert funnel.dropped or funnel.broken


@pytest.mark.parametrize("name", ["a.gpx.gz", "a.json.gz"])
def test_a_small_gzip_that_is_cut_off_gives_what_comes_before(tmp_path: Path, name: str) -> None:
    many = gpx().split("<trkseg>\n")[1].split("</trkseg>")[0] * 75
    text = gpx().split("<trkseg>\n")[0] + "<trkseg>\n" + many + "</trkseg></trk></gpx>"
    if name == "a.json.gz":
        text = json.dumps({"locations": records(False)["locations"] * 75})
    noisy = gzip.compress(text.encode(), compresslevel=0)
    (tmp_path / name).write_bytes(noisy[: len(noisy) * 2 // 3])
    funnel = Funnel()
    rows = sum(len(batch) for batch in open_traces(tmp_path / name).batches(funnel))
    assert 800 < rows < 1100
    assert len(funnel.broken) == 1
