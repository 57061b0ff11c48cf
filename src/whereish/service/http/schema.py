"""What OpenAPI says of a recipe, a job and an error."""

from __future__ import annotations

from typing import Any

from whereish.spec import BuildSpec

ABOUT = (
    "Builds the location-obfuscation mechanism that loses the least quality of service among all "
    "with the same privacy, and hands it over certified. Devices draw their reports themselves: "
    "no endpoint takes a true location."
)
_WORD = {"type": "string"}
_MAYBE_NUMBER = {"type": ["number", "null"]}

ERROR: dict[str, Any] = {
    "type": "object",
    "title": "Error",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "field", "request_id"],
            "properties": {
                "code": {**_WORD, "description": "What kind of error, for programs."},
                "message": {**_WORD, "description": "What must hold, for people."},
                "field": {"type": ["string", "null"], "description": "Which part, like prior[3]."},
                "request_id": {"type": ["string", "null"]},
            },
        }
    },
}

JOB: dict[str, Any] = {
    "type": "object",
    "title": "Job",
    "required": ["id", "state", "created", "places", "outputs", "estimate", "progress", "error"],
    "properties": {
        "id": _WORD,
        "state": {
            "enum": ["queued", "running", "done", "failed", "parked"],
            "description": "parked: the worker died three times over it, it is not tried again.",
        },
        "created": {"type": "string", "format": "date-time"},
        "places": {"type": "integer"},
        "outputs": {"type": "integer"},
        "method": _WORD,
        "epsilon_per_km": {"type": "number"},
        "estimate": {
            "type": "object",
            "description": "What it is expected to take, in all.",
            "properties": {"seconds": {"type": "number"}, "memory_gb": {"type": "number"}},
        },
        "progress": {
            "type": ["object", "null"],
            "description": "How far it is: the loss so far, and how far from the best at most.",
            "properties": {
                "iteration": {"type": ["integer", "null"]},
                "loss_km": {"type": "number"},
                "gap": _MAYBE_NUMBER,
                "elapsed_s": {"type": "number"},
                "solver": {"type": ["string", "null"]},
                "stopped": {"type": ["string", "null"]},
            },
        },
        "error": {"type": ["object", "null"]},
        "note": {"type": ["string", "null"], "description": "Why nothing is seen to happen."},
    },
}

_NAMED = {"Job": JOB, "Error": ERROR}
_WHY = {
    304: "You have it already.",
    401: "A key is needed.",
    403: "Another site's page may not ask.",
    404: "There is no such job, or it is not yours.",
    408: "The body was sent too slowly.",
    409: "There is no file yet, or never will be.",
    413: "The body is too large.",
    414: "The path is too long.",
    415: "The body must be JSON, and not compressed.",
    421: "This is not the name of this service.",
    422: "What was sent cannot be used; the error names the field.",
    429: "Too often, or the queue is full: Retry-After says when to come back.",
    500: "Something went wrong here.",
    503: "It is not ready.",
}
_ALWAYS = (403, 414, 421, 500, 503)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(name: str, about: str) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": _ref(name)}}}


def _thing(about: str) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": {"type": "object"}}}}


_BYTES = {"schema": {"type": "string", "format": "binary"}}
_POST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _ref("Recipe")}},
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "The same key and recipe again are the same job, not another.",
            "schema": {"type": "string", "pattern": "^[ -~]{1,200}$", "maxLength": 200},
        }
    ],
}
_FILE: dict[str, Any] = {
    "parameters": [
        {
            "name": "prior",
            "in": "query",
            "required": False,
            "description": "omit: the same file without the prior and all computed from it.",
            "schema": {"enum": ["omit"]},
        }
    ],
}
_ROUTES: dict[str, tuple[dict[int, dict[str, Any]], tuple[int, ...], dict[str, Any]]] = {
    "post": (
        {202: _json("Job", "Accepted: it will be built.")}, (401, 408, 413, 415, 422, 429), _POST,
    ),
    "get": ({200: _json("Job", "Its state.")}, (401, 404, 429), {}),
    "events": (
        {
            200: {
                "description": "A stream of events named state, each a Job.",
                "content": {"text/event-stream": {"schema": _WORD}},
            }
        },
        (401, 404, 429), {},
    ),
    "file": (
        {
            200: {
                "description": "The certified mechanism, with its digest as ETag.",
                "content": {"application/octet-stream": _BYTES},
            },
            304: {"description": _WHY[304]},
        },
        (401, 404, 409, 422, 429), _FILE,
    ),
    "delete": ({204: {"description": "Gone, and everything about it."}}, (401, 404, 429), {}),
    "healthz": ({200: _thing("It is alive.")}, (), {}),
    "readyz": ({200: _thing("It is ready.")}, (503,), {}),
    "metrics": (
        {
            200: {
                "description": "Prometheus' text format.",
                "content": {"text/plain": {"schema": _WORD}},
            }
        },
        (401,), {},
    ),
    "about": ({200: _thing("Version and limits.")}, (), {}),
}  # fmt: skip
_OPEN = ("healthz", "readyz", "about")


def of(name: str) -> dict[str, Any]:
    """Return what FastAPI is told of an endpoint."""
    answers, refusals, extra = _ROUTES[name]
    wrong = {status: _json("Error", _WHY[status]) for status in sorted({*refusals, *_ALWAYS})}
    security: list[Any] = [] if name in _OPEN else [{"key": []}, {}]
    return {
        "operation_id": name,
        "response_model": None,
        "responses": {**answers, **wrong},
        "openapi_extra": {**extra, "security": security},
    }


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add to FastAPI's description what it was not told, and take out what it made up."""
    document["components"] = {
        "schemas": {"Recipe": BuildSpec.json_schema(), **_NAMED},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    }
    for methods in document["paths"].values():
        for operation in methods.values():
            # FastAPI would answer 422 to an id that is none; here there is no such job.
            if 422 not in _ROUTES.get(operation["operationId"], ((), (), {}))[1]:
                operation["responses"].pop("422", None)
            for status, told in operation["responses"].items():
                declared = _NAMES_OF.get(operation["operationId"], {}).get(status)
                if declared is not None:
                    told["content"] = declared
    return document


_NAMES_OF = {
    name: {str(status): told.get("content", {}) for status, told in answers.items()}
    for name, (answers, _, _) in _ROUTES.items()
}
