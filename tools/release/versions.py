"""The version of the package, and its forms: Python's is the source, all others follow from it.

`src/whereish/__init__.py` states the version (PEP 440: `1.2.3` or `1.2.3rc4`). As a script, this
writes npm's form into `clients/js/package.json`; `tools/page_constants.py` writes the constants of
the client. With `--show` it prints the version. docs/versions.md is the policy.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE, NPM, CHANGES = "src/whereish/__init__.py", "clients/js/package.json", "CHANGELOG.md"
_FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:rc([1-9]\d*))?")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_RELEASED = re.compile(r"\[(?P<version>[^\]]+)\] - \d{4}-\d{2}-\d{2}")


class VersionError(Exception):
    """Two places state versions that do not agree: which, and what to do, in one line."""


def source_version(root: Path = ROOT) -> str:
    """Return the version that the package states."""
    found = re.search(r'^__version__ = "(.+)"$', (root / SOURCE).read_text(), re.MULTILINE)
    if found is None or not _FORM.fullmatch(found[1]):
        raise VersionError(f"{SOURCE} must state a version like 1.2.3 or 1.2.3rc4")
    return found[1]


def npm_version(version: str) -> str:
    """Return the form of a version that npm orders rightly: a candidate is before its release.

    >>> npm_version("1.2.3"), npm_version("1.2.3rc4")
    ('1.2.3', '1.2.3-rc.4')
    """
    found = _FORM.fullmatch(version)
    if found is None:
        raise VersionError(f"a version must be like 1.2.3 or 1.2.3rc4, and is {version}")
    *numbers, candidate = found.groups()
    return ".".join(numbers) + (f"-rc.{candidate}" if candidate else "")


def check_changes(version: str, text: str) -> None:
    """Raise VersionError unless the first section of a change log is that of this version.

    The section has a date. There is nothing above it: what is unreleased is not in a release.
    """
    headings = _HEADING.findall(text)
    first = headings[0] if headings else "nothing"
    found = _RELEASED.fullmatch(first)
    if found is None or found["version"] != version:
        raise VersionError(
            f"the first section of {CHANGES} must be '[{version}] - YYYY-MM-DD', and is '{first}': "
            f"move its lines below that heading, or change the version in {SOURCE}"
        )


def write_npm(root: Path = ROOT) -> str:
    """Write the version into the package of the client, and return it."""
    version, file = npm_version(source_version(root)), root / NPM
    text, count = re.subn(r'("version": ")[^"]+', rf"\g<1>{version}", file.read_text(), count=1)
    if count != 1:
        raise VersionError(f"{NPM} must have a version")
    file.write_text(text)
    return version


if __name__ == "__main__":
    shown = source_version() if "--show" in sys.argv else f"{NPM}: {write_npm()}"
    sys.stdout.write(shown + "\n")
