"""A mechanism for everybody: equal whoever builds it, resumed by content, nothing half done."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import whereish as wh
from serving import wait_until
from stepping import halting
from whereish.batch import LocalEngine, open_output, run_batch
from whereish.batch.journal import Shared
from whereish.batch.output import Folder
from whereish.batch.run import digest_of, file_name
from whereish.cli import app
from whereish.parallel import Lost
from whereish.profiles import People, VisitedPoints, write_profiles
from whereish.spec import BuildOptions

pytestmark = pytest.mark.heavy

OPTIONS = BuildOptions(epsilon_per_km=1.07)


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
            People(source), more.pop("options", OPTIONS), open_output(str(output)), engine, **more
        )
    finally:
        engine.close()


def command(source: Path, output: Path, *options: str) -> list[str]:
    return ["batch", str(source), "-o", str(output), "--epsilon", "1.07", *options]


# What a run does for everybody, once their file is there.
ADD = "whereish.batch.journal:Journal.add"


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


def test_everybody_gets_a_guarantee_everywhere(tmp_path: Path) -> None:
    """From the visited points of their profile; who has none is told what to do."""
    who = people(3)
    chance = np.random.default_rng(4)
    for user in list(who)[:2]:
        shares = chance.gamma(0.4, size=9) + 1e-6
        points = wh.Places.from_xy(chance.uniform(0, 4, (9, 2)).round(3))
        visited = VisitedPoints(points, shares / shares.sum())
        who[user] = wh.Profile(who[user].places, who[user].prior, visited=visited)
    source = table(tmp_path, who)
    words = command(source, tmp_path / "out", "--everywhere", "--vertices", "64", "--workers", "1")
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 3
    assert "wherever they are" in first.stderr
    assert "must hold the visited points" in first.stderr
    rows = {row["user"]: row for row in summary(tmp_path / "out")}
    assert [row["state"] for row in rows.values()] == ["done", "done", "failed"]
    for user in list(who)[:2]:
        own = wh.read_profile(source, user=user).as_points
        made, _ = wh.load_mechanism(tmp_path / "out" / f"{user}.whereish")
        alone = wh.optimal_everywhere(
            own.places, own.prior, 1.07, vertices=64, tolerance=1e-6, normalise=True
        )
        assert type(made) is type(alone)
        assert np.array_equal(made.probabilities([1, 1]), alone.probabilities([1, 1]))
        assert wh.audit_file(tmp_path / "out" / f"{user}.whereish")["certified"]
        loss = wh.expected_loss(alone, own.places, own.prior, normalise=True)
        assert float(rows[user]["loss_km"]) == pytest.approx(loss, abs=1e-6)
    again = CliRunner().invoke(app, words)
    assert "0 built, 2 were up to date, 1 failed" in again.stderr
    other = CliRunner().invoke(app, command(source, tmp_path / "out", "--everywhere"))
    assert other.exit_code == 2
    assert "vertices" in other.stderr


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
        assert prior is None
        assert wh.audit_file(file)["certified"]
        assert float(rows[user]["loss_km"]) == pytest.approx(
            wh.quality_loss(alone, profile.prior), abs=1e-9
        )
        assert 0 < float(rows[user]["bound_km"]) <= float(rows[user]["loss_km"]) * (1 + 1e-12)
        assert float(rows[user]["gap"]) < 1e-6


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_profile_with_other_places_gets_its_own_and_is_told(tmp_path: Path) -> None:
    who = people(9)
    moved = people(1, seed=5)["user-0000"]
    source = table(tmp_path, {**who, "user-0003": moved})
    done = CliRunner().invoke(
        app, ["batch", str(source), "-o", str(tmp_path / "out"), "--epsilon", "1.07"]
    )
    assert done.exit_code == 0
    assert "Profiles with other places than the rest: 1." in done.stderr
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
        (["--epsilon", "1", "-o", "memory://run"], "something that stays"),
        (["--epsilon", "1", "-o", "file:/run"], "an address like"),
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
        run(source, tmp_path / "out", options=BuildOptions(epsilon_per_km=2.0))
    assert digests(tmp_path / "out") == before


def test_two_runs_do_not_share_an_output(tmp_path: Path) -> None:
    from whereish.batch.output import alone

    source = table(tmp_path, people(3))
    held = open_output(str(tmp_path / "out"))
    with alone(held), pytest.raises(wh.InputError, match="one run at a time"):
        run(source, tmp_path / "out")


@pytest.mark.thorough
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
    users = ["a b", "a_b", "a/b", "a:b", "a..b", "A_b", "ann", "ANN", "../x", "x-d6b96a97"]
    users += [file_name("../x").removesuffix(".whereish")]
    assert len({file_name(user).lower() for user in users}) == len(users)


def _die(number: int) -> int:
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.thorough
def test_a_piece_that_kills_its_worker_is_lost_alone() -> None:
    engine = LocalEngine(2)
    try:
        found = dict(engine.run(_die, range(9, 19)))
    finally:
        engine.close()
    assert isinstance(found.pop(13), Lost)
    assert found == {n: n for n in range(9, 19) if n != 13}


@dataclass(frozen=True)
class Deadly(Folder):
    """Where whoever writes somebody's file dies."""

    def write(self, name: str, content: bytes) -> None:
        if name == "user-0003.whereish":
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, content)


@pytest.mark.thorough
def test_who_kills_their_worker_fails_alone(tmp_path: Path) -> None:
    engine = LocalEngine(2)
    try:
        source = People(table(tmp_path, people(9)))
        done = run_batch(source, OPTIONS, Deadly(tmp_path / "out"), engine)
    finally:
        engine.close()
    assert (done.built, done.failed) == (8, 1)
    failed = [row for row in summary(tmp_path / "out") if row["state"] == "failed"]
    assert [row["user"] for row in failed] == ["user-0003"]
    assert "died three times" in failed[0]["problem"]


