"""Readers of traces: every format gives the same table, and dirt is counted, not swallowed."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

import whereish as wh
from whereish.traces import Funnel, open_traces

BEIJING = ZoneInfo("Asia/Shanghai")
HEADER = (
    "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n"
    "0,2,255,My Track,0,0,2,8421376\n0\n"
)


def truth(users: int = 3, rows: int = 40, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    start = datetime(2008, 10, 23, 2, 53, 4, tzinfo=UTC)
    return pl.DataFrame(
        {
            "user": [f"{u:03d}" for u in range(users) for _ in range(rows)],
            "time": [
                start + timedelta(seconds=int(s)) for s in rng.integers(0, 10**7, users * rows)
            ],
            "lat": rng.uniform(39, 41, users * rows).round(6),
            "lon": rng.uniform(115, 117, users * rows).round(6),
        }
    ).with_columns(pl.col("time").dt.cast_time_unit("us"))


def geolife(folder: Path, table: pl.DataFrame, files: int = 4, end: str = "\r\n") -> Path:
    for (user,), rows in table.group_by("user", maintain_order=True):
        there = folder / "Data" / str(user) / "Trajectory"
        there.mkdir(parents=True)
        for part in range(files):
            lines = [
                f"{lat},{lon},0,492,39744.1,{time:%Y-%m-%d},{time:%H:%M:%S}"
                for _, time, lat, lon in rows[part::files].rows()
            ]
            (there / f"2008{part}.plt").write_text(
                HEADER.replace("\n", end) + end.join(lines) + end, newline=""
            )
    return folder


def t_drive(folder: Path, table: pl.DataFrame) -> Path:
    folder.mkdir()
    for (user,), rows in table.group_by("user", maintain_order=True):
        lines = [
            f"{user},{time.astimezone(BEIJING):%Y-%m-%d %H:%M:%S},{lon},{lat}"
            for _, time, lat, lon in rows.rows()
        ]
        (folder / f"{user}.txt").write_text("\n".join(lines) + "\n")
    return folder


def snap(folder: Path, table: pl.DataFrame) -> Path:
    folder.mkdir()
    lines = [
        f"{user}\t{time:%Y-%m-%dT%H:%M:%SZ}\t{lat}\t{lon}\t{420315 + number}"
        for number, (user, time, lat, lon) in enumerate(table.rows())
    ]
    (folder / "check-ins.txt").write_text("\n".join(lines) + "\n")
    return folder


def table(folder: Path, rows: pl.DataFrame, kind: str) -> Path:
    path = folder / f"traces.{kind}"
    if kind == "csv":
        rows.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")).write_csv(path)
    else:
        rows.write_parquet(path)
    return path


def everything(path: Path, **options: Any) -> tuple[pl.DataFrame, Funnel]:
    funnel = Funnel()
    batches = list(open_traces(path, **options).batches(funnel))
    return pl.concat(batches).sort("user", "time", "lat"), funnel


def test_every_format_gives_the_same_table(tmp_path: Path) -> None:
    rows = truth()
    expected = rows.sort("user", "time", "lat")
    for path, kind in (
        (geolife(tmp_path / "geolife", rows), "geolife"),
        (t_drive(tmp_path / "taxis", rows), "t-drive"),
        (snap(tmp_path / "gowalla", rows), "snap"),
        (table(tmp_path, rows, "csv"), "csv"),
        (table(tmp_path, rows, "parquet"), "parquet"),
    ):
        assert open_traces(path).kind == kind
        found, funnel = everything(path)
        assert found.equals(expected), kind
        assert (funnel.rows, funnel.kept, funnel.dropped) == (120, 120, 0)


def test_batches_are_people_and_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    traces = open_traces(geolife(tmp_path, truth()) / "Data")
    users = [
        batch["user"].unique().to_list()
        for batch in traces.batches(progress=lambda *now: told.append(now))
    ]
    assert users == [["000"], ["001"], ["002"]]
    assert told == [(4, 12, 40), (8, 12, 80), (12, 12, 120)]


DIRT = {
    "an empty file": ("", 0, "rows"),
    "a truncated last line": (
        HEADER + "39.9,116.3,0,1,2,2008-10-23,02:53:04\n39.9,116",
        1,
        "unreadable",
    ),
    "no heading and letters": (HEADER + "x,y,0,1,2,2008-10-23,02:53:04\n", 1, "unreadable"),
    "a point at 0, 0": (HEADER + "0.0,0.0,0,1,2,2008-10-23,02:53:04\n", 1, "impossible"),
    "a latitude of 400": (HEADER + "400.1,116.3,0,1,2,2008-10-23,02:53:04\n", 1, "impossible"),
    "swapped columns": (HEADER + "116.3,39.9,0,1,2,2008-10-23,02:53:04\n", 1, "impossible"),
    "a stray time": (HEADER + "39.9,116.3,0,1,2,1980-01-06,00:00:00\n", 1, "untimely"),
    "a stray year 2000": (HEADER + "39.9,116.3,0,1,2,2000-01-01,23:12:19\n", 1, "untimely"),
    "the year 2090": (HEADER + "39.9,116.3,0,1,2,2090-01-01,23:12:19\n", 1, "untimely"),
    "a heading and nothing": (HEADER, 0, "rows"),
    "half a heading": (HEADER[:30], 0, "rows"),
    "blank lines": (HEADER + "\n\r\n", 0, "rows"),
    "a first line that is cut off": (
        HEADER + "39.9,116\n39.9,116.3,0,1,2,2008-10-23,02:53:04\n",
        1,
        "unreadable",
    ),
    "a month of 13": (HEADER + "39.9,116.3,0,1,2,2008-13-23,02:53:04\n", 1, "unreadable"),
}


@pytest.mark.parametrize("what", DIRT)
def test_dirt_is_dropped_and_counted(tmp_path: Path, what: str) -> None:
    content, count, counter = DIRT[what]
    geolife(tmp_path, truth(users=2))
    bad = tmp_path / "Data" / "001" / "Trajectory" / "bad.plt"
    bad.write_text(content)
    found, funnel = everything(tmp_path)
    good = truth(users=2)
    assert len(found) == len(good) + ("cut off" in what or "truncated" in what)
    assert funnel.files == 9
    if counter != "rows":
        assert getattr(funnel, counter) == count
        assert funnel.dropped == count
    if count:
        file, line, _ = funnel.where[0]
        assert (file, line) == (str(bad), 8 if what == "a truncated last line" else 7)
    assert bool(funnel.broken) == (what == "swapped columns")
    if count:
        with pytest.raises(wh.FormatError) as caught:
            everything(tmp_path, strict=True)
        assert "116" not in str(caught.value)


def test_bytes_that_are_no_text_do_not_spoil_the_rest(tmp_path: Path) -> None:
    geolife(tmp_path, truth(users=1))
    (tmp_path / "Data" / "000" / "Trajectory" / "z.plt").write_bytes(b"\xff\x00\x80" * 300)
    found, funnel = everything(tmp_path)
    assert len(found) == 40
    assert funnel.files == 5


def test_a_bom_and_other_names_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "\ufeffTimestamp,Latitude,Longitude\n2020-03-01T10:00:00+01:00,48.85,2.35\n"
        "2020/03/01 10:00:00,48.86,2.36\n2020-03-01 10:00:00.5,48.87,2.37\n"
    )
    found, _ = everything(path)
    assert found["user"].unique().to_list() == ["mine"]
    assert sorted(str(time) for time in found["time"].to_list()) == [
        "2020-03-01 09:00:00+00:00",
        "2020-03-01 10:00:00+00:00",
        "2020-03-01 10:00:00.500000+00:00",
    ]


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_times_of_other_kinds(tmp_path: Path, zone: str | None) -> None:
    rows = truth(users=1)
    if zone is None:
        rows = rows.with_columns(pl.col("time").dt.epoch("s"))
    else:
        rows = rows.with_columns(pl.col("time").dt.convert_time_zone(zone))
    found, _ = everything(table(tmp_path, rows, "parquet"))
    assert found.equals(truth(users=1).sort("user", "time", "lat"))


@pytest.mark.parametrize(
    "misuse",
    [
        lambda folder: open_traces(folder / "missing"),
        lambda folder: open_traces(folder),
        lambda folder: open_traces(None),  # type: ignore[arg-type]  # the wrong type is the test
        lambda folder: open_traces(folder, "gps"),
        lambda folder: open_traces(geolife(folder, truth()), users=["999"]),
        lambda folder: open_traces(geolife(folder, truth()), users="001"),
        lambda folder: open_traces(geolife(folder, truth()), zone="Paris"),
        lambda folder: open_traces(folder, "geolife"),
        lambda folder: open_traces(_file(folder / "a.csv", "a,b\n1,2\n")),
        lambda folder: open_traces(_file(folder / "a.parquet", "PAR0")),
        lambda folder: open_traces(_file(folder / "a.docx", "x")),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, misuse: Any) -> None:
    with pytest.raises(wh.InputError):
        misuse(tmp_path)


def _file(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


@pytest.mark.skipif(
    "WHEREISH_GEOLIFE" not in os.environ, reason="WHEREISH_GEOLIFE names no folder of GeoLife"
)
def test_all_of_geolife_is_read() -> None:
    funnel, users = Funnel(), set()
    for batch in open_traces(os.environ["WHEREISH_GEOLIFE"]).batches(funnel):
        users.add(batch["user"][0])
    assert len(users) == 182
    assert funnel.kept > 24_000_000
    assert funnel.dropped < 100


def test_a_file_with_its_columns_swapped_is_named(tmp_path: Path) -> None:
    rows = truth(users=2)
    swapped = rows.rename({"lat": "lon", "lon": "lat"})
    rows.write_parquet(tmp_path / "a.parquet")
    swapped.write_parquet(tmp_path / "b.parquet")
    found, funnel = everything(tmp_path)
    assert len(found) == len(rows)
    assert [(Path(file).name, "to be swapped" in why) for file, why in funnel.broken] == [
        ("b.parquet", True)
    ]
    named = open_traces(tmp_path / "b.parquet", columns={"lat": "lon", "lon": "lat"})
    assert pl.concat(named.batches()).equals(rows)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("packed", [False, True])
def test_texts_as_they_come(tmp_path: Path, end: str, separator: str, packed: bool) -> None:
    rows = truth(users=2)
    lines = [
        separator.join([user, f"{time:%Y-%m-%d %H:%M:%S}", str(lat), str(lon), "x"])
        for user, time, lat, lon in rows.rows()
    ]
    heading = separator.join(["Uid", "Date_Time", "LATITUDE", "lng", "note"])
    content = ("\ufeff" + end.join([heading, *lines]) + end).encode()
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    found, funnel = everything(path)
    assert found.equals(rows.sort("user", "time", "lat"))
    assert funnel.dropped == 0


def test_a_damaged_gzip_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = truth(users=2)
    table(tmp_path, rows, "csv")
    whole = gzip.compress((tmp_path / "traces.csv").read_bytes())
    (tmp_path / "z.csv.gz").write_bytes(whole[: len(whole) // 2])
    found, funnel = everything(tmp_path)
    assert len(found) >= len(rows)
    assert [Path(file).name for file, _ in funnel.broken] == ["z.csv.gz"]
    with pytest.raises(wh.FormatError):
        everything(tmp_path, strict=True)


@pytest.mark.parametrize(
    ("form", "zone"),
    [
        ("%Y-%m-%dT%H:%M:%SZ", "UTC"),
        ("%Y-%m-%d %H:%M:%S", "Asia/Shanghai"),
        ("%Y/%m/%d %H:%M:%S", "Asia/Shanghai"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "America/New_York"),
        ("seconds", "UTC"),
        ("milliseconds", "UTC"),
    ],
)
def test_times_are_read_by_the_clock_they_say(tmp_path: Path, form: str, zone: str) -> None:
    rows = truth(users=1)
    local = [moment.astimezone(ZoneInfo(zone)) for moment in rows["time"]]
    texts = {
        "seconds": [str(int(t.timestamp())) for t in local],
        "milliseconds": [str(int(t.timestamp()) * 1000) for t in local],
    }.get(form, [t.strftime(form) for t in local])
    path = tmp_path / "t.csv"
    rows.with_columns(time=pl.Series(texts)).write_csv(path)
    found, funnel = everything(path, zone=zone)
    assert found.equals(rows.sort("user", "time", "lat"))
    assert funnel.dropped == 0


def test_an_hour_that_never_was_is_no_time(tmp_path: Path) -> None:
    path = _file(tmp_path / "t.csv", "time,lat,lon\n2024-03-31 02:30:00,1,2\n")
    _, funnel = read(path, zone="Europe/Paris")
    assert funnel.unreadable == 1


def test_t_drive_is_on_beijings_clock_and_a_cut_off_latitude_is_not_believed(
    tmp_path: Path,
) -> None:
    text = "1,2008-02-02 15:36:08,116.51172,39.92123\n1,2008-02-02 15:46:08,116.51135,39.9"
    found, funnel = read(_file(tmp_path / "1.txt", text))
    assert found["time"].to_list() == [datetime(2008, 2, 2, 7, 36, 8, tzinfo=UTC)]
    assert (funnel.unreadable, funnel.where[0][1]) == (1, 2)
    found, funnel = read(_file(tmp_path / "1.txt", text + "3883"))
    assert (len(found), funnel.unreadable) == (2, 0)


@pytest.mark.slow
def test_many_small_files_are_read_together_and_a_broken_one_is_found(tmp_path: Path) -> None:
    for number in range(450):
        _file(
            tmp_path / f"{number}.csv",
            f"time,lat,lon\n2020-01-01 00:00:00,10,{number / 10}\n" if number != 300 else "a,b\n",
        )
    traces = open_traces(tmp_path)
    funnel = Funnel()
    batches = list(traces.batches(funnel))
    found = pl.concat(batches)
    assert (len(found), funnel.files, len(batches)) == (449, 450, 3)
    assert set(found["user"]) == {str(n) for n in range(450) if n != 300}
    assert [Path(file).name for file, _ in funnel.broken] == ["300.csv"]


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = truth(users=2, rows=700)
    monkeypatch.setattr("whereish.traces.readers.limits.LARGE_BYTES", 1000)
    monkeypatch.setattr("whereish.traces.readers.limits.ROWS_A_FRAME", 100)
    for kind in ("csv", "parquet"):
        path = table(tmp_path, rows, kind)
        if kind == "csv":
            with path.open("a") as stream:
                stream.write("x,2008,1,2\n")
        batches = list(open_traces(path).batches(funnel := Funnel()))
        assert max(len(batch) for batch in batches) <= 300
        assert (
            pl.concat(batches).sort("user", "time", "lat").equals(rows.sort("user", "time", "lat"))
        )
        assert [line for _, line, _ in funnel.where] == ([1402] if kind == "csv" else [])


def test_some_people_can_be_asked_for(tmp_path: Path) -> None:
    rows = truth()
    for path in (geolife(tmp_path / "tree", rows), table(tmp_path, rows, "parquet")):
        found, _ = everything(path, users=["001"])
        assert found.equals(rows.filter(user="001").sort("user", "time", "lat"))
    found, _ = everything(path, person="me")
    assert set(found["user"]) == {"me"}


def test_a_reader_that_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    geolife(tmp_path, truth(users=12))
    before = threading.active_count()
    for _ in open_traces(tmp_path).batches():
        break
    assert threading.active_count() <= before


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    geolife(tmp_path / "a", truth(users=2))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "001").symlink_to(tmp_path / "a" / "Data" / "001")
    (tmp_path / "b" / "001" / "back").symlink_to(tmp_path / "b")
    found, _ = everything(tmp_path / "b")
    assert found.equals(truth(users=2).filter(user="001").sort("user", "time", "lat"))


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    rows = truth(users=2)
    one = open_traces(geolife(tmp_path / "a", rows))
    two = open_traces(geolife(tmp_path / "b", rows))
    assert one.digest() == two.digest()
    file = two.files[0]
    file.write_bytes(file.read_bytes().replace(b"39.", b"38.", 1))
    assert one.digest() != two.digest()
    assert one.digest() != open_traces(tmp_path / "a", zone="Asia/Tokyo").digest()


def read(path: Path, **options: Any) -> tuple[pl.DataFrame, Funnel]:
    """Read what may have no row at all."""
    funnel = Funnel()
    batches = list(open_traces(path, **options).batches(funnel))
    return pl.concat(batches) if batches else pl.DataFrame(), funnel


def test_a_heading_that_is_missing_is_not_shown(tmp_path: Path) -> None:
    path = _file(tmp_path / "t.csv", "2023-05-01 10:00:00,48.8566,2.3522\n" * 3)
    for options in ({}, {"columns": {"time": "when"}}):
        with pytest.raises(wh.FormatError, match="seems to be data") as caught:
            open_traces(path, **options)  # type: ignore[arg-type]  # mypy cannot match them
        assert "48.8" not in str(caught.value)
    table(tmp_path, truth(), "csv").rename(tmp_path / "a.csv")
    _, funnel = everything(tmp_path)
    assert "48.8" not in str(funnel)
    assert [Path(file).name for file, _ in funnel.broken] == ["t.csv"]


def test_notes_beside_the_traces_are_not_fatal(tmp_path: Path) -> None:
    _file(tmp_path / "a-notes.csv", "text\nhello\n")
    table(tmp_path, truth(), "csv")
    found, funnel = everything(tmp_path)
    assert len(found) == 120
    assert [Path(file).name for file, _ in funnel.broken] == ["a-notes.csv"]


@pytest.mark.parametrize("note", ['5" pipe', '"open', 'a "b', '"a, b"', '"two\nlines"'])
def test_a_quote_spoils_no_more_than_its_row(tmp_path: Path, note: str) -> None:
    rows = [f"2023-05-01T{h:02d}:00:00Z,48.{h},2.3,{note if h == 5 else 'x'}" for h in range(20)]
    path = _file(tmp_path / "t.csv", "\n".join(["time,lat,lon,note", *rows]) + "\n")
    found, funnel = everything(path)
    assert len(found) >= 19
    assert not funnel.broken
    kept = {f"{t:%H}": lat for _, t, lat, _ in found.rows()}
    assert all(kept[f"{h:02d}"] == float(f"48.{h}") for h in range(20) if h != 5)


@pytest.mark.parametrize("kind", ["geolife", "t-drive", "snap", "csv"])
@pytest.mark.parametrize("cut", [False, True])
def test_packed_texts_are_read_as_far_as_they_go(tmp_path: Path, kind: str, cut: bool) -> None:
    rows = truth(users=3, rows=3000)
    tree = {
        "geolife": lambda: geolife(tmp_path / "x", rows, files=1),
        "t-drive": lambda: t_drive(tmp_path / "x", rows),
        "snap": lambda: snap(tmp_path / "x", rows),
        "csv": lambda: _file(tmp_path / "x.csv", _csv(rows)),
    }[kind]()
    for file in list(tree.rglob("*.*")) if tree.is_dir() else [tree]:
        if file.is_file():
            whole = gzip.compress(file.read_bytes())
            inside = file.relative_to(tmp_path).as_posix()  # tmp_path itself may be called 001
            spoil = cut and (kind in ("csv", "snap") or "001" in inside)
            file.with_name(file.name + ".gz").write_bytes(whole[:-5000] if spoil else whole)
            file.unlink()
    where = tree if tree.is_dir() else tree.with_name("x.csv.gz")
    found, funnel = everything(where)
    if cut:
        assert 100 < len(found) < len(rows)
        assert len(funnel.broken) == 1
    else:
        assert found.equals(rows.sort("user", "time", "lat"))
        assert (funnel.dropped, funnel.broken) == (0, [])


def _csv(rows: pl.DataFrame) -> str:
    return str(rows.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")).write_csv())


def test_columns_may_be_called_anything(tmp_path: Path) -> None:
    text = "file,line,id, My Lat ,blank,TIME,lng\nf,9,1,48.5,b,2023-05-01 10:00:00,2.5\n"
    path = _file(tmp_path / "t.csv", text)
    found, _ = everything(path, columns={"lat": "my lat"})
    assert found.rows() == [("t", datetime(2023, 5, 1, 10, tzinfo=UTC), 48.5, 2.5)]


def test_decimal_commas_go_with_semicolons(tmp_path: Path) -> None:
    path = _file(tmp_path / "t.csv", "time;lat;lon\n2023-05-01 10:00:00;48,5;-2,5\n")
    found, _ = everything(path)
    assert found.select("lat", "lon").rows() == [(48.5, -2.5)]


@pytest.mark.parametrize(
    "text",
    ["2023-05-01T10:00Z", "20230501T100000Z", "20230501T100000", "2023/05/01 10:00",
     "2023-05-01T12:00:00+02", "2023-05-01 12:00+02:00", "2023-05-01T10:00:00.000Z"],
)  # fmt: skip
def test_other_forms_of_a_time(tmp_path: Path, text: str) -> None:
    found, _ = everything(_file(tmp_path / "t.csv", f"time,lat,lon\n{text},48.5,2.5\n"))
    assert found["time"].to_list() == [datetime(2023, 5, 1, 10, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("05/01/2023 10:00,48.5,2.5", "the time cannot be read"),
        ("2023-05-01,48.5,2.5", "the time cannot be read"),
        ("2023-05-01 10:00:00,48.5N,2.5", "the latitude is not a number"),
        ("2023-05-01 10:00:00,48.5,", "the longitude is not a number"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path: Path, row: str, why: str) -> None:
    _, funnel = read(_file(tmp_path / "t.csv", f"time,lat,lon\n{row}\n"))
    assert funnel.where[0][2].startswith(why)
    assert "48.5" not in str(funnel)


def test_kinds_that_are_left_out_are_counted(tmp_path: Path) -> None:
    table(tmp_path, truth(), "parquet")
    table(tmp_path, truth(), "csv")
    (tmp_path / "readme.md").write_text("hello")
    traces = open_traces(tmp_path)
    assert (traces.kind, traces.left_out) == ("parquet", {"csv": 1})
    assert open_traces(tmp_path, "csv").left_out == {"parquet": 1}


def test_people_are_called_by_their_files(tmp_path: Path) -> None:
    for name in ("alice.smith.csv", "alice.jones.csv"):
        _file(tmp_path / name, "time,lat,lon\n2023-05-01 10:00:00,48.5,2.5\n")
    found, _ = everything(tmp_path)
    assert found["user"].to_list() == ["alice.jones", "alice.smith"]


def test_a_kind_that_is_named_is_believed(tmp_path: Path) -> None:
    for name in "ab":  # nothing in how it begins tells what it is
        (tmp_path / f"{name}.json").write_text(" " * 70_000 + '{"locations": []}')
    with pytest.raises(wh.FormatError, match="a known format"):
        open_traces(tmp_path)
    traces = open_traces(tmp_path, "google")
    assert len(traces.files) == 2
    assert list(traces.batches()) == []


@pytest.mark.parametrize("named", [None, "t-drive"])
@pytest.mark.parametrize("first", ["7,2008-02\n", "\n", "# x\n", "garbage\n"])
def test_a_bad_first_line_hides_no_taxi(tmp_path: Path, named: str | None, first: str) -> None:
    folder = t_drive(tmp_path / "taxis", truth(users=3, rows=9))
    file = folder / "001.txt"
    file.write_text(first + file.read_text())
    found, funnel = everything(folder, kind=named)
    assert len(found) == 27
    assert funnel.unreadable == (0 if first == "\n" else 1)
    if first != "\n":
        with pytest.raises(wh.FormatError, match="line 1"):
            everything(folder, kind=named, strict=True)


@pytest.mark.parametrize(
    ("row", "dropped"),
    [("garbage", 1), ("\t\t\t\t", 0), ("0\t2010-10-19T23:55:27Z\t30.2\t-97.8", 0),
     ("0\t2010-10-19T23:55:27Z\tx\t-97.8\t7", 1), ("0\t\t30.2\t-97.8\t7", 1),
     ("0,2010-10-19T23:55:27Z,30.2,-97.8,7", 1), ("0\t2010-10-19T23:55:27Z\t0.0\t0.0\t7", 1),
     ('"\t2010-10-19T23:55:27Z\t30.2\t-97.8\t7', 0)],
)  # fmt: skip
@pytest.mark.parametrize("first", [False, True])
def test_a_bad_check_in_spoils_no_other(
    tmp_path: Path, row: str, dropped: int, first: bool
) -> None:
    good = "7\t2010-10-19T23:55:27Z\t30.23\t-97.79\t22847\n"
    text = f"{row}\n{good}{good}" if first else f"{good}{row}\n{good}"
    _, funnel = everything(_file(tmp_path / "check-ins.txt", text), kind="snap")
    assert funnel.dropped == dropped
    assert funnel.kept == funnel.rows - dropped >= 2
    assert not funnel.broken


@pytest.mark.parametrize("row", ["garbage", "v,,,", ",,,x", "v,2020-01-01 00:00:00"])
def test_a_line_with_anything_on_it_is_a_row(tmp_path: Path, row: str) -> None:
    good = "u,2020-01-01 00:00:00,1,2\n"
    _, funnel = read(_file(tmp_path / "t.csv", f"user,time,lat,lon\n{good}{row}\n{good}"))
    assert (funnel.rows, funnel.unreadable) == (3, 1)
    notes = f"note,time,lat,lon\n{good}{row}\n{good}"
    _, funnel = read(_file(tmp_path / "t.csv", notes))
    assert (funnel.rows, funnel.unreadable) == (3, 1)


def test_a_bad_file_among_large_ones_costs_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whereish.traces.readers.limits.LARGE_BYTES", 2000)
    monkeypatch.setattr("whereish.traces.readers.limits.ROWS_A_FRAME", 50)
    geolife(tmp_path, truth(users=1, rows=400), files=8)
    bad = sorted(tmp_path.rglob("*.plt"))[4]
    text = bad.read_text()
    bad.write_text(text[: len(HEADER)] + "39.9,116.3\n" + text[len(HEADER) :])
    found, funnel = everything(tmp_path)
    assert (funnel.broken, len(found)) == ([], 400)
    assert (funnel.unreadable, funnel.where[0][0]) == (1, str(bad))


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    table(tmp_path, truth(), "csv")
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "b.csv").symlink_to("/dev/zero")
    traces = open_traces(tmp_path)
    assert len(traces.files) == 1
    traces.digest()
    with pytest.raises(wh.InputError, match="ordinary file"):
        open_traces(tmp_path / "a.csv")


def test_a_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    table(tmp_path, truth(), "csv")
    with open(os.fsencode(tmp_path) + b"/a\xff.csv", "w") as stream:
        stream.write("time,lat,lon\n")
    found, funnel = everything(tmp_path)
    assert len(found) == 120
    assert [why for _, why in funnel.broken] == ["a name that is not UTF-8"]


@pytest.mark.slow
def test_a_reader_notices_ctrl_c_while_it_waits(tmp_path: Path) -> None:
    table(tmp_path, truth(), "csv")
    code = (
        "import sys, time, whereish as wh\n"
        "traces = wh.open_traces(sys.argv[1])\n"
        "list(traces.map(lambda batch: (print('reading', flush=True), time.sleep(1e6))))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        process.send_signal(signal.SIGINT)
        process.wait()  # or this has no end


@pytest.mark.parametrize(
    ("end", "kept"), [(",116.31234,39", 1), (",116.31234,3", 1), (",116.31234,39.91234", 2)]
)
def test_a_latitude_without_its_digits_is_not_believed(tmp_path: Path, end: str, kept: int) -> None:
    taxi = "1,2008-02-02 15:36:08,116.51172,39.92123\n1,2008-02-02 15:46:08" + end
    found, _ = read(_file(tmp_path / "1.txt", taxi))
    assert len(found) == kept
    text = "time,lat,lon\n2020-01-01 00:00:00,48.85661,2.35222\n2020-01-01 01:00:00,48.8,"
    digits = "2.35222" if kept == 2 else "2"
    found, _ = read(_file(tmp_path / "t.csv", text + digits))
    assert len(found) == kept


def test_a_quote_changes_nothing_of_how_other_rows_are_read(tmp_path: Path) -> None:
    rows = ["a;2023-05-01 10:00:00;48,5;2,5;x", ';2023-05-01 11:00:00;48,6;2,5;"open',
            "a;2023-05-01 12:00:00;48,7;2,5;" + "y" * 200_000]  # fmt: skip
    found, funnel = everything(
        _file(tmp_path / "t.csv", "\n".join(["user;time;lat;lon;note", *rows, ""]))
    )
    assert set(found["lat"]) >= {48.5}
    assert funnel.broken == []
    assert set(found["user"]) == {"a"}


def test_somebody_in_any_of_the_files_is_somebody(tmp_path: Path) -> None:
    _file(tmp_path / "a.csv", "time,lat,lon\n2020-01-01 00:00:00,1,2\n")
    _file(tmp_path / "b.csv", "user,time,lat,lon\nbob,2020-01-01 00:00:00,1,2\n")
    assert open_traces(tmp_path).tells_people


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_an_absurd_stamp_costs_its_row(tmp_path: Path, unit: Any) -> None:
    stamps = pl.Series([1_600_000_000, 2**63 - 1], dtype=pl.Int64)
    scale = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    stamps = pl.Series([1_600_000_000 * scale, 2**63 - 1], dtype=pl.Int64).cast(pl.Datetime(unit))
    pl.DataFrame({"time": stamps, "lat": [1.0, 1.0], "lon": [2.0, 2.0]}).write_parquet(
        tmp_path / "t.parquet"
    )
    found, funnel = read(tmp_path / "t.parquet", zone="Europe/Paris")
    assert (len(found), funnel.broken) == (1, [])
    assert funnel.dropped == 1


@pytest.mark.parametrize("zone", ["localtime", "Factory", "right/UTC", "Nowhere", "", "UTC "])
def test_zones_are_those_that_can_be_counted_by(tmp_path: Path, zone: str) -> None:
    path = table(tmp_path, truth(), "csv")
    if zone:
        with pytest.raises(wh.InputError, match="must be the name of a time zone"):
            open_traces(path, zone=zone)


@pytest.mark.parametrize(
    "wrong",
    [{"columns": "abc"}, {"columns": 5}, {"columns": ["lat"]}, {"users": 5}, {"users": [1]},
     {"person": 5}],
)  # fmt: skip
def test_wrong_types_are_refused(tmp_path: Path, wrong: Any) -> None:
    path = table(tmp_path, truth(), "csv")
    with pytest.raises(wh.InputError):
        open_traces(path, **wrong)


def test_a_column_of_anything_else_is_refused(tmp_path: Path) -> None:
    rows = truth().with_columns(lat=pl.struct("lat"))
    rows.write_parquet(tmp_path / "t.parquet")
    _, funnel = read(tmp_path / "t.parquet")
    assert "must hold numbers" in funnel.broken[0][1]
