"""A mechanism or a metric is added in one line, and is then known wherever one can be chosen."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import strategies as some
import whereish as wh
from whereish.mechanisms import MECHANISMS, method_names
from whereish.places import METRICS, metric_names
from whereish.service.http.app import create_app
from whereish.service.settings import Settings, private_folder
from whereish.spec import BuildSpec
from whereish.studies import compare

# One line each. Every place is as likely to be reported; twice the distance along both axes.
UNIFORM = (
    'register_mechanism("uniform", "says nothing at all", '
    "lambda asked: wh.exponential(asked.places, asked.level).remap([1.0] + [0.0] * "
    "(len(asked.places) - 1)))"
)
MANHATTAN = (
    'register_metric("manhattan", "along the axes, km", '
    "lambda places: np.abs(places.xy[:, None] - places.xy).sum(axis=2))"
)
PLUGIN = f"""
import numpy as np
import whereish as wh
from whereish.mechanisms import register_mechanism
from whereish.places import register_metric
{UNIFORM}
{MANHATTAN}
"""
DOCUMENT = {
    "places": {"xy_km": some.grid(4, 3).xy.tolist()}, "prior": some.skewed(12, 1).tolist(),
    "epsilon_per_km": 1.07,
}  # fmt: skip


@pytest.fixture
def plugin() -> Iterator[None]:
    """Register both, and take them out again."""
    exec(PLUGIN, {})
    yield
    MECHANISMS.pop("uniform")
    METRICS.pop("manhattan")


def command(folder: Path, *words: object) -> Any:
    """Run the command line as somebody does whose program registers both first."""
    code = f"{PLUGIN}\nfrom whereish.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, cwd=folder
    )


async def description(settings: Settings) -> str:
    """Return OpenAPI's document, without a server."""
    app, _ = create_app(settings)
    way = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=way, base_url="http://127.0.0.1:8765") as client:
        return (await client.get("/openapi.json")).raise_for_status().text


@pytest.mark.usefixtures("plugin")
def test_a_description_knows_them() -> None:
    assert "uniform" in method_names()
    assert "manhattan" in metric_names("privacy")
    made = BuildSpec.from_document({**DOCUMENT, "method": "uniform"}).build()
    assert made.epsilon == 1.07
    metric = BuildSpec.from_document({**DOCUMENT, "privacy_metric": "manhattan"}).build()
    xy = np.array(some.grid(4, 3).xy)
    assert metric.privacy_metric is not None
    assert np.allclose(metric.privacy_metric, np.abs(xy[:, None] - xy).sum(axis=2))


def test_before_they_are_registered_nothing_knows_them() -> None:
    for more in ({"method": "uniform"}, {"privacy_metric": "manhattan"}):
        with pytest.raises(wh.InputError, match="must be one of"):
            BuildSpec.from_document({**DOCUMENT, **more})


@pytest.mark.usefixtures("plugin")
def test_the_http_schema_names_them(tmp_path: Path) -> None:
    said = asyncio.run(description(Settings(private_folder(tmp_path / "data"))))
    assert '"uniform"' in said
    assert "uniform: says nothing at all" in said
    assert '"manhattan"' in said


@pytest.mark.usefixtures("plugin")
def test_a_comparison_shows_the_mechanism() -> None:
    rows = {row.name: row for row in compare(wh.Profile(some.grid(3, 3), some.skewed(9)), 1.07)}
    assert rows["uniform"].epsilon_per_km == 1.07
    assert list(rows) == [
        "optimal", "tight constraints + remap", "planar Laplace + remap", "tight constraints",
        "planar Laplace", "exponential", "Blahut-Arimoto", "uniform", "optimal everywhere",
        "planar Laplace everywhere + remap", "planar Laplace, equal loss",
        "Shokri et al., equal loss",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_command_line_offers_and_builds_them(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({**DOCUMENT, "privacy_metric": "manhattan"}))
    helped = command(tmp_path, "build", "--help")
    assert "uniform" in helped.stdout
    assert "manhattan" in command(tmp_path, "measure", "--help").stdout
    done = command(tmp_path, "build", "spec.json", "-o", "k.whereish", "--method", "uniform")
    assert done.returncode == 0, done.stderr
    told = ["measure", "k.whereish", "--prior", "me.csv", "--adversary-metric", "manhattan"]
    rows = zip(DOCUMENT["places"]["xy_km"], DOCUMENT["prior"], strict=True)
    lines = [f"{x},{y},{p}" for (x, y), p in rows]
    (tmp_path / "me.csv").write_text("\n".join(["x_km,y_km,prior", *lines]))
    done = command(tmp_path, *told, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["adversary_metric"] == "manhattan"


@pytest.mark.parametrize("name", ["solver", "method", "formulation"])
def test_choices_complete(name: str) -> None:
    """What the shell asks for after ``--solver h<TAB>``."""
    import typer.main

    from whereish.cli import app

    commands: Any = typer.main.get_command(app)
    build = commands.commands["build"]
    option = next(one for one in build.params if f"--{name}" in one.opts)
    context = build.make_context("build", [], resilient_parsing=True)
    whole = [item.value for item in option.shell_complete(context, "")]
    assert len(whole) >= 2
    begun = whole[-1][:2]
    found = [item.value for item in option.shell_complete(context, begun)]
    assert found == [one for one in whole if one.startswith(begun)]


def test_every_mechanism_with_an_epsilon_can_be_described() -> None:
    for name in method_names():
        try:
            made = BuildSpec.from_document(
                {**DOCUMENT, "method": name, "epsilon_per_km": 5}
            ).build()
        except wh.SolveError as wrong:
            assert name == "tight-constraints"
            assert "does not exist" in str(wrong)
        else:
            assert made.epsilon == 5
