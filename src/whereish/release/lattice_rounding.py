"""From the matrix of a conic solver on a lattice to audited counts.

Mixing with the uniform mechanism over the m outputs in use, K' = (1 - l) K + l / m, keeps the rows
and gives every corner room: the uniform mechanism has no slope, so the limit eps k_v grows by
eps l / m and the slope does not grow. A corner whose slope is above its limit by r is repaired if
l eps / m >= (1 - l) r. The smallest such l is taken; then the matrix is rounded to counts, with a
little more of the uniform mechanism as room for the rounding. The audit decides. The proof is in
docs/proofs/everywhere.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.errors import GuaranteeError
from whereish.measures import TOTAL, Counts
from whereish.measures.lattice_audit import LatticeVerdict, audit_lattice
from whereish.places import Array
from whereish.places.lattice import Lattice
from whereish.release.rounding import to_counts

# An output whose probability is below this at every vertex is removed, for all vertices.
UNUSED = 1e-7
# A solver breaks cones in the last digits only. A larger mix means that its answer is wrong.
LARGEST_MIX = 0.01
_ROUNDING = 4e-15  # largest relative error of a probability by rounding
_GROWTH = 8.0  # of the mix, after an audit that failed


@dataclass(frozen=True, eq=False)
class Released:
    """Counts on a lattice, the result of their audit, and the uniform mechanism's share in them."""

    counts: Counts
    verdict: LatticeVerdict
    mix: float


def release_lattice(matrix: Array, lattice: Lattice, epsilon: float) -> Released:
    """Return audited counts for a matrix that satisfies the cones up to a solver's tolerance.

    Outputs that are not used have no counts at any vertex.

    Raises
    ------
    GuaranteeError
        If more than `LARGEST_MIX` of the uniform mechanism would be needed.
    """
    clean = np.where(matrix > 0, matrix, 0.0)
    used = clean.max(axis=0) >= UNUSED
    clean[:, ~used] = 0.0
    sums = clean.sum(axis=1, keepdims=True)
    if not (np.isfinite(clean).all() and (sums > 0).all()):
        raise GuaranteeError("not a mechanism: some vertex would have nothing to report")
    clean /= sums
    outputs = int(used.sum())
    short = shortfall(clean[:, used], lattice, epsilon)
    mix = short / (short + epsilon / outputs)
    repaired = np.zeros_like(clean)
    repaired[:, used] = (1 - mix) * clean[:, used] + mix / outputs
    # Rounding moves a probability by a few units in the last place: a slope by twice that over the
    # spacing, on two axes.
    steps = np.concatenate([np.diff(axis) for axis in lattice])
    closest = float(epsilon * steps.min(initial=np.inf))
    rounding = min(outputs * (_ROUNDING + 4 * outputs / TOTAL) * 3 / closest, LARGEST_MIX)
    while True:
        if mix + rounding > LARGEST_MIX:
            raise GuaranteeError(
                f"the matrix is too far from private everywhere at epsilon {epsilon:g}: more than "
                f"{LARGEST_MIX:.0%} of it would have to be replaced by the uniform mechanism"
            )
        counts = to_counts(repaired, max(rounding, 2.0**-63))
        try:
            verdict = audit_lattice(counts, lattice, epsilon)
        except GuaranteeError:
            rounding *= _GROWTH
        else:
            return Released(counts, verdict, 1 - (1 - mix) * (1 - rounding))


def shortfall(matrix: Array, lattice: Lattice, epsilon: float) -> float:
    """Return by how much the slope at a corner exceeds its limit eps k_v, at most; per km, or 0."""
    table = matrix.reshape(len(lattice.ys), len(lattice.xs), -1)
    east = np.diff(table, axis=1) / np.diff(lattice.xs)[None, :, None]
    north = np.diff(table, axis=0) / np.diff(lattice.ys)[:, None, None]
    worst = 0.0
    low, high, every = slice(None, -1), slice(1, None), slice(None)
    for x in (low, high) if len(lattice.xs) > 1 else (every,):
        for y in (low, high) if len(lattice.ys) > 1 else (every,):
            slope_x = east[y] if len(lattice.xs) > 1 else 0.0
            slope_y = north[:, x] if len(lattice.ys) > 1 else 0.0
            over = np.hypot(slope_x, slope_y) - epsilon * table[y, x]
            worst = max(worst, float(over.max(initial=0.0)))
    return worst
