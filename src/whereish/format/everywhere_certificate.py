"""The certificate of a mechanism with a guarantee for every point of the plane."""

from __future__ import annotations

import math
from typing import Any

from whereish.errors import GuaranteeError, InputError
from whereish.everywhere import (
    Everywhere,
    EverywhereMechanism,
    Visits,
    loss_of,
    proved_bound,
    visits_in,
)
from whereish.format.plain import digest, made_now
from whereish.measures import relative_gap
from whereish.places.points import FURTHEST_KM, stretch_within

METRIC = "Euclidean distance between any two points of the plane, in km"
# Fields that are computed from the visited points; null in a certificate without them.
FROM_POINTS = (
    "quality_loss_km", "lower_bound_km", "gap", "repair_mix", "repair_cost_km", "seconds",
    "points_sha256",
)  # fmt: skip


def visits_given(mechanism: Everywhere, prior: Any) -> Visits | None:
    """Return the visited points that were given as a prior: (points, weights), or None."""
    if prior is None or isinstance(prior, Visits):
        return prior
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise InputError(
            "the prior of a mechanism for all points must be (points, weights), got "
            f"{type(prior).__name__}"
        )
    return visits_in(mechanism, prior[0], prior[1])


def certify_everywhere(mechanism: Everywhere, visits: Visits | None = None) -> dict[str, Any]:
    """Return the certificate of a mechanism, computed from its integers."""
    build = mechanism.build.without_prior() if visits is None else mechanism.build
    return {
        "certified": True,
        "epsilon": mechanism.epsilon,
        "epsilon_unit": mechanism.epsilon_unit,
        "metric": METRIC,
        **_checked(mechanism),
        **losses_at(mechanism, visits),
        "method": build.method,
        "solver": build.solver,
        "repair_mix": build.repair_mix,
        "repair_cost_km": build.repair_cost_km,
        "stopped": build.stopped,
        "seconds": build.seconds,
        **made_now(),
        "guarantee": _guarantee(mechanism),
    }


def _checked(mechanism: Everywhere) -> dict[str, Any]:
    """Return what the audit found."""
    if isinstance(mechanism, EverywhereMechanism):
        verdict = mechanism.verdict
        return {
            "kind": "lattice",
            "vertices": len(mechanism.lattice),
            "cells": mechanism.lattice.cells,
            "outputs": len(mechanism.outputs),
            "corners_checked": verdict.corners,
            "tightest_epsilon": verdict.tightest,
            "tightest_at": {"vertex": verdict.vertex, "output": verdict.output},
        }
    return {
        "kind": "planar-laplace",
        "vertices": None,
        "cells": mechanism.table.size,
        "outputs": len(mechanism.outputs),
        "corners_checked": 0,
        "tightest_epsilon": None,
        "tightest_at": None,
    }


def losses_at(mechanism: Everywhere, visits: Visits | None) -> dict[str, Any]:
    """Return the Euclidean loss for visited points, its bound if there is a proof, their digest."""
    loss = bound = gap = None
    if visits is not None:
        loss = loss_of(mechanism, visits)
        proof = mechanism.proof if isinstance(mechanism, EverywhereMechanism) else None
        # A proof belongs to the points it was made for.
        if proof is not None and len(proof.cluster) == len(visits):
            if not proof.rows.epsilon >= mechanism.epsilon:
                raise GuaranteeError("not a proof: it is about another epsilon than the mechanism")
            bound = proved_bound(proof, visits, mechanism.epsilon, mechanism.outputs)
            gap = relative_gap(loss, bound)
    return {
        "quality_loss_km": loss,
        "lower_bound_km": bound,
        "gap": gap,
        "points_sha256": None if visits is None else digest(visits.xy, visits.weights),
    }


def _guarantee(mechanism: Everywhere) -> list[str]:
    """Return in words what is guaranteed, and what is not."""
    level = mechanism.epsilon
    cells = "lattice" if isinstance(mechanism, EverywhereMechanism) else "table"
    words = [
        f"For any two points d km apart, wherever they are, no report is more than "
        f"exp({level:.6g} d) times likelier from one than from the other, whatever is known "
        f"already. That is twice at {math.log(2) / level:.3g} km.",
    ]
    if isinstance(mechanism, EverywhereMechanism):
        words.append(
            "A point is not moved to a place first. A point outside the rectangle of the lattice "
            "is reported as the nearest point of the rectangle. The guarantee holds there too. "
            "Coordinates are rounded to a nanometre before anything else."
        )
    else:
        words.append(
            "The report is planar Laplace noise around the point, in whole units of 2^-40 km, and "
            "then a table that is fixed in advance. The guarantee is that of the noise."
        )
    if mechanism.outputs.plane is not None:
        words.append(
            f"Distances are those of the local plane: between points of the {cells} at most "
            f"{_stretch(mechanism):.4f} times the distances on the ground, and at most 1.05 times "
            f"up to {FURTHEST_KM:,.0f} km from its centre. Points further away are refused."
        )
    words.append(
        f"For one report. k reports cost k times as much: k epsilon, with epsilon {level:.6g}."
    )
    words.append(
        "This mechanism tells much about the points it was built for to anyone who has it, even if "
        f"its file does not hold them: its {cells} is fine where they are, and its outputs are "
        "near them. Epsilon limits what a report tells, not what the mechanism itself tells "
        "(docs/limitations.md)."
    )
    return words


def _stretch(mechanism: Everywhere) -> float:
    """Return how many times longer a distance is in the plane than on the ground, rounded up."""
    lattice = mechanism.lattice if isinstance(mechanism, EverywhereMechanism) else mechanism.borders
    furthest = math.hypot(*(float(abs(axis).max()) for axis in lattice))
    return math.ceil(1e4 * stretch_within(min(furthest, FURTHEST_KM))) / 1e4
