"""The event stream of a job: its state, whenever it changes, until the job has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from whereish.service.http.context import Service
from whereish.service.jobs.model import Job

_POLL_S = 0.15
_KEEP_ALIVE_S = 10.0  # proxies close connections on which nothing is sent


class EventStream(StreamingResponse):
    """The states of a job. It counts as open from the moment it is made."""

    def __init__(self, service: Service, client: str, job: Job) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(_events(service, client, job), 200, headers, "text/event-stream")
        self._streams, self._client = service.streams, client
        self._streams[client] += 1

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._client] -= 1


async def _events(service: Service, client: str, job: Job | None) -> AsyncIterator[bytes]:
    before, quiet_s = b"", 0.0
    while job is not None and not service.stopping:
        now = job.content
        if now != before:
            yield b"event: state\ndata: " + now + b"\n\n"
            before, quiet_s = now, 0.0
        if job.is_final:
            return
        await asyncio.sleep(_POLL_S)
        quiet_s += _POLL_S
        if quiet_s > _KEEP_ALIVE_S:
            yield b": still there\n\n"
            quiet_s = 0.0
        job = await service.job(client, job.id)
    if not service.stopping:
        yield b'event: gone\ndata: {"state": "gone"}\n\n'
