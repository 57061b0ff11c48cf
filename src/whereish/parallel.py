"""Work in parallel: loops on threads, readers ahead of their consumer, and engines of a batch."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

_PARTS_A_THREAD = 8
PIECES_PER_WORKER = 2  # under way in an engine: one is computed, one waits
Piece = TypeVar("Piece")
Made = TypeVar("Made")


class Lost:
    """The result of a piece of work whose worker died in every attempt."""


class Engine(Protocol):
    """Runs pieces of work somewhere: in processes, or on a cluster."""

    workers: int

    def run(
        self, work: Callable[[Piece], Made], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Made | Lost]]:
        """Yield every piece with its result, in any order."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


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


def _got(line: queue.Queue[Any]) -> Any:
    """Wait for the next item, in steps: a wait without an end would not notice Ctrl-C."""
    while True:
        try:
            return line.get(timeout=0.2)
        except queue.Empty:
            continue


def ahead(groups: tuple[Any, ...], read: Callable[..., Iterator[Made]]) -> Iterator[Made]:
    """Read groups on every core, a little ahead of who consumes them, and yield in their order."""
    stop, done = threading.Event(), object()
    lines: list[queue.Queue[Any]] = [queue.Queue(2) for _ in groups]
    numbers = iter(range(len(groups)))
    taking = threading.Lock()
    open_now = threading.Semaphore(cores() + 1)

    def put(line: queue.Queue[Any], item: Any) -> None:
        while not stop.is_set():
            try:
                line.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def work() -> None:
        while not stop.is_set():
            # Not further ahead than a core each: what is read waits in memory.
            if not open_now.acquire(timeout=0.2):
                continue
            with taking:
                number = next(numbers, None)
            if number is None:
                open_now.release()
                return
            try:
                for item in read(*groups[number]):
                    put(lines[number], item)
                    if stop.is_set():
                        return
                put(lines[number], done)
            except BaseException as wrong:
                put(lines[number], wrong)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(cores())]
    for thread in threads:
        thread.start()
    try:
        for line in lines:
            while (item := _got(line)) is not done:
                if isinstance(item, BaseException):
                    raise item
                yield item
            open_now.release()
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=5)
