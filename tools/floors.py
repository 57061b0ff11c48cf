"""Run the fast tests with the oldest packages that pyproject.toml allows: `make floors`.

uv resolves the library and its extras to the lowest versions that are stated (`lowest-direct`);
what these need in turn is the newest that fits. The tools of the tests are the pinned ones where
they fit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import load

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "mpmath", "httpx", "pillow", "safetensors",
         load("core/build.py").ZIGLANG)  # fmt: skip
# The pins are those of the other environment; pyproj warns of NumPy 2.1, and one test forbids that.
NOT_HERE = (
    "test_supply.py::test_pins_cover_what_is_needed_and_agree",
    "test_house.py::test_the_readme_shows_the_two_commands_and_working_python",
)
MARKS = "not heavy and not slow and not thorough"


def uv(*words: str) -> None:
    """Run uv in the tree; packages come as wheels only."""
    subprocess.run([sys.executable, "-m", "uv", *words], cwd=ROOT, check=True)  # noqa: S603


def main() -> int:
    """Resolve, install, test; return pytest's exit code."""
    with tempfile.TemporaryDirectory(prefix="whereish-floors-") as place:
        floors, environment = Path(place, "floors.txt"), Path(place, "venv")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        uv("pip", "compile", "pyproject.toml", "--extra=all", "--resolution=lowest-direct",
           f"--python-version={version}", "--quiet", "--no-header", "--no-annotate",
           "--only-binary=:all:", "-o", str(floors))  # fmt: skip
        sys.stdout.write(floors.read_text())
        uv("venv", "--quiet", f"--python={sys.executable}", str(environment))
        python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        install = ("pip", "install", "--quiet", f"--python={python}", "--only-binary=:all:")
        uv(*install, "-r", str(floors), *TOOLS)
        # Out of this tree, without its dependencies: they are there.
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "WHEREISH_EFFORT": "quick"}
        # Old packages warn of what is new elsewhere. Failures count here.
        command = [str(python), "-m", "pytest", "-q", "-W", "default", "-m", MARKS, "tests"]
        command += [f"--deselect=tests/{name}" for name in NOT_HERE]
        return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
