"""Privacy against a Bayesian adversary: expected error, best remap, conditional entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.measures.channel import Channel, loss_between, prior_of
from whereish.places import Array, as_loss, as_numbers

# Relative difference of expected errors below which two guesses count as equally good.
_TIE = 1e-12


def adversary_error(mechanism: Channel, prior: ArrayLike, metric: ArrayLike | None = None) -> float:
    """Return the expected error, in km, of an adversary who knows the prior and guesses best.

    AdvError(K, prior, d_A) = min over remappings H of the expected distance of KH (Section 2.1)
    = sum over z of min over guesses g of sum over x of prior(x) k(x, z) d_A(x, g).

    Parameters
    ----------
    metric
        d_A, (inputs, guesses): a column for every guess that the adversary may make; Euclidean
        distance between the inputs if not given.
    """
    return float(_expected_errors(mechanism, prior, metric).min(axis=1).sum())


def best_remap(
    mechanism: Channel, prior: ArrayLike, metric: ArrayLike | None = None
) -> NDArray[np.intp]:
    """Return, for every output, the guess with the least expected error under the prior.

    If inputs and outputs are the same places, an output that is among its own best guesses is
    mapped to itself. So the best remap of an optimal mechanism is the identity (Section 3.4 of the
    paper). An output that is never reported is mapped to itself too.
    """
    errors = _expected_errors(mechanism, prior, metric)
    guess: NDArray[np.intp] = errors.argmin(axis=1)
    if mechanism.inputs.same_as(mechanism.outputs) and errors.shape[0] == errors.shape[1]:
        itself = np.arange(len(guess))
        stays = errors[itself, itself] <= errors.min(axis=1) + _TIE * errors.max(axis=1)
        guess[stays] = itself[stays]
    return guess


def conditional_entropy(mechanism: Channel, prior: ArrayLike) -> float:
    """Return the conditional entropy of the true place given the report, in bits.

    H(X | Z) = - sum over x, z of prior(x) k(x, z) log2 p(x | z), with the posterior p(x | z).
    """
    joint = prior_of(mechanism, prior)[:, None] * mechanism.matrix
    marginal = np.broadcast_to(joint.sum(axis=0), joint.shape)
    posterior = np.divide(joint, marginal, out=np.ones_like(joint), where=joint > 0)
    return float(-(joint * np.log2(posterior)).sum()) + 0.0


def _expected_errors(mechanism: Channel, prior: ArrayLike, metric: ArrayLike | None) -> Array:
    """Return sum_x prior(x) k(x, z) d_A(x, guess), outputs x guesses."""
    weights = prior_of(mechanism, prior)
    if metric is None:
        loss = loss_between("metric", None, mechanism.inputs, mechanism.inputs)
    else:
        loss = as_numbers("metric", metric, (len(weights), None))
        guesses = loss.shape[1]
        if guesses == 0:
            raise InputError("metric must have a column for every guess, got no columns")
        loss = as_loss("metric", loss, len(weights), guesses, same=guesses == len(weights))
    return (weights[:, None] * mechanism.matrix).T @ loss
