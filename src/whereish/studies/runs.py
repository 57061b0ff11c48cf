"""Runs of many parts that can be killed at any moment and go on where they were.

A part is a name and a function that returns rows. What it returned is written, whole, to a file
named by a digest of everything it depends on; a part whose file is there is not run again.
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
        The table the rows belong to, and which of them they are.
    work
        Returns the rows.
    weight
        About how many seconds it takes, for the bar.
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
    """Run what has not been run yet, and return all rows by table, in the order of the parts.

    Parameters
    ----------
    folder
        Where rows are kept.
    recipe
        All that the rows depend on, as JSON.
    progress
        Called with what is going on and the share of the way.
    """
    kept = folder / _FOLDER
    try:
        make_folder(kept)
        if not (folder / MARK).is_file():
            write_whole(folder / MARK, b"", private=True)
    except OSError as wrong:
        raise InputError(f"output {folder} cannot be made a folder: {wrong.strerror}") from None
    whole = sum(part.weight for part in parts)
    done = 0.0
    spent = worked = 0.0
    tables: dict[str, list[Row]] = {}
    for part in parts:
        file = kept / f"{_digest([recipe, part.table, part.name])}.json"
        rows = _read(file)
        if rows is None:
            if progress is not None:
                left = (whole - done) * (spent / worked if worked else 1.0)
                progress(f"{part.table}, {part.name}; about {duration(left)} left", done / whole)
            start = time.perf_counter()
            rows = part.work()
            text = json.dumps({"table": part.table, "part": part.name, "rows": rows})
            write_whole(file, text.encode(), private=True)
            # What is given back is what was written: a resumed run has the same rows.
            rows = _read(file) or []
            spent += time.perf_counter() - start
            worked += part.weight
        done += part.weight
        tables.setdefault(part.table, []).extend(rows)
    return tables


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _read(file: Path) -> list[Row] | None:
    try:
        rows = json.loads(file.read_text())["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return rows if isinstance(rows, list) else None
