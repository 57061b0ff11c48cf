"""A folder as a zip archive that depends on its files alone: names in order, one time, one mode.

Also the names of the archives of the extension: for a release, and for the site.
"""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

BROWSERS = ("chromium", "firefox")
_FIRST = (1980, 1, 1, 0, 0, 0)  # zip knows no earlier time
_MODE = 0o100644 << 16


def extension_name(browser: str, version: str) -> str:
    """Return the name of the archive of the extension for a browser."""
    return f"whereish-extension-{browser}-{version}.zip"


def pack(folder: Path, target: Path, epoch: int = 0) -> None:
    """Write the files of a folder to an archive, all with the time `epoch` (seconds, UTC)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    stamp = max(_FIRST, time.gmtime(epoch)[:6])
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file in files:
            about = zipfile.ZipInfo(file.relative_to(folder).as_posix(), stamp)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, _MODE
            about.create_system = 3  # Unix, wherever this runs
            packed.writestr(about, file.read_bytes())
