"""Make a release in dist/whereish-VERSION, whole or not at all: `make release`. Uploads nothing.

It makes wheels for five platforms, the source distribution, the npm package, the extension for two
browsers, a bill of materials, the statement of provenance and SHA256SUMS. The same commit gives the
same bytes on machines with the same Python and Node.js. WHEREISH_RELEASE_KEY names a file with a
private key (PEM) that signs the provenance; WHEREISH_BUILDER is who builds, as a URI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from release import archive, provenance, sums, tree, versions

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Make the release; return 2 if the tree cannot be released."""
    begun = time.perf_counter()
    try:
        commit, version = tree.committed(), versions.source_version()
        versions.check_changes(version, (ROOT / versions.CHANGES).read_text(encoding="utf-8"))
    except (tree.TreeError, versions.VersionError) as wrong:
        sys.stderr.write(f"no release: {wrong}\n")
        return 2
    key = os.environ.get("WHEREISH_RELEASE_KEY")
    private = Path(key).read_bytes() if key else None
    os.environ["SOURCE_DATE_EPOCH"] = str(commit.time)
    target = ROOT / "dist" / f"whereish-{version}"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=target.parent) as place:
        fresh = Path(place, "release")
        fresh.mkdir()
        fill(fresh, version, commit.time)
        builder = os.environ.get("WHEREISH_BUILDER", provenance.BUILDER)
        said = provenance.statement(sums.digests(fresh), commit.name, version, ROOT, builder)
        provenance.write(fresh, said, private)
        sums.write(fresh)
        if tree.committed() != commit:
            sys.stderr.write("no release: the tree was changed meanwhile\n")
            return 2
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    for file in sorted(target.iterdir()):
        sys.stdout.write(f"{file.stat().st_size:>10,} bytes  {file.name}\n")
    took = time.perf_counter() - begun
    sys.stdout.write(f"{target.relative_to(ROOT)}: made in {took:.0f} s\n")
    return 0


def fill(folder: Path, version: str, epoch: int) -> None:
    """Write everything that is released into a folder."""
    _run(sys.executable, "tools/wheels.py", "-o", str(folder))
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder))
    _run(sys.executable, "core/build.py", "wasm")
    _run("npm", "pack", "./clients/js", "--pack-destination", str(folder), "--loglevel=error")
    with tempfile.TemporaryDirectory() as place:
        _run(sys.executable, "clients/extension/build.py", "--into", place)
        for browser in archive.BROWSERS:
            made = folder / archive.extension_name(browser, version)
            archive.pack(Path(place, f"extension-{browser}"), made, epoch)
    _run(sys.executable, "tools/sbom.py", str(folder / f"whereish-{version}.cdx.json"))


def _run(*command: str) -> None:
    """Run a step. npm is the machine's, or that of the environment."""
    sys.stderr.write(f"release: {' '.join(command[:3])} ...\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PATH": path})  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
