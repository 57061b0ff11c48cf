"""Personal data is only where it is needed, and removed when it is not."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving import Served, serving, wait_for, wait_until
from test_service import keys

pytestmark = pytest.mark.heavy

# Numbers that nothing else would ever print.
LATITUDE, LONGITUDE, SHARE = "48.8471829", "2.3918273", "0.3141592"


def canary(**more: Any) -> dict[str, Any]:
    points = [[float(LATITUDE), float(LONGITUDE)], [48.86, 2.34], [48.87, 2.36], [48.85, 2.33]]
    prior = [float(SHARE), 0.3, 0.2, 1 - float(SHARE) - 0.5]
    return {"places": {"latlon": points}, "prior": prior, "epsilon_per_km": 1.0, **more}


def traces() -> list[bytes]:
    """Return how a canary could be written: as text, and as a double."""
    numbers = (LATITUDE, LONGITUDE, SHARE)
    return [n.encode() for n in numbers] + [np.float64(n).tobytes() for n in numbers]


def found_in(content: bytes) -> list[bytes]:
    return [trace for trace in traces() if trace in content]


def contents(folder: Path) -> bytes:
    whole = b""
    for file in folder.rglob("*"):
        try:
            if file.is_file():
                whole += file.read_bytes()
        except OSError:
            continue
    return whole


def test_a_canary_is_found_where_it_is() -> None:
    """The search itself can find: in a recipe, and in a file that keeps the prior."""
    assert len(found_in(json.dumps(canary()).encode())) == 3
    assert found_in(np.array([float(SHARE)]).tobytes())


def test_a_canary_leaves_no_trace(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    folder = tmp_path / "service"
    environment = {"TMPDIR": str(temporary), "PYTHONFAULTHANDLER": "1"}
    with serving(folder, "--log-level", "debug", environment=environment) as service:
        answers: list[bytes] = []
        with service.client() as client:

            def send(document: Any, status: int) -> dict[str, Any]:
                told = client.post(
                    "/v1/mechanisms", json=document, headers={"idempotency-key": "k"}
                )
                assert told.status_code == status, told.text
                answers.append(told.content)
                found: dict[str, Any] = told.json()
                return found

            job = send(canary(keep_prior=True), 202)["id"]
            # The same key for another recipe, and recipes that are wrong in every way.
            send(canary(), 422)
            wrong: list[dict[str, Any]] = [
                {"prior": [float(SHARE)] * 4}, {"prior": [-float(SHARE), 0.5, 0.5, 0.3]},
                {"prior": [SHARE] * 4}, {"places": {"latlon": [[float(LATITUDE)] * 2] * 4}},
                {"places": {"latlon": [[float(LONGITUDE), 1000 * float(LATITUDE)]] * 4}},
                {"places": {"xy_km": [[LATITUDE, LONGITUDE]] * 4}}, {LATITUDE: SHARE},
                {"places": {LATITUDE: SHARE}}, {"method": SHARE}, {"solver": LATITUDE},
                {"outputs": [float(LATITUDE)]}, {"privacy_metric": LATITUDE},
                {"keep_prior": float(SHARE)},
                {"privacy_metric": {"matrix": [[float(SHARE)] * 4] * 4}},
            ]  # fmt: skip
            for change in wrong:
                told = client.post("/v1/mechanisms", json=canary() | change)
                if told.status_code == 202:
                    answers.append(json.dumps(wait_for(client, told.json()["id"])).encode())
                    client.delete(f"/v1/mechanisms/{told.json()['id']}")
                else:
                    assert told.status_code == 422
                answers.append(told.content)
            cut = json.dumps(canary())[:-3].encode()
            answers.append(
                client.post(
                    "/v1/mechanisms", content=cut, headers={"content-type": "application/json"}
                ).content
            )
            client.get(f"/v1/mechanisms/{LATITUDE}")
            client.get(f"/{LONGITUDE}", params={"at": LATITUDE}, headers={"x-request-id": "x"})
            wait_for(client, job)
            # A worker that is killed in the middle of things leaves nothing, either.
            long = client.post("/v1/mechanisms", json=_long()).json()["id"]
            cut_off = f"/v1/mechanisms/{long}"
            wait_until(lambda: client.get(cut_off).json()["progress"] is not None)
            client.delete(cut_off)
            answers += [client.get(f"/v1/mechanisms/{job}").content, client.get("/metrics").content]
            file = client.get(f"/v1/mechanisms/{job}/file").content
            assert found_in(file), "the file is the one place that has it"
            # Sealed: not even now is it in the database.
            assert found_in(contents(folder)) == []
            client.delete(f"/v1/mechanisms/{job}")
            log = "".join(service.log).encode()
            assert len(log) > 1000
            for where in (log, *answers, contents(folder), contents(temporary)):
                assert found_in(where) == []
            assert job.encode() not in contents(folder), "not even its id is left"
            _nothing_in_processes(service)
    assert found_in(contents(folder)) == []


def _long() -> dict[str, Any]:
    from serving import recipe

    document = recipe(300)
    document["places"]["xy_km"][0] = [float(LATITUDE), float(LONGITUDE)]
    return document


def _nothing_in_processes(service: Served) -> None:
    """No argument and no environment of a process tells anything."""
    for pid in (service.pid, *service.workers()):
        for name in ("cmdline", "environ"):
            try:
                told = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            assert found_in(told) == []
            assert b"WHEREISH_SECRET" not in told or pid == service.pid


def test_others_cannot_tell_whether_a_job_is_there(tmp_path: Path) -> None:
    """Ten thousand attempts at another key's job: refused alike, in words and in time."""
    attempts = int(os.environ.get("WHEREISH_ATTEMPTS", "2000")) // 2
    ann, bob = keys(tmp_path, "add", "ann"), keys(tmp_path, "add", "bob")
    with serving(tmp_path) as service, service.client(ann) as hers, service.client(bob) as his:
        job = hers.post("/v1/mechanisms", json=canary()).json()["id"]
        wait_for(hers, job)
        hers.get(f"/v1/mechanisms/{job}")  # and it is in memory now, if it ever is
        never = job[::-1]
        seconds: dict[str, list[float]] = {job: [], never: []}
        words = set()
        for _ in range(attempts):
            for name in (job, never):
                begun = time.perf_counter()
                told = his.get(f"/v1/mechanisms/{name}")
                seconds[name].append(time.perf_counter() - begun)
                assert told.status_code == 404
                error = told.json()["error"]
                words.add((error["code"], error["message"], error["field"], len(told.content)))
        assert len(words) == 1
    medians = [statistics.median(seconds[name]) for name in (job, never)]
    spread = statistics.median(abs(s - medians[1]) for s in seconds[never])
    sys.stderr.write(f"{2 * attempts} attempts, medians {medians}, spread {spread}\n")
    # The two differ by less than one attempt from the next.
    assert abs(medians[0] - medians[1]) < max(spread, 0.1 * medians[1])


def test_the_folder_is_its_owners(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    with serving(folder):
        for file in (folder, *folder.iterdir()):
            assert file.stat().st_mode & 0o077 == 0, file
    assert not list(Path(tempfile.gettempdir()).glob("whereish*.sqlite"))
