"""One person's profile: what it covers, what is around it, and that it feeds a mechanism."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whereish as wh
from effort import examples
from strategies import places, priors
from whereish.profiles import (
    DegreeTiles,
    PersonalProfile,
    area_cells,
    count_visits,
    find_middle,
    personal_profile,
    profile_from_visits,
    smoothed,
)
from whereish.traces import Traces, open_traces

HOME, WORK = (48.8666, 2.3333), (48.8444, 2.3777)
START = datetime(2024, 5, 6, tzinfo=UTC)


def stays(*parts: tuple[tuple[float, float], int, int]) -> pl.DataFrame:
    """A person who is at a spot from one hour on for some hours, day after day."""
    rows = [
        (START + timedelta(days=day, hours=hour + step), *spot)
        for day in range(10)
        for spot, hour, hours in parts
        for step in range(hours)
    ]
    table = pl.DataFrame(rows, schema=["time", "lat", "lon"], orient="row")
    return table.with_columns(user=pl.lit("me"), time=pl.col("time").dt.cast_time_unit("us"))


def prior_at(made: PersonalProfile, spot: tuple[float, float]) -> float:
    where = made.profile.places
    assert where.latlon is not None
    assert where.plane is not None
    xy = where.plane.to_xy([spot])[0]
    assert where.cell_km is not None
    inside = (np.abs(where.xy - xy) <= np.array(where.cell_km) / 2).all(axis=1)
    return float(made.profile.prior[inside].sum())


def test_the_prior_is_the_share_of_hours() -> None:
    made = personal_profile(stays((HOME, 20, 3), (WORK, 9, 1)), 20, zone="Europe/Paris")
    assert prior_at(made, HOME) == pytest.approx(0.75)
    assert prior_at(made, WORK) == pytest.approx(0.25)
    assert (len(made.profile.places), made.visited) == (20, 2)
    assert (made.points, made.hours, made.days) == (40, 40, 11)  # some hours are tomorrow's
    assert made.at_places == made.in_area == 1.0
    # Nobody's home is the middle of a cell, and the cells are as small as will do.
    assert made.profile.places.cell_km == (0.1, 0.1)


def test_what_is_far_away_is_counted_as_elsewhere() -> None:
    away = (45.76, 4.83)
    table = stays((HOME, 20, 3), (away, 9, 1))
    made = personal_profile(table, 5)
    assert made.in_area == pytest.approx(0.75)
    assert prior_at(made, HOME) == 1.0
    abroad = personal_profile(stays((HOME, 20, 1), (away, 9, 3)), 5)
    assert prior_at(abroad, away) == 1.0


def test_periods_windows_and_sizes_are_the_persons_choice() -> None:
    table = stays((HOME, 20, 3), (WORK, 9, 1))
    night = personal_profile(table, 5, zone="UTC", period="night")
    assert prior_at(night, HOME) == 1.0
    assert prior_at(personal_profile(table, 5, period=(9, 10)), WORK) == 1.0
    assert personal_profile(table, 5, window_days=3).days == 3
    large = personal_profile(table, 5, cell_km=(1.0, 2.0))
    assert large.profile.places.cell_km == (1.0, 2.0)


def test_cells_grow_until_the_places_cover_the_time() -> None:
    city = wh.SyntheticCity(users=1, days=40, seed=3)
    table = city.person(0)
    few, many = (personal_profile(table, n, zone=city.zone) for n in (6, 200))
    assert few.profile.places.cell_km is not None
    assert many.profile.places.cell_km is not None
    assert few.profile.places.cell_km[0] > many.profile.places.cell_km[0]
    assert many.at_places >= 0.9


def test_given_regions_are_taken(tmp_path: Path) -> None:
    pytest.importorskip("h3")
    table = stays((HOME, 20, 3), (WORK, 9, 1))
    hexagons = personal_profile(table, 7, regions=wh.H3Cells(8))
    assert np.sort(hexagons.profile.prior)[-2:] == pytest.approx([0.25, 0.75])
    assert hexagons.profile.regions is not None
    assert len(hexagons.profile.places) == 7
    ring = [[2.3, 48.8], [2.35, 48.8], [2.35, 48.9], [2.3, 48.9], [2.3, 48.8]]
    shapes = [ring, [[lon + 0.05, lat] for lon, lat in ring]]
    features = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [shape]}}
        for shape in shapes
    ]
    (tmp_path / "d.geojson").write_text(json.dumps({"features": features}))
    districts = personal_profile(table, 50, regions=wh.Districts.read(tmp_path / "d.geojson"))
    assert districts.profile.prior == pytest.approx([0.75, 0.25])
    wh.write_profile(tmp_path / "p.geojson", districts.profile)
    back = wh.read_profile(tmp_path / "p.geojson")
    assert back.regions is not None
    assert back.places.same_as(districts.profile.places)


def test_several_people_are_not_taken_for_one() -> None:
    table = stays((HOME, 20, 3))
    both = pl.concat([table, table.with_columns(user=pl.lit("you"))])
    with pytest.raises(wh.InputError, match="traces must be of one person, got 2"):
        personal_profile(both)
    visits = count_visits(both, area_cells(both, (0.5, 0.5), 3.0))
    assert profile_from_visits(visits, "you", 9).profile.prior.max() == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"places": 1}, "places must be a whole number, at least 2"),
        ({"smooth": 1.5}, "smooth must be a share"),
        ({"regions": DegreeTiles(), "cell_km": (1.0, 1.0)}, "leave cell_km out"),
        ({"smooth": -0.1}, "smooth must be a share"),
        ({"radius_km": 0}, "radius_km"),
        ({"cell_km": (0.0, 1.0)}, "cell_km"),
        ({"period": (3, 4)}, "got none"),
        ({"zone": "Nowhere"}, "zone must be"),
        ({"window_days": 0}, "days must be"),
    ],
)
def test_bad_wishes_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(wh.InputError, match=message):
        personal_profile(stays((HOME, 20, 1)), **options)  # type: ignore[arg-type]  # the test


def test_nothing_to_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,lat,lon\n2020-01-01 00:00:00,116.3,39.9\n")
    with pytest.raises(wh.InputError, match="to be swapped"):
        personal_profile(wh.open_traces(path))


@examples(60)
@given(data=st.data(), share=st.floats(0, 1))
def test_smoothing_moves_no_more_than_its_share(data: st.DataObject, share: float) -> None:
    where = data.draw(places())
    prior = data.draw(priors(len(where)))
    found = smoothed(prior, where, share)
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - prior).sum() / 2 <= share + 1e-12
    if share > 1e-100:  # less is nothing, in doubles
        assert (found > 0).all() or wh.euclidean(where).max() > 100


@pytest.mark.parametrize("lon", [179.97, -179.97, 0.0])
@pytest.mark.parametrize("lat", [-70.0, 0.02, 69.9])
def test_the_middle_is_found_anywhere(lat: float, lon: float) -> None:
    spots = [(lat, lon), (lat + 0.01, (lon + 0.06 + 180) % 360 - 180)]
    table = stays((spots[0], 8, 3), (spots[1], 18, 3))
    middle = find_middle(count_visits(table, DegreeTiles()), 25.0)
    apart = wh.geodesic(
        wh.Places.from_latlon([[middle.lat, middle.lon]]), wh.Places.from_latlon(spots)
    )
    assert apart.max() < 8
    made = personal_profile(table, 5)
    assert prior_at(made, spots[0]) == pytest.approx(0.5)


def test_a_profile_in_a_file_is_private_and_builds(tmp_path: Path) -> None:
    made = personal_profile(stays((HOME, 20, 3), (WORK, 9, 1)), 12, cell_km=(0.7, 0.7)).profile
    for kind in ("geojson", "csv", "json", "parquet"):
        path = tmp_path / f"me.{kind}"
        wh.write_profile(path, made)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        back = wh.read_profile(path)
        assert back.places.cell_km == (0.7, 0.7)
        if kind == "geojson":  # the middle of a cell's corners is a nanometre off
            assert np.allclose(back.places.latlon, made.places.latlon, atol=1e-6)  # type: ignore[arg-type]
        else:
            assert back.places.same_as(made.places)
        assert (back.prior == made.prior).all()
    best = wh.optimal(back.places, back.prior, 1.0)
    assert wh.quality_loss(best, back.prior) < 2
    with pytest.raises(wh.InputError, match="must end in"):
        wh.write_profile(tmp_path / "me.xls", made)


def test_everybodys_profiles_are_written_whole_under_names_that_any_disk_takes(
    tmp_path: Path,
) -> None:
    made = personal_profile(stays((HOME, 20, 3)), 5).profile
    people = {"../x": made, "a/b": made, "A/B": made, "": made, "é": made}
    wh.write_profiles(tmp_path / "all", people)
    names = sorted(file.name for file in (tmp_path / "all").iterdir())
    assert names == sorted(["_x.csv", "a_b.csv", "A_B-2.csv", "_.csv", "é.csv"])
    assert stat.S_IMODE((tmp_path / "all").stat().st_mode) == 0o700
    with pytest.raises(wh.InputError, match="new or empty folder"):
        wh.write_profiles(tmp_path / "all", people)
    wh.write_profiles(tmp_path / "all.parquet", people)
    table = pl.read_parquet(tmp_path / "all.parquet")
    assert set(table["user"]) == set(people)
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_given_cells_stay_as_they_are() -> None:
    cells = wh.SquareCells(wh.LocalPlane(48.85, 2.35), (0.3, 0.3))
    made = personal_profile(stays((HOME, 20, 3), (WORK, 9, 1)), 9, regions=cells)
    assert made.profile.places.cell_km == (0.3, 0.3)


@pytest.mark.parametrize("count", ["hours", "points"])
@pytest.mark.parametrize("most_rows", [4_000_000, 10])
def test_traces_are_read_and_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str, most_rows: int
) -> None:
    """Only a set that is too large to be held is read again; the profile is the same."""
    file = tmp_path / "me.csv"
    table = stays((HOME, 20, 3), (WORK, 9, 1))
    table.write_csv(file)
    with file.open("a") as stream:
        stream.write("x,1,2,me\n")
    calls = {"read": 0, "hashed": 0}

    def counted(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(Traces, "_read", counted(Traces._read, "read"))
    monkeypatch.setattr(Traces, "digest", counted(Traces.digest, "hashed"))
    monkeypatch.setattr("whereish.traces.held.MOST_ROWS", most_rows)
    made = personal_profile(open_traces(file), 20, count=count, cache=tmp_path / "cache")
    assert calls == {"read": 1 if most_rows > 10 else 2, "hashed": int(count == "hours")}
    # Rows without a time are points, but no hours.
    assert (made.funnel.rows, made.funnel.dropped) == (41, int(count == "hours"))
    rows = (
        table if count == "hours" else pl.concat([table, table[:1].with_columns(lat=1.0, lon=2.0)])
    )
    expected = personal_profile(rows, 20, count=count)
    assert made.profile.places.same_as(expected.profile.places)
    assert (made.profile.prior == expected.profile.prior).all()
    assert (made.in_area, made.points) == (expected.in_area, expected.points)
