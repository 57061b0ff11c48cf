"""A Ray actor that runs one local worker process on its node and keeps its messages.

Personal data crosses in parts that Ray sends with a call. No part is large enough for Ray's object
store, which may write to disk. No method raises an error: Ray would log its text.
"""

from __future__ import annotations

import threading
from typing import Any

from whereish.service.workers.process import disable_core_dumps, error_of
from whereish.service.workers.worker import LocalWorker, Outcome

# Ray puts values larger than 100 kB into its object store.
PART = 1 << 16


class RayActor:
    """Takes one recipe in parts, has it solved, and returns the file in parts."""

    def __init__(self) -> None:
        disable_core_dumps()
        self._worker = LocalWorker()
        self._recipe = bytearray()
        self._changed = threading.Condition()
        self._progress: dict[str, Any] | None = None
        self._outcome: Outcome | None = None
        self._solving = self._reported_ready = False

    def is_placed(self) -> bool:
        """Return True: an actor answers once it has a core."""
        return True

    def add_part(self, part: bytes) -> None:
        self._recipe += part

    def solve(self, memory_gb: float, time_limit_s: float) -> None:
        """Start the solve of the recipe."""
        self._solving = True
        recipe = bytes(self._recipe)
        self._recipe.clear()
        threading.Thread(
            target=self._solve, args=(recipe, memory_gb, time_limit_s), daemon=True
        ).start()

    def messages(self, wait_s: float) -> list[dict[str, Any]]:
        """Return the messages of the worker since the last call."""
        with self._changed:
            self._changed.wait_for(lambda: self._progress or self._outcome, wait_s)
            progress, self._progress = self._progress, None
            outcome = self._outcome
        found: list[dict[str, Any]] = []
        if self._worker.is_ready and not self._reported_ready:
            self._reported_ready = True
            found.append({"ready": True})
        if progress is not None:
            found.append({"progress": progress})
        if outcome is None:
            if not self._solving and not self._worker.is_alive:
                found.append({"died": self._worker.is_ready})
        elif outcome.file is not None:
            found.append({"file": len(outcome.file), "result": outcome.result})
        elif outcome.error is not None:
            found.append({"error": outcome.error})
        else:
            found.append({"died": outcome.was_ready})
        return found

    def file_part(self, start: int) -> bytes:
        """Return the part of the file that begins at this byte."""
        file = self._outcome.file if self._outcome is not None else None
        return b"" if file is None else file[start : start + PART]

    def _solve(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        try:
            outcome = self._worker.solve(
                recipe, memory_gb, time_limit_s, self._keep_progress, lambda: True
            )
        except BaseException as wrong:
            outcome = Outcome(error=error_of(wrong))
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _keep_progress(self, progress: dict[str, Any]) -> None:
        with self._changed:
            self._progress = progress
            self._changed.notify_all()
