"""Tables of traces with a policy over time: budgets recounted by other code, and refusals."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from test_tracker import Walk
from whereish.cli import app
from whereish.device import tables
from whereish.device.policies import TracePolicy
from whereish.device.trace_rows import OverTime, TraceObfuscator, rounds

PLACES = some.grid(4, 3)
MECHANISM = wh.exponential(PLACES, 1.1)
DAY = 86400


def write_traces(path: Path, people: int = 7, rows: int = 900, seed: int = 0) -> pl.DataFrame:
    """Write people who stay for a while and then move, over three days, in the order of time."""
    rng = np.random.default_rng(seed)
    who = rng.choice(people, rows, p=rng.dirichlet(np.full(people, 0.7)))
    when = np.sort(rng.integers(0, 3 * DAY, rows)) + 1_000_000 * 86400 // DAY * DAY
    place = rng.integers(0, len(PLACES), people)
    points = np.empty((rows, 2))
    for k, person in enumerate(who):
        if rng.random() < 0.2:
            place[person] = rng.integers(0, len(PLACES))
        points[k] = PLACES.xy[place[person]] + rng.uniform(-0.1, 0.1, 2)
    table = pl.DataFrame(
        {
            "row": np.arange(rows),
            "user": [f"p{person}" for person in who],
            "time": when,
            "x_km": points[:, 0],
            "y_km": points[:, 1],
            "speed": points[:, 0] * 3 + 1,
        }
    )
    table.write_parquet(path) if path.suffix == ".parquet" else table.write_csv(path)
    return table


def nearest(table: pl.DataFrame) -> list[int]:
    points = table.select("x_km", "y_km").to_numpy()
    return [int(np.square(PLACES.xy - point).sum(axis=1).argmin()) for point in points]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BATCH", 97)


def obfuscated(folder: Path, over_time: OverTime, **more: Any) -> tuple[Any, pl.DataFrame]:
    out = folder / "out.parquet"
    made = wh.obfuscate_table(
        MECHANISM, folder / "in.parquet", out, user="user", time="time", keep_anyway=["row"],
        over_time=over_time, **more,
    )  # fmt: skip
    return made, pl.read_parquet(out)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rate", [None, 1800.0])
@pytest.mark.parametrize("modelled", [False, True])
def test_predictive_budgets_by_an_independent_recount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rate: float | None, modelled: bool
) -> None:
    table = write_traces(tmp_path / "in.parquet", seed=seed)
    log: list[tuple[int, int, bool, int]] = []
    real = TracePolicy.take

    def take(self: Any, runs: Any, who: Any, at: Any, times: Any, rng: Any = None) -> Any:
        taken = real(self, runs, who, at, times, rng)
        log.extend(zip(who.tolist(), times.tolist(), taken.fresh.tolist(), taken.outputs.tolist(),
                       strict=True))  # fmt: skip
        return taken

    monkeypatch.setattr(TracePolicy, "take", take)
    model = Walk(PLACES, some.skewed(12) + 0.01) if modelled else None
    made, out = obfuscated(tmp_path, OverTime("predictive", 4, rate=rate, model=model))
    test = Fraction(repr(wh.BudgetManager.for_draw(1.1).epsilon_test))
    draw = Fraction("1.1")
    # By other code: person by person and row by row, in rational numbers.
    names = list(dict.fromkeys(table["user"].to_list()))
    steps = {(person, time): fresh for person, time, fresh, _ in log}
    spent: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
    begun: dict[str, float] = {}
    published = set(out["row"].to_list())
    draws = tests = left_out = 0
    for row, user, time in table.select("row", "user", "time").iter_rows():
        day = time // DAY
        if user in begun and rate is not None and time - begun[user] < rate:
            assert row in published  # repeated
            continue
        reserve = draw + (test if user in begun else 0)
        if spent[user, day] + reserve > 4 * draw:
            assert row not in published
            assert (names.index(user), time) not in steps
            left_out += 1
            continue
        assert row in published
        fresh = steps[names.index(user), time]
        spent[user, day] += (test if user in begun else 0) + (draw if fresh else 0)
        tests, draws = tests + (user in begun), draws + fresh
        begun[user] = time
    totals = made.over_time
    assert len(set(steps)) == len(log) == tests + len(begun)
    assert max(spent.values()) <= 4 * draw
    assert (totals.tests, totals.draws, totals.left_out) == (tests, draws, left_out)
    assert totals.published == len(out) == len(table) - left_out
    assert left_out > 0
    assert totals.most_spent == pytest.approx(float(max(spent.values())), rel=1e-9)
    assert totals.over_budget == 0
    assert totals.most_spent_per_stay <= totals.most_spent <= totals.budget


@pytest.mark.parametrize("seed", range(3))
def test_sticky_budgets_by_an_independent_recount(tmp_path: Path, seed: int) -> None:
    table = write_traces(tmp_path / "in.parquet", seed=seed)
    made, out = obfuscated(tmp_path, OverTime("sticky", 3))
    reports = {row: (x, y) for row, x, y in out.select("row", "x_km", "y_km").iter_rows()}
    known: dict[tuple[str, int], dict[int, Any]] = defaultdict(dict)
    for (row, user, time), place in zip(
        table.select("row", "user", "time").iter_rows(), nearest(table), strict=True
    ):
        today = known[user, time // DAY]
        if place in today:
            assert reports[row] == today[place]
        elif len(today) == 3:
            assert row not in reports
        else:
            today[place] = reports[row]
    assert made.over_time.draws == sum(map(len, known.values()))
    assert made.over_time.most_spent == pytest.approx(3.3)
    assert made.over_time.most_spent_per_stay == pytest.approx(1.1)


def test_sporadic_reports_depend_on_the_clock_alone(tmp_path: Path) -> None:
    """Draws and repetitions are at the same rows, wherever the people are."""
    table = write_traces(tmp_path / "in.parquet")
    asked = OverTime("sporadic", 5, rate=3600.0)
    made, out = obfuscated(tmp_path, asked)
    table.with_columns(x_km=pl.lit(0.1), y_km=pl.lit(0.1)).write_parquet(tmp_path / "in.parquet")
    again, other = obfuscated(tmp_path, asked)
    assert set(out["row"]) == set(other["row"])
    assert made.over_time.draws == again.over_time.draws
    assert made.over_time.left_out == again.over_time.left_out > 0


def test_filtered_reports_follow_from_the_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same draws give the same reports, whatever the points were."""
    table = write_traces(tmp_path / "in.parquet")
    asked = OverTime(
        "filtered", 30, rate=1800.0, model=Walk(PLACES, some.skewed(12) + 0.01, stay=0.97)
    )
    # Seeded draws that do not depend on the place: what is left is the filter.
    monkeypatch.setattr(
        wh.Mechanism, "sample",
        lambda self, at, **more: type("R", (), {"outputs": np.arange(len(at)) % 12})(),
    )  # fmt: skip
    _, out = obfuscated(tmp_path, asked)
    moved = table.with_columns(x_km=pl.lit(0.1), y_km=pl.lit(0.1))
    moved.write_parquet(tmp_path / "in.parquet")
    _, other = obfuscated(tmp_path, asked)
    assert out.sort("row").equals(other.sort("row"))
    assert out.select("x_km", "y_km").n_unique() > 1


