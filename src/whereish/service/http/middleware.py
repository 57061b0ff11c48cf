"""Around every request: an id, checks of host and origin, headers, metrics, a line of log."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from whereish.service.http.errors import ApiError, error_response
from whereish.service.jobs.database import DatabaseError
from whereish.service.limits import FIXED
from whereish.service.logs import request_id
from whereish.service.settings import Settings

Message = MutableMapping[str, Any]
Asgi = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
_log = logging.getLogger("whereish.http")
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_CHECKED_HEADERS = {b"x-request-id", b"host", b"origin", b"sec-fetch-site"}
_METHODS = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"}
_JSON_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]

# The policy of the page. tools/site/demo.py uses it for the page without a server.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'{styles}; "
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


def json_response(status: int, document: Any, headers: dict[str, str] | None = None) -> Response:
    """Answer with JSON: a document, or bytes that are JSON already."""
    if not isinstance(document, bytes):
        document = json.dumps(document, allow_nan=False).encode()
    headers = {"cache-control": "no-store", **(headers or {})}
    return Response(document, status, headers, "application/json")


class FastRoute:
    """One endpoint that bypasses the framework, because clients call it very often.

    It answers GET with status 200 and JSON. It is several times as fast as a route of FastAPI.
    """

    def __init__(
        self, route: str, pattern: str, handle: Callable[[Message, str], Awaitable[bytes]]
    ) -> None:
        self.route, self._pattern, self._handle = route, re.compile(pattern), handle

    def match(self, scope: Message) -> str | None:
        """Return the id in the path if this route answers the request, otherwise None."""
        found = self._pattern.fullmatch(scope["path"]) if scope["method"] == "GET" else None
        return None if found is None else found[1]

    async def answer(self, scope: Message, receive: Any, send: Any, id_: str) -> None:
        """Answer with the job, or with an error."""
        try:
            content = await self._handle(scope, id_)
        except (ApiError, DatabaseError) as wrong:
            await error_response(wrong)(scope, receive, send)
        else:
            headers = [(b"content-length", str(len(content)).encode()), *_JSON_HEADERS]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": content})


class Middleware:
    """Handles what all requests have in common, before and after the application."""

    def __init__(
        self, app: Asgi, settings: Settings, registry: CollectorRegistry, fast_route: FastRoute
    ) -> None:
        self._app = app
        self._fast_route = fast_route
        self._local = settings.is_local
        bound = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._hosts = {*_LOOPBACK, bound.lower(), *(host.lower() for host in settings.hosts)}
        host = re.match(r"https?://[^/]+", settings.tiles or "")
        policy = POLICY.format(styles="", tiles=f" {host[0]}" if host else "")
        common = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
        csp = b"content-security-policy"
        self._headers = [*common, (csp, policy.encode())]
        # The page of Swagger writes inline styles; no other page may.
        docs_policy = POLICY.format(styles=" 'unsafe-inline'", tiles="")
        self._docs_headers = [*common, (csp, docs_policy.encode())]
        self._requests = Counter(
            "whereish_http_requests", "Requests answered.", ("method", "route", "status"),
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "whereish_http_seconds", "Seconds until an answer began.", ("route",),
            registry=registry, buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
        )  # fmt: skip

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        start = time.perf_counter()
        headers = {name: value for name, value in scope["headers"] if name in _CHECKED_HEADERS}
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        request = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)
        token = request_id.set(request)
        status, seconds, route, level = 0, 0.0, None, logging.INFO

        async def send_with_headers(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status = message["status"]
                seconds = time.perf_counter() - start
                message["headers"] = [
                    *message.get("headers", ()),
                    *(self._docs_headers if scope["path"] == "/docs" else self._headers),
                    (b"x-request-id", request.encode()),
                ]
            await send(message)

        try:
            error = self._check(scope, headers)
            if error is not None:
                await error_response(error)(scope, receive, send_with_headers)
            elif (id_ := self._fast_route.match(scope)) is not None:
                route, level = self._fast_route.route, logging.DEBUG
                await self._fast_route.answer(scope, receive, send_with_headers, id_)
            else:
                await self._app(scope, receive, send_with_headers)
        except Exception as wrong:
            if isinstance(wrong, (ConnectionError, ClientDisconnect)):
                return
            _log.error("unexpected error", exc_info=wrong)
            if status == 0:
                await error_response(wrong)(scope, receive, send_with_headers)
        finally:
            route = route or getattr(scope.get("route"), "path", None) or "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._requests.labels(method, route, str(status)).inc()
            self._seconds.labels(route).observe(seconds)
            level = level if status < 400 else logging.INFO
            if _log.isEnabledFor(level):
                extra = {"method": method, "route": route, "status": status}
                _log.log(level, "request", extra=extra | {"seconds": round(seconds, 4)})
            request_id.reset(token)

    def _check(self, scope: Message, headers: dict[bytes, bytes]) -> ApiError | None:
        """Return an error for a path that is too long, a wrong host, or a page of another site."""
        if len(scope["raw_path"]) > FIXED.path_bytes:
            message = f"a path must be at most {FIXED.path_bytes} bytes"
            return ApiError("too_long", message, "path")
        if not self._local:
            return None  # a key is needed, and a browser never adds one by itself
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = re.sub(r":\d+$", "", host)
        if name not in self._hosts:
            message = "Host must be a name of this service: --allow-host adds one"
            return ApiError("host", message, "Host")
        origin = headers.get(b"origin")
        own = {f"http://{host}".encode(), f"https://{host}".encode()}
        foreign = origin is not None and origin.lower() not in own
        if foreign or headers.get(b"sec-fetch-site") == b"cross-site":
            message = "pages of other sites must not send requests to this service"
            return ApiError("cross_site", message, "Origin")
        return None
