"""Turn probabilities into the integers that are released: counts out of 2^63, audited exactly.

Rounding could break a ratio that holds with equality. So a very small share l of the uniform
mechanism is mixed in first: it leaves c (exp(eps d) - 1) counts of room in every ratio,
c = l 2^63 / m, and rounding needs a few counts and a few of the last digits of a float. Which l
does is a guess; whether it did is not: the audit decides, and more is mixed in until it
passes. See docs/proofs/rounding.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.errors import GuaranteeError
from whereish.measures import TOTAL, Counts, Limits, Verdict, audit_counts
from whereish.places import Array

# More than this is no rounding.
LARGEST_MIX = 0.01
_DIGITS = 4e-15  # of the probabilities are lost by rounding, at most
_SPARE = 2**20  # counts kept back, so that what a row lacks is never negative
_MORE = 8.0
_FAR = 40.0  # one count is the least there is


@dataclass(frozen=True, eq=False)
class Rounded:
    """Counts, the share of the uniform mechanism mixed in for them, and what the audit saw."""

    counts: Counts
    mix: float
    verdict: Verdict | None


def round_private(matrix: Array, limits: Limits) -> Rounded:
    """Return audited counts for a matrix that is private up to its last digits.

    Raises
    ------
    GuaranteeError
        If more than `LARGEST_MIX` would have to be mixed in.
    """
    used = int((matrix.max(axis=0) > 0).sum())
    exponents = limits.exponents
    closest = float(exponents[~np.eye(len(matrix), dtype=bool)].min(initial=_FAR))
    room = np.expm1(min(max(closest, 1e-300), _FAR))
    mix = min(used * (_DIGITS + 4 * used / TOTAL) / room, LARGEST_MIX)
    while True:
        counts = to_counts(matrix, mix)
        try:
            return Rounded(counts, mix, audit_counts(counts, limits))
        except GuaranteeError:
            if mix >= LARGEST_MIX:
                raise
            mix = min(_MORE * mix, LARGEST_MIX)


def to_counts(matrix: Array, mix: float = 0.0) -> Counts:
    """Return counts with rows of exactly 2^63, after mixing in a share of the uniform mechanism.

    Outputs that no place reports stay so; with a share above 0 every other one has at least one
    count for every place.
    """
    counts = np.zeros(matrix.shape, dtype=np.uint64)
    used = np.flatnonzero(matrix.max(axis=0) > 0)
    m = len(used)
    chance = max(1, int(mix * TOTAL) // m) if mix > 0 else 0
    rest = TOTAL - m * chance - _SPARE
    for x, row in enumerate(matrix[:, used]):
        shares = row / row.sum()
        part = (shares * float(rest)).astype(np.uint64)
        lacking = TOTAL - m * chance - sum(part.tolist())
        part += (shares * float(lacking)).astype(np.uint64)
        lacking = TOTAL - m * chance - sum(part.tolist())
        most = int(part.argmax())
        part[most] = int(part[most]) + lacking
        counts[x, used] = part + np.uint64(chance)
    return counts
