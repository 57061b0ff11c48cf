"""Coarser programs: few places that stand for many, solved exactly.

The places are clustered around medoids. A cluster has the probability of its places and their mean
loss. The optimum of such a program is neither a bound nor a private mechanism for all places, but
its prices and its columns are close to good ones: `price_bound` and `lifted` start from them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.limits import COARSE_TOLERANCE
from whereish.places import Array
from whereish.programs import greedy_spanner
from whereish.solvers import solve_structured

_Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Coarse:
    """The solution of a coarser program.

    Attributes
    ----------
    medoids
        (c,) the place that stands for each cluster.
    cluster
        (n,) the cluster of each place.
    prices
        (n,) the price of each place: the price of its cluster, shared by probability.
    outputs
        (o,) the outputs in use.
    columns
        (c, o) the optimal mechanism on the clusters.
    gap
        The relative gap of the solve: large if it was ended early.
    """

    medoids: _Integers
    cluster: _Integers
    prices: Array
    outputs: _Integers
    columns: Array
    gap: float = 0.0


def medoids(metric: Array, weights: Array, count: int) -> tuple[_Integers, _Integers]:
    """Choose places so that the weighted distance to the nearest one is small, greedily.

    Returns the medoids and the cluster of each place. Gains only shrink when medoids are added, so
    most of them need not be computed again (Minoux: Accelerated greedy algorithms for maximizing
    submodular set functions, 1978).
    """
    matters = np.flatnonzero(weights > 0)
    among = weights[matters]
    first = int(np.argmin([among @ row[matters] for row in metric]))
    chosen, near = [first], np.zeros(len(metric), np.int64)
    distance = metric[first].copy()

    def gain(place: int) -> float:
        return float(among @ np.maximum(distance[matters] - metric[place, matters], 0.0))

    queue = [(-gain(place), place, 1) for place in range(len(metric))]
    heapq.heapify(queue)
    while len(chosen) < count:
        value, place, known = heapq.heappop(queue)
        if known < len(chosen):
            heapq.heappush(queue, (-gain(place), place, len(chosen)))
            continue
        if value >= 0:
            break
        closer = metric[place] < distance
        near[closer] = len(chosen)
        distance = np.minimum(distance, metric[place])
        chosen.append(place)
    return np.array(chosen), near


def solve_coarse(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    clusters: int,
    time_limit_s: float | None = None,
) -> Coarse | None:
    """Solve a coarser program; None if the time limit ends the solve before there are prices."""
    chosen, near = medoids(metric, prior, clusters)
    masses: Array = np.bincount(near, prior, len(chosen)).astype(np.float64)
    kept = np.flatnonzero(masses > 0)
    if len(kept) < len(chosen):  # a cluster without probability has no price
        chosen = chosen[kept]
        near = metric[:, chosen].argmin(axis=1)
        masses = np.bincount(near, prior, len(chosen)).astype(np.float64)
    costs = np.zeros((len(chosen), loss.shape[1]))
    order = np.argsort(near, kind="stable")
    for place in order:
        costs[near[place]] += prior[place] * loss[place]
    means = costs / np.maximum(masses, 1e-300)[:, None]
    outputs = np.unique(means.argmin(axis=1))
    inside = metric[np.ix_(chosen, chosen)]
    if len(chosen) < 2:
        prices = prior * means.min(axis=1)[near]
        return Coarse(chosen, near, prices, outputs[:1], np.ones((1, 1)))
    spanner = greedy_spanner(inside, 1.0)
    solved = solve_structured(
        masses, means[:, outputs], spanner.edges, epsilon * spanner.lengths, epsilon * inside,
        COARSE_TOLERANCE, time_limit_s,
    )  # fmt: skip
    if solved.stopped == "asked":
        raise KeyboardInterrupt
    y = solved.multipliers
    if not len(y.value):
        return None
    reduced = masses[:, None] * means[:, outputs]
    np.subtract.at(reduced, (y.right, y.output), y.value)
    np.add.at(reduced, (y.left, y.output), y.value * np.exp(-epsilon * inside[y.left, y.right]))
    each = reduced.min(axis=1) / np.maximum(masses, 1e-300)
    used = np.flatnonzero(solved.matrix.max(axis=0) > 1e-6)
    return Coarse(
        chosen, near, prior * each[near], outputs[used], solved.matrix[:, used], solved.gap
    )
