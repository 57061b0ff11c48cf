"""The masses of planar Laplace noise in cells, against integrals in polar coordinates."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from scipy.integrate import quad

import whereish as wh
from effort import examples
from whereish.everywhere.noise_table import NoiseTable, choose_borders
from whereish.places import Lattice

ERROR = 2e-8  # docs/proofs/everywhere.md


def polar_mass(point: Any, epsilon: float, box: Any) -> float:
    """Return the mass in (west, east, south, north), by adaptive integration over directions.

    Along a ray the mass beyond the distance r is (1 + eps r) exp(-eps r). Between the directions of
    the corners and of the axes, the distances to the sides are smooth.
    """
    west, east, south, north = (
        epsilon * (side - point[k // 2]) for k, side in enumerate(map(float, box))
    )

    def beyond(r: float) -> float:
        return (1 + r) * np.exp(-r) if r < 700 else 0.0

    def along(angle: float) -> float:
        near, far = 0.0, np.inf
        for low, high, slope in (
            (west, east, np.cos(angle)),
            (south, north, np.sin(angle)),
        ):
            first, last = sorted((low / slope, high / slope))
            near, far = max(near, first), min(far, last)
        return beyond(near) - beyond(far) if near < far else 0.0

    corners = [(x, y) for x in (west, east) for y in (south, north)]
    turns = {np.arctan2(y, x) % (2 * np.pi) for x, y in corners if np.isfinite([x, y]).all()}
    sides = sorted(turns | {k * np.pi / 2 for k in range(5)})
    total = 0.0
    for a, b in pairwise(sides):
        # With full_output there is no warning; the estimate of the error is checked instead.
        part, error, *_ = quad(along, a, b, epsabs=1e-11, epsrel=1e-11, limit=300, full_output=1)
        assert error < 2e-9
        total += part
    return total / (2 * np.pi)


def boxes(borders: Lattice) -> list[Any]:
    """Return the sides of all cells, row by row."""
    xs, ys = (np.r_[-np.inf, axis, np.inf] for axis in borders)
    return [(*x, *y) for y in pairwise(ys) for x in pairwise(xs)]


@st.composite
def tables(draw: DrawFn) -> tuple[Lattice, float, Any]:
    """Tables as they are chosen or coarser; points in them, on borders and outside."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    epsilon = draw(st.sampled_from([0.05, 0.2, 1.07, 10.0, 33.0, 100.0]))
    km = draw(st.sampled_from([0.05, 1.0, 10.0, 50.0]))
    points = rng.uniform(0, km, (12, 2)) * [1, rng.choice([1, 0.3])]
    borders = choose_borders(points, epsilon)
    if draw(st.booleans()):
        borders = Lattice(*(np.sort(rng.uniform(-0.5, 1.5, rng.integers(1, 6)) * km)
                            for _ in range(2)))  # fmt: skip
    x, y = (float(rng.choice(axis)) for axis in borders)
    outside = borders.xs[0] - 3 / epsilon, borders.ys[-1] + 0.1 / epsilon
    special = [(x, y), (x, points[0, 1]), outside, (-2 * km, 3 * km)]
    return borders, epsilon, np.vstack([points[:2], special])


