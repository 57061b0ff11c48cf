"""whereish profile, city and forget, as their users meet them."""

from __future__ import annotations

import json
import signal
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import whereish as wh
from stepping import halting
from whereish.cli import app


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHEREISH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def fine(*words: object) -> tuple[dict[str, Any], str]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def gpx(path: Path, points: int = 400) -> Path:
    """A person between two spots that are easily recognised in any output."""
    start = datetime(2024, 5, 6, tzinfo=UTC)
    lines = [
        f'<trkpt lat="{48.7123 if i % 3 else 48.7321}" lon="{2.4567 if i % 3 else 2.4765}">'
        f"<time>{start + timedelta(minutes=31 * i):%Y-%m-%dT%H:%M:%SZ}</time></trkpt>"
        for i in range(points)
    ]
    path.write_text("<gpx><trk><trkseg>" + "\n".join(lines) + "</trkseg></trk></gpx>")
    return path


def timeline(path: Path) -> Path:
    start = datetime(2024, 5, 6, tzinfo=UTC)
    segments = [
        {
            "startTime": (start + timedelta(hours=12 * i)).isoformat(),
            "endTime": (start + timedelta(hours=12 * i + 9)).isoformat(),
            "visit": {"topCandidate": {"placeLocation": {"latLng": spot}}},
        }
        for i, spot in enumerate(["48.7123°, 2.4567°", "48.7321°, 2.4765°"] * 20)
    ]
    path.write_text(json.dumps({"semanticSegments": segments}))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpx, timeline])
def test_two_commands_from_an_export_to_a_picture(tmp_path: Path, make: Any) -> None:
    traces = make(tmp_path / ("me.gpx" if make is gpx else "Timeline.json"))
    me, k, picture = (tmp_path / name for name in ("me.csv", "k.whereish", "picture.png"))
    facts, told = fine("profile", traces, "--places", 12, "-o", me)
    assert stat.S_IMODE(me.stat().st_mode) == 0o600
    assert (facts["places"], facts["places_visited"]) == (12, 2)
    assert facts["share_of_time_at_places"] == 1.0
    assert "100% of the recorded time" in told
    for word in ("48.7", "2.45", "2.47"):
        assert word not in told
    built, _ = fine("build", me, "--ratio", 2, "--within", "500m", "-o", k, "--picture", picture)
    assert built["private"] is True
    assert picture.read_bytes().startswith(b"\x89PNG")
    audited = run("audit", k)
    assert audited.exit_code == 0


def test_a_second_run_reads_nothing_and_forget_deletes_what_was_kept(
    tmp_path: Path, cache: Path
) -> None:
    traces = gpx(tmp_path / "me.gpx")
    one, told = fine("profile", traces, "-o", tmp_path / "a.csv")
    assert "kept from" not in told
    two, again = fine("profile", traces, "-o", tmp_path / "b.csv")
    assert "kept from an earlier run" in again
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    del one["rows"]["seconds"], two["rows"]["seconds"], one["output"], two["output"]
    assert one == two
    deleted, _ = fine("forget")
    assert deleted["deleted"] == 3, "tiles, cells and visited points"
    assert not list(cache.iterdir())
    fine("profile", traces, "-o", tmp_path / "c.csv", "--no-cache")
    assert not list(cache.iterdir())


