"""Jobs of the service on a Ray cluster of two nodes on this machine: equal, and as durable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import whereish as wh
from clusters import Nodes
from serving import Served, recipe, serving, wait_for, wait_until
from test_secrecy import SHARE, contents, found_in
from whereish.distributed.ray_actor import PART
from whereish.distributed.ray_pool import NO_CLUSTER, NO_CORE
from whereish.service.workers.worker import LocalWorker

pytest.importorskip("ray", reason="Ray is not installed: pip install 'whereish[cluster]'")

pytestmark = pytest.mark.heavy
ACTOR, WORKER, GATEWAY = (
    "ray::RayActor",
    "whereish.service.workers.process",
    "whereish.distributed.ray_gateway",
)


def secret(n: int) -> dict[str, Any]:
    """Return a recipe with a number in its prior that nothing else would ever print."""
    document = recipe(n)
    rest = np.array(document["prior"][1:])
    rest *= (1 - float(SHARE)) / rest.sum()
    return document | {"prior": [float(SHARE), *rest.tolist()]}


def large(n: int) -> dict[str, Any]:
    """Return a recipe that crosses in several parts, as its file does."""
    document = recipe(n)
    points = np.array(document["places"]["xy_km"])
    far = np.linalg.norm(points[:, None] - points[None], axis=2)
    document["quality_metric"] = {"matrix": far.tolist()}
    assert len(json.dumps(document)) > 2 * PART
    return document


def post(client: httpx.Client, document: dict[str, Any]) -> str:
    told = client.post("/v1/mechanisms", json=document)
    assert told.status_code == 202, told.text
    return str(told.json()["id"])


def state(client: httpx.Client, job: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/mechanisms/{job}").json()
    return found


def ended(client: httpx.Client, job: str) -> bool:
    return state(client, job)["state"] not in ("queued", "running")


def _either(one: Callable[[], bool], other: Callable[[], bool]) -> bool:
    return one() or other()


def solves(client: httpx.Client) -> str:
    (line,) = [x for x in client.get("/metrics").text.splitlines() if x.startswith("whereish_solv")]
    return line.split()[1]


def deaths(service: Served) -> int:
    """Return how often a worker was seen to die over a job."""
    return sum("trying again" in line for line in list(service.log))


def kill_each(service: Served, client: httpx.Client, nodes: Nodes, job: str) -> bool:
    """Kill the processes of a solve one after the other; return False if it ended before."""
    before = deaths(service)
    for times, killed in enumerate((ACTOR, WORKER, GATEWAY)):
        seen = partial(_has_died, service, before + times)
        wait_until(partial(_either, seen, partial(ended, client, job)))
        running = partial(_either, partial(progressing, client, job), partial(ended, client, job))
        wait_until(running)
        if ended(client, job):
            return False
        # The gateway is the only process that the server has started.
        found = service.workers() if killed == GATEWAY else nodes.processes(killed)
        assert found
        for pid in found:
            os.kill(pid, signal.SIGKILL)
    return True


def progressing(client: httpx.Client, job: str) -> bool:
    return state(client, job)["progress"] is not None


def _has_died(service: Served, times: int) -> bool:
    return deaths(service) == times


def commands(service: Served) -> list[str]:
    """Return what the server itself has started."""
    return [Path(f"/proc/{pid}/cmdline").read_text() for pid in service.workers()]


@pytest.mark.thorough
def test_a_solve_on_the_cluster_equals_a_local_one(nodes: Nodes, tmp_path: Path) -> None:
    with serving(tmp_path / "s", "--cluster", nodes.address) as service, service.client() as client:
        documents = [recipe(20, seed=1, keep_prior=True), large(110)]
        jobs = [post(client, document) for document in documents]
        for job, document in zip(jobs, documents, strict=True):
            told = wait_for(client, job)
            assert told["state"] == "done", told
            file = tmp_path / "k.whereish"
            file.write_bytes(client.get(f"/v1/mechanisms/{job}/file").content)
            assert wh.audit_file(file)["certified"]
            body = json.dumps(document).encode()
            here = LocalWorker().solve(body, 8.0, 120.0, lambda far: None, lambda: True)
            assert here.file is not None
            assert here.result is not None
            there = wh.load_mechanism(file)[0].counts
            file.write_bytes(here.file)
            np.testing.assert_array_equal(there, wh.load_mechanism(file)[0].counts)
            assert told["progress"]["loss_km"] == here.result["loss_km"]
        cannot = recipe(4, privacy_metric={"edges": [[0, 1, 1.5], [2, 3, 1.5]]})
        told = wait_for(client, post(client, cannot))
        assert (told["state"], told["error"]["field"]) == ("failed", "privacy_metric.edges")
        started = commands(service)
        assert service.stop() == 0
    assert [GATEWAY in command for command in started] == [True], started
    assert not [line for line in service.log if "Traceback" in line]
    wait_until(lambda: not nodes.processes(WORKER))


@pytest.mark.thorough
def test_a_worker_that_dies_there_changes_nothing_and_no_prior_is_logged(
    nodes: Nodes, tmp_path: Path
) -> None:
    with serving(tmp_path, "--cluster", nodes.address, "--log-level", "debug") as service:
        with service.client() as client:
            # A solve that ends before its processes are killed shows nothing: then another one.
            for _ in range(6):
                before, job = deaths(service), post(client, secret(260))
                if kill_each(service, client, nodes, job):
                    break
            else:
                pytest.fail("no solve was under way when its processes were killed")
            told = wait_for(client, job)
            # The same recipe, refused by the process that solves.
            edges = [[i, i + 1, float(SHARE)] for i in range(148)]
            wait_for(client, post(client, secret(150) | {"privacy_metric": {"edges": edges}}))
        service.stop()
    assert told["state"] == "done", told
    assert deaths(service) == before + 2, "the end of a gateway must not count as a death"
    said = contents(nodes.folder)
    assert ACTOR.removeprefix("ray::").encode() in said, "these are not Ray's logs"
    assert not found_in(said)
    assert not found_in("".join(service.log).encode())


@pytest.mark.thorough
def test_a_job_that_waits_for_a_core_can_be_deleted(nodes: Nodes, tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--cluster", nodes.address, "--workers", "3") as service,
        service.client() as client,
    ):
        jobs = [post(client, recipe(400, seed=i)) for i in range(3)]

        def found() -> tuple[list[str], list[str]]:
            told = [state(client, job) for job in jobs]
            run = [job["id"] for job in told if job["progress"] is not None]
            return run, [job["id"] for job in told if job["note"] == NO_CORE]

        wait_until(lambda: [len(some) for some in found()] == [2, 1])
        run, waits = found()
        assert len(nodes.processes(WORKER)) == 2
        assert client.delete(f"/v1/mechanisms/{waits[0]}").status_code == 204
        wait_until(lambda: solves(client) == "2.0")
        # A core that a cancelled job had is there for the next one.
        small = post(client, recipe(30))
        held = set(nodes.processes(WORKER))
        assert client.delete(f"/v1/mechanisms/{run[0]}").status_code == 204
        wait_until(lambda: not held <= set(nodes.processes(WORKER)))
        assert wait_for(client, small)["state"] == "done"
        assert state(client, run[1])["progress"] is not None
        service.kill()
    wait_until(lambda: not nodes.processes(ACTOR) and not nodes.processes(WORKER))


@pytest.mark.thorough
def test_a_cluster_that_goes_away_and_comes_back(nodes: Nodes, tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--cluster", nodes.address) as service,
        service.client() as client,
    ):
        job = post(client, recipe(100))
        nodes.kill()
        wait_until(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/healthz").status_code == 200
        assert state(client, job)["state"] in ("queued", "running")
        wait_until(lambda: state(client, job)["note"] == NO_CLUSTER)
        nodes.start_again()
        assert wait_for(client, job)["state"] == "done"
        assert client.get("/readyz").status_code == 200
        assert service.stop() == 0
    assert not [line for line in service.log if "Traceback" in line]


def test_an_address_that_nobody_answers_is_refused_at_the_start(tmp_path: Path) -> None:
    address = "127.0.0.1:1"
    command = [sys.executable, "-m", "whereish", "serve", "--port", "0", "--folder", str(tmp_path),
               "--cluster", address]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "cluster must be" in done.stderr
    assert address in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_ray_is_not_loaded_unless_it_is_asked_for() -> None:
    code = "import sys, whereish.service.http.server, whereish.cli; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
