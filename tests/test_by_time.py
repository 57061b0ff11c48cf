"""Mechanisms by time: the definition at every time, the choice by the clock, and profiles."""

from __future__ import annotations

import pickle
import stat
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies as some
import whereish as wh
from checks import broken_counts, counted_loss
from effort import examples
from forgeries import TOTAL
from whereish.profiles import prior_by_time

PERIODS = wh.DayPeriods((0, 7, 18), "Europe/Paris")


@cache
def person() -> tuple[wh.Places, wh.TimeDependentPrior]:
    places = wh.square_grid(48.85, 2.33, 48.87, 2.36, cell_km=(0.8, 0.8))
    priors = [some.skewed(len(places), seed) for seed in (1, 2, 3)]
    return places, wh.TimeDependentPrior.of(priors, PERIODS, [0.2, 0.5, 0.3])


@cache
def by_time() -> wh.MechanismByTime:
    places, prior = person()
    made = [wh.optimal(places, own, 1.07, solver="structured") for own in prior.priors]
    return wh.MechanismByTime(tuple(made), PERIODS)  # with proofs, which HiGHS does not give


def hour_of(time: float, zone: str) -> int:
    return datetime.fromtimestamp(time, UTC).astimezone(ZoneInfo(zone)).hour


# The clock


@given(
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=5),
    zone=st.sampled_from(["UTC", "Europe/Paris", "Asia/Kathmandu", "Australia/Lord_Howe"]),
    times=st.lists(st.floats(0, 4e9), min_size=1, max_size=20),
)
def test_the_period_of_a_time_is_that_of_its_hour(
    hours: set[int], zone: str, times: list[float]
) -> None:
    periods = wh.DayPeriods(tuple(sorted(hours)), zone)
    for time, number in zip(times, periods.numbers_at(times).tolist(), strict=True):
        begun = [hour for hour in periods.hours if hour <= hour_of(time, zone)]
        expected = periods.hours.index(max(begun)) if begun else len(periods) - 1
        assert number == periods.number_at(time) == expected
    assert np.isclose(periods.lengths.sum(), 1)
    assert periods.names[-1].endswith(f"-{periods.hours[0] or 24}")


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e15, "noon", None, [[1.0], [2.0]]])
def test_times_that_are_none_are_refused(time: Any) -> None:
    with pytest.raises(wh.InputError):
        by_time().sample(0, time=time)


@pytest.mark.parametrize("hours", [(), (7, 7), (18, 7), (0, 24), (-1,), (0.5,), "7", None])
def test_hours_that_are_none_are_refused(hours: Any) -> None:
    with pytest.raises(wh.InputError, match="hours must be"):
        wh.DayPeriods(hours)


# The mechanism


@given(data=st.data(), epsilon=some.EPSILONS)
@examples(12)
def test_every_report_is_private_at_every_time(data: Any, epsilon: float) -> None:
    places, first = data.draw(some.profiles(2, 5))
    prior = wh.TimeDependentPrior.of([first, data.draw(some.priors(len(places)))], DAY_AND_NIGHT)
    made = wh.optimal_by_time(places, prior, epsilon, threads=1)
    for time in (0.0, 50_000.0):
        counts = made.at(time).counts.tolist()
        assert broken_counts(counts, made.epsilon, places.xy.tolist()) == []
    loss = wh.euclidean(places).tolist()
    slow = sum(
        counted_loss(member.counts.tolist(), row, loss)
        for member, row in zip(made.mechanisms, prior.joint.tolist(), strict=True)
    )
    assert wh.quality_loss_by_time(made, prior) == pytest.approx(slow, rel=1e-6, abs=1e-9)
    # A mechanism for each period loses no more than one for the whole day, under its own prior.
    one = wh.optimal(places, prior.prior, epsilon)
    assert wh.quality_loss_by_time(made, prior) <= wh.quality_loss(one, prior.prior) + 1e-5


DAY_AND_NIGHT = wh.DayPeriods((0, 12))


