"""The OpenAPI document: operation ids, tags and answers of every endpoint."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from whereish.service.error_body import HTTP_ERRORS
from whereish.service.http.models import About, Error, Health, Job, Readiness
from whereish.spec import BuildSpec

TITLE = "Whereish"
DESCRIPTION = (
    "Builds the location-obfuscation mechanism with the least quality loss among all mechanisms "
    "of the same privacy level, and returns it as a certified file. Devices draw their reports "
    "themselves: no endpoint takes a true location."
)
MECHANISMS, SERVICE = "mechanisms", "service"
TAGS = [
    {"name": MECHANISMS, "description": "Build a mechanism and download its file."},
    {"name": SERVICE, "description": "Version, health and metrics of the service."},
]
_NAMED = (
    "key", "cross_site", "no_job", "too_slow", "no_file", "too_large", "too_long", "media_type",
    "host", "invalid", "internal",
)  # fmt: skip
_STATUS_MEANING = dict(HTTP_ERRORS[code] for code in _NAMED) | {
    304: "The client has this file already.",
    429: "Too many requests, or the queue is full; `Retry-After` says how long to wait.",
    503: "The service is not ready; `code` says why.",
}
_EVERYWHERE = (403, 414, 421, 500, 503)
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A second request with the same key and the same recipe returns the same job.",
    "schema": {"type": "string", "pattern": "^[ -~]{1,200}$", "maxLength": 200},
}
_PRIOR = {
    "name": "prior",
    "in": "query",
    "required": False,
    "description": "`omit` returns the file without the prior and everything computed from it.",
    "schema": {"type": "string", "enum": ["omit"]},
}


def _text(media_type: str, **schema: Any) -> dict[str, Any]:
    return {media_type: {"schema": {"type": "string", **schema}}}


def _describe(
    id_: str,
    tag: str,
    answer: tuple[int, str, type[BaseModel] | dict[str, Any] | None],
    errors: tuple[int, ...] = (),
    *,
    needs_key: bool = True,
    **extra: Any,
) -> dict[str, Any]:
    """Return the arguments that describe an endpoint to FastAPI."""
    status, meaning, content = answer
    found: dict[str, Any] = {"description": meaning}
    if content is not None:
        found["content" if isinstance(content, dict) else "model"] = content
    responses = {status: found}
    for wrong in sorted({*errors, *_EVERYWHERE}):
        model = {} if wrong == 304 else {"model": Error}
        responses[wrong] = {"description": _STATUS_MEANING[wrong], **model}
    # Without keys every request is allowed, so the key is optional in the document.
    security: list[Any] = [{"key": []}, {}] if needs_key else []
    return {
        "operation_id": id_,
        "tags": [tag],
        "status_code": status,
        "response_model": None,
        "response_class": Response,
        "responses": responses,
        "openapi_extra": {**extra, "security": security},
    }


_RECIPE = {"application/json": {"schema": {"$ref": "#/components/schemas/BuildSpec"}}}
CREATE = _describe(
    "createMechanism", MECHANISMS, (202, "The job was accepted.", Job),
    (401, 408, 413, 415, 422, 429),
    parameters=[_IDEMPOTENCY_KEY], requestBody={"required": True, "content": _RECIPE},
)  # fmt: skip
GET = _describe("getMechanism", MECHANISMS, (200, "The job.", Job), (401, 404, 429))
EVENTS = _describe(
    "streamEvents", MECHANISMS,
    (200, "Server-sent events named `state`; the data of each is a Job.",
     _text("text/event-stream", title="EventStream")),
    (401, 404, 429),
)  # fmt: skip
FILE = _describe(
    "downloadFile", MECHANISMS,
    (200, "The certified file; `ETag` is its SHA-256.",
     _text("application/octet-stream", format="binary", title="MechanismFile")),
    (304, 401, 404, 409, 422, 429), parameters=[_PRIOR],
)  # fmt: skip
DELETE = _describe(
    "deleteMechanism", MECHANISMS, (204, "The job and its file are deleted.", None),
    (401, 404, 429),
)  # fmt: skip
HEALTH = _describe("getHealth", SERVICE, (200, "It answers.", Health), needs_key=False)
READINESS = _describe("getReadiness", SERVICE, (200, "It is ready.", Readiness), needs_key=False)
METRICS = _describe(
    "getMetrics", SERVICE,
    (200, "The text format of Prometheus.", _text("text/plain", title="Metrics")), (401, 429),
)  # fmt: skip
ABOUT = _describe("getAbout", SERVICE, (200, "Version and limits.", About), needs_key=False)


# Objects within a recipe, by their first required field: a generated client has a class for each.
_NESTED = {
    "latlon": "GeographicPlaces",
    "xy_km": "PlanePlaces",
    "matrix": "DistanceMatrix",
    "edges": "RoadNetwork",
    "file": "MetricFile",
}


def _with_names(part: Any, schemas: dict[str, Any]) -> Any:
    """Return a schema in which nested objects are references, and null is a type."""
    if isinstance(part, list):
        return [_with_names(one, schemas) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _with_names(value, schemas) for key, value in part.items() if key != "example"}
    options = found.get("anyOf", [])
    if any(None in option.get("enum", ()) for option in options):
        found["anyOf"] = [*filter(None, map(_without_null, options)), {"type": "null"}]
    name = _NESTED.get(next(iter(found.get("required") or ()), ""))
    if name is not None and found.get("type") == "object":
        schemas[name] = found | {"title": name}
        return {"$ref": f"#/components/schemas/{name}"}
    return found


def _without_null(option: dict[str, Any]) -> dict[str, Any] | None:
    """Return a choice of words without null, or None if it was the only one."""
    if "enum" not in option:
        return option
    words = [word for word in option["enum"] if word is not None]
    return {**option, "type": "string", "enum": words} if words else None


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add the recipe and the key, and remove what FastAPI adds but the service never answers."""
    components = document["components"]
    recipe = BuildSpec.json_schema()  # with the mechanisms and metrics that are registered now
    named = _with_names(recipe, components["schemas"])
    named |= {"title": "BuildSpec", "example": recipe["example"]}
    components["schemas"]["BuildSpec"] = named
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            # FastAPI answers 422 to an id of the wrong form; this service answers 404.
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    return document
