"""The process that joins a Ray cluster: ``python -m whereish.distributed.ray_gateway``.

Ray ends every process that has joined a cluster when the cluster is lost. The server must survive
that, so this process joins in its place. It reads commands from standard input, one JSON document
on each line: join a cluster, start a worker, solve, end. It writes the messages of the workers to
standard output, with their numbers. It ends when its standard input is closed, with its workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from typing import Any

from whereish.distributed.cluster import join_cluster
from whereish.distributed.ray_actor import PART, RayActor
from whereish.errors import InputError
from whereish.service.workers.process import Send, disable_core_dumps, open_messages

Commands = asyncio.Queue[tuple[dict[str, Any], bytes]]
_POLL_S, _REPORT_S = 0.25, 1.0
_LAST = ("file", "error", "died")
_CANNOT_START = "it died before it was ready: the nodes need the same version of whereish"


def main() -> None:
    """Join the cluster, and run commands until standard input is closed."""
    send = open_messages()
    disable_core_dumps()
    # After any error the server starts another gateway; the text may be personal.
    with contextlib.suppress(Exception):
        asyncio.run(_run(send))
    os._exit(0)


async def _run(send: Send) -> None:
    commands: Commands = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        # A thread notices the end of standard input even while a call of Ray blocks.
        while line := sys.stdin.buffer.readline():
            command = json.loads(line)
            recipe = sys.stdin.buffer.read(command.get("length", 0))
            loop.call_soon_threadsafe(commands.put_nowait, (command, recipe))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    try:
        gateway = RayGateway(join_cluster((await commands.get())[0]["join"]), send)
    except InputError as wrong:
        send({"broken": str(wrong)})
        return
    await asyncio.gather(gateway.report(), gateway.run(commands))


class RayGateway:
    """Starts an actor for each worker of the server, and passes on its messages."""

    def __init__(self, ray: Any, send: Send) -> None:
        self._ray, self._send = ray, send
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(RayActor)
        self._workers: dict[int, tuple[asyncio.Task[None], asyncio.Future[Any]]] = {}

    async def run(self, commands: Commands) -> None:
        """Run the commands of the server in order."""
        while True:
            command, recipe = await commands.get()
            number = command["id"]
            if command["do"] == "start":
                order: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(self._attend(number, order))
                self._workers[number] = task, order
            elif number in self._workers:
                task, order = self._workers[number]
                if command["do"] == "solve":
                    order.set_result((recipe, command["memory_gb"], command["time_limit_s"]))
                else:
                    task.cancel()

    async def report(self) -> None:
        """Report the number of cores every second. No report means that the cluster is lost."""
        while True:
            there = await asyncio.to_thread(self._ray.cluster_resources)
            free = await asyncio.to_thread(self._ray.available_resources)
            self._send({"cores": int(there.get("CPU", 0)), "free": free.get("CPU", 0.0)})
            await asyncio.sleep(_REPORT_S)

    async def _attend(self, number: int, order: asyncio.Future[Any]) -> None:
        """Start a worker, and pass on its messages until its last one."""
        worker = self._actor.remote()
        ready = False
        try:
            await worker.is_placed.remote()
            self._send({"id": number, "placed": True})
            submitted = False
            while True:
                if not submitted:
                    await asyncio.wait({order}, timeout=_POLL_S)
                    if order.done():
                        await self._submit(worker, *order.result())
                        submitted = True
                for message in await worker.messages.remote(_POLL_S if submitted else 0.0):
                    ready = ready or "ready" in message
                    file = b""
                    while len(file) < message.get("file", 0):
                        file += await worker.file_part.remote(len(file))
                    if message.get("died") is False:
                        self._send({"id": number, "broken": _CANNOT_START})
                    self._send(message | {"id": number}, file)
                    if any(last in message for last in _LAST):
                        return
        except self._ray.exceptions.RayError:
            if not ready:
                self._send({"id": number, "broken": _CANNOT_START})
            self._send({"id": number, "died": ready})
        finally:
            self._workers.pop(number, None)
            self._ray.kill(worker)

    async def _submit(
        self, worker: Any, recipe: bytes, memory_gb: float, time_limit_s: float
    ) -> None:
        for start in range(0, len(recipe), PART):
            await worker.add_part.remote(recipe[start : start + PART])
        await worker.solve.remote(memory_gb, time_limit_s)


if __name__ == "__main__":
    main()
