"""Places, the local plane, grids and metrics; and the messages for bad arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh


@given(
    st.floats(-89.5, 89.5),
    st.floats(-180, 180),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 10, 40]),
)
def test_plane_distances_are_ground_distances(
    lat: float, lon: float, seed: int, size_km: int
) -> None:
    """Anywhere on earth, date line and high latitudes included: within 1e-4 up to 40 km across."""
    rng = np.random.default_rng(seed)
    plane = wh.LocalPlane(lat, lon)
    xy = rng.uniform(-size_km / 2, size_km / 2, (6, 2))
    places = wh.Places.from_latlon(plane.to_latlon(xy))
    off = ~np.eye(6, dtype=bool)
    relative = np.abs(wh.euclidean(places)[off] / wh.geodesic(places)[off] - 1).max()
    assert places.projection_error == pytest.approx(relative)
    assert relative < 1e-4


@given(st.floats(-89, 89), st.floats(-180, 180))
def test_there_and_back(lat: float, lon: float) -> None:
    plane = wh.LocalPlane(lat, lon)
    xy = np.array([[3.0, 4.0], [-20.0, 7.0], [0.0, 0.0]])
    assert plane.to_xy(plane.to_latlon(xy)) == pytest.approx(xy, abs=1e-6)
    assert np.hypot(*plane.to_xy(plane.to_latlon(xy)).T)[0] == pytest.approx(5.0)


def test_the_date_line_is_nowhere_special() -> None:
    here = wh.Places.from_latlon([[-17.0, 179.95], [-17.0, -179.95], [-17.1, 180.0]])
    there = wh.Places.from_latlon([[-17.0, 29.95], [-17.0, 30.05], [-17.1, 30.0]])
    assert wh.euclidean(here) == pytest.approx(wh.euclidean(there))
    assert wh.euclidean(here).max() < 20


def test_grids_cover_the_area_with_equal_cells() -> None:
    places = wh.square_grid(south=39.9, west=116.2, north=40.0, east=116.4)
    assert places.cell_km == (0.658, 0.712)
    columns = len(np.unique(places.xy[:, 0]))
    rows = len(np.unique(places.xy[:, 1]))
    assert columns * rows == len(places)
    assert np.unique(np.round(np.diff(np.unique(places.xy[:, 0])), 9)) == pytest.approx([0.658])
    assert np.unique(np.round(np.diff(np.unique(places.xy[:, 1])), 9)) == pytest.approx([0.712])
    corners = wh.Places.from_latlon([[39.9, 116.2], [39.9, 116.4], [40.0, 116.2], [40.0, 116.4]])
    width, height = wh.geodesic(corners)[0, 1], wh.geodesic(corners)[0, 2]
    assert columns == math.ceil(width / 0.658)
    assert rows == math.ceil(height / 0.712)
    assert places.latlon is not None
    assert places.latlon[:, 0].min() > 39.89
    assert places.latlon[0, 0] < places.latlon[-1, 0]  # from the south ...
    assert places.latlon[0, 1] < places.latlon[1, 1]  # ... and from the west


def test_a_grid_across_the_date_line() -> None:
    places = wh.square_grid(south=-17, west=179.9, north=-16.9, east=-179.9, cell_km=(2, 2))
    assert places.latlon is not None
    assert (np.abs(places.latlon[:, 1]) > 179.8).all()
    assert wh.euclidean(places).max() < 40


@given(st.data(), st.integers(2, 8))
def test_graph_metric_is_the_shortest_way(data: st.DataObject, n: int) -> None:
    edges = [(data.draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    edges += data.draw(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=5)
    )
    lengths = [data.draw(st.floats(0.01, 5.0)) for _ in edges]
    expected = checks.shortest_ways(n, [(a, b) for a, b in edges], lengths)
    found = wh.graph_metric(n, edges, lengths)
    assert found == pytest.approx(np.array(expected) * (1 - np.eye(n)))


def test_discrete() -> None:
    assert wh.discrete(3).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_arrays_cannot_be_written_to() -> None:
    places = wh.Places.from_latlon([[1.0, 2.0], [1.1, 2.0]])
    for array in (places.xy, places.latlon):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 7.0


def test_subset_keeps_the_plane() -> None:
    city = wh.embedded_city().places
    some_of_it = city.subset([3, 1])
    assert (some_of_it.xy == city.xy[[3, 1]]).all()
    assert some_of_it.plane == city.plane


D = [[0.0, 1.0, 2.0], [1.0, 0.0, 1.5], [2.0, 1.5, 0.0]]


def changed(x: int, y: int, value: float) -> list[list[float]]:
    metric = [row[:] for row in D]
    metric[x][y] = value
    return metric


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wh.Places.from_xy([]), "xy_km must be n x 2 numbers, got 0"),
        (lambda: wh.Places.from_xy(np.empty((0, 2))), "at least one place, got none"),
        (lambda: wh.Places.from_latlon(np.empty((0, 2))), "at least one place, got none"),
        (lambda: wh.Places.from_xy([[0, 0], [1, 1], [0, 0]]), "0 and 2 are both at the same point"),
        (lambda: wh.Places.from_xy([[0, math.nan]]), r"xy_km must be finite, got nan at \[0, 1\]"),
        (lambda: wh.Places.from_xy([[0, 1, 2]]), "xy_km must be n x 2 numbers, got 1 x 3"),
        (lambda: wh.Places.from_xy("home"), "xy_km must be n x 2 numbers, got 'home'"),
        (
            lambda: wh.Places.from_latlon([[91, 0]]),
            "latitude must be from -90 to 90.*place 0 is not",
        ),
        (lambda: wh.Places.from_latlon([[0, 0], [0, 181]]), "longitude .*that of place 1 is not"),
        (lambda: wh.Places.from_latlon([[0, 0], [0, 180], [0, 90], [0, -90]]), "one region"),
        (lambda: wh.Places.from_latlon([[90, 0], [90, 120]]), "places must differ"),
        (lambda: wh.square_grid(1, 0, 0, 1), "north must be above south"),
        (lambda: wh.square_grid(0, 1, 1, 1), "east must differ from west"),
        (lambda: wh.square_grid(0, 0, 1, 1, cell_km=(0, 1)), r"cell_km\[0\] must be positive"),
        (lambda: wh.square_grid(0, 0, 1, 1, cell_km=3), r"cell_km must be \(width, height\)"),  # type: ignore[arg-type]
        (lambda: wh.square_grid(0, 0, 1, 1, cell_km=(1e-3, 1e-3)), "larger cells"),
        (lambda: wh.square_grid(0, -170, 1, 170), "not a hemisphere"),
        (lambda: wh.geodesic(some.grid(2, 2)), "needs places on the earth"),
        (lambda: wh.graph_metric(3, [[0, 1]], [1.0]), "no path from 0 to 2"),
        (lambda: wh.graph_metric(2, [[0, 2]], [1.0]), "edges must name places from 0 to 1"),
        (
            lambda: wh.graph_metric(2, [[0, 1]], [0.0]),
            r"lengths must be positive, and the one at \[0\]",
        ),
        (lambda: wh.graph_metric(2, [[0, 1]], [1.0, 2.0]), "lengths must be 1 numbers, got 2"),
        (lambda: wh.graph_metric(0, [], []), "n must be a whole number"),
        (lambda: wh.discrete(0), "n must be a whole number"),
        (
            lambda: wh.greedy_spanner(changed(0, 1, 3.0), 1.1),
            r"symmetric, and differs at \[0, 1\]",
        ),
        (
            lambda: wh.greedy_spanner(changed(1, 1, 3.0), 1.1),
            r"zero on the diagonal, and is not at \[1",
        ),
        (lambda: wh.greedy_spanner([[0, 0], [0, 0]], 1.1), "positive between different places"),
        (lambda: wh.greedy_spanner([[0, -1], [-1, 0]], 1.1), "positive between different places"),
        (
            lambda: wh.greedy_spanner([[0, 1, 9], [1, 0, 1], [9, 1, 0]], 1),
            r"d\[0, 2\] is longer than the way through 1",
        ),
        (lambda: wh.greedy_spanner(np.ones((2, 3)), 1.1), "must be square, got 2 x 3"),
        (lambda: wh.greedy_spanner(changed(0, 1, math.inf), 1.1), "finite, got inf"),
        (lambda: wh.embedded_city().places.subset([99]), "indices must be from 0 to 47"),
        (lambda: wh.embedded_city().places.subset([]), "indices must be a list"),
    ],
)
def test_bad_input_is_named(make: Any, words: str) -> None:
    with pytest.raises(wh.InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
