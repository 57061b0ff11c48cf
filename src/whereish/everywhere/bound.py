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

from whereish.errors import WhereishError
from whereish.everywhere.planar_laplace import expected_costs
from whereish.everywhere.points import QualityMetric, Visits, clustered, separate
from whereish.mechanisms.optimal import optimal
from whereish.places import Places
from whereish.places.points import SAME_PLACE_KM

CLUSTERS = 150
_TOLERANCE = 1e-4


def visited_bound(
    visits: Visits,
    epsilon: float,
    outputs: Places,
    metric: QualityMetric | None,
    time_limit_s: float | None = None,
) -> float | None:
    """Return a lower bound in km on the loss of every mechanism with this epsilon and outputs.

    None if there is no time, or no bound was found.
    """
    groups = clustered(visits, CLUSTERS)
    if len(groups.xy) == 1 or len(separate(groups.xy, 2 * SAME_PLACE_KM)) < len(groups.xy):
        return None
    away = np.hypot(*(visits.xy - groups.xy[groups.of]).T)
    # Rounded down: the exponential is off by less than 1e-15 of itself.
    shrunk = Visits(visits.xy, visits.weights * np.exp(-epsilon * away) * (1 - 1e-14))
    costs = expected_costs(shrunk, groups.of, len(groups.xy), outputs.xy, metric)
    prior = groups.weights / groups.weights.sum()
    try:
        found = optimal(
            Places(groups.xy),
            prior,
            epsilon,
            quality_metric=costs / prior[:, None],
            outputs=Places(outputs.xy),
            tolerance=_TOLERANCE,
            time_limit_s=time_limit_s,
        )
    except WhereishError:
        return None
    bound = found.build.lower_bound_km
    # The division by the prior and its sum are off by a few units in the last place.
    return None if bound is None else max(0.0, bound * (1 - 1e-12))