def test_beyond_the_budget_only_if_asked(tmp_path: Path) -> None:
    table = write_traces(tmp_path / "in.parquet")
    made, out = obfuscated(tmp_path, OverTime("predictive", 2, exceed=True))
    assert len(out) == len(table)
    assert made.over_time.over_budget > 0
    assert made.over_time.most_spent > made.over_time.budget


def test_the_state_does_not_depend_on_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_traces(tmp_path / "in.parquet")
    monkeypatch.setattr(
        wh.Mechanism, "sample",
        lambda self, at, **more: type("R", (), {"outputs": np.asarray(at)})(),
    )  # fmt: skip
    found = []
    for size in (13, 100_000):
        monkeypatch.setattr(tables, "_BATCH", size)
        made, out = obfuscated(tmp_path, OverTime("sporadic", 5, rate=900.0), shuffle=False)
        found.append((made.over_time, out["row"].to_list(), out["x_km"].to_list()))
    assert found[0][1:] == found[1][1:]
    assert found[0][0].mean_error_km == pytest.approx(found[1][0].mean_error_km)


def test_only_what_is_declared_is_kept_and_times_can_be_rounded(tmp_path: Path) -> None:
    table = write_traces(tmp_path / "in.parquet")
    made, out = obfuscated(tmp_path, OverTime("sporadic", 50, rate=600.0), round_times=3600.0)
    assert set(out.columns) == {"row", "user", "time", "x_km", "y_km"}
    assert "speed" in made.left_out
    by_row = dict(zip(table["row"], table["time"], strict=True))
    assert all(time == by_row[row] // 3600 * 3600 for row, time in out.select("row", "time").rows())
    # A time that is only read is not written.
    wh.obfuscate_table(
        MECHANISM, tmp_path / "in.parquet", tmp_path / "out.parquet",
        over_time=OverTime("sporadic", 50, rate=600.0),
    )  # fmt: skip
    assert pl.read_parquet(tmp_path / "out.parquet").columns == ["x_km", "y_km"]


@pytest.mark.parametrize("kind", ["text", "datetime", "zoned", "milliseconds"])
def test_times_in_every_form_are_rounded_in_their_form(tmp_path: Path, kind: str) -> None:
    table = write_traces(tmp_path / "in.parquet", rows=60)
    moments = pl.from_epoch("time")
    table = table.with_columns(
        {
            "text": moments.dt.strftime("%Y-%m-%d %H:%M:%S"),
            "datetime": moments,
            "zoned": moments.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
            "milliseconds": pl.col("time") * 1000,
        }[kind].alias("time")
    )
    table.write_parquet(tmp_path / "in.parquet")
    _, out = obfuscated(tmp_path, OverTime("sporadic", 50, rate=60.0), round_times=3600.0)
    times = out["time"]
    assert times.dtype == table["time"].dtype
    if kind == "text":
        assert times.str.ends_with(":00:00Z").all()
    elif kind == "milliseconds":
        assert (times % 3_600_000 == 0).all()
    else:
        assert (times.dt.minute() == 0).all()


def test_rows_that_go_back_in_time_are_refused(tmp_path: Path) -> None:
    table = write_traces(tmp_path / "in.parquet")
    for wrong, message in (
        (table.reverse(), "in the order of time"),
        (table.with_columns(pl.when(pl.col("row") == 5).then(None).otherwise("time").alias("time")),
         "a time in every row"),
        (table.drop("time"), "column of times"),
    ):  # fmt: skip
        wrong.write_parquet(tmp_path / "in.parquet")
        with pytest.raises(wh.InputError, match=message):
            wh.obfuscate_table(
                MECHANISM, tmp_path / "in.parquet", tmp_path / "o.parquet", user="user",
                over_time=OverTime("predictive", 3),
            )  # fmt: skip
        assert not (tmp_path / "o.parquet").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "bold", "new_places": 3},
        {"policy": "predictive"},
        {"policy": "predictive", "new_places": 3, "budget": 3.0},
        {"policy": "sticky", "new_places": 3, "rate": 5.0},
        {"policy": "predictive", "new_places": 3, "period": "year"},
    ],
)
def test_misuse_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(wh.InputError):
        OverTime(**wrong)


