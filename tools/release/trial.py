"""Try an installed wheel as a new user does: a first mechanism, its audit, the page, a build."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from release.empty import Empty

AIM_S = 5.0  # of the first mechanism, from the start of its process
PLACES = 50
_PATIENCE_S = 300
_ASSETS = ("/", "/assets/page.js", "/assets/vendor/dist/whereish.wasm")


def profile() -> list[tuple[float, float, float]]:
    """Return 50 synthetic places (km) with a skewed prior."""
    chance = random.Random(1)  # noqa: S311
    weights = [chance.gammavariate(0.3, 1.0) + 1e-6 for _ in range(PLACES)]
    points = [(0.658 * (k % 10), 0.712 * (k // 10)) for k in range(PLACES)]
    return [(x, y, w / sum(weights)) for (x, y), w in zip(points, weights, strict=True)]


def first_mechanism(empty: Empty) -> dict[str, float]:
    """Build a mechanism of 50 places with the command line, twice, and audit it; return seconds."""
    rows = [f"{x},{y},{weight!r}" for x, y, weight in profile()]
    (empty.folder / "me.csv").write_text("\n".join(["x_km,y_km,prior", *rows]) + "\n")
    words = ("build", "me.csv", "--epsilon", "1.07", "-o", "k.whereish", "--json")
    before = os.times()
    _, first = empty.run("whereish", *words)
    after = os.times()  # CPU time does not depend on what else runs; Windows gives none
    cpu = after.children_user + after.children_system - before[2] - before[3]
    Path(empty.folder, "k.whereish").unlink()
    _, second = empty.run("whereish", *words)
    told, audit = empty.run("whereish", "audit", "k.whereish", "--json")
    if json.loads(told)["certified"] is not True:
        raise RuntimeError("the audit of the first mechanism does not certify it")
    told_s = {"first mechanism": first, "first mechanism, CPU": cpu}
    return told_s | {"second mechanism": second, "audit": audit}


def service(empty: Empty) -> dict[str, float]:
    """Serve the page, fetch it, and build a mechanism through HTTP; return seconds."""
    begun = time.perf_counter()
    with _served(empty) as url:
        ready = time.perf_counter() - begun
        for path in _ASSETS:
            if len(_fetch(url + path)) < 100:
                raise RuntimeError(f"the service must serve {path}")
        begun = time.perf_counter()
        body = {
            "places": {"xy_km": [[x, y] for x, y, _ in profile()]},
            "prior": [weight for _, _, weight in profile()],
            "epsilon_per_km": 1.07,
        }
        job = json.loads(_fetch(url + "/v1/mechanisms", body))
        address = f"{url}/v1/mechanisms/{job['id']}"
        while job["state"] not in ("done", "failed"):
            time.sleep(0.05)
            job = json.loads(_fetch(address))
        if job["state"] != "done":
            raise RuntimeError("the service must build a mechanism, and the job failed")
        (empty.folder / "served.whereish").write_bytes(_fetch(address + "/file"))
        built = time.perf_counter() - begun
    empty.run("whereish", "audit", "served.whereish")
    return {"service ready": ready, "build through HTTP": built}


@contextmanager
def _served(empty: Empty) -> Iterator[str]:
    """Run the service; yield its URL when it is ready."""
    command = [str(empty.programs / "whereish"), "serve", "--port", "0", "--json"]
    process = subprocess.Popen(  # noqa: S603
        [*command, "--folder", str(empty.folder / "data")],
        cwd=empty.folder, env=empty.variables, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        told = ""
        while not told.rstrip().endswith("}"):
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError("the service did not start")
            told += line
        url = str(json.loads(told)["url"])
        _wait(url + "/readyz")
        yield url
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def _wait(url: str) -> None:
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            _fetch(url)
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _fetch(url: str, body: dict[str, Any] | None = None) -> bytes:
    """Return an answer of the service on this machine."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        asked, timeout=_PATIENCE_S
    ) as answer:
        return bytes(answer.read())
