"""Whereish: tell services where-ish you are, with a proof."""

from typing import TYPE_CHECKING, Any

from whereish.device import Obfuscated, Report, Reporter, obfuscate_table
from whereish.errors import (
    BudgetError,
    FormatError,
    GuaranteeError,
    InputError,
    SolveError,
    WhereishError,
)
from whereish.everywhere import (
    EverywhereMechanism,
    PlanarLaplaceEverywhere,
    expected_loss,
    optimal_everywhere,
    planar_laplace_everywhere,
    tightest_epsilon_everywhere,
)
from whereish.format import audit_file, certify, load_mechanism, save_mechanism
from whereish.measures import (
    Proof,
    adversary_error,
    best_remap,
    conditional_entropy,
    lower_bound,
    quality_loss,
    radius_to_ask,
    report_radius,
    tightest_epsilon,
    worst_case_loss,
)
from whereish.mechanisms import (
    Build,
    Mechanism,
    Plan,
    closed_form,
    exponential,
    how_far,
    optimal,
    optimal_each,
    optimal_privacy,
    planar_laplace,
    planar_laplace_for_loss,
    planar_laplace_noise,
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
from whereish.profiles import (
    Cohort,
    Districts,
    H3Cells,
    PersonalProfile,
    Portrait,
    Profile,
    SquareCells,
    SyntheticCity,
    Visits,
    blur_prior,
    count_visits,
    embedded_city,
    paper_profiles,
    personal_profile,
    read_profile,
    write_profile,
    write_profiles,
)
from whereish.programs import Spanner, greedy_spanner
from whereish.release import Reports
from whereish.traces import Funnel, Traces, open_traces

if TYPE_CHECKING:
    from whereish.spec import BuildOptions, BuildSpec

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "Build",
    "BuildOptions",
    "BuildSpec",
    "Cohort",
    "Districts",
    "EverywhereMechanism",
    "FormatError",
    "Funnel",
    "GuaranteeError",
    "H3Cells",
    "InputError",
    "LocalPlane",
    "Mechanism",
    "Obfuscated",
    "PersonalProfile",
    "Places",
    "Plan",
    "PlanarLaplaceEverywhere",
    "Portrait",
    "Profile",
    "Proof",
    "Report",
    "Reporter",
    "Reports",
    "SolveError",
    "Spanner",
    "SquareCells",
    "SyntheticCity",
    "Traces",
    "Visits",
    "WhereishError",
    "adversary_error",
    "audit_file",
    "best_remap",
    "blur_prior",
    "certify",
    "closed_form",
    "conditional_entropy",
    "count_visits",
    "discrete",
    "embedded_city",
    "euclidean",
    "expected_loss",
    "exponential",
    "geodesic",
    "graph_metric",
    "greedy_spanner",
    "how_far",
    "load_mechanism",
    "lower_bound",
    "obfuscate_table",
    "open_traces",
    "optimal",
    "optimal_each",
    "optimal_everywhere",
    "optimal_privacy",
    "paper_profiles",
    "personal_profile",
    "planar_laplace",
    "planar_laplace_everywhere",
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
    "tightest_epsilon_everywhere",
    "worst_case_loss",
    "write_profile",
    "write_profiles",
]


def __getattr__(name: str) -> Any:
    """Import what needs pydantic when it is first used: importing Whereish stays light."""
    if name in ("BuildOptions", "BuildSpec"):
        from whereish import spec

        return getattr(spec, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
