"""The paper's evaluation from people to a report: rows, figures and a page in one folder."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from whereish.errors import InputError
from whereish.files import write_whole
from whereish.solvers import estimate
from whereish.studies.charts import CHARTS, chart
from whereish.studies.claims import Claim, claims
from whereish.studies.datasets import Choice, People
from whereish.studies.evaluation import Design, comparison_parts, evaluation_parts
from whereish.studies.report import build_report
from whereish.studies.runs import MARK, Part, Row, run_parts
from whereish.studies.timings import timing_parts

_OURS = "run.json"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All rows of a run by table, what the paper claims of them, and the files written."""

    tables: dict[str, list[Row]]
    claims: list[Claim]
    files: list[Path]


def check_folder(folder: Path) -> None:
    """Raise InputError unless a folder is new, empty, or of an earlier run."""
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


def evaluate(
    people: People,
    design: Design,
    folder: str | Path,
    *,
    version: str,
    command: str,
    progress: Callable[[str, float], object] | None = None,
) -> Evaluation:
    """Run what has not been run yet, and write rows, figures and the report.

    Parameters
    ----------
    folder
        Gets ``report.html``, ``rows/*.csv``, ``figures/*.png`` and ``.pdf``, ``run.json``, and
        ``parts``, from which a run that was stopped goes on.
    version, command
        Stand in every row, with the seed: what made it.
    progress
        Called with what is going on and the share of the way.
    """
    where = Path(folder)
    check_folder(where)
    chosen = {key: value for key, value in asdict(people.choice).items() if key != "data"}
    recipe = json.loads(json.dumps([version, _code(), people.recipe, chosen, asdict(design)]))
    parts = _parts(people, design)
    tables = run_parts(parts, where, recipe, progress)
    found = claims(tables)
    about = {
        "dataset": people.choice.dataset, "title": people.title, "seed": people.choice.seed,
        "version": version, "command": command, "design": asdict(design),
        "choice": {**chosen, "data": str(people.choice.data)},
        "as_in_the_paper": _as_in_the_paper(people, design),
    }  # fmt: skip
    files = []
    for name in ("rows", "figures"):
        (where / name).mkdir(mode=0o700, exist_ok=True)
    for table, rows in tables.items():
        origin = {key: about[key] for key in ("dataset", "seed", "version", "command")}
        files.append(_write(where / "rows" / f"{_slug(table)}.csv", _csv(rows, origin)))
    drawn = {}
    for kind in CHARTS:
        if progress is not None:
            progress(f"drawing {kind}", 1.0)
        made = chart(kind, tables)
        if made is not None:
            drawn[kind] = made
            for ending, content in made.items():
                files.append(_write(where / "figures" / f"{_slug(kind)}.{ending}", content))
    told = [asdict(claim) for claim in found]
    files.append(_write(where / _OURS, json.dumps({**about, "claims": told}, indent=1).encode()))
    page = build_report(tables, drawn, found, about)
    files.append(_write(where / "report.html", page.encode()))
    for old in {*(where / "rows").iterdir(), *(where / "figures").iterdir()} - set(files):
        old.unlink()  # of an earlier run with other parameters: not beside this report
    return Evaluation(tables, found, files)


def _parts(people: People, design: Design) -> list[Part]:
    parts = evaluation_parts(people.cohort, design)
    if people.twin is not None:
        parts += comparison_parts(people.twin, design, "figure 6", "figure 7")
    return parts + timing_parts(people.sizes(design.sizes), design)


def expected_seconds(people: People, design: Design) -> float:
    """Say about how long an evaluation takes that begins anew."""
    # What parts weigh are seconds at the paper's 50 places, or fewer; solves take longer for more.
    n = len(people.cohort.places)
    solves = len(people.cohort.users) * (len(design.epsilons) + len(design.dilations) + 2)
    return sum(part.weight for part in _parts(people, design)) + solves * estimate(n, n, 0).seconds


def _code() -> str:
    """Return a digest of the code, so that no part of another version is taken for one of this."""
    import whereish

    told = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(whereish.__file__).parent.rglob("*.py")):
        told.update(file.name.encode() + file.read_bytes())
    for package in ("numpy", "scipy", "highspy", "polars"):
        told.update(metadata.version(package).encode())
    return told.hexdigest()


def _as_in_the_paper(people: People, design: Design) -> bool:
    asked, usual = people.choice, Choice()
    same = ("places", "top", "at_least", "window_days", "cell_km", "periods")
    return design.epsilon == Design().epsilon and all(
        getattr(asked, name) == getattr(usual, name) for name in same
    )


def _write(path: Path, content: bytes) -> Path:
    # Rows tell about people: only their owner may read them.
    write_whole(path, content, private=True)
    return path


def _csv(rows: list[Row], origin: dict[str, Any]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*names, *origin], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **origin} for row in rows)
    return stream.getvalue().encode()


def _slug(name: str) -> str:
    return name.replace(" ", "-")
