"""The proof of a lower bound for visited points; `everywhere/bound.py` computes the bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.measures import Proof
from whereish.places import Array, Immutable


@dataclass(frozen=True, eq=False, repr=False)
class VisitedProof(Immutable):
    """What proves a lower bound for visited points: clusters, and multipliers between them.

    Any centres, any clusters with at least one point each, and any multipliers y >= 0 prove a
    bound: `proved_bound` computes it, and does not know where they come from.

    Attributes
    ----------
    centres
        (c, 2) km.
    cluster
        (n,) the number of the centre of each point.
    rows
        The multipliers, with numbers of centres for places.
    """

    centres: Array
    cluster: NDArray[np.int32]
    rows: Proof
