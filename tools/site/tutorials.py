"""Run the tutorials: every block of code is executed, and its output is what the page shows.

The blocks of a page run one after another in one empty folder. ``sh`` blocks are for bash, with
the commands of this environment; the ``python`` blocks of a page share one process. A ``text``
block right after a block shows its output, where ``...`` stands for what differs in each run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sources import ROOT

FOLDER = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = "@@ end of block @@"
_LOOP = f"""
import json, sys
space = {{"__name__": "__main__"}}
for line in sys.stdin:
    exec(json.loads(line), space)
    print({_MARK!r}, flush=True)
"""


class WrongTutorialError(Exception):
    """A block failed, or printed something else than the page says."""


@dataclass(frozen=True)
class Block:
    """A block of code and the output that the page shows, if it shows any."""

    language: str
    code: str
    expected: str | None


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that are executed."""
    found = list(_BLOCK.finditer(page))
    made = []
    for number, match in enumerate(found):
        if match[1] not in ("sh", "python"):
            continue
        after = found[number + 1] if number + 1 < len(found) else None
        near = after is not None and not page[match.end() : after.start()].strip()
        shown = after[2] if after is not None and near and after[1] == "text" else None
        made.append(Block(match[1], match[2], shown))
    return made


def agrees(expected: str, printed: str) -> bool:
    """Whether an output is as the page shows it; spaces at line ends do not count."""
    parts = [re.escape(part) for part in _tidy(expected).split("...")]
    return re.fullmatch(".*?".join(parts), _tidy(printed), re.DOTALL) is not None


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run(page: Path) -> int:
    """Run a tutorial; return the number of its blocks.

    Raises
    ------
    WrongTutorialError
        If a block fails, or prints something else than the page says.
    """
    found = blocks(page.read_text())
    with tempfile.TemporaryDirectory() as folder, _interpreter(folder) as python:
        for block in found:
            if block.language == "python":
                printed = _ran_in(python, page, block.code)
            else:
                printed = _ran(page, block.code, folder)
            if block.expected is not None and not agrees(block.expected, printed):
                raise WrongTutorialError(
                    f"{page.name}: this code:\n{block.code}\nprinted:\n{printed}\n"
                    f"the page shows:\n{block.expected}"
                )
    return len(found)


def _environment(folder: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ, "PATH": path, "COLUMNS": "90", "NO_COLOR": "1", "MPLBACKEND": "Agg",
        "XDG_CACHE_HOME": str(Path(folder) / ".cache"), "TERM": "dumb",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip


def _interpreter(folder: str) -> subprocess.Popen[str]:
    """Start the process in which the python blocks of a page run; it ends with its input."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-W", "error", "-c", _LOOP], cwd=folder, env=_environment(folder),
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _ran_in(python: subprocess.Popen[str], page: Path, code: str) -> str:
    if python.stdin is None or python.stdout is None:
        raise RuntimeError("the interpreter must have pipes")
    python.stdin.write(json.dumps(code) + "\n")
    python.stdin.flush()
    lines: list[str] = []
    for line in python.stdout:
        if line == _MARK + "\n":
            return "".join(lines)
        lines.append(line)
    raise WrongTutorialError(f"{page.name}: this failed:\n{code}\n{''.join(lines)}")


def _ran(page: Path, code: str, folder: str) -> str:
    done = subprocess.run(  # noqa: S603
        ["bash", "-euo", "pipefail", "-c", code],  # noqa: S607
        cwd=folder, env=_environment(folder), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise WrongTutorialError(f"{page.name}: this failed:\n{code}\n{done.stdout}")
    return done.stdout


def run_all() -> None:
    """Run all tutorials."""
    for page in sorted(FOLDER.glob("*.md")):
        print(f"{page.name}: {run(page)} blocks run", flush=True)  # noqa: T201


if __name__ == "__main__":
    run_all()
