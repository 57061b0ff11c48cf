"""``whereish compare``: the mechanisms of the registry side by side."""

from __future__ import annotations

from pathlib import Path

import typer

from whereish.cli import options as opt
from whereish.cli.console import Facts, command, console, say, waiting
from whereish.cli.presentation import comparison_table, say_profile
from whereish.cli.reading import read_who
from whereish.cli.words import level_in_words
from whereish.mechanisms import check_places
from whereish.studies import compare as compare_mechanisms


@command
def compare(
    context: typer.Context,
    profile: Path = opt.PROFILE,
    epsilon: float | None = opt.EPSILON,
    ratio: float | None = opt.RATIO,
    within: str | None = opt.WITHIN,
    dilation: float = opt.DILATION,
    solver: str = opt.SOLVER,
    time_limit: float | None = opt.TIME_LIMIT,
    normalise: bool = opt.NORMALISE,
    as_json: bool = opt.AS_JSON,
) -> Facts:
    """Compare the optimal mechanism with the others.

    The others are built for the same epsilon, or for the same quality loss.
    """
    asked = opt.read_options(opt.given_flags(context))
    who = read_who(profile, normalise=normalise)
    check_places(who.places)
    say_profile(who)
    say(level_in_words(asked.epsilon_per_km))
    with waiting(f"building mechanisms for {len(who.places):,} places"):
        rows = list(
            compare_mechanisms(
                who, asked.epsilon_per_km, asked.dilation, asked.solver, asked.time_limit_s
            )
        )
    console.print(comparison_table(rows))
    for reason in dict.fromkeys(row.problem for row in rows if row.problem is not None):
        say(reason)
    return [{k: v for k, v in vars(row).items() if k != "mechanism"} for row in rows]
