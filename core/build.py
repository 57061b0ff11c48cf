"""Build the compiled core with the C compiler of the package ziglang: a module, and a script.

``python core/build.py`` builds the library of this machine into the package,
``src/whereish/_core``, and the WebAssembly module into the JavaScript client, ``clients/js/dist``,
unless they are there already. The build hook of the package does the same. ``build(target)`` also
compiles for other platforms: ziglang brings their C libraries.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

CORE = Path(__file__).resolve().parent
PACKAGE = CORE.parent / "src" / "whereish" / "_core"
CLIENT = CORE.parent / "clients" / "js" / "dist"  # where clients/js/solve.js looks for the module
# Compiled for each instruction set, with their options. method.c includes the other files.
UNITS = {
    "method.c": "-ffp-contract=fast",
    "checks.c": "-ffp-contract=off",
    "pruning.c": "-ffp-contract=off",
    "price_bound.c": "-ffp-contract=fast",
    "elastic.c": "-ffp-contract=off",
}
ZIGLANG = "ziglang==0.17.0"
_LONGEST_S = 1200
_FLAGS = (
    "-std=gnu11", "-O3", "-fno-math-errno", "-fvisibility=hidden",
    "-fno-sanitize=all", "-g0", "-Wall", "-Wextra", "-Wno-unused-function",
)  # fmt: skip
_X86 = (("v2", "x86_64_v2"), ("v3", "x86_64_v3"), ("v4", "x86_64_v4"))


class CoreError(Exception):
    """The core could not be built: why, and what to do, in one line."""


@dataclass(frozen=True)
class Target:
    """A platform: its name in zig, the tag of its wheels and the name of its library."""

    zig: str
    wheel: str
    library: str

    @property
    def is_wasm(self) -> bool:
        """Whether this is the module for browsers."""
        return self.zig.startswith("wasm32")


WASM = Target("wasm32-wasi", "", "whereish.wasm")
TARGETS = {
    target.zig: target
    for target in (
        Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", "libwhereish.so"),
        Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64", "libwhereish.so"),
        Target("aarch64-macos.11.0", "macosx_11_0_arm64", "libwhereish.dylib"),
        Target("x86_64-macos.11.0", "macosx_11_0_x86_64", "libwhereish.dylib"),
        Target("x86_64-windows-gnu", "win_amd64", "whereish.dll"),
    )
}


def native() -> Target:
    """Return the platform of this Python."""
    system, machine = platform.system(), platform.machine().lower()
    processor = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if system == "Linux":
        # A library for glibc 2.17 runs on every newer glibc; musl is the other C library.
        if platform.libc_ver()[0] == "glibc":
            zig, wheel = f"{processor}-linux-gnu.2.17", f"manylinux_2_17_{processor}"
        else:
            zig, wheel = f"{processor}-linux-musl", f"musllinux_1_2_{processor}"
        return TARGETS.get(zig, Target(zig, wheel, "libwhereish.so"))
    ending = {"Darwin": "-macos.11.0", "Windows": "-windows-gnu"}.get(system)
    if ending and processor + ending in TARGETS:
        return TARGETS[processor + ending]
    tag = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return Target("native", tag, "whereish.dll" if system == "Windows" else "libwhereish.so")


def exports() -> list[str]:
    """Return the names of the functions that the header declares."""
    header = (CORE / "whereish.h").read_text(encoding="utf-8")
    return re.findall(r"^WI_PUBLIC [\w *]+?\b(wi_\w+)\(", header, re.MULTILINE)


def digest(target: Target) -> str:
    """Return a digest of everything that a library is made from."""
    made_from = hashlib.sha256(f"{target} {ZIGLANG}".encode())
    for file in sorted([*CORE.glob("*.c"), *CORE.glob("*.h"), CORE / "build.py"]):
        if file.name != "fuzz.c":
            made_from.update(file.name.encode() + b"\0" + file.read_bytes())
    return made_from.hexdigest()


def is_built(target: Target, folder: Path = PACKAGE) -> bool:
    """Tell whether a folder has the library that these sources make."""
    library = folder / target.library
    try:
        return bool(_stamps(folder)[target.library] == digest(target)) and library.is_file()
    except KeyError:
        return False


def build(target: Target, folder: Path = PACKAGE, cache: Path | None = None) -> bool:
    """Build the library of a platform into a folder; return whether anything was done.

    The file appears whole or not at all. The compiler's own files are in ``cache``; if it is not
    given, in a temporary folder.

    Raises
    ------
    CoreError
        If the compiler is missing or fails.
    """
    if is_built(target, folder):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    kept = nullcontext(str(cache)) if cache else tempfile.TemporaryDirectory(prefix="whereish-zig-")
    # Beside the result, so that the last step is a rename.
    with kept as place, tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as fresh:
        made = _compile(target, Path(fresh), Path(place))
        stamps = _stamps(folder) | {target.library: digest(target)}
        stamp = Path(fresh, "stamp.json")
        stamp.write_text(json.dumps(stamps, indent=1, sort_keys=True) + "\n", encoding="ascii")
        made.chmod(0o755)
        texts = Path(fresh, "licences.txt")
        texts.write_text(licences(), encoding="utf-8")
        try:
            os.replace(texts, folder / "licences.txt")
            os.replace(made, folder / target.library)
            os.replace(stamp, folder / "stamp.json")
        except OSError as wrong:
            raise CoreError(
                f"{folder / target.library} could not be written: {wrong}; end the programs that "
                "use it, and build again"
            ) from None
    return True


def licences() -> str:
    """Return the licences of the code of others that a compiler puts into libraries.

    These are ziglang's run-time library, musl and wasi-libc (WebAssembly), mingw-w64 (Windows).
    """
    spec = importlib.util.find_spec("ziglang")
    home = Path(next(iter((spec and spec.submodule_search_locations) or ["ziglang"])))
    parts = []
    for file in ("LICENSE", "lib/libc/musl/COPYRIGHT", "lib/libc/wasi/LICENSE-MIT",
                 "lib/libc/wasi/libc-bottom-half/cloudlibc/LICENSE",
                 "lib/libc/mingw/COPYING"):  # fmt: skip
        try:
            text = (home / file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError as wrong:
            raise CoreError(f"{ZIGLANG} must have {file}: {wrong}") from None
        parts.append(f"ziglang/{file}\n\n{text}\n")
    return ("\n" + "-" * 80 + "\n\n").join(parts)


def cache_folder() -> Path | None:
    """Return the folder for the compiler's own files that WHEREISH_ZIG_CACHE names, if any."""
    named = os.environ.get("WHEREISH_ZIG_CACHE")
    return Path(named).absolute() if named else None


