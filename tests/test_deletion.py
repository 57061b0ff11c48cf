"""Deletion is complete: after a kill at any moment, and on a full disk."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Served, recipe, serving, wait_for, wait_until
from whereish.service.auth.keys import ANYONE
from whereish.service.jobs.database import Database, DiskFullError
from whereish.service.jobs.reserve import Reserve
from whereish.service.jobs.sealing import seal_of
from whereish.service.jobs.store import Jobs
from whereish.service.limits import Limits

pytestmark = pytest.mark.heavy


def left(folder: Path, job: str) -> list[str]:
    """Return the files in which an id can be read."""
    return [
        file.name for file in folder.iterdir() if file.is_file() and job.encode() in _read(file)
    ]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def jobs_of(folder: Path) -> tuple[Database, Jobs]:
    database = Database(folder)
    return database, Jobs(database, seal_of(folder), Limits())


def made(service: Served, places: int = 4) -> str:
    with service.client() as client:
        told = client.post("/v1/mechanisms", json=recipe(places))
        assert told.status_code == 202, told.text
        job: str = told.json()["id"]
        if places < 100:
            wait_for(client, job)
        else:
            wait_until(lambda: client.get(f"/v1/mechanisms/{job}").json()["state"] == "running")
    return job


@pytest.mark.thorough
@pytest.mark.parametrize("places", [4, 700], ids=["done", "running"])
def test_no_id_is_left_if_a_job_is_deleted_while_no_server_runs(
    tmp_path: Path, places: int
) -> None:
    folder = tmp_path / "service"
    with serving(folder) as service:
        job = made(service, places)
        service.kill()
        database, jobs = jobs_of(folder)
        assert left(folder, job), "it is there to be found"
        assert jobs.delete(ANYONE, job)
        database.wipe()
        service.start()
        wait_until(lambda: not left(folder, job))


def test_no_id_is_left_after_a_kill_just_after_deleting(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    with serving(folder, "--workers", "2") as service:
        ids = [made(service), made(service, 700), made(service, 701)]
        with service.client() as client:
            for job in ids:
                assert client.delete(f"/v1/mechanisms/{job}").status_code == 204
        service.kill()
        service.start()
        wait_until(lambda: not any(left(folder, job) for job in ids))


@pytest.mark.thorough
def test_no_id_is_left_after_a_stop_just_after_deleting(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    with serving(folder) as service:
        job = made(service, 700)
        with service.client() as client:
            assert client.delete(f"/v1/mechanisms/{job}").status_code == 204
        service.stop()
        assert not left(folder, job)


def test_an_expired_job_leaves_no_id(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    with serving(folder, "--retention", "5s", waits={"housekeeping_s": 0.5}) as service:
        job = made(service)
        wait_until(lambda: not left(folder, job))


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB that can be filled."""
    where = tmp_path / "disk"
    where.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(where)]
    if os.geteuid() or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here: that takes root")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "rubbish").open("ab", buffering=0) as rubbish, contextlib.suppress(OSError):
        while True:
            rubbish.write(b"x" * 4096)


@pytest.mark.thorough
def test_a_full_disk_keeps_nothing_that_is_deleted(small_disk: Path) -> None:
    folder = small_disk / "service"
    with serving(folder) as service, service.client() as client:
        jobs = [made(service, 40) for _ in range(3)]
        fill(small_disk)
        for job in jobs:
            fill(small_disk)  # what was freed is taken by somebody else at once
            told = client.delete(f"/v1/mechanisms/{job}")
            assert told.status_code == 204, told.text
            assert client.get(f"/v1/mechanisms/{job}").status_code == 404
        (small_disk / "rubbish").unlink()
        wait_until(lambda: not any(left(folder, job) for job in jobs))
        assert made(service)


@pytest.mark.parametrize("ended", ["killed", "stopped"])
@pytest.mark.thorough
def test_a_server_starts_on_a_full_disk_and_deletes(small_disk: Path, ended: str) -> None:
    """With the reserve that the server before it kept."""
    folder = small_disk / "service"
    with serving(folder) as service:
        job = made(service, 40)
        fill(small_disk)
        assert (folder / "reserve").stat().st_size >= 4 * 2**20
        if ended == "killed":
            service.kill()
        else:
            service.stop()
        fill(small_disk)
        service.start()
        assert any("the disk is full" in line for line in service.log)
        with service.client() as client:
            assert client.delete(f"/v1/mechanisms/{job}").status_code == 204
        (small_disk / "rubbish").unlink()
        wait_until(lambda: not left(folder, job))
        assert made(service)


def test_a_server_that_cannot_start_names_the_full_disk(small_disk: Path) -> None:
    folder = small_disk / "service"
    folder.mkdir(mode=0o700)
    fill(small_disk)
    with pytest.raises(RuntimeError, match="it is full"):
        Served(folder)


def test_a_full_disk_is_named_when_nothing_helps(small_disk: Path) -> None:
    folder = small_disk / "service"
    with serving(folder) as service, service.client() as client:
        job = made(service, 40)
        (folder / "reserve").unlink()
        (folder / "reserve").mkdir()  # it cannot be kept again, either
        fill(small_disk)
        for told in (
            client.delete(f"/v1/mechanisms/{job}"),
            client.post("/v1/mechanisms", json=recipe(40)),
        ):
            assert told.status_code == 503
            assert told.json()["error"]["code"] == "disk_full"
        assert client.get(f"/v1/mechanisms/{job}").json()["state"] == "done"
        (small_disk / "rubbish").unlink()
        assert client.delete(f"/v1/mechanisms/{job}").status_code == 204


def test_a_full_disk_can_be_read_after_a_write_that_failed(small_disk: Path) -> None:
    """Also if no other connection is open."""
    folder = small_disk / "service"
    folder.mkdir(mode=0o700)
    database, _ = jobs_of(folder)
    fill(small_disk)
    for _ in range(3):
        with pytest.raises(DiskFullError), database.transaction() as run:
            run("CREATE TABLE more AS SELECT zeroblob(1048576) AS bytes")
        assert database.read("SELECT COUNT(*) FROM jobs") == [(0,)]


def test_the_reserve_is_given_up_for_deleting_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no disk can be mounted: one that is full until the reserve is given up."""
    database, _ = jobs_of(tmp_path)
    full = [True]
    released = []
    plain = Reserve.release

    def release(reserve: Reserve) -> None:
        released.append(reserve)
        full[0] = False
        plain(reserve)

    monkeypatch.setattr(Reserve, "release", release)

    def work(run: object) -> int:
        if full[0]:
            raise DiskFullError("full")
        return 7

    assert (tmp_path / "reserve").stat().st_size > 0
    with pytest.raises(DiskFullError), database.transaction() as run:
        work(run)
    assert not released
    assert database.erase(work) == 7
    assert len(released) == 1
    assert (tmp_path / "reserve").stat().st_size == 0
    database.keep_reserve()
    assert (tmp_path / "reserve").stat().st_size > 0
