"""An empty environment: a new Python environment, an empty home, and no program on the path.

There is no compiler and no Node.js in it. pip asks the package index that this machine is set to.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

# Programs that an installed wheel must not need.
ABSENT = ("cc", "gcc", "clang", "zig", "node", "npm", "make", "git")
_KEPT = ("PIP_", "SSL_", "REQUESTS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SYSTEMROOT", "LANG")


@dataclass(frozen=True)
class Empty:
    """An environment in a folder."""

    folder: Path

    @property
    def programs(self) -> Path:
        """The folder of its programs: all of its path."""
        return self.folder / "venv" / ("Scripts" if os.name == "nt" else "bin")

    @property
    def variables(self) -> dict[str, str]:
        """Its variables: those of pip, and empty folders."""
        kept = {k: v for k, v in os.environ.items() if k.upper().startswith(_KEPT)}
        home = str(self.folder / "home")
        return {**kept, "PATH": str(self.programs), "HOME": home, "USERPROFILE": home}

    @classmethod
    def make(cls, folder: Path) -> Empty:
        """Make one in an empty folder."""
        (folder / "home").mkdir()
        venv.create(folder / "venv", with_pip=True)
        made = cls(folder)
        for name in ABSENT:
            if (made.programs / name).exists():
                raise RuntimeError(f"the environment is not empty: it has {name}")
        return made

    def install(self, what: str) -> float:
        """Install with pip, from wheels only; return the seconds."""
        return self.run("python", "-m", "pip", "install", "-q", "--only-binary", ":all:", what)[1]

    def run(self, program: str, *words: str) -> tuple[str, float]:
        """Run a program in its folder; return what it printed, and the seconds."""
        command = [str(self.programs / program), *words]
        begun = time.perf_counter()
        done = subprocess.run(  # noqa: S603
            command,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.perf_counter() - begun
        if done.returncode:
            sys.stderr.write(done.stdout + done.stderr)
            raise RuntimeError(f"{program} {' '.join(words[:3])} failed in the empty environment")
        return done.stdout, took


def tag() -> str:
    """Return the end of the name of the wheel for this machine."""
    machine = platform.machine().lower()
    return {
        "Linux": "manylinux_2_17_" + {"arm64": "aarch64"}.get(machine, machine),
        "Darwin": "macosx_11_0_" + {"aarch64": "arm64"}.get(machine, machine),
        "Windows": "win_amd64",
    }[platform.system()]
