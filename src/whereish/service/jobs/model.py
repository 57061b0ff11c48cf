"""A job as its client sees it, and a cache of jobs in this process.

::

    queued -> running -> done        the file is there
                      -> queued      its server ended, and it starts again
                      -> failed      the recipe cannot be built; the error says why
                      -> parked      its worker died three times
    a deleted job is removed
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

QUEUED, RUNNING, DONE, FAILED, PARKED = "queued", "running", "done", "failed", "parked"
OPEN, FINAL = (QUEUED, RUNNING), (DONE, FAILED, PARKED)


@dataclass(frozen=True)
class Job:
    """A job as its client sees it."""

    id: str
    state: str
    created: float
    about: dict[str, Any]
    progress: dict[str, Any] | None = None  # of the solve, or, under "note", what it waits for
    error: dict[str, Any] | None = None
    etag: str | None = None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @cached_property
    def content(self) -> bytes:
        """The job as JSON, as it is sent."""
        note = None if self.progress is None else self.progress.get("note")
        created = datetime.fromtimestamp(self.created, UTC).isoformat(timespec="milliseconds")
        document = {
            "id": self.id,
            "state": self.state,
            "created": created,
            **self.about,
            "progress": self.progress if note is None else None,
            "error": self.error,
            "note": note,
        }
        return json.dumps(document, allow_nan=False).encode()


class JobCache:
    """The progress of the solves of this process, and jobs that have not changed since reading.

    Jobs are cached only if this process is the only server (``keeps``): then a job changes only
    through this process.
    """

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._progress: dict[str, dict[str, Any]] = {}
        self._jobs: dict[str, tuple[str, Job]] = {}
        self._changes = 0
        self._lock = threading.Lock()

    @property
    def mark(self) -> int:
        """A number that changes with every change of a job."""
        return self._changes

    def get(self, client: str, id_: str) -> Job | None:
        owner, job = self._jobs.get(id_, ("", None))
        return job if owner == client else None

    def keep(self, client: str, job: Job, mark: int) -> None:
        """Cache a job that was read, unless a job has changed since the mark."""
        with self._lock:
            if self._keeps and mark == self._changes:
                self._jobs[job.id] = (client, job)

    def progress(self, id_: str) -> dict[str, Any] | None:
        return self._progress.get(id_)

    def set_progress(self, id_: str, progress: dict[str, Any]) -> None:
        """Note the progress of a solve: requests for it need no database."""
        with self._lock:
            self._progress[id_] = progress
            self._changes += 1
            if id_ in self._jobs:
                client, job = self._jobs[id_]
                self._jobs[id_] = (client, replace(job, progress=progress))

    def forget(self, id_: str) -> None:
        """Remove a job that has changed or was deleted."""
        with self._lock:
            self._changes += 1
            self._progress.pop(id_, None)
            self._jobs.pop(id_, None)
