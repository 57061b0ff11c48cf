"""Released counts: private in exact arithmetic, at a negligible cost.

The judge is `checks.broken_counts`, which shares no code with the library.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.measures import TOTAL, Limits, audit_counts
from whereish.release import round_private, to_counts

INSTANCES = int(os.environ.get("WHEREISH_INSTANCES", "40"))


def instance(number: int) -> tuple[wh.Places, Any, float, str]:
    """Places from 2 to 200, eps d up to 500, priors with zeros, all mechanisms in turn."""
    rng = np.random.default_rng([number, 4])
    kind = ("optimal", "spanner", "laplace", "exponential", "tight", "closed", "remap")[number % 7]
    most = 40 if kind in ("optimal", "spanner") else 60 if kind == "laplace" else 200
    n = int(np.exp(rng.uniform(np.log(2), np.log(most + 1))))
    if number % 3 == 0:
        columns = max(1, int(np.sqrt(n)))
        xy = np.array([[i % columns * 0.658, i // columns * 0.712] for i in range(n)])
    elif number % 3 == 1:
        xy = rng.uniform(0, 5, (n, 2))
    else:
        xy = rng.uniform(0, 0.05, (n, 2)) + rng.choice([0.0, 2.0, 9.0], (n, 1))
    places = wh.Places.from_xy(xy)
    prior = rng.gamma(rng.choice([0.05, 0.3, 3.0]), size=n) + 1e-300
    prior[rng.random(n) < 0.3] = 0.0
    prior[int(rng.integers(n))] += 1e-3
    largest = float(wh.euclidean(places).max())
    epsilon = float(np.exp(rng.uniform(np.log(0.05), np.log(500.0)))) / largest
    return places, prior / prior.sum(), max(epsilon, 1e-3), kind


def built(places: wh.Places, prior: Any, epsilon: float, kind: str) -> wh.Mechanism:
    if kind == "optimal":
        return wh.optimal(places, prior, epsilon)
    if kind == "spanner":
        return wh.optimal(places, prior, epsilon, dilation=1.2)
    if kind == "laplace":
        return wh.planar_laplace(places, epsilon)
    if kind == "tight":
        try:
            return wh.tight_constraints(places, epsilon)
        except wh.SolveError:
            return wh.exponential(places, epsilon)
    if kind == "closed":
        return wh.closed_form(places, prior, epsilon)
    if kind == "remap":
        return wh.exponential(places, epsilon).remap(prior)
    return wh.exponential(places, epsilon)


@pytest.mark.slow
def test_generated_instances_are_private_in_exact_arithmetic() -> None:
    """Every released integer of every instance, by the slow judge; and what releasing costs."""
    costs, dear = [], 0
    for number in range(INSTANCES):
        places, prior, epsilon, kind = instance(number)
        try:
            mechanism = built(places, prior, epsilon, kind)
        except wh.GuaranteeError:
            continue  # withheld: nothing left the library
        counts = mechanism.counts.tolist()
        broken = checks.broken_counts(counts, epsilon, places.xy.tolist())
        assert broken == [], (number, kind, broken[:3])
        exact = wh.quality_loss(mechanism, prior)
        loss = checks.counted_loss(counts, prior.tolist(), wh.euclidean(places).tolist())
        cost = abs(loss - exact) / max(exact, 1e-6 * float(wh.euclidean(places).max()))
        costs.append(cost)
        if cost > 1e-5:
            dear += 1
            assert mechanism.released.mix > 1e-9  # and says so
    assert len(costs) >= 0.9 * INSTANCES
    assert dear <= max(1, 0.01 * len(costs))


@given(some.places(2, 7), st.floats(0.01, 50.0), st.integers(0, 10**6))
@examples(40)
def test_rounding_a_private_matrix_is_private_and_nearly_free(
    places: wh.Places, epsilon: float, seed: int
) -> None:
    mechanism = wh.exponential(places, epsilon)
    counts = mechanism.counts
    assert [sum(row) for row in counts.tolist()] == [TOTAL] * len(places)
    assert checks.broken_counts(counts.tolist(), epsilon, places.xy.tolist()) == []
    assert np.abs(counts / TOTAL - mechanism.matrix).max() < 1e-6
    verdict = mechanism.released.verdict
    assert verdict is not None
    assert verdict.ratios == len(places) * (len(places) - 1) * len(places)


@given(st.integers(0, 10**9))
@examples(60)
def test_the_audit_agrees_with_whole_numbers_to_the_last_count(seed: int) -> None:
    """Counts on the limit, one above and one below it, decided as Python's integers decide."""
    rng = np.random.default_rng(seed)
    n, m = 3, 4
    points = rng.uniform(0, 2, (n, 2))
    limits = Limits(float(np.exp(rng.uniform(-7, 4))), points)
    counts = np.full((n, m), TOTAL // m, np.uint64)
    x, other, z = int(rng.integers(n)), int(rng.integers(n)), int(rng.integers(1, m))
    if x == other:
        return
    small = int(np.exp(rng.uniform(0, 30)))
    factor, shift = int(limits.factor[x, other]), int(limits.shift[x, other])
    allowed = factor * small >> shift
    for step in (-1, 0, 1):
        value = allowed + step
        if not small <= value < TOTAL // m:
            continue
        trial = counts.copy()
        trial[:, z] = value
        trial[other, z] = small
        trial[:, 0] = [TOTAL - sum(row[1:]) for row in trial.tolist()]
        pairs = [
            (a, b, c)
            for a in range(n)
            for b in range(n)
            for c in range(m)
            if a != b
            and int(trial[a, c]) << int(limits.shift[a, b])
            > int(limits.factor[a, b]) * int(trial[b, c])
        ]
        try:
            audit_counts(trial, limits)
            assert pairs == []
        except wh.GuaranteeError:
            assert pairs != []


@given(some.places(2, 6), st.floats(1e-3, 80.0))
@examples(40)
def test_limits_are_just_below_the_exponential(places: wh.Places, epsilon: float) -> None:
    limits = Limits(epsilon, places.xy)
    for x in range(len(places)):
        for other in range(len(places)):
            if x != other:
                bound = checks.exp_lower(
                    Fraction(epsilon)
                    * checks.distance_lower(places.xy[x].tolist(), places.xy[other].tolist())
                )
                found = Fraction(int(limits.factor[x, other]), 1 << int(limits.shift[x, other]))
                assert found <= bound
                assert found >= min(bound, Fraction(TOTAL)) * (1 - Fraction(1, 2**60))


@pytest.mark.parametrize("n", [9, 150])
def test_the_audit_is_the_same_on_one_thread_and_on_several(n: int) -> None:
    rng = np.random.default_rng(1)
    places = wh.Places.from_xy(rng.uniform(0, 5, (n, 2)))
    mechanism = wh.exponential(places, 2.0)
    counts = mechanism.counts.copy()
    assert audit_counts(counts, mechanism.limits).ratios == n * (n - 1) * n
    broken = counts.copy()
    broken[7, 3] += np.uint64(broken[7, 4] // 2)
    broken[7, 4] -= np.uint64(counts[7, 4] // 2)
    with pytest.raises(wh.GuaranteeError, match="not private: place"):
        audit_counts(broken, mechanism.limits)


def test_a_mechanism_without_an_epsilon_is_released_and_marked_as_such(tmp_path: Any) -> None:
    places, prior = some.grid(3, 2), some.skewed(6)
    mechanism = wh.optimal_privacy(places, prior, quality_loss=0.4)
    wh.save_mechanism(tmp_path / "k.whereish", mechanism, prior)
    found = wh.audit_file(tmp_path / "k.whereish")
    assert found["certified"] is False
    assert found["epsilon"] is None
    assert "no epsilon" in found["guarantee"][0]
    assert [sum(row) for row in mechanism.counts.tolist()] == [TOTAL] * 6


def test_a_matrix_that_is_not_private_is_not_rounded_into_one_that_is() -> None:
    places = some.grid(3, 2)
    with pytest.raises(wh.GuaranteeError, match="not private"):
        round_private(np.eye(6), Limits(1.0, places.xy))


def test_a_single_place_and_a_single_output() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0]])
    counts = to_counts(np.ones((2, 1)), 1e-12)
    made = wh.Mechanism.of_counts(counts, places, places.subset([0]), 1.0)
    assert made.sample(1, size=5).outputs.tolist() == [0] * 5


def test_what_snapping_and_repeating_cost_is_said() -> None:
    places = wh.square_grid(48.85, 2.33, 48.87, 2.36, cell_km=(0.6, 0.8))
    words = wh.certify(wh.exponential(places, math.log(2)))["guarantee"]
    assert "twice at 1 km" in words[0]
    assert "(d + 1)" in words[1]  # two halves of the diagonal of 0.6 x 0.8
    assert "k times" in words[2]
