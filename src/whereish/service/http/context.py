"""What the endpoints share: settings, database, keys, jobs, limits, and who sends a request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
from fastapi import Request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from whereish.errors import InputError
from whereish.service.auth.keys import ANYONE, Keys
from whereish.service.http.body import BodyMemory
from whereish.service.http.connections import Connections, open_files
from whereish.service.http.errors import ApiError, no_such_job
from whereish.service.http.rates import RateLimits
from whereish.service.jobs.database import Database, DatabaseError
from whereish.service.jobs.model import Job
from whereish.service.jobs.queue import Queue
from whereish.service.jobs.sealing import seal_of
from whereish.service.jobs.store import Jobs
from whereish.service.limits import FIXED
from whereish.service.settings import Settings
from whereish.spec import EVERYWHERE, Recipe


class Service:
    """What the endpoints share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.folder, settings.database)
        self.keys = Keys(self.database)
        self.jobs = Jobs(self.database, seal_of(settings.folder), settings.limits)
        self.queue = Queue(settings, self.jobs)
        self.rates = RateLimits(settings.limits)
        self.body_memory = BodyMemory(max(FIXED.bodies_bytes, 2 * settings.limits.body_bytes))
        self.streams: Counter[str] = Counter()
        self.connections = Connections(settings.limits, open_files())
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.jobs.check_seal()
        self.stopping = False
        self._threads = anyio.CapacityLimiter(FIXED.threads)
        self._parsing = threading.Lock()
        self.keys.refresh()
        self._refreshing = False

    def collect(self) -> Any:
        """Yield the metrics for Prometheus, except those of requests."""
        states = GaugeMetricFamily("whereish_jobs", "Jobs by state.", labels=["state"])
        for state, count in self.jobs.counts().items():
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily("whereish_solves", "Solves running here.", value=self.queue.busy)
        open_ = len(self.connections)
        yield GaugeMetricFamily("whereish_connections", "Open connections.", value=open_)
        closed = CounterMetricFamily(
            "whereish_connections_closed", "Connections closed because of limits.", labels=["how"]
        )
        for how in ("refused", "for another"):
            closed.add_metric([how.replace(" ", "_")], self.connections.closed[how])
        yield closed

    async def key_needed(self) -> bool:
        """Return whether requests need a key: always after the first key was made."""
        # Keys are read once a second: one request reads, the others use the known keys.
        if self.keys.stale() and not self._refreshing:
            self._refreshing = True
            try:
                await self.run(self.keys.refresh)
            finally:
                self._refreshing = False
        return not self.settings.is_local or self.keys.needed

    async def client(self, request: Request) -> str:
        """Return the client that sends a request, or raise an error if its key is not valid."""
        if not await self.key_needed():
            return ANYONE
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        key = key.strip() if kind.lower() == "bearer" else ""
        client = self.keys.client(key)
        if client is None:
            raise ApiError(
                "key", "a key is needed: Authorization: Bearer wh_...", "Authorization",
                {"www-authenticate": "Bearer"},
            )  # fmt: skip
        return client

    async def client_and_job(self, request: Request, id_: str) -> tuple[str, Job]:
        """Return who sends a request, and the job it names, or raise an error."""
        client = await self.client(request)
        self.rates.check(client)
        job = await self.job(client, id_)
        if job is None:
            raise no_such_job()
        return client, job

    async def job(self, client: str, id_: str) -> Job | None:
        """Return a client's job: from memory, or from the database in a thread."""
        found = self.jobs.cache.get(client, id_)
        return found if found is not None else await self.run(self.jobs.get, client, id_)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function that uses the database in a thread, and give up after a while."""
        try:
            with anyio.fail_after(FIXED.database_s):
                return await anyio.to_thread.run_sync(
                    function, *arguments, abandon_on_cancel=True, limiter=self._threads
                )
        except TimeoutError:
            raise DatabaseError("the database does not answer") from None

    def accept(self, client: str, body: bytes, name: str | None) -> Job:
        """Make a job of a recipe, or return the job that was made with this Idempotency-Key."""
        if name is not None and (known := self.jobs.accepted(client, name, body)) is not None:
            return known
        self.rates.check(client, post=True)
        with self._parsing:  # one at a time: parsing JSON blocks all other threads
            recipe = Recipe.from_json(body)
        plan = self._check_size(recipe)
        job, new = self.jobs.accept(client, recipe, plan, body, name)
        if new:
            self.queue.notify()
        return job

    def _check_size(self, recipe: Recipe) -> Any:
        """Return the plan of a recipe, or raise InputError if it needs more than is allowed."""
        limits = self.settings.limits
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
            # With a time_limit_s, only what follows the search takes too long.
            advice = "; set time_limit_s to get the best mechanism found in that time"
            advice *= recipe.time_limit_s is None
            size = "vertices" if recipe.guarantee == EVERYWHERE else "places"
            raise InputError(
                f"{size} are too many to be done in {most:g} s: {plan.why}{advice}, or use method "
                '"auto"', size,
            )  # fmt: skip
        return plan
