"""Readers of traces: every format gives the same table, and dirt is counted, not swallowed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whereish as wh
from whereish.profiles import Funnel, open_traces

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
            f"{user},{time:%Y-%m-%d %H:%M:%S},{lon},{lat}" for _, time, lat, lon in rows.rows()
        ]
        (folder / f"{user}.txt").write_text("\n".join(lines) + "\n")
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
    assert len(found) == len(good) + (what == "a truncated last line")
    assert funnel.files == 9
    if counter != "rows":
        assert getattr(funnel, counter) == count
        assert funnel.dropped == count
    if counter == "unreadable":
        assert funnel.where[0][0] == str(bad)
        assert funnel.where[0][1] == (2 if what == "a truncated last line" else 1)
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
