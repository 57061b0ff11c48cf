"""Estimate moves between places from pairs of reports: maximum likelihood on the joint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.estimation.counting import output_numbers
from whereish.measures.channel import Channel, checked
from whereish.places import Array, Immutable, Places, as_number, readonly
from whereish.solvers.mixture import NEWTON_UP_TO, maximise, squarem

_GAP = 1e-4
_MOST = 4_000
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class TransitionEstimate(Immutable):
    """The estimated probability of each move.

    Attributes
    ----------
    places
        The places of the mechanism.
    joint
        (n, n) the probability of being at x and then at y, with sum 1.
    gap
        A proved bound on how much larger the mean log-likelihood of a pair could be.
    pairs
        The number of pairs of reports.
    steps
        Steps of the solve.
    """

    places: Places = field(repr=False)
    joint: Array = field(repr=False)
    gap: float
    pairs: int
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint", readonly(self.joint))

    def __repr__(self) -> str:
        return f"TransitionEstimate({len(self.places)} places, {self.pairs} pairs)"

    @property
    def before(self) -> Array:
        """(n,) the share of each place before a move."""
        return np.asarray(self.joint.sum(axis=1))

    @property
    def after(self) -> Array:
        """(n,) the share of each place after a move."""
        return np.asarray(self.joint.sum(axis=0))

    @property
    def matrix(self) -> Array:
        """(n, n) the probability of y after x; a row of a place that is never left is NaN."""
        sums = self.joint.sum(axis=1, keepdims=True)
        rows = np.full(self.joint.shape, np.nan)
        np.divide(self.joint, sums, out=rows, where=sums > 0)
        return rows


def estimate_transitions(
    mechanism: Channel, before: Any, after: Any, *, gap: float = _GAP, most_steps: int = _MOST
) -> TransitionEstimate:
    """Estimate how people move, from pairs of reports of the same person.

    Maximises sum over pairs (z, w) of q(z, w) log (K' P K)(z, w) over joint distributions P: the
    two reports of a pair are drawn independently, so a pair has the mechanism K x K. A sticky
    report is no second draw: leave out pairs in which the second report repeats the first one of
    the same period.

    Parameters
    ----------
    before, after
        The first and the second report of each pair, as in `estimate`.
    gap
        The certified gap of the mean log-likelihood of a pair at which the search ends.
    most_steps
        The search ends after so many steps at the latest; the result has the gap then reached.

    >>> import whereish as wh
    >>> m = wh.tight_constraints(wh.Places.from_xy([[0, 0], [1, 0]]), epsilon=3.0)
    >>> found = wh.estimate_transitions(m, [0, 0, 0, 1], [1, 1, 0, 1])
    >>> round(float(found.joint.sum()), 6)
    1.0
    """
    first, second = (output_numbers(checked(mechanism), one) for one in (before, after))
    if first.shape != second.shape:
        raise InputError(
            f"before and after must have the same length, got {len(first):,} and {len(second):,}"
        )
    inside = (first >= 0) & (second >= 0)
    first, second = first[inside], second[inside]
    if not len(first):
        raise InputError("before and after must hold at least one pair, got none")
    kernel = np.asarray(mechanism.matrix)
    n, m = kernel.shape
    shares = np.zeros((m, m))
    np.add.at(shares, (first, second), 1 / len(first))
    limit = as_number("gap", gap)
    if n * n <= NEWTON_UP_TO:
        found = maximise(np.kron(kernel, kernel).astype(np.float64), shares.ravel(), limit)
    else:

        def gradient(flat: Array) -> Array:
            fitted = kernel.T @ flat.reshape(n, n) @ kernel
            return (kernel @ (shares / np.maximum(fitted, _TINY)) @ kernel.T).ravel()

        def likelihood(flat: Array) -> float:
            fitted = kernel.T @ flat.reshape(n, n) @ kernel
            return float((shares * np.log(np.maximum(fitted, _TINY))).sum())

        found = squarem(gradient, likelihood, np.full(n * n, n**-2.0), limit, most_steps)
    joint = found.weights.reshape(n, n)
    return TransitionEstimate(mechanism.inputs, joint, max(found.gap, 0.0), len(first), found.steps)
