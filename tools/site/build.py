"""Build the documentation site (make docs); with --demo, the folder for a static host (make site).

    python tools/site/build.py dist/docs --mkdocs .venv/docs/bin/mkdocs [--demo]

It runs the tutorials and the gallery, assembles the sources, calls mkdocs, and checks all links. A
warning of mkdocs, a broken link or a request to another host is an error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import demo
import gallery
import links
import python_reference
import tutorials
from sources import ROOT, Sources


def main() -> None:
    """Build."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("output", type=Path)
    parser.add_argument("--mkdocs", type=Path, required=True)
    parser.add_argument("--demo", action="store_true", help="add the page and the archives")
    asked = parser.parse_args()
    output = asked.output.resolve()
    tutorials.run_all()
    sources = Sources(ROOT / "dist" / "site-sources")
    sources.add_docs()
    python_reference.add(sources)
    seconds = gallery.add(sources)
    print(f"the gallery took {seconds:.1f} s of CPU", flush=True)  # noqa: T201
    if asked.demo:
        demo.add(sources.folder)
    shutil.rmtree(output, ignore_errors=True)
    command = [str(asked.mkdocs.absolute()), "build", "--strict", "--quiet", "-d", str(output)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:  # noqa: S603
        sys.exit("mkdocs has warnings: see above")
    found = links.problems(output)
    if found:
        sys.exit("\n".join([*found, f"{len(found)} links are wrong"]))
    pages = sum(1 for _ in output.rglob("*.html"))
    print(f"{output.relative_to(ROOT)}: {pages} pages, no warning, no broken link")  # noqa: T201


if __name__ == "__main__":
    main()
