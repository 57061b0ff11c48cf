"""Write a software bill of materials (CycloneDX 1.6): all that an installed service consists of.

It is read off the pins: Python packages from deploy/requirements.txt, the page's from npm's
package-lock.json. The same pins give the same bill, byte for byte.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PINS, LOCK = "deploy/requirements.txt", "src/whereish/service/page/package-lock.json"
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)(.*?)(?=^\S|\Z)", re.M | re.S)


def python_packages(text: str) -> list[dict[str, Any]]:
    """Return the packages of a file of pins, each with the hashes of its published files."""
    found = []
    for name, version, rest in _PIN.findall(text):
        plain = re.sub(r"[-_.]+", "-", name).lower()
        hashes = sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))
        found.append(
            {
                "type": "library",
                "name": plain,
                "version": version,
                "purl": f"pkg:pypi/{plain}@{version}",
                # One bill, many files of a version: a component's own hashes are of one file only.
                "properties": [{"name": "whereish:sha256", "value": one} for one in hashes],
            }
        )
    return found


def page_packages(lock: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the packages of the page, each with the hash that npm holds it to."""
    found = []
    for path, about in lock["packages"].items():
        if not path:
            continue
        name = path.rpartition("node_modules/")[2]
        kind, _, digest = about["integrity"].partition("-")
        found.append(
            {
                "type": "library",
                "name": name,
                "version": about["version"],
                "purl": f"pkg:npm/{name.replace('@', '%40')}@{about['version']}",
                "hashes": [
                    {"alg": kind.upper().replace("SHA", "SHA-"),
                     "content": base64.b64decode(digest).hex()}
                ],
            }
        )  # fmt: skip
    return found


def bill(root: Path = ROOT) -> dict[str, Any]:
    """Return the bill of materials of a tree."""
    version = re.search(r'__version__ = "(.+)"', (root / "src/whereish/__init__.py").read_text())
    packages = python_packages((root / PINS).read_text())
    packages += page_packages(json.loads((root / LOCK).read_text()))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "whereish",
                "version": version[1] if version else "0",
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": sorted(packages, key=lambda one: str(one["purl"])),
    }


def main() -> None:
    """Write it to a file, dist/whereish.cdx.json unless told."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "whereish.cdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=1) + "\n")
    sys.stderr.write(f"{target}: {len(bill()['components'])} components\n")


if __name__ == "__main__":
    main()
