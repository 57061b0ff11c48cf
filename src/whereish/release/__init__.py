"""TRUST: what happens between a solver's answer and the numbers that may be sampled."""

from whereish.release.container import digest_of, pack, parse_object, unpack
from whereish.release.ledger import Entry, Ledger
from whereish.release.ledger_file import PERIODS
from whereish.release.repair import Repaired, repair
from whereish.release.reports import OUTSIDE, Located, Reports, check_outside, locate
from whereish.release.rounding import Rounded, round_private, to_counts
from whereish.release.sampler import cumulative, draw, uniform
from whereish.release.signature import (
    as_public_key,
    check_signature,
    new_private_key,
    public_key_of,
    signed,
)

__all__ = [
    "OUTSIDE",
    "PERIODS",
    "Entry",
    "Ledger",
    "Located",
    "Repaired",
    "Reports",
    "Rounded",
    "as_public_key",
    "check_outside",
    "check_signature",
    "cumulative",
    "digest_of",
    "draw",
    "locate",
    "new_private_key",
    "pack",
    "parse_object",
    "public_key_of",
    "repair",
    "round_private",
    "signed",
    "to_counts",
    "uniform",
    "unpack",
]
