"""Servers and workers are killed at random moments: no job is lost, doubled or wrong.

``WHEREISH_KILLS=100`` kills a hundred times instead of a few; docs/deploy.md has the results.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import whereish as wh
from serving import Served, recipe, serving, wait_for, wait_until

pytestmark = pytest.mark.heavy
KILLS = int(os.environ.get("WHEREISH_KILLS", "5"))
PATIENCE_S = 120.0 + 15.0 * KILLS
REPORT = sys.stderr
SECRET = {"WHEREISH_SECRET": "a secret that several servers share"}
SHORT_WAITS = {"housekeeping_s": 1.0, "server_silent_s": 6.0}  # until another server takes over


def ask(service: Served, method: str, path: str, **more: object) -> httpx.Response | None:
    """Send a request; None if the server was killed."""
    try:
        # What httpx takes besides is of many types, and passed on as it came.
        return httpx.request(
            method, service.url + path, timeout=30, verify=False, **more  # type: ignore[arg-type]
        )  # fmt: skip
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
            # After no answer the client sends the request again with the same Idempotency-Key.
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
    assert len(set(ids.values())) == len(documents), "two jobs for one recipe, or one for two"
    for i, document in enumerate(documents):
        assert post(service, i, document) == ids[i], "one job became two"
        if ended[ids[i]] == "done":
            check_file(service, ids[i], document["epsilon_per_km"], folder / "k.whereish")
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


@pytest.mark.thorough
def test_nothing_is_lost_on_sqlite(tmp_path: Path) -> None:
    with serving(tmp_path / "service") as service:
        found = torment(service, KILLS, tmp_path, seed=1)
    assert found["server"] > 0, found
    assert found["done"] > found["parked"], found
    REPORT.write(f"SQLite: {found}\n")


class Postgres:
    """A PostgreSQL of Debian's packages, with a database of its own, on loopback."""

    def __init__(self, programs: Path, folder: Path) -> None:
        root = os.geteuid() == 0
        become = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        self._prefix = become if root else []
        if root:
            shutil.chown(folder, "postgres", "postgres")
        self._folder, self._programs = folder, programs
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
        self.url = f"postgresql://whereish@127.0.0.1:{port}/postgres"
        self._run("initdb", "-A", "trust", "-U", "whereish")

    def start(self) -> None:
        log = str(self._folder / "log")
        self._run("pg_ctl", "-w", "-l", log, "-o", self._options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "fast", "stop")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes."""
        first = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if entry.name.isdigit():
                    parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                    if first in (int(entry.name), int(parent)):
                        os.kill(int(entry.name), number)

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *words]
        subprocess.run([*self._prefix, *command], check=True, cwd="/", stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not programs:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql, or run make as root")
    # Not below pytest's own folder, which another user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="whereish-postgres-"))
    made = Postgres(programs[0], folder)
    made.start()
    yield made
    with contextlib.suppress(subprocess.CalledProcessError):
        made.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.thorough
def test_nothing_is_lost_on_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    with serving(
        tmp_path / "s", "--database", postgres.url, environment=SECRET, waits=SHORT_WAITS
    ) as service:
        found = torment(service, max(4, KILLS // 5), tmp_path, seed=2)
    assert found["server"] > 0, found
    REPORT.write(f"PostgreSQL: {found}\n")


@pytest.mark.thorough
def test_another_server_takes_over(postgres: Postgres, tmp_path: Path) -> None:
    """Two servers on one database: what one had begun when it died for good, the other ends."""
    flags = ("--database", postgres.url, "--workers", "1")
    with (
        serving(tmp_path / "a", *flags, environment=SECRET, waits=SHORT_WAITS) as a,
        serving(tmp_path / "b", *flags, environment=SECRET, waits=SHORT_WAITS) as b,
        a.client() as to_a,
        b.client() as to_b,
    ):
        ids = [to_a.post("/v1/mechanisms", json=recipe(200, seed=i)).json()["id"] for i in range(2)]

        # Each took one, and either tells the state of both.
        def states() -> set[str]:
            return {to_b.get(f"/v1/mechanisms/{job}").json()["state"] for job in ids}

        wait_until(lambda: states() != {"queued"})
        a.kill()
        wait_until(lambda: states() == {"done"})
        assert all(to_b.get(f"/v1/mechanisms/{job}/file").status_code == 200 for job in ids)


@pytest.mark.thorough
def test_a_database_that_goes_away_comes_back(postgres: Postgres, tmp_path: Path) -> None:
    """While it is gone the service says so; what was accepted is built when it is back."""
    with (
        serving(tmp_path / "c", "--database", postgres.url, environment=SECRET) as service,
        service.client() as client,
    ):
        ids = [
            client.post("/v1/mechanisms", json=recipe(90, seed=i)).json()["id"] for i in range(6)
        ]
        postgres.stop()
        try:
            for path in ("/readyz", f"/v1/mechanisms/{ids[0]}"):
                told = client.get(path)
                assert (told.status_code, told.json()["error"]["code"]) == (503, "database")
            refused = client.post("/v1/mechanisms", json=recipe(5))
            assert refused.status_code == 503
            assert client.get("/healthz").status_code == 200
        finally:
            postgres.start()
        wait_until(lambda: client.get(f"/v1/mechanisms/{ids[0]}").status_code == 200)
        assert {wait_for(client, job)["state"] for job in ids} == {"done"}


@pytest.mark.thorough
def test_a_database_that_hangs_is_not_waited_for(postgres: Postgres, tmp_path: Path) -> None:
    """Stopped, not ended: connections stay open, and nothing answers."""
    with (
        serving(
            tmp_path / "g", "--database", postgres.url, environment=SECRET,
            waits={"database_s": 2.0, "database_lock_s": 3.0},
        ) as service,
        service.client() as client,
    ):  # fmt: skip
        job = client.post("/v1/mechanisms", json=recipe(5)).json()["id"]
        postgres.signal(signal.SIGSTOP)
        try:
            assert client.get(f"/v1/mechanisms/{job}").status_code == 503
            assert client.get("/healthz").status_code == 200
            assert client.get("/assets/page.js").status_code == 200
        finally:
            postgres.signal(signal.SIGCONT)
        wait_until(lambda: client.get(f"/v1/mechanisms/{job}").status_code == 200)


@pytest.mark.thorough
def test_a_solve_outlives_an_outage_of_its_database(postgres: Postgres, tmp_path: Path) -> None:
    with (
        serving(tmp_path / "d", "--database", postgres.url, environment=SECRET) as service,
        service.client() as client,
    ):
        job = client.post("/v1/mechanisms", json=recipe(200)).json()["id"]
        wait_until(lambda: client.get(f"/v1/mechanisms/{job}").json()["progress"] is not None)
        solving = set(service.workers())
        postgres.stop()
        wait_until(lambda: client.get("/readyz").status_code == 503)
        still = solving & set(service.workers())
        postgres.start()
        assert still == solving
        wait_until(lambda: client.get(f"/v1/mechanisms/{job}").status_code == 200)
        assert wait_for(client, job)["state"] == "done"


@pytest.mark.thorough
def test_another_secret_is_refused_at_the_start(postgres: Postgres, tmp_path: Path) -> None:
    other = postgres.url.replace("/postgres", "/template1")
    with serving(tmp_path / "e", "--database", other, environment=SECRET):
        pass
    with pytest.raises(RuntimeError, match="the secret must be"):
        Served(
            tmp_path / "f",
            "--database",
            other,
            environment={"WHEREISH_SECRET": "another secret, as long as it has to be"},
        )


@pytest.mark.thorough
def test_deleting_at_one_server_stops_the_solve_at_another(
    postgres: Postgres, tmp_path: Path
) -> None:
    secret = SECRET
    with (
        serving(tmp_path / "a", "--database", postgres.url, environment=secret) as a,
        a.client() as to_a,
    ):
        job = to_a.post("/v1/mechanisms", json=recipe(400)).json()["id"]
        wait_until(lambda: to_a.get(f"/v1/mechanisms/{job}").json()["progress"] is not None)
        solving = set(a.workers())
        with (
            serving(tmp_path / "b", "--database", postgres.url, environment=secret) as b,
            b.client() as to_b,
        ):
            assert to_b.get(f"/v1/mechanisms/{job}").json()["progress"] is not None
            assert to_b.delete(f"/v1/mechanisms/{job}").status_code == 204
        wait_until(lambda: "whereish_solves 0.0" in to_a.get("/metrics").text)
        assert len(solving & set(a.workers())) < len(solving)
        assert to_a.get(f"/v1/mechanisms/{job}").status_code == 404
