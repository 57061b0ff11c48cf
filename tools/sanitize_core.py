"""Build the compiled core with sanitizers and run tests against it: `make core-sanitize`.

With gcc or clang on the machine: addresses and undefined behaviour. Without: undefined behaviour
only, with ziglang, which has no run-time library for addresses. Any finding ends the process.
Arguments are given to pytest; by default, it runs the tests of the solver and of the checks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "core"
TESTS = ("tests/test_core_build.py", "tests/test_structured.py", "tests/test_release.py",
         "tests/test_repair.py")  # fmt: skip
UNITS = ("method.c", "checks.c", "dispatch.c")
_FLAGS = (
    "-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-w",
    # memcpy of no bytes may have a null pointer: every C library allows it, and C2y does.
    "-fno-sanitize=nonnull-attribute", "-fno-sanitize-recover=all",
)  # fmt: skip


def compiler() -> tuple[list[str], bool]:
    """Return the command of the C compiler, and whether it can check addresses."""
    for name in ("clang", "gcc"):
        if found := shutil.which(name):
            return [found], True
    return [sys.executable, "-m", "ziglang", "cc"], False


def build(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return the library with sanitizers, and the environment that loads it."""
    command, addresses = compiler()
    kinds = "address,undefined" if addresses else "undefined"
    library = folder / "libwhereish-sanitized.so"
    machine = os.uname().machine
    # One instruction set: the same code as for the others, on vectors of another width.
    options = (
        ["-march=x86-64-v3" if addresses else "-mcpu=x86_64_v3"] if machine == "x86_64" else []
    )
    if command[0].endswith("gcc"):
        options += ["-include", "gcc.h"]
    zig = {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
    subprocess.run(  # noqa: S603
        [*command, f"-fsanitize={kinds}", *_FLAGS, *options, *UNITS, "-o", str(library),
         "-lm", "-lpthread"],
        cwd=CORE, check=True, env={**os.environ, **zig},
    )  # fmt: skip
    settings = {"WHEREISH_CORE": str(library), "PYTHONPATH": str(ROOT / "src")}
    if addresses:
        name = "libclang_rt.asan.so" if command[0].endswith("clang") else "libasan.so"
        asked = [*command, f"-print-file-name={name}"]
        runtime = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
        # Python itself is not built with sanitizers: the run-time library comes first, and what
        # the interpreter keeps until its end is not a leak.
        settings |= {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    return library, settings


def main() -> int:
    """Build, run pytest, and return its exit code."""
    with tempfile.TemporaryDirectory(prefix="whereish-sanitize-") as place:
        _, settings = build(Path(place))
        tests = sys.argv[1:] or [*TESTS, "-m", "not heavy", "-k", "not wheel"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, **settings}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
