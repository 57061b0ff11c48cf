"""The HTTP API. No endpoint takes a true location: devices draw their reports themselves."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from importlib import metadata
from typing import Annotated, Any

import anyio
from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match

from whereish.errors import GuaranteeError, InputError, WhereishError
from whereish.format import without_prior
from whereish.service.auth.keys import ANYONE, Keys
from whereish.service.http import schema
from whereish.service.http.connections import Connections, open_files
from whereish.service.http.middleware import (
    Guard,
    Often,
    Rates,
    Refusal,
    Room,
    answer,
    disk_full,
    no_database_now,
    read_body,
    refuse,
)
from whereish.service.http.site import add_page
from whereish.service.jobs.database import Database, DatabaseError, DiskFullError
from whereish.service.jobs.model import DONE, Job
from whereish.service.jobs.queue import Queue
from whereish.service.jobs.sealing import SealError, seal_of
from whereish.service.jobs.store import Jobs, TooMuchError
from whereish.service.settings import MOST_BODIES, Settings
from whereish.spec import Recipe

_log = logging.getLogger("whereish.http")
_LOOK_S = 0.15
_PATIENCE_S, _THREADS = 15.0, 40
_STILL_THERE_S = 10.0
_NAME = re.compile(r"[ -~]{1,200}")
_WORDS = {404: "there is nothing at this address", 405: "this address does not do that"}
JobId = Annotated[str, InPath(description="The id of a job.", pattern="^[A-Za-z0-9_-]{24}$")]


class Service:
    """What the endpoints share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.folder, settings.database)
        self.keys = Keys(self.database)
        self.jobs = Jobs(self.database, seal_of(settings.folder), settings.limits)
        self.queue = Queue(settings, self.jobs)
        self.rates = Rates(settings.limits)
        self.room = Room(max(MOST_BODIES, 2 * settings.limits.body_bytes))
        self.streams: Counter[str] = Counter()
        self.connections = Connections(settings.limits, open_files())
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.jobs.check_seal()
        self.stopping = False
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._parsing = threading.Lock()
        self.keys.refresh()
        self._looking = False

    def collect(self) -> Any:
        """Yield what Prometheus is told, besides requests."""
        states = GaugeMetricFamily("whereish_jobs", "Jobs by state.", labels=["state"])
        for state, count in self.jobs.counts().items():
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily("whereish_solves", "Solves running here.", value=self.queue.busy)
        open_ = len(self.connections)
        yield GaugeMetricFamily("whereish_connections", "Open connections.", value=open_)
        closed = CounterMetricFamily(
            "whereish_connections_closed", "Connections closed for want of room.", labels=["how"]
        )
        for how in ("refused", "for another"):
            closed.add_metric([how.replace(" ", "_")], self.connections.closed[how])
        yield closed

    async def key_needed(self) -> bool:
        """Whether who asks needs a key: once keys have existed, always."""
        await self._look_at_keys()
        return not self.settings.is_local or self.keys.needed

    async def _look_at_keys(self) -> None:
        """Read the keys once a second: one request does, the others go by what is known."""
        if self.keys.stale() and not self._looking:
            self._looking = True
            try:
                await self.ask(self.keys.refresh)
            finally:
                self._looking = False

    async def client(self, request: Request) -> str:
        """Return who asks, or refuse."""
        if not await self.key_needed():
            return ANYONE
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        key = key.strip() if kind.lower() == "bearer" else ""
        client = self.keys.client(key)
        if client is None:
            raise Refusal(
                401, "key", "a key is needed: Authorization: Bearer wh_...", "Authorization",
                {"www-authenticate": "Bearer"},
            )  # fmt: skip
        return client

    async def job(self, client: str, id_: str) -> Job | None:
        """Return a client's job: what is known at once, and what the database says in a thread."""
        found = self.jobs.known.get(client, id_)
        return found if found is not None else await self.ask(self.jobs.get, client, id_)

    async def ask(self, function: Callable[..., Any], *what: Any) -> Any:
        """Ask the database in a thread; one that does not answer is not waited for."""
        try:
            with anyio.fail_after(_PATIENCE_S):
                return await anyio.to_thread.run_sync(
                    function, *what, abandon_on_cancel=True, limiter=self._threads
                )
        except TimeoutError:
            raise DatabaseError("the database does not answer") from None

    def accept(self, client: str, body: bytes, name: str | None) -> Job:
        """Make a job of a body, or return the one that was made of it before."""
        limits = self.settings.limits
        if name is not None and (known := self.jobs.accepted(client, name, body)) is not None:
            return known
        self.rates.check(client, post=True)
        with self._parsing:  # one at a time: nothing else runs while JSON is read
            recipe = Recipe.from_json(body)
        if len(recipe.places) > limits.places:
            raise InputError(
                f"places must be at most {limits.places:,} for this service, got "
                f"{len(recipe.places):,}", "places",
            )  # fmt: skip
        most = limits.time_limit_s
        if recipe.time_limit_s is not None and recipe.time_limit_s > most:
            raise InputError(f"time_limit_s must be at most {most:g} s here", "time_limit_s")
        plan = recipe.plan(limits.memory_gb)
        if plan.seconds > most:
            # With a time_limit_s, this is what comes after the search.
            what = "; give a time_limit_s, and get the best so far" * (recipe.time_limit_s is None)
            raise InputError(
                f"places are too many to be done in {most:g} s: {plan.why}{what}, or method "
                '"auto"', "places",
            )  # fmt: skip
        job, new = self.jobs.accept(client, recipe, plan, body, name)
        if new:
            try:
                self.queue.add(job.id, self.jobs.waiting(client))
            except Exception as wrong:
                # It was accepted: it will be queued when the queue answers again.
                _log.error("not queued yet: %s", type(wrong).__name__, extra={"job": job.id[:8]})
        return job


