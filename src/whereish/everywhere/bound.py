"""A lower bound for every mechanism that is private between all points, on any lattice or none.

Restricted to finitely many points, such a mechanism is a discrete private one. Let the points x_i
with weights p_i be in clusters with centres y_c, at distances r_i. Privacy between x_i and y_c says
k(x_i, z) >= exp(-eps r_i) k(y_c, z). So the loss is at least the sum over c and z of

    k(y_c, z) C(c, z),    C(c, z) = sum over the x_i of c of p_i exp(-eps r_i) d_Q(x_i, z),

and the least value of that over the discrete private mechanisms on the centres is a bound. It is
exact where every point is its own cluster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.errors import WhereishError
from whereish.everywhere.planar_laplace import expected_costs
from whereish.everywhere.points import QualityMetric, Visits, clustered, separate
from whereish.everywhere.proof import VisitedProof
from whereish.measures import lower_bound
from whereish.mechanisms.optimal import optimal
from whereish.places import Array, Places, euclidean
from whereish.places.points import SAME_PLACE_KM

CLUSTERS = 150
_TOLERANCE = 1e-4
# Relative errors of a distance, a product and an exponential: each is a few units of 2^-53.
_ROUNDING = 1e-14


def visited_bound(
    visits: Visits,
    epsilon: float,
    outputs: Places,
    metric: QualityMetric | None,
    time_limit_s: float | None = None,
) -> tuple[float | None, VisitedProof | None]:
    """Return a lower bound in km on the loss of every mechanism with this epsilon and outputs.

    The second value is its proof. None if there is no time, or no bound was found.
    """
    groups = clustered(visits, CLUSTERS)
    if len(groups.xy) == 1 or len(separate(groups.xy, 2 * SAME_PLACE_KM)) < len(groups.xy):
        return None, None
    prior, costs = _program(visits, epsilon, outputs, groups.xy, groups.of, metric)
    try:
        found = optimal(
            Places(groups.xy),
            prior,
            epsilon,
            quality_metric=costs / prior[:, None],
            outputs=Places(outputs.xy),
            solver="structured",  # the one with a proof, for few points too
            tolerance=_TOLERANCE,
            time_limit_s=time_limit_s,
        )
    except WhereishError:
        return None, None
    if found.proof is None or not found.proof.epsilon >= epsilon:
        return None, None
    proof = VisitedProof(groups.xy, groups.of.astype(np.int32), found.proof)
    return proved_bound(proof, visits, epsilon, outputs, metric), proof


def proved_bound(
    proof: VisitedProof,
    visits: Visits,
    epsilon: float,
    outputs: Places,
    metric: QualityMetric | None = None,
) -> float:
    """Return the lower bound that a proof gives for these points, in km; it is rounded down."""
    centres = Places(proof.centres)
    prior, costs = _program(visits, epsilon, outputs, proof.centres, proof.cluster, metric)
    return max(0.0, lower_bound(proof.rows, prior, costs / prior[:, None], euclidean(centres)))


def _program(
    visits: Visits,
    epsilon: float,
    outputs: Places,
    centres: Array,
    cluster: NDArray[np.int64] | NDArray[np.int32],
    metric: QualityMetric | None,
) -> tuple[Array, Array]:
    """Return the weights of the centres, and the costs C(c, z), rounded down."""
    away = np.hypot(*(visits.xy - centres[cluster]).T)
    shares = visits.weights * np.exp(-epsilon * away * (1 + _ROUNDING))
    of = cluster.astype(np.int64)
    costs = expected_costs(Visits(visits.xy, shares), of, len(centres), outputs.xy, metric)
    # A sum of n positive numbers is off by less than n 2^-52 of itself.
    costs *= 1 - 4 * _ROUNDING - len(visits) * 2.0**-52
    weights = np.bincount(of, visits.weights, len(centres))
    return weights / weights.sum(), costs