@pytest.mark.slow
def test_a_group_on_the_same_places_and_on_its_own(tmp_path: Path) -> None:
    made, _ = fine("city", "-o", tmp_path / "city", "--users", 8, "--days", 30, "--every", 60)
    area = ",".join(str(side) for side in made["area"])
    common = ("--group", "users", "--zone", made["zone"], "--at-least", 5, "--places", 20)
    facts, told = fine("profile", tmp_path / "city", *common, "--area", area, "-o", tmp_path / "p")
    files = sorted((tmp_path / "p").iterdir())
    assert facts["users"] == len(files) >= 4
    assert facts["steps"][0]["users"] == 8
    assert "people with at least 5 points in every period" in told
    first, second = (wh.read_profile(file) for file in files[:2])
    assert first.places.same_as(second.places)
    assert (first.prior != second.prior).any()

    own, _ = fine(
        "profile", tmp_path / "city", *common, "--own-places", "-o", tmp_path / "o.parquet"
    )
    table = pl.read_parquet(tmp_path / "o.parquet")
    assert own["users"] == table["user"].n_unique()
    spots = {
        user[0]: set(part.select("lat", "lon").rows()) for user, part in table.group_by("user")
    }
    assert len(set(map(frozenset, spots.values()))) == len(spots)
    assert all(len(part) == 20 for part in spots.values())

    table_city, _ = fine("city", "-o", tmp_path / "c.parquet", "--format", "parquet",
                         "--users", 8, "--days", 30, "--every", 60)  # fmt: skip
    assert table_city["seed"] == 0
    again, _ = fine(
        "profile", tmp_path / "c.parquet", *common, "--area", area, "-o", tmp_path / "q"
    )
    assert again["steps"] == facts["steps"]
    for file in files:
        assert (tmp_path / "q" / file.name).read_bytes() == file.read_bytes()

    one, _ = fine("profile", tmp_path / "city", "--user", "003", "-o", tmp_path / "me.json",
                  "--zone", made["zone"], "--period", "22-6", "--smooth", 0.1,
                  "--cell", "300m x 0.5km")  # fmt: skip
    assert one["cell_km"] == [0.3, 0.5]


def test_dirt_is_told_by_file_and_line_and_strict_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "me.csv"
    rows = [f"2024-05-06 {h:02d}:00:00,48.7123,2.4567" for h in range(24)]
    path.write_text("\n".join(["time,lat,lon", *rows[:3], "x,48.7124,2.4568", *rows[3:], ""]))
    facts, told = fine("profile", path, "-o", tmp_path / "p.csv")
    assert facts["rows"]["unreadable"] == 1
    assert f"{path}, line 5: the time cannot be read" in told
    done = run("profile", path, "-o", tmp_path / "p.csv", "--strict")
    assert done.exit_code == 2
    assert "line 5" in done.stderr
    assert "48.7" not in told + done.stderr


SWAPPED = "when,y,x\n2024-05-06 01:00:00,116.3,39.9\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-file", "-o", "p.csv"], "must be a file or folder that exists"),
        (["t.csv", "-o", "p.xls"], "must end in"),
        (["t.csv", "-o", "no/such/p.csv"], "folder that exists"),
        (["t.csv", "-o", "p.csv"], "--columns time=A"),
        (["t.csv", "-o", "p.csv", "--columns", "time"], "columns must be like"),
        (["t.csv", "-o", "p.csv", "--columns", "time=no,lat=y,lon=x"], "no column 'no'"),
        (["t.csv", "-o", "p.csv", "--columns", "tme=when"], "columns must name some of"),
        (["t.csv", "-o", "p.csv", "--columns", "time=when,lat=y,lon=x"], "to be swapped"),
        (["t.csv", "-o", "p.csv", "--period", "noon", "--zone", "UTC"], "a period must be"),
        (["t.csv", "-o", "p.csv", "--period", "night"], "need a time zone"),
        (["t.csv", "-o", "p.csv", "--zone", "Paris"], "zone must be"),
        (["t.csv", "-o", "p.csv", "--clock", "Paris"], "clock must be"),
        (["t.csv", "-o", "p.csv", "--group", "people"], "group must be users"),
        (["t.csv", "-o", "p", "--group", "users"], "need a time zone"),
        (["t.csv", "-o", ".", "--group", "users", "--zone", "UTC"], "new or empty folder"),
        (["t.csv", "-o", "p.csv", "--cell", "12"], "a length with its unit"),
        (["t.csv", "-o", "p.csv", "--cell", "1m x 2m x 3m"], "cell must be like"),
        (["t.csv", "-o", "p.csv", "--cell", "0.1m"], "cell_km must be"),
        (["t.csv", "-o", "p.csv", "--cell", "9m", "--h3", "8"], "of one kind"),
        (["t.csv", "-o", "p.csv", "--h3", "99"], "resolution must be"),
        (["t.csv", "-o", "p.csv", "--area", "1,2,3"], "area must be"),
        (["t.csv", "-o", "p.csv", "--area", "3,2,1,4"], "north must be above south"),
        (["t.csv", "-o", "p.csv", "--districts", "none.geojson"], "cannot be read"),
        (["t.csv", "-o", "p.csv", "--smooth", "2"], "smooth must be"),
        (["t.csv", "-o", "p.csv", "--kind", "gpx"], "cannot be read"),
        (["t.csv", "-o", "p.csv", "--kind", "kml"], "kind must be one of"),
        (["a.zip", "-o", "p.csv"], "unpacked first"),
        (["t.csv", "-o", "p.csv", "--own-places"], "goes with --group users"),
        (["t.csv", "-o", "p.csv", "--at-least", "3"], "goes with --group users"),
        (["t.csv", "-o", "p.csv", "--group", "users", "--zone", "UTC"], "a folder or a .parquet"),
        (["t.csv", "-o", "p.csv", "--one-person", "--user", "a"], "goes neither"),
        (["t.csv", "-o", "p.csv", "--places", "1"], "places must be"),
    ],
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(SWAPPED)
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + bytes(99))
    before = sorted(tmp_path.iterdir())
    done = run("profile", *words)
    assert done.exit_code == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "116.3" not in done.stderr
    left = [file for file in tmp_path.iterdir() if file.name != "cache"]
    assert sorted(left) == before


