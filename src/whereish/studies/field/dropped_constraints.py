"""The approximation of Shokri (2014): constraints between distant places are left out.

The program of the optimal mechanism, but k(x, z) <= exp(eps d(x, x')) k(x', z) is asked only of
places at most a bound apart. The constraints that are left bound all others through chains of
places: by the length of the shortest path instead of the distance. So this is the optimal mechanism
for the metric of the graph of near pairs, and its true epsilon per km is up to the dilation of that
graph times the epsilon asked for.
"""

from __future__ import annotations

import numpy as np

from whereish.errors import InputError
from whereish.mechanisms import Build, Mechanism, optimal
from whereish.places import Array, Places, as_number, euclidean


def dropped_constraints(
    places: Places,
    prior: Array,
    epsilon: float,
    bound_km: float,
    *,
    solver: str = "auto",
    time_limit_s: float | None = None,
) -> Mechanism:
    """Build the least-loss mechanism with constraints between near places only.

    It has no epsilon: the one it was asked for does not hold between distant places.

    Parameters
    ----------
    bound_km
        Constraints between places further apart are left out. The near pairs must connect all
        places (`connecting_km` is the least such bound).

    References
    ----------
    .. [1] Shokri: Optimal user-centric data obfuscation. Technical report, 2014. Named in the
       related work of Bordenabe et al., CCS 2014.
    """
    metric = path_lengths(euclidean(places), as_number("bound_km", bound_km, unit="km"))
    if not np.isfinite(metric).all():
        least = connecting_km(places)
        raise InputError(
            f"bound_km must be at least {least:.6g} km, so that near pairs connect all places, "
            f"got {bound_km:g}"
        )
    made = optimal(
        places, prior, epsilon, privacy_metric=metric, solver=solver, time_limit_s=time_limit_s
    )
    build = Build(
        "dropped-constraints", made.build.solver, made.build.form, made.build.seconds,
        notes=("constraints between distant places were left out: it has no epsilon",),
    )  # fmt: skip
    return Mechanism(made.matrix, places, places, build=build)


def connecting_km(places: Places) -> float:
    """Return the least bound for which near pairs connect all places: the longest edge of a tree.

    >>> connecting_km(Places.from_xy([[0, 0], [1, 0], [3, 0]]))
    2.0
    """
    from scipy.sparse.csgraph import minimum_spanning_tree

    return float(minimum_spanning_tree(euclidean(places)).data.max())


def path_lengths(distances: Array, bound_km: float) -> Array:
    """Return the lengths of shortest paths over pairs at most a bound apart; infinite if none."""
    from scipy.sparse.csgraph import csgraph_from_dense, shortest_path

    # A little more than the bound, so that two equal distances with other last digits both count.
    near = np.where(distances <= bound_km * (1 + 1e-9), distances, np.inf)
    graph = csgraph_from_dense(near, null_value=np.inf)
    return np.asarray(shortest_path(graph, method="D", directed=False))
