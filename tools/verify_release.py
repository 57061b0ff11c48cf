"""Check a release: sums, provenance, contents, and the wheel in an empty environment.

    python tools/verify_release.py dist/whereish-1.2.3 [--key PUBLIC] [--no-install]

It needs Python only. The wheel of this machine is installed into a new environment whose path has
no compiler and no Node.js; a first mechanism is built there, audited, and built through HTTP.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from release import contents, empty, provenance, sums, trial


def check(folder: Path, public: str | None) -> str:
    """Check the files of a release; return its version."""
    files = sums.check(folder)
    found = [re.fullmatch(r"whereish-(.+)\.tar\.gz", name) for name in files]
    version = next(match[1] for match in found if match)
    archives = set(files) - {provenance.NAME, provenance.SIGNED}
    if archives != contents.names(version):
        odd = min(archives ^ contents.names(version))
        raise contents.ContentsError(f"a release must hold its archives only: look at {odd}")
    commit = provenance.check(folder, files, public)
    contents.check(folder, version)
    sys.stdout.write(f"{len(files)} files of {version}, commit {commit[:12]}: sums and contents\n")
    return version


def install(folder: Path, version: str) -> None:
    """Install the wheel of this machine in an empty environment, and use it."""
    wheel = folder.resolve() / f"whereish-{version}-py3-none-{empty.tag()}.whl"
    with tempfile.TemporaryDirectory(prefix="whereish-empty-") as place:
        fresh = empty.Empty.make(Path(place))
        seconds = {"install": fresh.install(str(wheel))}
        told, _ = fresh.run("whereish", "--version")
        if told.split()[-1] != version:
            raise contents.ContentsError("the installed wheel is of another version")
        seconds |= trial.first_mechanism(fresh)
        seconds["install serve"] = fresh.install(f"{wheel}[serve]")
        seconds |= trial.service(fresh)
    for what, took in seconds.items():
        sys.stdout.write(f"{took:8.2f} s  {what}\n")
    verdict = "met" if seconds["first mechanism"] < trial.AIM_S else "missed"
    sys.stdout.write(f"aim, a first mechanism in {trial.AIM_S:g} s: {verdict}\n")


def main() -> int:
    """Check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--key", help="the public key that must have signed, in hexadecimal")
    parser.add_argument("--no-install", action="store_true", help="check the files only")
    asked = parser.parse_args()
    try:
        version = check(asked.folder, asked.key)
        if not asked.no_install:
            install(asked.folder, version)
    except (
        sums.SumsError, provenance.ProvenanceError, contents.ContentsError, RuntimeError
    ) as wrong:  # fmt: skip
        sys.stderr.write(f"not as released: {wrong}\n")
        return 1
    sys.stdout.write(f"{asked.folder.name} is as it was released\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