@pytest.mark.parametrize("name", ["me.csv", "./me.csv", "link.csv"])
def test_traces_are_never_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "time,lat,lon\n2024-05-06 01:00:00,48.7123,2.4567\n"
    Path("me.csv").write_text(text)
    Path("link.csv").symlink_to("me.csv")
    done = run("profile", "me.csv", "-o", name)
    assert done.exit_code == 2
    assert "output must not be one of the traces" in done.stderr
    assert Path("me.csv").read_text() == text
    many = run("profile", "me.csv", "-o", "p.csv", "--places", 10**11)
    assert many.exit_code == 2
    assert "places must be at most 10,000" in many.stderr


def test_several_people_are_named_not_merged(tmp_path: Path) -> None:
    fine("city", "-o", tmp_path / "city", "--users", 3, "--days", 5, "--format", "t-drive")
    done = run("profile", tmp_path / "city", "-o", tmp_path / "p.csv")
    assert done.exit_code == 2
    assert "traces must be of one person, got 3: name one" in done.stderr
    assert "--user 1" in done.stderr
    merged, _ = fine("profile", tmp_path / "city", "-o", tmp_path / "all.csv", "--merge-users")
    assert merged["places"] == 50
    missing = run("profile", tmp_path / "city", "-o", tmp_path / "p.csv", "--user", "7")
    assert missing.exit_code == 2
    assert "got none of the people asked for" in missing.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.slow
def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    made = wh.SyntheticCity(users=40, days=60, every_s=5)
    made.write_parquet(tmp_path / "t.parquet")
    words = ("profile", str(tmp_path / "t.parquet"), "--group", "users", "--zone", "UTC",
             "-o", str(tmp_path / "out"))  # fmt: skip
    with halting("whereish.traces.source:Traces._whose", 1, *words) as running:
        running.wait()
        running.process.send_signal(signal.SIGINT)
        running.resume()
        said = running.process.communicate()[1]
        assert running.process.returncode == 130, said
    assert "Traceback" not in said
    left = {file.name for file in tmp_path.iterdir()}
    assert left <= {"t.parquet", "cache"}


