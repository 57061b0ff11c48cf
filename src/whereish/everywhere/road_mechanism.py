"""RoadMechanism: counts on streets, with a guarantee for every two points of the streets."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.mechanism import as_counts, points_of, repeated
from whereish.measures import TOTAL, Counts
from whereish.measures.road_audit import RoadVerdict, audit_roads
from whereish.places import (
    Array,
    Immutable,
    RoadNetwork,
    RoadPoints,
    Subdivision,
    as_epsilon,
    readonly,
)
from whereish.release import Reports, cumulative, draw_between


@dataclass(frozen=True, eq=False)
class RoadMechanism(Immutable):
    """A mechanism that is private between any two points of the streets of a network.

    At vertex v, output z is reported with probability counts[v, z] / 2^63. At any other point of a
    street the probabilities are the linear interpolation of those at the two ends of its piece. So
    for any two points x and x' of the streets and every output z, k(x, z) <= exp(eps d(x, x'))
    k(x', z), with d the distance along the streets. The constructor checks that in exact
    arithmetic, and raises GuaranteeError if it does not hold.

    A point off the streets is moved to the nearest point of a street first. The guarantee is
    between the points of the streets: two raw points count as the points that they are moved to,
    and these may be on different streets, far apart. See docs/proofs/roads.md.

    Attributes
    ----------
    counts
        (vertices, outputs) unsigned 64-bit integers, read-only. Every row sums to 2^63.
    vertices
        The `Subdivision` of the streets: nodes of the network first, then the cuts.
    outputs
        The points of streets that may be reported (`RoadPoints`).
    epsilon
        The privacy level, per km along the streets.
    build
        The record of how it was built.
    verdict
        The result of the audit.
    """

    counts: Counts
    vertices: Subdivision
    outputs: RoadPoints
    epsilon: float
    build: EverywhereBuild = field(default_factory=lambda: EverywhereBuild("given"))
    verdict: RoadVerdict = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.vertices, Subdivision):
            raise InputError(f"vertices must be a Subdivision, got {type(self.vertices).__name__}")
        if not isinstance(self.outputs, RoadPoints):
            raise InputError(f"outputs must be RoadPoints, got {type(self.outputs).__name__}")
        if not isinstance(self.build, EverywhereBuild):
            raise InputError(f"build must be an EverywhereBuild, got {type(self.build).__name__}")
        object.__setattr__(self, "outputs", self.network.snap(self.outputs))
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))
        counts = readonly(as_counts(self.counts))
        if counts.shape != (len(self.vertices), len(self.outputs)):
            raise InputError(
                f"counts must have {len(self.vertices)} rows and {len(self.outputs)} columns, got "
                f"{' x '.join(map(str, counts.shape))}"
            )
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "verdict", audit_roads(counts, self.vertices, self.epsilon))

    def __repr__(self) -> str:
        return (
            f"RoadMechanism({self.build.method}, {len(self.vertices)} vertices -> "
            f"{len(self.outputs)} outputs, epsilon={self.epsilon:g} per km along the streets)"
        )

    @property
    def network(self) -> RoadNetwork:
        """The streets."""
        return self.vertices.network

    @property
    def epsilon_unit(self) -> str:
        """The unit of epsilon, in words."""
        return "per km along the streets"

    @cached_property
    def matrix(self) -> Array:
        """(vertices, outputs) probabilities, as floats."""
        return readonly(self.counts.astype(np.float64) / TOTAL)

    @cached_property
    def _sums(self) -> Counts:
        return cumulative(self.counts)

    def probabilities(self, at: ArrayLike | RoadPoints) -> Array:
        """Return the probability of every output at a point, (m,), or at several, (n, m).

        Parameters
        ----------
        at
            A point of two coordinates, or (n, 2) points: degrees of latitude and longitude if the
            nodes lie on the earth, km in the plane otherwise. They must be within 1 km of a street.
            Or `RoadPoints` of the network; one of them counts as a single point.
        """
        points, single = self._on_streets(at)
        ends, weights = self.vertices.weights(points)
        found = np.einsum("nk,nkm->nm", weights, self.matrix[ends])
        return np.asarray(found[0] if single else found)

    def sample(
        self,
        at: ArrayLike | RoadPoints,
        size: int | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> Reports:
        """Draw reports, with the operating system's randomness.

        Parameters
        ----------
        at
            The true location, or several: see `probabilities`.
        size
            The number of reports of a single point. k of them cost k epsilon.
        rng
            A seeded generator, for studies only; the result says that it was seeded.

        Returns
        -------
        Reports
            ``snapped_km`` is how far each point was moved to a street.
        """
        points, single = self._on_streets(at)
        points = points.subset(repeated(np.arange(len(points)), single, size))
        outputs = draw_between(self._sums, self.vertices.locate(points), rng)
        latlon = None if self.outputs.latlon is None else self.outputs.latlon[outputs]
        outside = np.zeros(len(outputs), bool)
        moved = np.asarray(points.snapped_km)
        return Reports(outputs, self.outputs.xy[outputs], latlon, moved, outside, rng is not None)

    def _on_streets(self, at: ArrayLike | RoadPoints) -> tuple[RoadPoints, bool]:
        """Return points of the streets, and whether a single point was given."""
        if isinstance(at, RoadPoints):
            return self.network.snap(at), len(at) == 1
        xy, single = points_of(self.network.nodes, at)
        return self.network.snap(xy), single
