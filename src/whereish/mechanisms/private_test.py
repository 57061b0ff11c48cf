"""The private test of the predictive mechanism: whether the true place is near a guess.

The test draws b = [d(x, g) <= l + Lap(1 / eps_t)], for a public guess g and a threshold l. It is a
mechanism with two outputs, `NEAR` and `FAR`, with

    P(near | x) = exp(-eps_t t) / 2 if t = d(x, g) - l >= 0, and 1 - exp(eps_t t) / 2 otherwise.

It is eps_t-private in every metric: x -> d(x, g) is 1-Lipschitz by the triangle inequality, and the
logarithms of the Laplace distribution function and of its complement are eps_t-Lipschitz. That is
not relied on: the test is rounded to integers and audited like any other mechanism. The version for
all points of the plane is in `everywhere/private_test.py`, the proof in docs/proofs/traces.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.measures import TOTAL, Counts, Limits
from whereish.mechanisms.arguments import check_places, metric_or_euclidean
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.repairing import checked_or_repaired
from whereish.places import Array, Places, as_epsilon, as_numbers, as_whole
from whereish.release import pick, uniform

NEAR, FAR = 0, 1
# The two outputs of a test. They are labels: nobody is reported there.
LABELS = Places.from_xy([[0.0, 0.0], [1.0, 0.0]])
_LARGEST = 36.0  # of eps_t |d - l|: beyond it a probability is below 2^-52, and stays as it is
_BELOW = 1 - 1e-12  # of epsilon, so that ratios at their limit hold after rounding


def near_probabilities(distances: Array, epsilon: float, threshold: float) -> tuple[Array, Array]:
    """Return the probabilities of "near" and of "far" at these distances from the guess.

    The smaller one of the two has its full relative precision.

    >>> near, far = near_probabilities(np.array([0.0, 2.0, 4.0]), 1.0, 2.0)
    >>> near.round(3).tolist(), far.round(3).tolist()
    ([0.932, 0.5, 0.068], [0.068, 0.5, 0.932])
    """
    exponents = np.clip(epsilon * (distances - threshold), -_LARGEST, _LARGEST)
    smaller = np.exp(-np.abs(exponents)) / 2
    near = np.where(exponents >= 0, smaller, 1 - smaller)
    far = np.where(exponents >= 0, 1 - smaller, smaller)
    return near, far


def private_test(
    places: Places,
    guess: int,
    epsilon: float,
    threshold: float,
    privacy_metric: Array | None = None,
    *,
    limits: Limits | None = None,
) -> Mechanism:
    """Build the test of one guess: a `Mechanism` from the places to `NEAR` and `FAR`.

    Parameters
    ----------
    guess
        The number of the guessed place.
    epsilon
        The privacy level of the test, per unit of the metric.
    threshold
        l, in the unit of the metric.
    privacy_metric
        (n, n) d_X; Euclidean distance if not given.
    limits
        The limits of this epsilon and metric, where several tests share them.

    References
    ----------
    .. [1] Chatzikokolakis, Palamidessi, Stronati: A predictive differentially-private mechanism for
       mobility traces. PETS 2014.

    >>> places = Places.from_xy([[0, 0], [1, 0], [4, 0]])
    >>> test = private_test(places, 0, epsilon=1.0, threshold=2.0)
    >>> test.matrix[:, NEAR].round(3).tolist()
    [0.932, 0.816, 0.068]
    """
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    within = _threshold(threshold)
    chosen = as_whole("guess", guess, 0)
    if chosen >= len(inputs):
        raise InputError(f"guess must be the number of a place, below {len(inputs)}, got {chosen}")
    metric = metric_or_euclidean(privacy_metric, inputs)
    matrix = np.column_stack(near_probabilities(metric[chosen], level * _BELOW, within))
    made = checked_or_repaired(
        matrix / matrix.sum(axis=1, keepdims=True), inputs, LABELS, level, metric,
        Build("private-test"),
    )  # fmt: skip
    if limits is not None:
        made.__dict__["limits"] = limits  # a cached property: the same numbers, computed once
    return made


def _threshold(value: float) -> float:
    within = float(as_numbers("threshold", np.asarray(value).reshape(-1), (1,))[0])
    if within < 0:
        raise InputError("threshold must be at least 0, got less")
    return within


class PlaceTests:
    """The tests of all guesses of a mechanism between places, each made when it is needed.

    Parameters
    ----------
    mechanism
        The mechanism that draws the reports: its inputs are the true places, and its outputs the
        guesses. With another metric than the Euclidean one, the place nearest to the output
        stands for it: that is a function of the guess, which is public.
    epsilon, threshold
        See `private_test`.
    """

    def __init__(self, mechanism: Mechanism, epsilon: float, threshold: float) -> None:
        if mechanism.privacy_metric is None:
            raise InputError(f"a test needs a mechanism with an epsilon, got {mechanism!r}")
        self.epsilon, self.threshold = as_epsilon(epsilon), _threshold(threshold)
        self._inputs, self._metric = mechanism.inputs, mechanism.privacy_metric
        self._place_of = mechanism.inputs.tree.query(mechanism.outputs.xy)[1].astype(np.int64)
        metric = None if mechanism.is_per_km else mechanism.privacy_metric
        self._limits = Limits(self.epsilon, mechanism.inputs.xy, metric)
        n = len(mechanism.inputs)
        self._row = np.full(n, -1, dtype=np.int64)  # of a guessed place in the table
        self._near = np.zeros((0, n), dtype=np.uint64)

    def test(self, guess: int) -> Mechanism:
        """Return the test of a guess, the number of an output."""
        return private_test(
            self._inputs, int(self._place_of[guess]), self.epsilon, self.threshold, self._metric,
            limits=self._limits,
        )  # fmt: skip

    def near_counts(self, guess: int) -> Counts:
        """Return the audited counts of "near" at every place, out of 2^63."""
        place = int(self._place_of[guess])
        if self._row[place] < 0:
            self._row[place] = len(self._near)
            self._near = np.vstack([self._near, self.test(guess).counts[:, NEAR]])
        found: Counts = self._near[self._row[place]]
        return found

    def draw(
        self,
        guesses: NDArray[np.int64],
        at: NDArray[np.int64],
        rng: np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Draw a test for each pair of a guess and a true place: `NEAR` or `FAR`."""
        for guess in np.unique(guesses).tolist():
            self.near_counts(guess)
        near = self._near[self._row[self._place_of[guesses]], at]
        sums = np.stack([near, np.full(len(near), TOTAL, dtype=np.uint64)])
        return pick(sums, np.arange(len(near)), uniform(len(near), rng))

    def likelihood(self, guess: int, places: Places) -> Array:
        """Return P(near) and P(far) at other places, (n, 2), for a filter: floats."""
        near = self.near_counts(guess)[self._inputs.tree.query(places.xy)[1]] / TOTAL
        return np.column_stack([near, 1 - near])
