"""Run the study of traces, and write its rows, figures and report to a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from whereish.studies.claims import Claim
from whereish.studies.equal_budget import EQUAL, EqualDesign, equal_budget_parts
from whereish.studies.folder import check_folder, code_digest, rows_as_csv, slug, write_private
from whereish.studies.paper import Evaluation
from whereish.studies.runs import Row, run_parts
from whereish.studies.tapered_places import CONSTANT, FALLING, TAPERED_PLACES, tapered_parts
from whereish.studies.trace_charts import TRACE_CHARTS, trace_chart
from whereish.studies.trace_people import TracePeople
from whereish.studies.trace_report import report_markdown, report_page
from whereish.studies.trace_rows import (
    AUTHORS,
    PROTOCOL,
    TAPERED,
    TraceDesign,
    protocol_parts,
)

AIM = 0.7  # times the error of the authors' constants
_AS_MUCH = 0.01  # of coverage: constants are chosen on other people, so it may differ a little


def study_traces(
    people: TracePeople,
    design: TraceDesign,
    equal: EqualDesign,
    folder: str | Path,
    *,
    version: str,
    command: str,
    progress: Callable[[str, float], object] | None = None,
) -> Evaluation:
    """Run the parts that are missing, and write rows, figures and the report.

    Parameters
    ----------
    equal
        The comparison of attacks at equal budget, on synthetic people.
    folder
        For ``report.html``, ``report.md``, ``rows/*.csv``, ``figures/*.png`` and ``.pdf``,
        ``run.json``, and ``parts``, with which an interrupted run continues.
    version, command
        Written to every row, with the seed.
    progress
        Called with the current step and the share of the work that is done.
    """
    where = Path(folder)
    check_folder(where)
    parts = protocol_parts(people, design) + equal_budget_parts(equal) + tapered_parts(equal)
    recipe = json.loads(
        json.dumps([version, code_digest(), people.recipe, asdict(design), asdict(equal)])
    )
    tables = run_parts(parts, where, recipe, progress)
    found = trace_claims(tables)
    about = {
        "dataset": people.dataset, "title": people.title, "seed": design.seed,
        "version": version, "command": command, "traces": len(people.traces),
        "people": len(people.people), "budget": design.budget,
    }  # fmt: skip
    for name in ("rows", "figures"):
        (where / name).mkdir(mode=0o700, exist_ok=True)
    origin = {key: about[key] for key in ("dataset", "seed", "version", "command")}
    files = [
        write_private(where / "rows" / f"{slug(name)}.csv", rows_as_csv(rows, origin))
        for name, rows in tables.items()
    ]
    drawn = {}
    for kind in TRACE_CHARTS:
        if progress is not None:
            progress(f"drawing {kind}", 1.0)
        pictures = trace_chart(kind, tables)
        if pictures is not None:
            drawn[kind] = pictures
            for ending, content in pictures.items():
                files.append(write_private(where / "figures" / f"{slug(kind)}.{ending}", content))
    run = {**about, "design": asdict(design), "equal": asdict(equal),
           "claims": [asdict(claim) for claim in found]}  # fmt: skip
    files.append(write_private(where / "run.json", json.dumps(run, indent=1).encode()))
    for name, write in (("report.md", report_markdown), ("report.html", report_page)):
        files.append(write_private(where / name, write(tables, drawn, found, about).encode()))
    for old in {*(where / "rows").iterdir(), *(where / "figures").iterdir()} - set(files):
        old.unlink()  # from an earlier run with other parameters
    return Evaluation(tables, found, files)


def trace_claims(tables: dict[str, list[Row]]) -> list[Claim]:
    """Compare tapered reports with the authors' constants, and sticky reports with private ones."""
    found = []
    rows = tables.get(PROTOCOL, [])
    for sampling in dict.fromkeys(row["sampling"] for row in rows):
        of = {(r["setting"], r["policy"]): r for r in rows if r["sampling"] == sampling}
        pairs = [
            (of[setting, TAPERED], of[setting, AUTHORS])
            for setting in dict.fromkeys(setting for setting, _ in of)
        ]
        ratios = [ours["mean_error_km"] / theirs["mean_error_km"] for ours, theirs in pairs]
        less = [theirs["coverage"] - ours["coverage"] for ours, theirs in pairs]
        shown = "; ".join(
            f"{ours['setting']}: {ours['mean_error_km']:.2f} against "
            f"{theirs['mean_error_km']:.2f} km ({ratio:.2f}), covering {ours['coverage']:.0%} "
            f"against {theirs['coverage']:.0%}"
            for (ours, theirs), ratio in zip(pairs, ratios, strict=True)
        )
        found.append(Claim(
            f"Reports {sampling}: at equal budget, filtered and tapered reports have at most {AIM} "
            "times the error of the predictive mechanism with the authors' constants, and cover as "
            "much.",
            bool(np.max(ratios) <= AIM and np.max(less) <= _AS_MUCH),
            shown,
        ))  # fmt: skip
    devices = {row["policy"]: row for row in tables.get(TAPERED_PLACES, [])}
    if {CONSTANT, FALLING} <= set(devices):
        constant, falling = devices[CONSTANT], devices[FALLING]
        found.append(Claim(
            "On a device with certified mechanisms on places, tapered draws have a smaller error "
            "than draws of a constant epsilon, at equal budget and coverage.",
            bool(falling["mean_error_km"] < constant["mean_error_km"]),
            f"{falling['mean_error_km']:.3f} against {constant['mean_error_km']:.3f} km "
            f"({falling['mean_error_km'] / constant['mean_error_km']:.2f}), covering "
            f"{falling['coverage']:.0%} of the reports of {falling['days']} days; spent on average "
            f"{falling['epsilon_per_day']:.1f} against {constant['epsilon_per_day']:.1f} of "
            f"{falling['budget_per_day']:.4g}",
        ))  # fmt: skip
    last = {row["policy"]: row for row in tables.get(EQUAL, [])}
    if {"sticky", "predictive"} <= set(last):
        sticky, private = last["sticky"], last["predictive"]
        found.append(Claim(
            "At equal budget, sticky reports tell moves and homes better than private ones.",
            bool(sticky["moves_told"] > private["moves_told"]
                 and sticky["home_error_km"] < private["home_error_km"]),
            f"moves told {sticky['moves_told']:.0%} against {private['moves_told']:.0%} "
            f"(predictive), homes within 300 m {sticky['homes_within_300m']} against "
            f"{private['homes_within_300m']} of {sticky['people']}",
        ))  # fmt: skip
    return found
