"""Around profiles: made-up people to try things out on, and forgetting what was kept of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import whereish as wh
from whereish.cli.console import command, emit, say, waiting
from whereish.cli.options import AsJson
from whereish.errors import InputError
from whereish.traces import cache_folder
from whereish.traces import forget as forget_kept

FORMATS = ("geolife", "parquet", "t-drive")


@command
def city(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A new folder; for parquet, a file.")
    ],
    form: Annotated[
        str, typer.Option("--format", help="One of: " + ", ".join(FORMATS) + ".")
    ] = "geolife",
    users: Annotated[int, typer.Option(help="How many people.")] = 100,
    days: Annotated[int, typer.Option(help="How many days of each.")] = 90,
    seed: Annotated[int, typer.Option(help="Which city: the same seed makes the same.")] = 0,
    every: Annotated[int, typer.Option(help="Seconds between two points of a trace.")] = 30,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is there. A folder never is.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the traces of made-up people, to try things out on."""
    if form not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
    if form == "parquet" and output.is_file() and not force:
        raise InputError(
            f"output must be new, and {output} is there: give another name, or --force to replace "
            "it"
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


@command
def forget(as_json: AsJson = False) -> None:
    """Delete what whereish profile has kept of traces."""
    folder = cache_folder()
    count = forget_kept(folder)
    say(f"Deleted {count} kept files from {folder}." if count else "Nothing was kept.")
    if as_json:
        emit({"deleted": count, "folder": str(folder)})
