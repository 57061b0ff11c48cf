"""The tracker: along every run, what was spent bounds what is revealed (docs/proofs/traces.md)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples
from runs import DAY, Ask, SimpleLedger, violations
from whereish.device import Ledger, run_steps
from whereish.device import tracker as trackers
from whereish.device.budget_manager import Prices
from whereish.device.policies import TracePolicy
from whereish.device.run_steps import Plan
from whereish.device.tracker import Tracker
from whereish.places.lattice import Lattice

PLACES = wh.Places.from_xy([[0.0, 0.0], [1.0, 0.2], [0.3, 1.4]])
MECHANISM = wh.exponential(PLACES, 0.8)
TIMES = (1000.0, 2000.0, 3500.0)
HALF = 2**62
POLICIES = ("predictive", "predictive with a model", "filtered", "sporadic")


@dataclass(frozen=True, eq=False)
class Walk:
    """A movement model as small as can be: stay with a probability, otherwise go anywhere."""

    places: wh.Places
    prior: Any
    stay: float = 0.8

    def initial_at(self, time_s: float) -> Any:
        return np.asarray(self.prior, dtype=float)

    def transition(self, start_s: float, end_s: float) -> Any:
        n = len(self.places)
        stay = self.stay ** ((end_s - start_s) / 1000)
        return stay * np.eye(n) + (1 - stay) * np.tile(self.initial_at(end_s), (n, 1))


def tracked(
    folder: Path, mechanism: Any, policy: str, budget: Fraction, rate: float | None, prior: Any
) -> tuple[Tracker, Callable[[], Ask]]:
    """Return a tracker, and a function that begins a new run of it."""
    walk = Walk(mechanism.outputs, prior)
    name = policy.split()[0].rstrip(",")
    made = Tracker(
        mechanism, folder / "ledger", name, float(budget),
        rate=(500.0 if "tapered" in policy else 1500.0) if name == "sporadic" and not rate
        else rate,
        model=walk if name == "filtered" or "model" in policy else None,
        later=weaker(mechanism) if "tapered" in policy else (),
    )  # fmt: skip

    def begin() -> Ask:
        made.ledger = SimpleLedger(budget)  # type: ignore[assignment]
        return made.report

    return made, begin


def weaker(mechanism: Any) -> list[Any]:
    """Return mechanisms on the same places with other epsilons: one less, one more, one less."""
    if isinstance(mechanism, wh.EverywhereMechanism):
        return [
            wh.EverywhereMechanism(
                counts=np.array([[HALF + part, HALF - part], [HALF, HALF]], dtype=np.uint64),
                lattice=mechanism.lattice, outputs=mechanism.outputs, epsilon=epsilon,
            ) for part, epsilon in ((HALF // 8, 0.2), (HALF // 3, 0.6))
        ]  # fmt: skip
    return [
        wh.exponential(
            mechanism.inputs, share * mechanism.epsilon, privacy_metric=mechanism.privacy_metric
        )
        for share in (0.5, 1.25, 0.25)
    ]


def apart(places: wh.Places) -> Callable[[int, int], Fraction]:
    xy = places.xy.tolist()
    return lambda x, y: checks.distance_lower(xy[x], xy[y])


def all_traces(places: int, length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(places), repeat=length))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@settings(
    parent=examples(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_spent_bounds_what_is_revealed(
    policy: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_all_runs(policy, data, tmp_path_factory)


@pytest.mark.slow
@given(data=st.data())
@settings(
    parent=examples(2),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_spent_bounds_what_tapered_draws_reveal(
    data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_all_runs("filtered, tapered", data, tmp_path_factory)


def check_all_runs(policy: str, data: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    where, prior = data.draw(some.profiles(2, 3))
    epsilon = data.draw(some.EPSILONS)
    mechanism = data.draw(
        st.sampled_from([wh.exponential(where, epsilon), wh.planar_laplace(where, epsilon)])
    )
    length = 3
    gaps = data.draw(st.lists(st.sampled_from([60.0, 700.0, 50_000.0]), min_size=4, max_size=4))
    times = np.cumsum(gaps)[:length].tolist()
    budget = Fraction(repr(epsilon)) * data.draw(st.sampled_from([1, 2, 3])) * Fraction(4, 3)
    rate = data.draw(st.sampled_from([None, 500.0]))
    _, begin = tracked(tmp_path_factory.mktemp("runs"), mechanism, policy, budget, rate, prior)
    with pytest.MonkeyPatch.context() as patch:
        wrong = violations(
            patch, begin, all_traces(len(where), length), times, apart(where), budget
        )
        assert not list(itertools.islice(wrong, 3))


@pytest.mark.thorough
@pytest.mark.slow
def test_other_metrics_than_the_euclidean_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = wh.graph_metric(3, [(0, 1), (1, 2)], [1.0, 2.5])
    mechanism = wh.exponential(PLACES, 0.6, privacy_metric=metric)
    _, begin = tracked(tmp_path, mechanism, "predictive", Fraction(3), None, None)
    wrong = violations(
        monkeypatch, begin, all_traces(3, 3), TIMES,
        lambda x, y: Fraction(float(metric[x, y])), Fraction(3),
    )  # fmt: skip
    assert not list(itertools.islice(wrong, 3))


@pytest.mark.parametrize("policy", ["predictive", "filtered", "sporadic", "filtered, tapered"])
def test_points_of_the_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """Points between the vertices, with all corners that a draw and a test may take."""
    mechanism = wh.EverywhereMechanism(
        counts=np.array([[HALF + HALF // 2, HALF // 2], [HALF, HALF]], dtype=np.uint64),
        lattice=Lattice(np.array([0.0, 1.0]), np.array([0.0])),
        outputs=wh.Places.from_xy([[0, 0], [1, 0]]), epsilon=1.0,
    )  # fmt: skip
    _, begin = tracked(tmp_path, mechanism, policy, Fraction(9), None, [0.3, 0.7])
    points = [(0.0, 0.0), (0.75, 0.0), (5.25, 1.5)]
    traces = [(points[i], points[j]) for i, j in [(0, 0), (0, 1), (1, 1), (2, 1), (1, 2)]]
    wrong = violations(
        monkeypatch, begin, traces, TIMES[:2],
        lambda x, y: checks.distance_lower(x, y), Fraction(9),
    )  # fmt: skip
    assert not list(itertools.islice(wrong, 3))


def pattern(trace: Sequence[int]) -> list[bool]:
    """Return which places of a trace are equal."""
    return [one == other for one in trace for other in trace]


def sticky(folder: Path, budget: float) -> Callable[[], Ask]:
    numbers = itertools.count()
    return lambda: Tracker(MECHANISM, folder / f"{next(numbers)}", "sticky", budget).report


def test_sticky_reports_are_private_for_one_pattern_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real ledger. Sold as private for all traces, sticky reports are caught."""
    budget = Fraction(2)
    found: dict[int, list[str]] = {}
    for alike in (lambda one, other: pattern(one) == pattern(other), lambda one, other: True):
        (tmp_path / f"{len(found)}").mkdir()
        wrong = violations(
            monkeypatch, sticky(tmp_path / f"{len(found)}", 2.0), all_traces(2, 2), TIMES[:2],
            apart(PLACES), budget, alike,
        )  # fmt: skip
        found[len(found)] = list(wrong)
    assert not found[0]
    assert any("more is revealed" in words for words in found[1])


