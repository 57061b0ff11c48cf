"""The prior on the command line: whether a file keeps it, what blurs it, where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import whereish as wh
from whereish.cli.console import say
from whereish.cli.reading import read_who
from whereish.errors import InputError
from whereish.everywhere import AnyMechanism, Everywhere, visits_in
from whereish.format import TELLS_PRIOR
from whereish.mechanisms import check_same_periods
from whereish.places import Array
from whereish.spec import BuildSpec
from whereish.units import km

Search = Callable[[BuildSpec], wh.Mechanism]
# Longer than this is too long to wait for what a blur has cost.
_SECONDS = 20.0
_OF_THE_BLURRED = ("lower_bound_km", "gap", "program_gap", "repair_cost_km")


def public_prior(blur_with: str | None, who: wh.Profile, normalise: bool) -> Array | None:
    """Read the public prior of a blur; None for the uniform one."""
    if blur_with is None or blur_with == "uniform":
        return None
    other = read_who(Path(blur_with), normalise=normalise)
    if not other.places.same_as(who.places):
        raise InputError(f"blur-with {blur_with} must have the places of the profile, in its order")
    return other.prior


def load_with_prior(
    path: Path, other: Path | None, normalise: bool
) -> tuple[AnyMechanism | wh.MechanismByTime, Any]:
    """Read a mechanism with the prior of a profile, or the one in the file, where there is one.

    The prior of a mechanism with a guarantee for every point is `Visits`: the visited points of the
    profile or, if it has none, its places, which may be any. That of mechanisms by time is a
    `TimeDependentPrior`.
    """
    mechanism, prior = wh.load_mechanism(path)
    if other is None:
        return mechanism, prior
    who = read_who(other, normalise=normalise)
    if isinstance(mechanism, Everywhere):
        if who.visited is not None:
            who = who.as_points
        return mechanism, visits_in(mechanism, who.places, who.prior)
    if not who.places.same_as(mechanism.inputs):
        raise InputError(f"prior {other} must have the places of {path}, in the same order")
    if isinstance(mechanism, wh.MechanismByTime):
        if who.by_time is None:
            raise InputError(
                f"prior {other} must hold a prior for each period of the day, as {path} is for "
                "periods: make it with whereish profile TRACES --by-time HOURS"
            )
        check_same_periods(mechanism, who.by_time)
        return mechanism, who.by_time
    return mechanism, who.prior


def say_what_it_tells(mechanism: wh.Mechanism, kept: bool) -> None:
    """Warn of what a file reveals about the prior."""
    if kept:
        say("Careful: the file holds your prior. Do not pass it on.")
    elif TELLS_PRIOR in wh.certify(mechanism)["guarantee"]:
        say(
            "Careful: most of your prior can be computed from this file, even without the prior in "
            "it. Pass on reports, not the file. See docs/limitations.md."
        )


def judge_blur(
    made: wh.Mechanism, spec: BuildSpec, search: Search
) -> tuple[wh.Mechanism, float | None]:
    """Judge a mechanism for a blurred prior by the prior itself.

    Returns
    -------
    tuple
        The mechanism without bound and gap, which are about the blurred prior; and how many km more
        it loses than the best one for the prior: None if that takes long to build, or was stopped.
    """
    nothing: dict[str, Any] = dict.fromkeys(_OF_THE_BLURRED)
    judged = made.with_metadata(replace(made.build, **nothing))
    if made.build.stopped is not None or (made.build.seconds or 0.0) > _SECONDS:
        return judged, None
    best = search(spec.changed(prior_blur=0.0, blur_with=None))
    if best.build.stopped is not None:
        return judged, None
    loss, least = (wh.quality_loss(one, spec.prior, spec.quality) for one in (made, best))
    return judged, loss - least


def blur_in_words(share: float, cost_km: float | None) -> str:
    """Say what a blur has cost."""
    if cost_km is None:
        return f"  blur          {share:.0%}: build without it to see what it costs"
    return f"  blur          {share:.0%}, which costs {km(max(cost_km, 0.0))} more loss"
