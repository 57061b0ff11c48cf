"""A worker on a node of a Ray cluster: the same process as at home, and what it has said so far.

Whatever is personal crosses in parts that Ray passes on with a call. Nothing is large enough for
Ray's object store, which may go to disk. No method raises: Ray would keep what was said.
"""

from __future__ import annotations

import threading
from typing import Any

from whereish.service.workers.pool import Outcome, Worker
from whereish.service.workers.process import leave_no_core, told

# Ray puts what is larger than 100 kB into its object store.
PART = 1 << 16


class Outpost:
    """Takes one recipe in parts, has it solved, and hands out the file in parts."""

    def __init__(self) -> None:
        leave_no_core()
        self._worker = Worker()
        self._recipe = bytearray()
        self._changed = threading.Condition()
        self._far: dict[str, Any] | None = None
        self._outcome: Outcome | None = None
        self._solving = self._said_ready = False

    def is_here(self) -> bool:
        """Answer: then there is a core for it."""
        return True

    def feed(self, part: bytes) -> None:
        """Take the next part of the recipe."""
        self._recipe += part

    def solve(self, memory_gb: float, time_limit_s: float) -> None:
        """Begin."""
        self._solving = True
        recipe = bytes(self._recipe)
        self._recipe.clear()
        threading.Thread(
            target=self._solve, args=(recipe, memory_gb, time_limit_s), daemon=True
        ).start()

    def news(self, wait_s: float) -> list[dict[str, Any]]:
        """Return what it has said since the last time, as a worker's lines say it."""
        with self._changed:
            self._changed.wait_for(lambda: self._far or self._outcome, wait_s)
            far, self._far = self._far, None
            outcome = self._outcome
        lines: list[dict[str, Any]] = []
        if self._worker.is_warm and not self._said_ready:
            self._said_ready = True
            lines.append({"ready": True})
        if far is not None:
            lines.append({"progress": far})
        if outcome is None:
            if not self._solving and not self._worker.is_alive:
                lines.append({"gone": self._worker.is_warm})
        elif outcome.file is not None:
            lines.append({"file": len(outcome.file), "result": outcome.result})
        elif outcome.error is not None:
            lines.append({"error": outcome.error})
        else:
            lines.append({"gone": outcome.was_warm})
        return lines

    def part(self, start: int) -> bytes:
        """Return the part of the file that begins there."""
        file = self._outcome.file if self._outcome is not None else None
        return b"" if file is None else file[start : start + PART]

    def _solve(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        try:
            outcome = self._worker.solve(
                recipe, memory_gb, time_limit_s, self._tell, lambda: True
            )  # fmt: skip
        except BaseException as wrong:
            outcome = Outcome(error=told(wrong))
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _tell(self, far: dict[str, Any]) -> None:
        with self._changed:
            self._far = far
            self._changed.notify_all()
