"""The commands of a released mechanism: audit it, obfuscate a table with it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import whereish as wh
from whereish.cli.console import command, emit, say, waiting
from whereish.cli.options import AsJson, Normalise
from whereish.cli.prior import load_with_prior
from whereish.cli.sign import public_key_from
from whereish.errors import InputError, seems_data
from whereish.format import audit_file
from whereish.plotting import km


@command
def audit(
    source: Annotated[Path, typer.Argument(metavar="K", help="A mechanism's file.")],
    prior: Annotated[
        Path | None,
        typer.Option(help="A profile of its places: work out the loss under its prior, too."),
    ] = None,
    normalise: Normalise = False,
    key: Annotated[
        str | None,
        typer.Option(help="The public key that must have signed it, or a file with it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a mechanism again, from its file alone and in exact arithmetic.

    Exit code 4 if anything it claims does not hold, or if the key has not signed it.
    """
    weights = None if prior is None else load_with_prior(source, prior, normalise)[1]
    signer = None if key is None else public_key_from(key)
    found = audit_file(source, weights, key=signer)
    say_certificate(found)
    say_needed(found, prior is not None)
    if found["signed_by"] is not None:
        say(f"Signed by {found['signed_by']}, as was asked for.")
    say(f"Digest to pin: sha256 {found['sha256']}.")
    if as_json:
        emit(found)


def say_certificate(found: dict[str, Any]) -> None:
    """Say what a certificate says."""
    if not found["certified"]:
        say(f"{found['method']}: {found['places']} places, {found['outputs']} outputs, NO epsilon")
    else:
        at = found["worst_slack_at"]
        say(
            f"Holds: epsilon {found['epsilon']:.6g} {found['epsilon_unit']} for all "
            f"{found['ratios_checked']:,} ratios of {found['places']} places and "
            f"{found['outputs']} outputs, each compared exactly; every row sums to 2^63."
        )
        say(
            f"Least room: {found['worst_slack']:.3g} in the exponent, between places "
            f"{at['places'][0]} and {at['places'][1]} for output {at['output']}."
        )
    for sentence in found["guarantee"]:
        say(sentence)
    sure = found["recomputed"]
    if "quality_loss_km" in sure:
        say(f"A report is {km(found['quality_loss_km'])} off on average under this prior.")
    if "lower_bound_km" in sure:
        bound = km(found["lower_bound_km"])
        say(f"Nothing with this privacy can do better than {bound}: proved.")


def say_needed(found: dict[str, Any], given: bool) -> None:
    """Say what an audit could not work out, and what it would take."""
    if "quality_loss_km" in found["needs_prior"]:
        # Files of earlier versions, and forged ones: nothing in them shows that it is so.
        claims = [name for name in found["needs_prior"] if found.get(name) is not None]
        holds = "nothing that was computed from one"
        if claims:
            holds = f"what it claims of {', '.join(claims)} is anybody's word"
        say(
            "Not worked out: how far off reports are, and how near that is to the best possible. "
            f"The file holds no prior, and {holds}. With --prior PROFILE the loss under that prior "
            "is worked out; privacy does not depend on any."
        )
    elif "lower_bound_km" in found["needs_prior"] and given:
        say("Not worked out: how near that is to the best possible. The file holds no proof of it.")


_OUTSIDE = "For points outside the area of the places: "


