"""The expected quality loss of a mechanism for all points, for weighted points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.noise_table import NoiseTable
from whereish.everywhere.planar_laplace import (
    PlanarLaplaceEverywhere,
    check_quality,
    expected_costs,
)
from whereish.everywhere.points import QualityMetric, Visits, as_visits, clustered, quality
from whereish.places import Places

_CLUSTERS = 1500  # the most points that noise is integrated around
_AT_ONCE = 2_000_000


def expected_loss(
    mechanism: EverywhereMechanism | PlanarLaplaceEverywhere,
    points: ArrayLike | Places,
    weights: ArrayLike | None = None,
    quality_metric: QualityMetric | None = None,
    *,
    normalise: bool = False,
) -> float:
    """Return the expected distance between the true point and the report, in km.

    The sum over the points x and outputs z of weight(x) k(x, z) d_Q(x, z). For a mechanism on a
    lattice it is exact up to rounding. For planar Laplace noise it is approximate: the noise is
    integrated numerically, around at most 1,500 clusters of points; without clusters the relative
    error is about 1e-4.

    Parameters
    ----------
    points, weights
        (n, 2) points in km, or `Places`, and numbers with sum 1; None for equal shares.
    quality_metric
        d_Q, a function of (n, 2) points and (m, 2) outputs that returns an (n, m) matrix; Euclidean
        distance if not given.
    normalise
        Divide the weights by their sum.

    >>> import whereish as wh
    >>> one = wh.EverywhereMechanism(
    ...     [[2**63]], ([0], [0]), wh.Places.from_xy([[0, 0]]), epsilon=1.0
    ... )
    >>> wh.expected_loss(one, [[3, 4], [0, 1]], [0.5, 0.5])
    3.0
    """
    if not isinstance(mechanism, EverywhereMechanism | PlanarLaplaceEverywhere):
        raise InputError(
            "mechanism must be an EverywhereMechanism or a PlanarLaplaceEverywhere, got "
            f"{type(mechanism).__name__}: for a Mechanism use quality_loss"
        )
    check_quality(quality_metric)
    return loss_of(mechanism, visits_in(mechanism, points, weights, normalise), quality_metric)


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
    xy = mechanism.outputs.xy
    if isinstance(mechanism, PlanarLaplaceEverywhere):
        groups = clustered(visits, _CLUSTERS)
        costs = expected_costs(visits, groups.of, len(groups.xy), xy, metric)
        masses = NoiseTable(mechanism.borders, mechanism.epsilon).masses(groups.xy)
        return float((masses * costs.T[mechanism.table.ravel()]).sum())
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
