"""Warm start: the first set of constrained pairs and of outputs, and an order of the places.

None has to be right. Pairs join when they matter, outputs when they pay, and the order of the
places decides only how much of a factor is empty.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whereish.places import Array

_NEIGHBOURS = 4
_LESS = 0.8


def first_rows(n: int, edges: NDArray[np.int64], exponents: Array) -> NDArray[np.int64]:
    """Choose rows to begin with: both ways of each place's nearest pairs and of a spanning tree."""
    by_length = np.argsort(exponents, kind="stable")
    chosen = np.flatnonzero(_near_pairs(n, edges, by_length))
    rows: NDArray[np.int64] = np.r_[chosen, chosen + len(edges)]
    return rows


@njit(nogil=True, cache=True)
def _near_pairs(n: int, edges: Any, by_length: Any) -> Any:
    near = np.zeros(len(edges), np.bool_)
    degree = np.zeros(n, np.int64)
    group = np.arange(n)
    for e in by_length:
        i, j = edges[e]
        if degree[i] < _NEIGHBOURS or degree[j] < _NEIGHBOURS:
            near[e] = True
        degree[i] += 1
        degree[j] += 1
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        while group[j] != j:
            group[j] = group[group[j]]
            j = group[j]
        if i != j:
            group[i] = j
            near[e] = True
    return near


@njit(nogil=True, cache=True)
def near_order(n: int, edges: Any) -> Any:
    """Order places so that the two of a pair are not far apart: reverse Cuthill-McKee."""
    degree = np.zeros(n, np.int64)
    for e in range(len(edges)):
        degree[edges[e, 0]] += 1
        degree[edges[e, 1]] += 1
    start = np.zeros(n + 1, np.int64)
    start[1:] = np.cumsum(degree)
    beside = np.empty(2 * len(edges), np.int64)
    filled = start[:-1].copy()
    for e in range(len(edges)):
        i, j = edges[e]
        beside[filled[i]] = j
        beside[filled[j]] = i
        filled[i] += 1
        filled[j] += 1
    for x in range(n):
        those = beside[start[x] : start[x + 1]]
        beside[start[x] : start[x + 1]] = those[np.argsort(degree[those], kind="mergesort")]
    seen = np.zeros(n, np.bool_)
    order = np.empty(n, np.int64)
    done = 0
    while done < n:
        # From an end of what is connected: where a search from somewhere stops, twice.
        at = 0
        for x in range(n):
            if not seen[x] and (seen[at] or degree[x] < degree[at]):
                at = x
        for search in range(3):
            here = seen.copy()
            order[done] = at
            here[at] = True
            low, high = done, done + 1
            while low < high:
                x = order[low]
                low += 1
                for a in range(start[x], start[x + 1]):
                    if not here[beside[a]]:
                        here[beside[a]] = True
                        order[high] = beside[a]
                        high += 1
            if search < 2:
                at = order[high - 1]
            else:
                seen, done = here, high
    return order[::-1].copy()


@njit(nogil=True, cache=True, error_model="numpy")
def shortest_ways(n: int, edges: Any, exponents: Any) -> Any:
    """Return lengths along the pairs, and before[j, i], the last place but one from j to i."""
    lengths = np.full((n, n), np.inf)
    before = np.full((n, n), -1, np.int32)
    for e in range(len(edges)):
        i, j = edges[e]
        lengths[i, j] = lengths[j, i] = exponents[e]
        before[i, j], before[j, i] = i, j
    for x in range(n):
        lengths[x, x] = 0.0
    for by in range(n):
        to = lengths[by]
        for i in range(n):
            way = lengths[i, by]
            row = lengths[i]
            if way == np.inf or i == by:
                continue
            for j in range(n):
                if way + to[j] < row[j]:
                    row[j] = way + to[j]
                    before[i, j] = before[by, j]
    return lengths, before


def tight(lengths: Array) -> list[tuple[Array, Array]]:
    """Return what tight-constraints mechanisms are made of: exp(-eps d), and weights of its rows.

    ``lengths`` are those of the shortest ways along the pairs: with a dilation they, and not the
    distances, say what may be told apart. At this epsilon, and at one a little smaller.
    """
    found = []
    for share in (1.0, _LESS):
        kernel = np.exp(-share * lengths)
        # Not by numpy: what its mathematics finds depends on the number of its threads, and the
        # sign of a weight decides here.
        weights = _solved(kernel.copy(), np.ones(len(kernel)))
        if not np.isfinite(weights).all():
            weights = np.ones(len(kernel))
        found.append((kernel, weights))
    return found


def likely_outputs(prior: Array, loss: Array, of: list[tuple[Array, Array]]) -> NDArray[np.int64]:
    """Guess the outputs in use: those of the tight-constraints mechanism after its best remap.

    At both epsilons: together they miss half as many as the first alone, and an output missed
    costs more iterations than one too many.
    """
    likely = np.zeros(loss.shape[1], dtype=bool)
    for kernel, weights in of:
        likely[_least(prior, kernel, loss)[weights > 0]] = True
    return np.flatnonzero(likely)


def likely_columns(prior: Array, loss: Array, of: list[tuple[Array, Array]]) -> Array:
    """Guess the columns of these outputs: those of that mechanism at the smaller epsilon.

    They are inside all pairs. For an input they add up to 1 at most.
    """
    kernel, weights = of[-1]
    columns = np.zeros(loss.T.shape)
    best = _least(prior, kernel, np.ascontiguousarray(loss))
    np.add.at(columns, best, np.maximum(weights, 0.0)[:, None] * kernel)
    return np.asarray(columns / columns.sum(axis=0).max())


@njit(nogil=True, cache=True, error_model="numpy")
def _solved(matrix: Any, right: Any) -> Any:
    """Solve a system by elimination, overwriting it."""
    n = len(right)
    for p in range(n):
        best = p
        for x in range(p + 1, n):
            if abs(matrix[x, p]) > abs(matrix[best, p]):
                best = x
        if best != p:
            for y in range(p, n):
                matrix[p, y], matrix[best, y] = matrix[best, y], matrix[p, y]
            right[p], right[best] = right[best], right[p]
        for x in range(p + 1, n):
            factor = matrix[x, p] / matrix[p, p]
            if factor != 0.0:
                for y in range(p + 1, n):
                    matrix[x, y] -= factor * matrix[p, y]
                right[x] -= factor * right[p]
    for p in range(n - 1, -1, -1):
        for y in range(p + 1, n):
            right[p] -= matrix[p, y] * right[y]
        right[p] /= matrix[p, p]
    return right


@njit(nogil=True, cache=True, error_model="numpy")
def _least(prior: Any, kernel: Any, loss: Any) -> Any:
    """Return which output loses least where each row of the kernel was reported."""
    (n, m), best = loss.shape, np.empty(len(kernel), np.int64)
    lost = np.empty(m)
    for z in range(len(kernel)):
        lost[:] = 0.0
        for x in range(n):
            share = prior[x] * kernel[x, z]
            for y in range(m):
                lost[y] += share * loss[x, y]
        best[z] = lost.argmin()
    return best
