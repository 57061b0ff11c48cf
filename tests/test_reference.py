"""The reference has all of it: names, flags, endpoints, exit codes, errors and fields of files.

What is generated for the site is compared by its generator's list, so no site is built here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import errors_reference
import gallery
import http_reference
import pytest
import python_reference
import sources
import typer.main

import whereish as wh
from whereish.cli import app
from whereish.everywhere.build import EverywhereBuild
from whereish.format import by_time_file, claims, everywhere_file, metric_file, places_file
from whereish.mechanisms.build import Build

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
UNSHOWN = {"show_completion"}  # typer's own: the help has --install-completion only


def code(page: str) -> set[str]:
    """Return every word between backticks, and every word of a block of code."""
    text = (DOCS / page).read_text()
    blocks = re.findall(r"```.*?```", text, re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return set(re.findall(r"[\w./{}-]+", " ".join([*blocks, *inline])))


def test_every_public_name_is_in_the_python_reference() -> None:
    groups = python_reference.groups()
    assert sorted(name for names in groups.values() for name in names) == sorted(wh.__all__)
    navigation = (ROOT / "mkdocs.yml").read_text()
    index = python_reference.index()
    for module, names in groups.items():
        page = python_reference.page(module, names)
        assert f"{python_reference.FOLDER}/{module}.md" in navigation
        for name in names:
            assert re.search(rf"^::: whereish\.{name}$", page, re.MULTILINE), name
            assert f"[`{name}`]({module}.md" in index


def commands(entry: Any, path: str = "whereish") -> dict[str, Any]:
    found = {path: entry}
    for name, below in getattr(entry, "commands", {}).items():
        found |= commands(below, f"{path} {name}")
    return found


def test_every_flag_is_in_the_reference_of_its_command() -> None:
    page = (DOCS / "cli.md").read_text()
    parts = dict(re.findall(r"^### (whereish[^\n]*)\n\n```text\n(.*?)```", page, re.M | re.DOTALL))
    known = commands(typer.main.get_command(app))
    assert set(parts) == set(known)
    for path, entry in known.items():
        for parameter in entry.params:
            if getattr(parameter, "hidden", False) or parameter.name in UNSHOWN:
                continue
            for flag in (*parameter.opts, *parameter.secondary_opts):
                if flag.startswith("--"):
                    assert re.search(rf"{re.escape(flag)}(?![\w-])", parts[path]), f"{path} {flag}"


def test_every_endpoint_and_field_of_the_api_is_in_the_reference() -> None:
    text, words = (DOCS / "http.md").read_text(), code("http.md")
    document = http_reference.openapi_document()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text
    for schema in ("BuildSpec", "Job", "Progress"):
        assert set(document["components"]["schemas"][schema]["properties"]) <= words, schema


def test_the_page_of_errors_is_up_to_date_and_has_every_error_and_exit_code() -> None:
    page = (DOCS / "errors.md").read_text()
    assert page == errors_reference.page()
    for kind in errors_reference.error_types():
        assert f"`{kind.__name__}`" in page
        assert kind.__name__ in wh.__all__
    exits = (DOCS / "cli.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    for number in errors_reference.exit_codes().values():
        assert f"| {number} |" in page
        assert f"| {number} |" in exits


# The fields of each kind of file, from the code that writes it.
FIELDS = {
    "arrays of version 1": set(places_file._ARRAYS),
    "arrays of version 2": set(everywhere_file._ARRAYS) | {"counts", "table"},
    "arrays of metric files": set(metric_file._ARRAYS),
    "certificate of version 1": set(claims.CLAIMS),
    "certificate of version 2": set(claims.CLAIMS_2),
    "certificate of version 3": set(claims.CLAIMS_3),
    "build of version 1": {one.name for one in dataclasses.fields(Build)},
    "build of version 2": {one.name for one in dataclasses.fields(EverywhereBuild)},
    "metadata": {"format", "version", "mechanism", "certificate", "sha256", "signature", "signer"},
}


def written_names(module: ModuleType) -> set[str]:
    """Return the keys of the dictionaries that a module writes, read from its source."""
    tree = ast.parse(inspect.getsource(module))
    keys = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
    names = {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return {name for name in names if re.fullmatch("[a-z_0-9]+", name)}


for module in (places_file, everywhere_file, by_time_file, metric_file):
    FIELDS[f"written by {module.__name__}"] = written_names(module)


@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_of_a_file_is_in_the_reference(kind: str) -> None:
    missing = FIELDS[kind] - code("format.md")
    assert not missing, f"docs/format.md does not name these: {sorted(missing)}"


def test_every_example_is_in_the_gallery_and_the_navigation() -> None:
    scripts = {file.stem for file in (ROOT / "examples").glob("*.py")}
    assert {one.name for one in gallery.EXAMPLES} == scripts
    navigation = (ROOT / "mkdocs.yml").read_text()
    for one in gallery.EXAMPLES:
        assert f"{one.title}: {gallery.FOLDER}/{one.name}.md" in navigation


def test_every_page_of_docs_is_in_the_navigation_and_its_links_lead_to_pages(
    tmp_path: Path,
) -> None:
    made = sources.Sources(tmp_path / "site")
    made.add_docs()  # raises if a link leads nowhere
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(made.folder)) for page in made.folder.rglob("*.md")}
    for page in pages:
        assert page.startswith(f"{sources.CODE}/") or page in navigation, page


def test_a_link_to_code_leads_to_a_page_and_a_broken_one_is_an_error(tmp_path: Path) -> None:
    made = sources.Sources(tmp_path / "site")
    page = "[code](../examples/first_steps.py) `[x](y.md)` and\n\n```text\n[z](nowhere.md)\n```\n"
    made.add_page("new.md", page.replace("`[x](y.md)`", ""), DOCS / "new.md")
    text = (made.folder / "new.md").read_text()
    assert "[code](source/examples/first_steps.py.md)" in text
    assert "[z](nowhere.md)" in text  # in a block of code, nothing is a link
    assert "wh.optimal" in (made.folder / "source/examples/first_steps.py.md").read_text()
    with pytest.raises(sources.BrokenLinkError, match="nowhere"):
        made.add_page("other.md", "[z](nowhere.md)", DOCS / "other.md")
