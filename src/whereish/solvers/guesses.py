"""Good guesses to begin with: which pairs to constrain, which outputs to allow.

Neither has to be right. Pairs join when they matter, outputs when they pay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array

NEIGHBOURS = 4
# So few outputs are all taken.
FEW = 12


def first_rows(n: int, edges: NDArray[np.int64], exponents: Array) -> NDArray[np.int64]:
    """Choose rows to begin with: both ways of each place's nearest pairs and of a spanning tree."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    count = len(edges)
    near = np.zeros(count, dtype=bool)
    # The rank of every pair among those of each of its two places, by length.
    ends = edges.T.ravel()
    order = np.lexsort((np.r_[exponents, exponents], ends))
    starts = np.searchsorted(ends[order], np.arange(n))
    rank = np.arange(2 * count) - starts[ends[order]]
    near[order[rank < NEIGHBOURS] % count] = True
    # The tree is over ranks, for lengths may be 0 or equal.
    by_length = np.argsort(exponents, kind="stable")
    ranks = np.empty(count)
    ranks[by_length] = np.arange(1, count + 1)
    graph = coo_array((ranks, tuple(edges.T)), shape=(n, n))
    tree = minimum_spanning_tree(graph.tocsr()).tocoo()
    near[by_length[tree.data.astype(np.int64) - 1]] = True
    chosen = np.flatnonzero(near)
    rows: NDArray[np.int64] = np.r_[chosen, chosen + count]
    return rows


def likely_outputs(prior: Array, loss: Array, lengths: Array) -> NDArray[np.int64]:
    """Guess the outputs in use: those of the tight-constraints mechanism after its best remap.

    ``lengths`` are those of the shortest ways along the pairs: with a dilation they, and not the
    distances, say what may be told apart. At this epsilon, and at one a little smaller: together
    they miss half as many as the first alone, and an output missed costs more iterations than
    one too many.
    """
    n, m = loss.shape
    likely = np.zeros(m, dtype=bool)
    for share in (1.0, 0.8):
        kernel = np.exp(-share * lengths)
        try:
            weights = np.linalg.solve(kernel, np.ones(n))
        except np.linalg.LinAlgError:
            weights = np.ones(n)
        errors = (prior[:, None] * kernel).T @ loss
        likely[errors.argmin(axis=1)[weights > 0]] = True
    return np.flatnonzero(likely)
