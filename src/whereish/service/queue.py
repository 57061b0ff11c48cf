"""The queue: DBOS Transact remembers which jobs are to be built, and takes them up after a crash.

DBOS is given ids only: what is personal is in `jobs`, sealed. A job is in the database before it is
in the queue, so that a crash in between loses nothing: whatever is open and not queued is queued
again when a server starts, and every few seconds.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections.abc import Callable
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from whereish.service.jobs import Jobs
from whereish.service.settings import Settings
from whereish.service.solving import Workers

_QUEUE = "builds"
_LOOK_S = 5.0
_SILENT_S = 15.0
_ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
_log = logging.getLogger("whereish.queue")
_building: Callable[[str], None] | None = None


@DBOS.workflow(name="build", max_recovery_attempts=None)
def _build(id_: str) -> None:
    if _building is None:
        raise RuntimeError("the queue has not been started")
    _building(id_)


class Queue:
    """Takes ids, and sees to it that each job is built: once, by whoever is alive."""

    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings = settings
        self._jobs = jobs
        self._workers = Workers()
        self._stop = threading.Event()
        self._running: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.ready = False

    def start(self) -> None:
        """Take up what was left, and begin."""
        global _building
        _building = self._build
        url = self._settings.database
        if url is None:
            url = f"sqlite:///{(self._settings.folder / 'queue.sqlite').resolve()}"
        config: DBOSConfig = {
            "name": "whereish",
            "system_database_url": url,
            "executor_id": self._settings.server,
            # A newer version takes up what an older one has left.
            "application_version": "1",
            "log_level": logging.getLevelName(logging.getLogger("dbos").level),
            "max_executor_threads": self._settings.workers + 8,
            "enable_otlp": False,
        }
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue(
            _QUEUE,
            worker_concurrency=self._settings.workers,
            polling_interval_sec=0.1,
            on_conflict="always_update",
        )
        if self._settings.database is None:
            (self._settings.folder / "queue.sqlite").chmod(0o600)
        self._mend(0.0 if self._settings.database is None else _SILENT_S)
        threading.Thread(target=self._keep_house, daemon=True, name="housekeeper").start()
        threading.Thread(target=self._workers.warm, daemon=True).start()
        self.ready = True

    def stop(self) -> None:
        """End the solves that run: they are taken up again when a server starts."""
        self.ready = False
        self._stop.set()
        self._workers.stop()

    def add(self, id_: str) -> None:
        """Queue a job. Twice is once."""
        with SetWorkflowID(id_):
            DBOS.enqueue_workflow(_QUEUE, _build, id_)

    def forget(self, id_: str) -> None:
        """End the solve of a job that is gone, and forget its id."""
        with self._lock:
            worker = self._running.get(id_)
        if worker is not None:
            worker.kill()
        try:
            DBOS.cancel_workflow(id_)
            DBOS.delete_workflow(id_)
        except Exception as wrong:
            _log.debug("not forgotten by the queue: %s", type(wrong).__name__)

    @property
    def busy(self) -> int:
        """How many solves run here."""
        return len(self._running)

    def _build(self, id_: str) -> None:
        """Build a job: until there is a file, or an error, or three workers have died over it."""
        owner = f"{self._settings.server} {secrets.token_hex(8)}"
        while (recipe := self._jobs.claim(id_, owner)) is not None:
            worker = self._workers.take()
            with self._lock:
                self._running[id_] = worker
            try:
                outcome = worker.solve(
                    recipe,
                    self._settings.limits.memory_gb,
                    # What is handed over when the time is up still has to be repaired and audited.
                    1.2 * self._settings.limits.time_limit_s + 30,
                    lambda far: self._jobs.tell(id_, far),
                    lambda: self._jobs.is_wanted(id_, owner),
                )
            finally:
                self._workers.give_back(worker)
                with self._lock:
                    self._running.pop(id_, None)
            if self._workers.stopping:
                # The queue must believe that it still runs: then it is taken up again.
                threading.Event().wait()
            if outcome.file is not None and outcome.result is not None:
                etag = hashlib.sha256(outcome.file).hexdigest()
                self._jobs.finish(id_, owner, etag, outcome.file, outcome.result)
                _log.info("job done", extra={"job": id_[:8]})
                return
            if outcome.error is not None:
                self._jobs.fail(id_, owner, outcome.error)
                _log.info("job ended: %s", outcome.error["code"], extra={"job": id_[:8]})
                return
            if self._jobs.is_wanted(id_, owner):
                parked = self._jobs.died(id_, owner)
                words = "a worker died: the job is parked" if parked else "a worker died: once more"
                _log.warning(words, extra={"job": id_[:8]})

    def _mend(self, age_s: float) -> None:
        """Queue again whatever is open and that the queue has lost or believes to have ended."""
        for id_ in self._jobs.open_since(age_s):
            status = DBOS.get_workflow_status(id_)
            if status is not None and status.status in _ENDED:
                DBOS.delete_workflow(id_)
                status = None
            if status is None:
                _log.info("job queued again", extra={"job": id_[:8]})
                self.add(id_)

    def _keep_house(self) -> None:
        """Every few seconds: say that this server lives, take over from others, forget the old."""
        while True:
            try:
                for lost in self._jobs.alive(self._settings.server, _SILENT_S):
                    left = DBOS.list_workflows(
                        status="PENDING", executor_id=lost, load_input=False, load_output=False
                    )
                    if left:
                        _log.warning("taking over %d jobs of a server that is gone", len(left))
                        DBOS.resume_workflows([w.workflow_id for w in left], queue_name=_QUEUE)
                for id_ in self._jobs.expire(self._settings.retention_s):
                    DBOS.delete_workflow(id_)
                self._mend(_SILENT_S)
            except Exception as wrong:
                _log.error("housekeeping failed: %s", type(wrong).__name__)
            if self._stop.wait(_LOOK_S):
                return
