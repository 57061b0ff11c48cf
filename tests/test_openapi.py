"""The OpenAPI document: valid, with names that generate a good client, and true."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest
from fastapi.openapi.models import OpenAPI
from pydantic import BaseModel

from serving import Served, recipe, serving, wait_for
from whereish.service.error_body import HTTP_ERRORS, JOB_ERRORS
from whereish.service.http import models

_TOOL = Path(__file__).parent.parent / "tools" / "http_reference.py"
_SPEC = importlib.util.spec_from_file_location("http_reference", _TOOL)
assert _SPEC is not None
assert _SPEC.loader is not None
http_reference: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(http_reference)

OPERATIONS = {
    ("post", "/v1/mechanisms"): ("createMechanism", "mechanisms"),
    ("get", "/v1/mechanisms/{id}"): ("getMechanism", "mechanisms"),
    ("delete", "/v1/mechanisms/{id}"): ("deleteMechanism", "mechanisms"),
    ("get", "/v1/mechanisms/{id}/events"): ("streamEvents", "mechanisms"),
    ("get", "/v1/mechanisms/{id}/file"): ("downloadFile", "mechanisms"),
    ("get", "/healthz"): ("getHealth", "service"),
    ("get", "/readyz"): ("getReadiness", "service"),
    ("get", "/metrics"): ("getMetrics", "service"),
    ("get", "/v1/about"): ("getAbout", "service"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = http_reference.openapi_document()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield (method, path), operation


def test_operations_and_tags_have_their_names(document: dict[str, Any]) -> None:
    found = {way: (one["operationId"], *one["tags"]) for way, one in operations(document)}
    assert found == OPERATIONS
    assert {tag["name"] for tag in document["tags"]} == {"mechanisms", "service"}


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPI.model_validate(document)
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_every_reference_leads_to_a_schema_and_every_schema_is_used(
    document: dict[str, Any],
) -> None:
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) == named


def test_every_answer_has_a_named_schema(document: dict[str, Any]) -> None:
    for way, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status in ("204", "304"):
                assert "content" not in answer
                continue
            ((kind, content),) = answer["content"].items()
            if kind == "application/json":
                name = content["schema"]["$ref"].rsplit("/", 1)[1]
                assert (name == "Error") == (status >= "400"), (way, status)
            else:
                assert content["schema"]["title"], (way, status)


def test_fields_with_a_default_are_not_required(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, about in schema.get("properties", {}).items():
            has_default = "default" in about
            assert not (has_default and field in schema.get("required", [])), (name, field)
            if has_default and about["default"] is not None:
                jsonschema.validate(about["default"], about)


def test_the_example_is_a_recipe(document: dict[str, Any]) -> None:
    body = document["components"]["schemas"]["BuildSpec"]
    jsonschema.validate(body["example"], document | body)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body["example"] | {"where": [48.85, 2.35]}, document | body)


def test_the_page_is_up_to_date() -> None:
    page = http_reference.PAGE.read_text()
    assert http_reference.written(page) == page, "run: python tools/http_reference.py"


def test_every_error_code_is_used_and_every_used_code_is_in_the_table() -> None:
    source = Path(models.__file__).parents[1]
    text = "\n".join(path.read_text() for path in source.rglob("*.py") if path.name != "errors.py")
    text += (source / "http" / "errors.py").read_text()
    for code in HTTP_ERRORS | JOB_ERRORS:
        assert f'"{code}"' in text, code


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("service")) as served:
        yield served


@pytest.mark.heavy
def test_answers_are_what_the_document_says(service: Served) -> None:
    def check(answer: httpx.Response, status: int, model: type[BaseModel]) -> Any:
        assert answer.status_code == status, answer.text
        return model.model_validate_json(answer.content)

    with service.client() as client:
        job = check(client.post("/v1/mechanisms", json=recipe(9)), 202, models.Job)
        assert job.state is models.JobState.QUEUED
        wait_for(client, job.id)
        done = check(client.get(f"/v1/mechanisms/{job.id}"), 200, models.Job)
        assert done.state is models.JobState.DONE
        assert done.progress is not None
        wrong = recipe(3, privacy_metric={"matrix": [[0, 1, 5], [1, 0, 1], [5, 1, 0]]})
        failed = client.post("/v1/mechanisms", json=wrong).json()["id"]
        wait_for(client, failed)
        told = check(client.get(f"/v1/mechanisms/{failed}"), 200, models.Job)
        assert told.error is not None
        assert told.error.code in JOB_ERRORS
        check(client.get("/healthz"), 200, models.Health)
        check(client.get("/readyz"), 200, models.Readiness)
        check(client.get("/v1/about"), 200, models.About)
        missing = check(client.get("/v1/mechanisms/none"), 404, models.Error)
        assert missing.error.code == "no_job"
        invalid = client.post("/v1/mechanisms", json={})
        assert check(invalid, 422, models.Error).error.code == "invalid"
