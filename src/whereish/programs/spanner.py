"""Greedy spanners: few edges whose shortest paths approximate every distance.

With constraints on the edges of a spanner of dilation delta, at epsilon / delta, a mechanism is
private for all pairs (Section 3.3 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.deadline import Deadline
from whereish.errors import InputError
from whereish.limits import LARGEST_DILATION
from whereish.places import Array, Immutable, as_metric, as_number, readonly

# Of three places on a line the longest pair is redundant, but their distances add up only up to
# rounding. A relative detour this small (0.1 micrometres in a kilometre) counts as none.
COLLINEAR_TOLERANCE = 1e-10
_BATCH = 4096


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
    row, column = np.triu_indices(n, 1)
    order = np.argsort(metric[row, column], kind="stable")
    row, column = row[order], column[order]
    allowed = metric * (delta * (1 + COLLINEAR_TOLERANCE))

    graph = np.full((n, n), np.inf)  # d_G, the distances along the edges so far
    np.fill_diagonal(graph, 0.0)
    kept: list[tuple[int, int]] = []
    for start in range(0, len(row), _BATCH):
        rows, columns = row[start : start + _BATCH], column[start : start + _BATCH]
        candidates = graph[rows, columns] > allowed[rows, columns]
        for u, v in zip(rows[candidates].tolist(), columns[candidates].tolist(), strict=True):
            if graph[u, v] > allowed[u, v]:
                deadline.check("while the spanner was built")
                kept.append((u, v))
                _add_edge(graph, u, v, float(metric[u, v]))

    edges = np.array(kept, dtype=np.int64).reshape(-1, 2)
    stretches = graph[row, column] / metric[row, column]
    stretch = float(stretches.max(initial=1.0))
    return Spanner(
        edges=edges,
        lengths=metric[edges[:, 0], edges[:, 1]],
        requested=delta,
        dilation=min(stretch, delta),
        mean_dilation=float(stretches.mean()) if len(stretches) else 1.0,
        exact_dilation=stretch,
    )


def _add_edge(graph: Array, u: int, v: int, length: float) -> None:
    """Update the shortest-path distances for a new edge."""
    from_u, from_v = graph[u], graph[v]
    near_u = np.flatnonzero(from_u + length < from_v)
    near_v = np.flatnonzero(from_v + length < from_u)
    through_edge = (from_u[near_u] + length)[:, None] + from_v[near_v]
    shortest = np.minimum(graph[np.ix_(near_u, near_v)], through_edge)
    graph[np.ix_(near_u, near_v)] = shortest
    graph[np.ix_(near_v, near_u)] = shortest.T
