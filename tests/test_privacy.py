"""The check of privacy, against exact arithmetic and with planted bugs."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.measures import check_private

BUILDERS = {
    "optimal": lambda places, prior, eps: wh.optimal(places, prior, eps),
    "spanner": lambda places, prior, eps: wh.optimal(places, prior, eps, dilation=1.2),
    "interior point": lambda places, prior, eps: wh.optimal(places, prior, eps, solver="highs-ipm"),
    "laplace": lambda places, prior, eps: wh.planar_laplace(places, eps),
    "laplace remapped": lambda places, prior, eps: wh.planar_laplace(places, eps).remap(prior),
    "exponential": lambda places, prior, eps: wh.exponential(places, eps),
    "tight": lambda places, prior, eps: wh.tight_constraints(places, eps),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.07, 6.0, 10.0, 15.0])
def test_everything_with_an_epsilon_has_it_in_exact_arithmetic(name: str, epsilon: float) -> None:
    """Over 7 km, gridded and scattered, skewed priors: no broken ratio among the rationals."""
    rng = np.random.default_rng(7)
    grid = wh.Places.from_xy([[i * 1.4, j * 1.6] for j in range(4) for i in range(5)])
    scattered = wh.Places.from_xy(rng.uniform(0, 5, (14, 2)))
    for places in (grid, scattered):
        prior = some.skewed(len(places), seed=3)
        try:
            mechanism = BUILDERS[name](places, prior, epsilon)
        except wh.SolveError as missing:
            assert name == "tight"
            assert "does not exist" in str(missing)
            continue
        matrix = mechanism.matrix.tolist()
        assert checks.is_stochastic(matrix)
        assert checks.broken_ratios(matrix, epsilon, xy=places.xy.tolist()) == []
        assert mechanism.epsilon == epsilon
        assert wh.tightest_epsilon(mechanism) <= epsilon


@given(some.profiles(least=2, most=8), st.floats(0.01, 100.0))
@examples(40)
def test_the_judge_and_exact_arithmetic_agree_on_laplace(
    profile: tuple[wh.Places, some.Floats], epsilon: float
) -> None:
    places, _ = profile
    mechanism = wh.planar_laplace(places, epsilon)
    assert checks.broken_ratios(mechanism.matrix.tolist(), epsilon, xy=places.xy.tolist()) == []


@given(st.data(), st.integers(2, 6), st.integers(1, 6))
def test_tightest_epsilon_is_the_definition(data: st.DataObject, n: int, m: int) -> None:
    places = data.draw(some.places(least=n, most=n))
    matrix = data.draw(some.stochastic(n, m))
    outputs = wh.Places.from_xy([[float(z), 0.0] for z in range(m)])
    mechanism = wh.Mechanism(matrix, places, outputs)
    distances = wh.euclidean(places)
    expected = 0.0
    for x in range(n):
        for y in range(n):
            for z in range(m):
                here, there = matrix[x][z], matrix[y][z]
                if x == y or here == 0:
                    continue
                ratio = math.inf if there == 0 else math.log(here / there) / distances[x][y]
                expected = max(expected, ratio)
    found = wh.tightest_epsilon(mechanism)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
    x, y = found.pair
    if math.isfinite(found) and found > 0:
        here, there = matrix[x][found.output], matrix[y][found.output]
        assert math.log(here / there) / distances[x][y] == pytest.approx(found)


def test_a_zero_facing_a_positive_is_infinite_and_located() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    mechanism = wh.Mechanism([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]], places, places)  # type: ignore[arg-type]
    found = wh.tightest_epsilon(mechanism)
    assert found == math.inf
    assert found.output == 2
    assert found.pair[0] == 2


def test_two_zeros_are_no_violation() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0]])
    mechanism = wh.Mechanism(np.array([[1.0, 0.0], [1.0, 0.0]]), places, places, epsilon=0.5)
    assert wh.tightest_epsilon(mechanism) == 0.0


@given(some.profiles(least=3, most=7), some.EPSILONS, st.data())
@examples(30)
def test_planted_bugs_are_caught(
    profile: tuple[wh.Places, some.Floats], epsilon: float, data: st.DataObject
) -> None:
    """Take a private matrix, break one thing, and the judge and exact arithmetic both say no."""
    places, prior = profile
    tight = wh.optimal(places, prior, epsilon)
    if tight.verdict is None or tight.verdict.slack > 1e-6:
        return  # one report for all places: nothing is at its limit
    y = tight.verdict.pair[1]
    z = tight.verdict.output
    bug = data.draw(st.sampled_from(["clipped to zero", "scaled by 1e-9", "epsilon ignored"]))
    matrix = tight.matrix.copy()
    level = epsilon
    if bug == "clipped to zero":
        matrix[y, z] = 0.0
        matrix[y] /= matrix[y].sum()
    elif bug == "scaled by 1e-9":
        matrix[y, z] *= 1 - 1e-9
        matrix[y, int(matrix[y].argmax())] += 1 - matrix[y].sum()
        if matrix[y].argmax() == z:
            return
    else:
        level = epsilon * (1 - 1e-6)
    assert checks.broken_ratios(matrix.tolist(), level, xy=places.xy.tolist()) != []
    with pytest.raises(wh.GuaranteeError, match="not private: place"):
        check_private(matrix, level, wh.euclidean(places))
    with pytest.raises(wh.GuaranteeError):
        wh.Mechanism(matrix, places, places, epsilon=level)


def test_swapped_rows_and_wrong_units_are_caught() -> None:
    places, prior = some.grid(4, 3), some.skewed(12)
    mechanism = wh.optimal(places, prior, 3.0)
    swapped = mechanism.matrix[np.r_[1, 0, 2:12]]
    in_degrees = wh.euclidean(places) / 111.2
    for matrix, metric in ((swapped, wh.euclidean(places)), (mechanism.matrix, in_degrees)):
        with pytest.raises(wh.GuaranteeError, match="not private"):
            check_private(matrix, 3.0, metric)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5, 0.6], [0.5, 0.5]], "row 0 sums to"),
        ([[1.5, -0.5], [0.5, 0.5]], "a probability is -0.5"),
        ([[np.nan, 1.0], [0.5, 0.5]], "a probability is"),
    ],
)
def test_what_is_no_distribution_is_no_mechanism(matrix: list[list[float]], words: str) -> None:
    with pytest.raises(wh.GuaranteeError, match=words):
        check_private(np.array(matrix), 1.0, [[0.0, 1.0], [1.0, 0.0]])


@given(st.fractions(0, 800, max_denominator=10**6))
def test_the_rational_bound_of_exp_is_a_tight_lower_bound(exponent: Fraction) -> None:
    """The checker's own arithmetic, against 100 digits of mpmath."""
    with mpmath.workdps(100):
        true = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        bound = checks.exp_lower(exponent)
        low = mpmath.mpf(bound.numerator) / bound.denominator
        assert low <= true * (1 + mpmath.mpf(10) ** -90)
        assert low >= true * (1 - mpmath.mpf(10) ** -60)


def test_the_exact_checker_can_fail() -> None:
    limit = float(checks.exp_lower(Fraction(1)))
    places = [[0.0, 0.0], [1.0, 0.0]]
    inside = [[limit / (1 + limit), 1 / (1 + limit)], [1 / (1 + limit), limit / (1 + limit)]]
    assert checks.broken_ratios(inside, 1.0 + 1e-12, xy=places) == []
    assert checks.broken_ratios(inside, 1.0 - 1e-12, xy=places) != []
    assert checks.broken_ratios([[1.0, 0.0], [0.5, 0.5]], 1.0, xy=places) == [(1, 0, 1)]
