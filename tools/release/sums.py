"""SHA256SUMS: the digest of each file of a release, in the form that `sha256sum -c` reads."""

from __future__ import annotations

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


class SumsError(Exception):
    """The files of a folder are not those of its list: which, in one line."""


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Return the digests of all files of a folder except the list itself, in order."""
    files = sorted(file for file in folder.iterdir() if file.name != NAME)
    return {file.name: digest(file) for file in files}


def write(folder: Path) -> None:
    """Write the list of a folder."""
    lines = [f"{value}  {name}\n" for name, value in digests(folder).items()]
    (folder / NAME).write_text("".join(lines), encoding="utf-8")


def check(folder: Path) -> dict[str, str]:
    """Return the digests of a folder; raise SumsError unless its list says the same."""
    if not (folder / NAME).is_file():
        raise SumsError(f"a release must be a folder with {NAME}, and {folder.name} has none")
    lines = (folder / NAME).read_text(encoding="utf-8").splitlines()
    listed = {name: value for value, name in (line.split("  ", 1) for line in lines)}
    found = digests(folder)
    wrong = sorted(set(listed.items()) ^ set(found.items()))
    if wrong:
        name = wrong[0][0]
        how = "missing" if name not in found else "changed" if name in listed else "not in the list"
        raise SumsError(f"the files must be those of {NAME}, and {name} is {how}")
    return found