def test_a_real_ledger_keeps_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run again, with a ledger on the disk and a new tracker for every report."""
    numbers, budget = itertools.count(), Fraction(2)

    def begin() -> Ask:
        file = tmp_path / f"{next(numbers)}"
        walk = Walk(PLACES, [0.5, 0.2, 0.3])
        return lambda at, time: Tracker(MECHANISM, file, "predictive", 2.0, model=walk).report(
            at, time
        )

    traces = [(0, 0, 0), (0, 0, 1), (2, 1, 0)]
    wrong = violations(monkeypatch, begin, traces, TIMES, apart(PLACES), budget)
    assert not list(itertools.islice(wrong, 3))


# ------------------------------------------------------------------ planted bugs


def no_charge(made: Tracker) -> None:
    policy = made._policy
    assert policy is not None
    policy.prices = Prices(policy.prices.draw, 0.0, policy.prices.draw)


def guess_of_the_truth(made: Tracker) -> None:
    class Peeking(TracePolicy):
        def take(self, runs: Any, who: Any, at: Any, times: Any, rng: Any = None) -> Any:
            runs.guess[who] = at
            return super().take(runs, who, at, times, rng)

    made._policy.__class__ = Peeking


def filter_of_the_truth(made: Tracker) -> None:
    class Peeking(TracePolicy):
        def take(self, runs: Any, who: Any, at: Any, times: Any, rng: Any = None) -> Any:
            taken = super().take(runs, who, at, times, rng)
            assert self.filter is not None
            taken.outputs[0] = runs.shown[0] = self.filter.distances[at[0]].argmin()
            return taken

    made._policy.__class__ = Peeking


def clock_of_the_truth(made: Tracker) -> None:
    """Draws when somebody has moved, as sticky reports do."""

    class Peeking(TracePolicy):
        def take(self, runs: Any, who: Any, at: Any, times: Any, rng: Any = None) -> Any:
            taken = super().take(runs, who, at, times, rng)
            runs.decided[who] = -np.inf if at[0] else times
            return taken

    made._policy.__class__ = Peeking


def level_of_the_truth(made: Tracker) -> None:
    """A better draw at one of the places, at the price of the worst."""

    class Peeking(TracePolicy):
        def take(self, runs: Any, who: Any, at: Any, times: Any, rng: Any = None) -> Any:
            taken = super().take(runs, who, at, times, rng)
            runs.made[who] += int(at[0])
            return taken

    made._policy.__class__ = Peeking


def price_of_another(made: Tracker) -> None:
    """Every draw is charged like the cheapest one."""

    class Cheap(TracePolicy):
        def prices_at(self, level: int) -> Prices:
            return min(self._later_prices, key=lambda prices: prices.draw)

    made._policy.__class__ = Cheap


def one_ahead(made: Tracker) -> None:
    """The price of the draw after this one."""

    class Ahead(TracePolicy):
        def prices_at(self, level: int) -> Prices:
            return super().prices_at(min(level + 1, len(self.schedule) - 1))

    made._policy.__class__ = Ahead


BUGS: dict[str, tuple[str, Callable[[Tracker], None]]] = {
    "mechanism from the true position": ("sporadic, tapered", level_of_the_truth),
    "price of the cheapest draw": ("filtered, tapered", price_of_another),
    "price of the next draw": ("sporadic, tapered", one_ahead),
    "test not charged": ("predictive", no_charge),
    "prediction from the true position": ("predictive", guess_of_the_truth),
    "filter from the true position": ("filtered", filter_of_the_truth),
    "rate from the true position": ("sporadic", clock_of_the_truth),
}


@pytest.mark.parametrize("bug", [None, *BUGS])
def test_planted_bugs_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str | None
) -> None:
    policies = [BUGS[bug][0]] if bug else sorted({policy for policy, _ in BUGS.values()})
    for policy in policies:
        (tmp_path / policy).mkdir()
        made, begin = tracked(
            tmp_path / policy, MECHANISM, policy, Fraction(5), None, [0.6, 0.1, 0.3]
        )
        if bug:
            BUGS[bug][1](made)
        wrong = violations(
            monkeypatch, begin, all_traces(3, 2), TIMES[:2], apart(PLACES), Fraction(5)
        )
        assert bool(list(itertools.islice(wrong, 1))) == bool(bug), bug


def test_a_reserve_that_is_forgotten_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the test is reserved: a draw after it goes over the budget."""
    budget = Fraction(12, 10)
    _, begin = tracked(tmp_path, MECHANISM, "predictive", budget, None, None)
    arguments = (all_traces(2, 2), TIMES[:2], apart(PLACES), budget)
    assert not list(violations(monkeypatch, begin, *arguments))
    policy_step = trackers._TracedStep

    class Forgetful(policy_step):  # type: ignore[misc, valid-type]
        def plan(self, public: str | None) -> Plan:
            planned = super().plan(public)
            return planned if public is None else Plan(self.policy.prices.test, planned.make)

    monkeypatch.setattr(trackers, "_TracedStep", Forgetful)
    assert any("over the budget" in words for words in violations(monkeypatch, begin, *arguments))


