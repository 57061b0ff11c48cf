"""The process that joins a Ray cluster: ``python -m whereish.distributed.ray_gateway``.

Ray ends every process that has joined a cluster when that cluster is gone. That must not be the
server. This one is told by lines of JSON on standard input which cluster to join, which workers to
start, what to solve and what to end. It passes on what they say, with their numbers, on standard
output. It ends when its standard input does, and every worker with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from whereish.distributed.cluster import join_cluster
from whereish.distributed.ray_actor import PART, Outpost
from whereish.errors import InputError
from whereish.service.workers.process import leave_no_core

Say = Callable[..., None]
Orders = asyncio.Queue[tuple[dict[str, Any], bytes]]
_LOOK_S, _REPORT_S = 0.25, 1.0
_LAST = ("file", "error", "gone")
_CANNOT_START = (
    "it died before it was warm: the nodes need whereish, the same version, and a place to keep "
    "compiled code (NUMBA_CACHE_DIR)"
)


def main() -> None:
    """Join the cluster, and do what is asked until there is nobody left to ask."""
    # What Ray prints must not get between the lines.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    leave_no_core()

    def say(document: dict[str, Any], then: bytes = b"") -> None:
        answer.write(json.dumps(document).encode() + b"\n" + then)
        answer.flush()

    # Whatever goes wrong, the server starts another: nothing is to be printed.
    with contextlib.suppress(Exception):
        asyncio.run(_serve(say))
    os._exit(0)


async def _serve(say: Say) -> None:
    orders: Orders = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        # A thread of its own: however long Ray takes over something, the end is noticed.
        while line := sys.stdin.buffer.readline():
            told = json.loads(line)
            recipe = sys.stdin.buffer.read(told.get("length", 0))
            loop.call_soon_threadsafe(orders.put_nowait, (told, recipe))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    try:
        envoy = Envoy(join_cluster((await orders.get())[0]["join"]), say)
    except InputError as wrong:
        say({"broken": str(wrong)})
        return
    await asyncio.gather(envoy.report(), envoy.run(orders))


class Envoy:
    """Stands between a server and its workers on a cluster."""

    def __init__(self, ray: Any, say: Say) -> None:
        self._ray, self._say = ray, say
        self._outpost = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Outpost)
        self._workers: dict[int, tuple[asyncio.Task[None], asyncio.Future[Any]]] = {}

    async def run(self, orders: Orders) -> None:
        """Do what the server says, order by order."""
        while True:
            told, recipe = await orders.get()
            number = told["id"]
            if told["do"] == "start":
                order: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(self._attend(number, order))
                self._workers[number] = task, order
            elif number in self._workers:
                task, order = self._workers[number]
                if told["do"] == "solve":
                    order.set_result((recipe, told["memory_gb"], told["time_limit_s"]))
                else:
                    task.cancel()

    async def report(self) -> None:
        """Say every second how many cores there are; silence says that the cluster is gone."""
        while True:
            there = await asyncio.to_thread(self._ray.cluster_resources)
            free = await asyncio.to_thread(self._ray.available_resources)
            self._say({"cores": int(there.get("CPU", 0)), "free": free.get("CPU", 0.0)})
            await asyncio.sleep(_REPORT_S)

    async def _attend(self, number: int, order: asyncio.Future[Any]) -> None:
        """Start a worker, and pass on what it says until it has nothing more to say."""
        worker = self._outpost.remote()
        warm = False
        try:
            await worker.is_here.remote()
            self._say({"id": number, "placed": True})
            given = False
            while True:
                if not given:
                    await asyncio.wait({order}, timeout=_LOOK_S)
                    if order.done():
                        await self._give(worker, *order.result())
                        given = True
                for said in await worker.news.remote(_LOOK_S if given else 0.0):
                    warm = warm or "ready" in said
                    file = b""
                    while len(file) < said.get("file", 0):
                        file += await worker.part.remote(len(file))
                    if said.get("gone") is False:
                        self._say({"id": number, "broken": _CANNOT_START})
                    self._say(said | {"id": number}, file)
                    if any(last in said for last in _LAST):
                        return
        except self._ray.exceptions.RayError:
            if not warm:
                self._say({"id": number, "broken": _CANNOT_START})
            self._say({"id": number, "gone": warm})
        finally:
            self._workers.pop(number, None)
            self._ray.kill(worker)

    async def _give(
        self, worker: Any, recipe: bytes, memory_gb: float, time_limit_s: float
    ) -> None:
        for start in range(0, len(recipe), PART):
            await worker.feed.remote(recipe[start : start + PART])
        await worker.solve.remote(memory_gb, time_limit_s)


if __name__ == "__main__":
    main()