def test_the_clock_chooses_and_nothing_else() -> None:
    made = by_time()
    assert made.at(0.0) is made.mechanisms[0]  # one o'clock in Paris
    assert made.at(12 * 3600.0) is made.mechanisms[1]
    assert made.at(18 * 3600.0) is made.mechanisms[2]
    assert [made.epsilon, made.epsilon_unit] == [1.07, "per km"]
    n = len(made.inputs)
    for time, member in ((0.0, 0), (12 * 3600.0, 1), (18 * 3600.0, 2)):
        seeded = [np.random.default_rng(4) for _ in range(2)]
        drawn = made.sample(np.arange(n), time=time, rng=seeded[0])
        assert (
            drawn.outputs == made.mechanisms[member].sample(np.arange(n), rng=seeded[1]).outputs
        ).all()


def test_many_locations_at_many_times_are_drawn_each_at_its_time() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0], [5, 0]])
    sure = [wh.Mechanism.of_counts(_always(z), places, places, 1.0) for z in (0, 2)]
    made = wh.MechanismByTime(tuple(sure), DAY_AND_NIGHT)
    times = np.array([0.0, 50_000, 10, 60_000])
    assert made.sample([0, 1, 2, 0], time=times).outputs.tolist() == [0, 2, 0, 2]
    points = np.array([[0.1, 0], [1.1, 0], [4.9, 0], [0, 0.1]])
    drawn = made.sample(points, time=times)
    assert drawn.outputs.tolist() == [0, 2, 0, 2]
    assert drawn.xy[:, 0].tolist() == [0, 5, 0, 5]
    assert made.sample((0.1, 0.0), time=[50_000.0]).outputs.tolist() == [2]
    with pytest.raises(wh.InputError, match="time must be one for each location"):
        made.sample([0, 1], time=[1.0, 2.0, 3.0])


def _always(z: int) -> Any:
    counts = np.zeros((3, 3), np.uint64)
    counts[:, z] = TOTAL
    return counts


def test_members_must_be_alike() -> None:
    places, prior = person()
    made = by_time()
    moved = wh.Places.from_latlon(np.asarray(places.latlon) + 0.001)
    others = {
        "the same epsilon": wh.exponential(places, 1.08),
        "the same inputs": wh.exponential(moved, 1.07),
        "the same metric": wh.exponential(places, 1.07, wh.discrete(len(places))),
        "the same outputs": wh.optimal(places, prior.prior, 1.07, outputs=[0, 1]),
        "have an epsilon": wh.Mechanism(np.eye(len(places)), places, places),
        "between places": wh.planar_laplace_everywhere(places, prior.prior, 1.07),
    }
    for words, other in others.items():
        members: Any = (*made.mechanisms[:2], other)
        with pytest.raises(wh.InputError, match=words):
            wh.MechanismByTime(members, PERIODS)
    with pytest.raises(wh.InputError, match="one for each of 3 periods"):
        wh.MechanismByTime(made.mechanisms[:2], PERIODS)


def test_it_is_frozen_and_says_nothing_of_a_person() -> None:
    made, (_, prior) = by_time(), person()
    with pytest.raises((AttributeError, TypeError)):
        made.periods = PERIODS  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        prior.joint[0, 0] = 1
    again = pickle.loads(pickle.dumps(made))
    assert (again.mechanisms[1].counts == made.mechanisms[1].counts).all()
    assert again.identity() == made.identity()
    assert "0." not in repr(prior)
    assert "joint" not in repr(prior)


def test_measures_and_attacks_of_one_mechanism_say_what_to_take() -> None:
    made, (_, prior) = by_time(), person()
    for measure in (wh.quality_loss, wh.adversary_error):
        with pytest.raises(wh.InputError, match=r"\.at\(time\)"):
            measure(made, prior.prior)  # type: ignore[arg-type]
    with pytest.raises(wh.InputError, match="an attack needs one mechanism"):
        wh.attacks.likelihoods(made)  # type: ignore[arg-type]


# The prior of a profile


