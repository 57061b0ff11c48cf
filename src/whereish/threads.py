"""Share a loop out among threads: for compiled code that holds no lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_PARTS_A_THREAD = 8


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share(function: Callable[..., Any], items: int, *arguments: Any) -> None:
    """Call ``function(low, high, *arguments)`` for parts of 0 .. items, on all cores."""
    threads = cores()
    parts = min(items, threads * _PARTS_A_THREAD)
    cuts = [items * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(function, cuts[p], cuts[p + 1], *arguments) for p in range(parts)]
        for job in jobs:
            job.result()