def test_people_without_a_name_are_one_person(tmp_path: Path) -> None:
    table = write_traces(tmp_path / "in.parquet", rows=200)
    table.with_columns(user=pl.lit(None, dtype=pl.String)).write_parquet(tmp_path / "in.parquet")
    made, _ = obfuscated(tmp_path, OverTime("predictive", 3))
    assert made.over_time.people == 1


def test_a_mechanism_for_all_points(tmp_path: Path) -> None:
    write_traces(tmp_path / "in.parquet", rows=120)
    noise = wh.planar_laplace_everywhere(PLACES.xy, None, 2.0)
    made = wh.obfuscate_table(
        noise, tmp_path / "in.parquet", tmp_path / "out.parquet", user="user", time="time",
        over_time=OverTime("predictive", 4),
    )  # fmt: skip
    assert made.over_time is not None
    assert made.over_time.tests > 0
    assert 0 < made.over_time.most_spent <= 8.0


def test_rounds_take_each_person_once() -> None:
    rng = np.random.default_rng(4)
    who = rng.integers(0, 5, 100)
    seen: list[int] = []
    for rows in rounds(who):
        assert len(set(who[rows].tolist())) == len(rows)
        seen += rows.tolist()
    for person in range(5):
        mine = [row for row in seen if who[row] == person]
        assert mine == sorted(mine)
    assert sorted(seen) == list(range(100))
    assert list(rounds(np.zeros(0, np.int64))) == []


