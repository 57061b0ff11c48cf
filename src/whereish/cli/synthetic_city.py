"""``whereish synthetic-city``: traces of made-up people, to try things out on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import whereish as wh
from whereish.cli.completion import one_of
from whereish.cli.console import command, emit, say, waiting
from whereish.cli.options import AsJson
from whereish.errors import InputError

FORMATS = ("geolife", "parquet", "t-drive")
_CITY = "The city"


@command
def synthetic_city(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="PATH", help="A new folder; for parquet, a file.",
            rich_help_panel="Output",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="|".join(FORMATS), help="The format of the traces.",
            autocompletion=one_of(FORMATS), rich_help_panel="Output",
        ),
    ] = "geolife",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace a file that exists. A folder is never replaced.",
            rich_help_panel="Output",
        ),
    ] = False,
    users: Annotated[int, typer.Option(help="How many people.", rich_help_panel=_CITY)] = 100,
    days: Annotated[
        int, typer.Option(help="How many days of each person.", rich_help_panel=_CITY)
    ] = 90,
    every: Annotated[
        int, typer.Option(help="Seconds between two points of a trace.", rich_help_panel=_CITY)
    ] = 30,
    seed: Annotated[
        int, typer.Option(help="Which city.", rich_help_panel=_CITY)
    ] = 0,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Write the traces of made-up people, to try things out on.

    They live in Paris. The same seed makes the same people.
    """
    if form not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
    if form == "parquet" and output.is_file() and not force:
        raise InputError(
            f"output must be new, and {output} exists: give another name, or --force to replace it"
        )
    made = wh.SyntheticCity(users=users, days=days, seed=seed, every_s=every)
    with waiting(f"making up {users:,} people") as tell:
        write = {"geolife": made.write_geolife, "parquet": made.write_parquet,
                 "t-drive": made.write_t_drive}[form]  # fmt: skip
        write(output, lambda done: tell(f"{done:,} of {users:,}", done / users))
    south, west, north, east = made.area
    say(f"Wrote {output}: {users:,} made-up people in Paris, {days:,} days each.")
    say(
        f"Next: whereish profile {output} --group users --zone {made.zone} "
        f"--area {south},{west},{north},{east} -o profiles"
    )
    if as_json:
        emit({"output": str(output), "area": made.area, "zone": made.zone, "seed": seed})