@pytest.mark.slow
def test_a_group_in_a_period_says_who_is_left(tmp_path: Path) -> None:
    made, _ = fine("city", "-o", tmp_path / "city", "--users", 12, "--days", 30, "--every", 60)
    area = ",".join(str(side) for side in made["area"])
    common = (tmp_path / "city", "--group", "users", "--zone", made["zone"], "--at-least", 2,
              "--area", area, "--places", 20)  # fmt: skip
    facts, _ = fine("profile", *common, "--period", "22-23", "-o", tmp_path / "late")
    assert facts["steps"][-1]["name"] == "from 22 to 23 o'clock"
    assert facts["users"] == facts["steps"][-1]["users"] == len(list((tmp_path / "late").iterdir()))
    for more in ((), ("--own-places",)):
        done = run("profile", *common, "--period", "3-4", "-o", tmp_path / "never", *more)
        assert done.exit_code == 2
        assert "nobody who is left has a point from 3 to 4 o'clock" in done.stderr


def test_the_radius_limits_hexagons_of_a_group(tmp_path: Path) -> None:
    pytest.importorskip("h3")
    rows = [
        (user, datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=h), lat, lon)
        for user, lat, lon in (("a", 48.85, 2.35), ("b", 48.86, 2.36), ("c", 35.68, 139.7))
        for h in range(72)
    ]
    table = pl.DataFrame(rows, schema=["user", "time", "lat", "lon"], orient="row")
    table.write_parquet(tmp_path / "t.parquet")
    facts, _ = fine("profile", tmp_path / "t.parquet", "--group", "users", "--zone", "UTC",
                    "--h3", 8, "--at-least", 3, "-o", tmp_path / "p")  # fmt: skip
    assert facts["users"] == 2
    assert facts["places"] == 2


def test_everybodys_table_builds_for_one(tmp_path: Path) -> None:
    fine("city", "-o", tmp_path / "city", "--users", 4, "--days", 30, "--every", 60)
    fine("profile", tmp_path / "city", "--group", "users", "--zone", "UTC", "--at-least", 1,
         "--places", 8, "-o", tmp_path / "all.parquet")  # fmt: skip
    k = tmp_path / "k.whereish"
    done = run("build", tmp_path / "all.parquet", "--epsilon", 1, "-o", k)
    assert done.exit_code == 2
    assert "people: name one" in done.stderr
    someone = pl.read_parquet(tmp_path / "all.parquet")["user"][0]
    fine("build", tmp_path / "all.parquet", "--user", someone, "--epsilon", 1, "-o", k)
    missing = run("build", tmp_path / "all.parquet", "--user", "x", "--epsilon", 1, "-o", k)
    assert "nobody called 'x'" in missing.stderr


def test_no_picture_or_message_shows_where_somebody_is(tmp_path: Path) -> None:
    me = tmp_path / "me.csv"
    fine("profile", gpx(tmp_path / "me.gpx"), "--places", 6, "-o", me)
    fine("plot", me, "-o", tmp_path / "p.png")
    assert stat.S_IMODE((tmp_path / "p.png").stat().st_mode) == 0o600
    for old, new in (("48.7", "48.7N"), ("48.7", "148.7"), ("48.7", '"48.7')):
        spoiled = tmp_path / "spoiled.csv"
        spoiled.write_text(me.read_text().replace(old, new, 1))
        done = run("build", spoiled, "--epsilon", 1, "-o", tmp_path / "k.whereish")
        assert done.exit_code == 2
        assert "48.7" not in done.stderr


