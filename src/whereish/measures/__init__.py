"""JUDGE: quality loss, adversary error, lower bounds, and the independent check of privacy."""

from whereish.measures.accounting import Accounted, accounted_epsilon
from whereish.measures.adversary import adversary_error, best_remap, conditional_entropy
from whereish.measures.audit import TOTAL, Counts, Limits, audit_counts, check_rows
from whereish.measures.bound import Decay, Proof, lower_bound, relative_gap, valid_rows
from whereish.measures.channel import Channel, loss_between
from whereish.measures.exact_tightest import exact_tightest_epsilon
from whereish.measures.lattice_audit import LatticeVerdict, audit_lattice, steepest
from whereish.measures.privacy import TightestEpsilon, Verdict, check_private, tightest_epsilon
from whereish.measures.quality import (
    quality_loss,
    radius_to_ask,
    report_radius,
    worst_case_loss,
)
from whereish.measures.road_audit import RoadVerdict, audit_roads
from whereish.measures.streamed_bound import streamed_bound

__all__ = [
    "TOTAL",
    "Accounted",
    "Channel",
    "Counts",
    "Decay",
    "LatticeVerdict",
    "Limits",
    "Proof",
    "RoadVerdict",
    "TightestEpsilon",
    "Verdict",
    "accounted_epsilon",
    "adversary_error",
    "audit_counts",
    "audit_lattice",
    "audit_roads",
    "best_remap",
    "check_private",
    "check_rows",
    "conditional_entropy",
    "exact_tightest_epsilon",
    "loss_between",
    "lower_bound",
    "quality_loss",
    "radius_to_ask",
    "relative_gap",
    "report_radius",
    "steepest",
    "streamed_bound",
    "tightest_epsilon",
    "valid_rows",
    "worst_case_loss",
]
