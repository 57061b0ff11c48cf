"""The endpoints of mechanisms: create, get, stream events, download, delete."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from whereish.errors import InputError
from whereish.format import without_prior
from whereish.service.http import openapi
from whereish.service.http.body import read_body
from whereish.service.http.context import Service
from whereish.service.http.errors import ApiError, no_such_job
from whereish.service.http.events import EventStream
from whereish.service.http.middleware import FastRoute, json_response
from whereish.service.jobs.model import DONE, Job

_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,200}")
_ROUTE = "/v1/mechanisms/{id}"
JobId = Annotated[str, Path(description="The id of a job.", pattern="^[A-Za-z0-9_-]{24}$")]


def add_mechanisms(app: FastAPI, service: Service) -> FastRoute:
    """Add the endpoints, and return the fast route for the state of a job."""
    limits = service.settings.limits

    @app.post("/v1/mechanisms", **openapi.CREATE)
    async def create_mechanism(request: Request) -> Response:
        """Start to build the mechanism of a recipe. The answer is a job."""
        client = await service.client(request)
        service.rates.check(client)
        name = request.headers.get("idempotency-key")
        if name is not None and not _IDEMPOTENCY_KEY.fullmatch(name):
            raise InputError("Idempotency-Key must be 1 to 200 ASCII characters", "Idempotency-Key")
        with service.body_memory.share() as take:
            body = await read_body(request, limits.body_bytes, take)
            job = await service.run(service.accept, client, body, name)
        return json_response(202, job.content, {"location": f"/v1/mechanisms/{job.id}"})

    @app.get(_ROUTE, **openapi.GET)
    async def get_mechanism(request: Request, id: JobId) -> Response:
        """Return the state of a job."""
        return json_response(200, (await service.client_and_job(request, id))[1].content)

    @app.get(f"{_ROUTE}/events", **openapi.EVENTS)
    async def stream_events(request: Request, id: JobId) -> Response:
        """Stream the state of a job whenever it changes, until the job has ended."""
        client, job = await service.client_and_job(request, id)
        if service.streams[client] >= limits.streams_per_key:
            message = "there are too many event streams with this key"
            raise ApiError("too_many_streams", message, None, {"retry-after": "5"})
        return EventStream(service, client, job)

    @app.get(f"{_ROUTE}/file", **openapi.FILE)
    async def download_file(request: Request, id: JobId) -> Response:
        """Return the certified file of a job that is done."""
        client, job = await service.client_and_job(request, id)
        return await _file(service, request, client, job)

    @app.delete(_ROUTE, **openapi.DELETE)
    async def delete_mechanism(request: Request, id: JobId) -> Response:
        """Delete a job with its file. If it is not done yet, stop the solve."""
        client, _ = await service.client_and_job(request, id)
        if not await service.run(service.jobs.delete, client, id):
            raise no_such_job()
        service.queue.cancel(id)
        return Response(status_code=204)

    async def state(scope: Any, id_: str) -> bytes:
        return (await service.client_and_job(Request(scope), id_))[1].content

    return FastRoute(_ROUTE, r"/v1/mechanisms/([A-Za-z0-9_-]{24})", state)


async def _file(service: Service, request: Request, client: str, job: Job) -> Response:
    """Return the file of a job, or 304 if the client has it already."""
    if job.state != DONE or job.etag is None:
        later = {} if job.is_final else {"retry-after": "1"}
        message = f"there is no file, because the job is {job.state}"
        raise ApiError("no_file", message, "state", later)
    omit = request.query_params.get("prior")
    if omit not in (None, "omit"):
        raise ApiError("invalid", "prior must be omit, or left out", "prior")

    async def read() -> bytes:
        file: bytes | None = await service.run(service.jobs.file, client, job.id)
        if file is None:
            raise no_such_job()
        return file

    etag, file = job.etag, None
    if omit is not None:
        file = await service.run(without_prior, await read())
        etag = hashlib.sha256(file).hexdigest()
    headers = {
        "etag": f'"{etag}"',
        "cache-control": "private, no-cache",
        "content-disposition": 'attachment; filename="mechanism.whereish"',
    }
    known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
    if {"*", f'"{etag}"', f'W/"{etag}"'} & set(known):
        return Response(status_code=304, headers=headers)
    content = await read() if file is None else file
    return Response(content, 200, headers, "application/octet-stream")
