"""BUILD: mechanisms as functions that return a frozen, checked `Mechanism`."""

from whereish.mechanisms.arguments import check_places
from whereish.mechanisms.build import Build
from whereish.mechanisms.closed_forms import closed_form, exponential, tight_constraints
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.optimal import optimal, optimal_each
from whereish.mechanisms.optimal_privacy import optimal_privacy
from whereish.mechanisms.partition_bound import how_far
from whereish.mechanisms.plan import METHODS, Plan
from whereish.mechanisms.planar_laplace import (
    planar_laplace,
    planar_laplace_for_loss,
    planar_laplace_noise,
)
from whereish.mechanisms.registry import MECHANISMS, Request, method_names, register_mechanism

__all__ = [
    "MECHANISMS",
    "METHODS",
    "Build",
    "Mechanism",
    "Plan",
    "Request",
    "check_places",
    "closed_form",
    "exponential",
    "how_far",
    "method_names",
    "optimal",
    "optimal_each",
    "optimal_privacy",
    "planar_laplace",
    "planar_laplace_for_loss",
    "planar_laplace_noise",
    "register_mechanism",
    "tight_constraints",
]
