"""Weighted points of a person: validation, clusters, medians and outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.places import Array, LocalPlane, Places, as_loss, as_numbers, as_prior, normalised
from whereish.places.lattice import FURTHEST_LATTICE_KM
from whereish.places.points import FURTHEST_KM

MOST_POINTS = 1_000_000
_WEISZFELD = 60  # steps of the iteration for a geometric median
_FEWEST_METRES = 1e-6  # km: no distance is taken as smaller, so that weights stay finite

QualityMetric = Callable[[Array, Array], ArrayLike] | ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Visits:
    """Points in a plane, in km, that somebody visits, with weights that sum to 1."""

    xy: Array
    weights: Array
    plane: LocalPlane | None = None

    def __len__(self) -> int:
        return len(self.xy)

    def places(self, xy: Array) -> Places:
        """Return places in the plane of the points."""
        return Places(xy, None if self.plane is None else self.plane.to_latlon(xy), self.plane)


def as_visits(
    points: ArrayLike | Places, weights: ArrayLike | None, normalise: bool = False
) -> Visits:
    """Validate points and weights; points without weight are left out.

    Parameters
    ----------
    points
        (n, 2) km in a plane, or `Places`.
    weights
        n non-negative numbers with sum 1; None if all points have the same.
    """
    plane = None
    if isinstance(points, Places):
        points.check_km()
        plane, points = points.plane, points.xy
    xy = as_numbers("points", points, (None, 2))
    if len(xy) == 0:
        raise InputError("points must hold at least one point, got none")
    if len(xy) > MOST_POINTS:
        raise InputError(f"points must be at most {MOST_POINTS:,}, got {len(xy):,}: cluster them")
    if np.abs(xy).max() > FURTHEST_LATTICE_KM:
        raise InputError(
            f"points must be within {FURTHEST_LATTICE_KM:g} km of the origin, and one is not"
        )
    if weights is None:
        shares = np.full(len(xy), 1 / len(xy))
    else:
        shares = as_prior(normalised(weights) if normalise else weights, len(xy), "weights")
    return Visits(xy[shares > 0], shares[shares > 0], plane)


def check_points(places: Places) -> None:
    """Raise InputError for visited points that no mechanism for all points can be built for."""
    most = FURTHEST_LATTICE_KM if places.plane is None else FURTHEST_KM
    # The corners of the rectangle of the lattice are further away than the points.
    if not np.hypot(*np.abs(places.xy).max(axis=0)) <= most:
        raise InputError(
            f"places must be within {most:g} km of the centre of their plane with guarantee "
            "everywhere, and one is further away",
            "places",
        )


def distances(points: Array, outputs: Array) -> Array:
    """Return the Euclidean distances between points and outputs."""
    east, north = (points[:, None, k] - outputs[None, :, k] for k in range(2))
    return np.sqrt(east * east + north * north)


def quality(points: Array, outputs: Array, metric: QualityMetric | None) -> Array:
    """Return d_Q between points and outputs, (n, m): a matrix, or a function that returns one."""
    if metric is None:
        return distances(points, outputs)
    found = metric(points, outputs) if callable(metric) else metric
    return as_loss("quality_metric", found, len(points), len(outputs), same=False)


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """Clusters of points: their centres, weights, and the cluster of each point."""

    xy: Array
    weights: Array
    of: NDArray[np.int64]


def clustered(visits: Visits, most: int) -> Clusters:
    """Group points in square cells, as small as at most so many clusters allow.

    The centre of a cluster is the weighted mean of its points. Equal points are always one cluster.
    """
    exact, of = np.unique(visits.xy, axis=0, return_inverse=True)
    if len(exact) > most:
        size = float(np.ptp(visits.xy, axis=0).max())
        low, high = 0.0, size * 1.001
        for _ in range(30):
            middle = (low + high) / 2
            fits = len(np.unique(_cell(visits.xy, middle), axis=0)) <= most
            low, high = (low, middle) if fits else (middle, high)
        _, of = np.unique(_cell(visits.xy, high), axis=0, return_inverse=True)
    of = of.reshape(-1).astype(np.int64)
    weights = np.bincount(of, visits.weights).astype(np.float64)
    centres = [np.bincount(of, visits.weights * axis) / weights for axis in visits.xy.T]
    return Clusters(np.column_stack(centres), weights, of)


def _cell(xy: Array, side: float) -> NDArray[np.int64]:
    cells: NDArray[np.int64] = np.floor((xy - xy.min(axis=0)) / side).astype(np.int64)
    return cells


def medians(weights: Array, points: Array) -> Array:
    """Return the geometric median of the points for each row of weights, (k, n): (k, 2).

    Weiszfeld's iteration, compared with the best of the points themselves.
    """
    away = distances(points, points)
    at_points = weights @ away
    best = at_points.argmin(axis=1)
    found = (weights @ points) / weights.sum(axis=1, keepdims=True)
    for _ in range(_WEISZFELD):
        pull = weights / np.maximum(distances(found, points), _FEWEST_METRES)
        found = (pull @ points) / pull.sum(axis=1, keepdims=True)
    cost = (weights * distances(found, points)).sum(axis=1)
    return np.asarray(np.where((cost < at_points.min(axis=1))[:, None], found, points[best]))


def separate(xy: Array, least: float) -> Array:
    """Return the points without those closer than this to an earlier one."""
    close = distances(xy, xy) < least
    kept = np.zeros(len(xy), bool)
    for k, row in enumerate(close):
        kept[k] = not (row & kept).any()
    return np.asarray(xy[kept])
