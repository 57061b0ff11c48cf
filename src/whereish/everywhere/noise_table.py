"""The cells of a table for planar Laplace noise, and the mass of the noise in each of them."""

from __future__ import annotations

import numpy as np

from whereish.places import Array
from whereish.places.lattice import FURTHEST_LATTICE_KM, Lattice
from whereish.places.points import SAME_PLACE_KM

_FINE = 0.2  # the width of a cell near the points, in units of 1 / eps
_GROWTH = 1.35  # from one cell to the next, away from the points
_OUTSIDE = 12.0  # how far the table goes beyond the points, in units of 1 / eps
_BEYOND = 40.0  # how far the integration goes: exp(-40) is left
_NARROWEST_KM = 4 * SAME_PLACE_KM  # a cell
_MOST = 96  # cells on an axis near the points
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_AT_ONCE = 500_000  # numbers that stay in the cache


def choose_borders(points: Array, epsilon: float) -> Lattice:
    """Return borders of cells that are fine near the points and grow away from them."""
    axes = []
    for axis in points.T:
        low, high = float(axis.min()), float(axis.max())
        width = max(_FINE / epsilon, (high - low) / _MOST, _NARROWEST_KM)
        count = int(np.ceil((high - low) / width)) if high - low >= _NARROWEST_KM else 0
        middle = np.linspace(low, high, count + 1) if count else np.array([(low + high) / 2])
        away = _growing(width, _OUTSIDE / epsilon)
        whole = np.concatenate([middle[0] - away[::-1], middle, middle[-1] + away])
        axes.append(whole[np.abs(whole) <= FURTHEST_LATTICE_KM])
    return Lattice(axes[0], axes[1])


class NoiseTable:
    """The masses of planar Laplace noise in cells with given borders."""

    def __init__(self, borders: Lattice, epsilon: float) -> None:
        self.epsilon = epsilon
        self.axes = list(borders)

    def masses(self, points: Array) -> Array:
        """Return (cells, n): the probability that noise around each point falls into each cell.

        Gauss-Legendre sums of the density over the cells; the outermost cells end where exp(-40) is
        left. The sums of each point are divided by their total. The error of a mass is about 1e-5,
        and up to 2e-4 at 10 per km.
        """
        nodes, weights, of = zip(
            *(self._quadrature(axis, points[:, k]) for k, axis in enumerate(self.axes)),
            strict=True,
        )
        shape = len(self.axes[1]) + 1, len(self.axes[0]) + 1
        found = np.empty((shape[0] * shape[1], len(points)))
        step = max(1, _AT_ONCE // (len(nodes[0]) * len(nodes[1])))
        for first in range(0, len(points), step):
            some = points[first : first + step]
            east = nodes[0][None, None, :] - some[:, 0, None, None]
            north = nodes[1][None, :, None] - some[:, 1, None, None]
            density = east * east + north * north
            np.sqrt(density, out=density)
            density *= -self.epsilon
            np.exp(density, out=density)
            density *= weights[0][None, None, :] * weights[1][None, :, None]
            rows = np.add.reduceat(density, of[1], axis=1)
            cells = np.add.reduceat(rows, of[0], axis=2).reshape(len(some), -1)
            totals = cells.sum(axis=1, keepdims=True)
            if not totals.all():  # the noise is far smaller than a cell
                cells, totals = self._cells_of(some), np.ones((len(some), 1))
            found[:, first : first + step] = (cells / totals).T
        return found

    def _cells_of(self, points: Array) -> Array:
        """Return (n, cells): 1 for the cell that each point is in."""
        ix, iy = (np.searchsorted(axis, points[:, k]) for k, axis in enumerate(self.axes))
        found = np.zeros((len(points), (len(self.axes[0]) + 1) * (len(self.axes[1]) + 1)))
        found[np.arange(len(points)), iy * (len(self.axes[0]) + 1) + ix] = 1.0
        return found

    def _quadrature(self, borders: Array, at: Array) -> tuple[Array, Array, Array]:
        """Return nodes and weights on an axis, and where the nodes of each cell begin."""
        width = 0.5 / self.epsilon
        away = _growing(width, _BEYOND / self.epsilon)
        low, high = min(borders[0], float(at.min())), max(borders[-1], float(at.max()))
        # Points outside the table need fine intervals up to where they are.
        left = _down_to(low, float(borders[0]), width, away)
        right = _up_to(float(borders[-1]), high, width, away)
        sides = np.concatenate([left, borders, right])
        half = np.diff(sides) / 2
        middle = (sides[1:] + sides[:-1]) / 2
        nodes = (middle[:, None] + half[:, None] * _NODES).ravel()
        weights = (half[:, None] * _WEIGHTS).ravel()
        starts = np.concatenate([[0], len(left) + np.arange(len(borders))])
        return nodes, weights, starts * len(_NODES)


def _growing(first: float, until: float) -> Array:
    """Return distances that grow by a factor from one to the next, up to a limit."""
    sides, width = [first], first
    while sides[-1] < until:
        width = min(_GROWTH * width, max(first, until / 4))
        sides.append(sides[-1] + width)
    return np.array(sides)


def _up_to(start: float, end: float, width: float, away: Array) -> Array:
    count = min(400, int(np.ceil((end - start) / width)))
    return np.concatenate([np.linspace(start, end, count + 1)[1:] if count else [], end + away])


def _down_to(end: float, start: float, width: float, away: Array) -> Array:
    return -_up_to(-start, -end, width, away)[::-1]