def _stamps(folder: Path) -> dict[str, str]:
    try:
        told = json.loads((folder / "stamp.json").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _compile(target: Target, fresh: Path, cache: Path) -> Path:
    """Compile every unit for every instruction set, link them, and return the library."""
    common = ["-target", target.zig, *_FLAGS]
    dispatch = ["-mcpu=x86_64", "-DWI_DISPATCH"] if _has_levels(target) else []
    jobs = {"dispatch.o": ["dispatch.c", *dispatch]}
    for unit, option in UNITS.items():
        if _has_levels(target):
            for isa, cpu in _X86:
                jobs[f"{unit}.{isa}.o"] = [unit, option, f"-mcpu={cpu}", f"-DWI_ISA={isa}"]
        else:
            simd = ["-mcpu=generic+simd128"] if target.is_wasm else []
            jobs[f"{unit}.o"] = [unit, option, *simd]
    if target.is_wasm:
        jobs["wasm.c.o"] = ["wasm.c", "-mcpu=generic+simd128"]

    def compile_one(job: tuple[str, list[str]]) -> None:
        name, (source, *options) = job
        _zig([*common, *options, "-c", str(CORE / source), "-o", str(fresh / name)], cache)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(compile_one, jobs.items()))
    made = fresh / target.library
    objects = [str(fresh / name) for name in jobs]
    _zig([*common, *_link_options(target), *objects, "-o", str(made)], cache)
    return made


def _has_levels(target: Target) -> bool:
    machine = platform.machine() if target.zig == "native" else target.zig
    return machine.lower().startswith(("x86_64", "amd64"))


def _link_options(target: Target) -> list[str]:
    if target.is_wasm:
        return [
            "-mcpu=generic+simd128", "-mexec-model=reactor", "-s",
            "-Wl,-z,stack-size=1048576", "-Wl,--export-table", "-Wl,--growable-table",
            *(f"-Wl,--export={name}" for name in (*exports(), "malloc", "free")),
        ]  # fmt: skip
    options = ["-shared", "-s"]
    if "macos" in target.zig:
        return [*options, f"-Wl,-install_name,@rpath/{target.library}"]
    return options if "windows" in target.zig else [*options, "-lm", "-lpthread"]


def _zig(options: Sequence[str], cache: Path) -> None:
    """Call the compiler, with its own files in ``cache`` and nowhere else."""
    places = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "ziglang", "cc", *options]
    try:
        done = subprocess.run(  # noqa: S603
            command, env={**os.environ, **places}, cwd=CORE, timeout=_LONGEST_S,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as wrong:
        raise CoreError(f"the C compiler could not run: {wrong}") from None
    if done.returncode == 0:
        return
    if "No module named ziglang" in done.stderr:
        raise CoreError(f"the core is built with {ZIGLANG} from PyPI: install it, and build again")
    raise CoreError(f"the C compiler failed (exit code {done.returncode}):\n{done.stderr.strip()}")


def main() -> int:
    """Build the library of this machine and the WebAssembly module; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("targets", nargs="*", help="native, wasm, or one of " + ", ".join(TARGETS))
    parser.add_argument("--folder", type=Path, help="where to put the libraries")
    parser.add_argument(
        "--cache", type=Path, default=cache_folder(),
        help="keep the compiler's own files in this folder (default: $WHEREISH_ZIG_CACHE, or none)",
    )  # fmt: skip
    asked = parser.parse_args()
    named = {"native": native(), "wasm": WASM, **TARGETS}
    if unknown := set(asked.targets) - named.keys():
        parser.error(f"{min(unknown)} is not a target; targets are {', '.join(named)}")
    for name in asked.targets or ("native", "wasm"):
        target = named[name]
        folder = asked.folder or (CLIENT if target.is_wasm else PACKAGE)
        begun, file = time.perf_counter(), folder / target.library
        try:
            done = build(target, folder, asked.cache and asked.cache.absolute())
        except CoreError as wrong:
            sys.stderr.write(f"whereish: {wrong}\n")
            return 1
        took = f"built in {time.perf_counter() - begun:.1f} s, {file.stat().st_size} bytes"
        sys.stderr.write(f"{file} {took if done else 'is up to date'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
