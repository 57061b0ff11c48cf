"""Run the evaluation of the paper, and write its rows, figures and report to a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from whereish.solvers import estimate
from whereish.studies.charts import CHARTS, chart
from whereish.studies.claims import Claim, claims
from whereish.studies.datasets import Choice, People
from whereish.studies.evaluation import Design, comparison_parts, evaluation_parts
from whereish.studies.folder import check_folder, code_digest, rows_as_csv, slug, write_private
from whereish.studies.report import build_report
from whereish.studies.runs import Part, Row, run_parts
from whereish.studies.timings import timing_parts


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The rows of a run by table, the claims of the paper, and the files that were written."""

    tables: dict[str, list[Row]]
    claims: list[Claim]
    files: list[Path]


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
    recipe = json.loads(json.dumps([version, code_digest(), people.recipe, chosen, asdict(design)]))
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
        files.append(
            write_private(where / "rows" / f"{slug(table)}.csv", rows_as_csv(rows, origin))
        )
    drawn = {}
    for kind in CHARTS:
        if progress is not None:
            progress(f"drawing {kind}", 1.0)
        pictures = chart(kind, tables)
        if pictures is not None:
            drawn[kind] = pictures
            for ending, content in pictures.items():
                files.append(write_private(where / "figures" / f"{slug(kind)}.{ending}", content))
    run = {**about, "claims": [asdict(claim) for claim in found]}
    files.append(write_private(where / "run.json", json.dumps(run, indent=1).encode()))
    page = build_report(tables, drawn, found, about)
    files.append(write_private(where / "report.html", page.encode()))
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


def _as_in_the_paper(people: People, design: Design) -> bool:
    choice, paper = people.choice, Choice()
    same = ("places", "top", "at_least", "window_days", "cell_km", "periods")
    return design.epsilon == Design().epsilon and all(
        getattr(choice, name) == getattr(paper, name) for name in same
    )
