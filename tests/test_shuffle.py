"""The order of the rows of an obfuscated table: shuffled, or sorted by time with shuffled ties."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, spearmanr

import whereish as wh
from strategies import city_points
from whereish.device import shuffle as shuffling
from whereish.device.shuffle import RowBuffer, permutation, shuffle_ties

CITY = wh.embedded_city()
MECHANISM = wh.exponential(CITY.places, 2.0)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("held", [1 << 27, 20_000])
def test_the_order_of_rows_tells_nothing(
    tmp_path: Path, side: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table sorted by latitude (or longitude): the row number does not go with it any more."""
    monkeypatch.setattr(shuffling.RowBuffer.__init__, "__defaults__", (held,))
    rows = 20_000
    at = city_points(rows)
    at = at[np.argsort(at[:, side])]
    frame = pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "row": range(rows)})
    source, out = tmp_path / "in.csv", tmp_path / "out.parquet"
    frame.write_csv(source)
    made = wh.obfuscate_table(MECHANISM, source, out, keep_anyway=["row"])
    assert made.order == "shuffled"
    after = pl.read_parquet(out)["row"].cast(pl.Int64).to_numpy()
    assert sorted(after.tolist()) == list(range(rows))
    # Its standard deviation is 1 / sqrt(rows): this is seven of them.
    assert abs(spearmanr(np.arange(rows), after).statistic) < 0.05
    assert abs(spearmanr(after[:-1], after[1:]).statistic) < 0.05
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_rows_stay_in_order_where_that_was_asked_for(tmp_path: Path) -> None:
    at = city_points(500)
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "n": range(500)}).write_csv(source)
    made = wh.obfuscate_table(MECHANISM, source, out, keep=["n"], shuffle=False)
    assert made.order == "unchanged"
    assert pl.read_csv(out)["n"].to_list() == list(range(500))


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_table_sorted_by_time_stays_so_and_equal_times_do_not(tmp_path: Path, kind: str) -> None:
    rows = 3000
    at = city_points(rows)
    times = np.arange(rows) // 100 + 95  # as text, 95 comes after 100
    at[:100] = at[:100][np.argsort(at[:100, 0])]
    frame = pl.DataFrame({"lat": at[:, 0], "lon": at[:, 1], "t": times, "n": range(rows)})
    source, out = tmp_path / f"in{kind}", tmp_path / "out.parquet"
    frame.write_csv(source) if kind == ".csv" else frame.write_parquet(source)
    made = wh.obfuscate_table(MECHANISM, source, out, time="t", keep_anyway=["n"])
    after = pl.read_parquet(out).cast({"t": pl.Int64, "n": pl.Int64})
    assert made.order == "time"
    assert after["t"].to_list() == times.tolist()
    assert after["n"].to_list() != frame["n"].to_list()
    assert after.select("t", "n").sort("n").equals(frame.select("t", "n").cast(pl.Int64))
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    shuffled.write_csv(source) if kind == ".csv" else shuffled.write_parquet(source)
    made = wh.obfuscate_table(MECHANISM, source, out, time="t", keep_anyway=["n"])
    assert made.order == "shuffled"


@given(
    runs=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
def test_ties_are_shuffled_within_their_run_wherever_batches_end(
    runs: list[int], cuts: list[int]
) -> None:
    times = [run for run, length in enumerate(runs) for _ in range(length)]
    frame = pl.DataFrame({"t": times, "n": range(len(times))})
    pieces, start, turn = [], 0, 0
    while start < len(frame):
        pieces.append(frame[start : start + cuts[turn % len(cuts)]])
        start, turn = start + cuts[turn % len(cuts)], turn + 1
    after = pl.concat(list(shuffle_ties(iter(pieces), "t")))
    assert after["t"].to_list() == times
    assert after.sort("n").equals(frame)


@pytest.mark.parametrize("held", [1 << 27, 10])
@pytest.mark.slow
def test_every_order_is_equally_likely(tmp_path: Path, held: int) -> None:
    """All 24 orders of four rows come equally often, in memory and in parts on the disk."""
    draws = 1200
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        buffer = RowBuffer(tmp_path / "t", 40, True, held)
        for row in range(4):
            buffer.add(pl.DataFrame({"n": [row]}))
        order = tuple(pl.concat(list(buffer.frames()))["n"].to_list())
        buffer.close()
        seen[order] = seen.get(order, 0) + 1
    assert set(map(len, seen)) == {4}
    counts = np.array([*seen.values(), *[0] * (24 - len(seen))])
    statistic = float(((counts - draws / 24) ** 2 / (draws / 24)).sum())
    assert chi2.sf(statistic, 23) > 1e-9
    assert list(tmp_path.iterdir()) == []


def test_the_order_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.urandom

    def spied(size: int) -> bytes:
        asked.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", spied)
    assert permutation(1000).tolist() != permutation(1000).tolist()
    assert sum(asked) >= 16_000
