"""Measure the time of numba compilation: the first use of the structured solver waits for it."""

from __future__ import annotations

import time
from typing import Any

from numba.core import event


class _Clock(event.Listener):
    """Adds up the seconds that the compiler takes; what is nested counts once."""

    def __init__(self) -> None:
        self.total, self._begun, self._depth = 0.0, 0.0, 0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._begun = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.total += time.perf_counter() - self._begun


CLOCK = _Clock()
event.register("numba:compile", CLOCK)  # type: ignore[no-untyped-call]