def no_such_job() -> Refusal:
    """Refuse a job that is not there, or somebody else's: nobody can tell which."""
    return Refusal(404, "no_job", "there is no such job", "id")


def create_app(settings: Settings) -> tuple[Guard, Service]:
    """Make the application: everything but listening."""
    service = Service(settings)
    app = FastAPI(
        title="Whereish", version=metadata.version("whereish"), description=schema.ABOUT,
        docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False,
    )  # fmt: skip
    _errors(app)
    often = _mechanisms(app, service)
    _about(app, service)
    add_page(app, service.settings)
    plain = app.openapi
    app.openapi = lambda: schema.complete(plain())  # type: ignore[method-assign]
    return Guard(app, settings, service.registry, often), service


def _errors(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refused(request: Request, wrong: Refusal) -> Response:
        return refuse(wrong)

    @app.exception_handler(InputError)
    async def invalid(request: Request, wrong: InputError) -> Response:
        return refuse(Refusal(422, "invalid", str(wrong), wrong.field))

    @app.exception_handler(TooMuchError)
    async def too_much(request: Request, wrong: TooMuchError) -> Response:
        later = {"retry-after": str(wrong.retry_after_s)}
        return refuse(Refusal(429, "too_much", str(wrong), None, later))

    @app.exception_handler(GuaranteeError)
    @app.exception_handler(SealError)
    async def withheld(request: Request, wrong: WhereishError) -> Response:
        _log.error("a file is withheld: %s", type(wrong).__name__)
        message = "the file cannot be shown to be the one that was certified: it is withheld"
        return refuse(Refusal(500, "withheld", message, "service"))

    @app.exception_handler(DiskFullError)
    async def no_room(request: Request, wrong: DiskFullError) -> Response:
        return refuse(disk_full())

    @app.exception_handler(DatabaseError)
    async def no_database(request: Request, wrong: DatabaseError) -> Response:
        return refuse(no_database_now())

    @app.exception_handler(Exception)
    async def unexpected(request: Request, wrong: Exception) -> Response:
        return refuse(Refusal(500, "internal", "something went wrong here", "service"))

    @app.exception_handler(ClientDisconnect)
    async def left(request: Request, wrong: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.exception_handler(RequestValidationError)
    async def misshapen(request: Request, wrong: RequestValidationError) -> Response:
        # The only thing that FastAPI itself validates is an id.
        return refuse(no_such_job())

    @app.exception_handler(HTTPException)
    async def other(request: Request, wrong: HTTPException) -> Response:
        if wrong.status_code == 405:
            wrong.headers = {"allow": ", ".join(_methods(app, request))}
        code = {404: "no_address", 405: "method"}.get(wrong.status_code, "http")
        message = _WORDS.get(wrong.status_code, "this cannot be done")
        told = dict(wrong.headers or {})
        field = "method" if wrong.status_code == 405 else "path"
        return refuse(Refusal(wrong.status_code, code, message, field, told))


def _methods(app: FastAPI, request: Request) -> list[str]:
    """Return what can be done at an address."""
    found: set[str] = set()
    for route in app.routes:
        if route.matches(request.scope)[0] != Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


def _mechanisms(app: FastAPI, service: Service) -> Often:
    limits = service.settings.limits

    async def own(request: Request, id_: str) -> tuple[str, Job]:
        client = await service.client(request)
        service.rates.check(client)
        job = await service.job(client, id_)
        if job is None:
            raise no_such_job()
        return client, job

    @app.post("/v1/mechanisms", status_code=202, **schema.of("post"))
    async def build_a_mechanism(request: Request) -> Response:
        """Take a recipe and build its mechanism. The answer is a job to come back for."""
        client = await service.client(request)
        service.rates.check(client)
        name = request.headers.get("idempotency-key")
        if name is not None and not _NAME.fullmatch(name):
            raise InputError("Idempotency-Key must be 1 to 200 ASCII characters", "Idempotency-Key")
        with service.room.share() as take:
            body = await read_body(request, limits.body_bytes, take)
            job = await service.ask(service.accept, client, body, name)
        return answer(202, job.content, {"location": f"/v1/mechanisms/{job.id}"})

    @app.head("/v1/mechanisms/{id}", include_in_schema=False)
    @app.get("/v1/mechanisms/{id}", **schema.of("get"))
    async def how_far_it_is(request: Request, id: JobId) -> Response:
        """Tell the state of a job."""
        return answer(200, (await own(request, id))[1].content)

    @app.get("/v1/mechanisms/{id}/events", **schema.of("events"))
    async def watch_it(request: Request, id: JobId) -> Response:
        """Stream the state of a job, whenever it changes, until it has ended."""
        client, job = await own(request, id)
        if service.streams[client] >= limits.streams_per_key:
            raise Refusal(
                429, "too_many_streams", "there are too many streams with this key", None,
                {"retry-after": "5"},
            )  # fmt: skip
        return Stream(service, client, job)

    @app.head("/v1/mechanisms/{id}/file", include_in_schema=False)
    @app.get("/v1/mechanisms/{id}/file", **schema.of("file"))
    async def fetch_the_file(request: Request, id: JobId) -> Response:
        """Return the certified file of a job that is done."""
        client, job = await own(request, id)
        if job.state != DONE or job.etag is None:
            message = f"there is no file, because the job is {job.state}"
            later = {} if job.is_final else {"retry-after": "1"}
            raise Refusal(409, "no_file", message, "state", later)
        omit = request.query_params.get("prior")
        if omit not in (None, "omit"):
            raise Refusal(422, "invalid", "prior must be omit, or left out", "prior")
        etag, found = job.etag, None
        if omit is not None:
            found = await service.ask(service.jobs.file, client, id)
            if found is None:
                raise no_such_job()
            found = await service.ask(without_prior, found)
            etag = hashlib.sha256(found).hexdigest()
        headers = {
            "etag": f'"{etag}"',
            "cache-control": "private, no-cache",
            "content-disposition": 'attachment; filename="mechanism.whereish"',
        }
        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if {"*", f'"{etag}"', f'W/"{etag}"'} & set(known):
            return Response(status_code=304, headers=headers)
        if found is None:
            found = await service.ask(service.jobs.file, client, id)
        if found is None:
            raise no_such_job()
        return Response(found, 200, headers, "application/octet-stream")

    @app.delete("/v1/mechanisms/{id}", status_code=204, **schema.of("delete"))
    async def forget_it(request: Request, id: JobId) -> Response:
        """Cancel a job if it is not done, and forget everything about it."""
        client, _ = await own(request, id)
        if not await service.ask(service.jobs.delete, client, id):
            raise no_such_job()
        try:
            await service.ask(service.queue.forget, id)
        except Exception as wrong:
            # The job is deleted; that the queue knew its id is forgotten later.
            _log.error("not forgotten yet: %s", type(wrong).__name__, extra={"job": id[:8]})
        return Response(status_code=204)

    async def state(scope: Any, id_: str) -> bytes:
        return (await own(Request(scope), id_))[1].content

    return Often("/v1/mechanisms/{id}", r"/v1/mechanisms/([A-Za-z0-9_-]{24})", state)


class Stream(StreamingResponse):
    """The states of a job, as they come. It counts as one from the moment it is promised."""

    def __init__(self, service: Service, client: str, job: Job) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(_events(service, client, job), 200, headers, "text/event-stream")
        self._streams, self._client = service.streams, client
        self._streams[client] += 1

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._client] -= 1


async def _events(service: Service, client: str, job: Job | None) -> AsyncIterator[bytes]:
    before, quiet = b"", 0.0
    while job is not None and not service.stopping:
        now = job.content
        if now != before:
            yield b"event: state\ndata: " + now + b"\n\n"
            before, quiet = now, 0.0
        if job.is_final:
            return
        await asyncio.sleep(_LOOK_S)
        quiet += _LOOK_S
        if quiet > _STILL_THERE_S:
            yield b": still there\n\n"
            quiet = 0.0
        job = await service.job(client, job.id)
    if not service.stopping:
        yield b'event: gone\ndata: {"state": "gone"}\n\n'


def _about(app: FastAPI, service: Service) -> None:
    settings = service.settings

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", **schema.of("healthz"))
    async def is_it_alive() -> Response:
        """Tell that the process answers."""
        return answer(200, {"status": "alive"})

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", **schema.of("readyz"))
    async def is_it_ready() -> Response:
        """Tell whether jobs can be taken and built."""
        await service.ask(service.jobs.counts)
        if not service.queue.ready:
            raise Refusal(503, "queue", "no worker can be started: see the log", "service")
        return answer(200, {"status": "ready"})

    @app.head("/metrics", include_in_schema=False)
    @app.get("/metrics", **schema.of("metrics"))
    async def metrics(request: Request) -> Response:
        """Tell Prometheus how it goes. There is nothing of anybody in it."""
        service.rates.check(await service.client(request))
        content = await service.ask(generate_latest, service.registry)
        return Response(content, media_type="text/plain; version=0.0.4")

    @app.head("/v1/about", include_in_schema=False)
    @app.get("/v1/about", **schema.of("about"))
    async def about() -> Response:
        """Tell what this service is and allows."""
        tiles = None
        if settings.tiles is not None:
            tiles = {
                "url": settings.tiles if "://" in settings.tiles else "/tiles.pmtiles",
                "kind": "pmtiles" if settings.tiles.endswith(".pmtiles") else "raster",
                "attribution": settings.tiles_credit,
            }
        limits = settings.limits
        return answer(
            200,
            {
                "version": metadata.version("whereish"),
                "key_needed": await service.key_needed(),
                "limits": {
                    "places": limits.places,
                    "body_bytes": limits.body_bytes,
                    "time_limit_s": limits.time_limit_s,
                    "memory_gb": limits.memory_gb,
                },
                "tiles": tiles,
            },
        )
