"""The service as its clients see it: a real server, over HTTP."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

import metric_checks
import whereish as wh
from serving import Served, recipe, serving, wait_for, wait_until
from whereish.cli import app
from whereish.format import audit_bytes, unpack, without_prior
from whereish.places import MapMetric
from whereish.spec import Recipe

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("service"), waits={"piece_s": 3.0}) as served:
        yield served


@pytest.fixture
def client(service: Served) -> Iterator[httpx.Client]:
    with service.client() as made:
        yield made


def post(client: httpx.Client, document: Any, **headers: str) -> dict[str, Any]:
    told = client.post("/v1/mechanisms", json=document, headers=headers)
    assert told.status_code == 202, told.text
    found: dict[str, Any] = told.json()
    return found


def keys(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["keys", *words, "--folder", str(folder)])
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()


# --- a job ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"dilation": 1.1},
        {"method": "planar-laplace"},
        {"keep_prior": True},
        {"outputs": [1, 2]},
    ],
    ids=str,
)
def test_the_file_has_the_counts_that_the_library_builds(
    client: httpx.Client, tmp_path: Path, more: dict[str, Any]
) -> None:
    document = recipe(18, seed=5, **more)
    job = post(client, document)
    assert job["state"] == "queued"
    assert job["places"] == 18
    assert job["estimate"]["seconds"] >= 0
    done = wait_for(client, job["id"])
    assert done["state"] == "done", done
    told = client.get(f"/v1/mechanisms/{job['id']}/file")
    (tmp_path / "k.whereish").write_bytes(told.content)
    mechanism, prior = wh.load_mechanism(tmp_path / "k.whereish")
    assert (prior is not None) == bool(more.get("keep_prior"))
    assert np.array_equal(mechanism.counts, Recipe.from_document(document).build().counts)
    assert wh.audit_file(tmp_path / "k.whereish")["certified"]


@pytest.mark.parametrize(
    ("kind", "unit"),
    [("roads", "per km along the roads"), ("elastic", "per unit of the elastic metric")],
)
def test_the_metric_of_a_map_is_built_and_audited(
    client: httpx.Client, tmp_path: Path, kind: str, unit: str
) -> None:
    """The file travels in base64; every ratio is compared with shortest paths by three loops."""
    document = recipe(12, seed=5)
    pairs = [(k, k + 1, 0.3 + 0.2 * (k % 4)) for k in range(11)] + [(0, 7, 0.9)]
    metric = MapMetric(
        kind, wh.Places.from_xy(document["places"]["xy_km"]),
        edges=[pair[:2] for pair in pairs], lengths=[pair[2] for pair in pairs],
        attribution="made up for a test",
    )  # fmt: skip
    job = post(client, document | {"privacy_metric": wh.metric_document(metric)})
    assert wait_for(client, job["id"])["state"] == "done"
    told = client.get(f"/v1/mechanisms/{job['id']}/file")
    (tmp_path / "k.whereish").write_bytes(told.content)
    assert wh.audit_file(tmp_path / "k.whereish")["certified"]
    mechanism, _ = wh.load_mechanism(tmp_path / "k.whereish")
    assert unit in repr(mechanism)
    away = metric_checks.floyd_warshall(12, pairs)
    rows = mechanism.counts.tolist()
    for x, y in itertools.product(range(12), repeat=2):
        most = math.exp(document["epsilon_per_km"] * away[x][y]) * (1 + 1e-12)
        assert all(a <= most * b for a, b in zip(rows[x], rows[y], strict=True))


@pytest.mark.parametrize(("vertices", "keep"), [(300, True), (300, False), (64, False)])
def test_a_guarantee_everywhere_is_built_and_certified(
    client: httpx.Client, tmp_path: Path, vertices: int, keep: bool
) -> None:
    """On a lattice; or, where that is too coarse, planar Laplace."""
    document = recipe(12, seed=5, guarantee="everywhere", vertices=vertices, keep_prior=keep)
    job = post(client, document)
    assert (job["guarantee"], job["places"]) == ("everywhere", 12)
    assert 0 < job["estimate"]["seconds"] < 60
    done = wait_for(client, job["id"])
    assert done["state"] == "done", done
    told = client.get(f"/v1/mechanisms/{job['id']}/file")
    (tmp_path / "k.whereish").write_bytes(told.content)
    mechanism, points = wh.load_mechanism(tmp_path / "k.whereish")
    assert (points is not None) == keep
    asked = Recipe.from_document(document)
    table = "counts" if vertices == 300 else "table"
    assert np.array_equal(unpack(told.content)[0][table], getattr(asked.build(), table))
    assert done["progress"]["loss_km"] == pytest.approx(asked.loss_of(mechanism))
    assert audit_bytes(told.content)["certified"]
    bare = client.get(f"/v1/mechanisms/{job['id']}/file", params={"prior": "omit"})
    assert bare.content == without_prior(told.content)


def test_a_lattice_that_is_too_large_is_refused(client: httpx.Client) -> None:
    for vertices in (10_000, 9_000):
        document = recipe(12, guarantee="everywhere", vertices=vertices)
        told = client.post("/v1/mechanisms", json=document)
        assert told.status_code == 422
        assert told.json()["error"]["field"] == "vertices"


def test_a_file_is_had_without_its_prior(client: httpx.Client) -> None:
    for keep in (True, False):
        job = post(client, recipe(18, seed=5, keep_prior=keep))
        wait_for(client, job["id"])
        address = f"/v1/mechanisms/{job['id']}/file"
        whole, bare = client.get(address), client.get(address, params={"prior": "omit"})
        assert (unpack(whole.content)[0].get("prior") is not None) == keep
        assert bare.content == without_prior(whole.content)
        assert (bare.content == whole.content) == (not keep)
        assert bare.headers["etag"] == f'"{hashlib.sha256(bare.content).hexdigest()}"'
        assert audit_bytes(bare.content)["certified"]
        known = {"If-None-Match": bare.headers["etag"]}
        again = client.get(address, params={"prior": "omit"}, headers=known)
        assert again.status_code == 304
        wrong = client.get(address, params={"prior": "keep"})
        assert wrong.status_code == 422
        assert wrong.json()["error"]["field"] == "prior"


def test_a_blur_is_built_for_and_the_loss_told_is_the_true_one(client: httpx.Client) -> None:
    document = recipe(18, seed=5, prior_blur=0.4)
    job = post(client, document)
    done = wait_for(client, job["id"])
    asked = Recipe.from_document(document)
    mechanism = asked.build()
    assert done["progress"]["loss_km"] == pytest.approx(wh.quality_loss(mechanism, asked.prior))
    assert done["progress"]["gap"] is None
    content = client.get(f"/v1/mechanisms/{job['id']}/file").content
    assert np.array_equal(unpack(content)[0]["counts"], mechanism.counts)


def test_a_file_that_is_had_is_not_sent_again(client: httpx.Client) -> None:
    job = post(client, recipe(5))
    early = client.get(f"/v1/mechanisms/{job['id']}/file")
    assert early.status_code in (200, 409)
    wait_for(client, job["id"])
    address = f"/v1/mechanisms/{job['id']}/file"
    first = client.get(address)
    again = client.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, headers={"if-none-match": '"other"'}).content == first.content
    assert client.get(address, headers={"if-none-match": '"other", *'}).status_code == 304


def test_events_tell_how_far_it_is(client: httpx.Client) -> None:
    job = post(client, recipe(120))
    seen: list[dict[str, Any]] = []
    with client.stream("GET", f"/v1/mechanisms/{job['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
    assert seen[-1]["state"] == "done"
    far = [told["progress"] for told in seen if told["state"] == "running" and told["progress"]]
    assert far, "no progress was told"
    assert all(step["iteration"] >= 0 and step["gap"] >= 0 for step in far)
    assert seen[-1]["progress"]["gap"] <= 1e-5


def test_a_recipe_that_cannot_be_built_says_why(client: httpx.Client) -> None:
    """What only the solver can find out is told by the job, without a number of the recipe's."""
    wrong = {"matrix": [[0, 1, 5.4321], [1, 0, 1], [5.4321, 1, 0]]}
    job = post(client, recipe(3, privacy_metric=wrong))
    ended = wait_for(client, job["id"])
    assert ended["state"] == "failed"
    assert ended["error"]["field"] == "privacy_metric"
    assert "triangle" in ended["error"]["message"]
    assert "5.43" not in ended["error"]["message"]
    refused = client.get(f"/v1/mechanisms/{job['id']}/file")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_file")


