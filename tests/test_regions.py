"""Regions: every point is in the one it is in, and centres are where they should be."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whereish as wh
from effort import examples
from whereish.profiles import ELSEWHERE, DegreeTiles


def some_points(seed: int, lat: float, lon: float, spread: float = 0.05) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    lats = np.clip(lat + rng.normal(0, spread, 300), -90, 90)
    return lats, (lon + rng.normal(0, spread, 300) + 180) % 360 - 180


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    lat=st.sampled_from([-77.8, -33.9, 0.0, 39.95, 48.86, 69.6]),
    lon=st.sampled_from([-179.99, -70.0, 0.0, 116.4, 179.95]),
    cell=st.sampled_from([(0.658, 0.712), (0.1, 0.1), (3.0, 1.0)]),
)
def test_a_cell_is_the_nearest_centre_in_its_own_box(
    seed: int, lat: float, lon: float, cell: tuple[float, float]
) -> None:
    east = (lon + 0.04 + 180) % 360 - 180
    west = (lon - 0.04 + 180) % 360 - 180
    cells = wh.SquareCells.over(lat - 0.03, west, lat + 0.03, east, cell)
    lats, lons = some_points(seed, lat, lon)
    found = cells.of(lats, lons)
    centres = cells.places(cells.all_ids)
    grid = wh.square_grid(lat - 0.03, west, lat + 0.03, east, cell)
    assert np.allclose(centres.xy, grid.xy, atol=1e-9)
    xy = cells.plane.to_xy(np.column_stack([lats, lons]))
    for point, region in zip(xy, found.tolist(), strict=True):
        inside = np.abs(point - centres.xy) <= np.array(cell) / 2 + 1e-12
        holds = set(cells.all_ids[inside.all(axis=1)].tolist())
        assert (region in holds) if holds else region == ELSEWHERE


def test_cells_without_an_end_go_on_and_far_away_is_elsewhere() -> None:
    cells = wh.SquareCells(wh.LocalPlane(48.9, 2.3), (0.5, 0.5))
    lat, lon = np.array([48.7, 49.4, -48.9, 0.0]), np.array([2.0, 3.1, -177.7, 2.3])
    found = cells.of(lat, lon)
    assert (found == ELSEWHERE).tolist() == [False, False, True, True]
    near = cells.places(found[:2]).xy - cells.plane.to_xy(np.column_stack([lat, lon])[:2])
    assert np.abs(near).max() <= 0.25
    column, row = cells.grid(found[:2])
    assert (cells.numbered(column, row) == found[:2]).all()
    assert (column < 0).tolist() == [True, False]
    with pytest.raises(wh.InputError):
        _ = cells.all_ids


def test_coarser_cells_hold_the_finer_ones() -> None:
    fine = wh.SquareCells(wh.LocalPlane(48.9, 2.3), (0.1, 0.1))
    lat, lon = some_points(1, 48.87, 2.33)
    column, row = fine.grid(fine.of(lat, lon))
    assert (fine.numbered(column // 4, row // 4) == fine.coarser(4).of(lat, lon)).all()


@examples(30)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 60))
def test_what_lies_around_is_new_and_no_nearer_one_is_left_out(seed: int, count: int) -> None:
    cells = wh.SquareCells(wh.LocalPlane(48.9, 2.3), (0.658, 0.712))
    rng = np.random.default_rng(seed)
    known = np.unique(cells.numbered(rng.integers(-4, 4, 5), rng.integers(-4, 4, 5)))
    more = cells.around(known, count)
    assert len(set(more.tolist())) == count
    assert not set(more.tolist()) & set(known.tolist())
    apart = wh.euclidean(cells.places(more), cells.places(known)).min(axis=1)
    column, row = (part.ravel() for part in np.meshgrid(np.arange(-14, 14), np.arange(-14, 14)))
    others = np.setdiff1d(cells.numbered(column, row), np.concatenate([known, more]))
    left = wh.euclidean(cells.places(others), cells.places(known)).min()
    assert apart.max() <= left + 1e-9


def test_hexagons_agree_with_their_library() -> None:
    h3 = pytest.importorskip("h3")
    cells = wh.H3Cells(8)
    lat, lon = some_points(2, 48.87, 2.33)
    found = cells.of(lat, lon)
    assert [h3.int_to_str(int(i)) for i in found] == [
        h3.latlng_to_cell(a, b, 8) for a, b in zip(lat, lon, strict=True)
    ]
    ids = np.unique(found)
    shapes, places = cells.shapes(ids), cells.places(ids)
    assert places.latlon is not None
    from shapely.geometry import Point

    for shape, (y, x) in zip(shapes, places.latlon, strict=True):
        assert shape.contains(Point(x, y))
    more = cells.around(ids[:1], 6)
    assert {h3.int_to_str(int(i)) for i in more} == set(h3.grid_ring(h3.int_to_str(int(ids[0])), 1))


def test_hexagons_without_their_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h3.api.basic_int", None)
    with pytest.raises(wh.InputError, match=r"install 'whereish\[h3\]'"):
        wh.H3Cells(8)


def square(west: float, south: float, size: float = 1.0) -> Any:
    ring = [[west, south], [west + size, south], [west + size, south + size],
            [west, south + size], [west, south]]  # fmt: skip
    geometry = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": {}, "geometry": geometry}


def write(path: Path, features: Any) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_districts_hold_what_is_in_them(tmp_path: Path) -> None:
    path = write(tmp_path / "d.geojson", [square(0, 0), square(1, 0), square(5, 5, 2)])
    districts = wh.Districts.read(path)
    lat, lon = np.array([0.5, 0.5, 0.5, 6.9, 3.0]), np.array([0.5, 1.0, 1.5, 6.9, 3.0])
    assert districts.of(lat, lon).tolist() == [0, 0, 1, 2, ELSEWHERE]
    assert len(districts.places(np.array([0, 2]))) == 2
    assert districts.around(np.array([1]), 5).tolist() == [0, 2]
    assert districts.recipe() != wh.Districts.read(write(path, [square(0, 0)])).recipe()


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"features": 3}', '{"features": []}', '{"features": [{}]}',
     '{"features": [{"geometry": {"type": "Point", "coordinates": [1, 2]}}]}',
     '{"features": [{"geometry": {"type": "Polygon", "coordinates":'
     " [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}}]}"],
)  # fmt: skip
def test_what_is_no_district_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "d.geojson").write_text(content)
    with pytest.raises(wh.InputError, match="districts"):
        wh.Districts.read(tmp_path / "d.geojson")
    with pytest.raises(wh.InputError, match="cannot be read"):
        wh.Districts.read(tmp_path / "none.geojson")


def test_tiles_cover_the_earth() -> None:
    tiles = DegreeTiles()
    lat, lon = np.array([-90, 90, 0, 48.87, 48.87]), np.array([-180, 180, 0, 2.33, -2.33])
    mid_lat, mid_lon = tiles.middles(tiles.of(lat, lon))
    assert np.abs(mid_lat - lat).max() <= 0.005 + 1e-9
    assert np.abs(mid_lon - lon).max() <= 0.005 + 1e-9


@pytest.mark.parametrize("cell", [(0.658, 0.712), (5.0, 0.1), (0.1, 5.0)])
def test_thin_areas_and_long_cells_have_neighbours_too(cell: tuple[float, float]) -> None:
    thin = wh.SquareCells(wh.LocalPlane(48.9, 2.3), cell, (0.0, 0.0), 100, 1)
    assert len(thin.around(np.array([0]), 50)) == 50
    assert len(thin.around(np.array([0]), 500)) == 99
    free = wh.SquareCells(wh.LocalPlane(48.9, 2.3), cell)
    more = free.around(np.array([0]), 20)
    apart = wh.euclidean(free.places(more), free.places(np.array([0])))[:, 0]
    column, row = (part.ravel() for part in np.meshgrid(np.arange(-60, 61), np.arange(-60, 61)))
    others = np.setdiff1d(free.numbered(column, row), [*more.tolist(), 0])
    left = wh.euclidean(free.places(others), free.places(np.array([0])))[:, 0]
    assert apart.max() <= left.min() + 1e-9


def test_districts_that_are_none_are_refused(tmp_path: Path) -> None:
    across = square(179.5, 0)
    across["geometry"]["coordinates"][0][1][0] = -179.5
    across["geometry"]["coordinates"][0][2][0] = -179.5
    empty = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": []}}
    for wrong in (across, empty):
        with pytest.raises(wh.FormatError, match="districts"):
            wh.Districts.read(write(tmp_path / "d.geojson", [square(0, 0), wrong]))
    far = json.dumps({"features": [square(0.0, 0.0)]}).replace("[1.0, ", "[1" + "0" * 400 + ", ")
    (tmp_path / "d.geojson").write_text(far)
    with pytest.raises(wh.InputError):
        wh.Districts.read(tmp_path / "d.geojson")
