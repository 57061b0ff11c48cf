"""The study of reports over time: its protocol, budgets and figures, against plain recounts."""

from __future__ import annotations

import csv
import json
import math
import os
import stat
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.attacks import FREE, REPEATED
from whereish.cli import app
from whereish.device.budget_manager import BudgetManager
from whereish.errors import BudgetError, InputError
from whereish.studies.equal_budget import EqualDesign, balanced, equal_budget_parts
from whereish.studies.tapered_places import CONSTANT, FALLING, TAPERED_PLACES, tapered_parts
from whereish.studies.trace_attacks import attack, evidence_of, local_model
from whereish.studies.trace_model import CELL_KM, GAPS_S, PlaneModel, windows
from whereish.studies.trace_people import TracePeople, load_trace_people
from whereish.studies.trace_policies import (
    INDEPENDENT,
    PREDICTIVE,
    SPORADIC,
    STICKY,
    Constants,
    Sent,
    send,
)
from whereish.studies.trace_protocol import (
    BUDGET,
    Rules,
    Sampling,
    Trace,
    sample_all,
    traces_of,
)
from whereish.studies.trace_rows import AUTHORS, POLICIES, TAPERED, Bench, TraceDesign
from whereish.studies.trace_scores import TraceScores
from whereish.studies.trace_study import trace_claims
from whereish.studies.trace_tuning import candidates, choose, folds_of, tapered

CORNERS = np.array([[-12.0, -12.0], [12.0, 12.0]])


def walk(user: str, steps: int, seed: int, gap_s: float = 60.0, km: float = 0.15) -> Trace:
    rng = np.random.default_rng(seed)
    stays = rng.random(steps) < 0.6
    moves = np.where(stays[:, None], 0.0, rng.normal(0, km, (steps, 2)))
    return Trace(
        user, np.arange(float(steps)) * gap_s, rng.normal(0, 1, 2) + np.cumsum(moves, axis=0)
    )


def some_walks(count: int = 24, steps: int = 30, people: int = 6) -> list[Trace]:
    return [walk(f"{k % people}", steps + k % 5, k) for k in range(count)]


# -- which traces, and when they report


def plain_traces(
    times: list[float], xy: list[tuple[float, float]], rules: Rules
) -> list[list[int]]:
    """Return the rows of the traces, point by point."""
    slow = [0]
    for k in range(1, len(times)):
        away = math.dist(xy[k], xy[k - 1])
        if away < rules.speed_kmh * (times[k] - times[k - 1]) / 3600:
            slow.append(k)
    parts: list[list[int]] = [[]]
    for k in slow:
        if parts[-1] and times[k] - times[parts[-1][-1]] > rules.pause_s:
            parts.append([])
        parts[-1].append(k)
    found = []
    for part in parts:
        kept: list[int] = []
        for k in part:
            if not kept or times[k] - times[kept[-1]] >= 60 - 0.5:
                kept.append(k)
        if len(kept) >= rules.points and times[kept[-1]] - times[kept[0]] >= rules.minutes * 60:
            found.append(kept)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_traces_are_selected_by_the_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gaps = rng.choice([5.0, 20.0, 61.0, 300.0, 8000.0], 400, p=[0.4, 0.3, 0.25, 0.04, 0.01])
    times = np.cumsum(gaps)
    fast = rng.random(400) < 0.2
    # In km: walking, or at 20 to 60 km/h.
    lengths = np.where(fast, rng.uniform(20, 60, 400), rng.uniform(0, 14, 400)) * gaps / 3600
    angles = rng.uniform(0, 2 * np.pi, 400)
    xy = np.cumsum(lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]), axis=0)
    rules = Rules()
    expected = plain_traces(times.tolist(), [tuple(point) for point in xy.tolist()], rules)
    found = traces_of("a", times, xy, rules)
    assert [trace.times_s.tolist() for trace in found] == [
        times[rows].tolist() for rows in expected
    ]
    assert all((trace.xy == xy[rows]).all() for trace, rows in zip(found, expected, strict=True))


