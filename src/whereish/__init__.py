"""Whereish: tell services where-ish you are, with a proof."""

from typing import TYPE_CHECKING, Any

from whereish import attacks
from whereish.choosing import (
    ChosenLevel,
    TradeOff,
    TradeOffRow,
    epsilon_for,
    trade_off,
    usual_levels,
)
from whereish.day_periods import DayPeriods
from whereish.device import (
    BudgetManager,
    Obfuscated,
    OverTime,
    Report,
    Reporter,
    TrackedReport,
    Tracker,
    even_shares,
    obfuscate_table,
    tapered_epsilons,
)
from whereish.errors import (
    BudgetError,
    FormatError,
    GuaranteeError,
    InputError,
    SolveError,
    WhereishError,
)
from whereish.estimation import (
    MapEstimate,
    TransitionEstimate,
    estimate,
    estimate_transitions,
    expected_map_error,
)
from whereish.everywhere import (
    EverywhereMechanism,
    PlanarLaplaceEverywhere,
    RoadMechanism,
    expected_loss,
    optimal_everywhere,
    optimal_on_roads,
    planar_laplace_everywhere,
    tightest_epsilon_everywhere,
)
from whereish.format import (
    audit_file,
    certify,
    load_mechanism,
    load_metric,
    metric_document,
    save_mechanism,
    save_metric,
)
from whereish.measures import (
    Proof,
    accounted_epsilon,
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
    MechanismByTime,
    Plan,
    blahut_arimoto,
    closed_form,
    exponential,
    how_far,
    optimal,
    optimal_by_time,
    optimal_each,
    optimal_privacy,
    planar_laplace,
    planar_laplace_for_loss,
    planar_laplace_noise,
    quality_loss_by_time,
    tight_constraints,
)
from whereish.places import (
    LocalPlane,
    MapMetric,
    Places,
    RoadNetwork,
    discrete,
    euclidean,
    geodesic,
    graph_metric,
    network_metric,
    square_grid,
)
from whereish.profiles import (
    Cohort,
    Districts,
    H3Cells,
    MovementModel,
    PersonalProfile,
    Portrait,
    Profile,
    SquareCells,
    SyntheticCity,
    TimeDependentPrior,
    Visits,
    blur_prior,
    count_movement,
    count_visits,
    embedded_city,
    load_movement,
    paper_profiles,
    personal_profile,
    read_profile,
    save_movement,
    write_profile,
    write_profiles,
)
from whereish.programs import Spanner, greedy_spanner
from whereish.release import Reports
from whereish.traces import Funnel, Traces, open_traces

if TYPE_CHECKING:
    from whereish.plotting import plot_trade_off
    from whereish.spec import BuildOptions, BuildSpec

__version__ = "1.0.0rc1"

__all__ = [
    "BudgetError",
    "BudgetManager",
    "Build",
    "BuildOptions",
    "BuildSpec",
    "ChosenLevel",
    "Cohort",
    "DayPeriods",
    "Districts",
    "EverywhereMechanism",
    "FormatError",
    "Funnel",
    "GuaranteeError",
    "H3Cells",
    "InputError",
    "LocalPlane",
    "MapEstimate",
    "MapMetric",
    "Mechanism",
    "MechanismByTime",
    "MovementModel",
    "Obfuscated",
    "OverTime",
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
    "RoadMechanism",
    "RoadNetwork",
    "SolveError",
    "Spanner",
    "SquareCells",
    "SyntheticCity",
    "TimeDependentPrior",
    "Traces",
    "TrackedReport",
    "Tracker",
    "TradeOff",
    "TradeOffRow",
    "TransitionEstimate",
    "Visits",
    "WhereishError",
    "accounted_epsilon",
    "adversary_error",
    "attacks",
    "audit_file",
    "best_remap",
    "blahut_arimoto",
    "blur_prior",
    "certify",
    "closed_form",
    "conditional_entropy",
    "count_movement",
    "count_visits",
    "discrete",
    "embedded_city",
    "epsilon_for",
    "estimate",
    "estimate_transitions",
    "euclidean",
    "even_shares",
    "expected_loss",
    "expected_map_error",
    "exponential",
    "geodesic",
    "graph_metric",
    "greedy_spanner",
    "how_far",
    "load_mechanism",
    "load_metric",
    "load_movement",
    "lower_bound",
    "metric_document",
    "network_metric",
    "obfuscate_table",
    "open_traces",
    "optimal",
    "optimal_by_time",
    "optimal_each",
    "optimal_everywhere",
    "optimal_on_roads",
    "optimal_privacy",
    "paper_profiles",
    "personal_profile",
    "planar_laplace",
    "planar_laplace_everywhere",
    "planar_laplace_for_loss",
    "planar_laplace_noise",
    "plot_trade_off",
    "quality_loss",
    "quality_loss_by_time",
    "radius_to_ask",
    "read_profile",
    "report_radius",
    "save_mechanism",
    "save_metric",
    "save_movement",
    "square_grid",
    "tapered_epsilons",
    "tight_constraints",
    "tightest_epsilon",
    "tightest_epsilon_everywhere",
    "trade_off",
    "usual_levels",
    "worst_case_loss",
    "write_profile",
    "write_profiles",
]


def __getattr__(name: str) -> Any:
    """Import what needs pydantic or shapely when first used: importing Whereish stays light."""
    if name == "plot_trade_off":
        from whereish import plotting

        return plotting.plot_trade_off
    if name in ("BuildOptions", "BuildSpec"):
        from whereish import spec

        return getattr(spec, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names only: they are what completion offers."""
    return list(__all__)
