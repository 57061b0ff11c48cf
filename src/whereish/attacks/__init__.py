"""ATTACK: what an adversary learns from reports over time, for any mechanism and movement model.

>>> import numpy as np
>>> import whereish as wh
>>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
>>> mechanism = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
>>> model = wh.count_movement([([0, 600, 1200, 1800, 2400], [0, 0, 1, 1, 2])], places, hours=(0,))
>>> seen = wh.attacks.independent_evidence(mechanism, [0, 600, 1200], [1, 1, 1])
>>> estimate = wh.attacks.smoother(seen, model)
>>> estimate.guesses.tolist(), bool(estimate.expected_error_km[0] > 0)
([0, 0, 1], True)
"""

from whereish.attacks.estimate import RADIUS_KM, Estimate, Score, errors_km, score
from whereish.attacks.evidence import (
    CHANGED,
    FREE,
    REPEATED,
    Evidence,
    independent_evidence,
    likelihoods,
    sticky_evidence,
)
from whereish.attacks.exposure import Exposure, Found, expose, hypotheses, population_models
from whereish.attacks.home_and_work import HOME, WORK, Anchor, find_anchor
from whereish.attacks.policies import Run, policy_names, register_policy, simulate
from whereish.attacks.reidentification import Reidentified, reidentify
from whereish.attacks.sequences import (
    ATTACKS,
    averaging,
    forward_filter,
    single_report,
    smoother,
    viterbi,
)
from whereish.attacks.unknown_prior import EstimatedPrior, estimate_prior, without_prior
from whereish.attacks.walks import Walk, walks_of

__all__ = [
    "ATTACKS", "CHANGED", "FREE", "HOME", "RADIUS_KM", "REPEATED", "WORK", "Anchor", "Estimate",
    "EstimatedPrior", "Evidence", "Exposure", "Found", "Reidentified", "Run", "Score", "Walk",
    "averaging", "errors_km", "estimate_prior", "expose", "find_anchor", "forward_filter",
    "hypotheses", "independent_evidence", "likelihoods", "policy_names", "population_models",
    "register_policy", "reidentify", "score", "simulate", "single_report", "smoother",
    "sticky_evidence", "viterbi", "walks_of", "without_prior",
]  # fmt: skip
