"""What a released mechanism guarantees, what it costs and how it came about."""

from __future__ import annotations

import functools
import hashlib
import math
import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from whereish.errors import GuaranteeError
from whereish.measures import TOTAL, lower_bound, quality_loss, relative_gap
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, as_prior, euclidean

# What a certificate says only where there is a prior: all of it was computed from that.
FROM_PRIOR = (
    "quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "repair_mix", "repair_cost_km",
    "seconds", "prior_sha256",
)  # fmt: skip
# Built from places and epsilon alone.
_NO_PRIOR = ("planar-laplace", "exponential", "tight-constraints")
# Measured by benchmarks/prior_leak.py; a test runs a part of it.
TELLS_PRIOR = (
    "This mechanism tells most of the prior it was built for to whoever has it, even where its "
    "file does not hold the prior: epsilon limits what a report tells, not what the mechanism "
    "itself tells. Measured on ten made-up people, the counts gave it to a total variation of 0.04 "
    "to 0.26, a uniform guess being 0.58 to 0.81 off (docs/limitations.md)."
)


def certify(mechanism: Mechanism, prior: Array | None = None) -> dict[str, Any]:
    """Collect the certificate of a mechanism: everything is worked out from its integers.

    Parameters
    ----------
    prior
        Whose quality loss is stated (Euclidean), with what proves how good it is. The certificate
        has a digest of it, not the prior itself. Without it the certificate holds nothing that was
        computed from a prior.
    """
    prior = None if prior is None else as_prior(prior, len(mechanism.inputs))
    released, build = mechanism.released, mechanism.build
    if prior is None:
        build = build.without_prior()
    facts: dict[str, Any] = {
        "certified": mechanism.epsilon is not None,
        "epsilon": mechanism.epsilon,
        "epsilon_unit": None if mechanism.epsilon is None else mechanism.epsilon_unit,
        "metric": _metric(mechanism),
        "places": len(mechanism.inputs),
        "outputs": len(mechanism.outputs),
        "ratios_checked": 0,
        "worst_slack": None,
        "worst_slack_at": None,
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
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "whereish": _version(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "guarantee": guarantee(mechanism),
    }
    if released.verdict is not None:
        seen = released.verdict
        facts["ratios_checked"] = seen.ratios
        facts["worst_slack"] = seen.slack
        facts["worst_slack_at"] = {"places": list(seen.pair), "output": seen.output}
    return facts


@functools.cache
def _version() -> str:
    """Return our version: looking it up takes longer than many a solve."""
    return metadata.version("whereish")


def losses(mechanism: Mechanism, prior: Array | None) -> dict[str, float | None]:
    """Work out the Euclidean quality loss of the integers, and its bound where there is a proof."""
    loss = rounding = bound = gap = None
    if prior is not None:
        away = euclidean(mechanism.inputs, mechanism.outputs)
        stakes = prior[:, None] * away
        loss = float((stakes * (mechanism.counts.astype(np.float64) / TOTAL)).sum())
        rounding = loss - quality_loss(mechanism, prior)
        if mechanism.proof is not None and mechanism.privacy_metric is not None:
            proof, level = mechanism.proof, mechanism.epsilon
            if level is None or not proof.epsilon >= level:
                # Fewer mechanisms are as private as that: what bounds them need not bound this one.
                raise GuaranteeError("not a proof: it is about another epsilon than the mechanism")
            bound = max(0.0, lower_bound(proof, prior, away, mechanism.privacy_metric))
            gap = relative_gap(loss, bound)
    return {
        "quality_loss_km": loss,
        "rounding_cost_km": rounding,
        "lower_bound_km": bound,
        "gap": gap,
    }


def digest(prior: Array) -> str:
    """Return the SHA-256 of a prior's numbers, as little-endian doubles."""
    return hashlib.sha256(np.ascontiguousarray(prior, dtype="<f8").tobytes()).hexdigest()


def guarantee(mechanism: Mechanism) -> list[str]:
    """Say in words what is promised, and what is not."""
    level = mechanism.epsilon
    tells = [] if mechanism.build.method in _NO_PRIOR else [TELLS_PRIOR]
    if level is None:
        return [
            "This mechanism promises no epsilon: nothing limits what one report gives away.",
            *tells,
        ]
    unit = "km" if mechanism.is_per_km else "units of its metric"
    words = [
        f"Between the {len(mechanism.inputs)} places: from two of them d {unit} apart no report is "
        f"more than exp({level:.6g} d) times likelier from one than from the other, whatever is "
        f"known already. That is twice at {math.log(2) / level:.3g} {unit}.",
    ]
    if mechanism.is_per_km:
        reach = mechanism.inputs.largest_snap_km
        words.append(
            f"A raw point is reported as its nearest place, up to {reach:.3g} km away inside the "
            f"area: between two raw points d km apart it is exp({level:.6g} (d + {2 * reach:.3g}))."
        )
    words.append(
        f"For one report. k reports cost k times as much: k epsilon, with epsilon {level:.6g}."
    )
    return words + tells


def _metric(mechanism: Mechanism) -> str | None:
    if mechanism.epsilon is None:
        return None
    if mechanism.limits.metric is None:
        return "Euclidean distance between the places in their plane, in km"
    return "given in the file, for every pair of places"
