"""Re-identification: who of several people made the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from whereish.attacks.evidence import Evidence
from whereish.attacks.sequences import forward_filter
from whereish.errors import InputError
from whereish.places import Array, as_prior
from whereish.profiles.movement import MovementModel


@dataclass(frozen=True, eq=False)
class Reidentified:
    """How likely each of several people made the reports.

    Attributes
    ----------
    users
        The people, likeliest first.
    posterior
        Their probabilities, in the same order.
    log_likelihood
        Logarithm of the probability of the reports for each, in the same order.
    """

    users: tuple[str, ...]
    posterior: Array = field(repr=False)
    log_likelihood: Array = field(repr=False)

    def rank(self, user: str) -> int:
        """Return the place of a person in the list: 1 for the likeliest."""
        if user not in self.users:
            raise InputError("user must be one of the people who were compared, and is not")
        return self.users.index(user) + 1


def reidentify(
    evidence: Evidence, models: Mapping[str, MovementModel], weights: ArrayLike | None = None
) -> Reidentified:
    """Compare people by the probability that their movement model gives to the reports.

    Parameters
    ----------
    models
        The movement model of each person: that of the population reweighted by the person's prior,
        for instance.
    weights
        Prior probabilities of the people, in the order of `models`; equal if not given.
    """
    if not models:
        raise InputError("models must hold at least one person's, got none")
    users = list(models)
    prior = np.full(len(users), 1 / len(users)) if weights is None else weights
    prior = as_prior(prior, len(users), "weights")
    logs = np.array([forward_filter(evidence, models[user]).log_likelihood for user in users])
    with np.errstate(divide="ignore"):
        joint = logs + np.log(prior)
    top = joint.max()
    # If everybody is ruled out, the reports say nothing.
    shares = np.exp(joint - top) if np.isfinite(top) else prior
    shares = shares / shares.sum()
    order = np.lexsort((np.arange(len(users)), -shares))
    return Reidentified(tuple(users[k] for k in order), shares[order], logs[order])
