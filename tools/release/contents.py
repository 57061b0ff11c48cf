"""What the archives of a release must hold: read from the files alone, with Python's library."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

from release.archive import BROWSERS, extension_name
from release.versions import npm_version

# The library in the wheel of each platform, by the end of the wheel's name.
PLATFORMS = {
    "manylinux_2_17_x86_64": "libwhereish.so",
    "manylinux_2_17_aarch64": "libwhereish.so",
    "macosx_11_0_arm64": "libwhereish.dylib",
    "macosx_11_0_x86_64": "libwhereish.dylib",
    "win_amd64": "whereish.dll",
}


class ContentsError(Exception):
    """An archive does not hold what it must: which, in one line."""


def names(version: str) -> set[str]:
    """Return the names of all archives of a release."""
    wheels = {f"whereish-{version}-py3-none-{platform}.whl" for platform in PLATFORMS}
    extensions = {extension_name(browser, version) for browser in BROWSERS}
    others = {f"whereish-{version}.tar.gz", f"whereish-{version}.cdx.json"}
    return wheels | extensions | others | {f"whereish-{npm_version(version)}.tgz"}


def check(folder: Path, version: str) -> None:
    """Raise ContentsError unless every archive of a release holds what it must."""
    for platform, library in PLATFORMS.items():
        check_wheel(folder / f"whereish-{version}-py3-none-{platform}.whl", version, library)
    check_source(folder / f"whereish-{version}.tar.gz", version)
    check_npm(folder / f"whereish-{npm_version(version)}.tgz", version)
    for browser in BROWSERS:
        check_extension(folder / extension_name(browser, version))
    bill = json.loads((folder / f"whereish-{version}.cdx.json").read_text())
    _hold(bill["metadata"]["component"]["version"] == version, "the bill is of another version")
    _hold(len(bill["components"]) > 20, "the bill names too few components")


def check_wheel(file: Path, version: str, library: str) -> None:
    """Check the metadata of a wheel, its record of digests, its library and its page."""
    with zipfile.ZipFile(file) as packed:
        found = set(packed.namelist())
        about = f"whereish-{version}.dist-info"
        metadata = packed.read(f"{about}/METADATA").decode()
        _hold(f"\nVersion: {version}\n" in metadata, f"{file.name} is of another version")
        core = {name for name in found if name.startswith("whereish/_core/")}
        needed = {f"whereish/_core/{name}" for name in (library, "licences.txt")}
        _hold(core == needed, f"{file.name} must hold the library of its platform only")
        for name in ("index.html", "vendor/whereish.js", "vendor/dist/whereish.wasm"):
            _hold(f"whereish/service/page/{name}" in found, f"{file.name} has no page: {name}")
        record = csv.reader(io.StringIO(packed.read(f"{about}/RECORD").decode()))
        told = {name: value for name, value, _ in record}
        _hold(set(told) == found, f"{file.name} must record all its files")
        for name, value in told.items():
            if value:
                digest = hashlib.sha256(packed.read(name)).digest()
                said = "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
                _hold(said == value, f"{file.name}: {name} is not the recorded file")


def check_source(file: Path, version: str) -> None:
    """Check that a source distribution has the sources, and no built library."""
    with tarfile.open(file) as packed:
        found = {name.partition("/")[2] for name in packed.getnames()}
        stream = packed.extractfile(f"whereish-{version}/PKG-INFO")
        about = stream.read().decode() if stream else ""
    _hold(f"\nVersion: {version}\n" in about, f"{file.name} is of another version")
    for name in ("core/method.c", "src/whereish/__init__.py", "Makefile", "CITATION.cff"):
        _hold(name in found, f"{file.name} must hold {name}")
    built = [name for name in found if name.startswith("src/whereish/_core/")]
    _hold(not built, f"{file.name} must hold no built library")


def check_npm(file: Path, version: str) -> None:
    """Check the version of the client's package, its licence and its module."""
    with tarfile.open(file) as packed:
        found = set(packed.getnames())
        stream = packed.extractfile("package/package.json")
        about = json.loads(stream.read()) if stream else {}
    _hold(about.get("version") == npm_version(version), f"{file.name} is of another version")
    for name in ("whereish.js", "whereish.d.ts", "dist/whereish.wasm", "LICENSE"):
        _hold(f"package/{name}" in found, f"{file.name} must hold {name}")


def check_extension(file: Path) -> None:
    """Check the manifest of an extension: numbers as version, no site before it is asked for."""
    with zipfile.ZipFile(file) as packed:
        manifest = json.loads(packed.read("manifest.json"))
        found = set(packed.namelist())
    numbers = str(manifest["version"]).split(".")
    _hold(all(n.isdigit() and int(n) < 65536 for n in numbers), f"{file.name}: no such version")
    _hold("host_permissions" not in manifest, f"{file.name} must ask for no site when installed")
    for name in ("background.js", "page.js", "shared/vendor/dist/whereish.wasm", "LICENSE"):
        _hold(name in found, f"{file.name} must hold {name}")


def _hold(true: bool, else_: str) -> None:
    if not true:
        raise ContentsError(else_)
