"""Spanners, checked by their definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from whereish.programs import Spanner


def ways(spanner: Spanner, n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    edges = [(int(a), int(b)) for a, b in spanner.edges]
    return np.array(checks.shortest_ways(n, edges, spanner.lengths.tolist()))


@given(some.places(most=12), st.sampled_from([1.0, 1.05, 1.1, 1.5, 2.0, 10.0]))
def test_a_spanner_is_a_spanner(places: wh.Places, delta: float) -> None:
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, delta)
    along = ways(spanner, len(places))
    off = ~np.eye(len(places), dtype=bool)
    stretch = (along[off] / distances[off]).max()
    assert spanner.lengths == pytest.approx(distances[tuple(spanner.edges.T)])
    assert (along >= distances - 1e-12).all()
    assert spanner.exact_dilation == pytest.approx(stretch, rel=1e-12)
    assert spanner.dilation <= delta
    assert stretch <= spanner.dilation * (1 + 2e-10)
    assert spanner.requested == delta


@given(some.places(most=10), st.sampled_from([1.0, 1.1, 1.6]))
def test_no_edge_of_a_greedy_spanner_is_needless(places: wh.Places, delta: float) -> None:
    """Algorithm 1 keeps an edge only if the shorter edges do not already make a way."""
    spanner = wh.greedy_spanner(wh.euclidean(places), delta)
    for last, (a, b) in enumerate(spanner.edges):
        earlier = [(int(u), int(v)) for u, v in spanner.edges[:last]]
        along = checks.shortest_ways(len(places), earlier, spanner.lengths[:last].tolist())
        assert along[a][b] > delta * spanner.lengths[last]
    assert (np.diff(spanner.lengths) >= 0).all()


@given(st.data(), st.integers(2, 9))
def test_a_graph_metric_needs_its_edges_only(data: st.DataObject, n: int) -> None:
    metric = data.draw(some.graph_metrics(n))
    spanner = wh.greedy_spanner(metric, 1.0)
    assert np.allclose(ways(spanner, n), metric, rtol=1e-9)
    assert spanner.dilation == 1.0
    assert len(spanner.edges) <= n - 1 + 4


def test_collinear_places_need_neighbours_only() -> None:
    places = wh.Places.from_xy([[0.1 * i, 0.7 * i] for i in range(30)])
    spanner = wh.greedy_spanner(wh.euclidean(places), 1.0)
    assert sorted(map(tuple, spanner.edges.tolist())) == [(i, i + 1) for i in range(29)]
    assert spanner.dilation <= 1.0


def test_an_exact_grid_keeps_the_pairs_that_see_each_other() -> None:
    """On a grid a pair is redundant exactly when another cell lies between the two."""
    cells = [(i, j) for j in range(5) for i in range(10)]
    seen = sum(math.gcd(a[0] - b[0], a[1] - b[1]) == 1 for a, b in itertools.combinations(cells, 2))
    spanner = wh.greedy_spanner(wh.euclidean(some.grid(10, 5)), 1.0)
    assert len(spanner.edges) == seen


def test_one_place_has_no_edges() -> None:
    spanner = wh.greedy_spanner([[0.0]], 1.5)
    assert spanner.edges.shape == (0, 2)
    assert spanner.dilation == spanner.mean_dilation == 1.0


@pytest.mark.slow
@pytest.mark.thorough
def test_a_thousand_places() -> None:
    places = wh.Places.from_xy(np.random.default_rng(0).uniform(0, 20, (1000, 2)))
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.1)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    graph = coo_array((spanner.lengths, tuple(spanner.edges.T)), shape=(1000, 1000))
    along = dijkstra(graph.tocsr(), directed=False)
    np.fill_diagonal(distances, 1.0)
    np.fill_diagonal(along, 1.0)
    assert (along / distances).max() == pytest.approx(spanner.dilation, rel=1e-9)
    assert len(spanner.edges) < 10_000


@pytest.mark.parametrize("delta", [0.99, 0.0, -1.0, float("nan"), float("inf")])
def test_dilation_below_one_is_refused(delta: float) -> None:
    with pytest.raises(wh.InputError, match="dilation must be"):
        wh.greedy_spanner([[0.0, 1.0], [1.0, 0.0]], delta)
