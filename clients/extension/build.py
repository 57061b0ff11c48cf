"""Build the extension into dist/extension-chromium and dist/extension-firefox.

It copies our own files, the client and the modules of the page that are used here, draws the icons
and writes one manifest for each browser. It fetches nothing. The WebAssembly module must be there:
``make core`` builds it. The map of the world is copied if the page was built: it is made from npm's
packages.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "clients" / "extension"
CLIENT = ROOT / "clients" / "js"
PAGE = ROOT / "src" / "whereish" / "service" / "page"
WORLD = PAGE / "vendor" / "world.geojson"
# Modules of the page that the extension uses; the modules that they import are copied, too.
SHARED = ("geo.js", "overlay.js", "plainmap.js", "scene.js", "words.js")
BROWSERS = ("chromium", "firefox")
SIZES = (16, 48, 128)
# The colours of the page's icon.
FIELD, RING, DOT = (28, 78, 158), (255, 255, 255), (255, 138, 92)


def manifest(browser: str, granted: bool) -> dict[str, object]:
    """Return the manifest of a browser, from the one template.

    With `granted`, access to all sites is asked for at the installation and not later: tests cannot
    answer the browser's dialog.
    """
    template = json.loads((SOURCE / "manifest.json").read_text(encoding="utf-8"))
    found = dict(template["common"])
    for name, value in template[browser].items():
        found[name] = found[name] + value if isinstance(value, list) and name in found else value
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    found["version"] = browser_version(package["version"])
    if browser == "chromium":  # what people see; Firefox knows no such name
        found["version_name"] = package["version"]
    if granted:
        found["host_permissions"] = found.pop("optional_host_permissions")
    return found


def browser_version(version: str) -> str:
    """Return a version of npm as browsers want it: numbers that grow.

    A candidate has its number in the fourth place, and a release 1000, so it comes later.

    >>> browser_version("1.2.3-rc.4"), browser_version("1.2.3")
    ('1.2.3.4', '1.2.3.1000')
    """
    numbers, _, candidate = version.partition("-rc.")
    return f"{numbers}.{candidate or 1000}"


def icon(size: int) -> bytes:
    """Return the icon as PNG: a dot that is somewhere in a ring."""
    fine = 4  # so many samples for each pixel, in both directions
    rows = []
    for y in range(size):
        row = bytearray([0])
        for x in range(size):
            sums = [0, 0, 0, 0]
            for k in range(fine * fine):
                u = (x + (k % fine + 0.5) / fine) / size * 2 - 1
                v = (y + (k // fine + 0.5) / fine) / size * 2 - 1
                colour = _colour(u, v)
                if colour is not None:
                    sums = [s + c for s, c in zip(sums, (*colour, 255), strict=True)]
            inside = max(sums[3] // 255, 1)
            row += bytes([*(s // inside for s in sums[:3]), sums[3] // (fine * fine)])
        rows.append(bytes(row))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows), 9)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _colour(u: float, v: float) -> tuple[int, int, int] | None:
    """Return the colour at a point of the square from -1 to 1, or None outside the disc."""
    if math.hypot(u, v) > 0.98:
        return None
    if math.hypot(u - 0.2, v + 0.16) < 0.26:
        return DOT
    return RING if 0.56 < math.hypot(u, v) < 0.74 else FIELD


def build(browser: str, into: Path, granted: bool = False) -> Path:
    """Write the extension for a browser into a folder, whole or not at all; return the folder."""
    wasm = CLIENT / "dist" / "whereish.wasm"
    if not wasm.is_file():
        raise SystemExit("clients/js/dist/whereish.wasm must be there: run make core")
    into.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{into.name}.new-", dir=into.parent))
    try:
        fresh.chmod(0o755)
        for file in SOURCE.rglob("*"):
            if file.suffix in (".js", ".html", ".css"):
                _copy(file, fresh / file.relative_to(SOURCE))
        for name in _with_imports(SHARED):
            _copy(PAGE / name, fresh / "shared" / name)
        for file in CLIENT.rglob("*.js"):
            inside = file.relative_to(CLIENT)
            if inside.parts[0] not in ("test", "node_modules"):
                _copy(file, fresh / "shared" / "vendor" / inside)
        for name in ("whereish.wasm", "licences.txt"):
            _copy(CLIENT / "dist" / name, fresh / "shared" / "vendor" / "dist" / name)
        if WORLD.is_file():
            _copy(WORLD, fresh / "shared" / "vendor" / WORLD.name)
        _copy(ROOT / "LICENSE", fresh / "LICENSE")
        (fresh / "icons").mkdir()
        for size in SIZES:
            (fresh / "icons" / f"{size}.png").write_bytes(icon(size))
        text = json.dumps(manifest(browser, granted), indent=2)
        (fresh / "manifest.json").write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(into, ignore_errors=True)
        fresh.rename(into)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return into


def _with_imports(names: tuple[str, ...]) -> list[str]:
    """Return modules of the page and all modules of the page that they import."""
    found = list(names)
    for name in found:  # it grows
        text = (PAGE / name).read_text(encoding="utf-8")
        found += [
            other
            for other in re.findall(r'(?:from|import) "\./([\w-]+\.js)"', text)
            if other not in found
        ]
    return found


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def main() -> int:
    """Build for the browsers that are named, or for both."""
    parser = argparse.ArgumentParser(
        description="Build the extension from this tree; fetches nothing."
    )
    parser.add_argument(
        "browsers", nargs="*", metavar="BROWSER", help="chromium, firefox (default: both)"
    )
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    parser.add_argument(
        "--granted", action="store_true", help="ask for all sites at the installation, for tests"
    )
    given = parser.parse_args()
    for browser in given.browsers or BROWSERS:
        if browser not in BROWSERS:
            parser.error(f"a browser must be chromium or firefox, and is {browser}")
        made = build(browser, given.into / f"extension-{browser}", given.granted)
        sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
