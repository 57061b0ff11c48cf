"""Greedy spanners: few edges whose shortest paths approximate every distance.

With constraints on the edges of a spanner of dilation delta, at epsilon / delta, a mechanism is
private for all pairs (Section 3.3 of the paper).
"""

from __future__ import annotations

import math
from ctypes import byref, c_int64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.compiled import Status, address, library
from whereish.deadline import Deadline, OutOfTimeError
from whereish.errors import InputError, SolveError
from whereish.extras import require
from whereish.limits import LARGEST_DILATION
from whereish.places import Array, Immutable, Places, as_metric, as_number, readonly

# Of three places on a line the longest pair is redundant, but their distances add up only up to
# rounding. A relative detour this small (0.1 micrometres in a kilometre) counts as none.
COLLINEAR_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Spanner(Immutable):
    """A graph on the places whose shortest paths are at most `dilation` times the distance.

    Attributes
    ----------
    edges
        (m, 2) pairs of places, x < x', in the order in which they were added.
    lengths
        (m,) their distances.
    requested
        The dilation that was requested.
    dilation
        The measured dilation: the largest stretch of a pair, at most `requested`.
    mean_dilation
        The mean stretch of all pairs.
    exact_dilation
        The measured dilation without rounding. It may exceed `requested` by `COLLINEAR_TOLERANCE`.
        Epsilon is divided by this one (`edge_epsilon`), so that rounding costs no privacy.
    """

    edges: NDArray[np.int64]
    lengths: Array
    requested: float
    dilation: float
    mean_dilation: float
    exact_dilation: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", readonly(self.edges))
        object.__setattr__(self, "lengths", readonly(self.lengths))

    def edge_epsilon(self, epsilon: float) -> float:
        """Return the level on the edges that gives all pairs this epsilon: epsilon / dilation.

        A path along the edges is at most `exact_dilation` times as long as the distance, so ratios
        of exp(edge epsilon * length) multiply to at most exp(epsilon * distance) (Section 3.3).
        """
        return epsilon / self.exact_dilation

    def to_networkx(self, places: Places | None = None) -> Any:
        """Return the graph for networkx, with the attribute ``length`` of each edge.

        Parameters
        ----------
        places
            The places of the spanner: their labels become the names of the nodes.
        """
        graph = require("networkx", "to_networkx").Graph()
        most = int(self.edges.max()) + 1 if len(self.edges) else 1
        names = tuple(range(most)) if places is None or not places.labels else places.labels
        graph.add_nodes_from(names)
        for (a, b), length in zip(self.edges.tolist(), self.lengths.tolist(), strict=True):
            graph.add_edge(names[a], names[b], length=length)
        return graph

    @property
    def stretch(self) -> float:
        """The former name of `exact_dilation`."""
        return self.exact_dilation


def check_dilation(dilation: float) -> float:
    """Check that a dilation is a number of at least 1."""
    delta = as_number("dilation", dilation, above=0)
    if delta < 1:
        raise InputError(f"dilation must be at least 1, got {delta:g}")
    return delta


def greedy_spanner(distances: ArrayLike, dilation: float) -> Spanner:
    """Build a greedy spanner (Algorithm 1 of the paper).

    Take all pairs in increasing distance, and add a pair as an edge if its shortest path along the
    edges so far is longer than ``dilation`` times its distance. With ``dilation=1`` the result is
    the smallest graph that induces the metric; for a graph metric, the edges of that graph without
    the redundant ones.

    Parameters
    ----------
    distances
        (n, n) metric.
    dilation
        At least 1.

    Notes
    -----
    The shortest-path distances d_G of all pairs are updated with every edge. An edge (u, v) can
    only shorten paths between the places nearer to u and those nearer to v, so an update touches
    no other pair. In the plane the number of edges is O(n / (dilation - 1)).

    References
    ----------
    .. [1] Althofer, Das, Dobkin, Joseph, Soares: On sparse spanners of weighted graphs. Discrete
       and Computational Geometry 9, 1993.

    >>> greedy_spanner([[0, 1, 2], [1, 0, 1], [2, 1, 0]], 1.0).edges.tolist()
    [[0, 1], [1, 2]]
    """
    return spanner_of(as_metric("distances", distances), dilation, Deadline())


def spanner_of(metric: Array, dilation: float, deadline: Deadline) -> Spanner:
    """Do what `greedy_spanner` does, for a metric that is already validated.

    Raises
    ------
    OutOfTimeError
        If the deadline passes first.
    """
    delta = min(check_dilation(dilation), LARGEST_DILATION)
    n = len(metric)
    distances = np.ascontiguousarray(metric, np.float64)
    paths, edges = np.empty((n, n)), np.empty((n * (n - 1) // 2, 2), np.int32)
    count = c_int64()
    left = math.inf if deadline.seconds is None else deadline.seconds
    status = library().wi_spanner(
        n,
        address(distances, np.float64),
        delta * (1 + COLLINEAR_TOLERANCE),
        left,
        address(edges, np.int32),
        byref(count),
        address(paths, np.float64),
    )
    if status == Status.OUT_OF_TIME:
        raise OutOfTimeError("the time allowed was up while the spanner was built")
    if status != Status.OK:
        raise SolveError(f"the spanner cannot be built: {Status(status).name.lower()}")
    kept = edges[: count.value].astype(np.int64)
    row, column = np.triu_indices(n, 1)
    stretches = paths[row, column] / distances[row, column]
    stretch = float(stretches.max(initial=1.0))
    return Spanner(
        edges=kept,
        lengths=distances[kept[:, 0], kept[:, 1]],
        requested=delta,
        dilation=min(stretch, delta),
        mean_dilation=float(stretches.mean()) if len(stretches) else 1.0,
        exact_dilation=stretch,
    )
