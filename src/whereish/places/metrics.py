"""Metrics on places: Euclidean, geodesic, shortest path in a graph, and discrete.

`METRICS` is the one registry of metrics that have a name. One line at the end of this file, or one
call of `register_metric`, adds a metric to JSON descriptions, the command line, the HTTP schema and
their documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.places.points import Places
from whereish.places.validation import Array, as_numbers, as_whole


def euclidean(places: Places, others: Places | None = None) -> Array:
    """Return Euclidean distances in the local plane, in km.

    The rows are places, the columns others: the same places if not given.

    >>> euclidean(Places.from_xy([[0, 0], [3, 4]])).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    columns = _places(places) if others is None else _places(others).in_plane_of(_places(places))
    apart = places.xy[:, None, :] - columns.xy[None, :, :]
    return np.hypot(apart[..., 0], apart[..., 1])


def geodesic(places: Places, others: Places | None = None) -> Array:
    """Return geodesic distances on the WGS84 ellipsoid, in km.

    The rows are places, the columns others: the same places if not given. InputError is raised if
    they have no latitude and longitude.
    """
    columns = _places(places) if others is None else _places(others)
    if _places(places).latlon is None or places.latlon is None or columns.latlon is None:
        raise InputError("geodesic needs places on the earth: make them with Places.from_latlon")
    from pyproj import Geod

    n, m = len(places), len(columns)
    lat, lon = np.repeat(places.latlon, m, axis=0).T
    other_lat, other_lon = np.tile(columns.latlon, (n, 1)).T
    metres = Geod(ellps="WGS84").inv(lon, lat, other_lon, other_lat)[2]
    ground = np.asarray(metres).reshape(n, m) / 1000
    # The inverse geodesic differs in its last digits by direction; a metric must be symmetric.
    return (ground + ground.T) / 2 if others is None else ground


def _places(value: Places) -> Places:
    if not isinstance(value, Places):
        kind = type(value).__name__
        has_places = isinstance(getattr(value, "places", None), Places)  # like a Profile
        use = f"the places of the {kind}: .places" if has_places else "Places.from_xy(xy_km)"
        raise InputError(f"places must be Places, got {kind}: use {use}")
    return value


def graph_metric(n: int, edges: ArrayLike, lengths: ArrayLike) -> Array:
    """Return the shortest-path distances d_G of an undirected graph (Section 3.2 of the paper).

    A mechanism for this metric needs constraints on the edges only. `whereish.optimal` finds
    the edges again from the distances, and the result is exact.

    Parameters
    ----------
    n
        Number of places.
    edges
        (m, 2) indices of places.
    lengths
        (m,) positive lengths, in km. In another unit, epsilon is per that unit.

    >>> graph_metric(3, [[0, 1], [1, 2]], [1.0, 2.5]).tolist()
    [[0.0, 1.0, 3.5], [1.0, 0.0, 2.5], [3.5, 2.5, 0.0]]
    """
    as_whole("n", n)
    listed = edges if isinstance(edges, np.ndarray) else list(cast(Any, edges))
    pairs = as_numbers("edges", listed if len(listed) else np.empty((0, 2)), (None, 2))
    weights = as_numbers("lengths", lengths, (len(pairs),))
    wrong = (pairs != np.floor(pairs)) | (pairs < 0) | (pairs >= n)
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=1)))
        raise InputError(
            f"edges must name places from 0 to {n - 1}, and the pair at [{row}] does not"
        )
    if (weights <= 0).any():
        row = int(np.argmax(weights <= 0))
        raise InputError(f"lengths must be positive, and the one at [{row}] is not")
    metric = shortest_paths(n, pairs.astype(np.int64), weights)
    if np.isinf(metric).any():
        x, y = (int(i) for i in np.argwhere(np.isinf(metric))[0])
        raise InputError(f"edges must connect all places, but there is no path from {x} to {y}")
    return metric


def shortest_paths(n: int, pairs: NDArray[np.int64], lengths: Array) -> Array:
    """Return the (n, n) lengths of shortest paths in an undirected graph; infinite without a path.

    Of parallel edges the shortest counts. The result is symmetric, and exact if all lengths are
    whole numbers whose sum is at most 2^53.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    a, b = np.sort(pairs, axis=1).T
    order = np.lexsort((lengths, b, a))  # of parallel edges the shortest comes first, and is kept
    a, b, lengths = a[order], b[order], lengths[order]
    first = np.r_[True, (a[1:] != a[:-1]) | (b[1:] != b[:-1])][: len(a)]
    first &= a != b
    graph = coo_array((lengths[first], (a[first], b[first])), shape=(n, n)).tocsr()
    metric = np.asarray(shortest_path(graph, directed=False), dtype=np.float64)
    return np.minimum(metric, metric.T)


def symmetric_graph(n: int, edges: NDArray[Any], lengths: Array) -> Any:
    """Return an undirected graph as a sparse matrix; of parallel edges the shortest counts."""
    from scipy.sparse import coo_array

    a, b = np.concatenate([edges, edges[:, ::-1]]).T
    weights = np.concatenate([lengths, lengths])
    order = np.lexsort((weights, b, a))  # the shortest of parallel edges comes first
    a, b, weights = a[order], b[order], weights[order]
    first = np.r_[True, (a[1:] != a[:-1]) | (b[1:] != b[:-1])][: len(a)]
    return coo_array((weights[first], (a[first], b[first])), shape=(n, n)).tocsr()


def discrete(n: int) -> Array:
    """Return the discrete metric: 0 for the same place, 1 for two different ones.

    >>> discrete(2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    as_whole("n", n)
    return np.ones((n, n)) - np.eye(n)


USES = ("privacy", "quality", "adversary")  # d_X, d_Q and d_A


@dataclass(frozen=True)
class Metric:
    """A metric that has a name in JSON and flags."""

    name: str
    about: str  # one line of words
    distances: Callable[[Places], Array]  # returns the (n, n) distances of n places
    uses: tuple[str, ...] = USES  # what it may measure
    on_earth: bool = False  # whether it needs latitudes and longitudes


METRICS: dict[str, Metric] = {}


def register_metric(
    name: str,
    about: str,
    distances: Callable[[Places], Array],
    uses: Iterable[str] = USES,
    *,
    on_earth: bool = False,
) -> Metric:
    """Add a metric to the registry. See `Metric` for the parameters."""
    METRICS[name] = Metric(name, about, distances, tuple(uses), on_earth)
    return METRICS[name]


def metric_names(use: str) -> tuple[str, ...]:
    """Return the names of the metrics for one use.

    >>> metric_names("privacy")
    ('euclidean', 'geodesic')
    """
    return tuple(name for name, metric in METRICS.items() if use in metric.uses)


def named_metric(name: str | None, places: Places) -> Array | None:
    """Return the distances of a named metric; None for Euclidean distance, every default."""
    return None if name is None or name == "euclidean" else METRICS[name].distances(places)


register_metric("euclidean", "straight-line distance in the plane, km", euclidean)
register_metric("geodesic", "distance on the WGS84 ellipsoid, km", geodesic, on_earth=True)
# Under the discrete metric every pair is equally close: that is no location privacy.
register_metric(
    "discrete", "0 for the same place, 1 for any other", lambda places: discrete(len(places)),
    ("quality", "adversary"),
)  # fmt: skip
