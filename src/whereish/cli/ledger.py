"""``whereish ledger``: what is left of the budget of `whereish report`."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from whereish.cli.console import Facts, command, say
from whereish.cli.options import AS_JSON, argument
from whereish.device import Ledger
from whereish.errors import InputError
from whereish.units import utc

ledger_app = typer.Typer(no_args_is_help=True, help="Show the budget that is left to `report`.")
_LEDGER = argument("LEDGER", "The file of a ledger.")


@ledger_app.command("show")
@command
def show(ledger: Path = _LEDGER, as_json: bool = AS_JSON) -> Facts:
    """Verify a ledger and say how much of its budget is left, and until when."""
    books = _existing(ledger)
    left, _, ends = books.left(time.time())
    say(f"{left:.6g} of epsilon {books.budget:.6g} {books.unit} is left until {_day(ends)}.")
    stay = books.spent_per_stay(time.time())
    if stay is not None:
        say(f"The reports of one stay have cost at most {stay:.6g} in this period.")
    facts = {"left": left, "budget": books.budget, "unit": books.unit, "spent_per_stay": stay}
    return {**facts, "period_s": books.period_s, "period_ends": _day(ends)}


@ledger_app.command("reset-clock")
@command
def reset_clock(ledger: Path = _LEDGER, as_json: bool = AS_JSON) -> Facts:
    """Declare that this machine's clock is right now, and was ahead before.

    No budget is returned: what was spent in later periods is charged to this period and to those
    that follow.
    """
    again = _existing(ledger).reset_clock(time.time())
    say(f"The ledger follows the clock again. Its next free budget is from {_day(again)} on.")
    return {"spends_again": _day(again)}


def _existing(path: Path) -> Ledger:
    if not path.is_file():
        raise InputError(f"ledger must be a file that exists, got {path}")
    return Ledger(path, unit=None)


def _day(seconds: float) -> str:
    return utc(seconds) or "a day far from now"
