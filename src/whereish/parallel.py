"""Parallel work: loops of compiled code on threads, readers that run ahead, engines of a batch."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol, TypeVar

_CHUNKS_PER_THREAD = 8
PIECES_PER_WORKER = 2  # under way in an engine: one is computed, one waits
Piece = TypeVar("Piece")
Item = TypeVar("Item")


class Lost:
    """The result of a piece of work whose worker died in every attempt."""


class Engine(Protocol):
    """Runs pieces of work somewhere: in processes, or on a cluster."""

    workers: int

    def run(
        self, work: Callable[[Piece], Item], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Item | Lost]]:
        """Yield every piece with its result, in any order."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parallel_for(function: Callable[..., Any], items: int, *arguments: Any) -> None:
    """Call ``function(low, high, *arguments)`` for chunks of range(items), on all cores."""
    threads = cores()
    chunks = min(items, threads * _CHUNKS_PER_THREAD)
    cuts = [items * chunk // chunks for chunk in range(chunks + 1)]
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(function, low, high, *arguments) for low, high in pairwise(cuts)]
        for job in jobs:
            job.result()


def in_order(function: Callable[[Piece], Item], pieces: Sequence[Piece]) -> Iterator[Item]:
    """Yield ``function(piece)`` for all pieces in order; a few run ahead, on all cores."""
    ahead = cores() + 2
    with ThreadPoolExecutor(cores()) as pool:
        jobs = deque(pool.submit(function, piece) for piece in pieces[:ahead])
        try:
            for number in range(len(pieces)):
                result = jobs.popleft().result()
                if number + ahead < len(pieces):
                    jobs.append(pool.submit(function, pieces[number + ahead]))
                yield result
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _next_item(items: queue.Queue[Any]) -> Any:
    """Wait for the next item in short steps: a wait without a timeout would not notice Ctrl-C."""
    while True:
        try:
            return items.get(timeout=0.2)
        except queue.Empty:
            continue


def read_ahead(groups: tuple[Any, ...], read: Callable[..., Iterator[Item]]) -> Iterator[Item]:
    """Yield the items of ``read(*group)`` for every group in order, read ahead on every core."""
    stop, done = threading.Event(), object()
    queues: list[queue.Queue[Any]] = [queue.Queue(2) for _ in groups]
    numbers = iter(range(len(groups)))
    taking = threading.Lock()
    open_groups = threading.Semaphore(cores() + 1)

    def put(items: queue.Queue[Any], item: Any) -> None:
        while not stop.is_set():
            try:
                items.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def work() -> None:
        while not stop.is_set():
            # One group per core and no more: items that were read wait in memory.
            if not open_groups.acquire(timeout=0.2):
                continue
            with taking:
                number = next(numbers, None)
            if number is None:
                open_groups.release()
                return
            try:
                for item in read(*groups[number]):
                    put(queues[number], item)
                    if stop.is_set():
                        return
                put(queues[number], done)
            except BaseException as wrong:
                put(queues[number], wrong)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(cores())]
    for thread in threads:
        thread.start()
    try:
        for items in queues:
            while (item := _next_item(items)) is not done:
                if isinstance(item, BaseException):
                    raise item
                yield item
            open_groups.release()
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=5)
