"""Visits and the paper's pipeline, against a slow one that knows zoneinfo and counters only."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import checks
import whereish as wh
from effort import examples
from whereish.profiles import (
    ELSEWHERE,
    PERIODS,
    DegreeTiles,
    as_period,
    busiest_window,
    count_visits,
    enough_points,
    inside,
    paper_profiles,
    popular_regions,
    region_priors,
    region_scores,
)
from whereish.traces import forget

CELLS = wh.SquareCells.over(39.9, 116.3, 39.95, 116.36, (1.0, 1.0))
ZONES = ["UTC", "Asia/Shanghai", "Europe/Paris", "America/New_York", "Asia/Kolkata",
         "Australia/Lord_Howe", "Pacific/Apia"]  # fmt: skip
# Clocks change in these nights: forward, back, by half an hour, and by a whole day.
NIGHTS = [datetime(2024, 3, 31, tzinfo=UTC), datetime(2024, 10, 27, tzinfo=UTC),
          datetime(2024, 11, 3, 6, tzinfo=UTC), datetime(2024, 10, 5, 15, tzinfo=UTC),
          datetime(2011, 12, 30, 9, tzinfo=UTC), datetime(2009, 5, 5, tzinfo=UTC)]  # fmt: skip
Row = tuple[str, datetime, int | None]


def as_table(rows: Sequence[Row]) -> pl.DataFrame:
    """Put each row into the middle of its region, or far away from all."""
    middles = CELLS.places(CELLS.all_ids).latlon
    assert middles is not None
    spots = [(10.0, 10.0) if r is None else tuple(middles[r].tolist()) for _, _, r in rows]
    return pl.DataFrame(
        {
            "user": [user for user, _, _ in rows],
            "time": pl.Series([t for _, t, _ in rows], dtype=pl.Datetime("us", "UTC")),
            "lat": [lat for lat, _ in spots],
            "lon": [lon for _, lon in spots],
        }
    )


def number(region: int) -> int | None:
    """Return which of the cells a region's number is: None elsewhere."""
    return None if region == ELSEWHERE else CELLS.all_ids.tolist().index(region)


@st.composite
def traces(draw: DrawFn, most: int = 40) -> list[Row]:
    base = draw(st.sampled_from(NIGHTS))
    row = st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.integers(-6 * 3600, 20 * 3600).map(lambda s: base + timedelta(seconds=s)),
        st.one_of(st.none(), st.integers(0, 5)),
    )
    return draw(st.lists(row, min_size=1, max_size=most))


@examples(150)
@given(rows=traces(), zone=st.sampled_from(ZONES))
def test_the_same_region_in_the_same_hour_counts_once(rows: list[Row], zone: str) -> None:
    found = count_visits(as_table(rows), CELLS, zone)
    told = {
        (user, hour, clock, day, number(region))
        for user, hour, clock, day, region in found.table.rows()
    }
    assert told == checks.slow_visits(rows, zone)
    assert len(told) == len(found.table)
    for user in found.users:
        begun = checks.slow_traces([t for who, t, _ in rows if who == user], zone)
        assert dict(found.traces.filter(user=user).select("day", "traces").rows()) == begun


def test_the_hour_that_comes_twice_is_two_and_a_period_ends_where_the_next_begins() -> None:
    twice = [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (0, 1)]
    found = count_visits(as_table([("a", t, 0) for t in twice]), CELLS, "Europe/Paris")
    assert found.table["clock"].to_list() == [2, 2]
    day = datetime(2024, 6, 1, tzinfo=UTC)
    edges = [day + timedelta(hours=h, seconds=s) for h in (7, 12, 19) for s in (-1, 0)]
    rows = count_visits(as_table([("a", t, 0) for t in edges]), CELLS, "UTC")
    names = [
        [name for name in PERIODS if len(rows.during(name).filter(hour=hour))][1:]
        for hour in rows.table["hour"]
    ]
    assert names == [["night"], ["morning"], ["morning"], ["afternoon"], ["afternoon"], ["night"]]