def test_the_real_ledger_refuses_a_step_that_costs_more_than_was_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy_step = trackers._TracedStep

    class Forgetful(policy_step):  # type: ignore[misc, valid-type]
        def plan(self, public: str | None) -> Plan:
            planned = super().plan(public)
            return planned if public is None else Plan(self.policy.prices.test, planned.make)

    made = Tracker(MECHANISM, tmp_path / "l", "predictive", 100.0)
    monkeypatch.setattr(trackers, "_TracedStep", Forgetful)

    def until_far() -> None:
        for k in range(200):
            made.report(k % 3, float(k))

    with pytest.raises(wh.InputError, match="more than was reserved"):
        until_far()


# ------------------------------------------------------------------ what a report says


def test_both_readings_of_what_was_spent(tmp_path: Path) -> None:
    made = Tracker(MECHANISM, tmp_path / "l", "sporadic", new_places=6, rate=600)
    at = [(0, 0), (0, 700), (0, 1000), (1, 1400), (1, 2100), (1, 2800)]
    reports = [made.report(place, time) for place, time in at]
    assert [report.cost for report in reports] == [0.8, 0.8, 0.0, 0.8, 0.8, 0.8]
    assert [report.spent for report in reports] == pytest.approx([0.8, 1.6, 1.6, 2.4, 3.2, 4.0])
    # Two reports of the first stay, three of the second.
    assert [r.spent_per_stay for r in reports] == pytest.approx([0.8, 1.6, 1.6, 1.6, 1.6, 2.4])
    assert made.ledger.spent_per_stay(2900) == pytest.approx(2.4)
    assert made.report(1, DAY).spent_per_stay == pytest.approx(0.8)
    assert made.ledger.spent_per_stay(5 * DAY) == 0.0
    wh.Reporter(MECHANISM, tmp_path / "other", 3.0)
    assert Ledger(tmp_path / "other").spent_per_stay(0) is None


