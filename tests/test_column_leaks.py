"""Columns of a table that leak the true locations are refused; others are kept."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import h3
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import whereish as wh
from strategies import city_points
from whereish.cli import app

CITY = wh.embedded_city()
MECHANISM = wh.exponential(CITY.places, 2.0)

# Names under which coordinates are found in the tables of other programs.
_WORDS = """
latitude longitude Latitude LONGITUDE latitudeE7 longitudeE7 latE7 lonE6 lat_e7 latitudeDegrees
pickupLatitude pickupLongitude pickup_latitude dropoffLat dropoff_lon startLat endLng origin_lat
destLongitude home_lat work_lon homeLatitude gpsLat gpsLon GPSLatitude gps_position geoJSON
geojson geo_json geometry geom the_geom wkb_geometry WKT wkt_point shape h3 h3index h3_index
H3Index h3cell hex_id s2cell s2_cell_id quadkey geohash geohash7 geoHash latLng latlng lat_lng
LatLon lnglat lonlat position pos coordinate coordinates coords xy point location loc place
address street postcode zip plusCode plus_code olc mgrs utm_easting easting northing utmX utmY x y
X_m mercator_x tile tileX breite laenge ycoord xcoord cell cellId poi station trip_start id_1
rowid index Unnamed:_0 __index_level_0__
"""
NAMES = _WORDS.split()


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_no_column_is_kept_that_was_not_named(tmp_path: Path, kind: str) -> None:
    assert len(NAMES) > 80
    at = city_points(200)
    source, out = tmp_path / f"in{kind}", tmp_path / f"out{kind}"
    frame = pl.DataFrame(
        {"lat": at[:, 0], "lon": at[:, 1]} | {name: at[:, 0] for name in NAMES if name}
    )
    if kind == ".csv":
        frame.write_csv(source)
    else:
        frame.write_parquet(source, metadata={"where": str(at[0, 0])}, statistics="full")
    made = wh.obfuscate_table(MECHANISM, source, out)
    after = pl.read_csv(out) if kind == ".csv" else pl.read_parquet(out)
    assert after.columns == ["lat", "lon"]
    assert set(made.left_out) == set(NAMES)
    assert made.kept == ()
    # Nor is it anywhere else in the file: in metadata, statistics or names.
    content = out.read_bytes()
    for value in at[:50, 0].tolist():
        assert struct.pack("<d", value) not in content
        assert str(value).encode() not in content
    assert b"where" not in content


def test_the_command_says_what_is_left_out(tmp_path: Path) -> None:
    at = city_points(300)
    source, kernel = tmp_path / "in.csv", tmp_path / "k.whereish"
    wh.save_mechanism(kernel, MECHANISM)
    pl.DataFrame(
        {"lat": at[:, 0], "lon": at[:, 1], "user": ["a"] * 300, "hexId": at[:, 0]}
    ).write_csv(source)
    done = run("obfuscate", kernel, source, "-o", tmp_path / "out.csv", "--json")
    assert done.exit_code == 0, done.stderr
    assert "Left out: user, hexId" in done.stderr
    assert "random order" in done.stderr
    facts = json.loads(done.stdout)
    assert (facts["order"], facts["kept"], facts["users"]) == ("shuffled", [], 1)
    refused = run("obfuscate", kernel, source, "-o", tmp_path / "no.csv", "--keep", "hexId")
    assert refused.exit_code == 2
    assert "--keep-anyway" in refused.stderr
    assert not (tmp_path / "no.csv").exists()
    done = run("obfuscate", kernel, source, "-o", tmp_path / "a.csv", "--keep-anyway", "hexId")
    assert done.exit_code == 0
    assert "CAREFUL" in done.stderr
    assert pl.read_csv(tmp_path / "a.csv").columns == ["lat", "lon", "hexId"]


# What is named, and tells all the same ----------------------------------------------------------


def geohash(lat: float, lon: float, letters: int) -> str:
    """Return a geohash, by its definition."""
    bits, low, high = "", [-180.0, -90.0], [180.0, 90.0]
    for place in range(5 * letters):
        side = place % 2
        middle = (low[side] + high[side]) / 2
        above = (lon, lat)[side] >= middle
        bits += "01"[above]
        (low if above else high)[side] = middle
    alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"
    return "".join(alphabet[int(bits[i : i + 5], 2)] for i in range(0, len(bits), 5))


def mercator(lat: float) -> float:
    return 6378137 * math.log(math.tan(math.pi / 4 + math.radians(lat) / 2))


ENCODINGS: dict[str, Any] = {
    "degrees": lambda lat, lon: lat,
    "rounded": lambda lat, lon: round(lat, 2),
    "E7": lambda lat, lon: round(lon * 1e7),
    "E6 as text": lambda lat, lon: str(round(lon * 1e6)),
    "radians": lambda lat, lon: math.radians(lat),
    "mercator": lambda lat, lon: mercator(lat),
    "moved and negated": lambda lat, lon: 1000 - 17 * lon,
    "both": lambda lat, lon: f"{lat:.5f}/{lon:.5f}",
    "google maps": lambda lat, lon: f"https://maps.example/@{lat:.4f},{lon:.4f},17z",
    "wkt": lambda lat, lon: f"POINT ({lon} {lat})",
    "ewkt": lambda lat, lon: f"SRID=4326;POINT({lon} {lat})",
    "wkb": lambda lat, lon: struct.pack("<BIdd", 1, 1, lon, lat),
    "wkb hex": lambda lat, lon: struct.pack("<BIIdd", 1, 0x20000001, 4326, lon, lat).hex(),
    "geojson": lambda lat, lon: json.dumps({"type": "Point", "coordinates": [lon, lat]}),
    "struct": lambda lat, lon: {"a": 1, "b": lat},
    "list": lambda lat, lon: [lon, lat],
    "list of structs": lambda lat, lon: [{"u": "x", "v": lon}],
    "list of lists": lambda lat, lon: [[lon, lat], [1.0]],
    "geohash": lambda lat, lon: geohash(lat, lon, 7),
    "h3": lambda lat, lon: h3.latlng_to_cell(lat, lon, 9),
    "h3 integer": lambda lat, lon: int(h3.latlng_to_cell(lat, lon, 9), 16),
    "degrees and minutes": lambda lat, lon: f"{int(lat)}° {lat % 1 * 60:.3f}' N",
    "a name for each place": lambda lat, lon: f"street {hash((round(lat, 3), round(lon, 3)))}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("rows", [8, 3000])
def test_columns_that_tell_are_refused_though_they_are_named(
    tmp_path: Path, name: str, rows: int
) -> None:
    if (rows == 8 and name in ("mercator", "moved and negated", "degrees and minutes")) or (
        rows == 8 and name.startswith("a name")
    ):
        return  # eight rows show no order
    at = city_points(rows, seed=3)
    encoded = [ENCODINGS[name](*point) for point in at.tolist()]
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    frame = pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "c": encoded})
    frame.write_parquet(source)
    for ask in ({"keep": ["c"]}, {"keep": ["all"]}):
        with pytest.raises(wh.InputError, match=r"must not leak the true locations.*: c \("):
            wh.obfuscate_table(MECHANISM, source, out, **ask)  # type: ignore[arg-type]
    assert not out.exists()
    assert wh.obfuscate_table(MECHANISM, source, out, keep_anyway=["c"]).telling == ("c",)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_do_not_tell_are_kept(tmp_path: Path, seed: int) -> None:
    """Independent of the points: kept, whatever they look like."""
    rows = 4000
    at, rng = city_points(rows, seed), np.random.default_rng(seed + 100)
    other = rng.permutation(rows)
    frame = pl.DataFrame(
        {
            "lat": at[:, 0],
            "lon": at[:, 1],
            "number": rng.normal(size=rows),
            "kind": rng.choice(["walk", "bus", "48"], rows, p=[0.98, 0.01, 0.01]),
            "flag": rng.random(rows) < 0.003,
            "text": [f"n{i}, ok" for i in other],
            "year": np.full(rows, 2024),
            "nothing": pl.Series([None] * rows),
            "id": other,
            "nested": [[{"a": int(x)}] for x in other],
            "lists": [[[int(x)], []] for x in other],
            "bytes": [int(x).to_bytes(3, "little") for x in other],
            "few": pl.Series([None] * (rows - 30) + rng.normal(size=30).tolist()),
            "price": [f"{x:.2f} EUR" for x in rng.lognormal(2, 1, rows)],
            "when": pl.Series(1_700_000_000_123_456 + rng.integers(0, 10**13, rows)).cast(
                pl.Datetime("us")
            ),
            "eight": rng.normal(10, 40, (rows, 8)).tolist(),
            "note": [
                f"2024-01-{a:02} {b:02}:{c:02}:{d:02} order {e}, 1,250 of {f:.3f} kg"
                for a, b, c, d, e, f in zip(
                    rng.integers(1, 29, rows),
                    rng.integers(0, 24, rows),
                    rng.integers(0, 60, rows),
                    rng.integers(0, 60, rows),
                    other,
                    rng.lognormal(1, 2, rows),
                    strict=True,
                )
            ],
        }
    )
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    frame.write_parquet(source)
    made = wh.obfuscate_table(MECHANISM, source, out, keep=["all"])
    assert made.kept == tuple(frame.columns[2:])
    same = pl.read_parquet(out).drop("lat", "lon").sort("id")
    assert same.equals(frame.drop("lat", "lon").sort("id"))


def test_a_user_may_have_one_place_but_not_be_one(tmp_path: Path) -> None:
    at = city_points(400)
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    near = np.round(at, 2)
    pl.DataFrame(
        {
            "lat": at[:, 0],
            "lon": at[:, 1],
            "who": [f"u{hash(tuple(place))}" for place in near.tolist()],
            "where": [f"{lat:.3f} {lon:.3f}" for lat, lon in at.tolist()],
        }
    ).write_csv(source)
    assert wh.obfuscate_table(MECHANISM, source, out, user="who").kept == ("who",)
    with pytest.raises(wh.InputError, match="can be read as a coordinate"):
        wh.obfuscate_table(MECHANISM, source, out, user="where")
    nested = pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "id": [[1]] * len(at)})
    nested.write_parquet(tmp_path / "in.parquet")
    assert wh.obfuscate_table(MECHANISM, tmp_path / "in.parquet", out).user is None
    with pytest.raises(wh.InputError, match="one value a row"):
        wh.obfuscate_table(MECHANISM, tmp_path / "in.parquet", out, user="id")


def dms(angle: float) -> str:
    seconds = round(abs(angle) * 3600, 2)
    return f"{int(seconds // 3600)}°{int(seconds % 3600 // 60)}'{seconds % 60:05.2f}\""


def nmea(angle: float) -> str:
    return f"{int(abs(angle)) * 100 + abs(angle) % 1 * 60:010.4f}"


def one_more(lat: float, lon: float) -> str:
    """Return the point after as many numbers as one cares to put before it."""
    return " ".join(["7"] * (round(lat * 1e5) % 50)) + f" {lat:.5f} {lon:.5f}"


def behind(unit: str, number: float) -> Any:
    """Return a time whose fraction of a second is a number."""
    start = 1_700_000_000 * {"us": 10**6, "ns": 10**9}[unit]
    return pl.Series([start + round(number)]).cast(pl.Datetime(unit))  # type: ignore[arg-type]


HIDDEN: dict[str, Any] = {
    "a note": lambda lat, lon: f"2024-01-19 10:19:04 fix {lat:.6f} {lon:.6f}",
    "six before": lambda lat, lon: f"1 2 3 4 5 6 {lat} {lon}",
    "json": lambda lat, lon: json.dumps(dict(zip("abcdef", range(6), strict=True)) | {"y": lat}),
    "forty before": lambda lat, lon: "1 " * 40 + str(lon),
    "anywhere": one_more,
    "too many": lambda lat, lon: "1 " * 70 + str(lon),
    "dms": lambda lat, lon: f"{dms(lat)}N {dms(lon)}E",
    "dms west": lambda lat, lon: f"{dms(lon)} W",
    "decimal comma": lambda lat, lon: f"{lat:.6f} ; {lon:.6f}".replace(".", ","),
    "decimal comma of one": lambda lat, lon: f"{lon:.6f}".replace(".", ","),
    "thousands": lambda lat, lon: f"{round(lat * 1e7):,}",
    "nmea": lambda lat, lon: f"$GPGGA,101904,{nmea(lat)},N,{nmea(lon)},E,1,08,0.9",
    "packed seconds": lambda lat, lon: dms(lat).translate(str.maketrans("", "", "°'\"")),
    "1e1": lambda lat, lon: lat * 10,
    "no sign": lambda lat, lon: f"{-lon:.5f}",
} | {
    f"1e{power}": lambda lat, lon, power=power: round(lat * 10**power) for power in range(2, 17)
}  # fmt: skip


def with_rows(tmp_path: Path, rows: int, column: Any) -> Path:
    at = city_points(rows, seed=5)
    source = tmp_path / "in.parquet"
    values = column(at) if callable(column) else column
    pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "c": values}).write_parquet(source)
    return source


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("rows", [8, 700])
def test_columns_that_read_as_the_point_are_refused_however_they_are_declared(
    tmp_path: Path, name: str, rows: int
) -> None:
    source = with_rows(
        tmp_path, rows, lambda at: [HIDDEN[name](*point) for point in at.tolist()]
    )  # fmt: skip
    out = tmp_path / "out.parquet"
    for ask in ({"keep": ["c"]}, {"user": "c"}, {"time": "c"}):
        with pytest.raises(
            wh.InputError, match=r"must not leak the true locations.*: c \(its values"
        ):
            wh.obfuscate_table(MECHANISM, source, out, **ask)
    assert not out.exists()
    assert wh.obfuscate_table(MECHANISM, source, out, keep_anyway=["c"]).telling == ("c",)


@pytest.mark.parametrize("length", [8, 40, 70])
@pytest.mark.parametrize("nested", [False, True])
def test_lists_are_looked_at_whole(tmp_path: Path, length: int, nested: bool) -> None:
    def lists(at: Any) -> Any:
        rows = [[*map(float, range(length - 1)), lon] for lon in at[:, 1].tolist()]
        return [[{"v": float(x)} for x in row] for row in rows] if nested else rows

    source = with_rows(tmp_path, 8, lists)
    with pytest.raises(wh.InputError, match=r"must not leak the true locations.*: c \(its values"):
        wh.obfuscate_table(MECHANISM, source, tmp_path / "out.parquet", keep=["c"])


@pytest.mark.parametrize(
    ("unit", "scale", "side"), [("ns", 1e7, 0), ("ns", 1e6, 1), ("us", 1e4, 0), ("us", 1e5, 1)]
)
def test_fractions_of_a_second_are_looked_at(
    tmp_path: Path, unit: str, scale: float, side: int
) -> None:
    source = with_rows(
        tmp_path, 300, lambda at: pl.concat([behind(unit, x * scale) for x in at[:, side]])
    )  # fmt: skip
    with pytest.raises(wh.InputError, match="can be read as a coordinate"):
        wh.obfuscate_table(MECHANISM, source, tmp_path / "out.parquet", time="c")
    since_1970 = with_rows(
        tmp_path, 300, lambda at: pl.Series(np.round(at[:, 0] * 1e7)).cast(pl.Int64).cast(
            pl.Datetime("us"))
    )  # fmt: skip
    with pytest.raises(wh.InputError, match="can be read as a coordinate"):
        wh.obfuscate_table(MECHANISM, since_1970, tmp_path / "out.parquet", time="c")


@pytest.mark.slow
def test_honest_users_and_times_are_kept(tmp_path: Path) -> None:
    rows = 5000  # the limit is then 7 standard deviations from what chance gives
    rng = np.random.default_rng(8)
    seconds = np.sort(1_705_000_000 + rng.integers(0, 10**6, rows))
    kinds = {
        "epoch": seconds,
        "milliseconds": seconds * 1000 + rng.integers(0, 1000, rows),
        "datetime": pl.Series(seconds * 10**6 + rng.integers(0, 10**6, rows)).cast(
            pl.Datetime("us", "UTC")
        ),
        "clock": [f"{t // 3600 % 24:02}:{t // 60 % 60:02}:{t % 60:02}" for t in seconds],
        "phone": [f"+33 6 {a:02} {b:02} 48 51" for a, b in rng.integers(0, 100, (rows, 2))],
        "long id": rng.integers(10**15, 10**16, rows),
        "digest": [f"{rng.bytes(12).hex()}1e308" for _ in range(rows)],
        "huge": [f"{n}e308 9e999" for n in rng.integers(0, 9, rows)],
        "mail": [f"user{n}@example.org" for n in rng.integers(0, 50, rows)],
    }
    for column in kinds.values():
        source = with_rows(tmp_path, rows, column)
        for ask in ({"user": "c"}, {"time": "c"}, {"keep": ["c"]}):
            made = wh.obfuscate_table(MECHANISM, source, tmp_path / "out.parquet", **ask)
            assert made.kept == ("c",)


@pytest.mark.parametrize(
    "line", ["48.8566,2.3522", "alice,48.8566,2.3522", "N48.8566,E2.3522", "1,488566000,23522000"]
)
def test_a_heading_that_is_missing_is_not_repeated(tmp_path: Path, line: str) -> None:
    source, kernel = tmp_path / "in.csv", tmp_path / "k.whereish"
    wh.save_mechanism(kernel, MECHANISM)
    source.write_text(f"{line}\n" * 3)
    names = line.split(",")
    asks: list[list[str]] = [
        [], ["--columns", ",".join(names[-2:])], ["--columns", line + ",x"],
        ["--user", names[-1] + "0"],
    ]  # fmt: skip
    for ask in asks:
        done = run("obfuscate", kernel, source, "-o", tmp_path / "out.csv", *ask)
        assert done.exit_code == 2
        for value in ("48.8", "2.35", "4885", "2352"):
            assert value not in done.output + done.stderr
    source.write_text(f"lat,lon,{line}\n48.8566,2.3522,{line}\n")
    for ask, code in (([], 0), (["--keep", "all"], 2), (["--keep-anyway", "all"], 0)):
        done = run("obfuscate", kernel, source, "-o", tmp_path / "out.csv", *ask)
        assert done.exit_code == code, done.stderr
        for value in ("48.8", "2.35", "4885", "2352"):
            assert value not in done.stderr
