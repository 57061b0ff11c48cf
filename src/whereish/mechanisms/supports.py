"""Which outputs a program has, which places their columns cover, and which pairs are constrained.

A column of a good mechanism is large near its output, and decays like exp(-eps d). So its support
is the places within some units of 1 / eps. Two exceptions matter where a prior is very uneven. A
likely place costs much even where the column is tiny: it is in the support from far away. And a
likely place is reported from far away: its support is larger.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.mechanisms.coarse import Coarse, medoids
from whereish.mechanisms.price_bound import Problem
from whereish.places import Array
from whereish.solvers.local import Supports

_NEIGHBOURS = 48  # of each place that are paired with it
_HUBS = 64  # the likeliest places, which are paired with all places ...
_HUB_REACH = 20.0  # ... up to this distance, in units of 1 / eps
_LIKELIEST = 30  # places that have an output of their own
_LIKELY = 10.0  # a place this many times likelier than the mean has a larger support


def spread_outputs(problem: Problem, coarse: Coarse, count: int) -> NDArray[np.int64]:
    """Choose about so many outputs near all places, more of them where places are likely.

    The outputs of the coarser optimum and those next to the likeliest places are among them.
    """
    n = len(problem.prior)
    weights = 0.5 * problem.prior + 0.5 / n
    chosen, _ = medoids(problem.metric, weights, min(count, n))
    likeliest = np.argsort(-problem.prior, kind="stable")[:_LIKELIEST]
    places = np.concatenate([chosen, likeliest])
    return np.unique(np.concatenate([problem.loss[places].argmin(axis=1), coarse.outputs]))


def supports_of(
    problem: Problem, centres: NDArray[np.int64], radius: float, size: int, far: int
) -> Supports:
    """Choose the supports.

    Parameters
    ----------
    centres
        (m,) the place from which each output loses least.
    radius, size
        A support has the places up to this distance from the centre, in units of 1 / eps, and at
        most about so many of them.
    far
        How many more places a support has: those with the largest prior(x) d_Q(x, z) exp(-eps d).

    A place that would be in no support is added to that of its best output.
    """
    n = len(problem.prior)
    lists, near = [], []
    for output, centre in enumerate(centres):
        row = problem.metric[centre]
        likely = max(float(problem.prior[centre]) * n / _LIKELY, 1.0)
        reach = radius + np.log(likely)
        most = min(int(size * (reach / radius) ** 2), n)
        inside = np.argpartition(row, most - 1)[:most] if most < n else np.arange(n)
        inside = inside[problem.epsilon * row[inside] <= reach]
        if len(inside) < 2:
            inside = np.argpartition(row, 1)[:2]
        inside = inside[np.argsort(row[inside], kind="stable")]
        inside = np.concatenate([[centre], inside[inside != centre]])
        near.append(len(inside))
        if far and len(inside) < n:
            weight = problem.prior * problem.loss[:, output] * np.exp(-problem.epsilon * row)
            weight[inside] = 0.0
            most = min(far, n - len(inside))
            others = np.argpartition(-weight, most - 1)[:most]
            inside = np.concatenate([inside, np.sort(others[weight[others] > 0])])
        lists.append(inside)
    missing = np.ones(n, bool)
    missing[np.concatenate(lists)] = False
    nearest = problem.loss[missing].argmin(axis=1)
    for output in np.unique(nearest):  # a place that is in no support could not be reported
        lists[output] = np.append(lists[output], np.flatnonzero(missing)[nearest == output])
    offsets = np.cumsum([0, *map(len, lists)])
    return Supports(
        offsets,
        np.concatenate(lists).astype(np.int32),
        np.array(near),
        np.repeat(np.arange(len(centres)), np.diff(offsets)),
    )


def pairs_of(problem: Problem) -> tuple[NDArray[np.int32], Array]:
    """Return the pairs that are constrained, and eps d of each: neighbours, and hubs with all."""
    n = len(problem.prior)
    count = min(_NEIGHBOURS, n - 1)
    near = np.stack([np.argpartition(row, count)[: count + 1] for row in problem.metric])
    left, right = np.repeat(np.arange(n), count + 1), near.ravel()
    hubs = np.argsort(-problem.prior, kind="stable")[:_HUBS]
    hub, other = np.nonzero(problem.epsilon * problem.metric[hubs] <= _HUB_REACH)
    left, right = np.concatenate([left, hubs[hub]]), np.concatenate([right, other])
    low, high = np.minimum(left, right), np.maximum(left, right)
    unique = np.unique((low * n + high)[low != high])
    pairs = np.stack([unique // n, unique % n], axis=1)
    exponents = problem.epsilon * problem.metric[pairs[:, 0], pairs[:, 1]]
    return np.ascontiguousarray(pairs, np.int32), exponents
