"""``whereish study``: studies beyond the paper. `traces`: reports over time; `mechanisms`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import typer

import whereish as wh
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.options import AS_JSON, flag, option, output_option
from whereish.cli.reading import numbers
from whereish.cli.study_mechanisms import mechanisms
from whereish.errors import InputError
from whereish.places import as_number, as_whole
from whereish.studies import (
    TRACE_DATASETS,
    EqualDesign,
    Rules,
    TraceDesign,
    check_folder,
    load_trace_people,
    study_traces,
)

study_app = typer.Typer(
    no_args_is_help=True, help="Study mechanisms, or reports over time: a page with figures."
)
study_app.command("mechanisms")(mechanisms)
_DATA, _PROTOCOL, _EQUAL = "The data", "The protocol", "Attacks at equal budget"
_QUICK = {"users": 12, "days": 6, "per_person": 3, "attacked": 4, "people": 3, "attack_days": 3}
_FULL = {"users": 60, "days": 20, "per_person": 10, "attacked": 40, "people": 10, "attack_days": 14}


@study_app.command("traces")
@command
def traces(
    output: Path = output_option("A new folder, or that of a stopped run.", "FOLDER"),
    dataset: str = option(
        "synthetic",
        f"The traces: {', '.join(TRACE_DATASETS)}.",
        _DATA,
        "NAME",
        choices=TRACE_DATASETS,
    ),
    data: Path | None = option(None, "The folder of GeoLife.", _DATA, "FOLDER"),
    quick: bool = flag("--quick", "A small version: fewer people and days.", _DATA),
    seed: int = option(0, "The seed of the city, the folds and the draws.", _DATA),
    users: int | None = option(None, "People of the synthetic city.", _DATA),
    days: int | None = option(None, "Days of the synthetic city.", _DATA),
    per_person: int | None = option(None, "At most so many traces of each person.", _PROTOCOL),
    gaps: str = option("1,10,60", "Minutes between two reports.", _PROTOCOL, "LIST"),
    jumps: str = option(
        "0.2,0.4,0.6,0.8,1", "Probabilities of a jump of 30 or 60 minutes.", _PROTOCOL, "LIST"
    ),
    budget: float | None = option(
        None, "Epsilon per km of a trace. If not given: ln 10 per 100 m.", _PROTOCOL
    ),
    attacked: int | None = option(None, "So many people are attacked.", _PROTOCOL),
    people: int | None = option(None, "Synthetic people; 0 leaves it out.", _EQUAL),
    attack_days: int | None = option(None, "Days of their reports.", _EQUAL),
    as_json: bool = AS_JSON,
) -> Facts:
    """Compare policies for reports over time, at equal budget.

    The protocol of the predictive mechanism (PETS 2014), on GeoLife or on
    synthetic people: error, coverage, budget, attack. A stopped run continues
    where it was. Nothing of one person is written.
    """
    check_folder(output)
    given = {"users": users, "days": days, "per_person": per_person, "attacked": attacked,
             "people": people, "attack_days": attack_days}  # fmt: skip
    sizes = _sizes(given, quick, dataset)
    level = TraceDesign().budget if budget is None else as_number("budget", budget)
    design = TraceDesign(
        budget=level, gaps_min=_numbers_or_none("gaps", gaps),
        jumps=_numbers_or_none("jumps", jumps), attacked=sizes["attacked"],
        seed=as_whole("seed", seed, 0),
    )  # fmt: skip
    equal = EqualDesign(people=sizes["people"], days=sizes["attack_days"])
    design.samplings()  # what cannot be sampled is said before anything is read
    start = time.perf_counter()
    with waiting("finding traces") as tell:
        found = load_trace_people(
            dataset, data, users=sizes["users"], days=sizes["days"],
            rules=Rules(per_person=sizes["per_person"]), seed=seed, progress=tell,
        )  # fmt: skip
    say(
        f"{len(found.traces):,} traces of {len(found.people):,} people. Ctrl-C stops the study; "
        "the same command continues it."
    )
    with waiting("studying reports over time") as tell:
        made = study_traces(
            found, design, equal, output, version=wh.__version__, progress=tell,
            command=_command(dataset, data, seed, sizes, design),
        )  # fmt: skip
    for claim in made.claims:
        say(f"{'holds' if claim.holds else 'does not hold here'}: {claim.name} ({claim.detail})")
    seconds = time.perf_counter() - start
    say(f"Wrote {output / 'report.html'} and {len(made.files) - 1} files in {seconds:.0f} s.")
    return {
        "report": str(output / "report.html"),
        "files": [str(file) for file in made.files],
        "people": len(found.people),
        "traces": len(found.traces),
        "claims": [vars(claim) for claim in made.claims],
        "seconds": seconds,
    }


def _sizes(given: dict[str, int | None], quick: bool, dataset: str) -> dict[str, int]:
    """Return how many of everything; what was not given is that of the full or quick version."""
    for name in ("users", "days"):
        if given[name] is not None and dataset != "synthetic":
            raise InputError(f"--{name} must go with --dataset synthetic: {dataset} has its own")
    sizes = dict(_QUICK if quick else _FULL)
    for name, value in given.items():
        if value is not None:
            least = {"attacked": 0, "people": 0, "users": 2}.get(name, 1)
            sizes[name] = as_whole(name.replace("_", "-"), value, least)
    if sizes["people"] == 1:
        raise InputError("people must be 0 or at least 2: the adversary learns from the others")
    return sizes


def _numbers_or_none(name: str, listed: str) -> tuple[float, ...]:
    """Read numbers with commas between; an empty text is no number."""
    return numbers(name, listed) if listed.strip(", ") else ()


def _command(
    dataset: str, data: Path | None, seed: int, sizes: dict[str, int], design: TraceDesign
) -> str:
    """Write the command that makes these rows, every parameter named; GeoLife is in FOLDER."""
    asked: dict[str, Any] = {"dataset": dataset, "seed": seed}
    if data is not None:
        asked["data"] = "FOLDER"
    names = ["per_person", "attacked", "people", "attack_days"]
    for name in ["users", "days", *names] if data is None else names:
        asked[name.replace("_", "-")] = sizes[name]
    asked["gaps"] = ",".join(f"{gap:g}" for gap in design.gaps_min)
    asked["jumps"] = ",".join(f"{jump:g}" for jump in design.jumps)
    asked["budget"] = repr(float(design.budget))
    words = [f"--{name}={value}" for name, value in asked.items()]
    return shlex.join(["whereish", "study", "traces", *words])