TRACES = {
    "a.csv": "user,time,lat,lon\n" + "ann,2024-05-01 10:00:00,48.85,2.35\n" * 3
    + "bob,2024-05-01 10:00:00,48.86,2.35\n",
    "check-ins.csv": "user,lat,lon\nann,48.85,2.35\nbob,48.86,2.36\n",
    "a.gpx": '<gpx><trkpt lat="48.85" lon="2.35"><time>2024-05-01T10:00:00Z</time></trkpt></gpx>',
    "Records.json": '{"locations": [{"latitudeE7": 488500000, "longitudeE7": 23500000, '
    '"timestamp": "2024-05-01T10:00:00Z"}]}',
    "a.geojson": '{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": '
    '{"time": "2024-05-01T10:00:00Z"}, "geometry": {"type": "Point", "coordinates": [2, 48]}}]}',
    "a.rec": '2024-05-01T10:00:00Z\t*\t{"_type": "location", "lat": 48.85, "lon": 2.35}\n',
    "taxi/1.txt": "1,2008-02-02 15:36:08,116.51172,39.92123\n",
    "geolife/000/Trajectory/a.plt": "Geolife trajectory\n\n\n\n\n\n39.9,116.3,0,492,39744.2,"
    "2008-10-23,05:53:05\n",
}  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("asked", ["build", "spanner", "compare", "plot", "measure"])
def test_traces_where_a_profile_is_needed(tmp_path: Path, name: str, asked: str) -> None:
    """The answer is the command that makes one, not a flag that does not help."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TRACES[name])
    source = tmp_path / name.partition("/")[0]
    flags: dict[str, list[Any]] = {
        "build": [source, "--epsilon", 1, "-o", tmp_path / "k.whereish"],
        "spanner": [source, "--dilation", 1.1],
        "compare": [source, "--epsilon", 1],
        "plot": [source, "-o", tmp_path / "a.png"],
    }
    if asked == "measure":
        mechanism = wh.exponential(wh.Places.from_xy([[0, 0], [1, 0]]), 1.0)
        wh.save_mechanism(tmp_path / "k.whereish", mechanism)
        flags["measure"] = [tmp_path / "k.whereish", "--prior", source]
    done = run(asked, *flags[asked])
    assert done.exit_code == 2
    assert f"whereish profile {source}" in done.stderr
    assert "holds traces" in done.stderr


def test_a_profile_with_a_mistake_is_not_taken_for_traces(tmp_path: Path) -> None:
    file = tmp_path / "me.csv"
    file.write_text("user,time,lat,lon,prior\nann,2024-05-01 10:00:00,48.85,2.35,x\n")
    done = run("build", file, "--epsilon", 1, "-o", tmp_path / "k.whereish")
    assert done.exit_code == 2
    assert "prior must be a number" in done.stderr


@pytest.mark.parametrize("form", ["geolife", "t-drive", "parquet"])
def test_a_city_does_not_replace_what_is_there(tmp_path: Path, form: str) -> None:
    small = ("--users", 1, "--days", 2, "--format", form)
    mine = tmp_path / "mine.parquet"
    mine.write_text("my own data")
    done = run("city", *small, "-o", mine)
    assert done.exit_code == 2
    assert mine.read_text() == "my own data"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("my own data")
    for flags in ([], ["--force"]):
        done = run("city", *small, *flags, "-o", tmp_path / "folder")
        assert done.exit_code == 2
        assert (tmp_path / "folder" / "a").read_text() == "my own data"
    if form == "parquet":
        assert run("city", *small, "--force", "-o", mine).exit_code == 0
        assert mine.read_bytes()[:4] == b"PAR1"


def test_a_table_without_names_is_not_read_out(tmp_path: Path) -> None:
    """A heading that is missing is a point: no message repeats it."""
    file = tmp_path / "me.csv"
    for text in ("48.8512345,2.3512345,0.5\n48.9512345,2.35,0.5\n",
                 "48.8512345,48.8512345,0.5\n48.9512345,2.35,0.5\n"):  # fmt: skip
        file.write_text(text)
        for words in (
            ("build", file, "--epsilon", 1, "-o", tmp_path / "k.whereish"),
            ("profile", file, "-o", tmp_path / "x.csv"),
            ("spanner", file, "--dilation", 2),
        ):
            done = run(*words)
            assert done.exit_code == 2
            assert "8512345" not in done.output
            assert "3512345" not in done.output


def test_a_profile_is_not_taken_for_points(tmp_path: Path) -> None:
    file = tmp_path / "me.csv"
    file.write_text("lat,lon,prior\n48.85,2.35,0.5\n48.86,2.36,0.5\n")
    done = run("profile", file, "-o", tmp_path / "x.csv")
    assert done.exit_code == 2
    assert "whereish build" in done.stderr
