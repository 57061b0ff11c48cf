"""Archives that depend on their content only: the same files give the same bytes at any time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "firefox")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first date that a zip archive can hold


def zipped(folder: Path, archive: Path) -> Path:
    """Write all files of a folder into an archive: sorted names, one date, one mode."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _LONG_AGO)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3  # Unix, on every system
                entry.external_attr = 0o644 << 16
                packed.writestr(entry, file.read_bytes())
    return archive


def extension_archives(target: Path) -> list[Path]:
    """Zip the extensions that ``make extension`` has built in dist/ into a folder."""
    made = []
    for browser in BROWSERS:
        folder = ROOT / "dist" / f"extension-{browser}"
        version = json.loads((folder / "manifest.json").read_text())["version"]
        made.append(zipped(folder, target / f"whereish-{version}-{browser}.zip"))
    return made
