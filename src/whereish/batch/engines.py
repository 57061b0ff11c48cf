"""Who does the work: processes of this machine, or a Ray cluster that is there already.

An engine is handed work in order, keeps a little of it under way, and hands back what came of each
piece in whatever order that was. A piece whose worker died is tried three times, and then handed
back as lost: it never takes others with it.
"""

from __future__ import annotations

import contextlib
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
from typing import Any, Protocol, TypeVar

from whereish.distributed.cluster import check_cluster, join_cluster, leave_cluster
from whereish.errors import InputError, SolveError
from whereish.parallel import cores

Piece = TypeVar("Piece")
Made = TypeVar("Made")
TRIES = 3
_AHEAD = 2  # pieces under way for every worker


class Lost:
    """What comes of a piece whose worker died every time."""


class Engine(Protocol):
    """Does work somewhere."""

    workers: int

    def run(
        self, work: Callable[[Piece], Made], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Made | Lost]]:
        """Yield every piece with what came of it."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class LocalEngine:
    """Processes of this machine, as many as cores if not told."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores() if workers is None else workers
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.workers, multiprocessing.get_context("spawn"), initializer=_quiet
        )

    def run(
        self, work: Callable[[Piece], Made], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Made | Lost]]:
        """Yield every piece with what came of it."""
        coming, under_way = iter(pieces), dict[Future[Made], Piece]()
        while True:
            suspects: list[Piece] = []
            for piece in itertools.islice(coming, _AHEAD * self.workers - len(under_way)):
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
                # Nobody knows over which of them a worker died: each gets a pool of its own.
                suspects += under_way.values()
                under_way.clear()
                self._end()
                self._pool = self._new()
                for piece in suspects:
                    yield piece, self._alone(work, piece)

    def _alone(self, work: Callable[[Piece], Made], piece: Piece) -> Made | Lost:
        for _ in range(TRIES):
            with (
                ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), initializer=_quiet
                ) as pool,
                contextlib.suppress(BrokenProcessPool),
            ):
                return pool.submit(work, piece).result()
        return Lost()

    def _end(self) -> None:
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """End it, whatever is under way."""
        self._end()
        del self._pool
        gc.collect()  # or Python would warn of its semaphores when it is left in a hurry


def _quiet() -> None:
    """Leave Ctrl-C to who started the work, and do not outlive them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class RayEngine:
    """A Ray cluster that is there already; nothing here starts or stops machines."""

    def __init__(self, address: str) -> None:
        self._ray = ray = join_cluster(address)
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Callable[[Piece], Made], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Made | Lost]]:
        """Yield every piece with what came of it."""
        ray = self._ray
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(work)
        coming, under_way = iter(pieces), dict[Any, Piece]()
        while True:
            for piece in itertools.islice(coming, _AHEAD * self.workers - len(under_way)):
                under_way[task.remote(piece)] = piece
            if not under_way:
                return
            try:
                done, _ = ray.wait(list(under_way), timeout=0.5)
                if not done:
                    check_cluster(ray)
                for reference in done:
                    piece = under_way.pop(reference)
                    try:
                        yield piece, ray.get(reference)
                    except (
                        ray.exceptions.WorkerCrashedError,
                        ray.exceptions.NodeDiedError,
                        ray.exceptions.OutOfMemoryError,
                    ):
                        yield piece, Lost()
            except ray.exceptions.RayTaskError:
                raise  # what went wrong in the work itself
            except (SolveError, ray.exceptions.RaySystemError, OSError, RuntimeError):
                raise SolveError("the cluster is gone: what is done is kept") from None

    def close(self) -> None:
        """Leave the cluster."""
        leave_cluster(self._ray)


def open_engine(workers: int | None = None, cluster: str | None = None) -> LocalEngine | RayEngine:
    """Return processes of this machine, or a cluster."""
    if cluster is not None and workers is not None:
        raise InputError("workers must be left out with a cluster: it knows its own")
    return LocalEngine(workers) if cluster is None else RayEngine(cluster)
