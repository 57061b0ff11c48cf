"""Planar Laplace noise followed by the best remap, for any point of the plane, drawn exactly."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.everywhere.build import EverywhereBuild, everywhere_facts
from whereish.everywhere.mechanism import as_lattice, points_of, repeated
from whereish.everywhere.noise_table import NoiseTable, choose_borders
from whereish.everywhere.points import (
    Clusters,
    QualityMetric,
    Visits,
    as_visits,
    clustered,
    medians,
    quality,
    separate,
)
from whereish.places import Array, Immutable, Places, as_epsilon, readonly
from whereish.places.lattice import UNITS_PER_KM, Lattice, to_units
from whereish.release import Reports
from whereish.release.exact_noise import PlanarNoise
from whereish.showing import Shown

_CLUSTERS = 400  # of points, for the choice of the remap
_LOSS_CLUSTERS = 1500  # of points, for the loss
_ROUNDS = 4  # of moving outputs to the medians of what is reported there
_SAME_KM = 1e-3  # outputs closer than a metre are one
_FURTHEST = 2**53  # units: noise beyond is far outside every table


@dataclass(frozen=True, eq=False)
class PlanarLaplaceEverywhere(Immutable, Shown):
    """Planar Laplace noise and a remap that is fixed in advance, for any point of the plane.

    The point is rounded to units of 2^-40 km. Noise (a, b) in whole units has probability
    proportional to exp(-eps |(a, b)|), so the noisy point is eps-geo-indistinguishable exactly, by
    the triangle inequality. It falls into a cell of a fixed table, whose output is reported: that
    costs no privacy. The noise is drawn with integers only. See docs/proofs/everywhere.md.

    Attributes
    ----------
    epsilon
        The privacy level, per km.
    borders
        The borders between the cells of the table, as a `Lattice` in km: columns are separated by
        its xs and rows by its ys. The outermost cells are unbounded.
    table
        (rows, columns) the output that is reported for a noisy point in each cell.
    outputs
        The places that may be reported.
    build
        The record of how it was built.
    """

    epsilon: float
    borders: Lattice
    table: NDArray[np.int64]
    outputs: Places
    build: EverywhereBuild = field(default_factory=lambda: EverywhereBuild("given"))

    def __post_init__(self) -> None:
        if not isinstance(self.outputs, Places):
            raise InputError(f"outputs must be Places, got {type(self.outputs).__name__}")
        if not isinstance(self.build, EverywhereBuild):
            raise InputError(f"build must be an EverywhereBuild, got {type(self.build).__name__}")
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))
        object.__setattr__(self, "borders", as_lattice(self.borders))
        table = np.asarray(self.table)
        shape = len(self.borders.ys) + 1, len(self.borders.xs) + 1
        if table.dtype.kind not in "iu" or table.shape != shape:
            raise InputError(
                f"table must be {shape[0]} x {shape[1]} numbers of outputs, got "
                f"{' x '.join(map(str, table.shape)) or 'one number'}"
            )
        if table.min() < 0 or table.max() >= len(self.outputs):
            raise InputError(f"table must name outputs from 0 to {len(self.outputs) - 1}")
        object.__setattr__(self, "table", readonly(table.astype(np.int64)))

    def __repr__(self) -> str:
        return (
            f"PlanarLaplaceEverywhere({self.table.size} cells -> {len(self.outputs)} outputs, "
            f"epsilon={self.epsilon:g} per km)"
        )

    def _facts(self) -> list[tuple[str, str]]:
        rows = [
            ("method", self.build.method),
            ("size", f"{self.table.size:,} cells -> {len(self.outputs):,} outputs"),
        ]
        return [*rows, *everywhere_facts(self.epsilon, self.build)]

    @property
    def epsilon_unit(self) -> str:
        """The unit of epsilon, in words."""
        return "per km"

    def identity(self) -> bytes:
        """Return all numbers that reports depend on."""
        xs, ys = self.borders.units
        level = np.float64(self.epsilon)
        return b"".join(part.tobytes() for part in (level, self.table, xs, ys, self.outputs.xy))

    def projected(self, points: Array) -> Array:
        """Return the points: the noise needs no projection."""
        return points

    def probabilities(self, at: ArrayLike) -> Array:
        """Return the probability of every output at a point, (m,), or at several, (n, m).

        These are approximate: the noise is integrated over the cells in floating point, with an
        error below 1e-7. Reports are not drawn from them.
        """
        points, single = points_of(self.outputs, at)
        noise = NoiseTable(self.borders, self.epsilon)
        found = np.zeros((len(points), len(self.outputs)))
        for some in noise.blocks(len(points)):
            np.add.at(found[some].T, self.table.ravel(), noise.masses(points[some]))
        return np.asarray(found[0] if single else found)

    def sample(
        self, at: ArrayLike, size: int | None = None, *, rng: np.random.Generator | None = None
    ) -> Reports:
        """Draw reports, with the operating system's randomness: see `EverywhereMechanism.sample`.

        No point is moved onto a rectangle: ``snapped_km`` is 0.
        """
        points, single = points_of(self.outputs, at)
        whole = to_units(repeated(points, single, size))
        noise = PlanarNoise(self.epsilon / UNITS_PER_KM, rng)
        noisy = np.empty_like(whole)
        for k, (x, y) in enumerate(whole.tolist()):
            a, b = noise.draw()
            noisy[k] = _clamped(x + a), _clamped(y + b)
        columns, rows = (
            np.searchsorted(axis, noisy[:, k], side="right")
            for k, axis in enumerate(self.borders.units)
        )
        outputs = self.table[rows, columns]
        latlon = None if self.outputs.latlon is None else self.outputs.latlon[outputs]
        nothing = np.zeros(len(outputs))
        return Reports(
            outputs, self.outputs.xy[outputs], latlon, nothing, nothing > 0, rng is not None
        )


def planar_laplace_everywhere(
    points: ArrayLike | Places,
    weights: ArrayLike | None,
    epsilon: float,
    *,
    outputs: Places | None = None,
    quality_metric: QualityMetric | None = None,
    normalise: bool = False,
) -> PlanarLaplaceEverywhere:
    """Build planar Laplace noise with the best remap for a person, private between all points.

    Parameters
    ----------
    points, weights
        (n, 2) points in km, or `Places`, that the person visits, and how often: numbers with sum 1,
        or None for equal shares.
    epsilon
        The privacy level, per km.
    outputs
        The places that may be reported. If not given, they are chosen: each the geometric median of
        the true location, given its reports.
    quality_metric
        d_Q, by default Euclidean distance: a function of (n, 2) points and (m, 2) outputs that
        returns an (n, m) matrix.
    normalise
        Divide the weights by their sum.

    >>> import whereish as wh
    >>> m = wh.planar_laplace_everywhere([[0, 0], [2, 0], [2, 1]], [0.6, 0.3, 0.1], epsilon=1.0)
    >>> m.epsilon, len(m.sample((0.3, 0.1), size=10))
    (1.0, 10)
    """
    visits = as_visits(points, weights, normalise)
    level = as_epsilon(epsilon)
    check_quality(quality_metric)
    places = None if outputs is None else outputs_in(outputs, visits)
    return planar_laplace_for(visits, level, places, quality_metric)


def planar_laplace_for(
    visits: Visits, level: float, outputs: Places | None, metric: QualityMetric | None
) -> PlanarLaplaceEverywhere:
    """Build planar Laplace noise with the best remap, for validated arguments."""
    start = time.perf_counter()
    groups = clustered(visits, _CLUSTERS)
    borders = choose_borders(groups.xy, level)
    masses = NoiseTable(borders, level).masses(groups.xy)  # (cells, clusters)
    if outputs is None:
        table, xy = _moved(masses, visits, groups, _first_outputs(visits, groups), metric)
        places = visits.places(xy)
    else:
        places = outputs
        table = _remap(masses, visits, groups, places.xy, metric)
    shape = len(borders.ys) + 1, len(borders.xs) + 1
    built = PlanarLaplaceEverywhere(level, borders, table.reshape(shape), places)
    loss = noise_loss(built, visits, metric)
    seconds = time.perf_counter() - start
    build = EverywhereBuild("planar-laplace-everywhere", seconds=seconds, loss_km=loss)
    return replace(built, build=build)


def noise_loss(
    mechanism: PlanarLaplaceEverywhere, visits: Visits, metric: QualityMetric | None
) -> float:
    """Return the expected loss, with noise around at most 1,500 points or clusters."""
    groups = clustered(visits, _LOSS_CLUSTERS)
    costs = expected_costs(visits, groups.of, len(groups.xy), mechanism.outputs.xy, metric)
    noise = NoiseTable(mechanism.borders, mechanism.epsilon)
    total = 0.0
    for some in noise.blocks(len(groups.xy)):
        masses = noise.masses(groups.xy[some])
        total += float(np.vdot(masses, costs[some].T[mechanism.table.ravel()]))
    return total


def check_quality(metric: Any) -> None:
    """Raise InputError unless a quality metric is a function or None."""
    if metric is not None and not callable(metric):
        raise InputError(
            f"quality_metric must be a function of points and outputs, got {type(metric).__name__}"
        )


def outputs_in(outputs: Any, visits: Visits) -> Places:
    """Return given outputs in the plane of the points."""
    if not isinstance(outputs, Places):
        raise InputError(f"outputs must be Places, got {type(outputs).__name__}")
    if outputs.plane == visits.plane:
        return outputs
    return outputs.in_plane_of(visits.places(visits.xy[:1]))


def expected_costs(
    visits: Visits, of: NDArray[np.int64], count: int, outputs: Array, metric: QualityMetric | None
) -> Array:
    """Return (groups, outputs) sums over the points of a group of weight times d_Q."""
    total = np.zeros((count, len(outputs)))
    step = max(1, 4_000_000 // max(1, len(outputs)))
    for first in range(0, len(visits), step):
        some = slice(first, first + step)
        away = quality(visits.xy[some], outputs, metric)
        np.add.at(total, of[some], visits.weights[some, None] * away)
    return total


def _remap(
    masses: Array, visits: Visits, groups: Clusters, xy: Array, metric: QualityMetric | None
) -> NDArray[np.int64]:
    """Return the output with the least expected loss for each cell."""
    costs = expected_costs(visits, groups.of, len(groups.xy), xy, metric)
    return np.asarray((masses @ costs).argmin(axis=1))


def _moved(
    masses: Array, visits: Visits, groups: Clusters, xy: Array, metric: QualityMetric | None
) -> tuple[NDArray[np.int64], Array]:
    """Alternate between the best remap and the best outputs for it; only outputs in use are kept.

    Other metrics than the Euclidean one choose among the first outputs.
    """
    for _ in range(_ROUNDS if metric is None else 0):
        table = _remap(masses, visits, groups, xy, metric)
        used, of = np.unique(table, return_inverse=True)
        joint = np.zeros((len(used), len(groups.xy)))
        np.add.at(joint, of.reshape(-1), masses * groups.weights)
        xy = separate(medians(joint, groups.xy), _SAME_KM)
    table = _remap(masses, visits, groups, xy, metric)
    used, of = np.unique(table, return_inverse=True)
    return of.reshape(-1), xy[used]


def _first_outputs(visits: Visits, groups: Clusters) -> Array:
    """Return the largest clusters and a coarse grid over the points."""
    order = np.argsort(-groups.weights, kind="stable")[:150]
    low, high = visits.xy.min(axis=0), visits.xy.max(axis=0)
    sides = [np.unique(np.linspace(a, b, 12)) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    return separate(np.vstack([groups.xy[order], grid]), _SAME_KM)


def _clamped(value: int) -> int:
    return max(-_FURTHEST, min(_FURTHEST, value))
