"""TRUST: from the matrix of a solver to reports: repair, rounding to counts, sampling, snapping."""

from whereish.release.corners import choose_upper, draw_at, draw_between
from whereish.release.lattice_rounding import Released, release_lattice
from whereish.release.pruning import prune
from whereish.release.repair import Repaired, repair
from whereish.release.road_rounding import ReleasedOnRoads, release_roads
from whereish.release.rounding import Rounded, round_private, to_counts
from whereish.release.sampler import cumulative, draw, pick, uniform
from whereish.release.snapping import OUTSIDE, Reports, Snapped, check_outside, snap

__all__ = [
    "OUTSIDE",
    "Released",
    "ReleasedOnRoads",
    "Repaired",
    "Reports",
    "Rounded",
    "Snapped",
    "check_outside",
    "choose_upper",
    "cumulative",
    "draw",
    "draw_at",
    "draw_between",
    "pick",
    "prune",
    "release_lattice",
    "release_roads",
    "repair",
    "round_private",
    "snap",
    "to_counts",
    "uniform",
]
