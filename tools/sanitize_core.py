"""Build the compiled core with sanitizers and run tests against it: `make core-sanitize`.

With gcc or clang on the machine: addresses and undefined behaviour. Without: undefined behaviour
only, with ziglang, which has no run-time library for addresses. Any finding ends the process.
Arguments are given to pytest; by default, it runs the tests of the solver and of the checks.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import load

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "core"
TESTS = ("tests/test_core_build.py", "tests/test_structured.py", "tests/test_release.py",
         "tests/test_repair.py", "tests/test_price_bound.py", "tests/test_solvers_local.py",
         "tests/test_local.py", "tests/test_elastic.py")  # fmt: skip
UNITS = load("core/build.py").UNITS
_FLAGS = (
    "-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-w", "-Wno-psabi",
    # memcpy of no bytes may have a null pointer: every C library allows it, and C2y does.
    "-fno-sanitize=nonnull-attribute", "-fno-sanitize-recover=all",
)  # fmt: skip


def compiler() -> tuple[list[str], bool]:
    """Return the command of the C compiler, and whether it can check addresses."""
    for name in ("clang", "gcc"):
        if found := shutil.which(name):
            return [found], True
    return [sys.executable, "-m", "ziglang", "cc"], False


def compile_with_sanitizers(made: Path, *arguments: str) -> None:
    """Compile the core with sanitizers, for one instruction set."""
    command, addresses = compiler()
    kinds = "address,undefined" if addresses else "undefined"
    options = list(_FLAGS)
    if platform.machine() == "x86_64":
        # One level: the code is the same for the others, on vectors of another width.
        options += ["-march=x86-64-v3" if addresses else "-mcpu=x86_64_v3"]
    if command[0].endswith("gcc"):
        options += ["-include", "gcc.h"]
    cache = str(made.parent)
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    subprocess.run(  # noqa: S603
        [*command, f"-fsanitize={kinds}", *options, *UNITS, "dispatch.c", *arguments,
         "-o", str(made), "-lm", "-lpthread"],
        cwd=CORE, check=True, env=environment,
    )  # fmt: skip


def settings(library: Path) -> dict[str, str]:
    """Return the environment in which Python loads a library with sanitizers."""
    command, addresses = compiler()
    chosen = {"WHEREISH_CORE": str(library), "PYTHONPATH": str(ROOT / "src")}
    if addresses:
        name = "libclang_rt.asan.so" if command[0].endswith("clang") else "libasan.so"
        asked = [*command, f"-print-file-name={name}"]
        runtime = subprocess.run(asked, check=True, capture_output=True, text=True)  # noqa: S603
        # Python itself is not built with sanitizers: the run-time library comes first, and what
        # the interpreter keeps until its end is not a leak.
        chosen |= {"LD_PRELOAD": runtime.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    return chosen


def main() -> int:
    """Build, run pytest, and return its exit code."""
    with tempfile.TemporaryDirectory(prefix="whereish-sanitize-") as place:
        library = Path(place, "libwhereish-sanitized.so")
        compile_with_sanitizers(library, "-shared", "-fPIC")
        tests = sys.argv[1:] or [*TESTS, "-m", "not heavy"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, **settings(library)}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
