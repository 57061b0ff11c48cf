"""Obfuscated tables: every location is replaced, only declared columns are kept."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import whereish as wh
from stepping import halting
from strategies import city_points
from whereish.cli import app

CITY = wh.embedded_city()
MECHANISM = wh.exponential(CITY.places, 2.0)


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def table(rows: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    assert CITY.places.latlon is not None
    at = CITY.places.latlon[rng.integers(0, len(CITY.places), rows)]
    points = at + rng.uniform(-0.003, 0.003, at.shape)
    return pl.DataFrame(
        {
            "user": rng.integers(0, 5, rows),
            "lat": points[:, 0],
            "note": [f"n{i}, ok" for i in range(rows)],
            "lon": points[:, 1],
            "when": pl.Series(range(rows)) * 1000,
        }
    )


def write(frame: pl.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


@pytest.mark.parametrize("source", [".csv", ".parquet"])
@pytest.mark.parametrize("target", [".csv", ".parquet"])
def test_points_are_replaced_and_declared_columns_kept(
    tmp_path: Path, source: str, target: str
) -> None:
    frame = table(5000)
    out = tmp_path / f"out{target}"
    made = wh.obfuscate_table(
        MECHANISM, write(frame, tmp_path / f"in{source}"), out, user="user", time="when",
        keep=["note"],
    )  # fmt: skip
    after = read(out)
    assert after.columns == frame.columns
    kept, before = (one.drop("lat", "lon").cast(pl.String) for one in (after, frame))
    assert kept.equals(before)  # sorted by time: in its order
    assert (made.rows, made.blank, made.outside) == (5000, 0, 0)
    assert (made.user, made.users) == ("user", 5)
    assert (made.kept, made.left_out, made.order) == (("user", "note", "when"), (), "time")
    assert made.most_per_user == frame["user"].value_counts()["count"].max()
    assert CITY.places.latlon is not None
    reports = after.select("lat", "lon").to_numpy()
    there = (np.abs(reports[:, None] - CITY.places.latlon[None]).max(axis=2) < 1e-9).any(axis=1)
    assert there.all()
    moved = np.abs(reports - frame.select("lat", "lon").to_numpy()).max(axis=1)
    assert (moved > 0).all()


@pytest.mark.slow
def test_reports_have_the_distribution_of_the_mechanism(tmp_path: Path) -> None:
    from test_sampler import fits

    assert CITY.places.latlon is not None
    lat, lon = CITY.places.latlon[20]
    frame = pl.DataFrame({"lat": [lat] * 100_000, "lon": [lon] * 100_000})
    out = tmp_path / "out.parquet"
    wh.obfuscate_table(MECHANISM, write(frame, tmp_path / "in.parquet"), out)
    reports = read(out).to_numpy()
    numbers = np.abs(reports[:, None] - CITY.places.latlon[None]).max(axis=2).argmin(axis=1)
    assert fits(numbers, MECHANISM.counts[20])


def test_rows_without_a_point_stay_without(tmp_path: Path) -> None:
    frame = table(10).with_columns(
        lat=pl.when(pl.col("when") == 3000).then(None).otherwise(pl.col("lat")),
        lon=pl.when(pl.col("when") == 5000).then(float("nan")).otherwise(pl.col("lon")),
    )
    out = tmp_path / "out.parquet"
    source = write(frame, tmp_path / "in.parquet")
    made = wh.obfuscate_table(MECHANISM, source, out, keep=["note"], shuffle=False)
    assert made.blank == 2
    after = read(out)
    assert after["lat"].null_count() == after["lon"].null_count() == 2
    assert after["lat"].is_null().to_list() == [row in (3, 5) for row in range(10)]
    assert after["note"].to_list() == frame["note"].to_list()


def test_other_names_and_points_outside(tmp_path: Path) -> None:
    frame = table(20).rename({"lat": "y", "lon": "x", "user": "who"})
    frame[3, "y"] = 49.5
    source, out = write(frame, tmp_path / "in.csv"), tmp_path / "out.csv"
    with pytest.raises(wh.InputError, match="must have the columns lat and lon"):
        wh.obfuscate_table(MECHANISM, source, out)
    with pytest.raises(wh.InputError, match="must be inside the area"):
        wh.obfuscate_table(MECHANISM, source, out, ("y", "x"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    made = wh.obfuscate_table(MECHANISM, source, out, ("y", "x"), "who", outside="nearest")
    assert (made.outside, made.user) == (1, "who")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read"),
        ("a,b\n1,2\n", "must have the columns"),
        ("lat,lon\nx,y\n", "must hold numbers"),
        ("lat,lon\n1,2,3,4\n", "cannot be"),
        ("lat,lon\n95.0,2.0\n", "latitude from -90 to 90"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path: Path, content: str, words: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text(content)
    with pytest.raises(wh.InputError, match=words):
        wh.obfuscate_table(MECHANISM, source, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize(
    ("source", "target"),
    [("in.csv", "in.csv"), ("in.txt", "o.csv"), ("in.csv", "o.xlsx"), ("no.csv", "o.csv")],
)
def test_names_that_cannot_be_used(tmp_path: Path, source: str, target: str) -> None:
    write(table(3), tmp_path / "in.csv")
    (tmp_path / "in.txt").write_text("x")
    with pytest.raises(wh.InputError):
        wh.obfuscate_table(MECHANISM, tmp_path / source, tmp_path / target)


def test_text_stays_the_text_it_is(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    lines = ["01234,1.10,TRUE,1e5,48.86,2.34", '00007,"a, b",x,,48.87,2.35']
    source.write_text("zip,n,flag,e,lat,lon\n" + "\n".join(lines) + "\n")
    keep = ["zip", "n", "flag", "e"]
    wh.obfuscate_table(MECHANISM, source, out, keep=keep, shuffle=False)
    after = out.read_text().splitlines()
    assert [line.rsplit(",", 2)[0] for line in after[1:]] == [
        line.rsplit(",", 2)[0] for line in lines
    ]


def test_columns_can_be_kept_or_dropped_by_name(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("lat,lon,x,geohash,n\n48.86,2.34,7,u09,1\n")
    wh.obfuscate_table(MECHANISM, source, out, keep=["x"], drop=["geohash"])
    assert read(out).columns == ["lat", "lon", "x"]
    wh.obfuscate_table(MECHANISM, source, out, keep=["all"], drop=["geohash"])
    assert read(out).columns == ["lat", "lon", "x", "n"]
    for keep, drop in ((["x"], ["nothing"]), (["x"], ["x"]), (["lat"], [])):
        with pytest.raises(wh.InputError, match="another column"):
            wh.obfuscate_table(MECHANISM, source, out, keep=keep, drop=drop)
    for other in ({"user": "lat"}, {"time": "lon"}, {"time": "nothing"}, {"shuffle": 1}):
        with pytest.raises(wh.InputError):
            wh.obfuscate_table(MECHANISM, source, out, **other)


def test_the_file_that_is_named_is_read(tmp_path: Path) -> None:
    (tmp_path / "d1.csv").write_text("lat,lon,n\n48.86,2.34,other\n")
    source, out = tmp_path / "d[1].csv", tmp_path / "out.csv"
    source.write_text("lat,lon,n\n48.86,2.34,mine\n")
    wh.obfuscate_table(MECHANISM, source, out, keep=["n"])
    assert read(out)["n"].to_list() == ["mine"]


@pytest.mark.parametrize(
    "rows", ["48.861234N,2.34", "139.691706,35.689487", "49.512345,2.34", "48.86"]
)
def test_no_message_holds_a_point(file: Path, tmp_path: Path, rows: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text("lat,lon\n" + "48.86,2.34\n" * 20_000 + rows + "\n")
    done = run("obfuscate", file, source, "-o", tmp_path / "out.csv")
    if rows == "48.86":  # a row without a longitude has no point
        assert done.exit_code == 0
        return
    assert done.exit_code == 2
    for digits in ("48.861234", "139.69", "35.68", "49.51"):
        assert digits not in done.stderr


def test_without_an_epsilon_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "open.whereish"
    wh.save_mechanism(path, wh.Mechanism(np.eye(len(CITY.places)), CITY.places, CITY.places))
    done = run("obfuscate", path, write(table(5), tmp_path / "in.csv"), "-o", tmp_path / "o.csv")
    assert "NO epsilon" in done.stderr


# The commands -----------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, MECHANISM)
    return path


def test_the_command_warns_of_people_with_many_points(file: Path, tmp_path: Path) -> None:
    source = write(table(200), tmp_path / "in.csv")
    done = run("obfuscate", file, source, "-o", tmp_path / "out.csv", "--json")
    assert done.exit_code == 0, done.stderr
    assert "Careful: 5 people" in done.stderr
    assert "cost k times epsilon" in done.stderr
    assert json.loads(done.stdout)["rows"] == 200


def test_report_and_its_budget(file: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    first = run("report", file, "--at", "48.87,2.34", "--ledger", ledger, "--budget", 3, "--json")
    assert first.exit_code == 0, first.stderr
    facts = json.loads(first.stdout)
    assert (facts["cost"], facts["fresh"]) == (2.0, True)
    again = json.loads(
        run("report", file, "--at", "48.87,2.34", "--ledger", ledger, "--json").stdout
    )
    assert (again["output"], again["cost"]) == (facts["output"], 0.0)
    over = run("report", file, "--at", "48.85,2.32", "--ledger", ledger)
    assert over.exit_code == 5
    assert "nothing was reported" in over.stderr
    for wrong in ("48.87", "a,b", "48.87,2.34,1"):
        done = run("report", file, "--at", wrong, "--ledger", ledger)
        assert done.exit_code == 2
        assert "48.87" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_output(file: Path, tmp_path: Path, how: signal.Signals) -> None:
    source = write(table(2_000_000), tmp_path / "in.csv")
    before = {path.name for path in tmp_path.iterdir()}
    words = ("obfuscate", str(file), str(source), "-o", str(tmp_path / "out.csv"))
    with halting("whereish.mechanisms.mechanism:Mechanism.sample", 2, *words) as running:
        running.wait()
        assert {path.name for path in tmp_path.iterdir()} != before, "it is being written"
        running.process.send_signal(how)
        running.resume()
        said = running.process.communicate()[1]
        assert running.process.returncode == 130, said
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_counts_are_of_the_whole_file_not_of_a_batch(tmp_path: Path) -> None:
    rows = 350_000
    at = city_points(rows)
    at[:: rows // 7] = [49.5, 2.34]  # 8 of them
    people = (np.arange(rows) % 1000).tolist()
    frame = pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "user": people})
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    frame.write_parquet(source)
    outside = len(range(0, rows, rows // 7))
    with pytest.raises(wh.InputError, match=rf"^{outside} of 350,000 points must be inside"):
        wh.obfuscate_table(MECHANISM, source, out)
    made = wh.obfuscate_table(MECHANISM, source, out, outside="nearest")
    assert (made.rows, made.outside, made.users, made.most_per_user) == (rows, outside, 1000, 350)
    text = frame.cast(pl.String)
    text[0, "lat"], text[rows - 1, "lon"] = "north", "west"
    text.write_csv(tmp_path / "in.csv")
    with pytest.raises(wh.InputError, match=r"2 of the values in 350,000 rows do not"):
        wh.obfuscate_table(MECHANISM, tmp_path / "in.csv", out)
    at[5, 0] = at[rows - 5, 0] = 95.0
    pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1]}).write_parquet(source)
    with pytest.raises(wh.InputError, match=r"2 of 350,000 rows are not"):
        wh.obfuscate_table(MECHANISM, source, out)
