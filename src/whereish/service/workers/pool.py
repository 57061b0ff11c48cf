"""The pool of local workers: one is started before it is needed, because a start takes seconds."""

from __future__ import annotations

import threading

from whereish.parallel import cores
from whereish.retries import RETRY
from whereish.service.workers.worker import LocalWorker, Worker


class WorkerPool:
    """Workers in use, and one spare worker that is ready before it is needed."""

    def __init__(self) -> None:
        self._cold_deaths = 0
        self._lock = threading.Lock()
        self._spare: Worker | None = None
        self._busy: set[Worker] = set()
        self.stopping = False

    def start(self) -> int:
        """Start the pool; return how many solves run at a time unless the operator sets it."""
        return cores()

    def _new(self) -> Worker:
        return LocalWorker()

    def start_spare(self) -> None:
        """Start the spare worker if there is none."""
        with self._lock:
            spare = self._spare
            if spare is not None:
                if spare.is_ready:
                    self._cold_deaths = 0
                elif not spare.is_alive:
                    self._cold_deaths += 1
            if not self.stopping and (spare is None or not spare.is_alive):
                self._spare = self._new()

    @property
    def is_usable(self) -> bool:
        """Whether workers start: False if several in a row died before they were ready."""
        return self._cold_deaths < RETRY.cold_deaths

    def acquire(self) -> Worker:
        """Return a worker, and start the next spare one."""
        with self._lock:
            worker = self._spare
            self._spare = None
        if worker is None or not worker.is_alive:
            worker = self._new()
        self.start_spare()
        with self._lock:
            self._busy.add(worker)
        return worker

    def release(self, worker: Worker) -> None:
        """Remove a worker that has ended."""
        with self._lock:
            self._busy.discard(worker)
            if worker.is_ready:
                self._cold_deaths = 0

    def stop(self) -> None:
        """Kill all workers. Their jobs stay unfinished and run again at the next start."""
        self.stopping = True
        with self._lock:
            for worker in (*self._busy, *([self._spare] if self._spare else [])):
                worker.kill()
