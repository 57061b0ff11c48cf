"""A batch as tasks of a Ray cluster that runs already: the engine behind ``batch --cluster``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from whereish.distributed.cluster import check_cluster, join_cluster, leave_cluster
from whereish.errors import SolveError
from whereish.parallel import PIECES_PER_WORKER, Lost
from whereish.retries import RETRY

Piece = TypeVar("Piece")
Made = TypeVar("Made")


class RayEngine:
    """Runs each piece of work as a Ray task on one core. It starts and stops no machines."""

    def __init__(self, address: str) -> None:
        self._ray = ray = join_cluster(address)
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(
        self, work: Callable[[Piece], Made], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Made | Lost]]:
        ray = self._ray
        task = ray.remote(num_cpus=1, max_retries=RETRY.deaths - 1)(work)
        coming, under_way = iter(pieces), dict[Any, Piece]()
        while True:
            free = PIECES_PER_WORKER * self.workers - len(under_way)
            for piece in itertools.islice(coming, free):
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
                raise  # an error of the work itself
            except (SolveError, ray.exceptions.RaySystemError, OSError, RuntimeError):
                raise SolveError(
                    "the cluster does not answer any more: finished files are kept"
                ) from None

    def close(self) -> None:
        leave_cluster(self._ray)
