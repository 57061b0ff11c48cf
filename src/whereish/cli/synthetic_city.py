"""``whereish synthetic-city``: traces of made-up people, to try things out on."""

from __future__ import annotations

from pathlib import Path

import whereish as wh
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.options import AS_JSON, OUTPUT, flag, option, output_option
from whereish.errors import InputError

FORMATS = ("geolife", "parquet", "t-drive")
_CITY = "The city"


@command
def synthetic_city(
    output: Path = output_option("A new folder; for parquet, a file.", "PATH"),
    form: str = option(
        "geolife", "The format of the traces.", OUTPUT, None, "--format", choices=FORMATS
    ),
    force: bool = flag(
        "--force", "Replace a file that exists. A folder is never replaced.", OUTPUT
    ),
    users: int = option(100, "How many people.", _CITY),
    days: int = option(90, "How many days of each person.", _CITY),
    every: int = option(30, "Seconds between two points of a trace.", _CITY),
    seed: int = option(0, "Which city.", _CITY),
    as_json: bool = AS_JSON,
) -> Facts:
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
    return {"output": str(output), "area": made.area, "zone": made.zone, "seed": seed}
