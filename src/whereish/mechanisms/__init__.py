"""BUILD: mechanisms as functions that return a frozen, checked `Mechanism`."""

from whereish.mechanisms.arguments import check_places
from whereish.mechanisms.build import Build
from whereish.mechanisms.certificate import TELLS_PRIOR, certify
from whereish.mechanisms.closed import closed_form, exponential, tight_constraints
from whereish.mechanisms.file import (
    SUFFIX,
    audit_bytes,
    audit_file,
    is_mechanism_file,
    load_mechanism,
    mechanism_bytes,
    save_mechanism,
    without_prior,
)
from whereish.mechanisms.laplace import (
    planar_laplace,
    planar_laplace_for_loss,
    planar_laplace_noise,
)
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.optimal import optimal, optimal_each
from whereish.mechanisms.parts import how_far
from whereish.mechanisms.plan import METHODS, Plan
from whereish.mechanisms.reporter import Report, Reporter
from whereish.mechanisms.shokri import optimal_privacy
from whereish.mechanisms.table import Obfuscated, obfuscate_table

__all__ = [
    "METHODS",
    "SUFFIX",
    "TELLS_PRIOR",
    "Build",
    "Mechanism",
    "Obfuscated",
    "Plan",
    "Report",
    "Reporter",
    "audit_bytes",
    "audit_file",
    "certify",
    "check_places",
    "closed_form",
    "exponential",
    "how_far",
    "is_mechanism_file",
    "load_mechanism",
    "mechanism_bytes",
    "obfuscate_table",
    "optimal",
    "optimal_each",
    "optimal_privacy",
    "planar_laplace",
    "planar_laplace_for_loss",
    "planar_laplace_noise",
    "save_mechanism",
    "tight_constraints",
    "without_prior",
]
