"""A database of an earlier version: the service starts on it, and everything in it is there."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from pathlib import Path

import pytest

from serving import recipe, serving, wait_for
from whereish.service.auth.keys import ANYONE, Keys
from whereish.service.jobs.database import Database
from whereish.service.jobs.sealing import seal_of
from whereish.service.jobs.store import Jobs
from whereish.service.limits import Limits

# The tables as the earlier version made them.
OLD = """
CREATE TABLE jobs (
    client TEXT NOT NULL, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION NOT NULL,
    about TEXT NOT NULL, recipe BLOB, progress TEXT, error TEXT,
    deaths INTEGER NOT NULL DEFAULT 0, owner TEXT, etag TEXT, file BLOB,
    PRIMARY KEY (client, id));
CREATE INDEX jobs_by_state ON jobs (state, changed);
CREATE TABLE once (
    client TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, job TEXT NOT NULL,
    PRIMARY KEY (client, name));
CREATE INDEX once_by_job ON once (job);
CREATE TABLE keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL);
CREATE TABLE servers (name TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL);
CREATE TABLE gone (id TEXT PRIMARY KEY);
CREATE TABLE sealed_with (digest TEXT PRIMARY KEY);
CREATE TABLE closed (since DOUBLE PRECISION PRIMARY KEY);
"""
DONE, OPEN = "d" * 24, "o" * 24
FILE, BODY = b"a file", json.dumps(recipe(5)).encode()
ABOUT = {
    "places": 5, "outputs": 5, "method": "exact", "epsilon_per_km": 1.07,
    "estimate": {"seconds": 0.1, "memory_gb": 0.1},
}  # fmt: skip


def old_database(folder: Path, *, running: bool = False) -> None:
    """Make a database as the earlier version left it: a job that is done, and one that is not."""
    seal = seal_of(folder)
    now = time.time()
    with sqlite3.connect(folder / "whereish.sqlite") as database:
        database.executescript(OLD)
        job = "INSERT INTO jobs (client, id, state, created, changed, about, "
        database.execute(
            f"{job} etag, file) VALUES (?, ?, 'done', ?, ?, ?, ?, ?)",
            (ANYONE, DONE, now, now, json.dumps(ABOUT), hashlib.sha256(FILE).hexdigest(),
             seal.close(FILE, f"file {DONE}")),
        )  # fmt: skip
        database.execute(
            f"{job} recipe, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (ANYONE, OPEN, "running" if running else "queued", now, now, json.dumps(ABOUT),
             seal.close(BODY, OPEN), "embedded 0123456789abcdef" if running else None),
        )  # fmt: skip
        used = (ANYONE, seal.digest(b"name"), seal.digest(BODY), OPEN)
        database.execute("INSERT INTO once VALUES (?, ?, ?, ?)", used)
        database.execute("INSERT INTO gone VALUES (?)", ("g" * 24,))
        database.execute("INSERT INTO sealed_with VALUES (?)", (seal.digest(b"whereish"),))
    database.close()


def test_tables_are_renamed_and_keep_their_rows(tmp_path: Path) -> None:
    old_database(tmp_path)
    with sqlite3.connect(tmp_path / "whereish.sqlite") as old:
        old.execute("INSERT INTO closed VALUES (1.0)")
    old.close()
    for _ in range(2):  # the second start finds the new names
        database = Database(tmp_path)
        jobs = Jobs(database, seal_of(tmp_path), Limits())
        jobs.check_seal()
        assert database.read("SELECT id FROM deleted_jobs") == [("g" * 24,)]
        assert jobs.file(ANYONE, DONE) == FILE
        same = jobs.accepted(ANYONE, "name", BODY)
        assert same is not None
        assert same.id == OPEN
        keys = Keys(database)
        keys.refresh()
        assert keys.needed
        names = {name for (name,) in database.read("SELECT name FROM sqlite_master")}
        assert not names & {"once", "gone", "closed", "once_by_job"}


@pytest.mark.heavy
@pytest.mark.parametrize("running", [False, True])
def test_the_service_starts_on_it_and_builds_what_was_left(tmp_path: Path, running: bool) -> None:
    folder = tmp_path / "service"
    folder.mkdir(mode=0o700)
    old_database(folder, running=running)
    queue = folder / "queue.sqlite"
    queue.write_bytes(OPEN.encode())
    with serving(folder) as service, service.client() as client:
        assert client.get(f"/v1/mechanisms/{DONE}/file").content == FILE
        assert wait_for(client, OPEN)["state"] == "done"
        assert not queue.exists(), "the former queue holds ids"
