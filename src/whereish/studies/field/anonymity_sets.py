"""Anonymity sets (Dewri 2012): within a fixed set of k places, reports differ by a bounded factor.

Dewri combines differential privacy with k-anonymity: for any two of the k places of a set,
k(x, z) <= exp(level) k(x', z), however far apart they are. Nothing is asked of places of different
sets. Planar Laplace noise around the true place, with the rate level / (largest distance in the
set), meets that definition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.mechanisms import Build, Mechanism
from whereish.mechanisms.planar_laplace import cell_masses
from whereish.places import Array, Places, as_number, as_whole, euclidean


def anonymity_sets(places: Places, k: int, level: float) -> Mechanism:
    """Add planar Laplace noise whose rate depends on the anonymity set of the place.

    The noise is followed by the nearest place. The mechanism has no epsilon: its level holds within
    a set only, and is no rate per km.

    Parameters
    ----------
    k
        Places of a set; the last set may have up to 2 k - 1. See `fixed_sets`.
    level
        The largest logarithm of a ratio within a set.

    References
    ----------
    .. [1] Dewri: Local differential perturbations: location privacy under approximate knowledge
       attackers. IEEE Transactions on Mobile Computing, 2012.
    """
    bound = as_number("level", level)
    distances = euclidean(places)
    matrix = np.empty((len(places), len(places)))
    for members in fixed_sets(distances, as_whole("k", k, 2)):
        rate = bound / diameter(distances, members)
        matrix[members] = cell_masses(places.subset(members.tolist()), places, rate)
    matrix = np.maximum(matrix, 0.0)
    notes = ("its level holds within each anonymity set only: this mechanism has no epsilon",)
    return Mechanism(
        matrix / matrix.sum(axis=1, keepdims=True), places, places,
        build=Build("anonymity-sets", notes=notes),
    )  # fmt: skip


def fixed_sets(distances: Array, k: int) -> list[NDArray[np.int64]]:
    """Divide places into sets of at least k that are near each other; no prior is used.

    The first place that has no set, and the k - 1 nearest that have none, are a set. When fewer
    than 2 k are left, they are the last set.
    """
    left = np.arange(len(distances))
    found = []
    while len(left) >= 2 * k:
        nearest = left[np.argsort(distances[left[0], left], kind="stable")[:k]]
        found.append(np.sort(nearest))
        left = np.setdiff1d(left, nearest)
    return [*found, left]


def diameter(distances: Array, members: NDArray[np.int64]) -> float:
    """Return the largest distance within a set."""
    return float(distances[np.ix_(members, members)].max())


def level_for(places: Places, k: int, epsilon: float) -> float:
    """Return the level for which the mean rate of noise is about epsilon: epsilon times a diameter.

    The diameter is the mean of those of the sets.
    """
    distances = euclidean(places)
    sets = fixed_sets(distances, k)
    return epsilon * float(np.mean([diameter(distances, members) for members in sets]))
