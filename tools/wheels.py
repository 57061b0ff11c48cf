"""Build one wheel for each platform: `make wheels`. Foreign ones are checked, and cannot be run.

Each wheel is tagged py3-none-PLATFORM and holds the library of this platform, whose exports must be
the functions of core/whereish.h.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def load(path: str) -> ModuleType:
    """Import a file of this tree."""
    spec = importlib.util.spec_from_file_location(f"whereish_{Path(path).stem}", ROOT / path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(wheel: Path, library: str, exports: set[str]) -> int:
    """Return the size of the library in a wheel; raise SystemExit if its exports are others."""
    reader = load("tools/library_exports.py")
    with zipfile.ZipFile(wheel) as packed:
        held = [name for name in packed.namelist() if name.startswith("whereish/_core/")]
        wanted = {f"whereish/_core/{library}", "whereish/_core/whereish.wasm"}
        if set(held) != wanted:
            sys.exit(f"{wheel.name} must hold {sorted(wanted)}, and holds {held}")
        content = packed.read(f"whereish/_core/{library}")
    found = reader.exported_names(content)
    ours = {name for name in found if name.startswith("wi_")}
    if ours != exports:
        sys.exit(f"{wheel.name}: exports differ from the header: {sorted(ours ^ exports)}")
    return len(content)


def main() -> None:
    """Build and check the wheels."""
    core = load("core/build.py")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help=", ".join(core.TARGETS), default=None)
    parser.add_argument("-o", "--folder", type=Path, default=ROOT / "dist")
    asked = parser.parse_args()
    whole = time.perf_counter()
    for name in asked.targets or core.TARGETS:
        target, begun = core.TARGETS[name], time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "wheel",
            "-d",
            str(asked.folder),
        ]
        environment = {**os.environ, "WHEREISH_TARGET": name}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)  # noqa: S603
        (wheel,) = asked.folder.glob(f"*-py3-none-{target.wheel}.whl")
        size = check(wheel, target.library, set(core.exports()))
        took = time.perf_counter() - begun
        sys.stdout.write(
            f"{wheel.name}: {took:.0f} s, {wheel.stat().st_size} bytes, library {size} bytes\n"
        )
    sys.stdout.write(f"all in {time.perf_counter() - whole:.0f} s\n")


if __name__ == "__main__":
    main()