@given(tables())
@examples(40)
def test_masses_are_those_of_polar_integrals(case: Any) -> None:
    borders, epsilon, points = case
    masses = NoiseTable(borders, epsilon).masses(points)
    assert (masses >= 0).all()
    assert masses.sum(axis=0) == pytest.approx(np.ones(len(points)), abs=1e-12)
    cells = boxes(borders)
    for k, point in enumerate(points):
        # The largest, and some others: a large table has 10,000 cells.
        some = {*np.argsort(-masses[:, k])[:4], *range(0, len(cells), max(1, len(cells) // 5))}
        for cell in some:
            expected = polar_mass(point, epsilon, cells[cell])
            assert masses[cell, k] == pytest.approx(expected, abs=ERROR)


@pytest.mark.parametrize("epsilon", [0.05, 1.07, 100.0])
def test_small_masses_far_away_keep_their_size(epsilon: float) -> None:
    """The remap of a cell that is far from all points depends on ratios of small masses."""
    side = np.arange(-30, 31) / epsilon
    masses = NoiseTable(Lattice(side, side), epsilon).masses(np.array([[0.0, 0.0]]))[:, 0]
    masses = masses.reshape(62, 62)
    for away in (5, 10, 20, 29):
        expected = polar_mass((0, 0), 1.0, (away, away + 1, 0, 1))
        if away < 20:  # the checker has an absolute error
            assert masses[31, 31 + away] == pytest.approx(expected, rel=1e-2)
        assert masses[31, 31 + away] == pytest.approx(masses[30, 30 - away], rel=1e-9)
        assert 0.2 * np.exp(-away - 1) < 2 * np.pi * masses[31, 31 + away] < np.exp(-away)


@pytest.mark.parametrize("epsilon", [0.2, 1.07, 10.0, 100.0])
def test_probabilities_and_loss_of_a_coarse_table(epsilon: float) -> None:
    rng = np.random.default_rng(4)
    borders = Lattice(np.array([-2.0, 0.3, 0.9, 4.0]), np.array([0.0, 1.7, 6.0]))
    outputs = wh.Places.from_xy(rng.uniform(-2, 6, (5, 2)))
    made = wh.PlanarLaplaceEverywhere(epsilon, borders, rng.integers(0, 5, (4, 5)), outputs)
    points = np.vstack([rng.uniform(-3, 7, (5, 2)), [[0.3, 1.7], [30.0, -4.0]]])
    weights = rng.gamma(0.2, size=len(points)) + 1e-6
    weights /= weights.sum()
    expected = np.zeros((len(points), 5))
    for k, point in enumerate(points):
        for output, box in zip(made.table.ravel(), boxes(borders), strict=True):
            expected[k, output] += polar_mass(point, epsilon, box)
    assert np.abs(made.probabilities(points) - expected).max() < 1e-7
    away = np.hypot(*(points[:, None] - outputs.xy).transpose(2, 0, 1))
    loss = float((weights[:, None] * expected * away).sum())
    assert wh.expected_loss(made, points, weights) == pytest.approx(loss, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 1.07, 10.0, 100.0])
@pytest.mark.parametrize("coarse", [False, True])
def test_the_loss_that_is_told_is_that_of_many_draws(epsilon: float, coarse: bool) -> None:
    """The best remap for skewed weights, or a table with a few wide cells."""
    rng = np.random.default_rng(9)
    points = rng.uniform(0, 4, (6, 2))[rng.integers(0, 6, 40)] + rng.normal(0, 0.1, (40, 2))
    weights = rng.gamma(0.3, size=40) + 1e-9
    weights /= weights.sum()
    if coarse:  # the points are near borders, where the noise is shared between wide cells
        points[:, 0] = rng.choice([0.5, 2.0, 3.5], 40) + rng.normal(0, 0.3 / epsilon, 40)
        borders = Lattice(np.array([0.5, 2.0, 3.5]), np.array([1.0, 3.0]))
        where = wh.Places.from_xy([[0, 0], [1, 2], [3, 1], [4, 4]])
        made = wh.PlanarLaplaceEverywhere(epsilon, borders, np.arange(12).reshape(3, 4) % 4, where)
        told = wh.expected_loss(made, points, weights)
    else:
        made = wh.planar_laplace_everywhere(points, weights, epsilon)
        told = float(made.build.loss_km or 0)
        assert wh.expected_loss(made, points, weights) == pytest.approx(told, rel=1e-9)
    true = points[rng.choice(40, 8000, p=weights)]
    away = np.hypot(*(made.sample(true, rng=rng).xy - true).T)
    assert away.mean() == pytest.approx(told, abs=4.5 * away.std() / len(away) ** 0.5)


@pytest.mark.slow
@pytest.mark.thorough
def test_many_points_have_the_loss_of_all_of_them() -> None:
    """The loss told was once that of noise around 400 clusters: 3 % too large."""
    rng = np.random.default_rng(2)
    points = rng.uniform(0, 10, (1200, 2))
    made = wh.planar_laplace_everywhere(points, None, 10.0)
    away = np.hypot(*(points[:, None] - made.outputs.xy).transpose(2, 0, 1))
    expected = float((made.probabilities(points) * away).sum() / len(points))
    assert made.build.loss_km == pytest.approx(expected, rel=1e-9)
