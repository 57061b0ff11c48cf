"""BUILD: mechanisms as functions that return a frozen, checked `Mechanism`."""

from whereish.mechanisms.closed import closed_form, exponential, tight_constraints
from whereish.mechanisms.document import is_mechanism, load_mechanism, save_mechanism
from whereish.mechanisms.laplace import (
    planar_laplace,
    planar_laplace_for_loss,
    planar_laplace_noise,
)
from whereish.mechanisms.mechanism import Build, Mechanism, check_places
from whereish.mechanisms.optimal import how_far, optimal, optimal_each, optimal_privacy
from whereish.mechanisms.plan import METHODS, Plan

__all__ = [
    "METHODS",
    "Build",
    "Mechanism",
    "Plan",
    "check_places",
    "closed_form",
    "exponential",
    "how_far",
    "is_mechanism",
    "load_mechanism",
    "optimal",
    "optimal_each",
    "optimal_privacy",
    "planar_laplace",
    "planar_laplace_for_loss",
    "planar_laplace_noise",
    "save_mechanism",
    "tight_constraints",
]
