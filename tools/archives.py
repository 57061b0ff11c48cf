"""The archives of the extension for both browsers, from what ``make extension`` has built."""

from __future__ import annotations

import json
from pathlib import Path

from release import archive

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "firefox")


def extension_archives(target: Path) -> list[Path]:
    """Zip the extensions that ``make extension`` has built in dist/ into a folder."""
    made = []
    for browser in BROWSERS:
        folder = ROOT / "dist" / f"extension-{browser}"
        version = json.loads((folder / "manifest.json").read_text())["version"]
        made.append(target / f"whereish-{version}-{browser}.zip")
        archive.pack(folder, made[-1])
    return made