def test_a_time_limit_hands_over_the_best_so_far(client: httpx.Client, tmp_path: Path) -> None:
    job = post(client, recipe(250, time_limit_s=2.0))
    done = wait_for(client, job["id"])
    assert done["state"] == "done"
    assert done["progress"]["stopped"] == "time"
    (tmp_path / "k.whereish").write_bytes(client.get(f"/v1/mechanisms/{job['id']}/file").content)
    assert wh.audit_file(tmp_path / "k.whereish")["certified"]


def test_deleting_stops_the_solve_and_removes_it(service: Served, client: httpx.Client) -> None:
    job = post(client, recipe(400))
    wait_until(lambda: client.get(f"/v1/mechanisms/{job['id']}").json()["progress"] is not None)
    busiest = max(service.workers(), key=cpu_seconds)
    assert client.delete(f"/v1/mechanisms/{job['id']}").status_code == 204
    gone = client.get(f"/v1/mechanisms/{job['id']}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "no_job")
    assert client.delete(f"/v1/mechanisms/{job['id']}").status_code == 404
    wait_until(lambda: busiest not in service.workers())
    wait_until(lambda: "whereish_solves 0.0" in client.get("/metrics").text)


def cpu_seconds(pid: int) -> float:
    try:
        parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def test_a_general_solver_is_held_to_the_same_limits(client: httpx.Client) -> None:
    """HiGHS and GLPK hold the whole program: what that takes is known before it is begun."""
    large = client.post("/v1/mechanisms", json=recipe(300, solver="highs-ipm", time_limit_s=5))
    assert (large.status_code, large.json()["error"]["field"]) == (422, "solver")
    slow = client.post("/v1/mechanisms", json=recipe(150, solver="highs-dual-simplex"))
    assert slow.status_code == 422
    job = post(client, recipe(12, solver="highs-ipm"))
    assert wait_for(client, job["id"])["state"] == "done"


@pytest.mark.thorough
def test_a_client_with_fewer_open_jobs_comes_first(tmp_path: Path) -> None:
    ann, bob = keys(tmp_path, "add", "ann"), keys(tmp_path, "add", "bob")
    with serving(tmp_path, "--workers", "1") as service:
        hers, his = service.client(ann), service.client(bob)
        many = [post(hers, recipe(250, time_limit_s=3))["id"] for _ in range(6)]
        his_only = post(his, recipe(5))["id"]
        assert wait_for(his, his_only)["state"] == "done"
        states = [hers.get(f"/v1/mechanisms/{job}").json()["state"] for job in many]
        assert states.count("queued") >= 3, states
        for made in (hers, his):
            made.close()


# --- the same request twice -------------------------------------------------------------------


def test_the_same_key_and_recipe_are_one_job(client: httpx.Client) -> None:
    document = recipe(6)
    first = post(client, document, **{"idempotency-key": "one"})
    assert post(client, document, **{"idempotency-key": "one"})["id"] == first["id"]
    assert post(client, document, **{"idempotency-key": "two"})["id"] != first["id"]
    assert post(client, document)["id"] != first["id"]
    other = client.post("/v1/mechanisms", json=recipe(7), headers={"idempotency-key": "one"})
    assert (other.status_code, other.json()["error"]["field"]) == (422, "Idempotency-Key")
    client.delete(f"/v1/mechanisms/{first['id']}")
    assert post(client, document, **{"idempotency-key": "one"})["id"] != first["id"]


@pytest.mark.thorough
def test_many_at_once_with_one_key_are_one_job(service: Served) -> None:
    document = json.dumps(recipe(8)).encode()
    headers = {"idempotency-key": "crowd", "content-type": "application/json"}

    def ask(client: httpx.Client) -> set[str]:
        return {
            client.post("/v1/mechanisms", content=document, headers=headers).json()["id"]
            for _ in range(10)
        }

    with ThreadPoolExecutor(20) as pool:
        clients = [service.client() for _ in range(20)]
        ids = set().union(*pool.map(ask, clients))
        for made in clients:
            made.close()
    assert len(ids) == 1


@pytest.mark.parametrize("name", ["", "x" * 201, "h\u00e9"])
def test_an_idempotency_key_that_is_none_is_refused(client: httpx.Client, name: str) -> None:
    headers = [(b"idempotency-key", name.encode())]
    told = client.post("/v1/mechanisms", json=recipe(3), headers=headers)
    assert told.status_code == 422
    assert told.json()["error"]["field"] == "Idempotency-Key"


# --- limits, at and one past ------------------------------------------------------------------


@pytest.mark.thorough
def test_a_body_a_path_and_a_key_have_a_largest_size(tmp_path: Path) -> None:
    body = json.dumps(recipe(30)).encode()
    with serving(tmp_path, "--body", str(len(body))) as service, service.client() as client:
        headers = {"content-type": "application/json"}
        assert client.post("/v1/mechanisms", content=body, headers=headers).status_code == 202
        one_more = client.post("/v1/mechanisms", content=body + b" ", headers=headers)
        assert (one_more.status_code, one_more.json()["error"]["field"]) == (413, "body")

        def pieces() -> Iterator[bytes]:
            yield body
            yield b" "

        unsaid = client.post("/v1/mechanisms", content=pieces(), headers=headers)
        assert unsaid.status_code == 413
        assert client.get("/" + "x" * 511).status_code == 404
        assert client.get("/" + "x" * 512).status_code == 414
        longest = headers | {"idempotency-key": "k" * 200}
        assert client.post("/v1/mechanisms", content=body, headers=longest).status_code == 202


@pytest.mark.thorough
def test_streams_are_limited(tmp_path: Path) -> None:
    with serving(tmp_path, "--streams", "3") as service, service.client() as client:
        job = post(client, recipe(700))["id"]
        with ExitStack() as open_:
            for _ in range(3):
                stream = client.stream("GET", f"/v1/mechanisms/{job}/events")
                assert open_.enter_context(stream).status_code == 200
            fourth = client.get(f"/v1/mechanisms/{job}/events")
            assert fourth.status_code == 429
            assert int(fourth.headers["retry-after"]) > 0
        client.delete(f"/v1/mechanisms/{job}")
        again = post(client, recipe(3))["id"]
        wait_until(lambda: client.get(f"/v1/mechanisms/{again}/events").status_code == 200)


@pytest.mark.thorough
def test_places_and_memory_are_limited(tmp_path: Path) -> None:
    with serving(tmp_path, "--places", "30", "--memory", "0.005") as service:
        client = service.client()
        assert post(client, recipe(30))
        many = client.post("/v1/mechanisms", json=recipe(31))
        assert (many.status_code, many.json()["error"]["field"]) == (422, "places")
        client.close()
    with serving(tmp_path / "b", "--memory", "0.005", "--time-limit", "30") as service:
        client = service.client()
        large = client.post("/v1/mechanisms", json=recipe(60))
        assert large.status_code == 422
        assert "memory" in large.json()["error"]["message"]
        assert post(client, recipe(60, method="closed-form"))
        assert post(client, recipe(20, time_limit_s=30))
        late = client.post("/v1/mechanisms", json=recipe(20, time_limit_s=30.1))
        assert late.json()["error"]["field"] == "time_limit_s"
        client.close()


@pytest.mark.thorough
def test_the_queue_and_the_jobs_of_a_key_are_limited(tmp_path: Path) -> None:
    with serving(tmp_path, "--queue", "2", "--workers", "1", "--jobs", "100") as service:
        client = service.client()
        running = post(client, recipe(600))
        address = f"/v1/mechanisms/{running['id']}"
        wait_until(lambda: client.get(address).json()["state"] == "running")
        for _ in range(2):
            post(client, recipe(5))
        full = client.post("/v1/mechanisms", json=recipe(5))
        assert (full.status_code, full.json()["error"]["code"]) == (429, "too_much")
        assert int(full.headers["retry-after"]) > 0
        client.delete(f"/v1/mechanisms/{running['id']}")
        client.close()
    with serving(tmp_path / "b", "--jobs", "2") as service:
        client = service.client()
        first = post(client, recipe(5))
        post(client, recipe(5))
        assert client.post("/v1/mechanisms", json=recipe(5)).status_code == 429
        client.delete(f"/v1/mechanisms/{first['id']}")
        post(client, recipe(5))
        client.close()


@pytest.mark.thorough
def test_the_rate_is_limited(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "3") as service, service.client() as client:
        for _ in range(3):
            post(client, recipe(3))
        often = client.post("/v1/mechanisms", json=recipe(3))
        assert often.status_code == 429
        assert 1 <= int(often.headers["retry-after"]) <= 21
    with serving(tmp_path / "b", "--reads", "5") as service, service.client() as client:
        job = post(client, recipe(3))["id"]
        time.sleep(0.3)  # the post took one of the five; it is back after 0.2 s
        seen = [client.get(f"/v1/mechanisms/{job}").status_code for _ in range(60)]
        assert seen[:5] == [200] * 5
        assert 429 in seen


# --- keys -------------------------------------------------------------------------------------


def test_with_keys_each_client_sees_only_its_own_jobs(tmp_path: Path) -> None:
    ann, bob = keys(tmp_path, "add", "ann"), keys(tmp_path, "add", "bob")
    assert ann != bob
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert ann.split("_", 2)[2].encode() not in kept
    with serving(tmp_path, waits={"housekeeping_s": 0.5}) as service:
        hers, his, nobody = service.client(ann), service.client(bob), service.client()
        job = post(hers, recipe(5))["id"]
        wait_for(hers, job)
        for path, method in (("", "GET"), ("/file", "GET"), ("/events", "GET"), ("", "DELETE")):
            theirs = his.request(method, f"/v1/mechanisms/{job}{path}")
            none = his.request(method, f"/v1/mechanisms/{'x' * 24}{path}")
            assert theirs.status_code == none.status_code == 404
            same = [json.loads(told.text)["error"] | {"request_id": ""} for told in (theirs, none)]
            assert same[0] == same[1]
            refused = nobody.request(method, f"/v1/mechanisms/{job}{path}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "key")
        assert nobody.post("/v1/mechanisms", json=recipe(3)).status_code == 401
        assert nobody.get("/metrics").status_code == 401
        assert nobody.get("/healthz").status_code == 200
        assert nobody.get("/v1/about").json()["key_needed"] is True
        # The same Idempotency-Key of two clients is two.
        once = {"idempotency-key": "once"}
        assert post(hers, recipe(5), **once)["id"] != post(his, recipe(5), **once)["id"]
        assert hers.get(f"/v1/mechanisms/{job}/file").status_code == 200
        assert [key["name"] for key in json.loads(keys(tmp_path, "list", "--json"))] == [
            "ann",
            "bob",
        ]
        long = post(hers, recipe(400))["id"]
        wait_until(lambda: hers.get(f"/v1/mechanisms/{long}").json()["progress"] is not None)
        with hers.stream("GET", f"/v1/mechanisms/{long}/events") as stream:
            keys(tmp_path, "revoke", "ann")
            assert "event: gone" in list(stream.iter_lines())[-3:]
        wait_until(lambda: hers.get(f"/v1/mechanisms/{job}").status_code == 401)
        keys(tmp_path, "revoke", "bob")
        wait_until(lambda: his.get(f"/v1/mechanisms/{job}").status_code == 401)
        # That there are no keys any more does not open what asked for one, nor does a restart.
        assert nobody.get(f"/v1/mechanisms/{job}").status_code == 401
        service.kill()
        service.start()
        assert nobody.get(f"/v1/mechanisms/{job}").status_code == 401
        for made in (hers, his, nobody):
            made.close()


def test_a_wrong_key_is_refused(tmp_path: Path) -> None:
    key = keys(tmp_path, "add", "ann")
    id_, secret = key.split("_", 2)[1:]
    wrong = [
        "", "Bearer", "Bearer ", "Bearer wh_", f"Basic {key}", key, "Bearer " + "x" * 5000,
        f"Bearer wh_{'0' * 12}_{'A' * 43}", f"Bearer wh_{id_}_{'A' * 43}", f"Bearer {key}x",
        f"Bearer wh_{id_[::-1]}_{secret}", f"Bearer {key[:-1]}", f"Bearer {key} {key}",
    ]  # fmt: skip
    with serving(tmp_path) as service, httpx.Client(base_url=service.url) as client:
        for header in wrong:
            told = client.get("/metrics", headers={"authorization": header.strip()})
            assert (told.status_code, told.json()["error"]["field"]) == (401, "Authorization")
            assert told.headers["www-authenticate"] == "Bearer"
        for header in (f"Bearer {key}", f"bearer {key}", f"Bearer  {key}"):
            assert client.get("/metrics", headers={"authorization": header}).status_code == 200


def test_without_keys_it_is_for_this_machine_only(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "whereish", "serve", "--host", "0.0.0.0", "--port", "0",
               "--folder", str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "keys add" in done.stderr
    keys(tmp_path, "add", "ann")
    with serving(tmp_path, "--host", "0.0.0.0") as service:
        port = service.url.rsplit(":", 1)[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            assert client.post("/v1/mechanisms", json=recipe(3)).status_code == 401


def test_other_sites_cannot_ask_a_service_without_keys(client: httpx.Client) -> None:
    host = str(client.base_url.netloc.decode())
    fine = {"origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert client.get("/healthz", headers=fine).status_code == 200
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ):
        told = client.get("/healthz", headers=headers)
        assert (told.status_code, told.json()["error"]["code"]) == (403, "cross_site")
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        told = client.get("/healthz", headers={"host": name})
        assert told.status_code in (400, 421)
    plain = client.post(
        "/v1/mechanisms", content=json.dumps(recipe(3)), headers={"content-type": "text/plain"}
    )
    assert (plain.status_code, plain.json()["error"]["field"]) == (415, "Content-Type")
    packed = client.post("/v1/mechanisms", json=recipe(3), headers={"content-encoding": "gzip"})
    assert (packed.status_code, packed.json()["error"]["field"]) == (415, "Content-Encoding")


# --- all answers ------------------------------------------------------------------------------


def test_every_answer_has_strict_headers_and_an_id(client: httpx.Client) -> None:
    for path in ("/", "/healthz", "/nowhere", "/docs", "/openapi.json", "/assets/page.js"):
        told = client.get(path, headers={"x-request-id": "mine-1"})
        assert told.headers["x-request-id"] == "mine-1"
        assert told.headers["x-content-type-options"] == "nosniff"
        assert told.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in told.headers["content-security-policy"]
        # WebAssembly may be compiled, text may not.
        assert "'unsafe-eval'" not in told.headers["content-security-policy"]
        assert "server" not in told.headers
    forged = client.get("/healthz", headers={"x-request-id": 'a"b\tc'})
    assert re.fullmatch("[0-9a-f]{16}", forged.headers["x-request-id"])


def test_head_is_get_without_the_body(client: httpx.Client) -> None:
    job = post(client, recipe(3))["id"]
    assert wait_for(client, job)["state"] == "done"
    own = f"/v1/mechanisms/{job}"
    nobody = "/v1/mechanisms/" + "x" * 24
    for path in (
        own, f"{own}/file", f"{own}/file?prior=omit", nobody, f"{nobody}/file", "/v1/about",
        "/metrics", "/healthz", "/readyz", "/", "/docs", "/city.json", "/openapi.json",
        "/favicon.ico", "/assets/page.js", "/nowhere",
    ):  # fmt: skip
        told, whole = client.head(path), client.get(path)
        assert told.status_code == whole.status_code, path
        assert told.content == b""
        for name in ("content-type", "etag", "cache-control", "content-security-policy"):
            assert told.headers.get(name) == whole.headers.get(name), (path, name)
        if path != "/metrics":  # which counts the requests
            assert told.headers.get("content-length") == whole.headers.get("content-length"), path
    events = client.head(f"{own}/events")
    assert (events.status_code, events.headers["allow"]) == (405, "GET")
    wrong = client.put(own)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "DELETE, GET, HEAD")


def test_errors_have_one_form(client: httpx.Client) -> None:
    for told in (
        client.get("/nowhere"),
        client.put("/v1/mechanisms", json={}),
        client.get("/v1/mechanisms/short"),
        client.post("/v1/mechanisms", content=b"{", headers={"content-type": "application/json"}),
        client.get("/v1/mechanisms/" + "y" * 600),
        client.get("/assets/../../app.py"),
        client.get("/assets/vendor/nothing.js"),
    ):
        assert 400 <= told.status_code < 500
        error = told.json()["error"]
        assert set(error) == {"code", "message", "field", "request_id"}
        assert error["field"]
        assert error["request_id"] == told.headers["x-request-id"]


def test_logs_are_lines_of_json_with_request_ids(service: Served, client: httpx.Client) -> None:
    client.get("/v1/mechanisms/nope", headers={"x-request-id": "find-me"})
    wait_until(lambda: any("find-me" in line for line in list(service.log)))
    lines = [json.loads(line) for line in service.log if line.startswith("{")]
    (mine,) = [line for line in lines if line.get("request_id") == "find-me"]
    assert (mine["status"], mine["method"]) == (404, "GET")
    assert [line for line in service.log if not line.startswith("{")] == [
        f"Whereish is at {service.url} (the API: {service.url}/docs). Ctrl-C stops it.\n"
    ]


def test_metrics_count_without_naming_anybody(client: httpx.Client) -> None:
    job = post(client, recipe(4))["id"]
    wait_for(client, job)
    text = client.get("/metrics").text
    assert re.search(r'whereish_jobs\{state="done"\} [1-9]', text)
    assert 'whereish_http_requests_total{method="POST",route="/v1/mechanisms",status="202"}' in text
    assert job not in text


def test_no_endpoint_takes_a_true_location(client: httpx.Client) -> None:
    """What can be sent is a recipe, an id and headers: places and a prior, no point of now."""
    paths = client.get("/openapi.json").json()["paths"]
    taken = {
        name["name"]: name["schema"] for way in paths.values() for verb in way.values()
        for name in verb.get("parameters", [])
    }  # fmt: skip
    assert set(taken) == {"id", "Idempotency-Key", "prior"}
    assert taken["prior"] == {"type": "string", "enum": ["omit"]}  # a word, and no prior
    bodies = [path for path, way in paths.items() if any("requestBody" in v for v in way.values())]
    assert bodies == ["/v1/mechanisms"]


def test_a_second_server_on_the_same_folder_is_refused(service: Served) -> None:
    command = [sys.executable, "-m", "whereish", "serve", "--port", "0", "--folder",
               str(service.folder)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "one server at a time" in done.stderr


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "whereish", "serve", "--folder", str(tmp_path),
                   "--port", str(taken.getsockname()[1])]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "must be free" in done.stderr


def test_a_client_that_sends_too_slowly_is_disconnected(service: Served) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(
            f"POST /v1/mechanisms HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: "
            "application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        assert b" 408 " in slow.recv(4096)


# --- the process ------------------------------------------------------------------------------


def test_jobs_go_on_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1") as service:
        client = service.client()
        ids = [post(client, recipe(100, seed=i))["id"] for i in range(3)]

        def under_way() -> bool:
            told = [client.get(f"/v1/mechanisms/{job}").json() for job in ids]
            return any(job["state"] == "running" for job in told)

        wait_until(under_way)
        client.close()
        assert service.stop() == 0
        service.start()
        service.kill()
        service.start()
        client = service.client()
        assert {wait_for(client, job)["state"] for job in ids} == {"done"}
        client.close()


@pytest.mark.thorough
def test_a_job_that_kills_its_worker_three_times_is_parked(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1") as service, service.client() as client:
        job = post(client, recipe(400))["id"]
        waits = post(client, recipe(6))["id"]
        killed: set[int] = set()

        def parked() -> bool:
            told = client.get(f"/v1/mechanisms/{job}").json()
            if told["progress"] is not None:
                pid = max(service.workers(), key=cpu_seconds)
                # The progress may be that of a worker that is dead: only one that solves is busy.
                if pid not in killed and cpu_seconds(pid) > 3:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
            return bool(told["state"] == "parked")

        wait_until(parked)
        told = client.get(f"/v1/mechanisms/{job}").json()
        assert "3 times" in told["error"]["message"]
        assert len(killed) == 3
        assert wait_for(client, waits)["state"] == "done"


def test_a_worker_does_not_outlive_its_server(tmp_path: Path) -> None:
    with serving(tmp_path) as service, service.client() as client:
        job = post(client, recipe(400))["id"]
        wait_until(lambda: client.get(f"/v1/mechanisms/{job}").json()["progress"] is not None)
        left = service.workers()
        assert left
        service.kill()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


@pytest.mark.thorough
def test_old_jobs_are_deleted(tmp_path: Path) -> None:
    waits = {"housekeeping_s": 0.5}
    with (
        serving(tmp_path, "--retention", "3s", waits=waits) as service,
        service.client() as client,
    ):
        job = post(client, recipe(5))["id"]
        assert wait_for(client, job)["state"] == "done"
        assert client.get(f"/v1/mechanisms/{job}/file").status_code == 200
        waits = post(client, recipe(700))["id"]
        wait_until(lambda: client.get(f"/v1/mechanisms/{job}").status_code == 404)
        assert client.get(f"/v1/mechanisms/{waits}").status_code == 200, "what is open is not old"

        def kept() -> bytes:
            return b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())

        wait_until(lambda: job.encode() not in kept())
