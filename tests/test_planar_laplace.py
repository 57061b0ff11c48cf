"""Planar Laplace: cell masses against another integration, and noise against its definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies as some
import whereish as wh
from effort import examples
from whereish.places import Places, cell_edges

INFINITY = float("inf")
GAUSS = np.polynomial.legendre.leggauss(400)


def mass_by_rays(origin: some.Floats, z: int, outputs: some.Floats, epsilon: float) -> float:
    """The mass of a nearest-place cell, another way: ray by ray.

    Cells are convex, so a ray from the origin is inside one between two distances, given by the
    bisectors. The mass along it is G(r1) - G(r2), G(r) = (1 + eps r) exp(-eps r). Angles are split
    where the ray passes a corner of the cell: a corner is a point as far from z as from two others.
    """

    others = [other for other in range(len(outputs)) if other != z]
    normals = outputs[others] - outputs[z]
    room = (normals * ((outputs[others] + outputs[z]) / 2 - origin)).sum(axis=1)

    def along(angles: some.Floats) -> some.Floats:
        slope = np.column_stack([np.cos(angles), np.sin(angles)]) @ normals.T
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = room / slope
        high = np.where(slope > 0, crossing, INFINITY).min(axis=1).clip(min=0.0)
        low = np.where(slope < 0, crossing, 0.0).max(axis=1).clip(min=0.0)
        outside = (high <= low) | ((slope == 0) & (room < 0)).any(axis=1)
        return np.where(outside, 0.0, beyond(low) - beyond(high))

    def beyond(radius: some.Floats) -> some.Floats:
        scaled = epsilon * np.where(radius == INFINITY, 0.0, radius)
        return np.where(radius == INFINITY, 0.0, (1 + scaled) * np.exp(-scaled))

    corners = [0.0, 2 * math.pi]
    for a in range(len(outputs)):
        for b in range(a):
            if z in (a, b):
                continue
            system = np.array([outputs[a] - outputs[z], outputs[b] - outputs[z]])
            if abs(np.linalg.det(system)) < 1e-12:
                continue
            squares = (outputs**2).sum(axis=1)
            corner = np.linalg.solve(2 * system, squares[[a, b]] - squares[z])
            reach = corner - origin
            corners.append(math.atan2(reach[1], reach[0]) % (2 * math.pi))
    for other in range(len(outputs)):  # directions in which an unbounded edge goes off
        if other != z:
            towards = outputs[other] - outputs[z]
            for sign in (1, -1):
                corners.append(math.atan2(sign * towards[0], -sign * towards[1]) % (2 * math.pi))
    x, w = GAUSS
    total = 0.0
    corners = sorted(corners)
    for left, right in itertools.pairwise(corners):
        if right - left > 1e-13:
            half, middle = (right - left) / 2, (right + left) / 2
            total += half * float(w @ along(middle + half * x))
    return total / (2 * math.pi)


@pytest.mark.parametrize("epsilon", [0.1, 1.07, 6.0])
@pytest.mark.parametrize("kind", ["grid", "scattered", "line", "two", "triangle"])
@pytest.mark.slow
def test_cell_masses_against_rays(kind: str, epsilon: float) -> None:
    rng = np.random.default_rng(4)
    xy = {
        "grid": [[i * 0.658, j * 0.712] for j in range(3) for i in range(2)],
        "scattered": rng.uniform(0, 3, (6, 2)).tolist(),
        "line": [[0.0, 0.0], [1.0, 2.0], [3.0, 6.0]],
        "two": [[0.0, 0.0], [0.3, 0.1]],
        "triangle": [[0.0, 0.0], [1.0, 0.0], [0.2, 1.3]],
    }[kind]
    places = wh.Places.from_xy(xy)
    matrix = wh.planar_laplace(places, epsilon).matrix
    for x in range(0, len(places), 2):
        for z in range(len(places)):
            expected = mass_by_rays(places.xy[x], z, places.xy, epsilon)
            assert matrix[x, z] == pytest.approx(expected, abs=1e-9)


def test_a_half_plane_has_a_known_mass() -> None:
    """Far from the border, or on it, the mass of a half-plane is 1, 0 or 1/2."""
    places = wh.Places.from_xy([[0.0, 0.0], [2.0, 0.0]])
    assert wh.planar_laplace(places, 60.0).matrix[0, 0] == pytest.approx(1.0, abs=1e-12)
    assert wh.planar_laplace(places, 1e-9).matrix[0, 0] == pytest.approx(0.5, abs=1e-8)


def test_inputs_on_the_border_of_cells() -> None:
    """Inputs halfway between outputs, and where four cells meet, are not special."""
    outputs = wh.Places.from_xy([[0, 0], [1, 0], [0, 1], [1, 1]])
    inputs = wh.Places.from_xy([[0.5, 0.5], [0.5, 0.0], [0.25, 0.0]])
    mechanism = wh.planar_laplace(inputs, 1.3, outputs=outputs)
    assert mechanism.matrix[0] == pytest.approx([0.25] * 4, abs=1e-9)
    assert mechanism.matrix[1, 0] == pytest.approx(mechanism.matrix[1, 1], abs=1e-9)
    for z in range(4):
        expected = mass_by_rays(inputs.xy[2], z, outputs.xy, 1.3)
        assert mechanism.matrix[2, z] == pytest.approx(expected, abs=1e-9)


@given(some.places(least=2, most=12), st.floats(1e-3, 200.0))
def test_rows_sum_to_one_and_cells_shrink_with_distance(places: Places, epsilon: float) -> None:
    matrix = wh.planar_laplace(places, epsilon).matrix
    assert np.abs(matrix.sum(axis=1) - 1).max() < 1e-12
    assert (matrix >= 0).all()


@given(some.places(least=2, most=10))
def test_edges_lie_halfway_and_nobody_is_nearer(places: Places) -> None:
    edges = cell_edges(places)
    for left, right, middle, along, start, end in zip(
        edges.left, edges.right, edges.middle, edges.along, edges.start, edges.end, strict=True
    ):
        if start > 50 or end < -50:
            continue  # rounding of places on a line: an edge beyond the sky
        for t in (max(start, -50.0), min(end, 50.0)):
            point = middle + t * along
            far = np.hypot(*(places.xy - point).T)
            assert far[left] == pytest.approx(far[right], rel=1e-9, abs=1e-12)
            assert far[left] <= far.min() * (1 + 1e-9) + 1e-9
        across = places.xy[left] - middle
        assert along[0] * across[1] - along[1] * across[0] > 0  # the left cell is on the left


@given(some.profiles(least=2, most=9), st.floats(0.02, 0.98))
@examples(30)
def test_laplace_for_a_loss_has_that_loss(
    profile: tuple[wh.Places, some.Floats], share: float
) -> None:
    places, prior = profile
    most = wh.quality_loss(wh.planar_laplace(places, 1e-6), prior)
    if most < 1e-6:
        return
    target = share * most
    mechanism = wh.planar_laplace_for_loss(places, prior, quality_loss=target)
    assert wh.quality_loss(mechanism, prior) == pytest.approx(target, abs=1e-9)
    assert mechanism.epsilon is not None
    assert wh.tightest_epsilon(mechanism) <= mechanism.epsilon


def test_laplace_for_a_loss_says_what_is_possible() -> None:
    places, prior = some.grid(3, 3), some.skewed(9)
    with pytest.raises(wh.InputError, match=r"quality_loss must be below .* km.*got 100"):
        wh.planar_laplace_for_loss(places, prior, quality_loss=100)


def test_noise_has_the_radius_and_the_angle_of_planar_laplace() -> None:
    """Gamma(2) radius, uniform angle: moments and a chi-square, at a fixed seed."""
    from scipy import stats

    rng = np.random.default_rng(0)
    moved = wh.planar_laplace_noise(np.zeros((200_000, 2)), 1.7, rng)
    radius = np.hypot(*moved.T)
    angle = np.arctan2(moved[:, 1], moved[:, 0])
    assert stats.kstest(radius * 1.7, stats.gamma(2).cdf).pvalue > 1e-4
    counts, _ = np.histogram(angle, bins=64, range=(-np.pi, np.pi))
    assert stats.chisquare(counts).pvalue > 1e-4
    assert abs(stats.pearsonr(radius, np.abs(angle)).statistic) < 0.02


@pytest.mark.parametrize("lat", [0.0, 48.86, 69.6, -89.0])
def test_noise_is_the_same_in_every_direction_on_the_ground(lat: float) -> None:
    """Peers shrink the noise by latitude, or have none from north to south at the equator."""
    from pyproj import Geod

    plane = wh.LocalPlane(lat, 179.999)
    moved = wh.planar_laplace_noise(np.zeros((40_000, 2)), 2.0, np.random.default_rng(1))
    latlon = plane.to_latlon(moved)
    centre = np.broadcast_to([plane.lat, plane.lon], latlon.shape)
    azimuth, _, metres = Geod(ellps="WGS84").inv(
        centre[:, 1], centre[:, 0], latlon[:, 1], latlon[:, 0]
    )
    east = np.sin(np.radians(azimuth)) * metres / 1000
    north = np.cos(np.radians(azimuth)) * metres / 1000
    # Each coordinate of planar Laplace has variance 3 / eps^2.
    for coordinate in (east, north):
        assert coordinate.std() == pytest.approx(math.sqrt(3) / 2.0, rel=0.03)
    assert metres.mean() / 1000 == pytest.approx(2 / 2.0, rel=0.02)


def test_noise_without_a_seed_never_repeats() -> None:
    """Two of 2,000 may fall on the same square metre; one series is never another again."""
    one, two = (wh.planar_laplace_noise(np.zeros((1000, 2)), 1.0) for _ in range(2))
    assert (one != two).any(axis=1).mean() > 0.99
    assert len(np.unique(np.concatenate([one, two]), axis=0)) > 1980
