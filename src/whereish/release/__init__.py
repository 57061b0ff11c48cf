"""TRUST: from the matrix of a solver to reports: repair, rounding to counts, sampling, snapping."""

from whereish.release.pruning import prune
from whereish.release.repair import Repaired, repair
from whereish.release.rounding import Rounded, round_private, to_counts
from whereish.release.sampler import cumulative, draw, uniform
from whereish.release.snapping import OUTSIDE, Reports, Snapped, check_outside, snap

__all__ = [
    "OUTSIDE",
    "Repaired",
    "Reports",
    "Rounded",
    "Snapped",
    "check_outside",
    "cumulative",
    "draw",
    "prune",
    "repair",
    "round_private",
    "snap",
    "to_counts",
    "uniform",
]
