"""A mechanism for everybody: equal whoever builds it, resumed by content, nothing half done."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.batch import Level, LocalEngine, open_output, run_batch
from whereish.batch.engines import Lost
from whereish.batch.run import file_name
from whereish.cli import app
from whereish.profiles import People, write_profiles

LEVEL = Level(1.07)


def people(count: int, places: int = 12, seed: int = 0, sets: int = 1) -> dict[str, wh.Profile]:
    chance = np.random.default_rng(seed)
    grids = [wh.Places.from_xy(chance.uniform(0, 6, (places, 2)).round(3)) for _ in range(sets)]
    made = {}
    for i in range(count):
        prior = chance.gamma(0.4, size=places) + 1e-6
        made[f"user-{i:04}"] = wh.Profile(grids[i % sets], prior / prior.sum())
    return made


def table(folder: Path, who: dict[str, wh.Profile], name: str = "people.parquet") -> Path:
    write_profiles(folder / name, who)
    return folder / name


def run(source: Path, output: Path | str, **more: Any) -> Any:
    engine = LocalEngine(more.pop("workers", 1))
    try:
        return run_batch(
            People(source), more.pop("level", LEVEL), open_output(str(output)), engine, **more
        )
    finally:
        engine.close()


def counts(folder: Path) -> dict[str, bytes]:
    return {
        file.stem: wh.load_mechanism(file)[0].counts.tobytes()
        for file in sorted(folder.glob("*.whereish"))
    }


def digests(folder: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.glob("*.whereish"))
    }


def summary(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open() as stream:
        return list(csv.DictReader(stream))


def test_everybody_gets_what_they_would_get_alone(tmp_path: Path) -> None:
    who = people(20, sets=3)
    source = table(tmp_path, who)
    done = run(source, tmp_path / "out")
    assert (done.built, done.kept, done.failed, done.settings) == (20, 0, 0, 3)
    rows = {row["user"]: row for row in summary(tmp_path / "out")}
    for user, profile in who.items():
        file = tmp_path / "out" / f"{user}.whereish"
        mechanism, prior = wh.load_mechanism(file)
        alone = wh.optimal(profile.places, profile.prior, 1.07)
        assert np.array_equal(mechanism.counts, alone.counts)
        assert prior is not None
        assert wh.audit_file(file)["certified"]
        assert float(rows[user]["loss_km"]) == pytest.approx(
            wh.quality_loss(alone, profile.prior), abs=1e-9
        )
        assert 0 < float(rows[user]["bound_km"]) <= float(rows[user]["loss_km"]) * (1 + 1e-12)
        assert float(rows[user]["gap"]) < 1e-6


def test_neither_order_nor_workers_nor_form_matter(tmp_path: Path) -> None:
    who = people(40, places=20)
    first = table(tmp_path, who)
    backwards = table(tmp_path, dict(reversed(who.items())), "backwards.parquet")
    write_profiles(tmp_path / "folder", who)
    run(first, tmp_path / "a")
    run(backwards, tmp_path / "b", workers=2)
    run(tmp_path / "folder", tmp_path / "c", workers=2)
    assert counts(tmp_path / "a") == counts(tmp_path / "b") == counts(tmp_path / "c")
    same = [[(row["user"], row["loss_km"]) for row in summary(tmp_path / name)] for name in "abc"]
    assert same[0] == same[1] == same[2]


def test_a_second_run_does_what_is_missing_or_changed_only(tmp_path: Path) -> None:
    who = people(10)
    run(table(tmp_path, who), tmp_path / "out")
    before = digests(tmp_path / "out")
    again = run(tmp_path / "people.parquet", tmp_path / "out")
    assert (again.built, again.kept) == (0, 10)
    assert digests(tmp_path / "out") == before

    (tmp_path / "out" / "user-0003.whereish").unlink()
    (tmp_path / "out" / "user-0004.whereish").write_bytes(b"half")
    prior = np.roll(who["user-0005"].prior, 1)
    who["user-0005"] = wh.Profile(who["user-0005"].places, prior)
    who["user-new"] = people(1, seed=9)["user-0000"]
    (tmp_path / "people.parquet").unlink()
    done = run(table(tmp_path, who), tmp_path / "out")
    assert (done.built, done.kept) == (4, 7)
    after = digests(tmp_path / "out")
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed <= {f"user-{n}.whereish" for n in ("0003", "0004", "0005", "new")}
    assert "user-0005.whereish" in changed
    assert len(summary(tmp_path / "out")) == 11


def test_a_profile_with_other_places_gets_its_own_and_is_told(tmp_path: Path) -> None:
    who = people(9)
    moved = people(1, seed=5)["user-0000"]
    source = table(tmp_path, {**who, "user-0003": moved})
    done = CliRunner().invoke(
        app, ["batch", str(source), "-o", str(tmp_path / "out"), "--epsilon", "1.07"]
    )
    assert done.exit_code == 0
    assert "one has other places than the rest" in done.stderr
    rows = {row["user"]: row for row in summary(tmp_path / "out")}
    assert len({row["places_id"] for row in rows.values()}) == 2
    other = rows.pop("user-0003")["places_id"]
    assert {row["places_id"] for row in rows.values()}.isdisjoint({other})
    mechanism, _ = wh.load_mechanism(tmp_path / "out" / "user-0003.whereish")
    assert mechanism.inputs.same_as(moved.places)
    alone = wh.optimal(moved.places, moved.prior, 1.07)
    assert np.array_equal(mechanism.counts, alone.counts)
    # Back at home, theirs alone is built again.
    again = run(table(tmp_path, who), tmp_path / "out")
    assert (again.built, again.kept, again.elsewhere) == (1, 8, 0)


def test_a_bad_profile_does_not_stop_the_rest(tmp_path: Path) -> None:
    write_profiles(tmp_path / "folder", people(5))
    (tmp_path / "folder" / "bad.csv").write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.6\n")
    (tmp_path / "folder" / "worse.json").write_text("{")
    (tmp_path / "folder" / "alone.csv").write_text("x_km,y_km,prior\n0,0,1\n")
    command = ["batch", str(tmp_path / "folder"), "-o", str(tmp_path / "out"), "--epsilon", "1.07",
               "--workers", "1", "--json"]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 3, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["built"] == 5
    assert lines[-1]["failed"] == 3
    failed = {row["user"]: row["problem"] for row in lines[:-1] if row["state"] == "failed"}
    assert set(failed) == {"bad", "worse", "alone"}
    assert "sum to 1" in failed["bad"]
    assert len(counts(tmp_path / "out")) == 5
    assert {row["state"] for row in summary(tmp_path / "out")} == {"done", "failed"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: f / "nothing", "that exists"),
        (lambda f: _written(f / "empty.parquet", b""), "must be a Parquet or CSV table"),
        (lambda f: _written(f / "x.csv", b"x_km,y_km,prior\n0,0,1\n"), "a column user"),
        (lambda f: _twice(f), "both ann's"),
        (lambda f: _written(f / "t.csv", b"user,x_km,y_km,prior\na,0,0,1\nb,0,0,1\na,1,1,0\n"),
         "comes twice"),
        (lambda f: _written(f / "n.csv", b"user,x_km,y_km,prior\n,0,0,1\n"), "name everybody"),
        (lambda f: _folder(f / "void"), "holds none"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_all_of_it_is_said_at_once(
    tmp_path: Path, make: Any, words: str
) -> None:
    command = ["batch", str(make(tmp_path)), "-o", str(tmp_path / "out"), "--epsilon", "1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "out").exists()


def _written(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _twice(folder: Path) -> Path:
    made = _folder(folder / "twice")
    for name in ("ann.csv", "ann.tsv"):
        (made / name).write_text("x_km,y_km,prior\n")
    return made


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epsilon", "-1"], "epsilon must be positive"),
        (["--epsilon", "1", "--workers", "0"], "workers must be"),
        (["--epsilon", "1", "--dilation", "0.5"], "dilation must be"),
        (["--epsilon", "1", "--method", "magic"], "method must be"),
        (["--epsilon", "1", "-o", "nope://x/y"], "output"),
        (["--epsilon", "1", "--cluster", "127.0.0.1:1"], "cluster"),
        (["--epsilon", "1", "--cluster", "auto", "--workers", "2"], "workers must be left out"),
        ([], "privacy level"),
    ],
)
def test_wrong_flags_are_said_at_once(tmp_path: Path, flags: list[str], words: str) -> None:
    source = table(tmp_path, people(2))
    output = [] if "-o" in flags else ["-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["batch", str(source), *output, *flags])
    assert done.exit_code == 2, done.output
    assert words in done.output


def test_the_output_of_another_run_is_left_alone(tmp_path: Path) -> None:
    source = table(tmp_path, people(3))
    run(source, tmp_path / "out")
    before = digests(tmp_path / "out")
    with pytest.raises(wh.InputError, match=r"epsilon 1\.07, not 2"):
        run(source, tmp_path / "out", level=Level(2.0))
    assert digests(tmp_path / "out") == before


def test_two_runs_do_not_share_an_output(tmp_path: Path) -> None:
    from whereish.batch.output import alone

    source = table(tmp_path, people(3))
    held = open_output(str(tmp_path / "out"))
    with alone(held), pytest.raises(wh.InputError, match="one run at a time"):
        run(source, tmp_path / "out")


def test_an_object_store_will_do(tmp_path: Path) -> None:
    """A file system by its address: written through fsspec, and resumed as well."""
    source = table(tmp_path, people(70))
    done = run(source, f"local://{tmp_path}/store")
    assert done.built == 70
    run(source, tmp_path / "folder")
    assert counts(tmp_path / "store") == counts(tmp_path / "folder")
    assert run(source, f"local://{tmp_path}/store").kept == 70


@pytest.mark.parametrize("user", ["../etc", "a/b", "", ".", "-x", "Ünï", "x" * 300, "a b", "a_b"])
def test_names_are_names_of_files(user: str) -> None:
    name = file_name(user)
    assert name.endswith(".whereish")
    assert "/" not in name
    assert len(name) < 120
    assert name[0] not in ".-"


def test_names_that_look_alike_do_not_meet() -> None:
    users = ["a b", "a_b", "a/b", "a:b", "a..b"]
    assert len({file_name(user) for user in users}) == len(users)


def _die(number: int) -> int:
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_piece_that_kills_its_worker_is_lost_alone() -> None:
    engine = LocalEngine(2)
    try:
        found = dict(engine.run(_die, range(9, 19)))
    finally:
        engine.close()
    assert isinstance(found.pop(13), Lost)
    assert found == {n: n for n in range(9, 19) if n != 13}


def test_a_killed_run_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed -9 in the middle, workers and all: no half file, and the rest is what is left."""
    source = table(tmp_path, people(120, places=30))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "whereish", "batch", str(source), "-o", str(out),
               "--epsilon", "1.07", "--workers", "2"]  # fmt: skip
    for _ in range(3):
        running = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        before = len(list(out.glob("*.whereish")))
        end = time.monotonic() + 60
        while len(list(out.glob("*.whereish"))) <= before + 20 and running.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        for file in out.glob("*.whereish"):
            wh.load_mechanism(file)
    done = run(source, out, workers=2)
    assert done.built + done.kept == 120
    assert done.kept > 0
    assert len(counts(out)) == 120
    assert run(source, out).kept == 120


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    source = table(tmp_path, people(400, places=40))
    command = [sys.executable, "-m", "whereish", "batch", str(source), "-o", str(tmp_path / "out"),
               "--epsilon", "1.07"]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while len(list((tmp_path / "out").glob("*.whereish"))) < 25:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=30)[1]
    assert running.returncode == 130
    assert "Traceback" not in said
    assert run(source, tmp_path / "out", workers=2).kept > 0
