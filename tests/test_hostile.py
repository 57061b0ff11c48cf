"""Hostile requests: no 5xx, no answer after two seconds, every error names a field."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from effort import sample
from serving import PATIENCE_S, Served, recipe, serving

pytestmark = pytest.mark.heavy

CPU_SECONDS = 2.0  # of the server, for anything that anybody may send
HEADERS = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    flags = ("--rate", "100000", "--jobs", "100000", "--queue", "100000")
    with serving(folder, *flags, waits={"headers_s": 3.0}) as served:
        yield served


def bodies() -> list[tuple[str, bytes]]:
    """Return more than two hundred bodies that no client of ours would send."""
    good = recipe(3)
    text = json.dumps(good)
    made: list[tuple[str, bytes]] = [
        ("empty", b""), ("space", b" "), ("null", b"null"), ("true", b"true"), ("zero", b"0"),
        ("text", b'"text"'), ("list", b"[]"), ("object", b"{}"), ("cut", text[:-1].encode()),
        ("two", (text + text).encode()), ("comma", text[:-1].encode() + b",}"),
        ("comment", b"/* */" + text.encode()), ("single quotes", text.replace('"', "'").encode()),
        ("utf-16", text.encode("utf-16")), ("utf-8 mark", b"\xef\xbb\xbf" + text.encode()),
        ("latin-1", b'{"pl\xe4ces": 1}'), ("zero bytes", b"\0" * 100),
        ("binary", bytes(range(256))),
        ("surrogate", b'{"\\ud800": 1}'), ("nested lists", b"[" * 10_000 + b"]" * 10_000),
        ("nested open", b"[" * 100_000),
        ("nested over and over", b'{"prior":[' + b"[[[[[[[[[[]]]]]]]]]]," * 190_000 + b"1]}"),
        ("empty over and over", b'{"prior":[' + b"[]," * 1_300_000 + b"1]}"),
        ("short lists", b'{"prior":[' + b"[0]," * 1_000_000 + b"1]}"),
        ("nested objects", b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
        ("digits", b'{"epsilon_per_km": ' + b"9" * 1_000_000 + b"}"),
        ("digits in places", text.replace("[[", "[[" + "9" * 1_000_000 + ", 0], [", 1).encode()),
        ("long float", text.replace("1.07", "1." + "0" * 1_000_000).encode()),
        ("long exponent", text.replace("1.07", "1e" + "9" * 1_000).encode()),
        ("long name", json.dumps({"x" * 1_000_000: 1}).encode()),
        ("many names, one twice", b"{" + b",".join(b'"n%d":0' % i for i in range(300_000))
         + b',"n299999":0}'),
        ("many names", json.dumps({f"n{i}": i for i in range(100_000)}).encode()),
        ("large", b" " * (4 * 2**20) + b"1"), ("long text", b'"' + b"x" * 3_500_000 + b'"'),
        ("twice", text[:-1].encode() + b', "prior": [1]}'),
        ("twice inside", text.replace('{"xy_km"', '{"xy_km": [], "xy_km"').encode()),
        ("many places", json.dumps(recipe(2001)).encode()),
        ("a hundred thousand places", b'{"places": {"xy_km": [' + b"[0,0]," * 99_999 + b'[0,0]]}}'),
        ("prior of objects", json.dumps({**good, "prior": [{}] * 3}).encode()),
    ]  # fmt: skip
    strange: list[Any] = [
        None, True, "", "1", [], {}, [[]], -1, 0, 1e308, -1e308, 5e-324, 10**100, "NaN", [None],
        {"matrix": 1}, {"edges": []}, [1e308, 1e308, 1e308], [[1e308, 1e308]] * 3, [0.1] * 10_000,
    ]  # fmt: skip
    names = (
        "places", "prior", "epsilon_per_km", "dilation", "method", "solver", "tolerance",
        "time_limit_s", "privacy_metric", "quality_metric", "outputs", "keep_prior",
    )  # fmt: skip
    for name in names:
        for number, value in enumerate(strange):
            made.append((f"{name} {number}", json.dumps({**good, name: value}).encode()))
        for constant in ("NaN", "Infinity", "-Infinity", "1e999"):
            broken = json.dumps({**good, name: "here"}).replace('"here"', constant)
            made.append((f"{name} {constant}", broken.encode()))
    for name in ("xy_km", "latlon", "cell_km"):
        for number, value in enumerate(strange):
            places = {**good["places"], name: value}
            made.append(
                (f"places.{name} {number}", json.dumps({**good, "places": places}).encode())
            )
    return made


def test_two_hundred_bodies_are_answered_quickly_and_in_words(service: Served) -> None:
    sent = bodies()
    assert len(sent) > 200
    slow, silent = [], []
    with service.client() as client:
        for name, body in sample(sent):
            before = service.cpu_seconds()
            told = client.post("/v1/mechanisms", content=body, headers=HEADERS)
            took = service.cpu_seconds() - before
            assert told.status_code < 500, (name, told.text)
            if took > CPU_SECONDS:
                slow.append((name, took))
            if told.status_code == 202:
                client.delete(f"/v1/mechanisms/{told.json()['id']}")
            elif not told.json()["error"]["field"]:
                silent.append(name)
    assert slow == []
    assert silent == []


def test_mangled_recipes_are_answered(service: Served) -> None:
    """Bytes of a good recipe, changed at random."""
    chance = random.Random(5)
    good = json.dumps(recipe(4)).encode()
    with service.client() as client:
        for _ in range(150):
            body = bytearray(good)
            for _ in range(chance.randint(1, 4)):
                where = chance.randrange(len(body))
                body[where : where + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
            told = client.post("/v1/mechanisms", content=bytes(body), headers=HEADERS)
            assert told.status_code in (202, 422), told.text
            if told.status_code == 202:
                client.delete(f"/v1/mechanisms/{told.json()['id']}")
            else:
                assert told.json()["error"]["field"]


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/mechanisms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/mechanisms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999"
        b"\r\nContent-Type: application/json\r\n\r\n",
        b"POST /v1/mechanisms HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: application/json\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_http_does_not_hurt(service: Served, request_: bytes) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as wire:
        answer = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            wire.sendall(request_)
            while not answer.endswith(b"}}") and (piece := wire.recv(4096)):
                answer += piece
    assert not answer.startswith(b"HTTP/1.1 5")
    if answer.startswith(b"HTTP/1.1 4"):
        assert b'"field"' in answer
    assert httpx.get(f"{service.url}/healthz").status_code == 200


@pytest.mark.filterwarnings("ignore")
def test_the_description_holds(service: Served) -> None:
    """Schemathesis makes requests from the OpenAPI description, good and bad."""
    description = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    examples = int(os.environ.get("WHEREISH_EXAMPLES", "25"))
    seen = Counter[int]()

    def check(case: Any) -> None:
        before = service.cpu_seconds()
        told = case.call(timeout=PATIENCE_S)
        took = service.cpu_seconds() - before
        assert took < CPU_SECONDS, f"{took:.1f} s of work"
        # A description cannot say that a prior sums to 1: valid by it may be wrong all the same.
        case.validate_response(told, excluded_checks=[positive_data_acceptance])
        seen[told.status_code] += 1
        if told.status_code == 202:
            httpx.delete(f"{service.url}/v1/mechanisms/{told.json()['id']}")
        elif told.status_code >= 400:
            assert told.json()["error"]["field"], told.text

    # An operation that cannot be read from the description fails here, as it must.
    found = [operation.ok() for operation in description.get_all_operations()]  # type: ignore[union-attr]
    assert len(found) == 9
    for operation in found:
        run = given(case=operation.as_strategy())(check)
        settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)(
            run
        )()
    assert seen[422] > 0, seen
    assert not [status for status in seen if status >= 500]


def test_headers_without_an_end_are_cut_off(service: Served) -> None:
    """Neither their size nor their time is anybody's to choose."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 2**26:  # what is on the way in the system's buffers counts as well
                wire.sendall(b"a: b\r\n" * 1000)
                sent += 6000
        assert sent < 2**26, "headers without an end were taken"
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert b" 408 " in wire.recv(4096)


def test_large_bodies_do_not_stop_the_others(service: Served) -> None:
    body = b'{"prior":[' + b"[0]," * 1_000_000 + b"1]}"

    def send(_: int) -> int:
        told = httpx.post(f"{service.url}/v1/mechanisms", content=body, headers=HEADERS, timeout=60)
        return told.status_code

    with ThreadPoolExecutor(6) as pool:
        sending = [pool.submit(send, i) for i in range(6)]
        slowest = 0.0
        while not all(one.done() for one in sending):
            # What the server does for others before it answers.
            before = service.cpu_seconds()
            told = httpx.get(f"{service.url}/healthz", timeout=PATIENCE_S)
            assert told.status_code == 200
            slowest = max(slowest, service.cpu_seconds() - before)
    assert {one.result() for one in sending} == {422}
    assert slowest < CPU_SECONDS
