"""Streets: a network of nodes and streets, points on the streets, and distances along them.

Lengths are whole numbers of a unit of 2^-40 km, about a nanometre, and a point on a street is a
whole number of units from its first node. So the distance along the streets between any two points
is exact: a sum of whole numbers below 2^53. See docs/proofs/roads.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.limits import MOST_VERTICES
from whereish.places.lattice import UNITS_PER_KM, Whole
from whereish.places.metrics import shortest_paths, symmetric_graph
from whereish.places.points import SAME_PLACE_KM, Places
from whereish.places.validation import Array, Immutable, as_number, as_numbers, readonly

# All streets together. Three times this, the longest sum of a distance, is below 2^53 units.
MOST_STREETS_KM = 2048.0
SNAP_KM = 1.0  # a point further from every street is more likely a mistake than a place
_FEW_SOURCES = 4  # a table of all nodes pays off from this share of them: a quarter
_ROW_NUMBERS = 20_000_000  # distances that a search holds at once: 160 MB
_LEAST = int(SAME_PLACE_KM * UNITS_PER_KM)  # a street is at least a millimetre long, in units


@dataclass(frozen=True, eq=False, init=False)
class RoadNetwork(Immutable):
    """A connected network of streets.

    A street joins two nodes. It is drawn as a straight line, and its length is the one given: a
    point in the middle of the line is in the middle of the street. Streets meet in nodes only, so
    a bridge is two streets that cross without a node. Two nodes may be joined by several streets.

    Parameters
    ----------
    nodes
        (n, 2) km in a plane, or `Places`.
    edges
        (m, 2) numbers of nodes: the two ends of each street.
    lengths
        (m,) km, at least a millimetre each; the straight line between the ends if not given. They
        are rounded to units of 2^-40 km. A length may be shorter than the straight line.

    >>> network = RoadNetwork([[0, 0], [1, 0], [1, 1]], [[0, 1], [1, 2]], lengths=[1.0, 2.5])
    >>> network
    RoadNetwork(3 nodes, 2 streets, 3.5 km)
    >>> network.distances(network.at([0], [0.5]), network.at([1, 0], [1.0, 0.25])).tolist()
    [[3.0, 0.25]]
    """

    nodes: Places
    edges: NDArray[np.int64]
    lengths: Array

    def __init__(
        self, nodes: ArrayLike | Places, edges: ArrayLike, lengths: ArrayLike | None = None
    ) -> None:
        places = _as_nodes(nodes)
        places.check_km()
        ends = _as_edges(edges, len(places))
        units = _as_units(places, ends, lengths)
        object.__setattr__(self, "nodes", places)
        object.__setattr__(self, "edges", readonly(ends))
        object.__setattr__(self, "lengths", readonly(units / UNITS_PER_KM))
        parts = components(len(places), ends)
        if parts.max() > 0:
            raise InputError(
                f"the streets must be connected, and they are in {parts.max() + 1} parts: use "
                "RoadNetwork.largest_part to keep the longest one"
            )

    @classmethod
    def largest_part(
        cls, nodes: ArrayLike | Places, edges: ArrayLike, lengths: ArrayLike | None = None
    ) -> RoadNetwork:
        """Return the connected part with the longest streets; nodes are numbered anew, in order.

        >>> RoadNetwork.largest_part([[0, 0], [1, 0], [5, 5], [5, 7]], [[0, 1], [2, 3]])
        RoadNetwork(2 nodes, 1 streets, 2 km)
        """
        places = _as_nodes(nodes)
        ends = _as_edges(edges, len(places))
        units = _as_units(places, ends, lengths)
        parts = components(len(places), ends)
        best = int(np.bincount(parts[ends[:, 0]], units).argmax())
        inside, kept = parts == best, parts[ends[:, 0]] == best
        number = np.cumsum(inside) - 1
        chosen = places.subset(np.flatnonzero(inside).tolist())
        return cls(chosen, number[ends[kept]], units[kept] / UNITS_PER_KM)

    def __repr__(self) -> str:
        return (
            f"RoadNetwork({len(self.nodes)} nodes, {len(self.edges)} streets, "
            f"{self.lengths.sum():.3g} km)"
        )

    def same_as(self, other: RoadNetwork) -> bool:
        """Whether two networks are the same streets in the same order."""
        return self is other or (
            self.nodes.same_as(other.nodes)
            and np.array_equal(self.edges, other.edges)
            and np.array_equal(self.lengths, other.lengths)
        )

    @cached_property
    def units(self) -> Whole:
        """(m,) lengths in whole units of 2^-40 km."""
        return cast(Whole, readonly((self.lengths * UNITS_PER_KM).astype(np.int64)))

    @cached_property
    def between_nodes(self) -> Array:
        """(n, n) distances along the streets between nodes, in whole units, as exact doubles."""
        if len(self.nodes) > MOST_VERTICES:
            raise InputError(
                f"nodes must be at most {MOST_VERTICES:,} for a table of all distances, got "
                f"{len(self.nodes):,}: take a smaller area"
            )
        return shortest_paths(len(self.nodes), self.edges, self.units.astype(np.float64))

    @cached_property
    def _tree(self) -> Any:
        from shapely import STRtree, linestrings

        return STRtree(linestrings(self.nodes.xy[self.edges]))

    def at(self, edges: ArrayLike, shares: ArrayLike) -> RoadPoints:
        """Return points on streets, by the number of the street and the share from its first end.

        Parameters
        ----------
        edges
            (n,) numbers of streets.
        shares
            (n,) from 0, the first node of the street, to 1, the second one.
        """
        numbers = as_numbers("edges", edges, (None,))
        if ((numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= len(self.edges))).any():
            raise InputError(f"edges must be numbers of streets, from 0 to {len(self.edges) - 1}")
        street = numbers.astype(np.int64)
        parts = as_numbers("shares", shares, (len(street),))
        if ((parts < 0) | (parts > 1)).any():
            raise InputError("shares must be from 0 to 1, and one is not")
        return self._points(street, parts)

    def snap(
        self, points: ArrayLike | Places | RoadPoints, within_km: float = SNAP_KM
    ) -> RoadPoints:
        """Return the nearest point of a street for each point, by the straight line.

        Of several streets at the same distance, the first one is taken.

        Parameters
        ----------
        points
            (n, 2) km in the plane of the nodes, or `Places`.
        within_km
            InputError is raised if a point is further than this from all streets.
        """
        if isinstance(points, RoadPoints):
            if not points.network.same_as(self):
                raise InputError("points must be on the streets of this network, and are on others")
            return points
        limit = within_km if within_km == np.inf else as_number("within_km", within_km, unit="km")
        if isinstance(points, Places):
            points = points.in_plane_of(self.nodes).xy
        xy = as_numbers("points", points, (None, 2))
        if len(xy) == 0:
            raise InputError("points must hold at least one point, got none")
        from shapely import points as as_shapes

        which, found = self._tree.query_nearest(as_shapes(xy), all_matches=True)
        order = np.lexsort((found, which))
        first = np.r_[True, np.diff(which[order]) > 0]
        street = found[order][first].astype(np.int64)
        begin, end = (self.nodes.xy[self.edges[street, k]] for k in range(2))
        along = end - begin
        shares = ((xy - begin) * along).sum(axis=1) / np.square(along).sum(axis=1)
        snapped = self._points(street, np.clip(shares, 0.0, 1.0))
        away = np.hypot(*(xy - snapped.xy).T)
        if (away > limit).any():
            raise InputError(
                f"points must be within {limit:g} km of a street, and {int((away > limit).sum())} "
                f"of {len(xy)} are not: to move them all the same, use "
                "network.snap(points, within_km=...)"
            )
        return RoadPoints(self, snapped.edge, snapped.steps, away)

    def _points(self, street: Whole, shares: Array) -> RoadPoints:
        units = self.units[street]
        steps = np.clip(np.floor(shares * units + 0.5).astype(np.int64), 0, units)
        return RoadPoints(self, street, steps)

    def _paths(self, ends: Whole, others: Whole) -> Array:
        """Return (2, 2, n, m) distances in units from either end of a street to either other."""
        sources, of = np.unique(ends, return_inverse=True)
        targets, to = np.unique(others, return_inverse=True)
        whole = "between_nodes" in self.__dict__ or _FEW_SOURCES * len(sources) > len(self.nodes)
        if whole and len(self.nodes) <= MOST_VERTICES:
            found = self.between_nodes[np.ix_(sources, targets)]
        else:
            found = self._rows(sources, targets)
        of, to = of.reshape(ends.shape), to.reshape(others.shape)
        return np.array([[found[np.ix_(of[:, a], to[:, b])] for b in range(2)] for a in range(2)])

    def _rows(self, sources: Whole, targets: Whole) -> Array:
        """Return the distances in units between some nodes, without a table of all of them."""
        from scipy.sparse.csgraph import dijkstra

        graph = symmetric_graph(len(self.nodes), self.edges, self.units.astype(np.float64))
        found = np.empty((len(sources), len(targets)))
        step = max(1, _ROW_NUMBERS // len(self.nodes))
        for begin in range(0, len(sources), step):
            part = slice(begin, begin + step)
            found[part] = dijkstra(graph, indices=sources[part])[:, targets]
        return found

    def distances(self, points: RoadPoints, others: RoadPoints) -> Array:
        """Return the distances along the streets, (n, m), in km. They are exact."""
        here, there = self.snap(points), self.snap(others)
        found = np.full((len(here), len(there)), np.inf)
        paths = self._paths(here.ends, there.ends)
        for a in range(2):
            for b in range(2):
                path = paths[a, b]
                path += here.to_ends[:, a, None]
                path += there.to_ends[None, :, b]
                np.minimum(found, path, out=found)
        x, y = np.nonzero(here.edge[:, None] == there.edge)
        found[x, y] = np.minimum(found[x, y], np.abs(here.steps[x] - there.steps[y]))
        return found / UNITS_PER_KM


@dataclass(frozen=True, eq=False, repr=False)
class RoadPoints(Immutable):
    """Points on the streets of a network: made by `RoadNetwork.snap` and `RoadNetwork.at`.

    Attributes
    ----------
    network
        The streets.
    edge, steps
        (n,) the number of the street, and the units of 2^-40 km from its first node.
    snapped_km
        (n,) how far each point was moved to the street. It depends on the true location: do not
        pass it on.
    """

    network: RoadNetwork
    edge: Whole
    steps: Whole
    snapped_km: Array | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.network, RoadNetwork):
            raise InputError(f"network must be a RoadNetwork, got {type(self.network).__name__}")
        for name in ("edge", "steps"):
            value = np.asarray(getattr(self, name))
            if value.ndim != 1 or value.dtype.kind not in "iu" or len(value) != len(self.edge):
                raise InputError(f"{name} must be a list of whole numbers, one for each point")
            object.__setattr__(self, name, readonly(value.astype(np.int64)))
        if ((self.edge < 0) | (self.edge >= len(self.network.edges))).any():
            raise InputError(f"edge must be from 0 to {len(self.network.edges) - 1}")
        if ((self.steps < 0) | (self.steps > self.network.units[self.edge])).any():
            raise InputError("steps must be from 0 to the length of the street, and one is not")
        moved = np.zeros(len(self.edge)) if self.snapped_km is None else self.snapped_km
        object.__setattr__(
            self, "snapped_km", readonly(as_numbers("snapped_km", moved, (len(self.edge),)))
        )

    def __repr__(self) -> str:
        return f"RoadPoints({len(self)} on {len(self.network.edges)} streets)"

    def __len__(self) -> int:
        return len(self.edge)

    @property
    def ends(self) -> Whole:
        """(n, 2) the nodes at the two ends of the street of each point."""
        return self.network.edges[self.edge]

    @property
    def to_ends(self) -> Whole:
        """(n, 2) units to the two ends of the street of each point."""
        return np.column_stack([self.steps, self.network.units[self.edge] - self.steps])

    @cached_property
    def xy(self) -> Array:
        """(n, 2) km in the plane of the nodes: on the straight line of the street."""
        begin, end = (self.network.nodes.xy[self.ends[:, k]] for k in range(2))
        share = (self.steps / self.network.units[self.edge])[:, None]
        return cast(Array, readonly((1 - share) * begin + share * end))

    @cached_property
    def latlon(self) -> Array | None:
        """(n, 2) degrees, where the nodes lie on the earth."""
        plane = self.network.nodes.plane
        return None if plane is None else readonly(plane.to_latlon(self.xy))

    def subset(self, indices: ArrayLike) -> RoadPoints:
        """Return the points at these indices, in this order."""
        some = np.asarray(indices)
        moved = cast(Array, self.snapped_km)
        return RoadPoints(self.network, self.edge[some], self.steps[some], moved[some])

    def merged(self) -> tuple[RoadPoints, Whole]:
        """Return the different points among these, and which of them each point is.

        A node has a position on every street that ends there, and is one point.
        """
        position = np.column_stack([self.edge, self.steps])
        nodes = node_positions(self.network)
        for k in range(2):
            there = self.to_ends[:, k] == 0
            position[there] = nodes[self.ends[there, k]]
        exact, of = np.unique(position, axis=0, return_inverse=True)
        return RoadPoints(self.network, exact[:, 0], exact[:, 1]), of.reshape(-1).astype(np.int64)


def node_positions(network: RoadNetwork) -> Whole:
    """Return (n, 2) a street and the units from its first end, for each node."""
    found = np.empty((len(network.nodes), 2), np.int64)
    number = np.arange(len(network.edges))[::-1]  # the first street of a node is written last
    found[network.edges[::-1, 1]] = np.column_stack([number, network.units[::-1]])
    found[network.edges[::-1, 0]] = np.column_stack([number, np.zeros_like(number)])
    return found


def components(n: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the connected part of each node, from 0."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def _as_nodes(nodes: ArrayLike | Places) -> Places:
    return nodes if isinstance(nodes, Places) else Places(as_numbers("nodes", nodes, (None, 2)))


def _as_edges(edges: ArrayLike, n: int) -> NDArray[np.int64]:
    pairs = as_numbers("edges", edges, (None, 2)) if np.size(cast(Any, edges)) else np.empty((0, 2))
    if len(pairs) == 0:
        raise InputError("edges must hold at least one street, got none")
    wrong = ((pairs != np.floor(pairs)) | (pairs < 0) | (pairs >= n)).any(axis=1)
    if wrong.any():
        raise InputError(
            f"edges must name nodes from 0 to {n - 1}, and the pair at [{int(wrong.argmax())}] "
            "does not"
        )
    loop = pairs[:, 0] == pairs[:, 1]
    if loop.any():
        raise InputError(
            f"edges must join two different nodes, and the one at [{int(loop.argmax())}] does not: "
            "divide a street that comes back by another node"
        )
    return pairs.astype(np.int64)


def _as_units(places: Places, ends: NDArray[np.int64], lengths: ArrayLike | None) -> Whole:
    if lengths is None:
        km = np.hypot(*(places.xy[ends[:, 0]] - places.xy[ends[:, 1]]).T)
    else:
        km = as_numbers("lengths", lengths, (len(ends),))
    units = np.floor(np.clip(km, 0, 2 * MOST_STREETS_KM) * UNITS_PER_KM + 0.5).astype(np.int64)
    if (units < _LEAST).any():
        at = int(np.argmax(units < _LEAST))
        raise InputError(f"lengths must be a millimetre or more, and the one at [{at}] is not")
    if units.sum(dtype=np.float64) > MOST_STREETS_KM * UNITS_PER_KM:
        raise InputError(f"lengths must sum to at most {MOST_STREETS_KM:g} km, and they do not")
    return cast(Whole, units)
