"""Run the evaluation of the paper, and write its rows, figures and report to a folder."""

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


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The rows of a run by table, the claims of the paper, and the files that were written."""

    tables: dict[str, list[Row]]
    claims: list[Claim]
    files: list[Path]


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


def evaluate(
    people: People,
    design: Design,
    folder: str | Path,
    *,
    version: str,
    command: str,
    progress: Callable[[str, float], object] | None = None,
) -> Evaluation:
    """Run the parts that are missing, and write rows, figures and the report.

    Parameters
    ----------
    folder
        For ``report.html``, ``rows/*.csv``, ``figures/*.png`` and ``.pdf``, ``run.json``, and
        ``parts``, with which an interrupted run continues.
    version, command
        Written to every row, with the seed.
    progress
        Called with the current step and the share of the work that is done.
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
        pictures = chart(kind, tables)
        if pictures is not None:
            drawn[kind] = pictures
            for ending, content in pictures.items():
                files.append(_write(where / "figures" / f"{_slug(kind)}.{ending}", content))
    run = {**about, "claims": [asdict(claim) for claim in found]}
    files.append(_write(where / "run.json", json.dumps(run, indent=1).encode()))
    page = build_report(tables, drawn, found, about)
    files.append(_write(where / "report.html", page.encode()))
    for old in {*(where / "rows").iterdir(), *(where / "figures").iterdir()} - set(files):
        old.unlink()  # from an earlier run with other parameters
    return Evaluation(tables, found, files)


def _parts(people: People, design: Design) -> list[Part]:
    parts = evaluation_parts(people.cohort, design)
    if people.twin is not None:
        parts += comparison_parts(people.twin, design, "figure 6", "figure 7")
    return parts + timing_parts(people.sizes(design.sizes), design)


def expected_seconds(people: People, design: Design) -> float:
    """Estimate the seconds of an evaluation from the start."""
    # Weights are seconds at up to 50 places, as in the paper; solves with more take longer.
    n = len(people.cohort.places)
    solves = len(people.cohort.users) * (len(design.epsilons) + len(design.dilations) + 2)
    return sum(part.weight for part in _parts(people, design)) + solves * estimate(n, n, 0).seconds


def _code() -> str:
    """Return a digest of the code, so that parts of another version are not used."""
    import whereish

    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(whereish.__file__).parent.rglob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    for package in ("numpy", "scipy", "highspy", "polars"):
        digest.update(metadata.version(package).encode())
    return digest.hexdigest()


def _as_in_the_paper(people: People, design: Design) -> bool:
    choice, paper = people.choice, Choice()
    same = ("places", "top", "at_least", "window_days", "cell_km", "periods")
    return design.epsilon == Design().epsilon and all(
        getattr(choice, name) == getattr(paper, name) for name in same
    )


def _write(path: Path, content: bytes) -> Path:
    # Rows are personal data: only the owner may read the file.
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
