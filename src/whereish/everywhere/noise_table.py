"""The cells of a table for planar Laplace noise, and the mass of the noise in each of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whereish.places import Array
from whereish.places.lattice import FURTHEST_LATTICE_KM, Lattice
from whereish.places.points import SAME_PLACE_KM

_FINE = 0.2  # the width of a cell near the points, in units of 1 / eps
_GROWTH = 1.35  # from one cell to the next, away from the points
_OUTSIDE = 12.0  # how far the table goes beyond the points, in units of 1 / eps
_NARROWEST_KM = 4 * SAME_PLACE_KM  # a cell
_MOST = 96  # cells on an axis near the points
_AT_ONCE = 500_000  # masses
_ONE_THREAD = 250_000  # multiplications: OpenBLAS starts threads for more, and they wait for cores
# Standard deviations of Gaussian noise, in units of 1 / eps, and their shares in Laplace noise.
_SCALES = np.exp(0.2 * np.arange(-35, 12))
_SHARES = _SCALES**3 * np.exp(-(_SCALES**2) / 2)
_SHARES /= _SHARES.sum()


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

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self.axes[1]) + 1, len(self.axes[0]) + 1

    def masses(self, points: Array) -> Array:
        """Return (cells, n): the probability that noise around each point falls into each cell.

        Planar Laplace noise is Gaussian noise with a random standard deviation q / eps: q has the
        density sqrt(2 / pi) q^2 exp(-q^2 / 2). The mass of a cell is the mean over q of a product
        of two one-dimensional Gaussian masses. The mean is a trapezoidal sum in log q. Its error is
        below 2e-8 for every point, cell and epsilon: see docs/proofs/everywhere.md.
        """
        rows, columns = self.shape
        found = np.empty((rows * columns, len(points)))
        step = max(1, _ONE_THREAD // (columns * len(_SCALES)))
        for some in self.blocks(len(points)):
            east, north = (
                _gaussian(axis, points[some, k], self.epsilon) for k, axis in enumerate(self.axes)
            )
            north *= _SHARES
            cells = np.empty((len(east), rows, columns))
            for first in range(0, rows, step):
                band = slice(first, first + step)
                np.matmul(north[:, band], east.transpose(0, 2, 1), out=cells[:, band])
            found[:, some] = cells.reshape(-1, rows * columns).T
        return found

    def blocks(self, count: int) -> Iterator[slice]:
        """Cut points into blocks whose masses take little memory."""
        step = max(1, _AT_ONCE // (self.shape[0] * self.shape[1]))
        for first in range(0, count, step):
            yield slice(first, min(first + step, count))


def _gaussian(borders: Array, at: Array, epsilon: float) -> Array:
    """Return (n, cells, scales): the masses of Gaussian noise between the borders of an axis.

    Tails are subtracted from tails, so that small masses far away keep their digits.
    """
    from scipy.special import erfc

    away = epsilon * (borders - at[:, None])
    tails = erfc(np.abs(away)[:, :, None] * (np.sqrt(0.5) / _SCALES)) / 2
    right = (away >= 0)[:, :, None]
    # The probability to the left of each border is `tails` for a border on the left of the point,
    # and 1 - `tails` for one on its right.
    found = np.empty((len(at), len(borders) + 1, len(_SCALES)))
    found[:, 0] = np.where(right[:, 0], 1 - tails[:, 0], tails[:, 0])
    found[:, -1] = np.where(right[:, -1], tails[:, -1], 1 - tails[:, -1])
    between = tails[:, 1:] - tails[:, :-1]
    around = right[:, 1:] & ~right[:, :-1]  # the cell that holds the point
    found[:, 1:-1] = np.where(around, 1 - tails[:, 1:] - tails[:, :-1], np.abs(between))
    return found


def _growing(first: float, until: float) -> Array:
    """Return distances that grow by a factor from one to the next, up to a limit."""
    sides, width = [first], first
    while sides[-1] < until:
        width = min(_GROWTH * width, max(first, until / 4))
        sides.append(sides[-1] + width)
    return np.array(sides)
