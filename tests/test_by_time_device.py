"""Mechanisms by time on a device and on the command line: the time of a report chooses."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import checks
import whereish as wh
from forgeries import TOTAL
from runs import Ask, SimpleLedger, violations
from test_by_time import traces
from whereish.cli import app
from whereish.device.trace_rows import OverTime

PLACES = wh.Places.from_xy([[0.0, 0.0], [1.0, 0.2], [0.3, 1.4]])
PERIODS = wh.DayPeriods((0, 12))
NIGHT, NOON = 3600.0, 50_000.0
# Far apart in what they report, so that a wrong choice shows.
PRIOR = wh.TimeDependentPrior.of([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]], PERIODS)
MECHANISM = wh.optimal_by_time(PLACES, PRIOR, 0.8)


def certain() -> wh.MechanismByTime:
    """Reports the first place at night and the last by day, wherever somebody is."""
    members = []
    for z in (0, 2):
        counts = np.zeros((3, 3), np.uint64)
        counts[:, z] = TOTAL
        members.append(wh.Mechanism.of_counts(counts, PLACES, PLACES, 0.8))
    return wh.MechanismByTime(tuple(members), PERIODS)


class Walk:
    """A movement model as small as can be."""

    places = PLACES

    def initial_at(self, time_s: float) -> Any:
        return np.full(3, 1 / 3)

    def transition(self, start_s: float, end_s: float) -> Any:
        return 0.8 * np.eye(3) + 0.2 / 3


def tracked(folder: Path, policy: str) -> tuple[wh.Tracker, Callable[[], Ask]]:
    made = wh.Tracker(
        MECHANISM, folder / "ledger", policy, 5.0, rate=100.0 if policy == "sporadic" else None,
        model=Walk() if policy == "filtered" else None,
    )  # fmt: skip

    def begin() -> Ask:
        made.ledger = SimpleLedger(Fraction(5))  # type: ignore[assignment]
        return made.report

    return made, begin


def apart(x: int, y: int) -> Fraction:
    xy = PLACES.xy.tolist()
    return checks.distance_lower(xy[x], xy[y])


def wrong_runs(patch: pytest.MonkeyPatch, begin: Callable[[], Ask]) -> list[str]:
    paths = list(itertools.product(range(3), repeat=2))
    found = violations(patch, begin, paths, (NIGHT, NOON), apart, Fraction(5))
    return list(itertools.islice(found, 1))


@pytest.mark.parametrize("policy", ["predictive", "sporadic", "filtered"])
def test_what_is_spent_bounds_what_is_revealed_over_a_change_of_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """All runs of all traces, in exact arithmetic, with a report in each period."""
    assert wrong_runs(monkeypatch, tracked(tmp_path, policy)[1]) == []


@pytest.mark.parametrize("policy", ["predictive", "sporadic", "filtered"])
def test_a_choice_by_location_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """Planted: the mechanism of the period in which somebody is usually there."""

    def peeking(mechanism: Any, at: Any, times: Any, rng: Any = None, **more: Any) -> Any:
        member = int(PRIOR.joint[:, int(np.ravel(at)[0])].argmax())
        return mechanism.mechanisms[member].sample(at, rng=rng)

    monkeypatch.setattr("whereish.device.policies.draw_at", peeking)
    assert wrong_runs(monkeypatch, tracked(tmp_path, policy)[1])


def test_a_member_with_a_larger_epsilon_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted behind the checks of the constructor: the enumeration finds it as well."""
    made, begin = tracked(tmp_path, "sporadic")
    worse = wh.exponential(PLACES, 1.6)
    forged = object.__new__(wh.MechanismByTime)
    forged.__dict__.update(MECHANISM.__dict__, mechanisms=(MECHANISM.mechanisms[0], worse))
    assert made._policy is not None
    made._policy.schedule = replace(made._policy.schedule, mechanisms=(forged,))
    assert wrong_runs(monkeypatch, begin)


def test_a_reporter_draws_by_its_clock_and_repeats(tmp_path: Path) -> None:
    now = [NIGHT]
    reporter = wh.Reporter(certain(), tmp_path / "ledger", new_places=3, clock=lambda: now[0])
    assert reporter.report(1).output == 0
    now[0] = NOON
    again, other = reporter.report(1), reporter.report(0)
    assert (again.output, again.fresh, again.cost) == (0, False, 0.0)  # kept until the day ends
    assert (other.output, other.fresh) == (2, True)
    now[0] = NOON + 86400
    assert reporter.report(1).output == 2


def test_the_ledger_knows_the_whole_file(tmp_path: Path) -> None:
    one, other = certain(), certain()
    digests = [
        wh.Reporter(made, tmp_path / "ledger", new_places=3).digest
        for made in (one, other, wh.MechanismByTime(one.mechanisms[::-1], PERIODS),
                     wh.MechanismByTime(one.mechanisms, wh.DayPeriods((0, 13))),
                     wh.MechanismByTime(one.mechanisms, wh.DayPeriods((0, 12), "Asia/Tokyo")))
    ]  # fmt: skip
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@pytest.mark.parametrize("policy", ["predictive", "sporadic", "sticky"])
def test_a_tracker_draws_by_the_time_of_the_report(tmp_path: Path, policy: str) -> None:
    rate = 60.0 if policy == "sporadic" else None
    tracker = wh.Tracker(certain(), tmp_path / "ledger", policy, new_places=9, rate=rate)
    last = tracker.report(0, NIGHT).output
    assert last == 0
    for day in range(1, 4):
        made = tracker.report(0, NOON + 86400 * day)
        last = 2 if made.fresh else last  # a test that says "near" repeats the last draw
        assert made.output == last


