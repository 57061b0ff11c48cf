"""Assemble the Markdown of the documentation site from docs/, the root of the repository and code.

The pages of docs/ keep their places. A link that leaves docs/ leads to a page as well: CHANGELOG,
CONTRIBUTING and SECURITY have one, and a file of code that is linked is shown highlighted. So every
link of the repository works on the site, without the address of a forge.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Pages outside docs/, and where they are on the site.
ADDED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "README.md": "index.md",  # docs/index.md is the home of the site
}
CODE = "source"  # the folder of the files of code that pages link to
_KINDS = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript",
          ".c": "c", ".h": "c", ".yaml": "yaml", ".toml": "toml", ".html": "html"}  # fmt: skip
_LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.DOTALL | re.MULTILINE)


class BrokenLinkError(Exception):
    """A page links to a file that is not in the repository."""


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a function to all of a page but its blocks of code."""
    parts, end = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


class Sources:
    """The sources of the site: pages are added, and the files that they link to follow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shown: set[Path] = set()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def add_docs(self) -> None:
        """Add docs/ and the pages of the root."""
        for file in sorted((ROOT / "docs").rglob("*")):
            if not file.is_file():
                continue
            same = str(file.relative_to(ROOT / "docs"))
            if file.suffix == ".md":
                self.add_page(same, file.read_text(), file)
            else:
                self.copy(file, same)
        for name, place in ADDED.items():
            if place != "index.md":
                self.add_page(place, (ROOT / name).read_text(), ROOT / name)

    def add_page(self, place: str, text: str, written_in: Path | None = None) -> None:
        """Write a page. If it was written in a file of the repository, its links are adapted."""
        if written_in is not None:
            text = outside_code(text, lambda part: self._relinked(part, written_in, place))
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def copy(self, file: Path, place: str) -> None:
        """Copy a file that is no page, like a picture."""
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)

    def _relinked(self, text: str, file: Path, place: str) -> str:
        def link(match: re.Match[str]) -> str:
            target, anchor = match[1], match[2] or ""
            if not target or "://" in target or target.startswith("mailto:"):
                return match[0]
            wanted = (file.parent / target).resolve()
            if not wanted.is_relative_to(ROOT) or not wanted.exists():
                raise BrokenLinkError(
                    f"{file.relative_to(ROOT)} links to {target}, which is not there"
                )
            there = self._place_of(wanted)
            return f"]({os.path.relpath(there, Path(place).parent)}{anchor})"

        return _LINK.sub(link, text)

    def _place_of(self, file: Path) -> str:
        """Return where a file of the repository is on the site; code is added when first linked."""
        name = str(file.relative_to(ROOT))
        if name in ADDED:
            return ADDED[name]
        docs = ROOT / "docs"
        if file.is_relative_to(docs):
            return str(file.relative_to(docs) / ("README.md" if file.is_dir() else ""))
        place = f"{CODE}/{name}.md"
        if file not in self._shown:
            self._shown.add(file)
            self.add_page(place, self._listing(file, name) if file.is_dir() else shown(file))
        return place

    def _listing(self, folder: Path, name: str) -> str:
        files = [one for one in sorted(folder.iterdir()) if one.suffix in _KINDS]
        here = Path(f"{CODE}/{name}.md").parent
        lines = [f"- [{one.name}]({os.path.relpath(self._place_of(one), here)})" for one in files]
        return f"# {name}\n\n" + "\n".join(lines) + "\n"


def shown(file: Path) -> str:
    """Return a page with a file of code, or with the text of a Markdown file."""
    name, text = file.relative_to(ROOT), file.read_text()
    fence = "`" * 5
    kind = "markdown" if file.suffix == ".md" else _KINDS.get(file.suffix, "text")
    return f"# {name}\n\n{fence}{kind}\n{text.rstrip()}\n{fence}\n"