def test_the_rules_have_borders_where_they_say() -> None:
    still = np.zeros((25, 2))
    every = 60.0
    assert len(traces_of("a", np.arange(20.0) * every, still[:20], Rules())) == 0  # 19 minutes
    assert len(traces_of("a", np.arange(21.0) * every, still[:21], Rules())) == 1
    assert len(traces_of("a", np.arange(19.0) * 120.0, still[:19], Rules())) == 0  # 19 points
    apart = np.concatenate([np.arange(25.0) * every, 7200.5 + 24 * every + np.arange(25.0) * every])
    assert len(traces_of("a", apart, np.zeros((50, 2)), Rules())) == 2
    assert traces_of("a", np.zeros(0), np.zeros((0, 2)), Rules()) == []


def test_a_report_is_the_first_point_after_the_gap() -> None:
    trace = walk("a", 300, 1, gap_s=61.0)
    sampled = Sampling("every 10 min", 600.0).of(trace, np.random.default_rng(0))
    assert len(sampled) > 20
    for before, after in pairwise(sampled.times_s.tolist()):
        between = [t for t in trace.times_s.tolist() if before < t < after]
        assert after - before >= 600
        assert all(t - before < 600 for t in between)


def test_jumps_are_as_likely_as_asked() -> None:
    trace = Trace("a", np.arange(200_000.0) * 60.0, np.zeros((200_000, 2)))
    sampled = Sampling("jumps", 60.0, 0.3).of(trace, np.random.default_rng(0))
    gaps = np.diff(sampled.times_s)
    assert set(gaps.tolist()) == {60.0, 1800.0, 3600.0}
    for length, share in ((60.0, 0.7), (1800.0, 0.15), (3600.0, 0.15)):
        sigma = math.sqrt(share * (1 - share) / len(gaps))
        assert abs((gaps == length).mean() - share) < 5 * sigma


def test_too_few_reports_are_left_out() -> None:
    traces = [walk("a", 30, 0), walk("b", 90, 1)]
    assert [len(t) for t in sample_all(traces, Sampling("hour", 3600.0), 0)] == [2]


# -- budgets

SEVERAL = [
    Constants(INDEPENDENT, 2.5),
    Constants(SPORADIC, 4.0, rate_s=300.0),
    Constants.of(BudgetManager.fixed_rate(BUDGET, 10, 0.6)),
    Constants.of(BudgetManager.fixed_utility(1.0), rate_s=180.0),
    Constants(STICKY, 5.0),
    Constants(SPORADIC, 8.0, rate_s=240.0, schedule=(8.0, 6.0, 4.0, 3.0, 2.0)),
]


def squares(xy: Any) -> list[tuple[int, int]]:
    return [(math.floor(x / 0.1), math.floor(y / 0.1)) for x, y in xy.tolist()]


def recounted(trace: Trace, sent: Sent, k: int, constants: Constants, budget: float) -> float:
    """Follow a trace by hand, and return what it has spent; raise where a rule is broken."""
    reports, drawn, tested = sent.reports[k], sent.drawn[k].tolist(), sent.tested[k].tolist()
    spent, decided, seen = 0.0, None, dict[tuple[int, int], int]()
    places = squares(trace.xy)
    for t, now in enumerate(trace.times_s.tolist()):
        if constants.kind == STICKY:
            due, tests = places[t] not in seen, False
        else:
            due = decided is None or now - decided >= constants.rate_s - 0.5
            tests = due and decided is not None and constants.kind == PREDICTIVE
        made = sum(drawn[:t])
        level = constants.draw
        if constants.schedule:
            level = constants.schedule[made] if made < len(constants.schedule) else math.inf
        reserve = (level + (constants.test if tests else 0.0)) if due else 0.0
        if spent + reserve > budget * (1 + 1e-9):
            assert t == len(reports), "the budget ends where its rest does not cover the reserve"
            return spent
        assert t < len(reports), "a report that the budget covers is sent"
        assert tested[t] == tests
        assert due or not drawn[t]
        if due and not tests:
            assert drawn[t]
        spent += (constants.test if tested[t] else 0.0) + (level if drawn[t] else 0.0)
        if due:
            decided = now
        if constants.kind == STICKY:
            assert drawn[t] == (places[t] not in seen)
            first = seen.setdefault(places[t], t)
            assert (reports[t] == reports[first]).all()
        elif not drawn[t]:
            assert (reports[t] == reports[t - 1]).all()
    assert len(reports) == len(trace)
    return spent


