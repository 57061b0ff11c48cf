"""Compressed files that unpack to a thousand times their size are refused, in little memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import whereish as wh
from whereish import compressed
from whereish.traces.readers.tables import slow_frames

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
    import polars as pl

    rows = 4_000_000
    same = {"time": 1_700_000_000, "lat": 48.85, "lon": 2.35}
    pl.DataFrame({name: pl.Series([v]).new_from_index(0, rows) for name, v in same.items()}
                 ).write_parquet(tmp_path / "a.parquet")  # fmt: skip
    assert (tmp_path / "a.parquet").stat().st_size < MB / 4
    assert any("unpack" in why for _, why in told(tmp_path, "parquet").broken)


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
        frames = list(slow_frames("csv", "me", line, None, "UTC"))
        assert tracemalloc.get_traced_memory()[1] < 24 * MB
    finally:
        tracemalloc.stop()
    assert sum(len(frame) for frame in frames) == 1