def skewed_rows(seed: int, days: int = 130) -> list[Row]:
    """People with a few favourite regions, gaps, ties, and points outside."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for user in ("a", "b", "c", "d", "e"):
        likes = rng.permutation(len(CELLS.all_ids))
        for _ in range(int(rng.integers(5, 90))):
            begin = datetime(2012, 1, 1, tzinfo=UTC) + timedelta(
                minutes=int(rng.integers(0, days * 24 * 60))
            )
            for step in range(int(rng.integers(1, 5))):
                pick = int(min(rng.geometric(0.25) - 1, 7))
                region = None if rng.random() < 0.1 else int(likes[pick])
                rows.append((user, begin + timedelta(minutes=17 * step), region))
    return rows


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    zone=st.sampled_from(ZONES[:5]),
    window=st.sampled_from([1, 7, 90, 400]),
    at_least=st.integers(0, 6),
    top=st.integers(1, 6),
    places=st.integers(1, 12),
)
def test_the_pipeline_is_section_4(
    seed: int, zone: str, window: int, at_least: int, top: int, places: int
) -> None:
    rows = skewed_rows(seed)
    first, chosen, second, priors = checks.slow_pipeline(
        rows, zone, window=window, at_least=at_least, top=top, places=places
    )
    visits = count_visits(as_table(rows), CELLS, zone)
    options: Any = {"at_least": at_least, "top": top, "places": places}
    if not second:
        with pytest.raises(wh.InputError, match="nobody is left"):
            paper_profiles(visits, window_days=window, **options)
        return
    found = paper_profiles(visits, window_days=window, **options)
    filtered = enough_points(inside(busiest_window(visits, window)), at_least)
    assert filtered.users == first
    assert [number(i) for i in found.ids.tolist()] == chosen
    assert found.users == second
    assert (found.steps[3].users, found.steps[5].users) == (len(first), len(second))
    for user in second:
        assert list(found.priors[user]) == list(priors[user])
        for period, prior in found.priors[user].items():
            assert prior.sum() == pytest.approx(1, abs=1e-12)
            told = dict(zip(chosen, prior.tolist(), strict=True))
            assert told == pytest.approx(priors[user][period], abs=1e-12)
        assert found.profile(user).places.same_as(found.places)


def test_a_window_may_lie_at_either_end_and_the_first_of_equals_wins() -> None:
    def windowed(days: list[int], length: int) -> list[int]:
        start = datetime(2020, 1, 1, 12, tzinfo=UTC)
        rows = [("a", start + timedelta(days=d), 0) for d in days]
        kept = busiest_window(count_visits(as_table(rows), CELLS), length)
        return [(day - start.date()).days for day in kept.table["day"].unique().sort()]

    assert windowed([0, 1, 50, 99, 100], 2) == [0, 1]
    assert windowed([0, 50, 98, 99, 100], 3) == [98, 99, 100]
    assert windowed([0, 2, 3], 3) == [0, 2]
    assert windowed([0, 89, 90], 90) == [0, 89]
    assert windowed([5], 90) == [5]


def test_order_and_parts_do_not_matter(tmp_path: Path) -> None:
    rows = skewed_rows(3)
    whole = as_table(rows)
    shuffled = whole.sample(fraction=1.0, shuffle=True, seed=1)
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(7):
        pl.concat([shuffled[part::7], shuffled[:3]]).write_parquet(folder / f"{part}.parquet")
    one = count_visits(whole, CELLS, "Asia/Shanghai")
    two = count_visits(wh.open_traces(folder), CELLS, "Asia/Shanghai")
    assert one.table.equals(two.table)
    assert one.traces.equals(two.traces)


def test_what_was_read_is_kept_by_content_for_its_owner_and_can_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, cache = tmp_path / "t.parquet", tmp_path / "cache"
    as_table(skewed_rows(4)).write_parquet(file)
    one = count_visits(wh.open_traces(file), CELLS, cache=cache)
    kept = list(cache.iterdir())
    assert len(kept) == 1
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    with monkeypatch.context() as patch:
        patch.setattr(wh.Traces, "map", lambda *_: pytest.fail("read again"))
        two = count_visits(wh.open_traces(file), CELLS, cache=cache)
    assert one.table.equals(two.table)
    assert one.funnel == two.funnel
    # Another zone, other cells, another content: read again. A spoiled file too.
    count_visits(wh.open_traces(file), CELLS, "Asia/Tokyo", cache=cache)
    count_visits(wh.open_traces(file), DegreeTiles(), cache=cache)
    as_table(skewed_rows(5)).write_parquet(file)
    three = count_visits(wh.open_traces(file), CELLS, cache=cache)
    assert not three.table.equals(one.table)
    assert len(list(cache.iterdir())) == 4
    for spoiled in cache.iterdir():
        spoiled.write_bytes(spoiled.read_bytes()[:-1] + b"?")
    assert count_visits(wh.open_traces(file), CELLS, cache=cache).table.equals(three.table)
    assert forget(cache) == 4
    assert not list(cache.iterdir())


def test_scores_count_people_not_points() -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    rows: list[Row] = [("a", start + timedelta(hours=h), 1) for h in range(50)]
    rows += [(user, start, 2) for user in "bc"]
    scores = region_scores(count_visits(as_table(rows), CELLS))
    assert [(number(r), s, p) for r, s, p in scores.rows()] == [(2, 2, 2), (1, 1, 50)]
    assert popular_regions(count_visits(as_table(rows), CELLS), 1).tolist() == [CELLS.all_ids[2]]


def test_a_period_without_points_has_no_prior() -> None:
    rows: list[Row] = [("a", datetime(2020, 1, 1, 8, tzinfo=UTC), 1)]
    visits = count_visits(as_table(rows), CELLS)
    priors = region_priors(visits, CELLS.all_ids)
    assert list(priors["a"]) == ["all day", "morning"]
    cohort = paper_profiles(visits, at_least=0)
    with pytest.raises(wh.InputError, match="period must be one of"):
        cohort.profile("a", "night")
    with pytest.raises(wh.InputError, match="user must be one of"):
        cohort.profile("z")


@pytest.mark.parametrize("wrong", ["noon", (7, 7), (7,), (7, 25), (-1, 3), (1.5, 3), None, 7])
def test_what_is_no_period_is_refused(wrong: Any) -> None:
    with pytest.raises(wh.InputError, match="a period must be"):
        as_period(wrong)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: count_visits(as_table([]).drop("lat"), CELLS),
        lambda: count_visits("traces", CELLS),  # type: ignore[arg-type]  # the test
        lambda: count_visits(as_table([]), CELLS, "Mars/Olympus"),
        lambda: count_visits(as_table([]).with_columns(pl.col("time").cast(pl.Date)), CELLS),
        lambda: busiest_window(count_visits(as_table([]), CELLS), 0),
        lambda: paper_profiles(count_visits(as_table([]), CELLS)),
    ],
)
def test_bad_input_is_refused(misuse: Any) -> None:
    with pytest.raises(wh.InputError):
        misuse()


def test_repr_shows_nobody() -> None:
    visits = count_visits(as_table(skewed_rows(1)), CELLS)
    cohort = paper_profiles(visits, at_least=1)
    assert "shape" not in repr(visits)
    assert "prior" not in repr(cohort)


def test_a_window_of_any_length_is_one(tmp_path: Path) -> None:
    visits = count_visits(as_table(skewed_rows(2)), CELLS)
    for days in (10**6, 10**9, 2**63):
        assert len(busiest_window(visits, days).table) == len(visits.table)


def test_what_was_kept_and_is_something_else_is_counted_again(tmp_path: Path) -> None:
    from whereish.traces.cache import keep

    file, cache = tmp_path / "t.parquet", tmp_path / "cache"
    as_table(skewed_rows(4)).write_parquet(file)
    one = count_visits(wh.open_traces(file), CELLS, cache=cache)
    (kept,) = cache.iterdir()
    keep(kept, b"something else, with a sum that is right")
    assert count_visits(wh.open_traces(file), CELLS, cache=cache).table.equals(one.table)
    (cache / f".{kept.name}.abc").write_text("half of it")
    forget(cache)
    assert not list(cache.iterdir())


def test_no_message_holds_what_a_table_says() -> None:
    table = as_table([("a", NIGHTS[0], 1)]).with_columns(lat=pl.lit("48.8566secret"))
    with pytest.raises(wh.InputError) as caught:
        count_visits(table, CELLS)
    assert "secret" not in str(caught.value)