@command
def obfuscate(
    source: Annotated[Path, typer.Argument(metavar="K", help="A mechanism's file.")],
    table: Annotated[Path, typer.Argument(help="A .csv or .parquet table of points.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    columns: Annotated[
        str | None, typer.Option(help="Latitude and longitude columns: LAT,LON.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="The column that says whose point it is.")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="The column that says when. It is kept as it is.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Other columns to keep: A,B, or all. Those that tell are refused."),
    ] = None,
    keep_anyway: Annotated[
        str | None,
        typer.Option(help="Columns to keep although they may tell the true points: A,B, or all."),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(help="Columns to leave out, with --keep all: A,B.")
    ] = None,
    shuffle: Annotated[
        bool | None,
        typer.Option(
            "--shuffle/--no-shuffle",
            help="Put the rows into a random order; on unless the table is sorted by --time.",
        ),
    ] = None,
    outside: Annotated[
        str, typer.Option(help=_OUTSIDE + "error, nearest or planar-laplace.")
    ] = "error",
    as_json: AsJson = False,
) -> None:
    """Replace the points of a table by reports of them, and keep declared columns only."""
    pair = None
    if columns is not None:
        names = _names(columns)
        if len(names) != 2:
            raise InputError(f"columns must be two names, LAT,LON, got {len(names)}")
        pair = (names[0], names[1])
    mechanism, _ = wh.load_mechanism(source)
    _take_back_ctrl_c()
    start = time.perf_counter()
    with waiting(f"obfuscating {table.name}") as tell:
        made = wh.obfuscate_table(
            mechanism, table, output, pair, user, time=time_column, keep=_names(keep),
            keep_anyway=_names(keep_anyway), drop=_names(drop), shuffle=shuffle,
            outside=outside,
            progress=lambda rows: tell(f"{rows:,} rows"),
        )  # fmt: skip
    seconds = time.perf_counter() - start
    say(
        f"Wrote {output}: {made.rows:,} rows, {made.columns[0]} and {made.columns[1]} replaced "
        f"({made.rows / max(seconds, 1e-9):,.0f} rows a second)."
    )
    _say_columns(made, time_column)
    if made.blank:
        say(f"{made.blank:,} rows have no point, and still have none.")
    if made.outside:
        say(f"{made.outside:,} points were outside the area: what they are given is {outside}.")
    if mechanism.epsilon is None:
        say("Careful: this mechanism has NO epsilon, nothing limits what the reports give away.")
    elif made.most_per_user is not None and made.most_per_user > 1:
        say(
            f"Careful: {made.users:,} people (column {made.user}), one with {made.most_per_user:,} "
            f"points. Points of one person are correlated: k of them cost k epsilon, here up to "
            f"{made.most_per_user * mechanism.epsilon:.4g} {mechanism.epsilon_unit}."
        )
    elif made.user is None and made.rows > 1:
        say("Careful: if these are points of one person, k of them cost k epsilon.")
    if as_json:
        emit({**vars(made), "output": str(output), "seconds": seconds})


def _take_back_ctrl_c() -> None:
    """Have Ctrl-C come to Python: polars takes it when imported, and holds it while it reads."""
    import polars  # noqa: F401  (before the handler is set again)

    handler = signal.getsignal(signal.SIGINT)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _say_columns(made: wh.Obfuscated, time_column: str | None) -> None:
    """Say what the new table holds besides reports, what it does not, and what that tells."""
    if made.left_out:
        say(
            f"Left out: {_shown(made.left_out)}. --keep A,B keeps columns, --user and --time "
            "the one that says who and when."
        )
    say(
        {
            "shuffled": "The rows are in a new random order.",
            "time": f"The rows are in the order of {time_column}; equal times are shuffled.",
            "unchanged": "Careful: the rows are in the order they had. If that follows the points, "
            "it gives them away.",
        }[made.order]
    )
    if time_column is not None:
        say(
            f"Careful: the times in {time_column} are exact. Who knows when somebody was somewhere "
            "can find their rows."
        )
    if made.telling:
        say(
            f"CAREFUL: these columns tell where the true points are, and were kept all the same: "
            f"{_shown(made.telling)}. Reports beside them protect nobody who reads the table."
        )


def _shown(names: Sequence[str]) -> str:
    """Show the names of columns, but none that may be a value: a heading that is missing."""
    data = sum(map(seems_data, names))
    shown = [name for name in names if not seems_data(name)]
    return ", ".join([*shown, *([f"{data} whose names seem to be data"] if data else [])])


def _names(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",")]
