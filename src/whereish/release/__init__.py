"""TRUST: what happens between a solver's answer and the numbers that may be sampled."""

from whereish.release.container import pack, unpack
from whereish.release.ledger import Entry, Ledger
from whereish.release.ledger_file import PERIODS
from whereish.release.repair import Repaired, repair
from whereish.release.reports import OUTSIDE, Located, Reports, check_outside, locate
from whereish.release.rounding import Rounded, round_private, to_counts
from whereish.release.sampler import cumulative, draw, uniform

__all__ = [
    "OUTSIDE",
    "PERIODS",
    "Entry",
    "Ledger",
    "Located",
    "Repaired",
    "Reports",
    "Rounded",
    "check_outside",
    "cumulative",
    "draw",
    "locate",
    "pack",
    "repair",
    "round_private",
    "to_counts",
    "uniform",
    "unpack",
]
