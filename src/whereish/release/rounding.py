"""Round probabilities to the released counts: integers out of 2^63, which are audited exactly.

Rounding could break a ratio that holds with equality. So a very small share l of the uniform
mechanism is mixed in first. It leaves a margin of c (exp(eps d) - 1) counts in every ratio,
c = l 2^63 / m, and rounding needs a few counts and the last digits of a float. The first l is an
estimate; the audit decides, and l is increased until it passes. See docs/proofs/rounding.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.errors import GuaranteeError
from whereish.measures import TOTAL, Counts, Limits, Verdict, audit_counts
from whereish.places import Array

# A larger mix cannot be explained by rounding.
LARGEST_MIX = 0.01
_ROUNDING = 4e-15  # largest relative error of a probability by rounding
_SPARE = 2**20  # counts kept back, so that the rest of a row is never negative
_GROWTH = 8.0  # of the mix, after an audit that failed
_LARGEST_EXPONENT = 40.0  # a larger one allows no smaller mix: the unit is one count


@dataclass(frozen=True, eq=False)
class Rounded:
    """Counts, the share of the uniform mechanism in them, and the result of their audit."""

    counts: Counts
    mix: float
    verdict: Verdict | None


def round_private(matrix: Array, limits: Limits) -> Rounded:
    """Return audited counts for a matrix that is private up to its last digits.

    Raises
    ------
    GuaranteeError
        If the audit fails with a mix of `LARGEST_MIX`.
    """
    used = int((matrix.max(axis=0) > 0).sum())
    exponents = limits.exponents
    closest = float(exponents[~np.eye(len(matrix), dtype=bool)].min(initial=_LARGEST_EXPONENT))
    margin = np.expm1(min(max(closest, 1e-300), _LARGEST_EXPONENT))
    mix = min(used * (_ROUNDING + 4 * used / TOTAL) / margin, LARGEST_MIX)
    while True:
        counts = to_counts(matrix, mix)
        try:
            return Rounded(counts, mix, audit_counts(counts, limits))
        except GuaranteeError:
            if mix >= LARGEST_MIX:
                raise
            mix = min(_GROWTH * mix, LARGEST_MIX)


def to_counts(matrix: Array, mix: float = 0.0) -> Counts:
    """Return counts whose rows sum to exactly 2^63, with a share of the uniform mechanism.

    An output that no place reports has no counts. With a share above 0, every other output has at
    least one count for every place.
    """
    counts = np.zeros(matrix.shape, dtype=np.uint64)
    used = np.flatnonzero(matrix.max(axis=0) > 0)
    m = len(used)
    uniform = max(1, int(mix * TOTAL) // m) if mix > 0 else 0
    rest = TOTAL - m * uniform - _SPARE
    for x, row in enumerate(matrix[:, used]):
        shares = row / row.sum()
        part = (shares * float(rest)).astype(np.uint64)
        missing = TOTAL - m * uniform - sum(part.tolist())
        part += (shares * float(missing)).astype(np.uint64)
        missing = TOTAL - m * uniform - sum(part.tolist())
        most = int(part.argmax())
        part[most] = int(part[most]) + missing
        counts[x, used] = part + np.uint64(uniform)
    return counts
