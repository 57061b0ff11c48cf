"""JUDGE: quality loss, what an adversary learns, and the independent check of privacy."""

from whereish.measures.adversary import adversary_error, best_remap, conditional_entropy
from whereish.measures.bound import Proof, lower_bound
from whereish.measures.channel import Channel, loss_between
from whereish.measures.privacy import TightestEpsilon, Verdict, check_private, tightest_epsilon
from whereish.measures.quality import (
    quality_loss,
    radius_to_ask,
    report_radius,
    worst_case_loss,
)

__all__ = [
    "Channel",
    "Proof",
    "TightestEpsilon",
    "Verdict",
    "adversary_error",
    "best_remap",
    "check_private",
    "conditional_entropy",
    "loss_between",
    "lower_bound",
    "quality_loss",
    "radius_to_ask",
    "report_radius",
    "tightest_epsilon",
    "worst_case_loss",
]
