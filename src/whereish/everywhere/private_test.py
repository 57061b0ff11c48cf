"""The private test of the predictive mechanism, for all points of the plane.

The test of `mechanisms/private_test.py` at the vertices of a lattice around the guess, interpolated
bilinearly, as every mechanism for all points. A function that is interpolated grows by at most a
factor 1 + eps h along an edge of length h, less than exp(eps h). So the test is built with a
smaller inner epsilon: the largest one, at most eps_t, whose counts pass the exact audit at eps_t.
The distance r to the guess is replaced by sqrt(r^2 + a^2), with a small a. It has no tip at r = 0,
where the slopes along both axes would add up, and it is 1-Lipschitz too.

One lattice around the origin serves all guesses: the true point and the guess are rounded to units
of 2^-40 km, and their difference is exact. A point outside the square is projected onto it, which
is 1-Lipschitz. The proof is in docs/proofs/traces.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.errors import GuaranteeError
from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.mechanism import EverywhereMechanism, points_of
from whereish.measures import TOTAL, Counts
from whereish.measures.lattice_audit import steepest
from whereish.mechanisms.private_test import LABELS, near_probabilities
from whereish.places import Array, Places, as_epsilon, as_number
from whereish.places.lattice import UNITS_PER_KM, Lattice, to_units
from whereish.release import cumulative, draw_at

_SPACING = 0.1  # of the lattice, times epsilon: the inner epsilon is then 0.95 eps_t
_BLUNT = 0.2  # a, times epsilon: two spacings
_REACH = 16.0  # eps_t (R - l) at the border of the square: "near" has a probability of 6e-8 there
_BELOW = 1e-9  # relative: how close to the largest inner epsilon
_STEPS = 40


def lattice_test(epsilon: float, threshold_km: float) -> EverywhereMechanism:
    """Build the test of a guess at the origin, private between any two points of the plane.

    Parameters
    ----------
    epsilon
        The privacy level of the test, per km.
    threshold_km
        l: a point at this distance from the guess is "near" with probability about 1/2.

    >>> test = lattice_test(1.0, 2.0)
    >>> test.probabilities([[0, 0], [2, 0], [6, 0]]).round(2).tolist()
    [[0.91, 0.09], [0.5, 0.5], [0.01, 0.99]]
    """
    level, within = as_epsilon(epsilon), as_number("threshold_km", threshold_km)
    half = int(np.ceil((level * within + _REACH) / _SPACING))
    axis: Array = np.arange(-half, half + 1, dtype=np.float64) * (_SPACING / level)
    lattice = Lattice(axis, axis)
    # The distance depends on |x| and |y| only: the epsilon is searched on a quarter.
    quarter = Lattice(axis[half:], axis[half:])
    blunt, low, high = _BLUNT / level, 0.0, level
    for _ in range(_STEPS):
        inner = (low + high) / 2
        if steepest(_counts(quarter, inner, within, blunt), quarter)[0] <= level:
            low = inner
        else:
            high = inner
        if high - low <= _BELOW * level:
            break
    while low > 0:
        build = EverywhereBuild("private-test", notes=(f"inner epsilon {low:.6g} per km",))
        counts = _counts(lattice, low, within, blunt)
        try:
            return EverywhereMechanism(counts, lattice, LABELS, level, build)
        except GuaranteeError:
            low *= 1 - _BELOW
    raise GuaranteeError(f"no test on this lattice is private at epsilon {level:g} per km")


def _counts(lattice: Lattice, epsilon: float, threshold_km: float, blunt_km: float) -> Counts:
    """Return the counts of "near" and "far" at all vertices; each row sums to 2^63."""
    distances = np.hypot(np.hypot(*lattice.vertices.T), blunt_km)
    near, far = near_probabilities(distances, epsilon, threshold_km)
    nearer = near > far
    smaller = np.maximum((np.where(nearer, far, near) * float(TOTAL)).astype(np.uint64), 1)
    larger = np.uint64(TOTAL) - smaller
    return np.column_stack([np.where(nearer, larger, smaller), np.where(nearer, smaller, larger)])


class LatticeTests:
    """The tests of all guesses of a mechanism for all points: one audited lattice for all of them.

    Parameters
    ----------
    outputs
        The places of the guesses.
    epsilon, threshold_km
        See `lattice_test`.

    Attributes
    ----------
    mechanism
        The test of a guess at the origin.
    """

    def __init__(self, outputs: Places, epsilon: float, threshold_km: float) -> None:
        self.epsilon, self.threshold = as_epsilon(epsilon), as_number("threshold", threshold_km)
        self._places, self._outputs = outputs, to_units(outputs.xy)
        self.mechanism = lattice_test(self.epsilon, self.threshold)
        self._sums = cumulative(self.mechanism.counts)

    def draw(
        self, guesses: NDArray[np.int64], at: Array, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Draw a test for each pair of a guess and a true point: `NEAR` or `FAR`.

        Points are in degrees if the outputs are on the earth, and in km otherwise.
        """
        points, _ = points_of(self._places, at)
        relative = (to_units(points) - self._outputs[guesses]) / UNITS_PER_KM
        lattice = self.mechanism.lattice
        return draw_at(self._sums, lattice, lattice.position(relative), rng)

    def likelihood(self, guess: int, places: Places) -> Array:
        """Return P(near) and P(far) at places of the same plane, (n, 2), for a filter: floats."""
        return self.mechanism.probabilities(places.xy - self._outputs[guess] / UNITS_PER_KM)
