"""Attacks on sequences of reports, against slow code that goes through all paths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import strategies
import whereish as wh
from effort import examples
from whereish.attacks import CHANGED, FREE, REPEATED, Evidence
from whereish.attacks.exposure import model_without_data
from whereish.places import Lattice
from whereish.profiles.movement import MovementModel

THREE = wh.Places.from_xy(np.array([[0, 0], [1, 0], [0, 2.5]]))
STEP = 600


@st.composite
def models(draw: DrawFn, n: int = 3, periods: int = 1) -> MovementModel:
    rows = [[draw(strategies.priors(n)) for _ in range(n)] for _ in range(periods)]
    start = [draw(strategies.priors(n)) for _ in range(periods)]
    where = THREE if n == 3 else wh.Places.from_xy([[k, k * k] for k in range(n)])
    hours = tuple(range(0, 24, 24 // periods))[:periods]
    return MovementModel(where, STEP, hours, np.array(rows), np.array(start))


@st.composite
def evidences(draw: DrawFn, most: int = 5, links: bool = True) -> Evidence:
    """Reports of a mechanism with zeros, every one or two steps, of any policy."""
    count = draw(st.integers(1, most))
    likely = []
    for _ in range(count):
        row = draw(strategies.priors(3))
        likely.append(row * draw(st.sampled_from([1.0, 1e-3])))
    gaps = draw(st.lists(st.sampled_from([0, STEP, 2 * STEP]), min_size=count, max_size=count))
    kinds = st.sampled_from([FREE, REPEATED, CHANGED] if links else [FREE])
    how = [FREE, *draw(st.lists(kinds, min_size=count - 1, max_size=count - 1))]
    with np.errstate(divide="ignore"):
        logs = np.log(np.array(likely))
    return Evidence(THREE, np.cumsum(gaps) + 1000.0, logs, np.array(how, np.int8))


def all_paths(evidence: Evidence, model: MovementModel) -> dict[tuple[int, ...], float]:
    """The probability of every path together with the reports, by the definition."""
    found = {}
    likely = np.exp(evidence.log_likelihood)
    for path in itertools.product(range(3), repeat=len(evidence)):
        chance = model.initial[0][path[0]] * likely[0][path[0]]
        for t in range(1, len(path)):
            here, there = path[t - 1], path[t]
            steps = round((evidence.times_s[t] - evidence.times_s[t - 1]) / STEP)
            step = np.linalg.matrix_power(model.transitions[0], steps)[here, there]
            report = likely[t][there]
            if evidence.links[t] == REPEATED and here == there:
                report = 1.0
            if evidence.links[t] == CHANGED and here == there:
                report = 0.0
            chance *= step * report
        found[path] = float(chance)
    return found


def marginal(paths: dict[tuple[int, ...], float], t: int) -> list[float]:
    sums = [0.0] * 3
    for path, chance in paths.items():
        sums[path[t]] += chance
    total = sum(sums)
    return [value / total for value in sums]


def least_expected(belief: Sequence[float]) -> list[float]:
    """The expected distance of every guess."""
    return [
        sum(share * math.dist(THREE.xy[x], THREE.xy[g]) for x, share in enumerate(belief))
        for g in range(3)
    ]


def possible(evidence: Evidence, model: MovementModel) -> dict[tuple[int, ...], float] | None:
    paths = all_paths(evidence, model)
    return paths if sum(paths.values()) > 1e-200 else None


@examples(150)
@given(evidences(), models())
def test_filter_and_smoother_are_the_sums_over_all_paths(
    evidence: Evidence, model: MovementModel
) -> None:
    paths = possible(evidence, model)
    if paths is None:
        return
    smooth = wh.attacks.smoother(evidence, model)
    filtered = wh.attacks.forward_filter(evidence, model)
    total = math.log(sum(paths.values()))
    assert math.isclose(smooth.log_likelihood, total, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(filtered.log_likelihood, total, rel_tol=1e-9, abs_tol=1e-9)
    for t in range(len(evidence)):
        assert np.allclose(smooth.posterior[t], marginal(paths, t), atol=1e-9)
        so_far = evidence.of(np.arange(len(evidence)) <= t)
        before = Evidence(THREE, so_far.times_s, so_far.log_likelihood, evidence.links[: t + 1])
        belief = marginal(all_paths(before, model), t)
        assert np.allclose(filtered.posterior[t], belief, atol=1e-9)
        errors = least_expected(belief)
        guess = int(filtered.guesses[t])
        assert errors[guess] <= min(errors) + 1e-9
        assert math.isclose(filtered.expected_error_km[t], errors[guess], abs_tol=1e-9)


@examples(150)
@given(evidences(), models())
def test_viterbi_finds_a_likeliest_path(evidence: Evidence, model: MovementModel) -> None:
    paths = possible(evidence, model)
    if paths is None:
        return
    found = wh.attacks.viterbi(evidence, model)
    assert paths[tuple(found.guesses.tolist())] >= max(paths.values()) * (1 - 1e-9)


@examples(80)
@given(evidences(), models())
def test_single_reports_and_averaging_are_bayes(evidence: Evidence, model: MovementModel) -> None:
    single = wh.attacks.single_report(evidence, model)
    mean = wh.attacks.averaging(evidence, model)
    likely, product = np.exp(evidence.log_likelihood), np.array(model.prior)
    for t in range(len(evidence)):
        joint = model.prior * likely[t]
        if joint.sum() > 0:
            assert np.allclose(single.posterior[t], joint / joint.sum())
        if evidence.links[t] != REPEATED:
            product = product * likely[t]
        if product.sum() > 1e-250:
            assert np.allclose(mean.posterior[t], product / product.sum(), atol=1e-9)
    assert np.allclose(single.posterior.sum(axis=1), 1)
    assert np.allclose(mean.posterior.sum(axis=1), 1)


@examples(60)
@given(strategies.profiles(least=3, most=5), st.data())
def test_a_single_report_is_the_adversary_of_the_measures(
    profile: tuple[wh.Places, strategies.Floats], data: st.DataObject
) -> None:
    places, prior = profile
    mechanism = wh.exponential(places, 1.0)
    n = len(places)
    model = MovementModel(places, STEP, (0,), np.tile(prior, (1, n, 1)), prior[None])
    outputs = np.arange(len(mechanism.outputs))
    seen = wh.attacks.independent_evidence(mechanism, outputs * 1.0, outputs)
    found = wh.attacks.single_report(seen, model)
    shares = prior @ mechanism.matrix
    error = float(shares @ found.expected_error_km)
    assert math.isclose(error, wh.adversary_error(mechanism, prior), rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.slow
@pytest.mark.thorough
def test_thousands_of_reports_neither_vanish_nor_overflow() -> None:
    rows = np.array([[[1 - 2e-9, 1e-9, 1e-9], [1e-9, 1 - 2e-9, 1e-9], [1e-9, 1e-9, 1 - 2e-9]]])
    model = MovementModel(THREE, STEP, (0,), rows, np.array([[1e-300, 0.5, 0.5]]))
    likely = np.tile([1e-5, 1e-9, 1e-9], (4000, 1))
    evidence = Evidence(THREE, np.arange(4000.0), np.log(likely))
    for attack in wh.attacks.ATTACKS.values():
        found = attack(evidence, model)
        assert np.isfinite(found.posterior).all()
        assert np.allclose(found.posterior.sum(axis=1), 1)
        assert math.isfinite(found.log_likelihood)
    # After the first few hundred, the place that explains them is certain.
    assert wh.attacks.averaging(evidence, model).posterior[-1, 0] > 0.999
    assert wh.attacks.viterbi(evidence, model).guesses[2000] == 0


def test_reports_that_the_model_rules_out_start_it_again() -> None:
    stuck = MovementModel(THREE, STEP, (0,), np.eye(3)[None], np.full((1, 3), 1 / 3))
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0.5, 0.5]]))
    evidence = Evidence(THREE, np.array([0, 600, 1200.0]), logs)
    for attack in (wh.attacks.forward_filter, wh.attacks.smoother, wh.attacks.viterbi):
        found = attack(evidence, stuck)
        assert found.guesses.tolist() == [0, 1, 1]
        assert found.log_likelihood == -math.inf
    nowhere = MovementModel(THREE, STEP, (0,), np.eye(3)[None], np.array([[0.0, 0, 1]]))
    assert wh.attacks.smoother(evidence, nowhere).guesses.tolist() == [0, 1, 1]


@examples(40)
@given(evidences(most=5, links=True))
def test_the_estimated_prior_is_as_likely_as_its_gap_says(evidence: Evidence) -> None:
    found = wh.attacks.estimate_prior(evidence, tolerance=1e-3)
    likely = np.exp(evidence.log_likelihood)[evidence.links != REPEATED]

    def mean_log(prior: strategies.Floats) -> float:
        return float(np.mean(np.log(likely @ prior)))

    grid = [np.array([a, b, 20 - a - b]) / 20 for a in range(21) for b in range(21 - a)]
    best = max(mean_log(prior) for prior in grid if (likely @ prior).min() > 0)
    assert mean_log(found.prior) >= best - found.gap - 1e-9
    assert found.gap <= 1e-3
    assert math.isclose(found.prior.sum(), 1)


def test_without_a_prior_the_model_follows_the_reports() -> None:
    flat = MovementModel(THREE, STEP, (0,), np.full((1, 3, 3), 1 / 3), np.full((1, 3), 1 / 3))
    logs = np.log(np.tile([0.1, 0.1, 0.8], (97, 1)))
    learned = wh.attacks.without_prior(Evidence(THREE, np.arange(97.0), logs), flat)
    assert np.allclose(learned.prior, [0.01, 0.01, 0.98], atol=1e-3)
    assert np.allclose(learned.transitions[0, 0], [1 / 3, 0.02 / 2.97, 1.96 / 2.97], atol=1e-3)


@examples(60)
@given(evidences(most=4), st.data())
def test_people_are_compared_by_the_sum_over_all_paths(
    evidence: Evidence, data: st.DataObject
) -> None:
    people = {name: data.draw(models()) for name in "abc"}
    weights = data.draw(strategies.priors(3))
    chances = {
        name: weight * sum(all_paths(evidence, model).values())
        for (name, model), weight in zip(people.items(), weights, strict=True)
    }
    if sum(chances.values()) < 1e-200:
        return
    found = wh.attacks.reidentify(evidence, people, weights)
    total = sum(chances.values())
    for name, share in zip(found.users, found.posterior, strict=True):
        assert math.isclose(share, chances[name] / total, rel_tol=1e-6, abs_tol=1e-9)
    assert list(found.posterior) == sorted(found.posterior, reverse=True)
    assert [found.rank(name) for name in found.users] == [1, 2, 3]
    with pytest.raises(wh.InputError):
        found.rank("x")


def sticky_runs(
    matrix: Sequence[Sequence[float]], length: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """All paths and all reports of a reporter within one period, with their probabilities."""
    outputs = range(len(matrix[0]))
    for path in itertools.product(range(len(matrix)), repeat=length):
        visited = sorted(set(path))
        for drawn in itertools.product(outputs, repeat=len(visited)):
            report = dict(zip(visited, drawn, strict=True))
            chance = math.prod(matrix[x][report[x]] for x in visited)
            yield path, tuple(report[x] for x in path), chance


def test_sticky_evidence_is_exact_for_two_reports() -> None:
    """For two reports of a period there is no third place to come back from."""
    mechanism = wh.exponential(THREE, 1.0)
    rows = np.array([[[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.05, 0.05, 0.9]]])
    model = MovementModel(THREE, STEP, (0,), rows, np.array([[0.6, 0.3, 0.1]]))
    runs = list(sticky_runs(mechanism.matrix.tolist(), 2))
    for reports in itertools.product(range(3), repeat=2):
        sums = np.zeros((2, 3))
        for path, sent, chance in runs:
            if sent == reports:
                joint = model.initial[0][path[0]] * rows[0][path[0]][path[1]] * chance
                sums[0][path[0]] += joint
                sums[1][path[1]] += joint
        evidence = wh.attacks.sticky_evidence(mechanism, [0.0, 600.0], reports)
        found = wh.attacks.smoother(evidence, model)
        assert np.allclose(found.posterior, sums / sums.sum(axis=1, keepdims=True))
        assert math.isclose(found.log_likelihood, math.log(sums[0].sum()))


def test_sticky_evidence_counts_a_report_once_in_a_period() -> None:
    mechanism = wh.exponential(THREE, 1.0)
    seen = wh.attacks.sticky_evidence(mechanism, [0, 600, 1200, 1800, 86400 + 5], [0, 0, 1, 0, 0])
    assert seen.links.tolist() == [FREE, REPEATED, CHANGED, CHANGED, FREE]
    assert not seen.log_likelihood[3].any()
    assert seen.drawn.tolist() == [True, False, True, True, True]
    with pytest.raises(wh.InputError):
        wh.attacks.sticky_evidence(mechanism, [0], [0], period="year")


def test_policies_make_reports_as_a_device_does() -> None:
    where = wh.Places.from_xy([[0, 0], [1, 0], [0, 1], [1, 1]])
    mechanism = wh.exponential(where, 0.5)
    model = MovementModel(where, STEP, (0,), np.full((1, 4, 4), 0.25), np.full((1, 4), 0.25))
    rng = np.random.default_rng(3)
    times = np.sort(rng.uniform(0, 4 * 86400, 300))
    at = rng.integers(0, 4, 300)
    points = where.xy[at] + rng.uniform(-0.2, 0.2, (300, 2))
    sticky = wh.attacks.simulate("sticky", mechanism, model, times, points, rng)
    groups: dict[tuple[int, int], set[int]] = {}
    for time, place, output in zip(times, at, sticky.outputs, strict=True):
        groups.setdefault((int(time // 86400), int(place)), set()).add(int(output))
    assert all(len(reports) == 1 for reports in groups.values())
    assert sticky.draws == len(groups)
    assert math.isclose(sticky.epsilon, 0.5 * len(groups))
    alone = wh.attacks.simulate("independent", mechanism, model, times, points, rng)
    assert alone.draws == 300
    assert len({*alone.outputs.tolist()}) == 4
    assert {"independent", "sticky"} <= set(wh.attacks.policy_names())
    with pytest.raises(wh.InputError, match="sticky"):
        wh.attacks.simulate("mine", mechanism, model, times, points)
    again = wh.attacks.simulate("sticky", mechanism, model, times, points, np.random.default_rng(5))
    assert again.evidence.log_likelihood.shape == (300, 4)


def test_tapered_reports_are_judged_by_the_mechanism_that_drew() -> None:
    """The evidence of draw k of a day is that of mechanism k; the epsilons are added up."""
    places = wh.Places.from_xy([[0.0, 0.0], [1.0, 0.2], [0.3, 1.4]])
    kinds = [wh.exponential(places, epsilon) for epsilon in (1.5, 0.5, 0.25)]
    model = model_without_data(places)
    times = np.array([0.0, 3600.0, 7200.0, 10800.0, 86400.0])
    run = wh.attacks.simulate(
        "sporadic", kinds[0], model, times, places.xy[[0, 1, 2, 0, 1]], np.random.default_rng(3),
        later=kinds[1:],
    )  # fmt: skip
    for t, level in enumerate((0, 1, 2, 2, 0)):
        seen = np.log(kinds[level].matrix[:, run.outputs[t]])
        assert np.allclose(run.evidence.log_likelihood[t], seen)
    assert run.epsilon == pytest.approx(1.5 + 0.5 + 0.25 + 0.25 + 1.5)
    with pytest.raises(wh.InputError, match="later"):
        wh.attacks.simulate("sticky", kinds[0], model, times, places.xy[[0] * 5], later=kinds[1:])


def test_mechanisms_for_every_point_are_attacked_on_a_grid() -> None:
    half = 2**62
    mechanism = wh.EverywhereMechanism(
        np.array([[half + half // 2, half // 2], [half // 2, half + half // 2]], np.uint64),
        Lattice(np.array([0, 2.0]), np.array([0.0])), wh.Places.from_xy([[0, 0], [2, 0]]), 1.0,
    )  # fmt: skip
    grid = wh.Places.from_xy([[x / 4, 0] for x in range(9)])
    table = wh.attacks.likelihoods(mechanism, grid)
    assert np.allclose(table[:, 0], np.linspace(0.75, 0.25, 9))
    with pytest.raises(wh.InputError, match="places"):
        wh.attacks.likelihoods(mechanism)
    model = MovementModel(grid, STEP, (0,), np.eye(9)[None], np.full((1, 9), 1 / 9))
    times, points = np.arange(400.0), np.tile([2.0, 0.0], (400, 1))
    rng = np.random.default_rng(0)
    run = wh.attacks.simulate("independent", mechanism, model, times, points, rng)
    found = wh.attacks.averaging(run.evidence, model)
    assert wh.attacks.errors_km(found, points)[-1] <= 0.5
    sticky = wh.attacks.simulate("sticky", mechanism, model, times, points, rng)
    assert sticky.draws == 1
    assert wh.attacks.averaging(sticky.evidence, model).expected_error_km[-1] > 0.3


@examples(40)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=8),
    strategies.priors(3),
    st.sampled_from([0.0, 0.2]),
)
def test_home_is_found_by_the_definition(
    nights: list[tuple[int, int]], prior: strategies.Floats, away: float
) -> None:
    mechanism = wh.exponential(THREE, 2.0)
    nights = sorted(nights)
    times = [night * 86400.0 + 3600 + k for k, (night, _) in enumerate(nights)]
    evidence = wh.attacks.independent_evidence(mechanism, times, [z for _, z in nights])
    found = wh.attacks.find_anchor(evidence, prior, away=away)
    matrix, belief = mechanism.matrix, [float(share) for share in prior]
    for row, night in enumerate(sorted({night for night, _ in nights})):
        reports = [z for day, z in nights if day == night]
        other = math.prod(sum(prior[y] * matrix[y][z] for y in range(3)) for z in reports)
        belief = [
            belief[x] * ((1 - away) * math.prod(matrix[x][z] for z in reports) + away * other)
            for x in range(3)
        ]
        belief = [share / sum(belief) for share in belief]
        assert np.allclose(found.posterior[row], belief)
    assert len(found.times_s) == len({night for night, _ in nights})


def test_work_is_of_weekdays_and_the_clock_is_that_of_the_zone() -> None:
    mechanism = wh.exponential(THREE, 2.0)
    friday, saturday = 1 * 86400, 2 * 86400  # 2 January 1970 is a Friday
    times = [friday + 11 * 3600, saturday + 11 * 3600]
    evidence = wh.attacks.independent_evidence(mechanism, times, [0, 1])
    prior = np.full(3, 1 / 3)
    found = wh.attacks.find_anchor(evidence, prior, wh.attacks.WORK)
    assert found.times_s.tolist() == [times[0]]
    with pytest.raises(wh.InputError, match="o'clock"):
        wh.attacks.find_anchor(evidence, prior, wh.attacks.HOME)
    tokyo = wh.attacks.find_anchor(evidence, prior, wh.attacks.HOME, zone="America/Los_Angeles")
    assert len(tokyo.times_s) == 2


def test_scores_are_of_distances() -> None:
    model = MovementModel(THREE, STEP, (0,), np.eye(3)[None], np.full((1, 3), 1 / 3))
    evidence = Evidence(THREE, np.array([0, 1.0]), np.log(np.tile([0.98, 0.01, 0.01], (2, 1))))
    found = wh.attacks.single_report(evidence, model)
    scored = wh.attacks.score(found, [0, 1], radius_km=0.5)
    assert (scored.mean_error_km, scored.success_rate) == (0.5, 0.5)
    same = wh.attacks.score(found, [[0.0, 0.0], [1.0, 0.0]], radius_km=0.5)
    assert same == scored
    with pytest.raises(wh.InputError):
        wh.attacks.score(found, [0, 3])


def test_wrong_evidence_is_refused() -> None:
    fine = np.zeros((2, 3))
    for times, logs, links in (
        ([1, 0], fine, [0, 0]), ([], fine[:0], []), ([0, 1], fine[:, :2], [0, 0]),
        ([0, 1], fine - np.inf, [0, 0]), ([0, 1], fine, [1, 0]), ([0, 1], fine, [0, 7]),
    ):  # fmt: skip
        with pytest.raises(wh.InputError):
            Evidence(THREE, np.array(times), logs, np.array(links, np.int8))
    other = wh.Places.from_xy([[0, 0], [5, 5], [9, 9]])
    model = MovementModel(other, STEP, (0,), np.eye(3)[None], np.full((1, 3), 1 / 3))
    with pytest.raises(wh.InputError, match="same places"):
        wh.attacks.smoother(Evidence(THREE, np.array([0, 1.0]), fine), model)
    mechanism = wh.exponential(THREE, 2.0)
    for outputs in ([0.5], [3], [-1], []):
        with pytest.raises(wh.InputError):
            wh.attacks.independent_evidence(mechanism, np.arange(len(outputs)), outputs)
