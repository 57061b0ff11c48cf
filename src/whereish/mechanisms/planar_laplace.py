"""Planar Laplace: continuous noise in the plane, and a mechanism on a finite set of places.

References
----------
.. [1] Andres, Bordenabe, Chatzikokolakis, Palamidessi: Geo-indistinguishability: differential
   privacy for location-based systems. CCS 2013.
.. [2] Mironov: On significance of the least significant bits for differential privacy. CCS 2012.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.measures import loss_between
from whereish.mechanisms.arguments import check_places, chosen_outputs
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import (
    Array,
    CellEdges,
    Places,
    as_epsilon,
    as_number,
    as_numbers,
    as_prior,
    cell_edges,
    euclidean,
)
from whereish.release import uniform

# Further than this from the nearest point of an edge, in units of 1/eps, at most exp(-45) is left.
_FAR = 45.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_CHUNK = 16384

# Noisy points lie on multiples of this: a power of two, so that they are exact doubles.
LATTICE_KM = 2.0**-10
# Up to this distance from its centre, lengths in a plane exceed geodesics by at most this factor.
_FAR_KM, _STRETCH = 1000.0, 1.0042


def planar_laplace_noise(
    xy_km: ArrayLike, epsilon: float, rng: np.random.Generator | None = None
) -> Array:
    """Add continuous planar Laplace noise to points in a local plane.

    The angle is uniform and the radius has the Gamma(2, 1/eps) distribution, so the density is
    proportional to exp(-eps distance) [1]_. Points on the earth must be projected with a
    `LocalPlane` whose centre is public, and the result projected back: a km in that plane is a km
    on the ground at every latitude.

    The result is rounded to a lattice of about a metre that does not depend on the points: the
    last digits of a sum of floats can reveal the point [2]_, and rounding removes them. See
    docs/proofs/planar-laplace.md for what remains.

    Parameters
    ----------
    xy_km
        (n, 2) points.
    rng
        A seeded generator, for studies only: its noise can be subtracted again. By default the
        randomness is the operating system's.
    """
    points = as_numbers("xy_km", xy_km, (None, 2))
    level = as_epsilon(epsilon)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator or None, got {type(rng).__name__}")
    chance = _system_uniform((3, len(points))) if rng is None else 1 - rng.random((3, len(points)))
    radius = -(np.log(chance[0]) + np.log(chance[1])) / level
    angle = 2 * np.pi * chance[2]
    moved = points + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.asarray(np.round(moved / LATTICE_KM) * LATTICE_KM) + 0.0  # and no -0.0


def noise_near(
    places: Places, xy_km: Array, epsilon: float, rng: np.random.Generator | None = None
) -> Array:
    """Add planar Laplace noise to points in the plane of some places, in km on the ground.

    Far from the centre of a plane its lengths exceed those on the ground, and the noise would be
    too small. So epsilon is divided by the largest factor, and points too far away are refused.
    """
    if places.plane is None:
        return planar_laplace_noise(xy_km, epsilon, rng)
    if np.hypot(*xy_km.T).max() > _FAR_KM:
        raise InputError(
            f"planar Laplace needs points within {_FAR_KM:,.0f} km of the places, and one is "
            "further away"
        )
    return planar_laplace_noise(xy_km, epsilon / _STRETCH, rng)


def planar_laplace(
    places: Places, epsilon: float, outputs: Places | ArrayLike | None = None
) -> Mechanism:
    """Build planar Laplace noise followed by a snap to the nearest output.

    The probability of each report is the mass of its Voronoi cell, by integration along the
    boundary of the cell: deterministic, with errors around 1e-13.

    Parameters
    ----------
    outputs
        The places that may be reported, or the indices of some of the inputs; all inputs if
        not given.
    """
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    targets = chosen_outputs(inputs, outputs)
    matrix = cell_masses(inputs, targets, level)
    return repair_and_check(matrix, inputs, targets, level, None, Build("planar-laplace"))


def planar_laplace_for_loss(
    places: Places,
    prior: ArrayLike,
    quality_loss: float,
    quality_metric: ArrayLike | None = None,
) -> Mechanism:
    """Build planar Laplace with the epsilon at which it has a given quality loss.

    The paper compares mechanisms at equal loss (Section 4.2).

    Raises
    ------
    InputError
        If no epsilon has that loss: even unbounded noise snaps to one of the places.
    """
    from scipy.optimize import brentq

    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    target = as_number("quality_loss", quality_loss, unit="km")
    loss = loss_between("quality_metric", quality_metric, inputs, inputs) * weights[:, None]
    edges = cell_edges(inputs)
    size = float(euclidean(inputs).max())

    def excess(log_level: float) -> float:
        masses = cell_masses(inputs, inputs, float(np.exp(log_level)), edges)
        return float((loss * masses).sum()) - target

    low, high = np.log(1e-9 / size), np.log(1.0 / size)
    most = excess(low) + target
    if most <= target:
        raise InputError(
            f"quality_loss must be below {most:.6g} km, the most that planar Laplace can lose "
            f"here, got {target:g}"
        )
    while excess(high) > 0:
        high += 1.0
    level = float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-14)))
    matrix = cell_masses(inputs, inputs, level, edges)
    return repair_and_check(matrix, inputs, inputs, level, None, Build("planar-laplace"))


def cell_masses(
    inputs: Places, outputs: Places, epsilon: float, edges: CellEdges | None = None
) -> Array:
    """Return the mass of planar Laplace noise around each input in the Voronoi cell of each output.

    With F(r) = 1 - (1 + eps r) exp(-eps r), the mass of the disc of radius r, the mass of a region
    is (1 / 2 pi) times the integral of F(r) d theta along its boundary. With F = 1 - G it is 1 if
    the input is in the region, otherwise 0, minus (1 / 2 pi) times the integral of G d theta. G
    vanishes at infinity, so unbounded cells are no special case. Every edge adds to one cell what
    it subtracts from its neighbour, so rows sum to 1. An input that is no output may lie on an
    edge; there F itself is integrated, which vanishes. See docs/proofs/planar-laplace.md.
    """
    if len(outputs) == 1:
        return np.ones((len(inputs), 1))
    lines = cell_edges(outputs) if edges is None else edges
    # Relative to one of the places, coordinates are differences with full relative precision.
    spot = outputs.xy - outputs.xy[0]
    origin = inputs.xy - outputs.xy[0]
    middles = (spot[lines.left] + spot[lines.right]) / 2
    toward = np.column_stack([lines.along[:, 1], -lines.along[:, 0]])

    def gather(turns: Array) -> Array:
        """Sum the integrals of the edges of each cell, with the sign of its side."""
        cells = np.zeros((len(turns), len(outputs)))
        np.add.at(cells.T, lines.left, turns.T)
        np.subtract.at(cells.T, lines.right, turns.T)
        return cells

    def seen_from(points: Array) -> tuple[Array, Array, Array]:
        seen = middles - points[:, None, :]
        shift = (seen * lines.along).sum(axis=2)
        return (seen * toward).sum(axis=2), lines.start + shift, lines.end + shift

    # The share of the full angle that each cell has at infinity, computed at the first place.
    inside = np.eye(1, len(outputs))
    horizon = inside - gather(_angle(*seen_from(np.zeros((1, 2))))) / (2 * np.pi)
    masses = np.empty((len(inputs), len(outputs)))
    step = max(1, _CHUNK // len(lines.left))
    for first in range(0, len(inputs), step):
        rows = slice(first, first + step)
        geometry = seen_from(origin[rows])
        here = (origin[rows, None, :] == spot).all(axis=2)
        a_place = here.any(axis=1)[:, None]
        turns = _turn(*geometry, epsilon)
        turns = np.where(a_place, turns, turns - _angle(*geometry))
        masses[rows] = np.where(a_place, here, horizon) - gather(turns) / (2 * np.pi)
    return np.clip(masses, 0.0, None)


def _angle(height: Array, start: Array, end: Array) -> Array:
    """Return the angle under which lines at a signed distance are seen from start to end."""
    with np.errstate(divide="ignore", invalid="ignore"):
        angle = np.arctan(end / np.abs(height)) - np.arctan(start / np.abs(height))
    return np.where(height == 0, 0.0, np.sign(height) * angle)


def _turn(height: Array, start: Array, end: Array, epsilon: float) -> Array:
    """Integrate G(r) d theta along lines at a signed distance, from start to end past the foot."""
    near, far = np.maximum(start, 0.0), np.maximum(end, 0.0)
    back_near, back_far = np.maximum(-end, 0.0), np.maximum(-start, 0.0)
    distance = np.abs(height)
    one_side = _one_side(distance, near, far, epsilon)
    other_side = _one_side(distance, back_near, back_far, epsilon)
    return np.sign(height) * (one_side + other_side)


def _one_side(distance: Array, near: Array, far: Array, epsilon: float) -> Array:
    """Integrate G(r) d theta from ``near`` to ``far``, both on the same side of the foot.

    With s = distance sinh(u), d theta = du / cosh(u) and r = distance cosh(u): smooth on a scale
    of 1 in u, however close to the line the origin is.
    """
    result = np.zeros(distance.shape)
    first = np.hypot(distance, near)
    last = np.minimum(far, np.sqrt((2 * first + _FAR / epsilon) * _FAR / epsilon + near**2))
    matters = (distance > 0) & (near < last) & (epsilon * first < 745.0)
    if not matters.any():
        return result
    height = distance[matters]
    low = np.arcsinh(near[matters] / height)
    width = np.arcsinh(last[matters] / height) - low
    spread = epsilon * (np.hypot(height, last[matters]) - first[matters])
    # A panel of 16 nodes is exact to the last digits while u moves by 1.5 and eps r by 9.
    panels = np.ceil(np.maximum(width / 1.5, spread / 9)).clip(1).astype(np.int64)
    values = np.empty(len(height))
    for count in np.unique(panels):
        some = panels == count
        values[some] = _panels(epsilon * height[some], low[some], width[some], int(count))
    result[matters] = values
    return result


def _panels(scaled: Array, low: Array, width: Array, panels: int) -> Array:
    """Integrate (1 + a cosh u) exp(-a cosh u) / cosh u, a = scaled, from low to low + width.

    ``scaled`` is eps times the distance of the line, without a unit.
    """
    half = width / (2 * panels)
    total = np.zeros(len(scaled))
    for panel in range(panels):
        cosh = np.cosh((low + (2 * panel + 1) * half)[:, None] + half[:, None] * _NODES)
        radius = scaled[:, None] * cosh  # eps r
        total += half * (((1 + radius) * np.exp(-radius) / cosh) @ _WEIGHTS)
    return total


def _system_uniform(shape: tuple[int, ...]) -> Array:
    """Return uniform numbers strictly between 0 and 1 from the operating system's generator."""
    bits = uniform(int(np.prod(shape))) >> np.uint64(10)  # 53 of its 63 bits
    return ((bits.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)
