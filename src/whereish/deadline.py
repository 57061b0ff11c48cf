"""The deadline of a build, shared by its steps.

A solver gets the seconds left (`Deadline.seconds`) and stops itself. The service ends a process
that overruns (`service/workers/worker.py`).
"""

from __future__ import annotations

import time

from whereish.errors import SolveError


class OutOfTimeError(SolveError):
    """The time limit passed before there was a result."""


class Deadline:
    """A point in time on the monotonic clock.

    Parameters
    ----------
    seconds
        From now; None for no deadline.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end = float("inf") if seconds is None else time.perf_counter() + seconds

    @property
    def left(self) -> float:
        """Seconds left; negative once the deadline has passed."""
        return self._end - time.perf_counter()

    @property
    def seconds(self) -> float | None:
        """Seconds left as a time limit: at least 1e-9, or None for no deadline."""
        return None if self._end == float("inf") else max(self.left, 1e-9)

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self._end

    def earlier(self, seconds: float) -> Deadline:
        """Return a deadline that is this many seconds before this one."""
        other = Deadline()
        other._end = self._end - seconds
        return other

    def check(self, doing: str) -> None:
        """Raise OutOfTimeError if the deadline has passed; `doing` says where."""
        if self.passed:
            raise OutOfTimeError(f"the time allowed was up {doing}")
