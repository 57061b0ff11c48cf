"""A moment by which a search has to end: one object, handed down to all who work for it."""

from __future__ import annotations

import time

from whereish.errors import SolveError


class OutOfTimeError(SolveError):
    """The time is up before there is anything to hand over."""


class Deadline:
    """So many seconds from now, or never."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = float("inf") if seconds is None else time.perf_counter() + seconds

    @property
    def left(self) -> float:
        """How many seconds are left; below 0 when it has passed."""
        return self._end - time.perf_counter()

    @property
    def seconds(self) -> float | None:
        """How many seconds are left, at least a few nanoseconds; None if it never comes."""
        return None if self._end == float("inf") else max(self.left, 1e-9)

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() > self._end

    def earlier(self, seconds: float) -> Deadline:
        """Return a deadline so much before this one."""
        other = Deadline()
        other._end = self._end - seconds
        return other

    def check(self, doing: str) -> None:
        """Raise OutOfTimeError once it has passed."""
        if self.passed:
            raise OutOfTimeError(f"the time allowed was up {doing}")
