"""A real service in a separate process, for tests: it can be started, used and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

# A longer wait counts as endless. It is not a measurement: machines are slow, or busy.
PATIENCE_S = 300.0
HURRIED = Path(__file__).with_name("hurried.py")


class Served:
    """A running service: its URL, its folder and its log."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        waits: dict[str, float] | None = None,
    ) -> None:
        self.folder, self.flags = folder, flags
        self._environment = environment or {}
        self._program = ["-m", "whereish"] if waits is None else [str(HURRIED), json.dumps(waits)]
        self.log: list[str] = []
        self.url = ""
        self.pid = 0
        self.seconds_to_ready = 0.0
        self.start()

    def start(self) -> None:
        """Start it, and return when it is ready. If it does not start, no process is left."""
        try:
            self._start()
        except BaseException:
            if self.process.poll() is None:
                self.process.kill()
            self._ended()
            raise

    def _start(self) -> None:
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [
                sys.executable, *self._program, "serve", "--port", self._port(), "--json",
                "--folder", str(self.folder), *self.flags,
            ],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | self._environment,
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
        self._listener.start()
        assert self.process.stdout is not None
        told = ""
        while not told.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                self._listener.join()
                raise RuntimeError("the service did not start: " + "".join(self.log[-20:]))
            told += line
        self.url = json.loads(told)["url"]
        self.pid = json.loads(told)["pid"]
        with self.client() as client:
            wait_until(lambda: client.get("/readyz").status_code == 200)
        self.seconds_to_ready = time.perf_counter() - begun

    def _port(self) -> str:
        return self.url.rsplit(":", 1)[1] if self.url else "0"

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.log.append(line)

    def kill(self) -> None:
        """End it like a power failure."""
        os.kill(self.pid, signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """End it like an operator."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(timeout=PATIENCE_S)
        self._listener.join(timeout=PATIENCE_S)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the server, which do not depend on other processes."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def workers(self) -> list[int]:
        """Return the processes that solve, or wait to."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit():
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                    if parent == self.pid:
                        found.append(int(entry.name))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        # Without TLS no certificates are needed, and to load them takes 25 ms.
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False)


@contextmanager
def serving(
    folder: Path,
    *flags: str,
    environment: dict[str, str] | None = None,
    waits: dict[str, float] | None = None,
) -> Iterator[Served]:
    """Serve until the end of the block; `waits` are shorter ones (`hurried.py`)."""
    served = Served(folder, *flags, environment=environment, waits=waits)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.kill()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something to hold, and fail if it never does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def recipe(n: int, seed: int = 0, **more: Any) -> dict[str, Any]:
    """Return a recipe of n scattered places and a skewed prior."""
    chance = np.random.default_rng(seed)
    prior = chance.gamma(0.4, size=n) + 1e-6
    points = chance.uniform(0, 7, (n, 2)).round(4).tolist()
    weights = prior / prior.sum()
    if n > 500:  # with a time limit, a large one is accepted however few cores there are
        more = {"time_limit_s": 600, **more}
    return {"places": {"xy_km": points}, "prior": weights.tolist(), "epsilon_per_km": 1.07, **more}


def wait_for(client: httpx.Client, job: str) -> dict[str, Any]:
    """Wait until a job has ended."""
    document: dict[str, Any] = {}

    def ended() -> bool:
        nonlocal document
        told = client.get(f"/v1/mechanisms/{job}")
        told.raise_for_status()
        document = told.json()
        return document["state"] in ("done", "failed", "parked")

    wait_until(ended)
    return document
