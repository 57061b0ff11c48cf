"""Compressed files that unpack to a thousand times their size are refused, in little memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import whereish as wh
from whereish import compressed, parquet
from whereish.traces.readers import READERS, Options

MB = 2**20
ROW = {
    "csv": b"me,2024-05-01 12:30:00,48.85,2.35\n",
    "t-drive": b"1,2008-02-02 15:36:08,116.51172,39.92123\n",
    "geolife": b"39.906631,116.385564,0,492,39745.1,2008-10-24,02:09:59\r\n",
    "gpx": b'<trkpt lat="48.85" lon="2.35"><time>2024-05-01T12:30:00Z</time></trkpt>\n',
    "geojson": b'{"type":"Feature","properties":{"time":"2024-05-01T12:30:00Z"},'
    b'"geometry":{"type":"Point","coordinates":[2.35,48.85]}},\n',
    "google": b'{"latitudeE7":488500000,"longitudeE7":23500000,'
    b'"timestamp":"2024-05-01T12:30:00Z"},\n',
    "owntracks": b'2024-05-01T12:30:00Z\t*\t{"_type":"location","lat":48.85,"lon":2.35}\n',
}
HEAD = {
    "csv": b"user,time,lat,lon\n",
    "geolife": b"Geolife trajectory\nWGS 84\n\n\n0\n0\n",
    "gpx": b"<gpx><trk><trkseg>\n",
    "geojson": b'{"type":"FeatureCollection","features":[\n',
    "google": b'{"locations":[\n',
}
NAME = {
    "csv": "a.csv.gz", "t-drive": "a.txt.gz", "geolife": "000/Trajectory/a.plt.gz",
    "gpx": "a.gpx.gz", "geojson": "a.geojson.gz", "google": "Records.json.gz",
    "owntracks": "a.rec.gz",
}  # fmt: skip


def packed(file: Path, pieces: Iterator[bytes]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(file, "wb", 9) as stream:
        for piece in pieces:
            stream.write(piece)
    return file


def bomb(folder: Path, kind: str, size: int, filler: bytes | None = None) -> Path:
    """Write a file of one row again and again, or of zeros in the middle of one."""

    def pieces() -> Iterator[bytes]:
        yield HEAD.get(kind, b"")
        yield ROW[kind] * 100
        block = (filler or ROW[kind]) * (MB // len(filler or ROW[kind]))
        for _ in range(size // len(block)):
            yield block

    return packed(folder / NAME[kind], pieces())


def told(folder: Path, kind: str) -> wh.Funnel:
    funnel = wh.Funnel()
    for _ in wh.open_traces(folder, kind).batches(funnel):
        pass
    return funnel


@pytest.mark.parametrize("filler", [None, b"\0", b" "], ids=["rows", "zeros", "blanks"])
@pytest.mark.parametrize("kind", NAME)
@pytest.mark.slow
def test_a_bomb_is_refused_in_words(
    tmp_path: Path, kind: str, filler: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the floor is lower, for speed."""
    monkeypatch.setattr(compressed, "UNPACKED_FLOOR", 2 * MB)
    file = bomb(tmp_path, kind, 20 * MB, filler)
    assert file.stat().st_size < 20 * MB / 230
    seen = told(tmp_path, kind)
    assert len(seen.broken) == 1
    named, why = seen.broken[0]
    assert named == str(file)
    if kind != "gpx" or filler != b"\0":  # which is no XML from the first of them on
        assert "unpack" in why or "longer than" in why or "larger than" in why
    assert seen.rows <= compressed.most_unpacked(file.stat().st_size) / len(ROW[kind])
    with pytest.raises(wh.FormatError, match="cannot be read"):
        next(wh.open_traces(tmp_path, kind, strict=True).batches(), None)


