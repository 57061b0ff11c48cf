"""A job as its client sees it, and what this process knows of jobs without asking the database.

::

    queued -> running -> done        the file is there
                      -> failed      the recipe cannot be built; the error says why
                      -> parked      its worker died three times
    a deleted job is nowhere
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
    """What a client may know of a job.

    Attributes
    ----------
    far
        How far it has come, or, under ``note``, why nothing is seen to happen.
    """

    id: str
    state: str
    created: float
    about: dict[str, Any]
    far: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    etag: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in FINAL

    @cached_property
    def content(self) -> bytes:
        """What is sent: JSON."""
        note = None if self.far is None else self.far.get("note")
        created = datetime.fromtimestamp(self.created, UTC).isoformat(timespec="milliseconds")
        document = {
            "id": self.id,
            "state": self.state,
            "created": created,
            **self.about,
            "progress": self.far if note is None else None,
            "error": self.error,
            "note": note,
        }
        return json.dumps(document, allow_nan=False).encode()


class Known:
    """How far the solves of this process are, and jobs that were read and have not changed since.

    Jobs are kept where this process is the only server (``keeps``): then what was read stays true
    until it is changed here.
    """

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._far: dict[str, dict[str, Any]] = {}
        self._jobs: dict[str, tuple[str, Job]] = {}
        self._changes = 0
        self._lock = threading.Lock()

    @property
    def mark(self) -> int:
        """A number that is another one after every change."""
        return self._changes

    def get(self, client: str, id_: str) -> Job | None:
        """Return a client's job, if it is known."""
        owner, job = self._jobs.get(id_, ("", None))
        return job if owner == client else None

    def keep(self, client: str, job: Job, mark: int) -> None:
        """Keep a job that was read, unless something has changed since the mark."""
        with self._lock:
            if self._keeps and mark == self._changes:
                self._jobs[job.id] = (client, job)

    def far(self, id_: str) -> dict[str, Any] | None:
        """Return how far a solve of this process is."""
        return self._far.get(id_)

    def tell(self, id_: str, far: dict[str, Any]) -> None:
        """Note how far a solve is: whoever asks next need not ask the database."""
        with self._lock:
            self._far[id_] = far
            self._changes += 1
            if id_ in self._jobs:
                client, job = self._jobs[id_]
                self._jobs[id_] = (client, replace(job, far=far))

    def forget(self, id_: str) -> None:
        """Forget a job that has changed, or is gone."""
        with self._lock:
            self._changes += 1
            self._far.pop(id_, None)
            self._jobs.pop(id_, None)