def _slow(piece: int) -> int:
    if piece == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.8)
    return piece


@pytest.mark.thorough
def test_no_more_is_read_than_is_worked_on() -> None:
    """However long a piece takes, and whatever dies while the caller is busy."""
    taken = 0

    def pieces() -> Iterator[int]:
        nonlocal taken
        for number in range(1, 7):
            taken = number
            yield number

    engine, found = LocalEngine(1), {}
    try:
        for done, (piece, made) in enumerate(engine.run(_slow, pieces())):
            assert taken <= done + 2
            found[piece] = made
            time.sleep(0.3)
    finally:
        engine.close()
    assert isinstance(found.pop(3), Lost)
    assert found == {piece: piece for piece in (1, 2, 4, 5, 6)}


def test_workers_end_with_who_started_them(tmp_path: Path) -> None:
    source = table(tmp_path, people(400, places=20))
    with halting(ADD, 1, *command(source, tmp_path / "out", "--workers", "2")) as running:
        running.wait()
        pid = running.process.pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [one for task in tasks for one in (task / "children").read_text().split()]
        assert len(children) >= 2
    wait_until(lambda: not any(map(_runs, children)))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.thorough
def test_a_file_of_another_profile_is_not_taken_for_done(tmp_path: Path) -> None:
    """A run on other profiles that is killed between a file and its line in the journal."""
    one, other = people(6, places=9), people(6, places=9, seed=4)
    options = BuildOptions(epsilon_per_km=1.07, keep_prior=False)
    run(table(tmp_path, one, "one.parquet"), tmp_path / "out", options=options)
    before = counts(tmp_path / "out")
    stop = StopError()

    def tell(row: Any, batch: Any) -> None:
        raise stop

    with pytest.raises(StopError):
        run(table(tmp_path, other, "other.parquet"), tmp_path / "out", options=options, tell=tell)
    assert counts(tmp_path / "out") != before
    lines = sorted((tmp_path / "out" / ".batch").glob("journal*"))[-1]
    kept = [line for line in lines.read_bytes().splitlines(True) if b'"done"' not in line]
    lines.write_bytes(b"".join(kept))
    done = run(tmp_path / "one.parquet", tmp_path / "out", options=options)
    assert done.built == 6
    assert counts(tmp_path / "out") == before


class StopError(Exception):
    """As if it were killed."""


def test_a_server_that_is_not_ray_is_told_at_once(tmp_path: Path) -> None:
    source = table(tmp_path, people(2))
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_as_the_web_does, args=(server,), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = CliRunner().invoke(
            app, ["batch", str(source), "-o", str(tmp_path / "out"), "--epsilon", "1",
                  "--cluster", address],
        )  # fmt: skip
    assert done.exit_code == 2
    assert f"none answers at {address}" in done.output
    assert not (tmp_path / "out").exists()


def _answer_as_the_web_does(server: socket.socket) -> None:
    with server.accept()[0] as stream:
        stream.recv(100)
        stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_killed_run_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed -9 in the middle, workers and all: no half file, and the rest is what is left."""
    source = table(tmp_path, people(120, places=30))
    out = tmp_path / "out"
    for _ in range(3):
        words = command(source, out, "--workers", "2")
        with halting(ADD, 25, *words, start_new_session=True) as running:
            running.wait()
            os.killpg(running.process.pid, signal.SIGKILL)
        for file in out.glob("*.whereish"):
            wh.load_mechanism(file)
    done = run(source, out, workers=2)
    assert done.built + done.kept == 120
    assert done.kept > 0
    assert len(counts(out)) == 120
    assert run(source, out).kept == 120


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, ending: int) -> None:
    source = table(tmp_path, people(90, places=20))
    with halting(ADD, 25, *command(source, tmp_path / "out")) as running:
        running.wait()
        running.process.send_signal(ending)
        running.resume()
        said = running.process.communicate()[1]
        assert running.process.returncode == 130
    assert "Traceback" not in said
    assert run(source, tmp_path / "out", workers=2).kept > 0


def test_a_run_of_an_earlier_version_goes_on() -> None:
    """Its parameters and digests are told under the names that they had."""
    assert Shared(OPTIONS).told == {
        "epsilon": 1.07, "dilation": 1.0, "method": "exact", "tolerance": 1e-6, "keep_prior": False,
    }  # fmt: skip
    blurred = OPTIONS.changed(prior_blur=0.25, blur_with=[0.5, 0.5], solver="highs-ipm")
    more = {"prior_blur": 0.25, "public": [0.5, 0.5], "public_places": "abc", "solver": "highs-ipm"}
    assert Shared(blurred, "abc").told == Shared(OPTIONS).told | more
    who = wh.Profile(wh.Places.from_xy([[0, 0], [1, 0]]), np.array([0.75, 0.25]))
    # As version 0.1 made it.
    digest = "68726029fc1e40e449942e959de5ca56e158d4348fbfcfffe07c217f8f99fbe0"
    assert digest_of(who, Shared(OPTIONS)) == digest


def test_a_person_with_one_place_does_not_end_the_run(tmp_path: Path) -> None:
    who = people(3) | {"alone": wh.Profile(wh.Places.from_xy([[0, 0]]), np.array([1.0]))}
    done = run(table(tmp_path, who), tmp_path / "out")
    assert (done.built, done.failed) == (3, 1)
    (row,) = [row for row in summary(tmp_path / "out") if row["user"] == "alone"]
    assert "one place hides nothing" in row["problem"]
