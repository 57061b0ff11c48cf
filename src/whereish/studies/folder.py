"""The folder of a study: what may be written there, rows as CSV, and a digest of the code."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from importlib import metadata
from pathlib import Path
from typing import Any

from whereish.errors import InputError
from whereish.files import write_whole
from whereish.studies.runs import MARK, Row


def check_folder(folder: Path) -> None:
    """Raise InputError unless a folder is new, empty, or that of an earlier run."""
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"output must be a folder, got {folder}")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
            raise InputError(f"output must be a new folder or that of an earlier run, got {folder}")
        there = next(parent for parent in (folder, *folder.resolve().parents) if parent.exists())
        if not os.access(there, os.W_OK) or not there.is_dir():
            raise InputError(f"output {folder} cannot be written: no folder can be made there")
    except OSError as wrong:
        raise InputError(f"output {folder} cannot be read: {wrong.strerror}") from None


def write_private(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all, and return its path."""
    # Rows are personal data: only the owner may read the file.
    write_whole(path, content, private=True)
    return path


def rows_as_csv(rows: list[Row], origin: dict[str, Any]) -> bytes:
    """Return rows as CSV; every row ends with its origin."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*names, *origin], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **origin} for row in rows)
    return stream.getvalue().encode()


def slug(name: str) -> str:
    """Return the name of a table or figure as the name of a file."""
    return name.replace(" ", "-")


def code_digest() -> str:
    """Return a digest of the code, so that parts of another version are not used."""
    import whereish

    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(whereish.__file__).parent.rglob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    for package in ("numpy", "scipy", "highspy", "polars"):
        digest.update(metadata.version(package).encode())
    return digest.hexdigest()
