"""The documents are true and readable: files exist, lines are short, modules have today's names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "whereish"
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if page.name != "CHANGELOG.md"
)
QUESTIONS = 20


def exists(name: str, *roots: Path) -> bool:
    name = name.removeprefix("src/whereish/")
    return any((root / name).exists() for root in roots)


def table(heading: str) -> list[tuple[str, str]]:
    """Return the rows (question, answer) of the first table below a heading of the layout."""
    page = (ROOT / "docs" / "architecture" / "README.md").read_text()
    lines = page.partition(f"\n{heading}\n")[2].splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("| ---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        question, answer = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((question, answer))
    return rows


def test_a_stranger_finds_the_file_of_every_question() -> None:
    first = table("## Where is ...?")
    assert len(first) == QUESTIONS
    for question, answer in first + table("More questions:"):
        paths = [one for one in re.findall(r"`([^`]+)`", answer) if "/" in one or ".py" in one]
        assert paths, question
        for path in paths:
            assert exists(path, SOURCE, ROOT), f"{question} {path}"


def test_the_layout_names_every_folder_and_file() -> None:
    page = (ROOT / "docs" / "architecture" / "README.md").read_text()
    tree = re.findall(r"^  *.*$", page.partition("```")[2].partition("```")[0], re.MULTILINE)
    named = {word for line in tree for word in re.findall(r"(\w+)(?:/|\.py)(?=[\s:]|$)", line)}
    found = {p.stem for p in SOURCE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert found - {"__init__", "__main__", "__pycache__", "_core"} <= named


def test_every_file_of_the_core_is_described() -> None:
    page = (ROOT / "docs" / "architecture" / "README.md").read_text()
    tools = {"fuzz.c", "gcc.h", "export.h"}  # of the build: described at their heads
    for file in (*(ROOT / "core").glob("*.c"), *(ROOT / "core").glob("*.h")):
        assert file.name in tools or f"`core/{file.name}`" in page, file.name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_lines_are_wrapped_at_100_columns(page: Path) -> None:
    """Except what cannot be broken: rows of tables, code, pictures, and links alone in a line."""
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        code ^= line.startswith("```")
        fixed = code or line.startswith(("|", "    ", "![", "#")) or " " not in line.strip()
        assert fixed or len(line) <= 100, f"{page.name}:{number} has {len(line)} columns"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_tests_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(
        r"`((?:core|tests|benchmarks|examples|tools|deploy|requirements)/[\w./-]+)`", text
    ):
        assert (ROOT / name).exists(), f"{page.name}: {name}"
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`", text):
        assert exists(name, ROOT, SOURCE, SOURCE / "traces"), f"{page.name}: {name}"
    for name in re.findall(r"`whereish((?:\.[a-z_]+)+)`", text):
        path = SOURCE.joinpath(*name.strip(".").split("."))
        there = path.is_dir() or path.with_suffix(".py").exists()
        assert there or path.parent.is_dir() or path.parent.with_suffix(".py").exists(), name


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)`", page.read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"
