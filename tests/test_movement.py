"""Movement models, against slow code that walks step by step and counts in dictionaries."""

from __future__ import annotations

import json
import stat
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

import strategies
import whereish as wh
from effort import examples
from whereish.profiles import SyntheticCity, regions_of
from whereish.profiles.movement import MovementModel, count_movement, load_movement, save_movement

THREE = wh.Places.from_xy([[0, 0], [1, 0], [0, 2]])
# Clocks are put forward on 30 March 2025 at 1:00 UTC, and back on 26 October.
STARTS = st.sampled_from([0, 1_743_292_800, 1_761_440_400, 1_750_000_123])
ZONES = st.sampled_from(["UTC", "Europe/Paris", "Asia/Kolkata"])


@st.composite
def hours(draw: DrawFn) -> tuple[int, ...]:
    return tuple(sorted(draw(st.sets(st.integers(0, 23), min_size=1, max_size=4))))


@st.composite
def models(draw: DrawFn, where: wh.Places = THREE) -> MovementModel:
    n, begins = len(where), draw(hours())
    rows = [[draw(strategies.priors(n)) for _ in range(n)] for _ in begins]
    start = [draw(strategies.priors(n)) for _ in begins]
    step = draw(st.sampled_from([300.0, 600.0, 3600.0]))
    return MovementModel(where, step, begins, np.array(rows), np.array(start), draw(ZONES))


def slow_period(model: MovementModel, time_s: float) -> int:
    hour = datetime.fromtimestamp(time_s, UTC).astimezone(ZoneInfo(model.zone)).hour
    begun = [k for k, begin in enumerate(model.hours) if begin <= hour]
    return begun[-1] if begun else len(model.hours) - 1


def slow_transition(model: MovementModel, start: float, end: float) -> NDArray[np.float64]:
    """One step after another, each by its own clock."""
    product, now = np.eye(len(model.places)), start
    while end - now > 1e-6:
        share = min(1.0, (end - now) / model.step_s)
        step = model.transitions[slow_period(model, now)]
        product = product @ (share * step + (1 - share) * np.eye(len(step)))
        now += model.step_s
    return product


@examples(60)
@given(models(), STARTS, st.integers(0, 30 * 3600), st.floats(0, 1))
def test_a_transition_is_the_product_of_its_steps(
    model: MovementModel, start: int, length: int, part: float
) -> None:
    at = start + part
    found = model.transition(at, at + length)
    assert np.allclose(found, slow_transition(model, at, at + length), atol=1e-9)
    assert np.allclose(found.sum(axis=1), 1)
    assert np.array_equal(model.transition(at, at), np.eye(3))


@examples(20)
@given(models())
def test_after_a_week_every_row_is_the_stationary_one(model: MovementModel) -> None:
    rows = 0.9 * model.transitions + 0.1 / 3
    mixed = MovementModel(THREE, 3600, model.hours, rows, model.initial)
    found = mixed.transition(0, (9 * 24 + 17) * 3600)
    assert np.array_equal(found[0], found[2])
    assert np.allclose(found[0], slow_transition(mixed, 0, (6 * 24 + 17) * 3600)[1], atol=1e-6)
    never = MovementModel(THREE, 600, (0,), np.eye(3)[None], np.array([[0.5, 0.5, 0]]))
    assert np.allclose(never.transition(0, 1e7), [0.5, 0.5, 0])


@examples(60)
@given(models(), st.data())
def test_reweighting_is_the_formula_and_undone_by_the_old_prior(
    model: MovementModel, data: st.DataObject
) -> None:
    own = data.draw(strategies.priors(3))
    changed = model.reweighted(own)
    least = min(share for share in model.prior if share > 0)
    for period in range(len(model.hours)):
        for x in range(3):
            row = [
                model.transitions[period, x, y] * own[y] / max(model.prior[y], least)
                for y in range(3)
            ]
            wanted = np.array(row) / sum(row) if sum(row) > 0 else own
            assert np.allclose(changed.transitions[period, x], wanted)
    assert np.allclose(changed.prior, own)
    kept = model.reweighted(own, keep_stays=True).transitions
    assert np.allclose(kept.sum(axis=2), 1)
    for period, x in np.ndindex(len(model.hours), 3):
        before = model.transitions[period, x]
        assert np.isclose(kept[period, x, x], before[x])
        go = [before[y] * own[y] / max(model.prior[y], least) * (y != x) for y in range(3)]
        if sum(go) > 1e-100:
            assert np.allclose(
                kept[period, x] * (np.arange(3) != x), np.array(go) / sum(go) * (1 - before[x])
            )
    mixed = MovementModel(
        THREE, 600, (0,), 0.5 * model.transitions[:1] + 1 / 6, 0.5 * model.initial[:1] + 1 / 6
    )
    same = mixed.reweighted(mixed.prior)
    assert np.allclose(same.transitions, mixed.transitions)


