"""The forward filter: better reports from the draws so far, at no cost of privacy.

With a movement model M and the draws z_1, ..., z_t of a mechanism K, the filter keeps

    a_t(x)  proportional to  K(x, z_t) * sum over u of a_{t-1}(u) M(u, x)

and reports the output with the least expected distance. That is a function of draws that are paid
for, of the clock and of a model that was not made of the protected trace: post-processing.

A model that does not fit a person makes reports worse. So the filter is one of two experts; the
other one forgets the past and knows only the time of day. Both are weighted by how well they have
predicted the draws of this person, and a share of the weight is given back at every step. A report
is replaced only if the mixture expects a gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from whereish.device.drawing import DeviceMechanism, mechanisms_of, number_at
from whereish.errors import InputError
from whereish.everywhere import AnyMechanism, Everywhere
from whereish.places import Array, Places, euclidean

LEAST_GAIN = 0.02  # of the expected distance: a smaller gain replaces no report
_SHARED = 0.02  # of the weight, given back to both experts at every draw


class Movement(Protocol):
    """A movement model, as in `whereish.profiles.movement`."""

    @property
    def places(self) -> Places:
        """The places of the chain."""

    def initial_at(self, time_s: float) -> Array:
        """Return (n,) the probability of each place at a time of day."""

    def transition(self, start_s: float, end_s: float) -> Array:
        """Return (n, n) the transition between two times."""


@dataclass(frozen=True, eq=False)
class Belief:
    """What follows from the draws so far; nothing of it is secret.

    Attributes
    ----------
    time
        Of the last draw, in seconds since 1970.
    moving
        (n,) the distribution of the filter.
    trust
        The weight of the filter, against the expert that forgets.
    mixed
        (n,) the distribution of both together.
    """

    time: float
    moving: Array
    trust: float
    mixed: Array

    def as_json(self) -> list[Any]:
        """Return numbers from which `of_json` makes the same belief."""
        return [self.time, self.trust, self.moving.tolist(), self.mixed.tolist()]

    @classmethod
    def of_json(cls, value: Any, n: int) -> Belief:
        """Make a belief of the numbers of `as_json`."""
        time, trust, moving, mixed = value
        arrays = [np.array(part, dtype=np.float64) for part in (moving, mixed)]
        if any(part.shape != (n,) for part in arrays):
            raise InputError("the ledger holds a filter that this movement model cannot have made")
        return cls(float(time), arrays[0], float(trust), arrays[1])


class ForwardFilter:
    """The filter of one mechanism and one movement model.

    Parameters
    ----------
    mechanism
        Draws the reports.
    model
        A movement model. It must not be made of the trace that is protected.
    later
        Other mechanisms with the same outputs, of later draws.
    """

    def __init__(
        self, mechanism: DeviceMechanism, model: Movement, later: Sequence[DeviceMechanism] = ()
    ) -> None:
        self.model, self.mechanisms = model, (mechanism, *later)
        self.places = model.places.in_plane_of(mechanism.outputs)
        self._emissions = [
            [emissions(one, self.places) for one in mechanisms_of(level)]
            for level in self.mechanisms
        ]
        self.distances = euclidean(self.places, mechanism.outputs)

    @property
    def emission(self) -> Array:
        """(n, outputs) the probabilities of the reports; of mechanisms by time, the first one's."""
        return self._emissions[0][0]

    def likelihood(self, output: int, time: float, level: int = 0) -> Array:
        """Return (n,) the probability of a draw at each place of the model, at its time.

        Parameters
        ----------
        level
            The number of the mechanism that has drawn: 0 for the first, k for later[k - 1].
        """
        number = number_at(self.mechanisms[level], time)
        return np.asarray(self._emissions[level][number][:, output])

    def predicted(self, belief: Belief | None, time: float) -> Belief:
        """Return the belief at a later time, before a draw."""
        still = self.model.initial_at(time)
        if belief is None:
            return Belief(time, still, 0.5, still)
        moving = belief.moving
        if time > belief.time:
            moving = moving @ self.model.transition(belief.time, time)
        mixed = belief.trust * moving + (1 - belief.trust) * still
        return Belief(time, moving, belief.trust, mixed)

    def observed(self, belief: Belief | None, time: float, likelihood: Array) -> Belief:
        """Return the belief after an observation.

        Parameters
        ----------
        likelihood
            (n,) its probability at each place of the model.
        """
        before = self.predicted(belief, time)
        still, moving = self.model.initial_at(time) * likelihood, before.moving * likelihood
        seen_still, seen_moving = float(still.sum()), float(moving.sum())
        if not seen_still > 0 and not seen_moving > 0:
            return before  # impossible for the model: it says nothing
        forgot = still / seen_still if seen_still > 0 else moving / seen_moving
        filtered = moving / seen_moving if seen_moving > 0 else forgot
        weight = before.trust * seen_moving
        trust = weight / (weight + (1 - before.trust) * seen_still)
        mixed = trust * filtered + (1 - trust) * forgot
        return Belief(time, filtered, (1 - _SHARED) * trust + _SHARED / 2, mixed)

    def best(self, belief: Belief, otherwise: int | None = None) -> int:
        """Return the output with the least expected distance.

        Parameters
        ----------
        otherwise
            The output to keep unless another one is expected to be better.
        """
        expected = belief.mixed @ self.distances
        best = int(expected.argmin())
        if otherwise is None:
            return best
        gain = expected[otherwise] - expected[best]
        return best if gain > LEAST_GAIN * expected[otherwise] else otherwise


def emissions(mechanism: AnyMechanism, places: Places) -> Array:
    """Return (n, outputs) the probabilities of the reports at the places of a model."""
    if isinstance(mechanism, Everywhere):
        return mechanism.probabilities(places.xy if places.latlon is None else places.latlon)
    rows = mechanism.inputs.tree.query(places.in_plane_of(mechanism.inputs).xy)[1]
    return np.asarray(mechanism.matrix[rows])