def test_the_charges_of_others_may_be_for_the_same_stay(tmp_path: Path) -> None:
    """Two trackers and a reporter in one ledger: by the definition, and as the client says it."""
    file, now = tmp_path / "l", [0.0]
    one = Tracker(MECHANISM, file, "sporadic", 20.0, rate=1)
    other = Tracker(MECHANISM, file, "sporadic", 20.0, rate=2)
    reporter = wh.Reporter(MECHANISM, file, 20.0, clock=lambda: now[0])
    assert one.report(0, 1.0).spent_per_stay == 0.8
    assert one.report(0, 2.0).spent_per_stay == pytest.approx(1.6)
    assert one.report(1, 3.0).spent_per_stay == pytest.approx(1.6)  # a stay of two, one of one
    now[0] = 4.0
    assert reporter.report(2).cost == 0.8
    # What the reporter charged may have been for the stay of two.
    assert one.ledger.spent_per_stay(4.0) == pytest.approx(2.4)
    assert one.report(1, 5.0).spent_per_stay == pytest.approx(2.4)
    found = other.report(2, 6.0)
    assert (found.spent, found.spent_per_stay) == pytest.approx((4.8, 3.2))
    found = other.report(1, 9.0)  # a stay of one again: nothing new for the largest
    assert (found.spent, found.spent_per_stay) == pytest.approx((5.6, 3.2))
    # A new period begins with nothing, and never says more than was spent.
    assert other.report(1, DAY).spent_per_stay == 0.8


def test_sticky_stays_cost_one_draw_if_nothing_else_is_charged(tmp_path: Path) -> None:
    made = Tracker(MECHANISM, tmp_path / "l", "sticky", 20.0)
    assert [made.report(place, 1.0).spent_per_stay for place in (0, 1, 0, 2)] == [0.8] * 4
    wh.Reporter(weaker(MECHANISM)[0], tmp_path / "l", 20.0, clock=lambda: 2.0).report(1)
    assert made.report(0, 3.0).spent_per_stay == pytest.approx(2.8)