@examples(40)
@given(models(), st.floats(60, 1e6))
def test_stays_have_the_mean_that_was_asked(model: MovementModel, mean_s: float) -> None:
    stay = model.with_stays(mean_s).transitions
    wanted = max(0.0, 1 - model.step_s / mean_s)
    assert np.allclose(np.diagonal(stay, axis1=1, axis2=2), wanted)
    assert np.allclose(stay.sum(axis=2), 1)
    each = model.with_stays([mean_s, 7200, 14400]).transitions
    assert np.allclose(each[:, 1, 1], max(0, 1 - model.step_s / 7200))
    for period, x in np.ndindex(len(model.hours), 3):
        others = [y for y in range(3) if y != x]
        before, after = model.transitions[period, x, others], stay[period, x, others]
        if before.sum() > 1e-6 and wanted < 1:
            assert np.allclose(after * before.sum(), before * after.sum(), atol=1e-9)


def slow_counts(
    rows: dict[str, dict[int, int]], model: MovementModel, gap_s: float
) -> tuple[Counter[tuple[int, int, int]], Counter[tuple[int, int]]]:
    moves: Counter[tuple[int, int, int]] = Counter()
    stays: Counter[tuple[int, int]] = Counter()
    for path in rows.values():
        steps = sorted(path)
        for now, then in zip(steps, [*steps[1:], None], strict=True):
            here = path[now]
            there = None if then is None else path[then]
            if then is not None and here == there and (then - now) * model.step_s <= gap_s:
                for step in range(now, then):
                    moves[slow_period(model, step * model.step_s), here, here] += 1
                    stays[slow_period(model, step * model.step_s), here] += 1
                continue
            stays[slow_period(model, now * model.step_s), here] += 1
            if then == now + 1 and there is not None:
                moves[slow_period(model, now * model.step_s), here, there] += 1
    return moves, stays


@examples(60)
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.dictionaries(st.integers(0, 400), st.integers(0, 2), min_size=5, max_size=30),
        min_size=2,
    ),
    hours(),
    ZONES,
    st.floats(0.1, 10),
)
def test_counts_are_those_of_a_slow_count(
    rows: dict[str, dict[int, int]], begins: tuple[int, ...], zone: str, weight: float
) -> None:
    start = 2_905_000
    rows = {user: {start + k: at for k, at in path.items()} for user, path in rows.items()}
    others = {user: path for user, path in rows.items() if user != "a"}
    blank = MovementModel(
        THREE, 600, begins, np.tile(np.eye(3), (len(begins), 1, 1)),
        np.full((len(begins), 3), 1 / 3), zone,
    )  # fmt: skip
    moves, stays = slow_counts(others, blank, 36_000)
    paths = {
        user: ([k * 600 + 7 for k in path], list(path.values())) for user, path in rows.items()
    }

    def made() -> MovementModel:
        return count_movement(
            paths, THREE, 600, begins, leave_out="a", zone=zone, smoothing=weight,
            stay_gap_s=36_000,
        )  # fmt: skip

    if not moves:
        with pytest.raises(wh.InputError, match="two steps in a row"):
            made()
        return
    model = made()
    here, total = Counter[int](), sum(stays.values())
    for (_, place), count in stays.items():
        here[place] += count
    prior = [(here[y] + weight / 3) / (total + weight) for y in range(3)]
    assert np.allclose(model.prior, prior)
    stay = sum(count for (_, x, y), count in moves.items() if x == y) / sum(moves.values())
    for x in range(3):
        row = [sum(moves[p, x, y] for p in range(len(begins))) for y in range(3)]
        usual = [stay * (x == y) + (1 - stay) * prior[y] for y in range(3)]
        all_day = [(row[y] + weight * usual[y]) / (sum(row) + weight) for y in range(3)]
        for p in range(len(begins)):
            part = [moves[p, x, y] for y in range(3)]
            wanted = [(part[y] + weight * all_day[y]) / (sum(part) + weight) for y in range(3)]
            assert np.allclose(model.transitions[p, x], wanted)
            spent = sum(stays[p, y] for y in range(3))
            assert np.isclose(
                model.initial[p, x], (stays[p, x] + weight * prior[x]) / (spent + weight)
            )


