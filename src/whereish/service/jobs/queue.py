"""The queue: DBOS Transact remembers which jobs are to be built, and takes them up after a crash.

DBOS is given ids only: what is personal is in `jobs`, sealed. A job is in the database before it is
in the queue, so that a crash in between loses nothing: whatever is open and not queued is queued
again when a server starts, and every few seconds.
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

from dbos import DBOS, DBOSConfig, SetEnqueueOptions, SetWorkflowID
from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError

from whereish.distributed.ray_pool import RayWorkerPool
from whereish.errors import InputError
from whereish.mechanisms.plan import overtime_seconds
from whereish.retries import RETRY
from whereish.service.errors import describe_error
from whereish.service.jobs.database import DatabaseError
from whereish.service.jobs.sealing import SealError
from whereish.service.jobs.store import Jobs
from whereish.service.settings import Settings
from whereish.service.workers.pool import WorkerPool
from whereish.service.workers.worker import Outcome

_QUEUE = "builds"
_LOOK_S = 5.0
_RARELY = 720  # rounds of housekeeping, an hour
_ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
_log = logging.getLogger("whereish.queue")
_building: Callable[[str], None] | None = None


@DBOS.workflow(name="build", max_recovery_attempts=None)
def _build(id_: str) -> None:
    if _building is None:
        raise RuntimeError("the queue has not been started")
    _building(id_)


def _overwrite_what_is_deleted(connection: Any, record: Any) -> None:
    """Have SQLite leave nothing of a deleted row in its file."""
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA secure_delete=ON")


def _patiently(note: Callable[..., bool], *what: Any) -> bool:
    """Note something in a database that may be gone for a while; what was solved is worth it."""
    end = time.monotonic() + RETRY.database_s
    while True:
        try:
            return note(*what)
        except DatabaseError:
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


class Queue:
    """Takes ids, and sees to it that each job is built: once, by whoever is alive."""

    def __init__(self, settings: Settings, jobs: Jobs) -> None:
        self._settings = settings
        self._jobs = jobs
        self._workers = (
            WorkerPool(settings.folder)
            if settings.cluster is None
            else RayWorkerPool(settings.cluster)
        )
        self._stop = threading.Event()
        self._running: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._started = False

    @property
    def ready(self) -> bool:
        """Whether jobs are being built, or could be."""
        return self._started and self._workers.is_usable

    def start(self) -> None:
        """Take up what was left, and begin.

        Raises
        ------
        InputError
            If the cluster or the database is not one that can be used.
        """
        global _building
        cores = self._workers.start()
        workers = cores if self._settings.workers is None else self._settings.workers
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
            "max_executor_threads": workers + 8,
            "enable_otlp": False,
        }
        event.listen(Engine, "connect", _overwrite_what_is_deleted)
        try:
            DBOS(config=config)
            DBOS.launch()
            DBOS.register_queue(
                _QUEUE,
                worker_concurrency=workers,
                polling_interval_sec=0.1,
                on_conflict="always_update",
            )
        except SQLAlchemyError as wrong:
            raise InputError(
                "database must be one in which tables and the schema dbos can be made, and it is "
                f"not ({type(wrong).__name__}): see docs/deploy.md"
            ) from None
        if self._settings.database is None:
            (self._settings.folder / "queue.sqlite").chmod(0o600)
        self._forget_deleted()
        self._forget_unknown()
        self._mend(0.0 if self._settings.database is None else RETRY.server_silent_s)
        threading.Thread(target=self._keep_house, daemon=True, name="housekeeper").start()
        threading.Thread(target=self._workers.warm, daemon=True).start()
        self._started = True

    def stop(self) -> None:
        """End the solves that run: they are taken up again when a server starts."""
        self._started = False
        self._stop.set()
        self._workers.stop()

    def add(self, id_: str, turn: int = 1) -> None:
        """Queue a job. Twice is once.

        Parameters
        ----------
        turn
            How many jobs the client has waiting: who has fewer goes first.
        """
        with SetWorkflowID(id_), SetEnqueueOptions(priority=max(1, min(turn, 10_000))):
            DBOS.enqueue_workflow(_QUEUE, _build, id_)

    def forget(self, id_: str) -> None:
        """End the solve of a deleted job, and forget its id.

        If the server is killed before that is done, it is done when one starts: the id is among
        the deleted in the database as long as the queue may know it.
        """
        with self._lock:
            worker = self._running.get(id_)
        if worker is not None:
            worker.kill()  # its end is noted by the queue, and forgotten by the housekeeper
            return
        DBOS.delete_workflow(id_)
        self._jobs.clear_tombstones([id_])

    @property
    def busy(self) -> int:
        """How many solves run here."""
        return len(self._running)

    def _build(self, id_: str) -> None:
        """Build a job: until there is a file, or an error, or three workers have died over it."""
        owner = f"{self._settings.server} {secrets.token_hex(8)}"
        while (sealed := self._jobs.claim(id_, owner)) is not None:
            try:
                recipe = self._jobs.unsealed(id_, sealed)
            except SealError as wrong:
                error = describe_error("unreadable", str(wrong), "service")
                self._jobs.fail(id_, owner, error)
                return
            worker = self._workers.acquire()
            with self._lock:
                self._running[id_] = worker
            try:
                outcome = worker.solve(
                    recipe,
                    self._settings.limits.memory_gb,
                    self._seconds(recipe),
                    lambda far: self._tell(id_, far),
                    lambda: self._is_wanted(id_, owner),
                )
            finally:
                self._workers.release(worker)
                with self._lock:
                    self._running.pop(id_, None)
            if self._workers.stopping:
                # The queue must believe that it still runs: then it is taken up again.
                threading.Event().wait()
            if _patiently(self._note, id_, owner, outcome):
                return

    def _note(self, id_: str, owner: str, outcome: Outcome) -> bool:
        """Note what came of an attempt; tell whether it was the last."""
        told = {"job": id_[:8]}
        if outcome.file is not None and outcome.result is not None:
            etag = hashlib.sha256(outcome.file).hexdigest()
            self._jobs.finish(id_, owner, etag, outcome.file, outcome.result)
            _log.info("job done", extra=told)
            return True
        if outcome.error is not None:
            self._jobs.fail(id_, owner, outcome.error)
            _log.info("job ended: %s", outcome.error["code"], extra=told)
            return True
        if not outcome.was_warm:
            time.sleep(RETRY.cold_pause_s)  # that a worker cannot start is no fault of the recipe's
            return False
        if self._jobs.is_wanted(id_, owner):
            parked = self._jobs.died(id_, owner)
            words = "a worker died: the job is parked" if parked else "a worker died: once more"
            _log.warning(words, extra=told)
            return parked
        return True

    def _seconds(self, recipe: bytes) -> float:
        """Return after how long a solve is ended.

        That is as long as its recipe says, or else the service, and what it takes on top to repair,
        pack and audit what is then handed over.
        """
        told, most = json.loads(recipe), self._settings.limits.time_limit_s
        wanted = told.get("time_limit_s")
        limit = most if wanted is None else min(float(wanted), most)
        n = max(len(told["places"].get(kind, ())) for kind in ("xy_km", "latlon"))
        return 1.2 * limit + overtime_seconds(n, len(told.get("outputs") or ()) or n)

    def _tell(self, id_: str, far: dict[str, Any]) -> None:
        # A database that is gone for a moment must not cost a solve.
        with contextlib.suppress(DatabaseError):
            self._jobs.set_progress(id_, far)

    def _is_wanted(self, id_: str, owner: str) -> bool:
        try:
            return self._jobs.is_wanted(id_, owner)
        except DatabaseError:
            return True

    def _mend(self, age_s: float) -> None:
        """Queue again whatever is open and that the queue has lost or believes to have ended."""
        waiting = self._jobs.open_since(age_s)
        if not waiting:
            return
        known = DBOS.list_workflows(workflow_ids=waiting, load_input=False, load_output=False)
        ended = [told.workflow_id for told in known if told.status in _ENDED]
        if ended:
            DBOS.delete_workflows(ended)
        queued = {told.workflow_id for told in known} - set(ended)
        for id_ in waiting:
            if id_ not in queued:
                _log.info("job queued again", extra={"job": id_[:8]})
                self.add(id_)

    def _forget_deleted(self) -> None:
        """Forget what was deleted, unless it is still being ended here."""
        gone = self._jobs.deleted()
        for id_ in gone:
            self.forget(id_)

    def _forget_unknown(self) -> None:
        """Forget whatever is in the queue and is no job: a job is in the database before."""
        queued = DBOS.list_workflows(name="build", load_input=False, load_output=False)
        known = self._jobs.ids()
        unknown = [told.workflow_id for told in queued if told.workflow_id not in known]
        for i in range(0, len(unknown), 1000):
            DBOS.delete_workflows(unknown[i : i + 1000])

    def _take_over(self) -> None:
        """Say that this server lives, and take over from others that do not."""
        for lost in self._jobs.heartbeat(self._settings.server, RETRY.server_silent_s):
            left = DBOS.list_workflows(
                status="PENDING", executor_id=lost, load_input=False, load_output=False
            )
            if left:
                _log.warning("taking over %d jobs of a server that is gone", len(left))
                DBOS.resume_workflows([w.workflow_id for w in left], queue_name=_QUEUE)
            self._jobs.remove_server(lost)

    def _keep_house(self) -> None:
        """Do every few seconds what has to be done again and again; if one fails, others go on."""
        duties: tuple[Callable[[], object], ...] = (
            self._workers.warm,
            lambda: self._jobs.expire(self._settings.retention_s),
            self._forget_deleted,
            self._jobs.keep_reserve,
            self._take_over,
            lambda: self._mend(RETRY.server_silent_s),
        )
        rounds = 0
        while not self._stop.wait(_LOOK_S if rounds else 0):
            rounds += 1
            due = duties if rounds % _RARELY else (*duties, self._forget_unknown)
            for duty in due:
                try:
                    duty()
                except Exception as wrong:
                    _log.error("housekeeping failed: %s", type(wrong).__name__)