def table(path: Path, **more: Any) -> Path:
    columns = {"x_km": [0.0, 1.0, 0.3] * 20, "y_km": [0.0, 0.2, 1.4] * 20}
    times = [NIGHT + 1000 * k if k < 30 else NOON + 100 * k for k in range(60)]
    pl.DataFrame({**columns, "time": times, **more}).write_csv(path)
    return path


@pytest.mark.parametrize("over_time", [None, OverTime("sticky", new_places=60),
                                       OverTime("sporadic", new_places=60, rate=0.5)])  # fmt: skip
def test_the_time_of_a_row_chooses(tmp_path: Path, over_time: OverTime | None) -> None:
    source = table(tmp_path / "t.csv")
    night = sum(time < 43_200 for time in pl.read_csv(source)["time"])
    made = wh.obfuscate_table(
        certain(), source, tmp_path / "o.csv", time="time", over_time=over_time
    )
    assert made.rows == 60
    rows = pl.read_csv(tmp_path / "o.csv")
    early = rows.filter(pl.col("time") < 43_200)
    assert set(early["x_km"]) == {0.0}
    if over_time is None or over_time.policy == "sporadic":
        assert Counter(rows["x_km"].to_list()) == {0.0: night, 0.3: 60 - night}
    # Without a declared column, one with a usual name is read, but not kept.
    wh.obfuscate_table(certain(), source, tmp_path / "o.csv", over_time=over_time)
    assert pl.read_csv(tmp_path / "o.csv").columns == ["x_km", "y_km"]


def test_a_table_without_times_is_refused(tmp_path: Path) -> None:
    source = table(tmp_path / "t.csv")
    pl.read_csv(source).drop("time").write_csv(tmp_path / "u.csv")
    with pytest.raises(wh.InputError, match="must have a column of times"):
        wh.obfuscate_table(MECHANISM, tmp_path / "u.csv", tmp_path / "o.csv")
    some = [None if k == 7 else NOON for k in range(60)]
    table(tmp_path / "t.csv", time=some)
    with pytest.raises(wh.InputError, match="must hold a time in every row, and 1 of them"):
        wh.obfuscate_table(MECHANISM, tmp_path / "t.csv", tmp_path / "o.csv")
    assert not (tmp_path / "o.csv").exists()


# The command line


def run(*words: object, **more: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], **more)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    traces().write_csv(folder / "traces.csv")
    made = run("profile", folder / "traces.csv", "--by-time", "0,8,18", "--zone", "Europe/Paris",
               "--places", 6, "--no-cache", "-o", folder / "me.csv")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert "0-8, 8-18, 18-24 in Europe/Paris" in made.stderr
    made = run("build", folder / "me.csv", "--by-time", "--epsilon", 1, "--keep-prior", "--json",
               "-o", folder / "k.whereish")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    facts = json.loads(made.stdout)
    assert facts["hours"] == [0, 8, 18]
    assert len(facts["periods"]) == 3
    return folder


def test_audit_and_measure_read_it(built: Path) -> None:
    found = run("audit", built / "k.whereish", "--json")
    assert found.exit_code == 0, found.stderr
    assert "3 mechanisms on the same 6 places" in found.stderr
    measured = run("measure", built / "k.whereish", "--json")
    assert measured.exit_code == 0, measured.stderr
    loss = json.loads(found.stdout)["quality_loss_km"]
    facts = json.loads(measured.stdout)
    assert facts["quality_loss_km"] == pytest.approx(loss, abs=1e-6)
    again = run("measure", built / "k.whereish", "--prior", built / "me.csv", "--json")
    assert json.loads(again.stdout)["quality_loss_km"] == pytest.approx(loss, abs=1e-6)


def test_report_and_obfuscate_read_it(built: Path, tmp_path: Path) -> None:
    made = run("report", built / "k.whereish", "--ledger", tmp_path / "l", "--new-places", 2,
               "--json", input="48.85,2.33\n")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["cost"] == 1.0
    made = run("obfuscate", built / "k.whereish", built / "traces.csv", "-o", tmp_path / "o.csv",
               "--json")  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["rows"] == 960


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plot {k} -o {o}.png", "one for each period of the day"),
        ("attack {k} --traces {t}", "an attack needs one mechanism"),
        ("measure {k} --radius-of-interest 300m", "must be left out for mechanisms by time"),
        ("build {p} --by-time --everywhere --epsilon 1 -o {o}", "--everywhere must be left out"),
        ("build {p} --by-time --epsilon 1 --picture {o}.png -o {o}", "--picture must be left out"),
        ("build {q} --by-time --epsilon 1 -o {o}", "whereish profile TRACES --by-time"),
        ("measure {k} --prior {q}", "--by-time HOURS"),
        ("profile {t} --by-time 0,7 -o {o}.csv", "needs a time zone"),
        ("profile {t} --by-time 0,x --zone UTC -o {o}.csv", "hours of the day"),
        ("profile {t} --by-time 0,7 --zone UTC --period night -o {o}.csv", "--period must be left"),
        ("profile {t} --by-time 0,7 --zone UTC --group users -o {o}", "--group must be left out"),
    ],
)
def test_what_it_does_not_do_is_said_in_one_line(
    built: Path, tmp_path: Path, words: str, said: str
) -> None:
    pl.read_csv(built / "me.csv").drop("prior_08h", "prior_00h", "prior_18h").write_csv(
        tmp_path / "plain.csv"
    )
    names = {"k": built / "k.whereish", "p": built / "me.csv", "t": built / "traces.csv",
             "q": tmp_path / "plain.csv", "o": tmp_path / "out"}  # fmt: skip
    done = run(*words.format(**names).split())
    assert done.exit_code not in (0, 1), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
