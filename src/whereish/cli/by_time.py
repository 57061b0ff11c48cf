"""Mechanisms by time on the command line: builds, measures and words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh
from whereish.cli.console import say
from whereish.cli.presentation import facts_of, say_profile
from whereish.cli.prior import blur_in_words, judge_blur, say_what_it_tells
from whereish.cli.words import level_in_words, metric_of
from whereish.day_periods import DayPeriods
from whereish.errors import InputError
from whereish.places import named_metric
from whereish.profiles import TimeDependentPrior
from whereish.spec import BuildSpec
from whereish.units import km

# Flags that do not go with --by-time, and why.
_REFUSED = {
    "everywhere": "a guarantee for every point has one mechanism for the whole day",
    "picture": "draw one for the whole day, built without --by-time",
    "how_far": "build one for the whole day to bound it",
}


def check_by_time_flags(flags: dict[str, Any]) -> None:
    """Refuse flags that mechanisms by time cannot follow."""
    for name, why in _REFUSED.items():
        if "by_time" in flags and name in flags:
            raise InputError(f"--{name.replace('_', '-')} must be left out with --by-time: {why}")


def prior_by_time_of(who: wh.Profile, path: Path) -> TimeDependentPrior:
    """Return the prior of each period of a profile, or say how to count it."""
    if who.by_time is None:
        raise InputError(
            f"profile {path} must hold a prior for each period of the day, and it holds one for "
            "the whole day: make it again with whereish profile TRACES --by-time 0,7,18 --zone ZONE"
        )
    return who.by_time


def build_by_time(
    who: wh.Profile,
    profile: Path,
    spec: BuildSpec,
    search: Callable[[BuildSpec], wh.Mechanism],
    output: Path,
) -> tuple[wh.MechanismByTime, dict[str, Any]]:
    """Build a mechanism for each period of a profile, write them to one file, and say what holds.

    Parameters
    ----------
    profile
        The file of the profile.
    spec
        The build for the whole day: each period has the same, with its own prior.
    """
    prior = prior_by_time_of(who, profile)
    say_profile(who)
    say(level_in_words(spec.epsilon_per_km, metric_of(spec)))
    members, costs = [], []
    for name, own in zip(prior.periods.names, prior.priors, strict=True):
        say(f"Hours {name} in {prior.periods.zone}:")
        asked = spec.changed(prior=own)
        member = search(asked)
        if spec.prior_blur:
            member, cost = judge_blur(member, asked, search)
            costs.append(cost)
        members.append(member)
    made = wh.MechanismByTime(tuple(members), prior.periods)
    wh.save_mechanism(output, made, prior if spec.keep_prior else None)
    facts = facts_by_time(made, prior)
    say_by_time(made, facts)
    if spec.prior_blur:
        known = [cost for cost in costs if cost is not None]
        cost = float(np.dot(prior.weights, known)) if len(known) == len(costs) else None
        facts |= {"prior_blur": spec.prior_blur, "blur_cost_km": cost}
        say(blur_in_words(spec.prior_blur, cost))
    say_what_it_tells(members[0], spec.keep_prior)
    kept = "with the priors, readable by you only" if spec.keep_prior else "without the priors"
    say(f"Wrote {output} ({kept}). Next: whereish audit {output}")
    return made, facts


def facts_by_time(
    mechanism: wh.MechanismByTime, prior: TimeDependentPrior, adversary_metric: str = "euclidean"
) -> dict[str, Any]:
    """Collect what --json prints: for reports at all times, and for each period.

    The adversary knows the time of a report, so the error is the mean of those of the periods.
    """
    metric = named_metric(adversary_metric, mechanism.inputs)
    periods = []
    for name, member, own in zip(
        prior.periods.names, mechanism.mechanisms, prior.priors, strict=True
    ):
        periods.append(
            facts_of(member, own)
            | {
                "hours": name,
                "adversary_error_km": wh.adversary_error(member, own, metric),
                "worst_case_loss_km": wh.worst_case_loss(member),
                "report_radius_95_km": wh.report_radius(member, own),
                "conditional_entropy_bits": wh.conditional_entropy(member, own),
            }
        )
    same = ("places", "outputs", "epsilon", "epsilon_unit", "epsilon_per_km", "ratio_2_within_km")
    return {
        **{name: periods[0][name] for name in same},
        "hours": list(prior.periods.hours),
        "zone": prior.periods.zone,
        "ratios_checked": sum(one["ratios_checked"] for one in periods),
        **{
            name: float(np.dot(prior.weights, [one[name] for one in periods]))
            for name in ("quality_loss_km", "adversary_error_km")
        },
        "worst_case_loss_km": max(one["worst_case_loss_km"] for one in periods),
        "periods": periods,
    }


def say_by_time(mechanism: wh.MechanismByTime, facts: dict[str, Any]) -> None:
    """Say what mechanisms by time promise, and what they cost in each period."""
    say()
    say(
        f"  privacy       epsilon {mechanism.epsilon:.4g} {mechanism.epsilon_unit} holds at every "
        f"time, for all {facts['ratios_checked']:,} ratios, checked one by one"
    )
    say(
        "  chosen        by the clock of the report only, in the time zone "
        f"{mechanism.periods.zone}, wherever you are"
    )
    say(f"  quality loss  a report is {km(facts['quality_loss_km'])} off on average")
    for one in facts["periods"]:
        bound = one["lower_bound_km"]
        least = "" if bound is None else f"; with this privacy, no loss is below {km(bound)}"
        say(f"  {one['hours']:<12}  {km(one['quality_loss_km'])} off on average{least}")


def say_audited(found: dict[str, Any]) -> None:
    """Say what the audit of a file of mechanisms by time has found."""
    slack = min(one["worst_slack"] for one in found["periods"])
    say(
        f"Holds: epsilon {found['epsilon']:.6g} {found['epsilon_unit']} at every time, for all "
        f"{found['ratios_checked']:,} ratios of {len(found['periods'])} mechanisms on the same "
        f"{found['places']} places, with {found['outputs']} outputs. Each was compared exactly; "
        "every row sums to 2^63."
    )
    say(f"Smallest margin: {slack:.3g} in the exponent.")
    for name, one in zip(DayPeriods(found["hours"]).names, found["periods"], strict=True):
        if "lower_bound_km" in one["recomputed"]:
            say(
                f"Hours {name}: a report is {km(one['quality_loss_km'])} off on average. Proved: "
                f"every mechanism with this privacy is at least {km(one['lower_bound_km'])} off."
            )
