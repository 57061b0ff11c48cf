"""Write the reference parts of docs/http.md from the OpenAPI document and the tables of the code.

``python tools/http_reference.py`` writes the page; a test checks that it is up to date.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from whereish.service.error_body import HTTP_ERRORS, JOB_ERRORS
from whereish.service.http.app import create_api
from whereish.service.http.context import Service
from whereish.service.limits import FixedLimits, Limits
from whereish.service.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "http.md"


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of a service with default settings."""
    with tempfile.TemporaryDirectory() as folder:
        api, _ = create_api(Service(Settings(Path(folder))))
        return api.openapi()


def _bullet(text: str) -> str:
    return textwrap.fill(
        f"- {text}", 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _endpoints(document: dict[str, Any]) -> str:
    rows = ["| request | operation | what it does |", "| --- | --- | --- |"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name, about = operation["operationId"], operation["description"].replace("\n", " ")
            rows.append(f"| `{method.upper()} {path}` | `{name}` | {about} |")
    return "\n".join(rows)


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    if "const" in schema:
        return f"`{schema['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            found = [_type(one) for one in schema[key] if one != {"type": "null"}]
            return " or ".join(dict.fromkeys(one for one in found if one))
    kinds = schema.get("type", "")
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if kinds == ["array"] and _type(schema.get("items", {})) in ("number", "integer"):
        return f"array of {schema['items']['type']}s"
    if kinds == ["object"] and schema.get("required"):
        return "object with " + ", ".join(f"`{name}`" for name in schema["required"])
    return kinds[0] if kinds else ""


def _fields(document: dict[str, Any], name: str) -> str:
    schema = document["components"]["schemas"][name]
    required = schema.get("required", [])
    lines = []
    for field, about in schema["properties"].items():
        facts = [_type(about)]
        if field in required:
            facts.append("required")
        elif about.get("default") is not None:
            facts.append(f"default `{about['default']}`".replace("`False`", "`false`"))
        text = about.get("description", "").replace("\n", " ")
        known = ", ".join(fact for fact in facts if fact)
        lines.append(_bullet(f"`{field}` ({known})" + (f": {text}" if text else "")))
    return "\n".join(lines)


def _http_errors() -> str:
    rows = ["| status | code | meaning |", "| --- | --- | --- |"]
    rows += [
        f"| {status} | `{code}` | {meaning} |" for code, (status, meaning) in HTTP_ERRORS.items()
    ]
    return "\n".join(rows)


def _job_errors() -> str:
    rows = ["| code | meaning |", "| --- | --- |"]
    return "\n".join([*rows, *(f"| `{code}` | {what} |" for code, what in JOB_ERRORS.items())])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _limits(table: type[Any]) -> str:
    lines = []
    for field in dataclasses.fields(table):
        about = field.metadata
        default: Any = field.default
        value = "" if default is None else f"{_number(default)} "
        name = about["flag"] or field.name
        lines.append(
            _bullet(
                f"`{name}`: {value}{about['unit']}. Past it: {about['past']}. "
                f"Reason: {about['reason']}."
            )
        )
    return "\n".join(lines)


def parts() -> dict[str, str]:
    """Return the generated parts of the page by their names."""
    document = openapi_document()
    return {
        "endpoints": _endpoints(document),
        "recipe": _fields(document, "BuildSpec"),
        "job": _fields(document, "Job"),
        "estimate": _fields(document, "Estimate"),
        "progress": _fields(document, "Progress"),
        "errors": _http_errors(),
        "job errors": _job_errors(),
        "limits": _limits(Limits),
        "fixed limits": _limits(FixedLimits),
    }


def written(page: str) -> str:
    """Return the page with its generated parts replaced."""
    new = parts()
    found = re.findall(r"<!-- generated: (.*?) -->", page)
    if sorted(found) != sorted(new):
        raise ValueError(f"{PAGE.name} must have one part of each name: {', '.join(new)}")
    return re.sub(
        r"(<!-- generated: (.*?) -->).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n{new[match[2]]}\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
