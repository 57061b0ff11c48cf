"""The job store: jobs in the database, from the request to the deletion.

A recipe is stored sealed, and only until its job has ended.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from whereish.errors import GuaranteeError, InputError, WhereishError
from whereish.mechanisms import Plan
from whereish.retries import RETRY
from whereish.service.error_body import describe_error
from whereish.service.jobs.database import Database
from whereish.service.jobs.model import (
    DONE,
    FAILED,
    FINAL,
    OPEN,
    PARKED,
    QUEUED,
    RUNNING,
    Job,
    JobCache,
)
from whereish.service.jobs.sealing import WRONG_SECRET, Seal
from whereish.service.limits import Limits
from whereish.spec import Recipe


class TooMuchError(WhereishError):
    """The queue is full, or the client has too many jobs."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Jobs:
    """The jobs of a service. A client can only reach its own jobs."""

    def __init__(self, database: Database, seal: Seal, limits: Limits) -> None:
        self._database = database
        self._seal = seal
        self._limits = limits
        self.cache = JobCache(keeps=database.embedded)
        self._written_at: dict[str, float] = {}
        self._accepting = threading.Lock()

    def accepted(self, client: str, name: str, body: bytes) -> Job | None:
        """Return the job of this Idempotency-Key; raise InputError if its recipe was another."""
        found = self._accepted(self._database.read, client, name, body)
        return None if found is None else self.get(client, found)

    def _accepted(
        self, run: Callable[..., Iterable[Any]], client: str, name: str, body: bytes
    ) -> str | None:
        statement = "SELECT body, job FROM idempotency_keys WHERE client = ? AND name = ?"
        for used_for, job in run(statement, (client, self._seal.digest(name.encode()))):
            if used_for != self._seal.digest(body):
                message = "Idempotency-Key must be new for a new recipe, and this one was used for"
                raise InputError(f"{message} another", "Idempotency-Key")
            return str(job)
        return None

    def accept(
        self, client: str, recipe: Recipe, plan: Plan, body: bytes, name: str | None
    ) -> tuple[Job, bool]:
        """Store a recipe as a job, or raise TooMuchError; return the job and whether it is new."""
        about = {
            "places": len(recipe.places),
            "outputs": recipe.reports,
            "method": recipe.method,
            "guarantee": recipe.guarantee,
            "epsilon_per_km": recipe.epsilon_per_km,
            "estimate": {"seconds": round(plan.seconds, 3), "memory_gb": round(plan.memory_gb, 3)},
        }
        id_, now = secrets.token_urlsafe(18), time.time()
        sealed = self._seal.close(body, id_)
        # One thread at a time: more would only wait for the same lock of the database.
        with self._accepting, self._database.transaction() as run:
            if not self._database.embedded:
                run("LOCK TABLE idempotency_keys IN SHARE ROW EXCLUSIVE MODE")
            known = None if name is None else self._accepted(run, client, name, body)
            if known is None:
                self._check_space(run, client)
                # A client with fewer open jobs comes first.
                run(
                    "INSERT INTO jobs "
                    "(client, id, state, created, changed, about, recipe, priority) "
                    "SELECT ?, ?, ?, ?, ?, ?, ?, COUNT(*) FROM jobs "
                    "WHERE client = ? AND state IN (?, ?)",
                    (client, id_, QUEUED, now, now, json.dumps(about), sealed, client, *OPEN),
                )
                if name is not None:
                    used = (client, self._seal.digest(name.encode()), self._seal.digest(body), id_)
                    run("INSERT INTO idempotency_keys VALUES (?, ?, ?, ?)", used)
        if known is not None:
            job = self.get(client, known)
            if job is None:
                raise InputError("the job of this Idempotency-Key was deleted just now", "id")
            return job, False
        return Job(id_, QUEUED, now, about), True

    def _check_space(self, run: Any, client: str) -> None:
        ((waiting,),) = run("SELECT COUNT(*) FROM jobs WHERE state = ?", (QUEUED,)).fetchall()
        if waiting >= self._limits.queue:
            raise TooMuchError(f"the queue is full: {waiting} jobs are waiting", 10)
        ((own,),) = run("SELECT COUNT(*) FROM jobs WHERE client = ?", (client,)).fetchall()
        if own >= self._limits.jobs_per_key:
            raise TooMuchError(
                f"there are {own} jobs of this key already: delete those that are done", 10
            )

    def get(self, client: str, id_: str) -> Job | None:
        """Return a job of this client, or None.

        A job of another client is searched for in the same way as one that does not exist.
        """
        mark = self.cache.mark
        rows = self._database.read(
            "SELECT state, created, about, COALESCE(progress, 'null'), COALESCE(error, 'null'), "
            "etag FROM jobs WHERE client = ? AND id = ?",
            (client, id_),
        )
        if not rows:
            return None
        state, created, about, progress, error, etag = rows[0]
        now = (self.cache.progress(id_) if state == RUNNING else None) or json.loads(progress)
        job = Job(id_, state, created, json.loads(about), now, json.loads(error), etag)
        self.cache.keep(client, job, mark)
        return job

    def file(self, client: str, id_: str) -> bytes | None:
        """Return the file of a job that is done, or None; raise GuaranteeError if it changed."""
        rows = self._database.read(
            "SELECT etag, file FROM jobs WHERE client = ? AND id = ? AND state = ?",
            (client, id_, DONE),
        )
        if not rows:
            return None
        content = self._seal.open(bytes(rows[0][1]), f"file {id_}")
        if hashlib.sha256(content).hexdigest() != rows[0][0]:
            raise GuaranteeError("the file was changed after it was certified, so it is withheld")
        return content

    def delete(self, client: str, id_: str) -> bool:
        """Delete a job with everything about it; return whether there was one."""

        def work(run: Any) -> bool:
            run("DELETE FROM idempotency_keys WHERE client = ? AND job = ?", (client, id_))
            return bool(run("DELETE FROM jobs WHERE client = ? AND id = ?", (client, id_)).rowcount)

        if not self._database.erase(work):
            return False
        self._forget(id_)
        self._wipe()
        return True

    def _wipe(self) -> None:
        """Remove deleted data from the files, after other readers are done."""
        for _ in range(40):
            if self._database.wipe():
                return
            time.sleep(0.05)

    def _forget(self, id_: str) -> None:
        self.cache.forget(id_)
        self._written_at.pop(id_, None)

    # --- for the queue ------------------------------------------------------------------------

    def claim(self, owner: str) -> tuple[str, bytes] | None:
        """Make this the owner of the next job; return its id and sealed recipe, or None."""
        if not self._database.read("SELECT 1 FROM jobs WHERE state = ? LIMIT 1", (QUEUED,)):
            return None
        # With PostgreSQL several servers claim at the same time, each another job.
        lock = "" if self._database.embedded else " FOR UPDATE SKIP LOCKED"
        with self._database.transaction() as run:
            rows = run(
                "SELECT id, recipe FROM jobs WHERE state = ? "  # noqa: S608
                f"ORDER BY priority, created LIMIT 1{lock}",
                (QUEUED,),
            ).fetchall()
            if not rows:
                return None
            id_, sealed = rows[0]
            run(
                "UPDATE jobs SET state = ?, owner = ?, changed = ? WHERE id = ?",
                (RUNNING, owner, time.time(), id_),
            )
        self.cache.forget(id_)
        return id_, bytes(sealed)

    def requeue(self, server: str, keep: Collection[str] = ()) -> None:
        """Queue again all running jobs of a server, except those to keep."""
        rows = self._database.read(
            "SELECT id, owner FROM jobs WHERE state = ? AND SUBSTR(owner, 1, ?) = ?",
            (RUNNING, len(server) + 1, f"{server} "),
        )
        for id_, owner in rows:
            if id_ not in keep:
                self._database.write(
                    "UPDATE jobs SET state = ?, owner = NULL, progress = NULL "
                    "WHERE id = ? AND owner = ? AND state = ?",
                    (QUEUED, id_, owner, RUNNING),
                )
                self._forget(id_)

    def take_over(self, server: str, silent_s: float) -> None:
        """Note that a server runs, and queue again the jobs of servers that are silent."""
        if self._database.embedded:
            return
        now = self._database.now
        with self._database.transaction() as run:
            run(
                f"INSERT INTO servers VALUES (?, {now}) "  # noqa: S608
                f"ON CONFLICT (name) DO UPDATE SET seen = {now}",
                (server,),
            )
            run(f"DELETE FROM servers WHERE seen < {now} - ?", (silent_s,))  # noqa: S608
            run(
                "UPDATE jobs SET state = ?, owner = NULL, progress = NULL WHERE state = ? "
                "AND NOT EXISTS (SELECT 1 FROM servers "
                "WHERE SUBSTR(owner, 1, LENGTH(name) + 1) = name || ' ')",
                (QUEUED, RUNNING),
            )

    def unsealed(self, id_: str, sealed: bytes) -> bytes:
        return self._seal.open(sealed, id_)

    def set_progress(self, id_: str, progress: dict[str, Any]) -> None:
        self.cache.set_progress(id_, progress)
        now = time.monotonic()
        if not self._database.embedded and now - self._written_at.get(id_, 0.0) > 1.0:
            self._written_at[id_] = now
            self._database.write(
                "UPDATE jobs SET progress = ?, changed = ? WHERE id = ? AND state = ?",
                (json.dumps(progress), time.time(), id_, RUNNING),
            )

    def is_wanted(self, id_: str, owner: str) -> bool:
        """Return whether a job still exists and still has this owner."""
        return bool(
            self._database.read("SELECT 1 FROM jobs WHERE id = ? AND owner = ?", (id_, owner))
        )

    def finish(self, id_: str, owner: str, etag: str, file: bytes, result: dict[str, Any]) -> bool:
        """Store the file of a job and remove its recipe. Only its owner can, and only once."""
        return self._end(
            id_, owner, DONE,
            progress=json.dumps(result), etag=etag, file=self._seal.close(file, f"file {id_}"),
        )  # fmt: skip

    def fail(self, id_: str, owner: str, error: dict[str, Any]) -> bool:
        return self._end(id_, owner, FAILED, error=json.dumps(error))

    def count_death(self, id_: str, owner: str) -> bool:
        """Count the death of a worker; return whether the job is parked now."""
        message = (
            f"the worker died {RETRY.deaths} times over this recipe, so it is not tried again: it "
            "may need more memory than there is; delete it, and try fewer places or a dilation"
        )
        error = json.dumps(describe_error("parked", message, "places"))
        with self._database.transaction() as run:
            run("UPDATE jobs SET deaths = deaths + 1 WHERE id = ? AND owner = ?", (id_, owner))
            parked = run(
                "UPDATE jobs SET state = ?, changed = ?, recipe = NULL, error = ? "
                "WHERE id = ? AND owner = ? AND deaths >= ?",
                (PARKED, time.time(), error, id_, owner, RETRY.deaths),
            ).rowcount
        self._forget(id_)
        if parked:
            self._wipe()
        return bool(parked)

    def _end(self, id_: str, owner: str, state: str, **columns: Any) -> bool:
        names = "".join(f", {name} = ?" for name in columns)
        ended = self._database.write(
            f"UPDATE jobs SET state = ?, changed = ?, recipe = NULL{names} "  # noqa: S608
            "WHERE id = ? AND owner = ? AND state = ?",
            (state, time.time(), *columns.values(), id_, owner, RUNNING),
        )
        self._forget(id_)
        if ended:
            self._wipe()
        return bool(ended)

    # --- housekeeping -------------------------------------------------------------------------

    def expire(self, retention_s: float) -> list[str]:
        """Delete jobs that ended so long ago, and return their ids."""
        old = self._database.read(
            "SELECT client, id FROM jobs WHERE state IN (?, ?, ?) AND changed < ?",
            (*FINAL, time.time() - retention_s),
        )
        # One at a time: a full disk may have space for one only.
        return [id_ for client, id_ in old if self.delete(client, id_)]

    def keep_reserve(self) -> None:
        self._database.keep_reserve()

    def drop_deleted(self) -> None:
        """Drop jobs from memory that another process has deleted (`whereish keys revoke`)."""
        ids = [id_ for (id_,) in self._database.read("SELECT id FROM deleted_jobs")]
        if not ids:
            return

        def work(run: Any) -> None:
            for id_ in ids:
                run("DELETE FROM deleted_jobs WHERE id = ?", (id_,))

        for id_ in ids:
            self._forget(id_)
        self._database.erase(work)
        self._wipe()

    def check_seal(self) -> None:
        """Raise InputError if the database was sealed with another secret."""
        mine = self._seal.digest(b"whereish")
        with self._database.transaction() as run:
            found = run("SELECT digest FROM sealed_with").fetchall()
            if not found:
                run("INSERT INTO sealed_with VALUES (?)", (mine,))
        if found and found[0][0] != mine:
            raise InputError(WRONG_SECRET)

    def counts(self) -> dict[str, int]:
        rows = self._database.read("SELECT state, COUNT(*) FROM jobs GROUP BY state")
        return dict.fromkeys((*OPEN, *FINAL), 0) | {state: int(n) for state, n in rows}
