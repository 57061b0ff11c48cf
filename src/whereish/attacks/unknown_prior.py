"""The attack without a prior: it is estimated from the reports, then the other attacks use it.

The iterative Bayesian update (expectation maximisation) maximises the likelihood of the reports
over all priors p: L(p) = mean over reports of log sum_x p(x) L_t(x), which is concave. One step is
p(x) <- p(x) g(x) with g(x) = mean over reports of L_t(x) / sum_y p(y) L_t(y). Then
L(best) - L(p) <= max_x g(x) - 1, which says when to stop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whereish.attacks.evidence import Evidence
from whereish.errors import InputError
from whereish.places import Array, as_number, as_whole
from whereish.profiles.movement import MovementModel


@dataclass(frozen=True, eq=False)
class EstimatedPrior:
    """A prior that makes the reports likely.

    Attributes
    ----------
    prior
        (n,) probabilities.
    gap
        No prior has a mean log-likelihood per report that is larger by more than this.
    iterations
        How many steps were made.
    """

    prior: Array = field(repr=False)
    gap: float
    iterations: int


def estimate_prior(
    evidence: Evidence, tolerance: float = 1e-4, most_iterations: int = 10_000
) -> EstimatedPrior:
    """Estimate where a person is how often, from the person's reports alone.

    Reports that repeat the one before count once.
    """
    if not isinstance(evidence, Evidence):
        raise InputError(f"evidence is needed, got {type(evidence).__name__}")
    as_number("tolerance", tolerance)
    logs = evidence.log_likelihood[evidence.drawn]
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))  # a factor of a row changes nothing
    n = likely.shape[1]
    prior, iterations = np.full(n, 1 / n), 0
    as_whole("most_iterations", most_iterations)
    while True:
        gains = (likely / (likely @ prior)[:, None]).mean(axis=0)
        gap = float(gains.max() - 1)
        if gap <= tolerance or iterations == most_iterations:
            return EstimatedPrior(prior, gap, iterations)
        prior = prior * gains
        prior /= prior.sum()
        iterations += 1


def without_prior(evidence: Evidence, population: MovementModel) -> MovementModel:
    """Return the model of an adversary who knows how people move, but nothing of this person.

    The prior is estimated from the reports. As many reports as there are places are added that have
    the prior of the population, so that few reports do not decide alone. The model of the
    population is reweighted by the result. Every other attack takes it.
    """
    drawn, n = int(evidence.drawn.sum()), len(evidence.places)
    own = (drawn * estimate_prior(evidence).prior + n * population.prior) / (drawn + n)
    return population.reweighted(own, keep_stays=True)
