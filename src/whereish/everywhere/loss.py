"""The expected quality loss of a mechanism for all points, for weighted points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.on_roads import as_quality, as_road_visits, road_loss
from whereish.everywhere.planar_laplace import (
    PlanarLaplaceEverywhere,
    check_quality,
    noise_loss,
)
from whereish.everywhere.points import QualityMetric, Visits, as_visits, quality
from whereish.everywhere.road_mechanism import RoadMechanism
from whereish.places import Places, RoadPoints

_AT_ONCE = 2_000_000


def expected_loss(
    mechanism: EverywhereMechanism | PlanarLaplaceEverywhere | RoadMechanism,
    points: ArrayLike | Places | RoadPoints,
    weights: ArrayLike | None = None,
    quality_metric: QualityMetric | str | None = None,
    *,
    normalise: bool = False,
) -> float:
    """Return the expected distance between the true point and the report, in km.

    The sum over the points x and outputs z of weight(x) k(x, z) d_Q(x, z). For a mechanism on a
    lattice or on streets it is exact up to rounding. For planar Laplace noise it is a numerical
    integral, with a relative error below 1e-6 (of a loss above a centimetre) for up to 1,500
    different points. More points are grouped into at most 1,500 clusters, and the noise is that
    around their centres. For 5,000 points this made the loss up to 1 % too large.

    Parameters
    ----------
    points, weights
        (n, 2) points in km, or `Places`, and numbers with sum 1; None for equal shares. For a
        mechanism on streets they are moved to the nearest street, or they are `RoadPoints`.
    quality_metric
        d_Q, a function of (n, 2) points and (m, 2) outputs that returns an (n, m) matrix; Euclidean
        distance if not given. For a mechanism on streets, the distance along the streets if not
        given; "euclidean", or a function.
    normalise
        Divide the weights by their sum.

    >>> import whereish as wh
    >>> one = wh.EverywhereMechanism(
    ...     [[2**63]], ([0], [0]), wh.Places.from_xy([[0, 0]]), epsilon=1.0
    ... )
    >>> wh.expected_loss(one, [[3, 4], [0, 1]], [0.5, 0.5])
    3.0
    """
    if isinstance(mechanism, RoadMechanism):
        visited = as_road_visits(mechanism.network, points, weights, normalise)
        return road_loss(mechanism, visited, as_quality(quality_metric))
    if not isinstance(mechanism, EverywhereMechanism | PlanarLaplaceEverywhere):
        raise InputError(
            "mechanism must be an EverywhereMechanism, a PlanarLaplaceEverywhere or a "
            f"RoadMechanism, got {type(mechanism).__name__}: for a Mechanism use quality_loss"
        )
    if isinstance(points, RoadPoints):
        raise InputError("points must be n x 2 numbers or Places, got RoadPoints")
    check_quality(quality_metric)
    visits = visits_in(mechanism, points, weights, normalise)
    return loss_of(mechanism, visits, quality_metric)


def visits_in(
    mechanism: EverywhereMechanism | PlanarLaplaceEverywhere,
    points: ArrayLike | Places,
    weights: ArrayLike | None = None,
    normalise: bool = False,
) -> Visits:
    """Validate points and weights, in the plane of the outputs of a mechanism."""
    if isinstance(points, Places):
        points = points.in_plane_of(mechanism.outputs)
    visits = as_visits(points, weights, normalise)
    return replace(visits, plane=mechanism.outputs.plane)


def loss_of(
    mechanism: EverywhereMechanism | PlanarLaplaceEverywhere,
    visits: Visits,
    metric: QualityMetric | None = None,
) -> float:
    """Return the expected loss for validated points."""
    if isinstance(mechanism, PlanarLaplaceEverywhere):
        return noise_loss(mechanism, visits, metric)
    xy = mechanism.outputs.xy
    total = 0.0
    step = max(1, _AT_ONCE // len(xy))
    for first in range(0, len(visits), step):
        some = slice(first, first + step)
        corners, weights = mechanism.lattice.weights(visits.xy[some])
        costs = visits.weights[some, None] * quality(visits.xy[some], xy, metric)
        for k in range(4):
            rows = mechanism.matrix[corners[:, k]]
            total += float(np.einsum("n,nm,nm->", weights[:, k], rows, costs))
    return total
