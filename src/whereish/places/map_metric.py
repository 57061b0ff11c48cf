"""Metrics that were made from a map: distances along roads, and the elastic metric.

Such a metric has a meaning that a matrix does not tell: what epsilon is per. `KINDS` is the one
table of the kinds and of their words, which build records, certificates and commands repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.limits import MOST_PLACES
from whereish.places.metrics import shortest_paths, symmetric_graph
from whereish.places.points import Places
from whereish.places.validation import Array, Immutable, as_metric, as_numbers, readonly

MOST_IN_MATRIX = 2_500  # places of a matrix: to check all its triangles takes half a minute
_SAME_KM = 1e-3  # a metre: a place this close to one of the metric is that one


@dataclass(frozen=True)
class MetricKind:
    """What a metric from a map measures, in words."""

    name: str
    epsilon_unit: str  # what an epsilon is per
    distance: str  # the name of its distance
    apart: str  # how two places d apart are described, after the number
    about: str  # one sentence: what epsilon means there
    is_km: bool  # whether a distance is a length


KINDS = {
    "roads": MetricKind(
        "roads",
        "per km along the roads",
        "distance along the roads, in km",
        "km apart along the roads",
        "A distance is the length of the shortest way from a place to the nearest road, along the "
        "roads, and from the road to the other place.",
        True,
    ),
    "elastic": MetricKind(
        "elastic",
        "per unit of the elastic metric",
        "elastic distance, which has no unit of length",
        "apart in the elastic metric",
        "Around every cell, the cells within distance l hold at least the mass (l / ln 2)^2, up to "
        "l = ln 6; a mass of 1 is what lies within 300 m in the middle of the map.",
        False,
    ),
}


@dataclass(frozen=True, eq=False)
class MapMetric(Immutable):
    """A metric between places that was made from a map: a ``privacy_metric`` with a meaning.

    It is given as a matrix, or as the edges of a graph whose shortest paths are the distances. The
    constructor checks the axioms: of a matrix all triangles, of a graph that lengths are positive
    and that all places are connected. `whereish.load_metric` reads one from a file.

    Parameters
    ----------
    kind
        A name of `KINDS`: "roads" or "elastic".
    places
        The n places.
    matrix
        (n, n) distances, or None.
    edges, lengths
        (m, 2) numbers of places and (m,) positive lengths, or None.
    facts
        What is known about how it was made: plain JSON.
    attribution
        Who made the map.

    >>> places = Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> road = MapMetric("roads", places, edges=[[0, 1], [1, 2]], lengths=[1.5, 2.0])
    >>> road
    MapMetric(roads, 3 places, epsilon per km along the roads)
    >>> road.between(places.subset([2, 0])).tolist()
    [[0.0, 3.5], [3.5, 0.0]]
    """

    kind: str
    places: Places
    matrix: Any = None
    edges: Any = None
    lengths: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
    attribution: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, got another one")
        if not isinstance(self.places, Places):
            raise InputError(f"places must be Places, got {type(self.places).__name__}")
        n = len(self.places)
        if n > MOST_PLACES:
            raise InputError(f"places must be at most {MOST_PLACES:,}, got {n:,}")
        if (self.matrix is None) == (self.edges is None):
            raise InputError("a metric must be a matrix, or edges with lengths, and not both")
        if (self.edges is None) != (self.lengths is None):
            raise InputError("edges must come with lengths")
        if self.matrix is not None:
            if n > MOST_IN_MATRIX:
                raise InputError(
                    f"a matrix must be for at most {MOST_IN_MATRIX:,} places, got {n:,}"
                )
            checked = as_metric("distances", self.matrix, n)
            object.__setattr__(self, "matrix", readonly(checked))
        else:
            edges, lengths = _as_graph(n, self.edges, self.lengths)
            object.__setattr__(self, "edges", readonly(edges))
            object.__setattr__(self, "lengths", readonly(lengths))

    def __repr__(self) -> str:
        return f"MapMetric({self.kind}, {len(self)} places, epsilon {self.words.epsilon_unit})"

    def __len__(self) -> int:
        return len(self.places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the distances: a metric may be given wherever an array may."""
        return np.array(self.distances, dtype=dtype)

    @property
    def words(self) -> MetricKind:
        """What it measures, in words."""
        return KINDS[self.kind]

    @cached_property
    def distances(self) -> Array:
        """(n, n) distances, read-only. Of a graph with 10,000 places they take 0.8 GB."""
        if self.matrix is not None:
            return cast(Array, self.matrix)
        pairs = self.edges.astype(np.int64)
        return cast(Array, readonly(shortest_paths(len(self), pairs, self.lengths)))

    def between(self, places: Places) -> Array:
        """Return the (k, k) distances between some of its places, in the order given.

        Raises
        ------
        InputError
            If one of them is not a place of the metric, or two are the same one.
        """
        numbers = self._numbers(places)
        if self.matrix is not None or "distances" in self.__dict__:
            return np.array(self.distances[np.ix_(numbers, numbers)])
        from scipy.sparse.csgraph import dijkstra

        rows = np.asarray(dijkstra(self.graph, directed=True, indices=numbers))[:, numbers]
        return np.minimum(rows, rows.T)

    def restricted(self, places: Places) -> MapMetric:
        """Return the metric on some of its places, as a matrix."""
        if self.matrix is not None and places.same_as(self.places):
            return self
        return MapMetric(
            self.kind, places, self.between(places), None, None, self.facts, self.attribution
        )

    @cached_property
    def graph(self) -> Any:
        """The edges as a symmetric sparse matrix of SciPy."""
        return symmetric_graph(len(self), self.edges, self.lengths)

    def _numbers(self, places: Places) -> NDArray[np.int64]:
        if not isinstance(places, Places):
            raise InputError(f"places must be Places, got {type(places).__name__}")
        if places.same_as(self.places):
            return np.arange(len(self))
        away, numbers = self.places.tree.query(places.in_plane_of(self.places).xy)
        missing = int((away > _SAME_KM).sum())
        if missing:
            raise InputError(
                f"places must be those of the metric, and {missing} of {len(places)} are not: make "
                "the metric for them with whereish metric EXTRACT --around PROFILE"
            )
        if len(set(numbers.tolist())) < len(numbers):
            raise InputError("places must be different places of the metric, and two are the same")
        return np.asarray(numbers, np.int64)


def _as_graph(n: int, edges: Any, lengths: Any) -> tuple[NDArray[np.int32], Array]:
    from scipy.sparse.csgraph import connected_components

    pairs = as_numbers("edges", edges, (None, 2))
    weights = as_numbers("lengths", lengths, (len(pairs),))
    wrong = ((pairs != np.floor(pairs)) | (pairs < 0) | (pairs >= n)).any(axis=1)
    wrong |= pairs[:, 0] == pairs[:, 1]
    if wrong.any():
        raise InputError(
            f"edges must join two different places from 0 to {n - 1}, and the one at "
            f"[{int(wrong.argmax())}] does not"
        )
    if (weights <= 0).any():
        at = int(np.argmax(weights <= 0))
        raise InputError(f"lengths must be positive, and the one at [{at}] is not")
    ends = pairs.astype(np.int32)
    parts, _ = connected_components(symmetric_graph(n, ends, weights), directed=False)
    if parts > 1:
        raise InputError(f"edges must connect all places, and they leave {parts} parts")
    return ends, weights
