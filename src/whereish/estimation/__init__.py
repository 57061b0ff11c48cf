"""COUNT: where people are and how they move, estimated from reports of many people."""

from whereish.estimation.map_error import expected_map_error
from whereish.estimation.places_map import MapEstimate, estimate
from whereish.estimation.report_table import ReportTable, read_reports
from whereish.estimation.transitions import TransitionEstimate, estimate_transitions

__all__ = [
    "MapEstimate", "ReportTable", "TransitionEstimate", "estimate", "estimate_transitions",
    "expected_map_error", "read_reports",
]  # fmt: skip
