"""``whereish paper``: the paper's evaluation, every figure and table, as one command."""

from __future__ import annotations

import math
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import whereish as wh
from whereish.cli.console import command, emit, say, waiting
from whereish.cli.options import AsJson
from whereish.cli.words import length_km
from whereish.errors import InputError
from whereish.places import as_epsilon, as_number, as_whole
from whereish.profiles import ALL_DAY, PERIODS, as_cell_km, as_period
from whereish.studies import (
    DATASETS,
    Choice,
    Design,
    check_folder,
    evaluate,
    expected_seconds,
    load_people,
)
from whereish.traces import cache_folder

_QUICK = Design(
    epsilons=(0.5, 1.07, 2.0), dilations=(1.0, 1.05, 1.1, 1.2, 1.5, 2.0), sizes=(25,),
    table_dilations=(1.0, 1.2, 2.0), time_limit_s=2.0,
)  # fmt: skip
_QUICK_CHOICE = {"users": 24, "days": 45, "places": 25, "at_least": 10}


@command
def paper(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A new folder, or that of a run to go on with.")
    ],
    dataset: Annotated[
        str, typer.Option(help="One of: " + ", ".join(DATASETS) + ".")
    ] = "synthetic",
    data: Annotated[Path | None, typer.Option(help="The folder of GeoLife or T-Drive.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: fewer people, places and levels.")
    ] = False,
    epsilon: Annotated[float, typer.Option(help="Level of the comparison, per km.")] = 1.07,
    dilation: Annotated[float, typer.Option(help="Dilation of the comparison.")] = 1.05,
    epsilons: Annotated[
        str | None, typer.Option(help="Levels of Figure 4, like 0.5,1.07,2.")
    ] = None,
    dilations: Annotated[
        str | None, typer.Option(help="Dilations of Figure 5, like 1,1.05,1.1.")
    ] = None,
    places: Annotated[int | None, typer.Option(help="How many places.")] = None,
    cell: Annotated[str, typer.Option(help="Size of the cells.")] = "658m x 712m",
    users: Annotated[
        int | None, typer.Option(help="People of the city, or taxis drawn (5 % of them).")
    ] = None,
    days: Annotated[int | None, typer.Option(help="Days of the city.")] = None,
    at_least: Annotated[int | None, typer.Option(help="Points needed in every period.")] = None,
    top: Annotated[
        int | None, typer.Option(help="How many regions of each count for the score.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Take the so many days in a row with the most traces.")
    ] = None,
    periods: Annotated[
        str | None, typer.Option(help="Periods of the day, like morning=7-12,night=19-7.")
    ] = None,
    table_dilations: Annotated[
        str | None, typer.Option(help="Dilations of Table 1, like 1,1.1,1.5.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="Places of Table 1, like 50,75.")] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for each cell of Table 1.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which city, which taxis, which draws.")] = 0,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing of the traces for the next time.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's evaluation and write its rows, figures and a report.

    A run that was stopped goes on where it was. Without data it is about made-up people.
    """
    check_folder(output)
    design, choice = _asked(
        quick, dataset, data, epsilon, dilation, epsilons, dilations, places, cell, users, days,
        at_least, top, window, periods, sizes, table_dilations, time_limit, seed,
    )  # fmt: skip
    start = time.perf_counter()
    with waiting("finding people and places") as tell:
        people = load_people(
            choice, cache=None if no_cache else cache_folder(),
            progress=lambda done, all_, rows: tell(f"{rows:,} rows", done / all_),
        )  # fmt: skip
    for step in people.cohort.steps:
        say(f"{step.users:>8,} people {step.points:>12,} points  {step.name}")
    expected = expected_seconds(people, design)
    say(
        f"Evaluating {len(people.cohort.users):,} people on {len(people.cohort.places):,} places "
        f"takes roughly {_about(expected)} if nothing of it is there yet. Ctrl-C stops it, and the "
        "same command goes on where it was."
    )
    with waiting("evaluating") as tell:
        made = evaluate(
            people, design, output, version=wh.__version__, command=_command(choice, design, quick),
            progress=tell,
        )  # fmt: skip
    for claim in made.claims:
        say(f"{'holds' if claim.holds else 'NOT HERE'}: {claim.name} ({claim.detail})")
    seconds = time.perf_counter() - start
    say(f"Wrote {output / 'report.html'} and {len(made.files) - 1} files in {seconds:.0f} s.")
    if as_json:
        emit(
            {
                "report": str(output / "report.html"),
                "files": [str(file) for file in made.files],
                "people": len(people.cohort.users),
                "claims": [vars(claim) for claim in made.claims],
                "seconds": seconds,
            }
        )


def _asked(
    quick: bool, dataset: str, data: Path | None, epsilon: float, dilation: float,
    epsilons: str | None, dilations: str | None, places: int | None, cell: str,
    users: int | None, days: int | None, at_least: int | None, top: int | None,
    window: int | None, periods: str | None, sizes: str | None, table_dilations: str | None,
    time_limit: float | None, seed: int,
) -> tuple[Design, Choice]:  # fmt: skip
    """Put together what was asked for; what was not is the paper's, or the quick version's."""
    dataset = {"tdrive": "t-drive"}.get(dataset, dataset)
    if dataset != "synthetic" and days is not None:
        raise InputError(f"--days is how long made-up people live; {dataset} has its own")
    if dataset == "geolife" and users is not None:
        raise InputError("--users is how many people are made up or taxis drawn; GeoLife has 182")
    design = replace(
        _QUICK if quick else Design(), epsilon=as_epsilon(epsilon), seed=as_whole("seed", seed, 0),
        dilation=_at_least_one("dilation", dilation),
    )  # fmt: skip
    if epsilons is not None:
        levels = tuple(sorted(as_epsilon(level) for level in _numbers("epsilons", epsilons)))
        design = replace(design, epsilons=levels)
    if dilations is not None:
        asked = sorted(_at_least_one("dilations", d) for d in _numbers("dilations", dilations))
        design = replace(design, dilations=tuple(asked))
    if table_dilations is not None:
        given_ones = _numbers("table-dilations", table_dilations)
        ways = sorted(_at_least_one("table-dilations", d) for d in given_ones)
        design = replace(design, table_dilations=tuple(ways))
    if sizes is not None:
        counts = _numbers("sizes", sizes)
        if any(size != int(size) or size < 2 for size in counts):
            raise InputError(f"sizes must be whole numbers, at least 2, got {sizes!r}")
        design = replace(design, sizes=tuple(sorted(int(size) for size in counts)))
    if time_limit is not None:
        design = replace(design, time_limit_s=as_number("time-limit", time_limit, unit="seconds"))
    sides = [length_km(side, "cell") for side in cell.split("x")]
    if len(sides) > 2:
        raise InputError(f"cell must be like 500m or 658m x 712m, got {cell!r}")
    choice = Choice(
        dataset=dataset, data=data, seed=seed, cell_km=as_cell_km((sides[0], sides[-1]))
    )
    if periods is not None:
        choice = replace(choice, periods=_periods(periods))
    wanted = {"users": users, "days": days, "places": places, "at_least": at_least, "top": top,
              "window_days": window}  # fmt: skip
    small: dict[str, Any] = dict(_QUICK_CHOICE) if quick else {}
    if quick and dataset != "synthetic":
        small = {"places": 25, "at_least": 10}
    given = {name: value for name, value in wanted.items() if value is not None}
    for name, value in given.items():
        as_whole(name.replace("_", "-"), value, 2 if name == "places" else 1)
    return design, replace(choice, **{**small, **given})


def _about(seconds: float) -> str:
    """Write a rough time for people."""
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a minute" if seconds > 30 else "less than a minute"


def _numbers(name: str, text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or len(set(found)) < len(found) or not all(map(math.isfinite, found)):
        raise InputError(f"{name} must be different numbers with commas between, got {text!r}")
    return found


def _periods(text: str) -> dict[str, tuple[int, int]]:
    """Read periods like morning=7-12,night=19-7; all day comes first, always."""
    found = {ALL_DAY: PERIODS[ALL_DAY]}
    for part in text.split(","):
        name, mark, hours = part.partition("=")
        first, _, last = hours.partition("-")
        if not (mark and name.strip() and first.strip().isdecimal() and last.strip().isdecimal()):
            raise InputError(f"periods must be like morning=7-12,night=19-7, got {text!r}")
        found[name.strip()] = as_period((int(first), int(last)))
    return found


def _at_least_one(name: str, value: float) -> float:
    if not 1 <= value < 1e6:
        raise InputError(f"{name} must be at least 1, got {value:g}")
    return value


def _command(choice: Choice, design: Design, quick: bool) -> str:
    """Write the command that makes these rows, every parameter named."""
    periods = ",".join(f"{n}={a}-{b}" for n, (a, b) in choice.periods.items() if n != ALL_DAY)
    asked: dict[str, Any] = {
        "dataset": choice.dataset,
        "data": None if choice.data is None else str(choice.data.resolve()),
        "users": choice.users,
        "days": choice.days if choice.dataset == "synthetic" else None,
        "seed": choice.seed,
        "places": choice.places,
        "at-least": choice.at_least,
        "top": choice.top,
        "window": choice.window_days,
        "cell": f"{choice.cell_km[0]!r}km x {choice.cell_km[1]!r}km",
        "periods": periods,
        "epsilon": design.epsilon,
        "dilation": design.dilation,
        "epsilons": _joined(design.epsilons),
        "dilations": _joined(design.dilations),
        "sizes": _joined(design.sizes),
        "table-dilations": _joined(design.table_dilations),
        "time-limit": design.time_limit_s,
    }
    words = ["whereish", "paper", *(["--quick"] if quick else [])]
    for name, value in asked.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def _joined(values: tuple[float, ...]) -> str:
    return ",".join(repr(value) for value in values)
