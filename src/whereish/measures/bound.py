"""The judge of optimality: a lower bound on the loss of every private mechanism, and its proof.

Like the judge of privacy it knows nothing of how an answer came about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import GuaranteeError, InputError
from whereish.places import Array, Immutable, as_numbers, as_prior


@dataclass(frozen=True, eq=False)
class Proof(Immutable):
    """Multipliers y >= 0 of some rows k(right, z) >= exp(-eps d(left, right)) k(left, z).

    Attributes
    ----------
    epsilon
        The level that the rows are about.
    output, left, right
        (r,) which output each row is about, and the two places.
    value
        (r,) multipliers, in the units of prior times quality loss.
    """

    epsilon: float
    output: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array

    def __repr__(self) -> str:
        return f"Proof({len(self.value):,} multipliers at epsilon={self.epsilon:g})"


def lower_bound(
    proof: Proof, prior: ArrayLike, quality_metric: ArrayLike, privacy_metric: ArrayLike
) -> float:
    """Return what no private mechanism can beat, in km, according to a proof.

    LB(y) = sum over x of min over z of prior(x) d_Q(x, z) - (A'y)(x, z), where a multiplier y of a
    row counts + y at its right place and - y exp(-eps d) at its left one. For any y >= 0 and any
    private K, sum prior d_Q K >= sum (prior d_Q - A'y) K >= LB(y): the first because A K >= 0, the
    second because the rows of K sum to 1.

    Raises
    ------
    GuaranteeError
        If a multiplier is negative or not a number: then nothing is proved.
    """
    if not isinstance(proof, Proof):
        raise InputError(
            f"proof must be a Proof, got {type(proof).__name__}: one comes with what "
            'optimal(..., solver="structured") builds'
        )
    y = np.asarray(proof.value, dtype=np.float64)
    quality = as_numbers("quality_metric", quality_metric, (None, None))
    n, m = quality.shape
    weights = as_prior(prior, n)
    metric = as_numbers("privacy_metric", privacy_metric, (n, n))
    stakes = weights[:, None] * quality
    if not np.isfinite(y).all() or (y < 0).any():
        raise GuaranteeError("not a proof: a multiplier is negative or not a number")
    places, outputs = np.concatenate([proof.left, proof.right]), np.asarray(proof.output)
    if len(y) and not (places.min() >= 0 and places.max() < n):
        raise GuaranteeError(f"not a proof: a row is about a place that is none of the {n}")
    if len(y) and not (outputs.min() >= 0 and outputs.max() < m):
        raise GuaranteeError(f"not a proof: a row is about an output that is none of the {m}")
    shrink = np.exp(-proof.epsilon * metric[proof.left, proof.right])
    np.subtract.at(stakes, (proof.right, proof.output), y)
    np.add.at(stakes, (proof.left, proof.output), y * shrink)
    return float(stakes.min(axis=1).sum())
