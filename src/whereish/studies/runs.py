"""Runs of many parts that can be interrupted at any time and continued.

A part is a name and a function that returns rows. Its rows are written atomically to a file whose
name is a digest of everything they depend on; a part with such a file is not run again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whereish.errors import InputError
from whereish.files import make_folder, write_whole
from whereish.units import duration

Row = dict[str, Any]
_FOLDER, MARK = "parts", ".whereish-paper"


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a table.

    Attributes
    ----------
    table, name
        The table that the rows belong to, and the name of the part.
    work
        Returns the rows.
    weight
        Its estimated seconds, for the progress bar.
    """

    table: str
    name: str
    work: Callable[[], list[Row]]
    weight: float = 1.0


def run_parts(
    parts: Sequence[Part],
    folder: Path,
    recipe: Any,
    progress: Callable[[str, float], object] | None = None,
) -> dict[str, list[Row]]:
    """Run the parts that have no file yet, and return all rows by table, in the order of the parts.

    Parameters
    ----------
    folder
        The folder of the files.
    recipe
        Everything that the rows depend on, as JSON.
    progress
        Called with the current part and the share of the work that is done.
    """
    kept = folder / _FOLDER
    try:
        make_folder(kept)
        if not (folder / MARK).is_file():
            write_whole(folder / MARK, b"", private=True)
    except OSError as wrong:
        raise InputError(f"output {folder} cannot be made a folder: {wrong.strerror}") from None
    total = sum(part.weight for part in parts)
    done = spent = worked = 0.0
    tables: dict[str, list[Row]] = {}
    for part in parts:
        key = json.dumps([recipe, part.table, part.name], sort_keys=True, default=str).encode()
        file = kept / f"{hashlib.blake2b(key, digest_size=16).hexdigest()}.json"
        rows = _read(file)
        if rows is None:
            if progress is not None:
                left = (total - done) * (spent / worked if worked else 1.0)
                progress(f"{part.table}, {part.name}; about {duration(left)} left", done / total)
            start = time.perf_counter()
            rows = part.work()
            text = json.dumps({"table": part.table, "part": part.name, "rows": rows})
            write_whole(file, text.encode(), private=True)
            # The rows are read back from the file: a continued run has the same ones.
            rows = _read(file) or []
            spent += time.perf_counter() - start
            worked += part.weight
        done += part.weight
        tables.setdefault(part.table, []).extend(rows)
    return tables


def grouped(rows: list[Row], key: str, value: str) -> dict[float, list[float]]:
    """Return the values of one column for each value of another, which increases."""
    found: dict[float, list[float]] = {}
    for row in sorted(rows, key=lambda row: float(row[key])):
        found.setdefault(row[key], []).append(row[value])
    return found


def _read(file: Path) -> list[Row] | None:
    try:
        rows = json.loads(file.read_text())["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return rows if isinstance(rows, list) else None
