"""Solves of the service on a Ray cluster that runs already; the server survives its loss.

The server does not join the cluster: a gateway process does (`ray_gateway`). A gateway that ends or
stays silent is replaced, and its solves start again; this is not counted as a death of their
workers. A worker that dies on its node is counted, as on this machine.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from whereish.errors import InputError
from whereish.retries import RETRY
from whereish.service.workers.pool import WorkerPool
from whereish.service.workers.worker import MessageProcess, Outcome, Worker

NO_CORE = "waiting for a free core of the cluster"
NO_CLUSTER = "the cluster does not answer: waiting for it"
_log = logging.getLogger("whereish.queue")


class GatewayProcess:
    """The gateway process, as the server sees it."""

    def __init__(self, address: str) -> None:
        self.started = self._last_report = time.monotonic()
        self.cores, self.free = 0, 0.0
        self.problem: str | None = None
        self.answered = threading.Event()
        self._ended = False
        self._numbers = itertools.count(1)
        self._workers: dict[int, RayWorker] = {}
        self._lock = threading.Lock()
        self._commands: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = MessageProcess("whereish.distributed.ray_gateway")
        self.send({"join": address})
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Whether it may still report."""
        return not self._ended and self.silent_s < RETRY.gateway_lost_s

    @property
    def silent_s(self) -> float:
        """Seconds since its last report."""
        return time.monotonic() - self._last_report

    @property
    def has_cluster(self) -> bool:
        """Whether its cluster has cores and answers."""
        return self.cores > 0 and not self._ended and self.silent_s < RETRY.cluster_silent_s

    def start_worker(self, worker: RayWorker) -> int:
        """Have a worker started on the cluster, and return its number."""
        with self._lock:
            number = next(self._numbers)
            if self._ended:
                worker.mark_lost()
            else:
                self._workers[number] = worker
        self.send({"id": number, "do": "start"})
        return number

    def end_worker(self, number: int) -> None:
        """Have a worker ended, and ignore its later messages."""
        with self._lock:
            known = self._workers.pop(number, None)
        if known is not None:
            self.send({"id": number, "do": "end"})

    def send(self, command: dict[str, Any], then: bytes = b"") -> None:
        """Queue a command; do not wait until it is read."""
        self._commands.put(json.dumps(command).encode() + b"\n" + then)

    def kill(self) -> None:
        """End the process, and with it all its workers."""
        self._process.kill()

    def _write(self) -> None:
        stdin = self._process.input
        with contextlib.suppress(OSError, ValueError):
            while command := self._commands.get():
                stdin.write(command)
                stdin.flush()
        with contextlib.suppress(OSError):
            stdin.close()

    def _read(self) -> None:
        stdout = self._process.output
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            for message in self._process.messages():
                if "id" in message:
                    then = stdout.read(message["file"]) if "file" in message else b""
                    with self._lock:
                        worker = self._workers.get(message["id"])
                    if worker is not None:
                        worker.handle(message, io.BytesIO(then).read)
                elif "broken" in message:
                    self.problem = message["broken"]
                else:
                    self.cores, self.free = message["cores"], message["free"]
                    self._last_report = time.monotonic()
                    self.answered.set()
        with self._lock:
            self._ended = True
            lost = list(self._workers.values())
            self._workers.clear()
        for worker in lost:
            worker.mark_lost()
        self.kill()
        self._process.wait()
        self._commands.put(b"")
        stdout.close()
        self.answered.set()


class RayWorker(Worker):
    """One worker process on a node of the cluster."""

    def __init__(self, gateway: GatewayProcess) -> None:
        super().__init__()
        self._gateway = gateway
        self._placed = self._ended = False
        self._number = gateway.start_worker(self)

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or waits for a free core."""
        return not self._ended

    @property
    def patience_s(self) -> float:
        """Seconds of waiting before the job says so: none if the cluster does not answer."""
        return super().patience_s if self._gateway.has_cluster else 0.0

    @property
    def waits_for(self) -> str | None:
        if not self._gateway.has_cluster:
            return NO_CLUSTER
        return None if self._placed else NO_CORE

    def kill(self) -> None:
        """End it at once, also if the cluster does not answer."""
        self._messages.put(Outcome(was_ready=self.is_ready))
        self._close()

    def mark_lost(self) -> None:
        """Note that its gateway has ended, so its state is unknown."""
        self._ended = True
        self._messages.put(Outcome(was_ready=False))

    def handle(self, message: dict[str, Any], read: Callable[[int], bytes]) -> None:
        if "placed" in message:
            self._placed = True
        elif "died" in message:
            self._ended = True
            self._messages.put(Outcome(was_ready=message["died"]))
        else:
            super().handle(message, read)

    def _submit(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        order = {"length": len(recipe), "memory_gb": memory_gb, "time_limit_s": time_limit_s}
        self._gateway.send({"id": self._number, "do": "solve"} | order, recipe)

    def _close(self) -> None:
        self._ended = True
        self._gateway.end_worker(self._number)


class RayWorkerPool(WorkerPool):
    """Workers on a cluster. The spare worker never takes the last free core."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._joining = threading.Lock()
        self._gateway: GatewayProcess

    def start(self) -> int:
        """Join the cluster and return how many cores it has; raise InputError if that fails."""
        self._gateway = GatewayProcess(self._address)
        self._gateway.answered.wait(RETRY.gateway_lost_s)
        if not self._gateway.has_cluster:
            self._gateway.kill()
            raise InputError(
                self._gateway.problem
                or "cluster must be auto, or HOST:PORT of a Ray cluster with cores, of which this "
                f"machine is a node, got {self._address}: ray start joins one"
            )
        return self._gateway.cores

    def _new(self) -> Worker:
        return RayWorker(self._gateway)

    @property
    def is_usable(self) -> bool:
        """Whether the cluster answers, and workers start on it."""
        return self._gateway.has_cluster and super().is_usable

    def start_spare(self) -> None:
        """Start the spare worker, or end it if no core is free for other work."""
        self._rejoin()
        free = self._gateway.free
        if free >= 2:
            super().start_spare()
        elif free < 1:
            with self._lock:
                spare, self._spare = self._spare, None
            if spare is not None:
                spare.kill()

    def stop(self) -> None:
        """End all workers. Their jobs stay unfinished and run again at the next start."""
        super().stop()
        self._gateway.kill()

    def _rejoin(self) -> None:
        """Replace a gateway that has ended, or whose cluster has been silent for too long."""
        with self._joining:
            gateway = self._gateway
            too_soon = time.monotonic() < gateway.started + RETRY.gateway_pause_s
            if self.stopping or gateway.is_alive or too_soon:
                return
            _log.error("%s", gateway.problem or "the cluster does not answer: joining it again")
            gateway.kill()
            with self._lock:
                self._spare, self._cold_deaths = None, 0
                self._gateway = GatewayProcess(self._address)