def test_stays_of_older_ledgers_are_not_too_small() -> None:
    """They do not say what was charged in all: then everything counts."""
    old = run_steps.Stay.read('[2, "4/5", "8/5"]')
    assert run_steps.spent_per_stay([old], Fraction(4)) == 4
    assert run_steps.spent_per_stay([], Fraction(4)) == 4
    new = run_steps.Stay().after(2, Fraction(1)).after(2, Fraction(1)).after(1, Fraction(1))
    assert run_steps.Stay.read(new.text()) == new
    assert run_steps.spent_per_stay([new], Fraction(4)) == 3


def test_a_repeated_report_looks_at_nothing(tmp_path: Path) -> None:
    """Between two draws even a location that would be refused gets the last report."""
    made = Tracker(MECHANISM, tmp_path / "l", "sporadic", new_places=6, rate=600)
    first = made.report((0.0, 0.0), 0)
    assert made.report((5000.0, 5000.0), 300).output == first.output
    with pytest.raises(wh.InputError, match="inside the area"):
        made.report((5000.0, 5000.0), 900)
    assert made.report((0.0, 0.0), 900).spent == 1.6


def test_where_somebody_was_is_forgotten_with_its_period(tmp_path: Path) -> None:
    """The ledger keeps public states; the place of a stay is overwritten in the next period."""
    made = Tracker(MECHANISM, tmp_path / "l", "predictive", 100.0)
    for k in range(5):
        made.report(2, float(k))
    with made.ledger._open() as ledger:
        (run,) = ledger.runs.values()
    assert run.stay.startswith("[2, ")
    with made.ledger._open() as ledger:
        ledger.move_to(9)
        (run,) = ledger.runs.values()
        assert run.stay == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "bold"},
        {"policy": "sporadic"},
        {"policy": "filtered"},
        {"policy": "sticky", "rate": 60.0},
        {"policy": "predictive", "rate": 0.0},
        {"policy": "predictive", "rate": "often"},
        {"policy": "predictive", "later": [MECHANISM]},
        {"policy": "sticky", "later": [MECHANISM]},
        {"policy": "sporadic", "rate": 60.0, "later": MECHANISM},
        {"policy": "sporadic", "rate": 60.0, "later": [3.0]},
        {
            "policy": "sporadic",
            "rate": 60.0,
            "later": [wh.exponential(wh.Places.from_xy([[0.0, 0.0], [1.0, 0.2], [0.3, 1.5]]), 0.8)],
        },
        {
            "policy": "sporadic",
            "rate": 60.0,
            "later": [wh.exponential(PLACES, 0.8, privacy_metric=2 * wh.euclidean(PLACES, PLACES))],
        },
    ],
)
def test_misuse_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(wh.InputError):
        Tracker(MECHANISM, tmp_path / "l", budget=3.0, **wrong)


def test_the_budget_managers_have_the_constants_of_the_authors() -> None:
    """Fixed utility and fixed rate, by the formulas of the paper."""
    utility = wh.BudgetManager.fixed_utility(1.0)
    assert utility.epsilon_draw == pytest.approx(3.88972)
    assert utility.epsilon_test == pytest.approx(0.5 * 1.60944 * (1 + 1 / 0.8))
    assert utility.threshold == pytest.approx(1.60944 / (0.8 * utility.epsilon_test))
    rate = wh.BudgetManager.fixed_rate(20.0, 10, 0.6)
    # What is expected of a step: a test, and a draw in 4 of 10 cases, is the share of the budget.
    assert rate.epsilon_test + 0.4 * rate.epsilon_draw == pytest.approx(2.0)
    assert rate.epsilon_test / rate.epsilon_draw == pytest.approx(
        1.60944 / 3.88972 * 0.6 * (1 + 1 / 0.8)
    )
    cheap = wh.BudgetManager.cheap_tests(2.0)
    assert cheap.epsilon_draw == 2.0
    assert cheap.epsilon_test == pytest.approx(0.4)
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(wh.InputError):
            wh.BudgetManager.fixed_rate(20.0, 10, wrong)


