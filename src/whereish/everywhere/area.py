"""Choose the lattice of a mechanism: the rectangle of the visited points, with graded spacings.

The rectangle is the smallest one with sides along the axes that holds the points. A larger one is
no better: restricted to the smaller rectangle, a mechanism has the same loss and is still private,
and points outside are projected.

Over an interval of length h, bilinear interpolation allows a ratio of 1 + eps h instead of
exp(eps h): it costs about eps h / 2 of epsilon there. With the importance s(x) of epsilon at x, the
loss of lines with a density r(x) is about the integral of s / r. For a given number of lines it is
least for r proportional to the square root of s. Before there is a solution, s is the weight of the
pairs of points that x lies between; afterwards it is the price of the cones, that is, their
multipliers times the slopes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.everywhere.points import Visits, clustered, distances
from whereish.places import Array
from whereish.places.lattice import Lattice
from whereish.places.points import SAME_PLACE_KM
from whereish.solvers.cones import ConeSolution, corner_cones

_CLUSTERS = 80
_BINS = 600  # of the importance along an axis
_LEAST = 0.01  # of the largest importance: lines everywhere, though few
_LINE_KM = 4 * SAME_PLACE_KM  # lines closer than this are one


@dataclass(frozen=True, eq=False)
class Importance:
    """The importance of epsilon along an axis: at the middles of equal bins between two ends."""

    low: float
    high: float
    values: Array

    @property
    def root(self) -> float:
        """The integral of the square root of the importance."""
        return float(np.sqrt(self.values).mean()) * (self.high - self.low)

    def lines(self, count: int) -> Array:
        """Return this many coordinates with a density like the root of the importance."""
        if count < 2 or self.high - self.low < 2 * _LINE_KM:
            return np.array([(self.low + self.high) / 2])
        sums = np.concatenate([[0.0], np.cumsum(np.sqrt(self.values))])
        ends = np.linspace(self.low, self.high, len(sums))
        at = np.interp(np.linspace(0, sums[-1], count), sums, ends)
        kept = [at[0]]
        for value in at[1:-1]:
            if value - kept[-1] >= _LINE_KM and at[-1] - value >= _LINE_KM:
                kept.append(value)
        return np.array([*kept, at[-1]])


def first_importance(visits: Visits) -> tuple[Importance, Importance]:
    """Return the importance of both axes before there is a solution: pairs on both sides of x."""
    groups = clustered(visits, _CLUSTERS)
    pairs = np.outer(groups.weights, groups.weights) * distances(groups.xy, groups.xy)
    found = []
    for k in range(2):
        axis = visits.xy[:, k]
        low, high = float(axis.min()), float(axis.max())
        middles = _middles(low, high)
        left = groups.xy[None, :, k] <= middles[:, None]
        values = np.einsum("bi,ij,bj->b", left, pairs, ~left)
        found.append(_importance(low, high, values))
    return found[0], found[1]


def next_importance(lattice: Lattice, solution: ConeSolution) -> tuple[Importance, Importance]:
    """Return the importance of both axes from the multipliers of a solution on a lattice.

    A cone with multipliers (y0, y1, y2) and slopes (g1, g2) has the price |y1 g1| on the first axis
    and |y2 g2| on the second one.
    """
    own, beside, spacing = corner_cones(lattice.xs, lattice.ys)
    columns = solution.matrix.T
    shape = max(1, len(lattice.ys) - 1), max(1, len(lattice.xs) - 1), -1
    found = []
    for k, axis in enumerate(lattice):
        if len(axis) == 1:
            found.append(Importance(float(axis[0]), float(axis[0]), np.ones(1)))
            continue
        slopes = (columns[:, beside[:, k]] - columns[:, own]) / spacing[:, k]
        prices = np.abs(solution.multipliers[..., k + 1] * slopes).sum(axis=0).reshape(shape)
        values = prices.sum(axis=(k, 2)) / np.diff(axis)
        low, high = float(axis[0]), float(axis[-1])
        between = (axis[1:] + axis[:-1]) / 2
        found.append(_importance(low, high, np.interp(_middles(low, high), between, values)))
    return found[0], found[1]


def graded_lattice(importance: tuple[Importance, Importance], vertices: int) -> Lattice:
    """Return a lattice of at most so many vertices, with lines where they matter.

    With p and q lines, the loss is about a^2 / p + b^2 / q, with a and b the integrals of the roots
    of the importance. The best p and q are taken.
    """
    east, north = importance
    columns, rows = 1, 1
    flat = [axis.high - axis.low < 2 * _LINE_KM for axis in importance]
    if any(flat):
        columns, rows = (1 if flat[0] else vertices), (1 if flat[1] else vertices)
    else:
        least = np.inf
        for p in range(2, max(2, vertices // 2) + 1):
            q = max(2, vertices // p)
            if east.root**2 / p + north.root**2 / q < least:
                least, columns, rows = east.root**2 / p + north.root**2 / q, p, q
    return Lattice(east.lines(columns), north.lines(rows))


def _importance(low: float, high: float, values: Array) -> Importance:
    most = float(values.max(initial=0.0))
    return Importance(low, high, np.maximum(values, _LEAST * most) if most > 0 else values + 1.0)


def _middles(low: float, high: float) -> Array:
    return low + (high - low) * (np.arange(_BINS) + 0.5) / _BINS
