"""Around every request: an id, who may ask and how often, headers, errors, a line of log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from whereish.service.jobs.database import DatabaseError
from whereish.service.logs import request_id
from whereish.service.settings import BODY_S, LONGEST_PATH, PIECE_S, Limits, Settings

Message = MutableMapping[str, Any]
Asgi = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
_log = logging.getLogger("whereish.http")
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{styles}; "
    "img-src 'self' data: blob:{tiles}; font-src 'self'; connect-src 'self'{tiles}; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(self), camera=(), microphone=(), payment=(), usb=()",
}


class Refusal(Exception):  # noqa: N818
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field
        self.headers = headers or {}


def answer(status: int, document: Any, headers: dict[str, str] | None = None) -> Response:
    """Answer with JSON: a document, or bytes that are one already."""
    if isinstance(document, bytes):
        content = document
    else:
        content = json.dumps(document, allow_nan=False).encode()
    told = {"cache-control": "no-store", **(headers or {})}
    return Response(content, status, told, "application/json")


def refuse(refusal: Refusal) -> Response:
    """Answer with the one form that an error has."""
    error = {
        "code": refusal.code,
        "message": refusal.message,
        "field": refusal.field,
        "request_id": request_id.get(),
    }
    return answer(refusal.status, {"error": error}, refusal.headers)


def no_database_now() -> Refusal:
    """Refuse for now, because the database does not answer."""
    message = "the database does not answer: try again"
    return Refusal(503, "database", message, "service", {"retry-after": "2"})


def disk_full() -> Refusal:
    """Refuse what needs room on a disk that has none."""
    message = "the server's disk is full, and nothing was changed: its operator has to make room"
    return Refusal(503, "disk_full", message, "service", {"retry-after": "60"})


class Room:
    """Memory for all bodies that are being read, or wait for a thread to read them."""

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes so many bytes, or refuses; all are given back at the end."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if count > self._left:
                message = "there are too many requests at once: try again"
                raise Refusal(503, "busy", message, "service", {"retry-after": "2"})
            self._left -= count
            taken += count

        try:
            yield take
        finally:
            self._left += taken


async def read_body(request: Request, limit: int, take: Callable[[int], None]) -> bytes:
    """Read a body of JSON: not more than the limit, and not from somebody who dawdles."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "media_type", "Content-Type must be application/json", "Content-Type")
    codings = ",".join(request.headers.getlist("content-encoding")).lower().split(",")
    if not {coding.strip() for coding in codings} <= {"", "identity"}:
        message = "Content-Encoding must be left out: a body is sent as it is, not compressed"
        plain = {"accept-encoding": "identity"}
        raise Refusal(415, "media_type", message, "Content-Encoding", plain)
    told = request.headers.get("content-length", "0")
    large = Refusal(413, "too_large", f"the body must be at most {limit:,} bytes", "body")
    if told.isdigit() and int(told[:20]) > limit:
        raise large
    body = bytearray()
    try:
        async with asyncio.timeout(PIECE_S) as patience:
            loop = asyncio.get_running_loop()
            end = loop.time() + BODY_S
            async for piece in request.stream():
                patience.reschedule(min(end, loop.time() + PIECE_S))
                if len(body) + len(piece) > limit:
                    raise large
                take(len(piece))
                body += piece
    except TimeoutError:
        raise Refusal(
            408, "too_slow", "the body must be sent without long pauses", "body"
        ) from None
    return bytes(body)


class Bucket:
    """So many at once, and then so many a second."""

    def __init__(self, most: float, per_second: float) -> None:
        self._most, self._rate = most, per_second
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, client: str) -> float:
        """Take one; return 0, or the seconds until there is one again."""
        with self._lock:
            now = time.monotonic()
            left, since = self._left.get(client, (self._most, now))
            left = min(self._most, left + (now - since) * self._rate)
            self._left[client] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) / self._rate


class Rates:
    """How often each key may ask."""

    def __init__(self, limits: Limits) -> None:
        self._posts = Bucket(limits.posts_per_minute, limits.posts_per_minute / 60)
        self._reads = Bucket(limits.reads_per_second, limits.reads_per_second)

    def check(self, client: str, *, post: bool = False) -> None:
        """Raise a refusal that says when to come back, if it is too often."""
        wait = (self._posts if post else self._reads).take(client)
        if wait > 0:
            seconds = int(wait) + 1
            raise Refusal(
                429, "too_often", f"there were too many requests with this key: wait {seconds} s",
                None, {"retry-after": str(seconds)},
            )  # fmt: skip


