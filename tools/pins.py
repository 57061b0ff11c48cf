"""Pin every dependency by version and hash: `make pins` writes the six files again.

A hash is of a file that was published under that version: pip refuses any other. No address of a
registry is written. Versions that are pinned already are kept unless `--upgrade` is given.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_HEAD = "# {what}\n# By name, version and hash, for every platform; made by `make pins`.\n"
EVERYTHING = "requirements/dev.txt"
FILES = {  # what is in it, the extras of pyproject.toml, its groups
    EVERYTHING: ("All that the tests and benchmarks need", ("dev", "bench"), ("build",)),
    "requirements/core.txt": (
        "All that make demo needs: the library without extras",
        (),
        ("build",),
    ),
    "deploy/requirements.txt": ("All that a service needs to run", ("serve",), ()),
}
BUILD, NODE = "requirements/build.txt", "requirements/node.txt"
DOCS = "requirements/docs.txt"


def versions(file: Path) -> str:
    """Return the pins of a file without their hashes: what a compiler takes as constraints."""
    found = re.findall(r"^([A-Za-z0-9_.-]+==\S+)", file.read_text() if file.exists() else "", re.M)
    return "\n".join(found) + "\n"


def compiled(source: str, kept: str, *options: str) -> str:
    """Return the pins of a source, with the hashes of all files of each version."""
    with tempfile.TemporaryDirectory() as place:
        before, after = Path(place, "before.txt"), Path(place, "after.txt")
        before.write_text(kept)
        command = [
            sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal",
            "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url",
            "--no-emit-find-links", "--no-annotate", "--no-header", "-c", str(before),
            *options, source, "-o", str(after),
        ]  # fmt: skip
        subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603
        return after.read_text()


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    upgrade = parser.parse_args().upgrade
    everything = "" if upgrade else versions(ROOT / EVERYTHING)
    for name, (what, extras, groups) in FILES.items():
        options = [f"--extra={extra}" for extra in extras]
        options += [f"--group={group}" for group in groups]
        text = compiled("pyproject.toml", everything, *options)
        (ROOT / name).write_text(_HEAD.format(what=what) + text)
        everything = versions(ROOT / EVERYTHING)
    node = re.search(r'^NODE = "(.+)"', (ROOT / "hatch_build.py").read_text(), re.M)
    if node is None:
        sys.exit("hatch_build.py names no Node.js")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build, docs = ("\n".join(project["dependency-groups"][name]) for name in ("build", "docs"))
    site = "" if upgrade else versions(ROOT / DOCS)
    for name, what, wanted, kept in (
        (BUILD, "All that building the package needs, besides Node.js", build, everything),
        (NODE, "Node.js, where the machine has none", node[1], node[1]),
        (DOCS, "All that the documentation site needs; it imports nothing of Whereish", docs, site),
    ):
        with tempfile.TemporaryDirectory() as place:
            source = Path(place, "wanted.in")
            source.write_text(wanted + "\n")
            text = compiled(str(source), kept + "\n")
        (ROOT / name).write_text(_HEAD.format(what=what) + text)


if __name__ == "__main__":
    main()
