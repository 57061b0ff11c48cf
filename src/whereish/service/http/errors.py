"""Errors as HTTP answers: every exception becomes the one form of `service.error_body`."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from whereish.errors import GuaranteeError, InputError
from whereish.service.error_body import HTTP_ERRORS, error_body
from whereish.service.jobs.database import DatabaseError, DiskFullError
from whereish.service.jobs.sealing import SealError
from whereish.service.jobs.store import TooMuchError
from whereish.service.logs import request_id

_log = logging.getLogger("whereish.http")
_OTHER = {404: ("no_address", "there is nothing at this path", "path"),
          405: ("method", "this path does not take this method", "method")}  # fmt: skip


class ApiError(Exception):
    """A request that is answered with an error. The code decides the status."""

    def __init__(
        self,
        code: str,
        message: str,
        field: str | None = None,
        headers: dict[str, str] | None = None,
        *,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = HTTP_ERRORS[code][0] if status is None else status
        self.code, self.message, self.field = code, message, field
        self.headers = headers or {}


def error_response(wrong: Exception) -> Response:
    """Return the HTTP answer for an exception."""
    error = error_of(wrong)
    body = error_body(error.code, error.message, error.field, request_id.get())
    headers = {"cache-control": "no-store", **error.headers}
    return Response(body, error.status, headers, "application/json")


def no_such_job() -> ApiError:
    """Return the error for a job that does not exist or belongs to another key: it is the same."""
    return ApiError("no_job", "there is no such job", "id")


def _http(app: FastAPI, request: Request, wrong: HTTPException) -> ApiError:
    """Return the error for an exception of the framework: an unknown path or method."""
    headers = dict(wrong.headers or {})
    if wrong.status_code == 405:
        routes = [route for route in app.routes if route.matches(request.scope)[0] != Match.NONE]
        methods = {method for route in routes for method in getattr(route, "methods", None) or ()}
        headers = {"allow": ", ".join(sorted(methods))}
    other = ("http", "this request cannot be answered", "path")
    code, message, field = _OTHER.get(wrong.status_code, other)
    return ApiError(code, message, field, headers, status=wrong.status_code)


def error_of(wrong: Exception) -> ApiError:
    """Return the error that a client is told for an exception."""
    match wrong:
        case ApiError():
            return wrong
        case InputError():
            return ApiError("invalid", str(wrong), wrong.field)
        case TooMuchError():
            return ApiError("too_much", str(wrong), None, {"retry-after": str(wrong.retry_after_s)})
        case GuaranteeError() | SealError():
            _log.error("a file is withheld: %s", type(wrong).__name__)
            message = "the stored file is not the one that was certified, so it is not sent"
            return ApiError("withheld", message, "service")
        case DiskFullError():
            message = "the disk of the server is full, and nothing was changed: free some room"
            return ApiError("disk_full", message, "service", {"retry-after": "60"})
        case DatabaseError():
            message = "the database does not answer: try again"
            return ApiError("database", message, "service", {"retry-after": "2"})
        case RequestValidationError():
            return no_such_job()  # FastAPI validates nothing but the id of a job
        case _:
            message = "there was an unexpected error in the service"
            return ApiError("internal", message, "service")


def add_error_handlers(app: FastAPI) -> None:
    """Have every exception of an endpoint answered in the one form."""

    async def handle(request: Request, wrong: Exception) -> Response:
        return error_response(wrong)

    for kind in (
        ApiError, InputError, TooMuchError, GuaranteeError, SealError, DatabaseError,
        RequestValidationError, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, handle)

    @app.exception_handler(HTTPException)
    async def handle_http(request: Request, wrong: HTTPException) -> Response:
        return error_response(_http(app, request, wrong))

    @app.exception_handler(ClientDisconnect)
    async def handle_disconnect(request: Request, wrong: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the client has left and does not read it
