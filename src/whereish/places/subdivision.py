"""Streets cut into pieces: the vertices between which probabilities are interpolated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from whereish.errors import InputError
from whereish.places.lattice import UNITS_PER_KM, Whole
from whereish.places.points import SAME_PLACE_KM
from whereish.places.roads import RoadNetwork, RoadPoints, node_positions
from whereish.places.validation import Array, Immutable, readonly

LEAST_PIECE = int(SAME_PLACE_KM * UNITS_PER_KM)  # a millimetre, in units


class Pieces(NamedTuple):
    """The pieces of all streets, in the order of the streets and along them; (p,) arrays."""

    street: Whole
    lower: Whole  # the vertex at the beginning
    upper: Whole  # the vertex at the end
    start: Whole  # units from the first node of the street to the beginning
    width: Whole  # the length in units


class OnPieces(NamedTuple):
    """Where points are: the vertices at the two ends of the piece, and units, (n,) arrays."""

    lower: Whole
    upper: Whole
    steps: Whole  # from the lower vertex to the point
    widths: Whole  # to the upper vertex


@dataclass(frozen=True, eq=False, repr=False)
class Subdivision(Immutable):
    """The streets of a network, cut into pieces.

    The vertices are the nodes of the network, with their numbers, and then the cuts.

    Parameters
    ----------
    network
        The streets.
    street, steps
        (k,) the street of each cut, and the units of 2^-40 km from its first node: sorted by street
        and along it, a millimetre or more from each other and from the ends.
    """

    network: RoadNetwork
    street: Whole
    steps: Whole

    def __post_init__(self) -> None:
        if not isinstance(self.network, RoadNetwork):
            raise InputError(f"network must be a RoadNetwork, got {type(self.network).__name__}")
        cuts = RoadPoints(self.network, self.street, self.steps)
        object.__setattr__(self, "street", cuts.edge)
        object.__setattr__(self, "steps", cuts.steps)
        if (np.diff(self.street) < 0).any() or (self.pieces.width < LEAST_PIECE).any():
            raise InputError(
                "cuts must be sorted by street and along it, a millimetre or more from each other "
                "and from the ends of the street"
            )

    def __len__(self) -> int:
        return len(self.network.nodes) + len(self.street)

    def __repr__(self) -> str:
        return f"Subdivision({len(self)} vertices, {len(self.pieces.width)} pieces)"

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces of all streets."""
        network, cuts = self.network, np.arange(len(self.street))
        count = np.bincount(self.street, minlength=len(network.edges)) + 1
        last = np.cumsum(count) - 1
        first = last - count + 1
        lower, upper, start, stop = (np.zeros(int(count.sum()), np.int64) for _ in range(4))
        lower[first], upper[last] = network.edges.T
        stop[last] = network.units
        before = cuts + self.street  # the piece that ends at each cut
        upper[before] = lower[before + 1] = len(network.nodes) + cuts
        stop[before] = start[before + 1] = self.steps
        street = np.repeat(np.arange(len(network.edges)), count)
        parts = (street, lower, upper, start, stop - start)
        return Pieces(*(readonly(part) for part in parts))

    @cached_property
    def vertices(self) -> RoadPoints:
        """The vertices, as points on the streets."""
        position = np.vstack(
            [node_positions(self.network), np.column_stack([self.street, self.steps])]
        )
        return RoadPoints(self.network, position[:, 0], position[:, 1])

    def locate(self, points: RoadPoints) -> OnPieces:
        """Return the piece of each point, and where it is on it, in whole units."""
        at = self.network.snap(points)
        base = np.cumsum(self.network.units + 1) - self.network.units  # one street after another
        cuts = base[self.street] + self.steps
        piece = np.searchsorted(cuts, base[at.edge] + at.steps, side="right") + at.edge
        pieces = self.pieces
        return OnPieces(
            pieces.lower[piece], pieces.upper[piece], at.steps - pieces.start[piece],
            pieces.width[piece],
        )  # fmt: skip

    def weights(self, points: RoadPoints) -> tuple[Whole, Array]:
        """Return the (n, 2) vertices at the ends of the pieces of points, and their linear weights.

        >>> network = RoadNetwork([[0, 0], [2, 0]], [[0, 1]])
        >>> halves = Subdivision(network, np.array([0]), network.units // 2)
        >>> vertices, weights = halves.weights(network.at([0, 0], [0.125, 0.5]))
        >>> vertices.tolist(), weights.tolist()
        ([[0, 2], [2, 1]], [[0.75, 0.25], [1.0, 0.0]])
        """
        at = self.locate(points)
        share = at.steps / at.widths
        return np.column_stack([at.lower, at.upper]), np.column_stack([1 - share, share])

    def cut(self, counts: Whole) -> Subdivision:
        """Return the subdivision in which each piece is cut into so many equal ones."""
        pieces = self.pieces
        of = np.repeat(np.arange(len(counts)), counts - 1)
        number = (
            np.arange(len(of)) - np.repeat(np.cumsum(counts - 1) - (counts - 1), counts - 1) + 1
        )
        share = number / counts[of]
        new = pieces.start[of] + np.floor(share * pieces.width[of]).astype(np.int64)
        street = np.concatenate([self.street, pieces.street[of]])
        steps = np.concatenate([self.steps, new])
        order = np.lexsort((steps, street))
        return Subdivision(self.network, street[order], steps[order])