class Often:
    """An endpoint that is asked so often that it goes past the framework: several times as fast.

    What it answers is JSON, with status 200.
    """

    def __init__(
        self, route: str, pattern: str, handle: Callable[[Message, str], Awaitable[bytes]]
    ) -> None:
        self.route, self._pattern, self._handle = route, re.compile(pattern), handle

    def match(self, scope: Message) -> str | None:
        """Return what the path holds, if this is to answer it."""
        found = self._pattern.fullmatch(scope["path"]) if scope["method"] == "GET" else None
        return None if found is None else found[1]

    async def answer(self, scope: Message, receive: Any, tell: Any, told: str) -> None:
        """Answer, or refuse."""
        try:
            content = await self._handle(scope, told)
        except Refusal as refusal:
            await refuse(refusal)(scope, receive, tell)
        except DatabaseError:
            await refuse(no_database_now())(scope, receive, tell)
        else:
            headers = [(b"content-length", str(len(content)).encode()), *_AS_JSON]
            await tell({"type": "http.response.start", "status": 200, "headers": headers})
            await tell({"type": "http.response.body", "body": content})


class Guard:
    """Stands around the whole application."""

    def __init__(
        self, app: Asgi, settings: Settings, registry: CollectorRegistry, often: Often
    ) -> None:
        self._app = app
        self._often = often
        self._local = settings.is_local
        bound = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._hosts = {*_LOOPBACK, bound.lower(), *(host.lower() for host in settings.hosts)}
        tiles = settings.tiles or ""
        host = re.match(r"https?://[^/]+", tiles)
        told = f" {host[0]}" if host else ""
        policy = _POLICY.format(styles="", tiles=told)
        plain = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
        csp = b"content-security-policy"
        self._plain = [*plain, (csp, policy.encode())]
        # Swagger's own page writes styles; nothing else may.
        self._docs = [*plain, (csp, _POLICY.format(styles=" 'unsafe-inline'", tiles="").encode())]
        self._requests = Counter(
            "whereish_http_requests", "Requests answered.", ("method", "route", "status"),
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "whereish_http_seconds", "Seconds until an answer began.", ("route",),
            registry=registry, buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
        )  # fmt: skip

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        start = time.perf_counter()
        headers = {name: value for name, value in scope["headers"] if name in _LOOKED_AT}
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        request = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)
        token = request_id.set(request)
        status, seconds, route, quiet = 0, 0.0, None, logging.INFO

        async def tell(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status = message["status"]
                seconds = time.perf_counter() - start
                message["headers"] = [
                    *message.get("headers", ()),
                    *(self._docs if scope["path"] == "/docs" else self._plain),
                    (b"x-request-id", request.encode()),
                ]
            await send(message)

        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await refuse(refusal)(scope, receive, tell)
            elif (told := self._often.match(scope)) is not None:
                route, quiet = self._often.route, logging.DEBUG
                await self._often.answer(scope, receive, tell, told)
            else:
                await self._app(scope, receive, tell)
        except Exception as wrong:
            if isinstance(wrong, (ConnectionError, ClientDisconnect)):
                return
            _log.error("unexpected error", exc_info=wrong)
            if status == 0:
                sorry = Refusal(500, "internal", "something went wrong here", "service")
                await refuse(sorry)(scope, receive, tell)
        finally:
            route = route or getattr(scope.get("route"), "path", None) or "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._requests.labels(method, route, str(status)).inc()
            self._seconds.labels(route).observe(seconds)
            quiet = quiet if status < 400 else logging.INFO
            if _log.isEnabledFor(quiet):
                extra = {"method": method, "route": route, "status": status}
                _log.log(quiet, "request", extra=extra | {"seconds": round(seconds, 4)})
            request_id.reset(token)

    def _refusal(self, scope: Message, headers: dict[bytes, bytes]) -> Refusal | None:
        """Refuse what no page of ours sends: another host's name, another site's request."""
        if len(scope["raw_path"]) > LONGEST_PATH:
            return Refusal(414, "too_long", f"a path must be at most {LONGEST_PATH} bytes", "path")
        if not self._local:
            return None  # a key is asked for, and no browser adds one by itself
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = re.sub(r":\d+$", "", host)
        if name not in self._hosts:
            return Refusal(
                421, "host", "this service answers to its own name only: see --allow-host", "Host"
            )
        origin = headers.get(b"origin")
        own = {f"http://{host}".encode(), f"https://{host}".encode()}
        foreign = origin is not None and origin.lower() not in own
        if foreign or headers.get(b"sec-fetch-site") == b"cross-site":
            return Refusal(403, "cross_site", "other sites may not ask this service", "Origin")
        return None


_AS_JSON = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_LOOKED_AT = {b"x-request-id", b"host", b"origin", b"sec-fetch-site"}
_METHODS = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"}
