"""``whereish study mechanisms``: the mechanisms of the field side by side."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import whereish as wh
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.options import AS_JSON, flag, option, output_option
from whereish.cli.reading import numbers
from whereish.errors import InputError
from whereish.places import as_epsilon, as_whole
from whereish.studies import (
    FieldDesign,
    check_folder,
    field_mechanisms,
    load_check_ins,
    load_city,
    load_geolife,
    register_from,
    study_mechanisms,
)
from whereish.studies.field import FieldData

_DATA, _WHAT = "The data", "What is compared"
_QUICK = {"users": 12, "days": 30, "people": 3, "places": 25}
_FULL = {"users": 40, "days": 60, "people": 5, "places": 50}
_QUICK_EPSILONS, _EPSILONS = "1.07", "0.5,1.07,2"


@command
def mechanisms(
    output: Path = output_option("A new folder, or that of a stopped run.", "FOLDER"),
    quick: bool = flag("--quick", "A small version: fewer people, places and levels.", _DATA),
    geolife: Path | None = option(None, "GeoLife as well, from its folder.", _DATA, "FOLDER"),
    check_ins: Path | None = option(
        None, "Check-ins as well: Gowalla's, in the format of SNAP.", _DATA, "FILE"
    ),
    no_city: bool = flag("--no-city", "Leave out the synthetic city.", _DATA),
    people: int | None = option(None, "So many people of each data set.", _DATA),
    places: int | None = option(None, "So many places.", _DATA),
    seed: int = option(0, "The seed of the city, the people and the reports.", _DATA),
    epsilons: str | None = option(
        None, f"Levels per km. If not given: {_EPSILONS}.", _WHAT, "LIST"
    ),
    mechanism: Path | None = option(
        None, "A Python file that registers your own; it is run.", _WHAT, "FILE"
    ),
    time_limit: float = option(600.0, "Of each mechanism.", _WHAT, "SECONDS"),
    as_json: bool = AS_JSON,
) -> Facts:
    """Compare the mechanisms of the field: one page of tables and figures.

    Every mechanism of this library and of the paper's related work, for the
    same people: loss, adversary error, tightest epsilon, map error, time. A
    stopped run continues where it was. The page shows medians over people.
    """
    check_folder(output)
    sizes = dict(_QUICK if quick else _FULL)
    for name, value in (("people", people), ("places", places)):
        if value is not None:
            sizes[name] = as_whole(name, value, {"people": 1, "places": 3}[name])
    if no_city and geolife is None and check_ins is None:
        raise InputError("--no-city must go with --geolife or --check-ins: there is no data")
    design = FieldDesign(
        _levels(epsilons or (_QUICK_EPSILONS if quick else _EPSILONS)),
        as_whole("seed", seed, 0), time_limit_s=time_limit,
    )  # fmt: skip
    own = "" if mechanism is None else register_from(mechanism)
    start = time.perf_counter()
    with waiting("finding people") as tell:
        data = _load(sizes, geolife, check_ins, no_city, seed, tell)
    entries = field_mechanisms()
    say(
        f"{len(entries)} mechanisms, {sum(len(some.priors) for some in data)} people; epsilon "
        f"{', '.join(f'{level:g}' for level in design.epsilons)} per km. "
        "Ctrl-C stops the study; the same command continues it."
    )
    with waiting("comparing mechanisms") as tell:
        made = study_mechanisms(
            data, design, output, version=wh.__version__, own=own, mechanisms=entries,
            command=_command(sizes, design, geolife, check_ins, no_city, mechanism), progress=tell,
        )  # fmt: skip
    for claim in made.tables["claims"]:
        say(f"{'holds' if claim['holds'] else 'does not hold here'}: {claim['claim']}")
    seconds = time.perf_counter() - start
    say(f"Wrote {output / 'report.html'} and {len(made.files) - 1} files in {seconds:.0f} s.")
    return {
        "report": str(output / "report.html"),
        "files": [str(file) for file in made.files],
        "mechanisms": list(entries),
        "claims": made.tables["claims"],
        "seconds": seconds,
    }


def _load(
    sizes: dict[str, int],
    geolife: Path | None,
    check_ins: Path | None,
    no_city: bool,
    seed: int,
    tell: Callable[[str, float], object],
) -> list[FieldData]:
    places, people = sizes["places"], sizes["people"]
    data = []
    if not no_city:
        # The city must have as many people as are taken; some lack points at the places.
        users = max(sizes["users"], 2 * people)
        data.append(load_city(users, sizes["days"], places, people, seed))
    if geolife is not None:
        data.append(load_geolife(geolife, places, people, seed, tell))
    if check_ins is not None:
        data.append(load_check_ins(check_ins, places, people, seed, tell))
    return data


def _levels(listed: str) -> tuple[float, ...]:
    return tuple(map(as_epsilon, numbers("epsilons", listed)))


def _command(
    sizes: dict[str, int],
    design: FieldDesign,
    geolife: Path | None,
    check_ins: Path | None,
    no_city: bool,
    mechanism: Path | None,
) -> str:
    """Write the command that makes these rows, every parameter named; paths are left out."""
    asked: dict[str, Any] = {
        "people": sizes["people"], "places": sizes["places"], "seed": design.seed,
        "epsilons": ",".join(f"{level:g}" for level in design.epsilons),
        "time-limit": f"{design.time_limit_s:g}",
    }  # fmt: skip
    files = {"geolife": geolife, "check-ins": check_ins, "mechanism": mechanism}
    words = [f"--{name}={value}" for name, value in asked.items()]
    words += [f"--{name}={name.upper()}" for name, path in files.items() if path is not None]
    words += ["--no-city"] * no_city + ["--quick"] * (sizes["days"] == _QUICK["days"])
    return shlex.join(["whereish", "study", "mechanisms", *words])
