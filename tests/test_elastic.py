"""The elastic metric: its requirement, checked around every cell by slow and obvious code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metric_checks
from effort import examples
from whereish.errors import InputError
from whereish.places import MapMetric, Places
from whereish.places.elastic import (
    INSIDE_FENCE,
    OUTSIDE_FENCE,
    REACH,
    UNIT,
    ElasticGraph,
    Grid,
    elastic_graph,
)


def slow_distances(made: ElasticGraph) -> list[list[float]]:
    edges = zip(*made.edges.T.tolist(), made.lengths.tolist(), strict=True)
    return metric_checks.floyd_warshall(made.grid.size, list(edges))


def masses(count: int, seed: int, skew: float) -> Any:
    """Masses from nearly equal to very unequal, enough of them for the requirement."""
    rng = np.random.default_rng(seed)
    mass = rng.lognormal(0.0, skew, count)
    return mass / mass.sum() * rng.uniform(6.8, 40)


@given(
    st.integers(1, 7), st.integers(2, 6), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1, 3])
)
@examples(30)
def test_every_cell_meets_the_requirement(columns: int, rows: int, seed: int, skew: float) -> None:
    mass = masses(columns * rows, seed, skew)
    made = elastic_graph(Grid(columns, rows, (0.1, 0.2)), mass)
    away = slow_distances(made)
    assert all(metric_checks.meets_requirement(row, mass.tolist(), math.log(6)) for row in away)
    assert made.share == 1
    assert metric_checks.is_metric(away)
    # The balls that the picture shows, counted one by one.
    inside = [sum(d <= math.log(2) for d in row) for row in away]
    assert made.ball_km() == pytest.approx(np.sqrt(np.array(inside) * 0.02 / math.pi))


@given(st.integers(0, 2**32 - 1))
@examples(10)
def test_a_share_of_the_cells_may_be_asked_for(seed: int) -> None:
    mass = masses(36, seed, 2.0)
    made = elastic_graph(Grid(6, 6, (0.1, 0.1)), mass, share=0.5)
    away = slow_distances(made) if len(made.edges) else []
    met = [metric_checks.meets_requirement(row, mass.tolist(), REACH) for row in away]
    assert met == made.met.tolist()
    assert np.mean(met) >= 0.5


def area(kind: str, side: int) -> tuple[Any, Any]:
    """Masses and fences of a square area: how much lies there, and where, is very different."""
    rng = np.random.default_rng(7)
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    away = np.hypot(x - side / 2, y - side / 2)
    mass = {
        "empty": np.where(away < side / 20, 0.05, 0.0),
        "one house": np.where((x == 0) & (y == 0), 7.0, 0.0),
        "sparse": 0.1 * (rng.uniform(size=(side, side)) < 0.02),
        "dense": rng.poisson(10, (side, side)) / 200,
        "city": rng.poisson(20 * np.exp(-np.square(away / side * 4))) / 400,
    }["city" if kind == "fenced" else kind] + 1 / 2821
    fence = np.full((side, side), -1)
    if kind == "fenced":
        fence[side // 3 : side // 2, side // 4 : side // 2] = 0
        fence[-2, :-1] = 1
    mass *= max(1.0, 6.7 / mass[fence < 0].sum())
    return mass.ravel(), fence.ravel()


@pytest.mark.parametrize("kind", ["empty", "one house", "sparse", "dense", "city", "fenced"])
def test_areas_of_any_kind_meet_the_requirement(kind: str) -> None:
    mass, fence = area(kind, 24)
    made = elastic_graph(Grid(24, 24, (0.1, 0.1)), mass, fence)
    assert made.share >= 0.999
    assert len(made.edges) < 20 * made.grid.size  # so searches and files stay small
    edges = [(*pair, d) for pair, d in zip(made.edges.tolist(), made.lengths.tolist(), strict=True)]
    some = np.random.default_rng(0).permutation(np.flatnonzero(fence < 0))[:12]
    for cell in [*some.tolist(), 0]:
        holds = metric_checks.ball_holds_enough(edges, mass.tolist(), cell, math.log(6))
        assert holds == made.met[cell]


def test_progress_is_told_between_parts_and_may_end_the_passes() -> None:
    """Ctrl-C comes between two calls of the core, as an exception does."""
    told: list[float] = []

    def progress(news: str, done: float) -> None:
        told.append(done)
        if len(told) == 20:
            raise KeyboardInterrupt

    mass, _ = area("empty", 30)
    with pytest.raises(KeyboardInterrupt):
        elastic_graph(Grid(30, 30, (0.1, 0.1)), mass, progress=progress)
    assert told == sorted(told)
    assert 0 <= told[0] < told[-1] <= 1


def test_the_metric_is_not_shorter_than_it_must_be() -> None:
    mass = np.full(144, 0.2)
    made = elastic_graph(Grid(12, 12, (0.1, 0.1)), mass)
    away = np.array(slow_distances(made))
    held = (away <= UNIT) @ mass
    assert held.min() >= 1
    assert held.max() < 3  # where all cells are alike, balls hold little more than they must


def test_distances_are_short_where_little_lies() -> None:
    mass = np.full((9, 9), 0.02)
    mass[:, :3] = 1.0  # a town in the west
    made = elastic_graph(Grid(9, 9, (0.1, 0.1)), mass.ravel())
    away = np.array(slow_distances(made)).reshape(9, 9, 9, 9)
    assert away[4, 7, 4, 8] < away[4, 0, 4, 1] / 3
    radius = made.ball_km().reshape(9, 9)
    assert radius[4, 8] > 2 * radius[4, 0]


def test_inside_of_a_fence_nobody_can_tell_where() -> None:
    mass = np.full(49, 0.5)
    fence = np.full((7, 7), -1)
    fence[1:3, 1:4] = 0
    fence[6, 6] = 1
    made = elastic_graph(Grid(7, 7, (0.1, 0.1)), mass, fence.ravel())
    away = np.array(slow_distances(made))
    first, out = np.flatnonzero(fence.ravel() == 0), np.flatnonzero(fence.ravel() == -1)
    assert away[np.ix_(first, first)].max() <= INSIDE_FENCE * (1 + 1e-9)
    assert away[np.ix_(first, out)].min() >= OUTSIDE_FENCE
    assert away[48, out].min() >= OUTSIDE_FENCE
    assert metric_checks.is_metric(away.tolist())
    for cell in out:  # the cells of a fence hide nobody else
        row = [d if k in set(out.tolist()) else math.inf for k, d in enumerate(away[cell])]
        assert metric_checks.meets_requirement(row, mass.tolist(), math.log(6))


def test_too_little_mass_is_refused() -> None:
    grid = Grid(3, 3, (0.1, 0.1))
    with pytest.raises(InputError, match="larger area"):
        elastic_graph(grid, np.full(9, 0.5))
    with pytest.raises(InputError, match="mass must be positive"):
        elastic_graph(grid, [*[9.0] * 8, 0.0])
    with pytest.raises(InputError, match="larger cells"):
        elastic_graph(Grid(1000, 1000, (0.1, 0.1)), np.ones(4))


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
@examples(25)
def test_a_metric_on_some_places_is_that_of_floyd_and_warshall(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = Places.from_xy(np.column_stack([np.arange(n), rng.uniform(size=n)]))
    edges = np.array([[k, rng.integers(k)] for k in range(1, n)] + [[0, n - 1]])
    lengths = rng.uniform(0.1, 3, len(edges))
    made = MapMetric("elastic", places, edges=edges, lengths=lengths)
    pairs = [(a, b, w) for (a, b), w in zip(edges.tolist(), lengths.tolist(), strict=True)]
    slow = np.array(metric_checks.floyd_warshall(n, pairs))
    some = rng.permutation(n)[: max(2, n // 2)].tolist()
    assert made.between(places.subset(some)) == pytest.approx(slow[np.ix_(some, some)])
    assert made.distances == pytest.approx(slow)
    assert made.restricted(places.subset(some)).distances == pytest.approx(slow[np.ix_(some, some)])


LINE: list[list[float]] = [[0, 0], [1, 0], [2, 0]]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"matrix": [[0, 1, 5], [1, 0, 1], [5, 1, 0]]}, "triangle"),
        ({"matrix": [[0, 1, 1], [2, 0, 1], [1, 1, 0]]}, "symmetric"),
        ({"matrix": [[1, 1, 1], [1, 0, 1], [1, 1, 0]]}, "diagonal"),
        ({"matrix": [[0, 0, 1], [0, 0, 1], [1, 1, 0]]}, "positive"),
        ({"edges": [[0, 1]], "lengths": [1.0]}, "2 parts"),
        ({"edges": [[0, 1], [1, 2]], "lengths": [1.0, 0.0]}, "positive"),
        ({"edges": [[0, 1], [1, 3]], "lengths": [1.0, 1.0]}, "different places"),
        ({"edges": [[0, 1], [1, 2]]}, "with lengths"),
        ({}, "matrix, or edges"),
    ],
)
def test_what_is_no_metric_is_refused(parts: dict[str, Any], words: str) -> None:
    places = Places.from_xy(LINE)
    with pytest.raises(InputError, match=words):
        MapMetric("roads", places, **parts)


def test_other_places_than_those_of_the_metric_are_refused() -> None:
    places = Places.from_xy(LINE)
    made = MapMetric("roads", places, edges=[[0, 1], [1, 2]], lengths=[1, 1])
    with pytest.raises(InputError, match="1 of 2 are not"):
        made.between(Places.from_xy([[0.0, 0.0], [1.5, 0.0]]))
    with pytest.raises(InputError, match="two are the same"):
        made.between(Places.from_xy([[0.0, 0.0], [0.0005, 0.0]]))
