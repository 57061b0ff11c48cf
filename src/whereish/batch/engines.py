"""Engines of a batch: processes of this machine, or a Ray cluster (`distributed.ray_batch`).

An engine takes pieces of work in order, has a few of them under way, and yields the results in any
order. If a worker dies, its piece is tried again alone (`retries`), and is lost after the last
attempt. Other pieces are not affected.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from whereish.distributed.ray_batch import RayEngine
from whereish.errors import InputError
from whereish.parallel import PIECES_PER_WORKER, Engine, Lost, cores
from whereish.retries import RETRY

Piece = TypeVar("Piece")
Made = TypeVar("Made")


class LocalEngine:
    """Processes of this machine: one for each core unless a number is given."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores() if workers is None else workers
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.workers, multiprocessing.get_context("spawn"), initializer=_quiet,
            initargs=(os.getpid(),),
        )  # fmt: skip

    def run(
        self, work: Callable[[Piece], Made], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Made | Lost]]:
        coming, under_way = iter(pieces), dict[Future[Made], Piece]()
        while True:
            suspects: list[Piece] = []
            free = PIECES_PER_WORKER * self.workers - len(under_way)
            for piece in itertools.islice(coming, free):
                try:
                    under_way[self._pool.submit(work, piece)] = piece
                except BrokenProcessPool:
                    suspects.append(piece)
            if not under_way and not suspects:
                return
            done, _ = wait(under_way, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                piece = under_way.pop(future)
                try:
                    yield piece, future.result()
                except BrokenProcessPool:
                    suspects.append(piece)
            if suspects:
                # It is unknown which piece killed the worker: each is tried alone.
                suspects += under_way.values()
                under_way.clear()
                self._restart()
                for piece in suspects:
                    yield piece, self._alone(work, piece)

    def _alone(self, work: Callable[[Piece], Made], piece: Piece) -> Made | Lost:
        for _ in range(RETRY.deaths):
            try:
                return self._pool.submit(work, piece).result()
            except BrokenProcessPool:
                self._restart()
        return Lost()

    def _restart(self) -> None:
        self._end()
        self._pool = self._new()

    def _end(self) -> None:
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        self._end()
        del self._pool
        gc.collect()  # otherwise Python warns about semaphores if it exits soon after


def _quiet(parent: int) -> None:
    """Ignore Ctrl-C, which the parent process handles, and end when the parent ends.

    The parent may have ended already: then `os.getppid` is another process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def open_engine(workers: int | None = None, cluster: str | None = None) -> Engine:
    """Return an engine: processes of this machine, or a Ray cluster if an address is given."""
    if cluster is not None and workers is not None:
        raise InputError(
            "workers must be left out with a cluster, which has a number of cores already"
        )
    return LocalEngine(workers) if cluster is None else RayEngine(cluster)
