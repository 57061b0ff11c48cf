"""A mechanism for all points, as it is at the visited points: what the measures need."""

from __future__ import annotations

import numpy as np

from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.planar_laplace import PlanarLaplaceEverywhere
from whereish.everywhere.points import Visits, clustered, distances, separate
from whereish.measures import adversary_error
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array
from whereish.places.points import SAME_PLACE_KM

_MOST = 800  # the measures compare every two of them


def at_visited_points(
    mechanism: EverywhereMechanism | PlanarLaplaceEverywhere, visits: Visits, most: int = _MOST
) -> tuple[Mechanism, Array]:
    """Return the rows of a mechanism at visited points, and the weights of these.

    More than 800 points are clustered, and points closer than a millimetre are one. The result has
    no epsilon: it is a matrix to measure, not a mechanism to draw from.
    """
    groups = clustered(visits, most)
    xy, weights = groups.xy, groups.weights
    apart = separate(xy, 2 * SAME_PLACE_KM)
    if len(apart) < len(xy):
        nearest = distances(xy, apart).argmin(axis=1)
        weights = np.bincount(nearest, weights, len(apart)).astype(np.float64)
        xy = apart
    places = visits.places(xy)
    at = xy if places.latlon is None else places.latlon
    rows = mechanism.probabilities(at)
    rows /= rows.sum(axis=1, keepdims=True)
    return Mechanism(rows, places, mechanism.outputs), weights / weights.sum()


def guess_error(visited: Mechanism, weights: Array) -> float:
    """Return the error of an adversary who may guess a visited point or a report, in km."""
    xy, guesses = visited.inputs.xy, np.vstack([visited.inputs.xy, visited.outputs.xy])
    metric = np.hypot(*(xy[:, None] - guesses[None]).transpose(2, 0, 1))
    return adversary_error(visited, weights, metric)
