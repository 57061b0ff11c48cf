"""BUILD: mechanisms as functions that return a frozen, checked `Mechanism`."""

from whereish.mechanisms.arguments import check_places
from whereish.mechanisms.blahut_arimoto import blahut_arimoto
from whereish.mechanisms.build import Build
from whereish.mechanisms.by_time import (
    MechanismByTime,
    check_not_by_time,
    check_same_periods,
    optimal_by_time,
    quality_loss_by_time,
)
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
    "MechanismByTime",
    "Plan",
    "Request",
    "blahut_arimoto",
    "check_not_by_time",
    "check_places",
    "check_same_periods",
    "closed_form",
    "exponential",
    "how_far",
    "method_names",
    "optimal",
    "optimal_by_time",
    "optimal_each",
    "optimal_privacy",
    "planar_laplace",
    "planar_laplace_for_loss",
    "planar_laplace_noise",
    "quality_loss_by_time",
    "register_mechanism",
    "tight_constraints",
]
