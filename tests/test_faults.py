"""Servers and workers are killed at random moments: no job is lost, none is built twice or badly.

``WHEREISH_KILLS=100`` kills a hundred times instead of a few; docs/deploy.md has what came of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import whereish as wh
from serving import Served, recipe, serving

KILLS = int(os.environ.get("WHEREISH_KILLS", "5"))
PATIENCE_S = 120.0 + 15.0 * KILLS
REPORT = sys.stderr


def ask(service: Served, method: str, path: str, **more: object) -> httpx.Response | None:
    """Ask, and take a server that is being killed for what it is."""
    try:
        return httpx.request(method, service.url + path, timeout=30, **more)  # type: ignore[arg-type]
    except httpx.HTTPError:
        return None


class Killer(threading.Thread):
    """Kills servers and workers at random moments, whatever is being asked or solved."""

    def __init__(self, service: Served, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._service, self._kills, self._chance = service, kills, random.Random(seed)
        self.killed = {"server": 0, "worker": 0}
        self.slowest_start_s = 0.0

    def run(self) -> None:
        for _ in range(self._kills):
            time.sleep(self._chance.uniform(0, 1.2))
            workers = self._service.workers()
            if workers and self._chance.random() < 0.5:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._chance.choice(workers), signal.SIGKILL)
                self.killed["worker"] += 1
            else:
                self._service.kill()
                self.killed["server"] += 1
                self._service.start()
                started = self._service.seconds_to_ready
                self.slowest_start_s = max(self.slowest_start_s, started)


def torment(service: Served, kills: int, folder: Path, seed: int) -> dict[str, float]:
    """Post jobs while servers and workers are killed, and look at every file at the end."""
    chance = random.Random(seed)
    documents = [recipe(chance.choice((8, 40, 90)), seed=i) for i in range(8 + kills // 2)]
    killer = Killer(service, kills, seed)
    killer.start()
    ids: dict[int, str] = {}
    ended: dict[str, str] = {}
    end = time.monotonic() + PATIENCE_S
    while killer.is_alive() or len(ended) < len(documents):
        assert time.monotonic() < end, (killer.killed, len(ids), len(ended))
        for i in [i for i in range(len(documents)) if i not in ids][: chance.randint(1, 4)]:
            # Who gets no answer asks again, with the same key: that is what it is for.
            job = post(service, i, documents[i])
            if job is not None:
                ids[i] = job
        for job in ids.values():
            told = ask(service, "GET", f"/v1/mechanisms/{job}")
            if told is None:
                continue
            assert told.status_code == 200, "a job that was accepted is lost"
            state = told.json()["state"]
            assert state == ended.get(job, state), "an ended job has changed"
            assert state != "failed", told.json()
            if state in ("done", "parked"):
                ended[job] = state
        time.sleep(0.05)
    assert len(set(ids.values())) == len(documents), "two jobs of one, or one of two"
    for i, document in enumerate(documents):
        assert post(service, i, document) == ids[i], "one job became two"
        if ended[ids[i]] == "done":
            check_file(service, ids[i], document["epsilon_per_km"], folder / "k.whereish")
    assert killer.slowest_start_s < 10
    states = {state: list(ended.values()).count(state) for state in ("done", "parked")}
    assert 3 * states["parked"] <= killer.killed["worker"]
    return {**states, **killer.killed, "slowest_start_s": round(killer.slowest_start_s, 1)}


def post(service: Served, number: int, document: dict[str, Any]) -> str | None:
    headers = {"idempotency-key": f"job {number}"}
    told = ask(service, "POST", "/v1/mechanisms", json=document, headers=headers)
    if told is None:
        return None
    assert told.status_code == 202, told.text
    return str(told.json()["id"])


def check_file(service: Served, job: str, epsilon: float, file: Path) -> None:
    told = ask(service, "GET", f"/v1/mechanisms/{job}/file")
    assert told is not None
    assert told.headers["etag"] == f'"{hashlib.sha256(told.content).hexdigest()}"'
    file.write_bytes(told.content)
    certificate = wh.audit_file(file)
    assert certificate["certified"]
    assert certificate["epsilon"] == epsilon


def test_nothing_is_lost_on_sqlite(tmp_path: Path) -> None:
    with serving(tmp_path / "service") as service:
        found = torment(service, KILLS, tmp_path, seed=1)
    assert found["server"] > 0, found
    assert found["done"] > found["parked"], found
    REPORT.write(f"SQLite: {found}\n")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a PostgreSQL of Debian's packages, with a database of its own, on loopback."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not programs:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql, or run make as root")
    folder = tmp_path_factory.mktemp("postgres")
    root = os.geteuid() == 0
    become = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    prefix = become if root else []
    if root:
        for made in (folder, *list(folder.parents)[:2]):
            os.chmod(made, 0o755)
        shutil.chown(folder, "postgres", "postgres")
    data, bin_ = folder / "data", programs[0]
    run = {"check": True, "capture_output": True, "cwd": "/"}
    subprocess.run(
        [*prefix, str(bin_ / "initdb"), "-D", str(data), "-A", "trust", "-U", "whereish"],
        **run,  # type: ignore[call-overload]
    )
    port = 20_000 + os.getpid() % 20_000
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
    command = [*prefix, str(bin_ / "pg_ctl"), "-D", str(data), "-w"]
    subprocess.run(
        [*command, "-l", str(folder / "log"), "-o", options, "start"],
        **run,  # type: ignore[call-overload]
    )
    try:
        yield f"postgresql://whereish@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*command, "-m", "immediate", "stop"], capture_output=True, cwd="/")


def test_nothing_is_lost_on_postgresql(postgres: str, tmp_path: Path) -> None:
    with serving(tmp_path / "service", "--database", postgres) as service:
        found = torment(service, max(4, KILLS // 5), tmp_path, seed=2)
    assert found["server"] > 0, found
    REPORT.write(f"PostgreSQL: {found}\n")


def test_another_server_takes_over(postgres: str, tmp_path: Path) -> None:
    """Two servers on one database: what one had begun when it died for good, the other ends."""
    secret = {"WHEREISH_SECRET": "a secret that several servers share"}
    with (
        serving(tmp_path / "a", "--database", postgres, "--workers", "1", environment=secret) as a,
        serving(tmp_path / "b", "--database", postgres, "--workers", "1", environment=secret) as b,
        a.client() as to_a,
        b.client() as to_b,
    ):
        ids = [to_a.post("/v1/mechanisms", json=recipe(200, seed=i)).json()["id"] for i in range(2)]
        # Each took one, and either tells the state of both.
        end = time.monotonic() + 30
        while {to_b.get(f"/v1/mechanisms/{job}").json()["state"] for job in ids} == {"queued"}:
            assert time.monotonic() < end
            time.sleep(0.1)
        a.kill()
        end = time.monotonic() + 120
        while any(to_b.get(f"/v1/mechanisms/{job}").json()["state"] != "done" for job in ids):
            assert time.monotonic() < end
            time.sleep(0.2)
        # Deleting at one server stops the solve at another, and the key is the same everywhere.
        assert all(to_b.get(f"/v1/mechanisms/{job}/file").status_code == 200 for job in ids)
