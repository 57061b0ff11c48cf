"""The certificate of a mechanism: what it guarantees, what it costs and how it was built."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whereish.errors import GuaranteeError, InputError
from whereish.everywhere import AnyMechanism, Everywhere, RoadMechanism
from whereish.format.everywhere_certificate import certify_everywhere, visits_given
from whereish.format.plain import as_plain, digest, made_now
from whereish.measures import TOTAL, lower_bound, quality_loss, relative_gap
from whereish.mechanisms.by_time import MechanismByTime, check_same_periods
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.registry import MECHANISMS
from whereish.places import KINDS, Array, as_prior, euclidean
from whereish.profiles.time_prior import TimeDependentPrior

# Fields that are computed from a prior; null in a certificate without one.
FROM_PRIOR = (
    "quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "repair_mix", "repair_cost_km",
    "seconds", "prior_sha256",
)  # fmt: skip
_WORTH_SAYING = 1.001  # times the ground: places 500 km from the centre of their plane
# Measured by benchmarks/prior_leak.py; a test runs a part of it.
TELLS_PRIOR = (
    "This mechanism tells most of the prior it was built for to anyone who has it, even if its "
    "file does not hold the prior: epsilon limits what a report tells, not what the mechanism "
    "itself tells. Measured on ten made-up people, the counts gave it to a total variation of 0.04 "
    "to 0.26, a uniform guess being 0.58 to 0.81 off (docs/limitations.md)."
)


__all__ = [
    "FROM_PRIOR", "TELLS_PRIOR", "as_plain", "certify", "certify_by_time", "digest", "losses",
    "metric_words",
]  # fmt: skip


def check_not_streets(mechanism: object) -> None:
    """Raise InputError for a mechanism on streets, which has no file and no certificate."""
    if isinstance(mechanism, RoadMechanism):
        raise InputError(
            "a RoadMechanism cannot be written to a file or certified: the file format has no "
            "streets yet. Its constructor has audited it (.verdict); pickle keeps it, and audits "
            "it again when it is loaded"
        )


def certify(mechanism: AnyMechanism | MechanismByTime, prior: Any = None) -> dict[str, Any]:
    """Return the certificate of a mechanism, computed from its integers.

    Parameters
    ----------
    prior
        The prior of the quality loss (Euclidean) and of its lower bound; for a mechanism with a
        guarantee for every point, (points, weights); for a `MechanismByTime`, a
        `TimeDependentPrior`. The certificate holds a digest of it, not the
        prior itself. Without it the certificate holds nothing that was computed from a prior.
    """
    check_not_streets(mechanism)
    if isinstance(mechanism, Everywhere):
        return certify_everywhere(mechanism, visits_given(mechanism, prior))
    if isinstance(mechanism, MechanismByTime):
        return certify_by_time(mechanism, prior)
    prior = None if prior is None else as_prior(prior, len(mechanism.inputs))
    released, verdict = mechanism.released, mechanism.released.verdict
    build = mechanism.build.without_prior() if prior is None else mechanism.build
    worst_at = {"places": list(verdict.pair), "output": verdict.output} if verdict else None
    return {
        "certified": mechanism.epsilon is not None,
        "epsilon": mechanism.epsilon,
        "epsilon_unit": None if mechanism.epsilon is None else mechanism.epsilon_unit,
        "metric": None
        if mechanism.epsilon is None
        else metric_words(mechanism.is_per_km, mechanism.build.metric),
        "places": len(mechanism.inputs),
        "outputs": len(mechanism.outputs),
        "ratios_checked": verdict.ratios if verdict else 0,
        "worst_slack": verdict.slack if verdict else None,
        "worst_slack_at": worst_at,
        "largest_snap_km": mechanism.inputs.largest_snap_km,
        "rounding_mix": float(released.mix),
        **losses(mechanism, prior),
        "method": build.method,
        "solver": build.solver,
        "requested_dilation": build.requested_dilation,
        "dilation": build.dilation,
        "repair_mix": build.repair_mix,
        "repair_cost_km": build.repair_cost_km,
        "stopped": build.stopped,
        "seconds": build.seconds,
        "prior_sha256": None if prior is None else digest(prior),
        **made_now(),
        "guarantee": guarantee(mechanism),
    }


def certify_by_time(
    mechanism: MechanismByTime, prior: TimeDependentPrior | None = None
) -> dict[str, Any]:
    """Return the certificate of mechanisms by time: what holds for all, then for each period."""
    if prior is not None:
        check_same_periods(mechanism, prior)
    members = [
        certify(member, None if prior is None else prior.priors[number])
        for number, member in enumerate(mechanism.mechanisms)
    ]
    loss = None
    if prior is not None:
        loss = mean_loss(prior.weights, [member["quality_loss_km"] for member in members])
    shared = ("certified", "epsilon", "epsilon_unit", "metric", "places", "outputs")
    return {
        **{name: members[0][name] for name in shared},
        "hours": list(mechanism.periods.hours),
        "zone": mechanism.periods.zone,
        "ratios_checked": sum(member["ratios_checked"] for member in members),
        "largest_snap_km": members[0]["largest_snap_km"],
        "quality_loss_km": loss,
        **made_now(),
        "guarantee": guarantee_by_time(mechanism),
        "periods": members,
    }


def mean_loss(weights: Array, losses_km: list[float]) -> float:
    """Return the mean loss of the periods, weighted by the share of reports in each."""
    return float(np.dot(weights, losses_km))


def guarantee_by_time(mechanism: MechanismByTime) -> list[str]:
    """Return in words what is guaranteed at every time, and why the time may choose."""
    parts = [guarantee(member) for member in mechanism.mechanisms]
    same = [words for words in parts[0] if words != TELLS_PRIOR]
    hours = ", ".join(mechanism.periods.names)
    chosen = (
        f"At every time. The clock chooses one of {len(mechanism.mechanisms)} mechanisms, for the "
        f"hours {hours} in {mechanism.periods.zone}. The choice depends on the time of the report "
        "only, which is taken to be public, and never on the location or on the zone of the device."
    )
    leak = [TELLS_PRIOR] if any(TELLS_PRIOR in words for words in parts) else []
    return [same[0], chosen, *same[1:], *leak]


def losses(mechanism: Mechanism, prior: Array | None) -> dict[str, float | None]:
    """Return the Euclidean quality loss of the integers, and its bound if there is a proof."""
    loss = rounding = bound = gap = None
    if prior is not None:
        away = euclidean(mechanism.inputs, mechanism.outputs)
        stakes = prior[:, None] * away
        loss = float((stakes * (mechanism.counts.astype(np.float64) / TOTAL)).sum())
        rounding = loss - quality_loss(mechanism, prior)
        if mechanism.proof is not None and mechanism.privacy_metric is not None:
            proof, level = mechanism.proof, mechanism.epsilon
            if level is None or not proof.epsilon >= level:
                # At a smaller epsilon there are fewer mechanisms: their bound may be too high.
                raise GuaranteeError("not a proof: it is about another epsilon than the mechanism")
            bound = max(0.0, lower_bound(proof, prior, away, mechanism.privacy_metric))
            gap = relative_gap(loss, bound)
    return {
        "quality_loss_km": loss,
        "rounding_cost_km": rounding,
        "lower_bound_km": bound,
        "gap": gap,
    }


def guarantee(mechanism: Mechanism) -> list[str]:
    """Return in words what is guaranteed, and what is not."""
    level = mechanism.epsilon
    method = MECHANISMS.get(mechanism.build.method)
    leak = [TELLS_PRIOR] if method is None or method.needs_prior else []
    if level is None:
        return [
            "This mechanism promises no epsilon: nothing limits what one report gives away.",
            *leak,
        ]
    kind = None if mechanism.is_per_km else KINDS.get(mechanism.build.metric or "")
    unit = "km" if mechanism.is_per_km else "units of its metric"
    apart, twice = f"{unit} apart", unit
    if kind is not None:
        apart = twice = kind.apart
    words = [
        f"Between the {len(mechanism.inputs)} places: from two of them d {apart} no report is "
        f"more than exp({level:.6g} d) times likelier from one than from the other, whatever is "
        f"known already. That is twice at {math.log(2) / level:.3g} {twice}.",
    ]
    if kind is not None:
        words.append(kind.about)
    if mechanism.is_per_km:
        reach = mechanism.inputs.largest_snap_km
        words.append(
            f"A raw point is reported as its nearest place, up to {reach:.3g} km away inside the "
            f"area: between two raw points d km apart it is exp({level:.6g} (d + {2 * reach:.3g}))."
        )
        if (stretch := mechanism.inputs.plane_stretch) > _WORTH_SAYING:
            most = math.ceil(1e4 * stretch) / 1e4
            ground = level * stretch * (1 + 1e-5)  # so that six digits of it are not too small
            words.append(
                f"Distances are those of the local plane. They are up to {most:.4f} times the "
                f"distances on the ground: epsilon is at most {ground:.6g} per km there."
            )
    words.append(
        f"For one report. k reports cost k times as much: k epsilon, with epsilon {level:.6g}."
    )
    return words + leak


def metric_words(per_km: bool, metric: str | None = None) -> str:
    """Return in words which metric epsilon is for; ``metric`` is its kind in the build record."""
    if per_km:
        return "Euclidean distance between the places in their plane, in km"
    if metric in KINDS:
        return f"{KINDS[metric].distance}, given in the file for every pair of places"
    return "given in the file, for every pair of places"