def test_a_plant_that_forgets_periods_is_seen_in_the_recount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the budget is given back in every batch. The reports of a day go over it."""
    write_traces(tmp_path / "in.parquet", people=1)
    real = TraceObfuscator._obfuscate

    def refunding(self: TraceObfuscator, frame: Any) -> Any:
        self._budgets._used[:] = 0
        return real(self, frame)

    monkeypatch.setattr(TraceObfuscator, "_obfuscate", refunding)
    made, _ = obfuscated(tmp_path, OverTime("predictive", 2))
    assert made.over_time.most_spent_by_person > 3 * made.over_time.budget  # of three days


def test_the_command(tmp_path: Path) -> None:
    table = write_traces(tmp_path / "in.csv")
    wh.save_mechanism(tmp_path / "k.whereish", MECHANISM)
    words = ["obfuscate", tmp_path / "k.whereish", tmp_path / "in.csv", "-o", tmp_path / "out.csv"]
    words += ["--user", "user", "--time", "time", "--policy", "predictive"]
    words += ["--budget", "4 places a day", "--round-times", "1h", "--json"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    spent = json.loads(done.stdout)["over_time"]
    assert spent["budget"] == pytest.approx(4.4)
    assert spent["published"] + spent["left_out"] == len(table)
    for part in ("Spent by one person in a day", "one stay", "Left out, because", "Mean error"):
        assert part in done.stderr
    assert "speed" not in (tmp_path / "out.csv").read_text()
    for wrong in (
        ["--budget", "4 places a day"],
        ["--policy", "filtered", "--rate", "30min"],
        ["--policy", "predictive", "--rate", "often"],
        ["--policy", "predictive"],
    ):
        refused = CliRunner().invoke(app, [str(word) for word in [*words[:9], *wrong]])
        assert refused.exit_code == 2, wrong
        assert refused.stderr.strip().splitlines()[-1].startswith("whereish: ")


@pytest.mark.parametrize("modelled", [False, True])
def test_tapered_budgets_by_an_independent_recount(tmp_path: Path, modelled: bool) -> None:
    """Person by person, the draws of a day have the prices of their numbers, and no other."""
    later = tuple(wh.exponential(PLACES, epsilon) for epsilon in (0.73, 0.301))
    table = write_traces(tmp_path / "in.parquet", seed=5)
    over_time = OverTime(
        "filtered" if modelled else "sporadic", budget=2.45, rate=1800.0, later=later,
        model=Walk(PLACES, some.skewed(12) + 0.01) if modelled else None,
    )  # fmt: skip
    made, out = obfuscated(tmp_path, over_time)
    published, left_out = set(out["row"].to_list()), 0
    begun: dict[str, float] = {}
    days: dict[tuple[str, int], list[Fraction]] = defaultdict(list)
    for row, user, time in table.select("row", "user", "time").iter_rows():
        if user in begun and time - begun[user] < 1800:
            assert row in published  # repeated
            continue
        today = days[user, time // DAY]
        price = Fraction(("1.1", "0.73", "0.301")[min(len(today), 2)])
        if sum(today) + price > Fraction("2.45"):
            assert row not in published
            left_out += 1
            continue
        assert row in published
        today.append(price)
        begun[user] = time
    totals = made.over_time
    assert (totals.draws, totals.left_out) == (sum(map(len, days.values())), left_out)
    assert totals.most_spent == pytest.approx(float(max(map(sum, days.values()))), rel=1e-12)
    assert totals.most_spent <= totals.budget
    assert left_out > 0


def test_a_budget_of_tapered_draws_is_exactly_these_draws(tmp_path: Path) -> None:
    """1.1 + 0.73 + 0.301 in decimals; in doubles the sum is a little less or more."""
    later = tuple(wh.exponential(PLACES, epsilon) for epsilon in (0.73, 0.301))
    write_traces(tmp_path / "in.parquet", people=2)
    made, _ = obfuscated(tmp_path, OverTime("sporadic", 3, rate=60.0, later=later))
    assert made.over_time.draws == 3 * made.over_time.periods
    assert made.over_time.most_spent == made.over_time.budget == 2.131
    digits = (wh.exponential(PLACES, 1.2345678901234567),)
    with pytest.raises(wh.InputError, match="fewer digits"):
        obfuscated(tmp_path, OverTime("sporadic", rate=60.0, later=digits))
