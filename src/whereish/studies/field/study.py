"""Run the study of mechanisms, and write its rows, figures and page to a folder."""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from whereish.errors import InputError
from whereish.studies.field.charts import field_charts
from whereish.studies.field.claims import field_claims
from whereish.studies.field.people import FieldData
from whereish.studies.field.registry import FieldMechanism, field_mechanisms
from whereish.studies.field.report import field_page
from whereish.studies.field.rows import (
    CLAIMS,
    MECHANISMS,
    PEOPLE,
    SUMMARY,
    FieldDesign,
    field_parts,
    summary,
    versions,
)
from whereish.studies.folder import check_folder, code_digest, rows_as_csv, slug, write_private
from whereish.studies.runs import Row, run_parts


@dataclass(frozen=True, eq=False)
class FieldStudy:
    """The rows of a study by table, and the files that were written."""

    tables: dict[str, list[Row]]
    files: list[Path]


def study_mechanisms(
    data: Sequence[FieldData],
    design: FieldDesign,
    folder: str | Path,
    *,
    version: str,
    command: str,
    mechanisms: dict[str, FieldMechanism] | None = None,
    own: str = "",
    progress: Callable[[str, float], object] | None = None,
) -> FieldStudy:
    """Run the parts that are missing, and write rows, figures and the page.

    Parameters
    ----------
    folder
        For ``report.html``, ``rows/*.csv``, ``figures/*.png`` and ``.pdf``, ``run.json``, and
        ``parts``, with which an interrupted run continues.
    version, command
        Written to every row, with the seed.
    mechanisms
        Those to compare; by default all that are registered.
    own
        A digest of code outside the library that mechanisms come from.
    progress
        Called with the current step and the share of the work that is done.
    """
    where = Path(folder)
    check_folder(where)
    entries = field_mechanisms() if mechanisms is None else mechanisms
    made_by = versions(version)
    recipe = json.loads(
        json.dumps([made_by, code_digest(), own, [some.recipe for some in data], asdict(design)])
    )
    people = run_parts(field_parts(data, design, entries), where, recipe, progress)[PEOPLE]
    medians = summary(people)
    tables = {
        PEOPLE: people, SUMMARY: medians, CLAIMS: field_claims(people, medians),
        MECHANISMS: [
            {"mechanism": entry.name, "about": entry.about, "source": entry.source}
            for entry in entries.values()
        ],
    }  # fmt: skip
    about = {
        "versions": made_by, "seed": design.seed, "command": command, "reports": design.reports,
        "titles": {some.name: some.title for some in data}, "design": asdict(design),
    }  # fmt: skip
    for name in ("rows", "figures"):
        (where / name).mkdir(mode=0o700, exist_ok=True)
    origin = {key: about[key] for key in ("seed", "versions", "command")}
    files = [
        write_private(where / "rows" / f"{slug(name)}.csv", rows_as_csv(rows, origin))
        for name, rows in tables.items()
    ]
    if progress is not None:
        progress("drawing", 1.0)
    drawn = field_charts(medians, design.epsilons[len(design.epsilons) // 2])
    for kind, pictures in drawn.items():
        for ending, content in pictures.items():
            files.append(write_private(where / "figures" / f"{slug(kind)}.{ending}", content))
    files.append(write_private(where / "run.json", json.dumps(about, indent=1).encode()))
    page = field_page(tables, drawn, about)
    files.append(write_private(where / "report.html", page.encode()))
    for old in {*(where / "rows").iterdir(), *(where / "figures").iterdir()} - set(files):
        old.unlink()  # from an earlier run with other parameters
    return FieldStudy(tables, files)


def register_from(file: Path) -> str:
    """Run a Python file that calls `register_field`, and return a digest of it.

    Only for files that you trust: they run as a part of this program.
    """
    try:
        content = file.read_bytes()
    except OSError as wrong:
        raise InputError(
            f"--mechanism must be a Python file that can be read, got {file.name}: {wrong.strerror}"
        ) from None
    before = set(field_mechanisms())
    try:
        runpy.run_path(str(file))
    except InputError:
        raise
    except Exception as wrong:
        raise InputError(f"mechanisms: {file.name} raised {type(wrong).__name__}") from None
    if set(field_mechanisms()) == before:
        raise InputError(f"mechanisms: {file.name} must call whereish.studies.register_field")
    return hashlib.blake2b(content, digest_size=16).hexdigest()
