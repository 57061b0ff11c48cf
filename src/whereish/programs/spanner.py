"""Greedy spanners (Section 3.3, Algorithm 1): few pairs whose paths stand for all pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.deadline import Deadline
from whereish.errors import InputError
from whereish.limits import LARGEST_DILATION
from whereish.places import Array, Immutable, as_metric, as_number, readonly

# Three places on a line make the long pair redundant, but their distances add up only to the
# last digits. A detour this small (a tenth of a micrometre in a kilometre) is no detour.
COLLINEAR_TOLERANCE = 1e-10
_BATCH = 4096


@dataclass(frozen=True, eq=False)
class Spanner(Immutable):
    """A graph on the places whose shortest ways are at most `dilation` times the distance.

    Attributes
    ----------
    edges
        (m, 2) pairs of places, x < x', in the order they were taken.
    lengths
        (m,) their distances.
    requested
        The dilation that was asked for.
    dilation
        The dilation that was measured: never larger than the one asked for.
    mean_dilation
        The average stretch over all pairs.
    stretch
        The measured dilation to the last digit. It exceeds `requested` by rounding at most
        (`COLLINEAR_TOLERANCE`); privacy is scaled by this one, so rounding costs no privacy.
    """

    edges: NDArray[np.int64]
    lengths: Array
    requested: float
    dilation: float
    mean_dilation: float
    stretch: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", readonly(self.edges))
        object.__setattr__(self, "lengths", readonly(self.lengths))


def check_dilation(dilation: float) -> float:
    """Return a dilation, or say that it is none."""
    delta = as_number("dilation", dilation, above=0)
    if delta < 1:
        raise InputError(f"dilation must be at least 1, got {delta:g}")
    return delta


def greedy_spanner(distances: ArrayLike, dilation: float) -> Spanner:
    """Build a spanner of small dilation with few edges.

    Algorithm 1 of the paper: take all pairs in increasing distance and keep a pair when the way
    along the pairs kept so far is longer than ``dilation`` times the distance. With
    ``dilation=1`` what remains is the smallest graph that induces the metric: for a metric that
    came from a graph, (the necessary part of) that graph.

    Parameters
    ----------
    distances
        (n, n) metric.
    dilation
        At least 1.

    Notes
    -----
    The distances d_G along the graph are kept up to date for all pairs. An edge (u, v) can only
    shorten a way from the side of u to the side of v, so an update touches those two sides and
    no other pair. In the plane the number of edges is O(n / (dilation - 1)).

    >>> greedy_spanner([[0, 1, 2], [1, 0, 1], [2, 1, 0]], 1.0).edges.tolist()
    [[0, 1], [1, 2]]
    """
    return spanner_of(as_metric("distances", distances), dilation, Deadline())


def spanner_of(metric: Array, dilation: float, deadline: Deadline) -> Spanner:
    """Do what `greedy_spanner` does with a metric that was checked, by some time.

    Raises
    ------
    OutOfTimeError
        If it is not done by then.
    """
    delta = min(check_dilation(dilation), LARGEST_DILATION)
    n = len(metric)
    row, column = np.triu_indices(n, 1)
    order = np.argsort(metric[row, column], kind="stable")
    row, column = row[order], column[order]
    allowed = metric * (delta * (1 + COLLINEAR_TOLERANCE))

    along = np.full((n, n), np.inf)
    np.fill_diagonal(along, 0.0)
    kept: list[tuple[int, int]] = []
    for start in range(0, len(row), _BATCH):
        rows, columns = row[start : start + _BATCH], column[start : start + _BATCH]
        doubtful = along[rows, columns] > allowed[rows, columns]
        for u, v in zip(rows[doubtful].tolist(), columns[doubtful].tolist(), strict=True):
            if along[u, v] > allowed[u, v]:
                deadline.check("while the pairs that stand for all were looked for")
                kept.append((u, v))
                _add_edge(along, u, v, float(metric[u, v]))

    edges = np.array(kept, dtype=np.int64).reshape(-1, 2)
    stretches = along[row, column] / metric[row, column]
    stretch = float(stretches.max(initial=1.0))
    return Spanner(
        edges=edges,
        lengths=metric[edges[:, 0], edges[:, 1]],
        requested=delta,
        dilation=min(stretch, delta),
        mean_dilation=float(stretches.mean()) if len(stretches) else 1.0,
        stretch=stretch,
    )


def _add_edge(along: Array, u: int, v: int, length: float) -> None:
    from_u, from_v = along[u], along[v]
    near_u = np.flatnonzero(from_u + length < from_v)
    near_v = np.flatnonzero(from_v + length < from_u)
    ways = (from_u[near_u] + length)[:, None] + from_v[near_v]
    block = np.minimum(along[np.ix_(near_u, near_v)], ways)
    along[np.ix_(near_u, near_v)] = block
    along[np.ix_(near_v, near_u)] = block.T