@given(
    visits=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 23)), min_size=1, max_size=30),
    smoothing=st.sampled_from([0.0, 5.0, 200.0]),
)
def test_priors_are_shares_of_visits_in_each_period(
    visits: list[tuple[int, int]], smoothing: float
) -> None:
    at, clock = (np.array(part) for part in zip(*visits, strict=True))
    found = prior_by_time(at, clock, 4, wh.DayPeriods((6, 20)), smoothing)
    share = smoothing / (len(visits) + smoothing)
    whole = [sum(a == x for a, _ in visits) / len(visits) for x in range(4)]
    for p, by_day in enumerate([True, False]):
        own = [a for a, hour in visits if (6 <= hour < 20) == by_day]
        assert found.weights[p] == pytest.approx(len(own) / len(visits))
        for x in range(4):
            seen = own.count(x) / len(own) if own else whole[x]
            assert found.priors[p, x] == pytest.approx((1 - share) * seen + share * whole[x])
    assert found.prior == pytest.approx(whole)


def traces() -> pl.DataFrame:
    """A person at home until 8 and from 18 on, at work in between, in Paris."""
    start = int(datetime(2026, 3, 2, tzinfo=ZoneInfo("Europe/Paris")).timestamp())
    times = start + 900 * np.arange(96 * 10)
    clock = np.array([hour_of(time, "Europe/Paris") for time in times.tolist()])
    work = (clock >= 8) & (clock < 18)
    return pl.DataFrame(
        {
            "user": ["a"] * len(times),
            "time": pl.Series(times * 1_000_000).cast(pl.Datetime("us", "UTC")),
            "lat": np.where(work, 48.87, 48.85),
            "lon": np.where(work, 2.36, 2.33),
        }
    )


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "geojson"])
def test_a_profile_keeps_the_priors_of_its_periods(tmp_path: Path, kind: str) -> None:
    made = wh.personal_profile(traces(), 6, zone="Europe/Paris", hours=(0, 8, 18)).profile
    assert made.by_time is not None
    assert made.by_time.weights == pytest.approx([8 / 24, 10 / 24, 6 / 24])
    assert made.by_time.prior == pytest.approx(made.prior)
    assert made.by_time.priors[1].argmax() != made.by_time.priors[0].argmax()
    file = tmp_path / f"me.{kind}"
    wh.write_profile(file, made)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read = wh.read_profile(file)
    assert read.by_time is not None
    assert read.by_time.periods == wh.DayPeriods((0, 8, 18), "Europe/Paris")
    assert (read.by_time.joint == made.by_time.joint).all()
    other = wh.personal_profile(
        traces(), on=read, zone="Europe/Paris", hours=(0, 8, 18)
    ).profile.by_time
    assert other is not None
    assert other.joint == pytest.approx(made.by_time.joint)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop("time_zone"), "time_zone must name the same time zone"),
        (lambda t: t.with_columns(time_zone=pl.Series(["UTC", *["Asia/Tokyo"] * 5])), "time_zone"),
        (lambda t: t.with_columns(time_zone=pl.lit("Mars/Base")), "name of a time zone"),
        (lambda t: t.with_columns(prior_00h=pl.col("prior_00h") * 1.01), "joint must sum to 1"),
        (lambda t: t.with_columns(prior_00h=pl.lit("x")), "prior_00h must be a number"),
        (lambda t: t.with_columns(prior_00h="prior_08h", prior_08h="prior_00h"), None),
        (lambda t: t.with_columns(prior_08h=pl.col("prior_08h").reverse()), "add up to the prior"),
    ],
)
def test_damaged_columns_are_refused(tmp_path: Path, change: Any, words: str | None) -> None:
    made = wh.personal_profile(traces(), 6, zone="Europe/Paris", hours=(0, 8)).profile
    wh.write_profile(tmp_path / "me.csv", made)
    change(pl.read_csv(tmp_path / "me.csv")).write_csv(tmp_path / "other.csv")
    if words is None:
        wh.read_profile(tmp_path / "other.csv")
        return
    with pytest.raises(wh.InputError, match=words) as wrong:
        wh.read_profile(tmp_path / "other.csv")
    assert "0." not in str(wrong.value).replace(str(tmp_path), "")


def test_periods_need_times_and_the_whole_day() -> None:
    with pytest.raises(wh.InputError, match="needs points with times"):
        wh.personal_profile(traces(), 6, hours=(0, 8), count="points")
    with pytest.raises(wh.InputError, match="hours must be left out with a period"):
        wh.personal_profile(traces(), 6, hours=(0, 8), period="night")
