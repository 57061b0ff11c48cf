"""Whereish: tell services where-ish you are, with a proof."""

from whereish.errors import FormatError, GuaranteeError, InputError, SolveError, WhereishError
from whereish.measures import (
    adversary_error,
    best_remap,
    conditional_entropy,
    quality_loss,
    radius_to_ask,
    report_radius,
    tightest_epsilon,
    worst_case_loss,
)
from whereish.mechanisms import (
    Build,
    Mechanism,
    exponential,
    load_mechanism,
    optimal,
    optimal_privacy,
    planar_laplace,
    planar_laplace_for_loss,
    planar_laplace_noise,
    save_mechanism,
    tight_constraints,
)
from whereish.places import (
    LocalPlane,
    Places,
    discrete,
    euclidean,
    geodesic,
    graph_metric,
    square_grid,
)
from whereish.profiles import Profile, embedded_city, read_profile
from whereish.programs import Spanner, greedy_spanner

__version__ = "0.1.0"

__all__ = [
    "Build",
    "FormatError",
    "GuaranteeError",
    "InputError",
    "LocalPlane",
    "Mechanism",
    "Places",
    "Profile",
    "SolveError",
    "Spanner",
    "WhereishError",
    "adversary_error",
    "best_remap",
    "conditional_entropy",
    "discrete",
    "embedded_city",
    "euclidean",
    "exponential",
    "geodesic",
    "graph_metric",
    "greedy_spanner",
    "load_mechanism",
    "optimal",
    "optimal_privacy",
    "planar_laplace",
    "planar_laplace_for_loss",
    "planar_laplace_noise",
    "quality_loss",
    "radius_to_ask",
    "read_profile",
    "report_radius",
    "save_mechanism",
    "square_grid",
    "tight_constraints",
    "tightest_epsilon",
    "worst_case_loss",
]