def test_another_manager_is_used_and_must_fit_the_mechanism(tmp_path: Path) -> None:
    manager = wh.BudgetManager.cheap_tests(0.8)
    made = Tracker(MECHANISM, tmp_path / "l", "predictive", 50.0, manager=manager)
    costs = {made.report(0, float(k)).cost for k in range(30)}
    assert all(any(cost == pytest.approx(one) for one in (0.8, 0.16, 0.96)) for cost in costs)
    with pytest.raises(wh.InputError, match="that of the mechanism"):
        Tracker(MECHANISM, tmp_path / "m", budget=9.0, manager=wh.BudgetManager.cheap_tests(0.7))


# ------------------------------------------------------------------ tapered draws


def test_every_draw_of_a_period_has_its_own_price(tmp_path: Path) -> None:
    """Counted by the number of the draw in a period; the budget is exactly that of five draws."""
    made = Tracker(
        MECHANISM, tmp_path / "l", "sporadic", rate=600, new_places=5, later=weaker(MECHANISM)
    )
    expected = [0.8, 0.4, 1.0, 0.2, 0.2]
    for day in (0, 1, 5):
        begin = day * DAY
        reports = [made.report(k % 3, begin + 700 * k) for k in range(5)]
        assert [report.cost for report in reports] == expected
        assert reports[-1].spent == pytest.approx(2.6)
        assert reports[-1].budget == pytest.approx(2.6)
        assert not made.report(0, begin + 4 * 700 + 100).fresh
        with pytest.raises(wh.BudgetError):
            made.report(0, begin + 5 * 700)
    # A clock that goes back by a day is still in the last period: its first price does not return.
    with pytest.raises(wh.BudgetError):
        made.report(0, 4 * DAY)


def test_the_draws_come_from_the_mechanism_of_their_number(tmp_path: Path) -> None:
    """Later mechanisms that always report the same place: which one drew is then known."""
    point = [wh.Mechanism(np.eye(3)[[z, z, z]], PLACES, PLACES, epsilon=0.3) for z in (2, 0, 1)]
    made = Tracker(point[0], tmp_path / "l", "sporadic", 5.0, rate=10, later=point[1:])
    times = [100.0 * k for k in range(4)] + [DAY + 100.0 * k for k in range(2)]
    assert [made.report(0, time).output for time in times] == [2, 0, 1, 1, 2, 0]


def test_another_schedule_is_another_run(tmp_path: Path) -> None:
    """A ledger that has counted draws of one schedule does not go on with another."""
    first = Tracker(MECHANISM, tmp_path / "l", "sporadic", 9.0, rate=600)
    assert [first.report(0, time).cost for time in (0, 700)] == [0.8, 0.8]
    later = Tracker(MECHANISM, tmp_path / "l", "sporadic", rate=600, later=weaker(MECHANISM))
    reports = [later.report(0, time) for time in (1400, 2100)]
    assert [report.cost for report in reports] == [0.8, 0.4]
    assert reports[-1].spent == pytest.approx(2.8)


@given(
    st.floats(0.01, 1e4), st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=30)
)  # fmt: skip
@settings(parent=examples(60))
def test_tapered_epsilons_are_within_the_budget_and_best(budget: float, shares: Any) -> None:
    levels = wh.tapered_epsilons(budget, shares)
    exact = [Fraction(repr(level)) for level in levels]
    assert sum(exact) <= Fraction(repr(budget))
    assert sum(exact) > Fraction(repr(budget)) - len(shares) * Fraction(2, 10**6)
    free = np.array(wh.tapered_epsilons(budget, shares, decimals=None))

    def error(epsilons: Any) -> float:
        return float(np.sum(np.array(shares) / epsilons))

    # Moving a part of the budget from one draw to another never helps.
    for one, other in itertools.permutations(range(min(len(shares), 4)), 2):
        moved = free.copy()
        moved[one] -= 0.1 * free[one]
        moved[other] += 0.1 * free[one]
        assert error(moved) >= error(free) * (1 - 1e-9)


def test_shares_must_be_positive() -> None:
    for wrong in ([], [0.5, 0.0], [1.0, float("nan")], "abc", [[1.0]]):
        with pytest.raises(wh.InputError):
            wh.tapered_epsilons(1.0, wrong)