def test_traces_are_counted_at_the_place_with_most_points_of_a_step() -> None:
    city = SyntheticCity(users=4, days=4, seed=5)
    table = pl.concat(city.people())
    own = wh.personal_profile(table.filter(user="001"), 8, zone=city.zone).profile
    everybody = wh.personal_profile(table.with_columns(user=pl.lit("x")), 8, zone=city.zone).profile
    at = regions_of(everybody).of(table["lat"].to_numpy(), table["lon"].to_numpy())
    points: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for user, when, place in zip(table["user"], table["time"].dt.epoch("s"), at, strict=True):
        if place >= 0 and user != "001":
            points[user, when // 600][int(place)] += 1
    rows: dict[str, dict[int, int]] = defaultdict(dict)
    for (user, step), seen in points.items():
        rows[user][step] = min(seen, key=lambda place: (-seen[place], place))
    model = count_movement(table, everybody, leave_out="001", zone=city.zone)
    paths = {user: ([k * 600 for k in path], list(path.values())) for user, path in rows.items()}
    same = count_movement(paths, everybody.places, zone=city.zone)
    assert np.array_equal(model.transitions, same.transitions)
    assert np.array_equal(model.initial, same.initial)
    assert len(own.places) == 8
    with pytest.raises(wh.InputError, match="traces of other people"):
        count_movement(table.filter(user="001"), everybody, leave_out="001")


def test_a_model_is_kept_exactly_and_for_its_owner_only(tmp_path: Path) -> None:
    where = wh.square_grid(48.85, 2.33, 48.87, 2.36, cell_km=(1.0, 1.0))
    steps = [k % len(where) for k in range(40)]
    model = count_movement([(np.arange(40) * 600, steps)], where, zone="Europe/Paris")
    save_movement(tmp_path / "me.movement.json", model)
    assert stat.S_IMODE((tmp_path / "me.movement.json").stat().st_mode) == 0o600
    again = load_movement(tmp_path / "me.movement.json")
    assert again.places.same_as(where)
    assert again.places.plane == where.plane
    for name in ("transitions", "initial", "prior"):
        assert np.array_equal(getattr(again, name), getattr(model, name))
    assert (again.hours, again.zone, again.step_s) == (model.hours, model.zone, model.step_s)
    assert not any(str(round(value, 3)) in repr(model) for value in model.prior)
    known = json.loads((tmp_path / "me.movement.json").read_text())
    for change in ({"version": 2}, {"places": 3}, {"prior": "AAAA"}, {"hours": [3, 2]}):
        (tmp_path / "bad").write_text(json.dumps(known | change))
        with pytest.raises(wh.FormatError):
            load_movement(tmp_path / "bad")
    for content in (b"", b"[1]", b"\xff", b"null"):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(wh.FormatError):
            load_movement(tmp_path / "bad")
    with pytest.raises(wh.FormatError):
        load_movement(tmp_path / "none")


def test_wrong_models_are_refused() -> None:
    good = np.tile(np.eye(3), (1, 1, 1))
    flat = np.full((1, 3), 1 / 3)
    for wrong in (
        {"hours": ()}, {"hours": (7, 7)}, {"hours": (24,)}, {"step_s": 0.5}, {"step_s": 7200},
        {"transitions": good * 2}, {"initial": flat * 0.9},
    ):  # fmt: skip
        known: dict[str, Any] = {
            "step_s": 600, "hours": (0,), "transitions": good, "initial": flat, **wrong
        }  # fmt: skip
        with pytest.raises(wh.InputError):
            MovementModel(THREE, **known)
    model = MovementModel(THREE, 600, (0,), good, flat)
    with pytest.raises(wh.InputError, match="before"):
        model.transition(10, 5)
    with pytest.raises(wh.InputError, match="from 0 to 2"):
        count_movement([([0, 600], [0, 3])], THREE)
    with pytest.raises(wh.InputError, match="positive"):
        model.with_stays(0)
