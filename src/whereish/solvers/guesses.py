"""Good guesses to begin with: which pairs to constrain, which outputs to allow.

Neither has to be right. Pairs join when they matter, outputs when they pay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array

NEIGHBOURS = 6


def first_rows(n: int, edges: NDArray[np.int64], exponents: Array) -> NDArray[np.int64]:
    """Choose rows to begin with: both ways of each place's nearest pairs and of a spanning tree."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    count = len(edges)
    near = np.zeros(count, dtype=bool)
    order = np.argsort(exponents, kind="stable")
    seen = np.zeros(n, dtype=np.int64)
    for e in order:
        a, b = edges[e]
        if seen[a] < NEIGHBOURS or seen[b] < NEIGHBOURS:
            near[e] = True
            seen[a] += 1
            seen[b] += 1
    graph = coo_array((np.arange(1, count + 1)[np.argsort(order)], tuple(edges.T)), shape=(n, n))
    tree = minimum_spanning_tree(graph.tocsr()).tocoo()
    near[order[tree.data.astype(np.int64) - 1]] = True
    chosen = np.flatnonzero(near)
    rows: NDArray[np.int64] = np.r_[chosen, chosen + count]
    return rows


def likely_outputs(prior: Array, loss: Array, reach: Array) -> NDArray[np.int64]:
    """Guess the outputs in use: those of the tight-constraints mechanism after its best remap."""
    n, m = loss.shape
    if m <= 12:
        return np.arange(m)
    kernel = np.exp(-reach)
    try:
        weights = np.maximum(np.linalg.solve(kernel, np.ones(n)), 0.0)
    except np.linalg.LinAlgError:
        weights = np.ones(n)
    errors = (prior[:, None] * kernel).T @ loss
    return np.asarray(np.unique(errors.argmin(axis=1)[weights > 0]), dtype=np.int64)
