"""From the matrix of a solver on the vertices of streets to audited counts.

Mixing with the uniform mechanism over the m outputs in use, K' = (1 - l) K + l / m, keeps the rows
and gives every two neighbouring vertices room: the difference does not grow, and the smaller
probability grows. First the ordinary repair for the ratios 1 + eps w (`release/repair.py`), then
rounding to counts, with a little more of the uniform mechanism as room for the rounding. The audit
decides. The proof is in docs/proofs/roads.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.errors import GuaranteeError
from whereish.measures import TOTAL, Counts
from whereish.measures.road_audit import RoadVerdict, audit_roads
from whereish.places import Array, Subdivision
from whereish.places.lattice import UNITS_PER_KM
from whereish.release.repair import repair
from whereish.release.rounding import LARGEST_MIX, to_counts

# An output whose probability is below this at every vertex is removed, for all vertices.
UNUSED = 1e-7
_ROUNDING = 4e-15  # largest relative error of a probability by rounding
_GROWTH = 8.0  # of the mix, after an audit that failed


@dataclass(frozen=True, eq=False)
class ReleasedOnRoads:
    """Counts on streets, the result of their audit, and the uniform mechanism's share in them."""

    counts: Counts
    verdict: RoadVerdict
    mix: float


def release_roads(
    matrix: Array, vertices: Subdivision, reach: Array, epsilon: float
) -> ReleasedOnRoads:
    """Return audited counts for a matrix that is private up to a solver's tolerance.

    Outputs that are not used have no counts at any vertex.

    Parameters
    ----------
    reach
        (vertices, vertices) shortest paths, with log(1 + eps w) for the length of a piece.

    Raises
    ------
    GuaranteeError
        If more than `LARGEST_MIX` of the uniform mechanism would be needed.
    """
    clean = np.where(matrix > 0, matrix, 0.0)
    clean[:, clean.max(axis=0) < UNUSED] = 0.0
    repaired = repair(clean, 1.0, reach)
    outputs = int((repaired.matrix.max(axis=0) > 0).sum())
    closest = epsilon * float(vertices.pieces.width.min()) / UNITS_PER_KM
    rounding = min(3 * outputs * (_ROUNDING + 4 * outputs / TOTAL) / closest, LARGEST_MIX)
    while repaired.mix + rounding <= LARGEST_MIX:
        counts = to_counts(repaired.matrix, max(rounding, 2.0**-63))
        try:
            verdict = audit_roads(counts, vertices, epsilon)
        except GuaranteeError:
            rounding *= _GROWTH
        else:
            mix = 1 - (1 - repaired.mix) * (1 - rounding)
            return ReleasedOnRoads(counts, verdict, mix)
    raise GuaranteeError(
        f"the matrix is too far from private along the streets at epsilon {epsilon:g}: more than "
        f"{LARGEST_MIX:.0%} of it would have to be replaced by the uniform mechanism"
    )
