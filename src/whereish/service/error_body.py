"""Errors of the service: every code with its meaning, and the one form that all errors have."""

from __future__ import annotations

import json
from typing import Any

from whereish.retries import RETRY

# Code: HTTP status and meaning.
HTTP_ERRORS: dict[str, tuple[int, str]] = {
    "not_http": (400, "The bytes are not an HTTP request."),
    "chunks": (400, "Chunk sizes and extensions are too long."),
    "trailers": (400, "The request has trailers."),
    "http": (400, "Another error of the HTTP protocol."),
    "key": (401, "A key is needed, or the key is not valid."),
    "cross_site": (403, "A page of another site sent the request."),
    "no_job": (404, "There is no job with this id, or it belongs to another key."),
    "no_address": (404, "There is nothing at this path."),
    "method": (405, "This path does not take this method."),
    "too_slow": (408, "Headers or body were sent too slowly."),
    "no_file": (409, "The job has no file, because it is not done."),
    "too_large": (413, "The body is too large."),
    "too_long": (414, "The path is too long."),
    "media_type": (415, "The body is not JSON, or is compressed."),
    "host": (421, "The host name is not a name of this service."),
    "invalid": (422, "The request is not valid; `field` names the part."),
    "too_often": (429, "Too many requests with this key; `Retry-After` says how long to wait."),
    "too_much": (429, "The queue or the number of jobs of this key is full."),
    "too_many_streams": (429, "Too many open event streams with this key."),
    "headers": (431, "The headers are too long."),
    "internal": (500, "There was an unexpected error in the service."),
    "withheld": (500, "The stored file is not the one that was certified, so it is not sent."),
    "transfer_coding": (501, "The transfer coding is not `chunked`."),
    "database": (503, "The database does not answer; try again."),
    "disk_full": (503, "The disk of the server is full; nothing was changed."),
    "queue": (503, "No worker can be started, or the cluster does not answer."),
    "busy": (503, "Too many bodies are being read; try again."),
    "connections": (503, "Too many connections are open; try again."),
    "page": (503, "The page was not built with the package."),
}
# Code of a job that failed: meaning.
JOB_ERRORS = {
    "invalid": "The recipe cannot be built; `field` names the part.",
    "not_solved": "The solver found no mechanism.",
    "not_private": "The mechanism found does not satisfy its privacy level, so there is no file.",
    "memory": "The solve needs more memory than is allowed.",
    "time": "The solve took longer than is allowed.",
    "parked": f"{RETRY.deaths} workers died over this job, so it is not tried again.",
    "unreadable": "The stored recipe cannot be read with the secret of this server.",
    "cancelled": "The job was deleted while it was solved.",
    "internal": "There was an unexpected error in the worker.",
}


def describe_error(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """Return the parts of an error: a code for programs, a sentence for people, the field."""
    return {"code": code, "message": message, "field": field}


def error_body(code: str, message: str, field: str | None, request_id: str | None) -> bytes:
    """Return the body of an HTTP answer for an error, as JSON."""
    error = describe_error(code, message, field) | {"request_id": request_id}
    return json.dumps({"error": error}).encode()
