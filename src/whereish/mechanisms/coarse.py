"""Coarser programs: few places that stand for many, solved exactly.

The places are clustered around medoids. A cluster has the probability of its places and their mean
loss. The optimum of such a program is neither a bound nor a private mechanism for all places, but
its prices and its columns are close to good ones: `price_bound` and `lifted` start from them.

For large cities there are several programs, one for each region: fine inside the region, and the
coarser the farther away.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.deadline import Deadline
from whereish.limits import COARSE_TOLERANCE
from whereish.places import Array
from whereish.programs import greedy_spanner
from whereish.solvers import solve_structured

_Integers = NDArray[np.int64]
# How fast the clusters of a region grow with the distance from it, in units of 1 / eps.
_COARSENING = 0.7


@dataclass(frozen=True, eq=False)
class Coarse:
    """The solution of a coarser program.

    Attributes
    ----------
    region
        The places that the program is fine for.
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

    region: _Integers
    medoids: _Integers
    cluster: _Integers
    prices: Array
    outputs: _Integers
    columns: Array
    gap: float = 0.0


def solve_coarse(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    regions: int,
    clusters: int,
    deadline: Deadline,
    progress: Callable[[int, int], object] | None = None,
) -> list[Coarse]:
    """Solve a coarser program for each region, until the deadline.

    A solve that the deadline ends may have no prices; its region is left out.
    """
    found: list[Coarse] = []
    parts = split(metric, prior, regions)
    for number, region in enumerate(parts):
        if progress is not None:
            progress(number, len(parts))
        weights = prior.copy()
        if len(parts) > 1:
            weights *= np.exp(-_COARSENING * epsilon * metric[region].min(axis=0))
        if deadline.passed:
            break
        # Time that one region does not use is for the next ones.
        fair = None
        if deadline.seconds is not None:
            fair = deadline.left * min(1.0, 2 / (len(parts) - number))
        solved = _solve(prior, loss, epsilon, metric, region, weights, clusters, fair)
        if solved is not None:
            found.append(solved)
    return found


def split(metric: Array, prior: Array, count: int) -> list[_Integers]:
    """Halve the places between two distant ones, until there are ``count`` regions.

    Both halves have the same sum of the square roots of the probabilities: likely places have
    smaller regions, and unlikely ones are not forgotten.
    """
    parts = [np.arange(len(metric))]
    weights = np.sqrt(prior)
    while len(parts) < count:
        parts.sort(key=lambda part: weights[part].sum())
        places = parts.pop()
        if len(places) < 2:
            return [*parts, places]
        one = places[metric[places[0], places].argmax()]
        other = places[metric[one, places].argmax()]
        order = places[np.argsort(metric[one, places] - metric[other, places], kind="stable")]
        sums = np.cumsum(weights[order])
        half = int(np.clip(np.searchsorted(sums, sums[-1] / 2), 1, len(order) - 1))
        parts += [np.sort(order[:half]), np.sort(order[half:])]
    return parts


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


def _solve(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    region: _Integers,
    weights: Array,
    clusters: int,
    time_limit_s: float | None,
) -> Coarse | None:
    chosen, near = medoids(metric, weights, clusters)
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
        return Coarse(region, chosen, near, prices, outputs[:1], np.ones((1, 1)))
    spanner = greedy_spanner(inside, 1.0)
    solved = solve_structured(
        masses, means[:, outputs], spanner.edges, epsilon * spanner.lengths, epsilon * inside,
        COARSE_TOLERANCE, time_limit_s,
    )  # fmt: skip
    y = solved.multipliers
    if not len(y.value):
        return None
    reduced = masses[:, None] * means[:, outputs]
    np.subtract.at(reduced, (y.right, y.output), y.value)
    np.add.at(reduced, (y.left, y.output), y.value * np.exp(-epsilon * inside[y.left, y.right]))
    each = reduced.min(axis=1) / np.maximum(masses, 1e-300)
    used = np.flatnonzero(solved.matrix.max(axis=0) > 1e-6)
    return Coarse(
        region, chosen, near, prior * each[near], outputs[used], solved.matrix[:, used], solved.gap
    )
