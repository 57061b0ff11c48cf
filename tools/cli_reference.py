"""Write the help of every command into docs/cli.md, between two markers.

    python tools/cli_reference.py

The text is that of ``whereish COMMAND --help`` at 80 columns. It depends neither on the terminal
nor on colours. A test checks that the page is up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from whereish.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
START = "<!-- The help of every command: made by tools/cli_reference.py -->\n"
END = "<!-- End of the help -->\n"


def commands(entry: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, in the order of the help."""
    yield path
    for name, below in getattr(entry, "commands", {}).items():
        yield from commands(below, (*path, name))


def reference() -> str:
    """Return the help of every command as Markdown."""
    parts = []
    for words in commands(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).stdout
        heading = " ".join(("whereish", *words))
        parts.append(f"### {heading}\n\n```text\n{shown.rstrip()}\n```\n")
    return "\n" + "\n".join(parts) + "\n"


def page(text: str) -> str:
    """Return the page with the reference of now between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return before + START + reference() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