@pytest.mark.parametrize("constants", SEVERAL, ids=lambda one: f"{one.kind} {one.rate_s:g}")
def test_budgets_and_coverage_agree_with_a_recount(constants: Constants) -> None:
    traces = some_walks()
    sent = send(traces, constants, BUDGET, np.random.default_rng(0))
    spent = [recounted(trace, sent, k, constants, BUDGET) for k, trace in enumerate(traces)]
    assert sent.spent == pytest.approx(spent, rel=1e-12)
    assert max(spent) <= BUDGET * (1 + 1e-9)
    assert min(len(part) for part in sent.reports) < max(map(len, traces))  # some budgets end


def test_the_recount_finds_planted_mistakes() -> None:
    traces, constants = some_walks(), SEVERAL[2]
    sent = send(traces, constants, BUDGET, np.random.default_rng(0))
    # The reserve is forgotten: the budget is a draw larger than it says.
    more = send(traces, constants, BUDGET + constants.draw, np.random.default_rng(0))
    with pytest.raises(AssertionError, match="budget"):
        [recounted(trace, more, k, constants, BUDGET) for k, trace in enumerate(traces)]
    # A test is not charged.
    uncharged = replace(sent, spent=sent.spent - constants.test)
    spent = [recounted(trace, uncharged, k, constants, BUDGET) for k, trace in enumerate(traces)]
    assert uncharged.spent != pytest.approx(spent, rel=1e-3)


