"""The queue: takes jobs from the database and has each built, also after a crash.

The table of jobs is the queue. A job is ``queued`` until a server claims it. Then it is ``running``
and has an owner: the server's name and a random token. Only the owner can end it. A job of a server
that has ended or stays silent is queued again. docs/architecture.md says why no library does this.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from whereish.distributed.ray_pool import RayWorkerPool
from whereish.retries import RETRY
from whereish.service.error_body import describe_error
from whereish.service.jobs.database import DatabaseError
from whereish.service.jobs.sealing import SealError
from whereish.service.jobs.store import Jobs
from whereish.service.settings import Settings
from whereish.service.workers.pool import WorkerPool
from whereish.service.workers.worker import Outcome, Worker
from whereish.solvers.estimates import overtime_seconds

_POLL_S = 0.25  # how often a server looks for jobs that another server has accepted
_STOPPING_S = 3.0
_log = logging.getLogger("whereish.queue")


class Queue:
    """Claims jobs, as many at a time as there are workers, and stores their outcomes."""

    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings = settings
        self._jobs = jobs
        self._workers = (
            WorkerPool() if settings.cluster is None else RayWorkerPool(settings.cluster)
        )
        self._stop = threading.Event()
        self._added = threading.Event()
        self._running: dict[str, Worker | None] = {}  # jobs of this server
        self._lock = threading.Lock()  # of `_running`
        self._claiming = threading.Lock()  # held from a claim until the job is in `_running`
        self._started = False

    @property
    def ready(self) -> bool:
        return self._started and self._workers.is_usable

    @property
    def busy(self) -> int:
        """The number of solves of this server."""
        return len(self._running)

    def start(self) -> None:
        """Queue again what this server has left unfinished, and start to build."""
        cores = self._workers.start()
        workers = cores if self._settings.workers is None else self._settings.workers
        _remove_former_queue(self._settings)
        # On a full disk, or without its database, the server starts: housekeeping does this again.
        with contextlib.suppress(DatabaseError):
            self._jobs.requeue(self._settings.server)
            # Other servers must know this one before it owns a job.
            self._jobs.take_over(self._settings.server, RETRY.server_silent_s)
        for work in (lambda: self._dispatch(workers), self._keep_house):
            threading.Thread(target=work, daemon=True).start()
        self._started = True

    def stop(self) -> None:
        """End the solves of this server; their jobs are queued again."""
        self._started = False
        self._stop.set()
        self._workers.stop()
        # Without a database they are queued at the next start, or by another server.
        release = threading.Thread(target=self._release_jobs, daemon=True)
        release.start()
        release.join(_STOPPING_S)

    def _release_jobs(self) -> None:
        with self._claiming, contextlib.suppress(DatabaseError):
            self._jobs.requeue(self._settings.server)

    def notify(self) -> None:
        self._added.set()

    def cancel(self, id_: str) -> None:
        """End the solve of a deleted job, if this server runs it."""
        with self._lock:
            worker = self._running.get(id_)
        if worker is not None:
            worker.kill()

    # --- building -----------------------------------------------------------------------------

    def _dispatch(self, workers: int) -> None:
        """Claim a job whenever a worker is free."""
        free = threading.Semaphore(workers)
        while not self._stop.is_set():
            free.acquire()
            while (claimed := self._claim()) is None and not self._stop.is_set():
                self._added.wait(_POLL_S)
                self._added.clear()
            if claimed is not None:
                threading.Thread(target=self._run, args=(*claimed, free), daemon=True).start()

    def _claim(self) -> tuple[str, str, bytes] | None:
        """Return id, owner and sealed recipe of the next job, or None."""
        owner = f"{self._settings.server} {secrets.token_hex(8)}"
        try:
            with self._claiming:
                if self._stop.is_set():
                    return None
                claimed = self._jobs.claim(owner)
                if claimed is None:
                    return None
                with self._lock:
                    self._running[claimed[0]] = None
        except DatabaseError:
            return None
        return claimed[0], owner, claimed[1]

    def _run(self, id_: str, owner: str, sealed: bytes, free: threading.Semaphore) -> None:
        """Build a job in a thread. After an error here, housekeeping queues it again."""
        try:
            self._build(id_, owner, sealed)
        except Exception as wrong:
            _log.error("job interrupted: %s", type(wrong).__name__, extra={"job": id_[:8]})
            if not isinstance(wrong, DatabaseError):
                with contextlib.suppress(DatabaseError):
                    self._jobs.count_death(id_, owner)
        finally:
            with self._lock:
                self._running.pop(id_, None)
            free.release()

    def _build(self, id_: str, owner: str, sealed: bytes) -> None:
        """Build a job, with another worker after each death, until it has ended."""
        try:
            recipe = self._jobs.unsealed(id_, sealed)
        except SealError as wrong:
            self._jobs.fail(id_, owner, describe_error("unreadable", str(wrong), "service"))
            return
        while True:
            worker = self._workers.acquire()
            with self._lock:
                self._running[id_] = worker
            try:
                outcome = worker.solve(
                    recipe,
                    self._settings.limits.memory_gb,
                    self._seconds(recipe),
                    lambda progress: self._set_progress(id_, progress),
                    lambda: self._is_wanted(id_, owner),
                )
            finally:
                self._workers.release(worker)
            if self._workers.stopping:
                return  # `stop` queues it again
            if _retry_database(self._store, id_, owner, outcome):
                return

    def _store(self, id_: str, owner: str, outcome: Outcome) -> bool:
        """Store the outcome of an attempt; return whether it was the last."""
        extra = {"job": id_[:8]}
        if outcome.file is not None and outcome.result is not None:
            etag = hashlib.sha256(outcome.file).hexdigest()
            self._jobs.finish(id_, owner, etag, outcome.file, outcome.result)
            _log.info("job done", extra=extra)
            return True
        if outcome.error is not None:
            self._jobs.fail(id_, owner, outcome.error)
            _log.info("job ended: %s", outcome.error["code"], extra=extra)
            return True
        if not self._jobs.is_wanted(id_, owner):
            return True
        if not outcome.was_ready:
            time.sleep(RETRY.cold_pause_s)  # no recipe is at fault if a worker cannot start
            return False
        parked = self._jobs.count_death(id_, owner)
        text = "a worker died: the job is parked" if parked else "a worker died: trying again"
        _log.warning(text, extra=extra)
        return parked

    def _seconds(self, recipe: bytes) -> float:
        """Return the seconds after which a solve is ended.

        They are the time limit of its recipe, or of the service, plus the time to repair, pack and
        audit the result.
        """
        document, most = json.loads(recipe), self._settings.limits.time_limit_s
        wanted = document.get("time_limit_s")
        limit = most if wanted is None else min(float(wanted), most)
        n = max(len(document["places"].get(kind, ())) for kind in ("xy_km", "latlon"))
        return 1.2 * limit + overtime_seconds(n, len(document.get("outputs") or ()) or n)

    def _set_progress(self, id_: str, progress: dict[str, Any]) -> None:
        # A database that is away for a moment must not end a solve.
        with contextlib.suppress(DatabaseError):
            self._jobs.set_progress(id_, progress)

    def _is_wanted(self, id_: str, owner: str) -> bool:
        try:
            return self._jobs.is_wanted(id_, owner)
        except DatabaseError:
            return True

    # --- housekeeping -------------------------------------------------------------------------

    def _requeue_interrupted(self) -> None:
        """Queue again the jobs that this server owns but does not build."""
        with self._claiming:
            with self._lock:
                running = set(self._running)
            self._jobs.requeue(self._settings.server, running)

    def _keep_house(self) -> None:
        """Run every duty every few seconds; if one fails, the others still run."""
        duties: tuple[Callable[[], object], ...] = (
            self._workers.start_spare,
            lambda: self._jobs.take_over(self._settings.server, RETRY.server_silent_s),
            self._requeue_interrupted,
            lambda: self._jobs.expire(self._settings.retention_s),
            self._jobs.drop_deleted,
            self._jobs.keep_reserve,
        )
        while True:
            for duty in duties:
                try:
                    duty()
                except Exception as wrong:
                    _log.error("housekeeping failed: %s", type(wrong).__name__)
            if self._stop.wait(RETRY.housekeeping_s):
                return


def _retry_database(store: Callable[..., bool], *arguments: Any) -> bool:
    """Store an outcome, and try again while the database is away: a solve may have taken long."""
    end = time.monotonic() + RETRY.database_away_s
    while True:
        try:
            return store(*arguments)
        except DatabaseError:
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


def _remove_former_queue(settings: Settings) -> None:
    """Overwrite and remove the files of the former queue, which hold ids of jobs."""
    for file in settings.folder.glob("queue.sqlite*"):
        with contextlib.suppress(OSError):
            size = file.stat().st_size
            with file.open("r+b") as stream:
                stream.write(bytes(size))
            file.unlink()