@pytest.mark.parametrize("kind", NAME)
@pytest.mark.slow
def test_what_is_packed_as_usual_is_read(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file may be packed as well as it can be, and a large one within the ratio."""
    bomb(tmp_path, kind, 4 * MB)
    seen = told(tmp_path, kind)
    assert seen.kept > 4 * MB // len(ROW[kind]) - 200
    assert all("whole" in why for _, why in seen.broken)  # its documents have no end
    monkeypatch.setattr(compressed, "UNPACKED_FLOOR", MB)
    assert any("unpack" in why for _, why in told(tmp_path, kind).broken)
    monkeypatch.setattr(compressed, "UNPACKED_RATIO", 10_000)
    assert not any("unpack" in why for _, why in told(tmp_path, kind).broken)
    monkeypatch.setattr(compressed, "UNPACKED_MOST", 2 * MB)
    assert any("unpack" in why for _, why in told(tmp_path, kind).broken)


def test_one_bomb_does_not_spoil_the_others(tmp_path: Path) -> None:
    bomb(tmp_path, "csv", 100 * MB)
    (tmp_path / "b.csv").write_bytes(HEAD["csv"] + ROW["csv"] * 7)
    seen = told(tmp_path, "csv")
    assert seen.kept == 7
    assert [name for name, _ in seen.broken] == [str(tmp_path / NAME["csv"])]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
def test_a_profile_that_is_a_bomb(tmp_path: Path, suffix: str) -> None:
    row = b"0.25,0.5,0.125\n"
    file = packed(tmp_path / f"me{suffix}", iter([b"x_km,y_km,prior\n", *[row * 70_000] * 100]))
    with pytest.raises(wh.FormatError, match=r"unpack|must end in"):
        wh.read_profile(file)
    if suffix == ".csv":
        from whereish.profiles import People

        with pytest.raises(wh.InputError, match="unpack"):
            People(file)


def test_a_table_to_hide_that_is_a_bomb(tmp_path: Path) -> None:
    file = packed(tmp_path / "a.csv", iter([HEAD["csv"], *[ROW["csv"] * 30_000] * 100]))
    mechanism = wh.exponential(wh.Places.from_latlon([[48.85, 2.35], [48.86, 2.36]]), 1.0)
    with pytest.raises(wh.FormatError, match="unpack"):
        wh.obfuscate_table(mechanism, file, tmp_path / "safe.csv")
    assert not (tmp_path / "safe.csv").exists()


def test_a_gzip_in_a_gzip_is_unpacked_once(tmp_path: Path) -> None:
    inner = gzip.compress(HEAD["csv"] + ROW["csv"] * 10)
    packed(tmp_path / "a.csv.gz", iter([inner]))
    with pytest.raises(wh.FormatError, match="once"):
        wh.open_traces(tmp_path)
    packed(tmp_path / "b.txt.gz", iter([gzip.compress(ROW["t-drive"] * 10)]))
    with pytest.raises(wh.FormatError, match="once"):
        list(wh.open_traces(tmp_path / "b.txt.gz", "t-drive", strict=True).batches())


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"\x78\x9c", b"\x78\xda", b"\x78\x01"])
@pytest.mark.parametrize("kind", ["csv", "t-drive", "geolife"])
def test_what_is_packed_otherwise_is_not_unpacked(tmp_path: Path, magic: bytes, kind: str) -> None:
    """Though the reader of tables could: it knows no limits."""
    import zlib

    body = zlib.compress(HEAD.get(kind, b"") + ROW[kind] * 10)
    file = tmp_path / NAME[kind].removesuffix(".gz")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(magic + body[2:])
    with pytest.raises(wh.FormatError, match="gzip"):
        list(wh.open_traces(tmp_path, kind, strict=True).batches())


def test_a_parquet_of_too_many_rows_for_its_size(tmp_path: Path) -> None:
    table = same(4_000_000, time=1_700_000_000, lat=48.85, lon=2.35)
    table.write_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < MB / 4
    assert any("unpack" in why for _, why in told(tmp_path, "parquet").broken)


@pytest.mark.slow
def test_an_element_without_an_end_takes_little_memory(tmp_path: Path) -> None:
    """A time, an attribute, or a line that goes on and on."""
    gpx = b'<gpx><trkpt lat="48.85" lon="2.35"><time>' + b"1" * (48 * MB)
    packed(tmp_path / "a.gpx.gz", iter([gpx]))
    del gpx
    tracemalloc.start()
    try:
        told(tmp_path, "gpx")
        assert tracemalloc.get_traced_memory()[1] < 24 * MB
    finally:
        tracemalloc.stop()
    packed(tmp_path / "b" / "b.gpx.gz", iter([b'<gpx><trkpt lat="48.85', b"1" * (48 * MB)]))
    assert "larger than" in told(tmp_path / "b", "gpx").broken[0][1]
    line = packed(tmp_path / "c" / "c.csv.gz", iter([HEAD["csv"], b"1" * (48 * MB), b"\n"]))
    tracemalloc.start()
    try:
        frames = list(READERS["csv"].slow_frames(line, Options()))
        assert tracemalloc.get_traced_memory()[1] < 24 * MB
    finally:
        tracemalloc.stop()
    assert sum(len(frame) for frame in frames) == 1


# --- Parquet: what a small table unpacks to -------------------------------------------------------


def memory_of(cache: Path, *words: object) -> tuple[str, float]:
    """Run the command line in a process of its own; return what it says, and its memory in MB."""
    code = (
        "import re, sys, whereish.cli as cli\n"
        "try:\n    cli.main()\nfinally:\n"
        "    about = open('/proc/self/status').read()\n"
        "    sys.stderr.write('\\n' + re.search(r'VmHWM:\\s+(\\d+)', about)[1])\n"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    apart = os.environ | {"XDG_CACHE_HOME": str(cache)}  # nothing is known from an earlier run
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=apart)
    told, _, most = done.stderr.rpartition("\n")
    return told, int(most) / 1024


def same(rows: int, **values: object) -> pl.DataFrame:
    return pl.DataFrame(
        {name: pl.Series([value]).new_from_index(0, rows) for name, value in values.items()}
    )


def spread(rows: int) -> pl.DataFrame:
    """A profile on a line."""
    lat = [48 + row / 1000 for row in range(rows)]
    return pl.DataFrame({"lat": lat, "lon": [2.0] * rows, "prior": [1 / rows] * rows})


@pytest.mark.slow
def test_a_text_in_every_row_of_parquet_traces(tmp_path: Path) -> None:
    """Twenty times the limit, of one text that a dictionary holds once."""
    file, rows = tmp_path / "a.parquet", 5_000
    table = same(rows, user="u" * 2**18, lat=48.85, lon=2.35)
    table.with_columns(time=pl.int_range(1_700_000_000, 1_700_000_000 + rows)).write_parquet(file)
    assert file.stat().st_size < 10_000
    told, most = memory_of(tmp_path / "cache", "profile", file, "-o", tmp_path / "me.csv")
    assert "unpack" in told
    assert most < 500


@pytest.mark.slow
@pytest.mark.parametrize("name", ["note", "user", "width_km", "prior"])
def test_a_text_in_every_row_of_a_parquet_profile(tmp_path: Path, name: str) -> None:
    """A column that is not needed is not read; a text in one that is needed is counted."""
    file = tmp_path / "me.parquet"
    table = spread(30).with_columns(same(30, text="y" * 30_000_000)["text"].alias(name))
    table.write_parquet(file)
    assert file.stat().st_size < 10_000
    words = (file, "--epsilon", 1, "-o", tmp_path / "k.whereish")
    told, most = memory_of(tmp_path / "cache", "build", *words)
    assert ("unpack" in told) == (name != "note"), told
    assert (tmp_path / "k.whereish").exists() == (name == "note")
    assert most < 500


def test_many_rows_of_one_person_are_refused_before_they_are_compared(tmp_path: Path) -> None:
    from whereish.profiles import People

    file = tmp_path / "people.parquet"
    same(1_500_000, user="me", lat=48.85, lon=2.35, prior=0.1).vstack(
        spread(5).select(pl.lit("you").alias("user"), "lat", "lon", "prior")
    ).write_parquet(file)
    first, second = People(file)
    assert first.profile is None
    assert "at most 10,000" in str(first.problem)
    assert second.profile is not None
    for user, wanted in (("me", "at most 10,000"), (None, "2 people"), ("her", "nobody called")):
        with pytest.raises(wh.FormatError, match=wanted):
            wh.read_profile(file, user=user)
    assert len(wh.read_profile(file, user="you").places) == 5
    same(3_000_000, user="me", lat=48.85, lon=2.35, prior=0.1).write_parquet(file)
    for read in (People, wh.read_profile):
        with pytest.raises(wh.FormatError, match="unpack"):
            read(file)


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "geojson"])
def test_a_profile_of_too_many_places_is_refused(tmp_path: Path, suffix: str) -> None:
    file, table = tmp_path / f"me.{suffix}", spread(10_001)
    if suffix == "geojson":
        point = {"type": "Point", "coordinates": [2.0, 48.0]}
        feature = {"type": "Feature", "properties": {"prior": 1}, "geometry": point}
        document = {"type": "FeatureCollection", "features": [feature] * 10_001}
        file.write_text(json.dumps(document))
    elif suffix == "json":
        file.write_text(json.dumps(table.to_dicts()))
    else:
        getattr(table, f"write_{suffix}")(file)
    with pytest.raises(wh.FormatError, match="at most 10,000"):
        wh.read_profile(file)


@pytest.mark.slow
def test_a_table_to_hide_in_parquet_that_is_a_bomb(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    same(4_000, lat=48.85, lon=2.35, note="n" * 2**18).write_parquet(file)
    mechanism = wh.exponential(wh.Places.from_latlon([[48.85, 2.35], [48.86, 2.36]]), 1.0)
    with pytest.raises(wh.FormatError, match="unpack"):
        wh.obfuscate_table(mechanism, file, tmp_path / "safe.parquet", keep=["note"])
    assert not (tmp_path / "safe.parquet").exists()
    assert wh.obfuscate_table(mechanism, file, tmp_path / "safe.parquet").rows == 4_000


def test_the_headers_of_parquet_files_are_read_as_they_are_written(tmp_path: Path) -> None:
    """Sizes of files whose pages are plain, so that they are known; and of every compression."""
    rows = 1000
    table = pl.DataFrame({"a": np.random.default_rng(0).normal(size=rows), "b": ["x" * 9] * rows})
    for kind in ("uncompressed", "zstd", "snappy", "gzip", "lz4", "brotli"):
        table.write_parquet(tmp_path / kind, compression=kind, row_group_size=300)
        found, size = parquet._stated(tmp_path / kind, frozenset("a"))
        assert found == rows
        assert 8 * rows <= size < 8 * rows + 4 * 100
        assert parquet._text_bytes(tmp_path / kind, ["a", "b"], rows, 10**9) == 9 * rows


def test_texts_in_lists_and_records_are_counted(tmp_path: Path) -> None:
    kinds = pl.Struct({"a": pl.List(pl.String), "b": pl.Array(pl.Binary, 2)})
    value = {"a": ["xyz", None, "q"], "b": [b"12345", b""]}
    series = pl.Series("c", [value, None, value], kinds)
    table = pl.DataFrame([series, pl.Series("d", ["xx", "y", "xx"], pl.Categorical)])
    table.write_parquet(tmp_path / "a")
    assert parquet._text_bytes(tmp_path / "a", ["c"], 3, 10**9) == 18
    assert parquet._text_bytes(tmp_path / "a", ["d", "c"], 3, 10**9) == 23


@pytest.mark.slow
def test_damaged_headers_of_parquet_files_are_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    spread(200).write_parquet(file, row_group_size=50)
    whole, chance = file.read_bytes(), np.random.default_rng(1)
    read = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for at in chance.integers(0, len(whole), chance.integers(1, 4)):
            damaged[at] = chance.integers(256)
        file.write_bytes(damaged[: len(whole) - int(chance.integers(0, 2) * chance.integers(99))])
        with contextlib.suppress(wh.FormatError):
            parquet.check_parquet(file, ["lat", "lon", "prior"])
            read += 1
    assert 0 < read < 1500


def test_texts_that_share_their_beginnings_may_each_be_as_long_as_the_page() -> None:
    """DELTA_BYTE_ARRAY, which polars reads and does not write: a header of 50 such values."""
    plain, delta = 0, 7
    for encoding, size in ((plain, 1000), (delta, 50 * 1000)):
        header = bytes([0x15, 0, 0x15, 0xD0, 0x0F, 0x15, 0, 0x2C, 0x15, 100, 0x15, 2 * encoding])
        header += b"\0\0"
        (page,) = parquet._pages(io.BytesIO(header), {7: len(header), 9: 0})
        assert page == (50, size)
