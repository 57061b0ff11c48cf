"""``whereish measure``: the quality loss and the privacy of a mechanism, under a prior."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import whereish as wh
from whereish.cli import options as opt
from whereish.cli.by_time import facts_by_time, say_by_time
from whereish.cli.console import Facts, command, say
from whereish.cli.presentation import everywhere_facts, facts_of, say_mechanism
from whereish.cli.prior import load_with_prior
from whereish.errors import InputError
from whereish.everywhere import Everywhere, at_visited_points
from whereish.places import metric_names, named_metric
from whereish.units import km, length_km

_MEASURED = "What is measured"
_EUCLIDEAN = "euclidean"
_UNITS = {"discrete": "share of wrong guesses"}


@command
def measure(
    mechanism: Path = opt.MECHANISM,
    prior: Path | None = opt.OTHER_PRIOR,
    normalise: bool = opt.NORMALISE,
    adversary_metric: str = opt.option(
        _EUCLIDEAN,
        f"The error that the adversary minimises: {', '.join(metric_names('adversary'))}.",
        _MEASURED,
        "METRIC",
        choices=lambda: metric_names("adversary"),
    ),
    radius_of_interest: str | None = opt.option(
        None,
        "Your area of interest has this radius, like 300m: how large an area must you request "
        "around the report?",
        _MEASURED,
        "LENGTH",
    ),
    confidence: float = opt.option(
        0.95, "Probability with which the requested area must cover it.", _MEASURED
    ),
    as_json: bool = opt.AS_JSON,
) -> Facts:
    """Measure the quality loss and the privacy of a mechanism.

    Among the measures are the error of an adversary, and the smallest epsilon that holds. A
    mechanism with a guarantee for every point is measured at the points that are in its file, or
    at the places of --prior. Mechanisms by time are measured in each period of the day.
    """
    known = metric_names("adversary")
    if adversary_metric not in known:
        raise InputError(
            f"adversary-metric must be one of {', '.join(known)}, got {adversary_metric!r}"
        )
    if not 0 < confidence <= 1:
        raise InputError(f"confidence must be above 0 and at most 1, got {confidence:g}")
    radius_km = None
    if radius_of_interest is not None:
        radius_km = length_km(radius_of_interest, "radius-of-interest")
    judged, weights = load_with_prior(mechanism, prior, normalise)
    if weights is None:
        raise InputError(
            f"{mechanism} holds no prior: give --prior PROFILE, the profile that it was built for, "
            "or another one of the same places"
        )
    facts: dict[str, Any]
    if isinstance(judged, wh.MechanismByTime):
        if radius_km is not None:
            raise InputError(
                "--radius-of-interest must be left out for mechanisms by time: build one for the "
                "whole day, and measure that"
            )
        facts = facts_by_time(judged, weights, adversary_metric)
        facts |= {
            "adversary_metric": adversary_metric,
            "adversary_error_unit": _UNITS.get(adversary_metric, "km"),
        }
        say_by_time(judged, facts)
        return facts
    place = "place"
    if isinstance(judged, Everywhere):
        measured, at = at_visited_points(judged, weights)
        facts, weights, place = everywhere_facts(judged, weights, measured, at), at, "point"
    else:
        measured = judged
        facts = facts_of(judged, weights)
    if not isinstance(judged, Everywhere) or adversary_metric != _EUCLIDEAN:
        metric = named_metric(adversary_metric, measured.inputs)
        facts["adversary_error_km"] = wh.adversary_error(measured, weights, metric)
    facts |= {
        "adversary_metric": adversary_metric,
        "adversary_error_unit": _UNITS.get(adversary_metric, "km"),
        "worst_case_loss_km": wh.worst_case_loss(measured),
        "report_radius_95_km": wh.report_radius(measured, weights),
        "conditional_entropy_bits": wh.conditional_entropy(measured, weights),
    }
    say_mechanism(judged, facts)
    worst, reach = km(facts["worst_case_loss_km"]), km(facts["report_radius_95_km"])
    say(f"  worst case    from one {place}, a report is {worst} off on average")
    say(f"  reports       95% of them are within {reach} of the true {place}")
    say(
        f"  uncertainty   a report leaves {facts['conditional_entropy_bits']:.2f} bits of "
        f"uncertainty about the {place}"
    )
    if radius_km is not None:
        radius = wh.radius_to_ask(measured, radius_km, confidence, weights)
        facts |= {"radius_to_ask_km": radius, "confidence": confidence}
        say(
            f"  retrieval     to cover {radius_of_interest} around you in {confidence:.0%} of "
            f"cases, request everything within {km(radius)} of the report"
        )
    return facts
