"""EverywhereMechanism: counts on a lattice, with a guarantee for every two points of the plane."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.everywhere.build import EverywhereBuild, everywhere_facts
from whereish.everywhere.proof import VisitedProof
from whereish.measures import TOTAL, Counts
from whereish.measures.lattice_audit import LatticeVerdict, audit_lattice
from whereish.places import Array, Immutable, Places, as_epsilon, as_numbers, as_whole, readonly
from whereish.places.lattice import Lattice
from whereish.places.points import FURTHEST_KM, SAME_PLACE_KM
from whereish.release import Reports, cumulative, draw_at
from whereish.showing import Shown

MOST_REPORTS = 10**9

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class EverywhereMechanism(Immutable, Shown):
    """A mechanism on a lattice that is private between any two points of the plane.

    At a vertex v of the lattice, output z is reported with probability counts[v, z] / 2^63. At any
    other point of the rectangle the probabilities are the bilinear interpolation of those at the
    four corners of its cell. A point outside the rectangle is projected onto it. So for any two
    points x and x' of the plane and every output z, k(x, z) <= exp(eps |x - x'|) k(x', z). The
    constructor checks that in exact arithmetic, and raises GuaranteeError if it does not hold.
    Points are rounded to units of 2^-40 km, a nanometre, first. See docs/proofs/everywhere.md.

    Attributes
    ----------
    counts
        (vertices, outputs) unsigned 64-bit integers, read-only. Every row sums to 2^63. Vertex
        iy * len(xs) + ix is at (xs[ix], ys[iy]).
    lattice
        The `Lattice`, in km of the plane of the outputs: ``xs, ys = mechanism.lattice``.
    outputs
        The places that may be reported.
    epsilon
        The privacy level, per km.
    build
        The record of how it was built.
    proof
        What proves the lower bound of the build for the points it was built for; None without one.
    verdict
        The result of the audit.

    >>> import whereish as wh
    >>> half = 2**62
    >>> m = wh.EverywhereMechanism(
    ...     counts=[[half + half // 2, half // 2], [half, half]], lattice=([0, 1], [0]),
    ...     outputs=wh.Places.from_xy([[0, 0], [1, 0]]), epsilon=1.0,
    ... )
    >>> m.probabilities((0.25, 7.0)).tolist()
    [0.6875, 0.3125]
    >>> len(m.sample((0.25, 7.0), size=100))
    100
    """

    counts: Counts
    lattice: Lattice
    outputs: Places
    epsilon: float
    build: EverywhereBuild = field(default_factory=lambda: EverywhereBuild("given"))
    proof: VisitedProof | None = None
    verdict: LatticeVerdict = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.outputs, Places):
            raise InputError(f"outputs must be Places, got {type(self.outputs).__name__}")
        if not isinstance(self.build, EverywhereBuild):
            raise InputError(f"build must be an EverywhereBuild, got {type(self.build).__name__}")
        if not isinstance(self.proof, VisitedProof | None):
            raise InputError(f"proof must be a VisitedProof, got {type(self.proof).__name__}")
        object.__setattr__(self, "lattice", as_lattice(self.lattice))
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))
        counts = readonly(as_counts(self.counts))
        if counts.shape != (len(self.lattice), len(self.outputs)):
            raise InputError(
                f"counts must have {len(self.lattice)} rows and {len(self.outputs)} columns, got "
                f"{' x '.join(map(str, counts.shape))}"
            )
        object.__setattr__(self, "counts", counts)
        if self.outputs.plane is not None:
            check_near(self.lattice.vertices, "lattice")
        object.__setattr__(self, "verdict", audit_lattice(counts, self.lattice, self.epsilon))

    def __repr__(self) -> str:
        return (
            f"EverywhereMechanism({self.build.method}, {len(self.lattice)} vertices -> "
            f"{len(self.outputs)} outputs, epsilon={self.epsilon:g} per km)"
        )

    def _facts(self) -> list[tuple[str, str]]:
        rows = [
            ("method", self.build.method),
            ("size", f"{len(self.lattice):,} vertices -> {len(self.outputs):,} outputs"),
        ]
        return [*rows, *everywhere_facts(self.epsilon, self.build)]

    @property
    def epsilon_unit(self) -> str:
        """The unit of epsilon, in words."""
        return "per km"

    @cached_property
    def matrix(self) -> Array:
        """(vertices, outputs) probabilities, as floats."""
        return readonly(self.counts.astype(np.float64) / TOTAL)

    def identity(self) -> bytes:
        """Return all numbers that reports depend on."""
        xs, ys = self.lattice.units
        return b"".join(part.tobytes() for part in (self.counts, xs, ys, self.outputs.xy))

    def projected(self, points: Array) -> Array:
        """Return (n, 2) points in km, moved onto the rectangle."""
        ends = [(float(axis[0]), float(axis[-1])) for axis in self.lattice]
        return np.column_stack([np.clip(points[:, k], *ends[k]) for k in range(2)])

    @cached_property
    def _sums(self) -> Counts:
        return cumulative(self.counts)

    def probabilities(self, at: ArrayLike) -> Array:
        """Return the probability of every output at a point, (m,), or at several, (n, m).

        Parameters
        ----------
        at
            A point of two coordinates, or (n, 2) points: degrees of latitude and longitude for
            outputs on the earth, km in the plane otherwise.
        """
        points, single = points_of(self.outputs, at)
        corners, weights = self.lattice.weights(points)
        found = np.einsum("nk,nkm->nm", weights, self.matrix[corners])
        return np.asarray(found[0] if single else found)

    def sample(
        self, at: ArrayLike, size: int | None = None, *, rng: np.random.Generator | None = None
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
            ``snapped_km`` is how far each point was moved onto the rectangle.
        """
        points, single = points_of(self.outputs, at)
        points = repeated(points, single, size)
        position = self.lattice.position(points)
        outputs = draw_at(self._sums, self.lattice, position, rng)
        latlon = None if self.outputs.latlon is None else self.outputs.latlon[outputs]
        moved = position.moved_km
        outside = moved > SAME_PLACE_KM
        return Reports(outputs, self.outputs.xy[outputs], latlon, moved, outside, rng is not None)


def as_lattice(value: Any) -> Lattice:
    """Return a Lattice, or make one of (xs, ys)."""
    if isinstance(value, Lattice):
        return value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(
            f"lattice must be (xs, ys), two lists of coordinates in km, got {type(value).__name__}"
        )
    return Lattice(*value)


def points_of(outputs: Places, at: ArrayLike) -> tuple[Array, bool]:
    """Return (n, 2) km in the plane of the outputs, and whether a single point was given."""
    try:
        values = np.asarray(at)
        single = values.ndim == 1
        points = as_numbers("at", values.reshape(-1, 2) if single else values, (None, 2))
        xy = points if outputs.plane is None else outputs.plane.to_xy(points)
        if len(xy) == 0 or (single and len(xy) != 1):
            raise InputError
    except ValueError:
        # The message must not contain the numbers: they are the true location.
        raise InputError(
            "at must be points of two coordinates each: latitude from -90 to 90 and longitude from "
            "-180 to 180 degrees, in this order, or finite km in a plane"
        ) from None
    if outputs.plane is not None:
        check_near(xy, "at")
    return xy, single


def check_near(xy: Array, name: str) -> None:
    """Raise InputError for points of the earth that are too far away for an epsilon per km."""
    if not (np.square(xy).sum(axis=1) <= FURTHEST_KM**2).all():
        raise InputError(
            f"{name} must be within {FURTHEST_KM:g} km of the centre of the plane of the outputs, "
            "where a km of the plane is a km of the ground up to 5 %, and a point is further away"
        )


def repeated(points: NDArray[_T], single: bool, size: int | None) -> NDArray[_T]:
    """Return a single point so many times."""
    if size is None:
        return points
    size = as_whole("size", size, 0)
    if size > MOST_REPORTS:
        raise InputError(f"size must be at most {MOST_REPORTS:,} at a time, got {size:,}")
    if not single:
        raise InputError(f"size must not be given for several points, got {size}")
    return np.repeat(points, size, axis=0)


def as_counts(counts: Any) -> Counts:
    """Convert lists of whole numbers; arrays must be unsigned 64-bit integers already."""
    if isinstance(counts, np.ndarray):
        return counts
    try:
        rows = [[int(value) for value in row] for row in counts]
        whole = all(a == b for row, old in zip(rows, counts, strict=True)
                    for a, b in zip(row, old, strict=True))  # fmt: skip
        if not whole:
            raise ValueError
        return np.array(rows, dtype=np.uint64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("counts must be a matrix of unsigned 64-bit integers") from None
