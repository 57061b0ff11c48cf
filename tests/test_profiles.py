"""Profiles from files: tables, regions, and what wrong files are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import whereish as wh

XY = {"x_km": [0.0, 1.0, 2.5], "y_km": [0.0, 0.5, 0.0], "prior": [0.2, 0.5, 0.3]}
LATLON = {"lat": [48.85, 48.86, 48.87], "lon": [2.33, 2.34, 2.36], "prior": [0.2, 0.5, 0.3]}


def write(path: Path, columns: dict[str, list[float]]) -> Path:
    table = pl.DataFrame(columns)
    if path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.suffix == ".csv":
        table.write_csv(path)
    elif path.name.startswith("records"):
        path.write_text(json.dumps(table.to_dicts()))
    else:
        path.write_text(json.dumps(columns))
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "columns.json", "records.json"])
def test_tables_in_every_format_say_the_same(tmp_path: Path, name: str) -> None:
    flat = wh.read_profile(write(tmp_path / name, {**XY, "note": [7.0, 8.0, 9.0]}))
    assert flat.places.xy.tolist() == [[0.0, 0.0], [1.0, 0.5], [2.5, 0.0]]
    assert flat.places.plane is None
    assert flat.prior == pytest.approx([0.2, 0.5, 0.3])
    ground = wh.read_profile(write(tmp_path / name, LATLON))
    assert ground.places.latlon == pytest.approx(np.column_stack([LATLON["lat"], LATLON["lon"]]))


def test_counts_are_normalised_when_asked(tmp_path: Path) -> None:
    file = write(tmp_path / "counts.csv", XY | {"prior": [2, 5, 3]})
    with pytest.raises(wh.InputError, match="prior must sum to 1, and it sums to more"):
        wh.read_profile(file)
    assert wh.read_profile(file, normalise=True).prior == pytest.approx([0.2, 0.5, 0.3])


def feature(geometry: dict[str, Any], prior: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": {"prior": prior}}


def polygon(*ring: tuple[float, float]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[list(point) for point in (*ring, ring[0])]]}


CRESCENT = polygon((2.0, 48.0), (2.1, 48.0), (2.1, 48.1), (2.0, 48.1), (2.09, 48.05))
SQUARE = polygon((2.2, 48.0), (2.3, 48.0), (2.3, 48.1), (2.2, 48.1))


def test_regions_of_any_shape(tmp_path: Path) -> None:
    """The place is inside its region, even where the middle of the region is not."""
    from shapely.geometry import Point, shape

    file = tmp_path / "districts.geojson"
    collection = {
        "type": "FeatureCollection",
        "features": [feature(CRESCENT, 0.7), feature(SQUARE, 0.3)],
    }
    file.write_text(json.dumps(collection))
    profile = wh.read_profile(file)
    assert profile.prior == pytest.approx([0.7, 0.3])
    assert not shape(CRESCENT).contains(shape(CRESCENT).centroid)
    assert profile.places.latlon is not None
    for (lat, lon), region in zip(profile.places.latlon, (CRESCENT, SQUARE), strict=True):
        assert shape(region).contains(Point(lon, lat))
    assert profile.regions is not None
    assert len(profile.regions) == 2


def collection(*features: Any) -> str:
    return json.dumps({"type": "FeatureCollection", "features": list(features)})


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.json", "", "the file is empty"),
        ("a.csv", "\n\n", "the columns must be|is empty"),
        ("a.csv", "x,y,p\n1,2,1\n", "x_km, y_km, prior or lat, lon, prior; got p, x, y"),
        ("a.csv", "x_km,y_km\n1,2\n", "got x_km, y_km"),
        ("a.csv", "x_km,y_km,lat,lon,prior\n1,2,3,4,1\n", "not both x_km, y_km and lat, lon"),
        ("a.csv", "x_km,y_km,prior\n", "at least one place, got none"),
        (
            "a.csv",
            "x_km,y_km,prior\n0,0,0.5\n1,oops,0.5\n",
            "y_km must be a number, got something else in row 2",
        ),
        (
            "a.csv",
            "x_km,y_km,prior\n0,0,0.5\n1,,0.5\n",
            "y_km must be a number, got nothing in row 2",
        ),
        ("a.csv", "x_km,y_km,prior\n0,0,nan\n1,1,0.5\n", "prior must be finite, got nan"),
        (
            "a.csv",
            "x_km,y_km,prior\n0,0,0.5\n0,0,0.5\n",
            "places must differ by a millimetre, but 0 and 1",
        ),
        (
            "a.csv",
            "lat,lon,prior\n0,0,0.5\n95,0,0.5\n",
            "latitude must be .* that of place 1 is not",
        ),
        ("a.csv", b"\xff\xfe\x00\x01", "not a table|columns must be"),
        ("a.json", "[1, 2]", "list of records, a mapping of columns, or GeoJSON"),
        ("a.json", "{", "not JSON"),
        ("a.json", '{"x_km": [1], "y_km": [1, 2], "prior": [1]}', "equally long"),
        ("a.json", '[{"x_km": 1, "y_km": 2}]', "got x_km, y_km"),
        ("a.parquet", "no", "not a Parquet file"),
        ("a.xlsx", "x", r"the name must end in .csv, .json, .geojson or .parquet"),
        ("a.geojson", '{"type": "FeatureCollection", "features": []}', "at least one region"),
        ("a.geojson", collection({"geometry": None}), "feature 0 has no geometry"),
        (
            "a.geojson",
            collection(feature(SQUARE, None)),
            "prior must be a number, got nothing in row 1",
        ),
        ("a.geojson", collection({"geometry": SQUARE}), "prior must be a number, got nothing"),
        (
            "a.geojson",
            collection(feature(polygon((0, 0), (1, 1), (1, 0), (0, 1)), 1)),
            "feature 0: the geometry is empty or crosses itself",
        ),
    ],
)
def test_wrong_files_are_told_what_is_wrong(
    tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(wh.InputError, match=words) as caught:
        wh.read_profile(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(wh.InputError, match="profile must be a file that exists"):
        wh.read_profile(tmp_path / "nothing.csv")


def test_repr_does_not_show_the_prior() -> None:
    assert repr(wh.embedded_city()) == "Profile(48 places)"


def test_the_embedded_city_is_skewed_and_fixed() -> None:
    one, two = wh.embedded_city(), wh.embedded_city()
    assert (one.prior == two.prior).all()
    assert len(one.places) == 48
    ordered = np.sort(one.prior)[::-1]
    assert ordered[:5].sum() > 0.5
    assert ordered[-1] < 0.01
    flat = wh.square_grid(south=48.843, west=2.29, north=48.891, east=2.3845, cell_km=(0.87, 0.89))
    assert one.places.same_as(flat)
