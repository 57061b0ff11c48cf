"""What a public forge runs and shows: workflows that call make, templates, hooks, the citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
yaml = pytest.importorskip("yaml")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")


def steps(file: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_calls_targets_that_exist(file: Path) -> None:
    said = [step["run"] for step in steps(file) if "run" in step]
    called = [name for text in said for name in re.findall(r"\bmake (?:-s )?([a-z-]+)", text)]
    for name in called:
        assert re.search(rf"^{name}:", MAKEFILE, re.MULTILINE), name
    scripts = [name for text in said for name in re.findall(r"(?:^| )(\.ci/[a-z-]+)", text)]
    assert called or scripts
    assert all((ROOT / name).is_file() for name in scripts)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_have_exact_versions_and_jobs_few_rights(file: Path) -> None:
    for step in steps(file):
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", step["uses"]), step["uses"]
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    assert "secrets." not in file.read_text()


def test_the_pythons_that_are_stated_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    test = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert test["linux"]["strategy"]["matrix"]["python"] == stated
    assert project["requires-python"] == f">={stated[0]}"
    search = re.search(r"for p in ((?:python3\.\d+ )+)python3;", MAKEFILE)
    assert search is not None
    assert search[1].split() == [f"python{version}" for version in stated]
    assert f"{stated[0]} to\n  {stated[-1]}" in (ROOT / "docs" / "versions.md").read_text()


def test_hooks_call_tools_of_this_environment_only() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")


def test_the_citation_names_the_software_and_the_paper() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert cited["authors"] == [{"name": "Whereish contributors"}]
    (paper,) = cited["references"]
    assert paper["doi"] == "10.1145/2660267.2660345"
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Bordenabe", "Chatzikokolakis", "Palamidessi"]
    needed = {"cff-version", "message", "title", "authors", "license", "type", "version"}
    assert needed <= set(cited)


def test_forms_of_issues_have_what_a_forge_needs() -> None:
    for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(file.read_text())
        if file.stem != "config":
            assert {"name", "description", "body"} <= set(form)
            ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
            assert len(set(ids)) == len(ids) > 0
    private = (ROOT / ".github/ISSUE_TEMPLATE/privacy.md").read_text()
    assert "SECURITY.md" in private
