"""``whereish compare``: the mechanisms of the registry side by side."""

from __future__ import annotations

from pathlib import Path

import typer

import whereish as wh
from whereish import limits
from whereish.cli import options as opt
from whereish.cli.console import Facts, command, console, say, waiting
from whereish.cli.presentation import comparison_table, say_profile
from whereish.cli.reading import read_who
from whereish.cli.words import level_in_words
from whereish.mechanisms import check_places
from whereish.studies import compare as compare_mechanisms
from whereish.studies.compare import VERTICES


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

    The others are built for the same epsilon, or for the same quality loss. Some
    are private between any two points, and not only between places.
    """
    asked = opt.read_options(opt.given_flags(context))
    who = read_who(profile, normalise=normalise)
    check_places(who.places)
    say_profile(who)
    say(level_in_words(asked.epsilon_per_km))
    with waiting(f"building mechanisms for {len(who.places):,} places") as bar:
        rows = list(
            compare_mechanisms(
                who, asked.epsilon_per_km, asked.dilation, asked.solver, asked.time_limit_s,
                tell=bar,
            )
        )  # fmt: skip
    between = [row for row in rows if row.guarantee != "everywhere"]
    everywhere = [row for row in rows if row.guarantee == "everywhere"]
    for some, title in (
        (between, f"Private between the {len(who.places):,} places only"),
        (everywhere, "Private between any two points, wherever they are"),
    ):
        console.print(comparison_table(some, title, at_points=True))
    _say_what_it_means(who)
    for reason in dict.fromkeys(row.problem for row in rows if row.problem is not None):
        say(reason)
    return [{k: v for k, v in vars(row).items() if k != "mechanism"} for row in rows]


def _say_what_it_means(who: wh.Profile) -> None:
    """Say what the two losses and the two guarantees are."""
    points = "the places, as the profile has no visited points"
    if who.visited is not None:
        points = f"the {len(who.visited.places):,} visited points"
    say(
        f"Quality loss: at the places, under the prior. At points: at {points}. A mechanism "
        "between places moves a point to the nearest place first. Two points near each other may "
        "be moved to different places: its epsilon is not for raw points."
    )
    say(
        "Map error: many people with this prior send 10,000 reports in all, and the prior is "
        "estimated from them. The total variation between the two, from 0 to 1: mean of a "
        "simulation with a fixed seed. For statistics, see docs/guides/statistics.md."
    )
    say(
        f"The lattice of optimal everywhere has at most {VERTICES} vertices here. whereish build "
        f"--everywhere takes {limits.VERTICES}, and keeps the better one of the two."
    )
