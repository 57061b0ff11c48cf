"""What the judge needs to know of a mechanism: its numbers and its places, not its maker."""

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
        """The metric that the mechanism's epsilon is per, if it has one."""


def checked(mechanism: Channel) -> Channel:
    """Raise InputError unless this is a mechanism: a bare matrix does not know its places."""
    if not all(hasattr(mechanism, name) for name in ("matrix", "inputs", "outputs")):
        raise InputError(
            f"mechanism must be a Mechanism, got {type(mechanism).__name__}: "
            "wrap a matrix as Mechanism(matrix, inputs, outputs)"
        )
    return mechanism


def prior_of(mechanism: Channel, prior: ArrayLike) -> Array:
    """Check a prior over the inputs of a mechanism."""
    return as_prior(prior, len(checked(mechanism).inputs))


def loss_between(name: str, metric: ArrayLike | None, rows: Places, columns: Places) -> Array:
    """Return a given (rows, columns) loss after checking it, or Euclidean distance if none."""
    same = rows.same_as(columns)
    if metric is None:
        return euclidean(rows, None if same else columns)
    return as_loss(name, metric, len(rows), len(columns), same=same)
