"""``whereish obfuscate``: replace the points of a table by reports of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import whereish as wh
from whereish.cli import options as opt
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.over_time import asked_over_time, say_over_time
from whereish.device.policies import POLICIES
from whereish.errors import InputError, seems_data
from whereish.everywhere import Everywhere
from whereish.interrupts import restore_handler
from whereish.release import OUTSIDE
from whereish.units import duration_s

_COLUMNS, _POINTS, _TIME = "Which columns are written", "The points", "Reports over time"


@command
def obfuscate(
    source: Path = opt.MECHANISM,
    table: Path = opt.argument("TABLE", "A .csv or .parquet table of points."),
    output: Path = opt.output_option("The table to write."),
    columns: str | None = opt.option(
        None, "The columns of latitude and longitude, if not found.", _POINTS, "LAT,LON"
    ),
    outside: str = opt.option(
        "error",
        "Points outside the area: refuse them (error), report the nearest place (nearest), or add "
        "noise (planar-laplace).",
        _POINTS,
        "CHOICE",
        choices=OUTSIDE,
    ),
    user: str | None = opt.option(
        None, "The column that says whose point it is. It is kept.", _COLUMNS, "COLUMN"
    ),
    time_column: str | None = opt.option(
        None, "The column with the exact time. It is kept.", _COLUMNS, "COLUMN", "--time"
    ),
    round_times: str | None = opt.option(
        None, "Round the kept times down, like 10m.", _COLUMNS, "TIME"
    ),
    keep: str | None = opt.option(
        None,
        "Other columns to keep. Columns that reveal the true points are refused.",
        _COLUMNS,
        "A,B|all",
    ),
    keep_anyway: str | None = opt.option(
        None, "Columns to keep even if they reveal the true points.", _COLUMNS, "A,B|all"
    ),
    drop: str | None = opt.option(None, "Columns to leave out, with --keep all.", _COLUMNS, "A,B"),
    shuffle: bool | None = opt.flag(
        "--shuffle/--no-shuffle",
        "Write the rows in a random order. On, unless the table is sorted by --time.",
        opt.OUTPUT,
        default=None,
    ),
    policy: str | None = opt.option(
        None, "Report whole traces: {names}.", _TIME, "CHOICE", choices=POLICIES
    ),
    budget: str | None = opt.option(None, 'For each person: "12 places a day", or epsilon.', _TIME),
    rate: str | None = opt.option(None, "Draw or test after this time, like 30m.", _TIME, "TIME"),
    model: Path | None = opt.option(None, "A movement model, for filtered.", _TIME, "FILE"),
    later: str | None = opt.option(None, "Mechanisms of later draws of a day.", _TIME, "A,B"),
    exceed_budget: bool = opt.flag(
        "--exceed-budget", "Publish rows over the budget, too.", _TIME, default=False
    ),
    as_json: bool = opt.AS_JSON,
) -> Facts:
    """Replace the points of a table by reports of them.

    Only the columns that you name are kept: any other column could reveal the true points.
    """
    over_time = asked_over_time(policy, budget, rate, model, exceed_budget, later)
    pair = None
    if columns is not None:
        names = _names(columns)
        if len(names) != 2:
            raise InputError(f"columns must be two names, LAT,LON, got {len(names)}")
        pair = (names[0], names[1])
    mechanism, _ = wh.load_mechanism(source)
    import polars  # noqa: F401  (before Python's handler of Ctrl-C is put back)

    restore_handler()
    start = time.perf_counter()
    with waiting(f"obfuscating {table.name}") as tell:
        made = wh.obfuscate_table(
            mechanism, table, output, pair, user, time=time_column, keep=_names(keep),
            keep_anyway=_names(keep_anyway), drop=_names(drop), shuffle=shuffle,
            outside=outside, over_time=over_time,
            round_times=None if round_times is None else duration_s(round_times, "round-times"),
            progress=lambda rows: tell(f"{rows:,} rows"),
        )  # fmt: skip
    seconds = time.perf_counter() - start
    written = made.rows - (made.over_time.left_out if made.over_time else 0)
    say(
        f"Wrote {output}: {written:,} rows, {made.columns[0]} and {made.columns[1]} replaced "
        f"({made.rows / max(seconds, 1e-9):,.0f} rows a second)."
    )
    _say_columns(made, time_column, round_times)
    if made.blank:
        say(f"Rows without a point: {made.blank:,}. They are written without one.")
    if isinstance(mechanism, Everywhere):
        say(
            "The guarantee holds between any two points: none was moved to a place first. Points "
            f"outside the rectangle of the lattice, moved onto it: {made.outside:,}."
        )
    elif made.outside:
        say(f"Points outside the area: {made.outside:,}. {_TREATED[outside]}")
    if made.over_time is not None:
        say_over_time(made.over_time, mechanism.epsilon_unit)
    elif mechanism.epsilon is None:
        say("Careful: this mechanism has NO epsilon, so nothing limits what its reports reveal.")
    elif made.most_per_user is not None and made.most_per_user > 1:
        say(
            f"Careful: {made.users:,} people (column {made.user}), one of them with "
            f"{made.most_per_user:,} points. k points of one person cost k times epsilon, here up "
            f"to {made.most_per_user * mechanism.epsilon:.4g} {mechanism.epsilon_unit}."
        )
    elif made.user is None and made.rows > 1:
        say("Careful: k points of one person cost k times epsilon. --user COLUMN counts them.")
    facts = {**vars(made), "output": str(output), "seconds": seconds}
    spent = facts.pop("over_time")
    return facts if spent is None else {**facts, "over_time": vars(spent)}


_TREATED = {
    "nearest": "Each was replaced by a report of the nearest place.",
    "planar-laplace": "Each was replaced by a point with planar Laplace noise.",
}


def _say_columns(made: wh.Obfuscated, time_column: str | None, round_times: str | None) -> None:
    """Say which columns the new table has, in which order its rows are, and what that reveals."""
    if made.left_out:
        say(
            f"Left out: {_shown(made.left_out)}. --keep A,B keeps columns; --user and --time keep "
            "those that say who and when."
        )
    say(
        {
            "shuffled": "The rows are in a new random order.",
            "time": f"The rows are in the order of {time_column}; equal times are shuffled.",
            "unchanged": "Careful: the rows are in their old order. If that order depends on the "
            "points, it reveals them.",
        }[made.order]
    )
    if time_column is not None and round_times is not None:
        say(f"The times in {time_column} are rounded down to {round_times}.")
    elif time_column is not None:
        say(
            f"Careful: the times in {time_column} are exact. Anybody who knows when a person was "
            "somewhere can find the rows of this person."
        )
    if made.telling:
        say(
            f"CAREFUL: these columns reveal the true points, and you kept them: "
            f"{_shown(made.telling)}. Beside them, the reports protect nobody."
        )


def _shown(names: Sequence[str]) -> str:
    """Show the names of columns, but none that may be a value (where the heading is missing)."""
    data = sum(map(seems_data, names))
    shown = [name for name in names if not seems_data(name)]
    return ", ".join([*shown, *([f"{data} whose names seem to be data"] if data else [])])


def _names(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",")]