def test_predictive_reports_are_distributed_as_in_a_plain_simulation() -> None:
    """The authors' mechanism again, with the noise drawn otherwise: Gamma radii and Laplace."""
    constants = Constants.of(BudgetManager.fixed_rate(BUDGET, 10, 0.6))
    trace = walk("a", 12, 3, km=0.8)
    many = send([trace] * 4000, constants, BUDGET, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    draws, errors, covered = [], [], []
    for _ in range(4000):
        spent, guess, count = 0.0, None, 0
        for step, point in enumerate(trace.xy):
            cost = constants.draw + (constants.test if guess is not None else 0)
            if spent + cost > BUDGET * (1 + 1e-9):  # (0.6, 10): ties are frequent
                covered.append(step)
                break
            fresh = True
            if guess is not None:
                spent += constants.test
                noisy = constants.threshold_km + rng.laplace(0, 1 / constants.test)
                fresh = math.dist(point, guess) > noisy
            if fresh:
                spent += constants.draw
                radius, angle = rng.gamma(2, 1 / constants.draw), rng.uniform(0, 2 * np.pi)
                guess = point + radius * np.array([math.cos(angle), math.sin(angle)])
                count += 1
            errors.append(math.dist(point, guess))  # type: ignore[arg-type]
        else:
            covered.append(len(trace))
        draws.append(count)
    ours = [int(part.sum()) for part in many.drawn]
    lengths = [len(part) for part in many.reports]
    away = np.concatenate([np.hypot(*(trace.xy[: len(part)] - part).T) for part in many.reports])
    for one, other in ((ours, draws), (lengths, covered), (away, errors)):
        sigma = math.hypot(np.std(one) / 4000**0.5, np.std(other) / 4000**0.5)
        assert abs(np.mean(one) - np.mean(other)) < 5 * sigma
    assert np.std(ours) > 0


@pytest.mark.parametrize("rate", [0.0, 120.0])
def test_decisions_are_those_of_the_tracker(rate: float, tmp_path: Path) -> None:
    """With very large epsilons, draws and tests are certain: both must decide alike."""
    places = wh.Places.from_xy([[k, 0] for k in range(6)])
    mechanism = wh.exponential(places, epsilon=60.0)
    manager = BudgetManager(60.0, 40.0, threshold=1.5)
    at = [0, 1, 2, 2, 4, 5, 3, 3, 3, 0, 0, 2]
    times = np.arange(float(len(at))) * 60.0
    trace = Trace("a", times, places.xy[at])
    budget = 475.0
    sent = send([trace], Constants.of(manager, rate), budget, np.random.default_rng(0))
    tracker = wh.Tracker(
        mechanism, tmp_path / "ledger", "predictive", budget=budget, period="day", manager=manager,
        rate=rate or None,
    )  # fmt: skip
    fresh = []
    for place, now in zip(at, times.tolist(), strict=True):
        try:
            report = tracker.report(place, now)
        except BudgetError:
            break
        fresh.append(report.fresh)
        assert np.hypot(*(sent.reports[0][len(fresh) - 1] - report.xy_km)) < 0.5
        spent = report.spent
    assert fresh == sent.drawn[0].tolist()
    assert len(fresh) < len(at) or rate > 0
    assert spent == pytest.approx(sent.spent[0])


# -- figures


def test_scores_agree_with_plain_means() -> None:
    traces = some_walks(count=13)
    sent = send(traces, SEVERAL[1], BUDGET, np.random.default_rng(0))
    row = TraceScores.of(traces, sent).row()
    people: dict[str, list[dict[str, float]]] = defaultdict(list)
    for trace, reports, spent in zip(traces, sent.reports, sent.spent.tolist(), strict=True):
        errors = [math.dist(a, b) for a, b in zip(trace.xy, reports, strict=False)]
        people[trace.user].append({
            "mean_error_km": sum(errors) / len(errors),
            "p90_error_km": float(np.quantile(errors, 0.9)),
            "coverage": len(reports) / len(trace),
            "epsilon_per_point": spent / len(reports),
            "reports_within_300m": sum(error <= 0.3 for error in errors) / len(errors),
        })  # fmt: skip
    assert (row["people"], row["traces"]) == (6, 13)
    for name in people["0"][0]:
        means = [sum(one[name] for one in own) / len(own) for own in people.values()]
        assert row[name] == pytest.approx(sum(means) / len(means), rel=1e-12), name
    assert 0 < row["coverage"] < 1


def test_constants_are_chosen_on_other_people_only() -> None:
    traces = some_walks()
    tried = {
        one: TraceScores.of(traces, send(traces, one, BUDGET, np.random.default_rng(0)))
        for one in candidates(SPORADIC, BUDGET, 60.0)[::5]
    }
    others = np.array([trace.user != "0" for trace in traces])
    best = choose(tried, others, 0.5)
    # Whatever is best for the person, the choice is the same; with the person's traces it is not.
    full = [one for one, scores in tried.items() if scores.coverage.min() > 0.9 and one != best]
    biased = {
        one: replace(scores, error_km=np.where(others, scores.error_km, 1e4 * (one != full[0])))
        for one, scores in tried.items()
    }
    assert choose(biased, others, 0.5) == best
    assert choose(biased, np.ones(len(traces), bool), 0.5) == full[0]
    # By hand: enough coverage first, then the smallest error.
    plain = {}
    for one, scores in tried.items():
        by: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for k, user in enumerate(scores.users):
            if others[k]:
                by[user].append((scores.coverage[k], scores.error_km[k]))
        coverage, error = np.mean([np.mean(own, axis=0) for own in by.values()], axis=0)
        if coverage >= 0.5:
            plain[one] = error
    assert best == min(plain, key=lambda one: plain[one])


def test_tapered_draws_are_the_best_for_the_shares_that_they_serve() -> None:
    traces = some_walks(count=9, steps=12)
    rate = 180.0
    found = tapered(traces, 20.0, rate, 1.0)
    assert sum(found.schedule) == pytest.approx(20.0)
    # The share of the points after each draw, by hand: draws are every third point.
    served: dict[str, list[list[float]]] = defaultdict(list)
    for trace in traces:
        served[trace.user].append(
            [len(range(k, min(k + 3, len(trace)))) / len(trace) for k in range(0, len(trace), 3)]
        )
    shares = np.zeros(len(found.schedule))
    for own in served.values():
        for one in own:
            shares[: len(one)] += np.array(one) / len(own) / len(served)
    assert shares.sum() == pytest.approx(1.0)

    def loss(levels: Any) -> float:
        return float((shares * 2 / levels).sum())

    best = np.array(found.schedule)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = best * rng.uniform(0.8, 1.25, len(best))
        assert loss(best) <= loss(other * 20.0 / other.sum())
    covered = np.cumsum(shares)
    fewer = tapered(traces, 20.0, rate, 0.6)
    assert len(fewer.schedule) == int((covered < 0.6).sum()) + 1 < len(found.schedule)
    with pytest.raises(InputError, match="schedule"):
        Constants(INDEPENDENT, 1.0, schedule=(1.0, 2.0))


def people_of(traces: list[Trace], seed: int = 0) -> TracePeople:
    return TracePeople("synthetic", "some walks", traces, CORNERS, [], seed)


def test_a_model_knows_nothing_of_the_people_of_its_fold() -> None:
    traces = some_walks()
    fold = folds_of(traces, 0)["0"]
    moved = [
        replace(t, xy=t.xy[::-1] * 3 + 5) if folds_of(traces, 0)[t.user] == fold else t
        for t in traces
    ]
    one, other = people_of(traces), people_of(moved)
    assert (one.model(fold).counts == other.model(fold).counts).all()
    assert (one.model(fold).moved == other.model(fold).moved).all()
    elsewhere = (fold + 1) % one.folds
    assert (one.model(elsewhere).counts != other.model(elsewhere).counts).any()
    mine = {t.user for t in traces if one.fold[t.user] == fold}
    others = [t for t in traces if t.user not in mine]
    # Each person counts alike, whatever the number of points.
    assert one.model(fold).counts.sum() == pytest.approx(len({t.user for t in others}))


def test_distances_moved_agree_with_a_count_of_pairs() -> None:
    trace = walk("b", 40, 5)
    model = PlaneModel.without([walk("a", 40, 4), trace], np.array([0, 1]), 2, CORNERS)[0]
    away = [math.dist(trace.xy[k], trace.xy[k + 5]) for k in range(35)]
    share = sum(one < 0.2 for one in away) / len(away)
    edges = np.concatenate([[0.0], np.geomspace(0.01, 40.0, 60)])
    below = float(model.moved[GAPS_S.index(300.0)][: np.searchsorted(edges, 0.2) - 1].sum())
    assert 0 < share < 1
    assert abs(below - share) < 0.12  # the ring of 0.2 km is counted in part
    kernel = model.kernel(GAPS_S.index(300.0), 4)
    assert kernel.sum() == pytest.approx(1.0)
    assert kernel == pytest.approx(kernel.T)


def test_the_filter_is_the_posterior_median() -> None:
    """One draw, and two draws, by sums over all cells of the grid."""
    model = people_of(some_walks()).model(0)
    levels, sizes = (2.5, 1.25), (4, 8)  # the second draw has coarser cells
    draws, times = np.array([[0.3, -0.2], [0.9, 0.4]]), np.array([0.0, 300.0])
    sent = model.filtered([times, times[:1]], [draws, draws[:1]], np.array(levels))
    assert sent[0][0] == pytest.approx(sent[1][0])
    half = 16
    beliefs: list[dict[tuple[int, int], float]] = []
    for k, (draw, epsilon, size) in enumerate(zip(draws, levels, sizes, strict=True)):
        side = size * CELL_KM
        centre = np.floor((draw - model.origin) / side).astype(int)
        cells = [(int(centre[0]) + a, int(centre[1]) + b)
                 for a in range(-half, half + 1) for b in range(-half, half + 1)]  # fmt: skip
        grid = model.spent(size)
        prior = {cell: float(grid[cell]) for cell in cells}
        total = sum(prior.values())
        expected = {cell: value / total for cell, value in prior.items()}
        if k:
            kernel = model.kernel(GAPS_S.index(300.0), sizes[0])
            for x, y in cells:
                # The cell of the first draw in which the middle of this one is.
                a0, b0 = 2 * x + 1, 2 * y + 1
                spread = 0.0
                if (a0, b0) in beliefs[0]:
                    spread = sum(
                        value * kernel[a0 - a + half, b0 - b + half]
                        for (a, b), value in beliefs[0].items()
                        if abs(a0 - a) <= half and abs(b0 - b) <= half
                    )
                expected[x, y] = 0.95 * spread * 4 + 0.05 * expected[x, y]
        belief = {}
        for cell, value in expected.items():
            middle = model.origin + (np.array(cell) + 0.5) * side
            belief[cell] = value * math.exp(-epsilon * math.dist(middle, draw))
        total = sum(belief.values())
        beliefs.append({cell: value / total for cell, value in belief.items()})
        points = model.origin + (np.array(list(belief)) + 0.5) * side
        weights = np.array(list(beliefs[-1].values()))

        def cost(point: Any, points: Any = points, weights: Any = weights) -> float:
            return float(weights @ np.hypot(*(points - point).T))

        best = min(cost(point) for point in points)
        assert cost(sent[0][k]) <= best * 1.005


def test_windows_outside_of_a_grid_have_its_corner() -> None:
    grid = np.arange(12.0).reshape(1, 3, 4)
    far = windows(grid, np.array([[[50, 51], [50, 51]]]))
    assert (far == 0).all()
    part = windows(grid, np.array([[[0, 1, 2], [1, 2, 3]]]))
    assert part[0].tolist() == grid[0, 0:3, 1:4].tolist()


# -- attacks


def test_evidence_is_what_the_policy_says() -> None:
    constants = Constants(PREDICTIVE, 3.0, 2.0, 0.5)
    places = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    reports = np.array([[0.2, 0.0], [0.2, 0.0], [1.5, 0.0]])
    drawn, tested = np.array([True, False, True]), np.array([False, True, True])
    logs, links = evidence_of(reports, drawn, tested, constants, places)
    assert links.tolist() == [FREE] * 3
    for x, place in enumerate(places):
        away = math.dist(place, reports[0])
        below = 0.5 * math.exp(-2 * abs(away - 0.5))
        near = below if away > 0.5 else 1 - below
        fresh = -3 * math.dist(place, reports[2]) + math.log(1 - near)
        assert logs[:, x] == pytest.approx([-3 * away, math.log(near), fresh])
    sticky = Constants(STICKY, 3.0)
    _, links = evidence_of(reports, drawn, np.zeros(3, bool), sticky, places)
    assert links.tolist() == [FREE, REPEATED, FREE]


def test_an_attack_on_exact_reports_finds_the_way_and_on_noise_it_does_not() -> None:
    people = people_of(some_walks())
    trace = walk("0", 10, 7, km=0.4)
    places, movement = local_model(people.model(0), trace.xy[0], 60.0)
    assert movement.transitions.shape == (1, len(places), len(places))
    found = []
    for epsilon in (200.0, 0.05):
        constants = Constants(INDEPENDENT, epsilon)
        sent = send([trace], constants, 1e9, np.random.default_rng(0))
        one = attack(trace, sent.reports[0], sent.drawn[0], sent.tested[0], constants,
                     people.model(0), 60.0)  # fmt: skip
        found.append(one.mean_error_km)
    assert found[0] < 0.25
    assert found[1] > 1.0


def test_balanced_accuracy_is_a_half_for_a_guess_that_says_nothing() -> None:
    truth = np.array([True] * 3 + [False] * 7)
    assert balanced(truth, np.zeros(10, bool)) == 0.5
    assert balanced(truth, truth) == 1.0


# -- the whole


def test_all_policies_have_the_same_budget_and_the_claims_follow_from_the_rows() -> None:
    people = people_of(some_walks(count=8, people=4))
    design = TraceDesign(rates=((0.6, 10),), utilities=(), tuned=1, attacked=0)
    rows = Bench(people, Sampling("every 1 min"), design).rows()
    assert [row["policy"] for row in rows] == list(POLICIES)
    of = {row["policy"]: row for row in rows}
    steps = np.mean([len(trace) for trace in people.traces])
    for row in rows:
        most = row["epsilon_per_point"] * row["coverage"] * steps
        assert most <= BUDGET * 1.3, row["policy"]  # means of ratios: about the budget
    (claim,) = trace_claims({"protocol": rows})
    ratio = of[TAPERED]["mean_error_km"] / of[AUTHORS]["mean_error_km"]
    assert f"({ratio:.2f})" in claim.detail
    enough = of[TAPERED]["coverage"] >= of[AUTHORS]["coverage"] - 0.01
    assert claim.holds == (ratio <= 0.7 and enough)
    of[TAPERED]["mean_error_km"] = 2 * of[AUTHORS]["mean_error_km"]
    assert not trace_claims({"protocol": rows})[0].holds


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


SMALL = ("--users", 4, "--days", 3, "--per-person", 2, "--gaps", "60", "--jumps", "",
         "--attacked", 1, "--people", 0)  # fmt: skip


@pytest.mark.slow
@pytest.mark.thorough
def test_the_command_writes_a_report_and_continues(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    done = run("study", "traces", "-o", folder, *SMALL, "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["people"] == 4
    assert set(facts["claims"][0]) == {"name", "holds", "detail"}
    for file in facts["files"]:
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    with (folder / "rows" / "protocol.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["policy"] for row in rows} == set(POLICIES)
    assert not {"user", "lat", "lon"} & set(rows[0])
    assert f"{float(rows[0]['mean_error_km']):.2f} km" in (folder / "report.md").read_text()
    page = (folder / "report.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    before = {part.name: part.stat().st_mtime_ns for part in (folder / "parts").iterdir()}
    again = run("study", "traces", "-o", folder, *SMALL)
    assert again.exit_code == 0
    assert before == {part.name: part.stat().st_mtime_ns for part in (folder / "parts").iterdir()}


@pytest.mark.slow
@pytest.mark.slow
def test_tapered_draws_of_a_device_have_the_same_budget_and_coverage() -> None:
    """With certified mechanisms: what is covered is equal, and no day is over the budget."""
    parts = tapered_parts(EqualDesign(people=2, days=3, places=8, budget=6.0))
    rows = {part.name: part.work()[0] for part in parts}
    constant, falling = rows[CONSTANT], rows[FALLING]
    for name in ("people", "days", "coverage", "draws", "budget_per_day"):
        assert constant[name] == falling[name], name
    for row in rows.values():
        assert 0 < row["epsilon_per_day"] <= row["most_epsilon_per_day"] <= 6.0 * (1 + 1e-12)
    claims = trace_claims({TAPERED_PLACES: list(rows.values())})
    assert len(claims) == 1
    assert claims[0].holds == (falling["mean_error_km"] < constant["mean_error_km"])
    assert tapered_parts(EqualDesign(people=0)) == []


@pytest.mark.slow
def test_policies_are_attacked_at_equal_budget() -> None:
    design = EqualDesign(people=2, days=2, places=5)
    found = {part.name: part.work() for part in equal_budget_parts(design)}
    assert list(found) == ["independent", "sticky", "predictive", "filtered"]
    for rows in found.values():
        assert rows[-1]["epsilon_per_day"] == pytest.approx(design.budget, rel=0.25)
        assert [row["day"] for row in rows] == list(range(1, len(rows) + 1))
    # A sticky report changes with the place, but for draws that are the same by chance.
    told = {name: rows[-1]["moves_told"] for name, rows in found.items()}
    assert told["sticky"] > max(told["independent"], 0.6)
    assert found["sticky"][-1]["epsilon_of_draw"] > 3 * found["independent"][-1]["epsilon_of_draw"]
    assert equal_budget_parts(EqualDesign(people=0)) == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--dataset", "geolife"), "folder"),
        (("--dataset", "mars"), "dataset"),
        (("--data", "somewhere"), "needs no data"),
        (("--jumps", "2"), "jump"),
        (("--gaps", "x"), "gaps"),
        (("--people", "1"), "people"),
        (("--dataset", "geolife", "--data", "x", "--users", "3"), "--users"),
    ],
)
def test_what_cannot_be_studied_is_named(
    words: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    done = run("study", "traces", "-o", tmp_path / "study", *words)
    assert done.exit_code == 2
    assert named in done.stderr
    assert not (tmp_path / "study").exists()


def test_one_person_has_no_others() -> None:
    with pytest.raises(InputError, match="at least two people"):
        people_of([walk("a", 30, 0)])


@pytest.mark.slow
@pytest.mark.skipif(
    "WHEREISH_GEOLIFE" not in os.environ, reason="WHEREISH_GEOLIFE names no folder of GeoLife"
)
def test_the_traces_of_the_protocol_are_found_in_geolife() -> None:
    rules = Rules(per_person=20)
    people = load_trace_people("geolife", Path(os.environ["WHEREISH_GEOLIFE"]), rules=rules)
    assert (len(people.people), len(people.traces)) == (165, 3064)
    for trace in people.traces:
        gaps = np.diff(trace.times_s)
        assert len(trace) >= 20
        assert gaps.sum() >= 20 * 60
        # A pause is one between points as recorded. Of these, at most one a minute is kept, so the
        # one before the pause may be up to a minute older.
        assert 59.5 <= gaps.min() <= gaps.max() < rules.pause_s + 59.5
