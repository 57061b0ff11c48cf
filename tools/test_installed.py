"""Test an installed wheel in a new environment: `make installed`, on Linux, macOS and Windows.

The wheel of this machine is taken from dist, or from the folder that is given. By default the tests
of the mathematics, the files and the device run, which need no browser, service or cluster;
`--quick` runs everything that `make quick` runs. Doctests of the source are left out: the tests
must import what is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from release.empty import tag

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("pytest", "hypothesis", "mpmath", "httpx", "pillow", "safetensors")
# Tests of these modules need nothing but the package, and run on every system.
PORTABLE = (
    "bound", "by_time", "by_time_file", "everywhere", "everywhere_file", "file", "measures",
    "mechanisms", "metric_file", "old_files", "places", "planar_laplace", "private_test",
    "privacy", "programs", "proof", "registry", "repair", "sampler", "signature", "solvers",
    "spanner", "spec", "structured", "theorems", "units",
)  # fmt: skip
_MARKS = "not heavy and not slow and not thorough"


def wheel_in(folder: Path) -> Path:
    """Return the wheel of this machine in a folder, or in one of a release in it."""
    found = sorted(folder.glob(f"**/whereish-*-py3-none-{tag()}.whl"))
    if not found:
        sys.exit(f"{folder} has no wheel of this machine ({tag()}): make wheels builds it")
    return found[-1]


def main() -> int:
    """Install and test; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--extra", default="", help="extras to install, such as all")
    parser.add_argument("--quick", action="store_true", help="all tests of make quick")
    asked = parser.parse_args()
    wheel = wheel_in(asked.folder.resolve())
    with tempfile.TemporaryDirectory(prefix="whereish-installed-") as place:
        venv.create(place, with_pip=True)
        python = Path(place, "Scripts" if os.name == "nt" else "bin", "python")
        what = f"{wheel}[{asked.extra}]" if asked.extra else str(wheel)
        install = [str(python), "-m", "pip", "install", "-q", "--only-binary", ":all:"]
        subprocess.run([*install, what, *TOOLS], check=True)  # noqa: S603
        files = [ROOT / "tests" / f"test_{name}.py" for name in PORTABLE]
        chosen = ["tests"] if asked.quick else [str(file) for file in files if file.exists()]
        # -P keeps this folder out of the path.
        command = [str(python), "-P", "-m", "pytest", "-q", "-m", _MARKS, *chosen]
        variables = {**os.environ, "WHEREISH_EFFORT": "quick"}
        return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
