"""The one form of an error: in an HTTP answer, and in a job that failed."""

from __future__ import annotations

import json
from typing import Any


def describe_error(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """Return the parts of an error: a code for programs, a sentence for people, the field."""
    return {"code": code, "message": message, "field": field}


def error_body(error: dict[str, Any], request_id: str | None) -> bytes:
    """Return the body of an HTTP answer for an error, as JSON."""
    return json.dumps({"error": error | {"request_id": request_id}}).encode()
