"""``whereish reproduce``: the paper's evaluation, every figure and table, as one command."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import whereish as wh
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.options import AS_JSON, flag, option, output_option
from whereish.cli.profile_options import cell_of
from whereish.cli.profile_words import say_steps
from whereish.cli.reading import numbers
from whereish.errors import InputError
from whereish.places import as_epsilon, as_number, as_whole
from whereish.profiles import ALL_DAY, PERIODS, as_period
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
_QUICK_CITY, _QUICK_CHOICE = {"users": 24, "days": 45}, {"places": 25, "at_least": 10}
_DATA, _PEOPLE, _LEVELS = "The data", "People and places", "Levels and dilations"


@command
def reproduce(
    output: Path = output_option("A new folder, or that of a stopped run.", "FOLDER"),
    dataset: str = option(
        "synthetic", f"The traces: {', '.join(DATASETS)}.", _DATA, "NAME", choices=DATASETS
    ),
    data: Path | None = option(None, "The folder of GeoLife or T-Drive.", _DATA, "FOLDER"),
    quick: bool = flag("--quick", "A small version: fewer people, places and levels.", _DATA),
    seed: int = option(0, "The seed of the city, the taxis and the draws.", _DATA),
    no_cache: bool = flag(
        "--no-cache", "Do not keep counts of the traces for the next run.", _DATA
    ),
    users: int | None = option(
        None,
        "People of the synthetic city, or taxis drawn. If not given: 5% of the taxis.",
        _PEOPLE,
    ),
    days: int | None = option(None, "Days of the synthetic city.", _PEOPLE),
    places: int | None = option(None, "How many places.", _PEOPLE),
    cell: str = option("658m x 712m", "Size of the cells.", _PEOPLE, "SIZE"),
    at_least: int | None = option(None, "A person needs so many points in every period.", _PEOPLE),
    top: int | None = option(None, "So many regions of each person count for the score.", _PEOPLE),
    window: int | None = option(
        None, "Use the so many days in a row with the most traces.", _PEOPLE
    ),
    periods: str | None = option(
        None, "Periods of the day, like morning=7-12,night=19-7.", _PEOPLE, "LIST"
    ),
    epsilon: float = option(1.07, "Level of the comparison, per km.", _LEVELS),
    dilation: float = option(1.05, "Dilation of the comparison.", _LEVELS),
    epsilons: str | None = option(None, "Levels of Figure 4, like 0.5,1.07,2.", _LEVELS, "LIST"),
    dilations: str | None = option(
        None, "Dilations of Figure 5, like 1,1.05,1.1.", _LEVELS, "LIST"
    ),
    table_dilations: str | None = option(
        None, "Dilations of Table 1, like 1,1.1,1.5.", _LEVELS, "LIST"
    ),
    sizes: str | None = option(None, "Numbers of places of Table 1, like 50,75.", _LEVELS, "LIST"),
    time_limit: float | None = option(None, "For each entry of Table 1.", _LEVELS, "SECONDS"),
    as_json: bool = AS_JSON,
) -> Facts:
    """Run the paper's evaluation: rows, figures, a report.

    A stopped run continues where it was. Without data, the people are made up.
    """
    check_folder(output)
    counts = {"users": users, "days": days, "places": places, "at_least": at_least, "top": top,
              "window_days": window}  # fmt: skip
    design = _design(
        quick, seed, epsilon, dilation, epsilons, dilations, table_dilations, sizes, time_limit
    )
    choice = _choice(quick, dataset, data, seed, cell, periods, counts)
    start = time.perf_counter()
    with waiting("finding people and places") as tell:
        people = load_people(
            choice, cache=None if no_cache else cache_folder(),
            progress=lambda done, all_, rows: tell(f"{rows:,} rows", done / all_),
        )  # fmt: skip
    say_steps(people.cohort.steps)
    expected = expected_seconds(people, design)
    say(
        f"Evaluating {len(people.cohort.users):,} people on {len(people.cohort.places):,} places "
        f"takes roughly {_about(expected)} for a new run. Ctrl-C stops it; the same command "
        "continues it."
    )
    with waiting("evaluating") as tell:
        made = evaluate(
            people, design, output, version=wh.__version__, command=_command(choice, design, quick),
            progress=tell,
        )  # fmt: skip
    for claim in made.claims:
        say(f"{'holds' if claim.holds else 'does not hold here'}: {claim.name} ({claim.detail})")
    seconds = time.perf_counter() - start
    say(f"Wrote {output / 'report.html'} and {len(made.files) - 1} files in {seconds:.0f} s.")
    return {
        "report": str(output / "report.html"),
        "files": [str(file) for file in made.files],
        "people": len(people.cohort.users),
        "claims": [vars(claim) for claim in made.claims],
        "seconds": seconds,
    }


def _design(
    quick: bool, seed: int, epsilon: float, dilation: float, epsilons: str | None,
    dilations: str | None, table_dilations: str | None, sizes: str | None,
    time_limit: float | None,
) -> Design:  # fmt: skip
    """Return what is evaluated; what was not given is the paper's, or the quick version's."""
    given: dict[str, Any] = {
        "epsilon": as_epsilon(epsilon), "seed": as_whole("seed", seed, 0),
        "dilation": _at_least_one("dilation", dilation),
    }  # fmt: skip
    if epsilons is not None:
        given["epsilons"] = tuple(map(as_epsilon, numbers("epsilons", epsilons)))
    if dilations is not None:
        given["dilations"] = _dilations("dilations", dilations)
    if table_dilations is not None:
        given["table_dilations"] = _dilations("table-dilations", table_dilations)
    if sizes is not None:
        counts = numbers("sizes", sizes)
        if any(size != int(size) or size < 2 for size in counts):
            raise InputError(f"sizes must be whole numbers, at least 2, got {sizes!r}")
        given["sizes"] = tuple(map(int, counts))
    if time_limit is not None:
        given["time_limit_s"] = as_number("time-limit", time_limit, unit="seconds")
    return replace(_QUICK if quick else Design(), **given)


def _choice(
    quick: bool, dataset: str, data: Path | None, seed: int, cell: str, periods: str | None,
    counts: dict[str, int | None],
) -> Choice:  # fmt: skip
    """Return whose traces are evaluated, and on which places."""
    dataset = {"tdrive": "t-drive"}.get(dataset, dataset)
    if dataset != "synthetic" and counts["days"] is not None:
        raise InputError(f"--days must go with --dataset synthetic: {dataset} has its own days")
    if dataset == "geolife" and counts["users"] is not None:
        raise InputError("--users must be left out with geolife: it has 182 people")
    choice = Choice(dataset=dataset, data=data, seed=seed, cell_km=cell_of(cell))
    if periods is not None:
        choice = replace(choice, periods=_periods(periods))
    small: dict[str, Any] = {}
    if quick:
        small = _QUICK_CITY | _QUICK_CHOICE if dataset == "synthetic" else _QUICK_CHOICE
    given = {name: value for name, value in counts.items() if value is not None}
    for name, value in given.items():
        as_whole(name.replace("_", "-"), value, 2 if name == "places" else 1)
    return replace(choice, **{**small, **given})


def _dilations(name: str, text: str) -> tuple[float, ...]:
    return tuple(_at_least_one(name, value) for value in numbers(name, text))


def _about(seconds: float) -> str:
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a minute" if seconds > 30 else "less than a minute"


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
    words = ["whereish", "reproduce", *(["--quick"] if quick else [])]
    for name, value in asked.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def _joined(values: tuple[float, ...]) -> str:
    return ",".join(repr(value) for value in values)
