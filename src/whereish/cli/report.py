"""``whereish report``: draw a report of where somebody is, within the budget of a ledger."""

from __future__ import annotations

import getpass
import re
import sys
from pathlib import Path

import whereish as wh
from whereish.cli.console import Facts, command, say
from whereish.cli.options import AS_JSON, MECHANISM, option
from whereish.cli.words import read_budget
from whereish.device import PERIODS
from whereish.errors import InputError
from whereish.release import OUTSIDE

_LONGEST = 200  # characters of a point
_POINT = re.compile(r"\s*[-+]?\d[\d.]*\s*[,;]\s*[-+]?\d[\d.]*\s*")
_WHERE, _NEW_LEDGER = "Where you are", "The budget (of a new ledger)"


@command
def report(
    source: Path = MECHANISM,
    ledger: Path = option(
        ..., "The file that records what you spent. It is made if there is none.", _WHERE, "LEDGER"
    ),
    at: str | None = option(
        None,
        "Where you are (or X,Y in km). Other programs and your shell's history can see it: "
        "better leave it out.",
        _WHERE,
        "LAT,LON",
    ),
    outside: str = option(
        "error",
        "If you are outside the area of the mechanism: refuse, or take the nearest place. Not for "
        "a mechanism with a guarantee for every point: it has no outside.",
        _WHERE,
        choices=OUTSIDE[:2],
    ),
    new_places: int | None = option(
        None, "How many new places you may report in a period.", _NEW_LEDGER
    ),
    budget: str | None = option(
        None, 'The same in words, "3 new places a day", or as epsilon per period.', _NEW_LEDGER
    ),
    period: str | None = option(
        None, "How long a period is. If not given: a day.", _NEW_LEDGER, choices=tuple(PERIODS)
    ),
    as_json: bool = AS_JSON,
) -> Facts:
    """Draw a report of where you are, within a budget.

    The same place gets the same report all period, at no further cost. A place of a mechanism with
    a guarantee for every point is a square of 100 m. Give where you are as one
    line, LAT,LON, on standard input; at a terminal you are asked for it. Exit code 5 means that
    the budget does not suffice: nothing was reported.
    """
    if any(_POINT.fullmatch(str(word)) for word in (source, ledger, budget, period, outside)):
        raise InputError(
            "where you are must come on standard input, or after --at; it came as another argument"
        )
    epsilon, new_places, period = read_budget(budget, new_places, period)
    point = _where(at)
    mechanism, _ = wh.load_mechanism(source)
    reporter = wh.Reporter(
        mechanism, ledger, epsilon, period, new_places=new_places, outside=outside
    )
    made = reporter.report(point)
    where = made.latlon or made.xy_km
    unit = "degrees" if made.latlon else "km"
    say(f"Report: {where[0]:.6f}, {where[1]:.6f} {unit} (place {made.output}).")
    cost = "This place had a report already, so it cost nothing"
    if made.fresh:
        cost = f"It cost epsilon {made.cost:.4g}"
    left = f"{made.new_places_left} new place{'' if made.new_places_left == 1 else 's'}"
    say(
        f"{cost}: {made.spent:.4g} of {made.budget:.4g} is spent. You can report {left} more until "
        f"{made.period_ends}."
    )
    return dict(vars(made))


def _where(at: str | None) -> tuple[float, float]:
    """Return where somebody is; from standard input or a prompt, unless --at was given."""
    if at is not None and at != "-":
        say(
            "Careful: other programs on this machine can see what follows --at, and your shell "
            "keeps it. Leave --at out, and give LAT,LON on standard input."
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
