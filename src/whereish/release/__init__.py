"""TRUST: from a solver's answer to the numbers that may be sampled: repair, rounding, sampling."""

from whereish.release.repair import Repaired, repair
from whereish.release.rounding import Rounded, round_private, to_counts
from whereish.release.sampler import cumulative, draw, uniform
from whereish.release.snapping import OUTSIDE, Located, Reports, check_outside, locate

__all__ = [
    "OUTSIDE",
    "Located",
    "Repaired",
    "Reports",
    "Rounded",
    "check_outside",
    "cumulative",
    "draw",
    "locate",
    "repair",
    "round_private",
    "to_counts",
    "uniform",
]
