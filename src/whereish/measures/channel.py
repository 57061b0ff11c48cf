"""The interface of a mechanism as the measures see it: a stochastic matrix and its places."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.places import Array, Places, as_loss, as_prior, euclidean


class Channel(Protocol):
    """Anything with a stochastic matrix from inputs to outputs."""

    @property
    def matrix(self) -> Array:
        """Rows inputs, columns outputs."""

    @property
    def inputs(self) -> Places:
        """The places a person may be at."""

    @property
    def outputs(self) -> Places:
        """The places that may be reported."""

    @property
    def privacy_metric(self) -> Array | None:
        """The metric d_X of the guarantee; None without an epsilon."""


def checked(mechanism: Channel) -> Channel:
    """Raise InputError unless this is a mechanism: a bare matrix has no places."""
    if not all(hasattr(mechanism, name) for name in ("matrix", "inputs", "outputs")):
        way = "wrap a matrix as Mechanism(matrix, inputs, outputs)"
        if hasattr(mechanism, "at"):
            way = "take the mechanism of a time, .at(time)"
        raise InputError(f"mechanism must be a Mechanism, got {type(mechanism).__name__}: {way}")
    return mechanism


def prior_of(mechanism: Channel, prior: ArrayLike) -> Array:
    """Check a prior over the inputs of a mechanism."""
    return as_prior(prior, len(checked(mechanism).inputs))


def loss_between(name: str, metric: ArrayLike | None, rows: Places, columns: Places) -> Array:
    """Return a validated (rows, columns) loss; Euclidean distance if `metric` is None."""
    same = rows.same_as(columns)
    if metric is None:
        return euclidean(rows, None if same else columns)
    return as_loss(name, metric, len(rows), len(columns), same=same)
