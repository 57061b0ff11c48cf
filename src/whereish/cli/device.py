"""The commands of somebody's own device: report where-ish it is, and look after its ledger."""

from __future__ import annotations

import getpass
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

import whereish as wh
from whereish.cli.commands import AsJson
from whereish.cli.console import command, emit, say
from whereish.device import Ledger
from whereish.errors import InputError

ledger_app = typer.Typer(no_args_is_help=True, help="Look after the ledger of `whereish report`.")
LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of a ledger.")]
_LONGEST = 200  # characters of a point
_POINT = re.compile(r"\s*[-+]?\d[\d.]*\s*[,;]\s*[-+]?\d[\d.]*\s*")
_WORDS = re.compile(r"\s*(\d+)\s+(?:new\s+)?places?(?:\s+(?:a|an|per|each|every)\s+(\w+))?\s*")


@command
def report(
    source: Annotated[Path, typer.Argument(metavar="K", help="A mechanism's file.")],
    ledger: Annotated[Path, typer.Option(help="The file that keeps what has been spent.")],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON",
            help="Where you are, if others on this machine and your shell's history may see it. "
            "Otherwise it is read from standard input, or asked for. Or X,Y in km.",
        ),
    ] = None,
    new_places: Annotated[
        int | None, typer.Option(help="How many new places a period, for a new ledger.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help='The same in words, "3 new places a day", or epsilon per period, for a new ledger.'
        ),
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="hour, day or week, for a new ledger; a day if not given.")
    ] = None,
    outside: Annotated[
        str, typer.Option(help="For points outside the area of the places: error or nearest.")
    ] = "error",
    as_json: AsJson = False,
) -> None:
    """Say where-ish you are, within a budget. The same place gets the same report all period.

    Where you are is one line, LAT,LON, on standard input; at a terminal it is asked for.

    Exit code 5 if the budget does not allow it.
    """
    if any(_POINT.fullmatch(str(word)) for word in (source, ledger, budget, period, outside)):
        raise InputError(
            "where you are must come on standard input, or after --at; it came as another argument"
        )
    epsilon, new_places, period = _budget(budget, new_places, period)
    point = _where(at)
    mechanism, _ = wh.load_mechanism(source)
    reporter = wh.Reporter(
        mechanism, ledger, epsilon, period, new_places=new_places, outside=outside
    )
    made = reporter.report(point)
    where = made.latlon or made.xy_km
    unit = "degrees" if made.latlon else "km"
    say(f"Report: {where[0]:.6f}, {where[1]:.6f} {unit} (place {made.output}).")
    left = f"{made.new_places_left} new place{'' if made.new_places_left == 1 else 's'}"
    say(
        (f"It cost epsilon {made.cost:.4g}" if made.fresh else "The same as before, for nothing")
        + f"; {made.spent:.4g} of {made.budget:.4g} is spent. {left} left until "
        f"{made.period_ends}."
    )
    if as_json:
        emit(dict(vars(made)))


@ledger_app.command("show")
@command
def show(ledger: LedgerFile, as_json: AsJson = False) -> None:
    """Say what is left, and until when. The ledger is verified."""
    books = _existing(ledger)
    left, _, ends = books.left(time.time())
    say(f"{left:.6g} of epsilon {books.budget:.6g} {books.unit} is left until {_day(ends)}.")
    if as_json:
        facts = {"left": left, "budget": books.budget, "unit": books.unit}
        emit({**facts, "period_s": books.period_s, "period_ends": _day(ends)})


@ledger_app.command("reset-clock")
@command
def reset_clock(ledger: LedgerFile, as_json: AsJson = False) -> None:
    """Say that this machine's clock is right now, and was ahead before. Nothing is given back.

    What was spent in later periods is charged to this one and to those that follow.
    """
    again = _existing(ledger).reset_clock(time.time())
    say(f"The ledger goes by the clock again. There is something to spend from {_day(again)} on.")
    if as_json:
        emit({"spends_again": _day(again)})


def _existing(path: Path) -> Ledger:
    if not path.is_file():
        raise InputError(f"ledger must be a file that exists, got {path}")
    return Ledger(path, unit=None)


def _budget(
    text: str | None, new_places: int | None, period: str | None
) -> tuple[float | None, int | None, str | None]:
    """Read a budget: epsilon, or new places in words."""
    if text is None:
        return None, new_places, period
    found = _WORDS.fullmatch(text.lower())
    if found is None:
        try:
            return float(text), new_places, period
        except ValueError:
            raise InputError(
                f'budget must be epsilon, or words like "3 new places a day", got {text!r}'
            ) from None
    named = found[2]
    if new_places is not None or (named and period is not None and named != period):
        raise InputError(f"the budget must be given once, got {text!r} and other flags")
    return None, int(found[1]), named or period


def _where(at: str | None) -> tuple[float, float]:
    """Return where somebody is, from where others do not see it unless they were asked to."""
    if at is not None and at != "-":
        say(
            "Careful: what follows --at is seen by other programs on this machine, and kept by "
            "your shell. Leave --at out, and give LAT,LON on standard input."
        )
        return _point(at)
    if at is None and sys.stdin is not None and sys.stdin.isatty():
        return _point(getpass.getpass("Where you are, LAT,LON (it is not shown): "))
    line = "" if sys.stdin is None else sys.stdin.readline(_LONGEST)
    if not line.strip():
        raise InputError("a line LAT,LON must come on standard input, got none")
    return _point(line)


def _point(text: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError("where you are must be two numbers, LAT,LON, got something else") from None
    return first, second


def _day(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return "a day far from now"
