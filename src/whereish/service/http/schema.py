"""The schemas of a request's body: generated from the description of a build."""

from __future__ import annotations

from typing import Any

from whereish.spec import BuildSpec

REQUEST_BODY = "BuildSpec"  # the schema of what POST takes


def components() -> dict[str, Any]:
    """Return the schemas by name, with all mechanisms and metrics that are registered now."""
    return {REQUEST_BODY: BuildSpec.json_schema()}
