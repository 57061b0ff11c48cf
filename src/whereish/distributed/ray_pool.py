"""Solves on a Ray cluster that is there already, for a server that must outlive it.

The server does not join the cluster: an envoy does, a process of its own. An envoy that ends, or
says nothing for a while, is replaced; what it had under way is begun again, and that counts as
nobody's fault. A worker that dies on its node has died, as at home.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whereish.errors import InputError
from whereish.service.workers.pool import LONGEST_LINE, AnyWorker, Outcome, Workers, environment

# After how long a silent cluster is not ready, an envoy is given up, and another may be tried.
_SILENT_S, _GIVEN_UP_S, _AGAIN_S = 10.0, 30.0, 5.0
NO_CORE = "waiting for a free core of the cluster"
NO_CLUSTER = "the cluster does not answer: waiting for it"
_log = logging.getLogger("whereish.queue")


class Envoy:
    """The server's side of the process that joins the cluster."""

    def __init__(self, address: str) -> None:
        self.begun = self._heard = time.monotonic()
        self.cores, self.free = 0, 0.0
        self.problem: str | None = None
        self.answered = threading.Event()
        self._ended = False
        self._numbers = itertools.count(1)
        self._workers: dict[int, FarWorker] = {}
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "whereish.distributed.ray_gateway"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            start_new_session=True,
        )
        self.say({"join": address})
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Whether there is something to be expected of it."""
        return not self._ended and self.silent_s < _GIVEN_UP_S

    @property
    def silent_s(self) -> float:
        """For how long it has said nothing of its cluster."""
        return time.monotonic() - self._heard

    @property
    def answers(self) -> bool:
        """Whether its cluster is there."""
        return self.cores > 0 and not self._ended and self.silent_s < _SILENT_S

    def enter(self, worker: FarWorker) -> int:
        """Have a worker started, and return its number."""
        with self._lock:
            number = next(self._numbers)
            if self._ended:
                worker.lose()
            else:
                self._workers[number] = worker
        self.say({"id": number, "do": "start"})
        return number

    def leave(self, number: int) -> None:
        """Have a worker ended, and hear no more of it."""
        with self._lock:
            known = self._workers.pop(number, None)
        if known is not None:
            self.say({"id": number, "do": "end"})

    def say(self, document: dict[str, Any], then: bytes = b"") -> None:
        """Tell it something, without waiting until it listens."""
        self._orders.put(json.dumps(document).encode() + b"\n" + then)

    def kill(self) -> None:
        """End it, and with it all of its workers."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _write(self) -> None:
        stdin = self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            while stdin is not None and (order := self._orders.get()):
                stdin.write(order)
                stdin.flush()
        with contextlib.suppress(OSError):
            if stdin is not None:
                stdin.close()

    def _read(self) -> None:
        stdout = self._process.stdout
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            while stdout is not None and (line := stdout.readline(LONGEST_LINE)):
                said = json.loads(line)
                if "id" in said:
                    then = stdout.read(said["file"]) if "file" in said else b""
                    with self._lock:
                        worker = self._workers.get(said["id"])
                    if worker is not None:
                        worker.hear(said, io.BytesIO(then).read)
                elif "broken" in said:
                    self.problem = said["broken"]
                else:
                    self.cores, self.free = said["cores"], said["free"]
                    self._heard = time.monotonic()
                    self.answered.set()
        with self._lock:
            self._ended = True
            lost = list(self._workers.values())
            self._workers.clear()
        for worker in lost:
            worker.lose()
        self.kill()
        self._process.wait()
        self._orders.put(b"")
        if stdout is not None:
            stdout.close()
        self.answered.set()


class FarWorker(AnyWorker):
    """One process on some node of the cluster, for one recipe."""

    def __init__(self, envoy: Envoy) -> None:
        super().__init__()
        self._envoy = envoy
        self._placed = self._ended = False
        self._number = envoy.enter(self)

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or will when there is a core for it."""
        return not self._ended

    @property
    def patience_s(self) -> float:
        """How long a wait is before it is told: none for a cluster that is not there."""
        return super().patience_s if self._envoy.answers else 0.0

    @property
    def waits_for(self) -> str | None:
        """What it has to wait for before it can begin."""
        if not self._envoy.answers:
            return NO_CLUSTER
        return None if self._placed else NO_CORE

    def kill(self) -> None:
        """End it now: whether or not anybody there listens."""
        self._news.put(Outcome(was_warm=self.is_warm))
        self._end()

    def lose(self) -> None:
        """Take it that nobody knows what became of it."""
        self._ended = True
        self._news.put(Outcome(was_warm=False))

    def hear(self, said: dict[str, Any], read: Callable[[int], bytes]) -> None:
        """Take in a line of what it says."""
        if "placed" in said:
            self._placed = True
        elif "gone" in said:
            self._ended = True
            self._news.put(Outcome(was_warm=said["gone"]))
        else:
            super().hear(said, read)

    def _give(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        order = {"length": len(recipe), "memory_gb": memory_gb, "time_limit_s": time_limit_s}
        self._envoy.say({"id": self._number, "do": "solve"} | order, recipe)

    def _end(self) -> None:
        self._ended = True
        self._envoy.leave(self._number)


class FarWorkers(Workers):
    """Workers on a cluster. One is kept warm, but never on the last core that is free."""

    def __init__(self, address: str) -> None:
        super().__init__(Path())
        self._address = address
        self._joining = threading.Lock()
        self._envoy: Envoy

    def start(self) -> int:
        """Join the cluster; return how many cores it has.

        Raises
        ------
        InputError
            If Ray is not installed, or no cluster answers.
        """
        self._envoy = Envoy(self._address)
        self._envoy.answered.wait(_GIVEN_UP_S)
        if not self._envoy.answers:
            self._envoy.kill()
            raise InputError(
                self._envoy.problem
                or "cluster must be auto, or HOST:PORT of a Ray cluster with cores, of which this "
                f"machine is a node, got {self._address}: ray start joins one"
            )
        return self._envoy.cores

    def _new(self) -> AnyWorker:
        return FarWorker(self._envoy)

    @property
    def work(self) -> bool:
        """Whether the cluster is there, and workers can be started on it."""
        return self._envoy.answers and super().work

    def warm(self) -> None:
        """Start a worker ahead of time, or give back its core when others want it."""
        self._join_again()
        free = self._envoy.free
        if free >= 2:
            super().warm()
        elif free < 1:
            with self._lock:
                spare, self._spare = self._spare, None
            if spare is not None:
                spare.kill()

    def stop(self) -> None:
        """End them all. Their jobs stay as they are, to be taken up again."""
        super().stop()
        self._envoy.kill()

    def _join_again(self) -> None:
        """Replace an envoy that is gone, or whose cluster has said nothing for a long time."""
        with self._joining:
            envoy = self._envoy
            if self.stopping or envoy.is_alive or time.monotonic() < envoy.begun + _AGAIN_S:
                return
            _log.error("%s", envoy.problem or "the cluster is gone: joining it again")
            envoy.kill()
            with self._lock:
                self._spare, self._cold_deaths = None, 0
                self._envoy = Envoy(self._address)
