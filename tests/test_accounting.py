"""(epsilon, delta) of many reports, against sums over all sequences of reports in fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whereish as wh
from effort import examples
from whereish.measures import accounting

pytest.importorskip("dp_accounting")
LINE = wh.Places.from_xy(np.array([[0, 0], [0.4, 0], [1.1, 0]]))


def exact_delta(one: Sequence[int], other: Sequence[int], times: int, epsilon: float) -> Fraction:
    """The largest of P(S | x) - exp(epsilon) P(S | x'), over all sets S of sequences."""
    factor, total = Fraction(math.exp(epsilon)), Fraction(2) ** (63 * times)
    gain = Fraction(0)
    for sequence in itertools.product(range(len(one)), repeat=times):
        here = math.prod(int(one[z]) for z in sequence)
        there = math.prod(int(other[z]) for z in sequence)
        gain += max(Fraction(0), here - factor * there)
    return gain / total


@examples(40)
@given(
    st.integers(1, 4),
    st.sampled_from([1e-9, 1e-4, 0.02, 0.3]),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([(0, 1), (2, 0), (1, 2)]),
)
def test_the_epsilon_holds_and_is_nearly_the_smallest(
    times: int, delta: float, epsilon: float, pair: tuple[int, int]
) -> None:
    # Its losses are no multiples of one another: how they are rounded matters.
    mechanism = wh.exponential(LINE, epsilon)
    found = wh.accounted_epsilon(mechanism, times, delta, pair=pair)
    rows = [mechanism.counts[x].tolist() for x in pair]
    for one, other in (rows, rows[::-1]):
        assert exact_delta(one, other, times, found.epsilon + 1e-12) <= Fraction(delta)
    # Each loss was rounded up by less than a 2000th of the largest.
    room = found.pure_epsilon / 2000 + 1e-9
    lower = found.epsilon - room
    if lower > 0:
        worst = max(exact_delta(a, b, times, lower - 1e-9) for a, b in (rows, rows[::-1]))
        assert worst >= Fraction(delta) * Fraction(999, 1000)
    assert found.epsilon <= found.pure_epsilon
    used = [z for z in range(3) if rows[0][z]]
    pure = max(abs(math.log(rows[0][z] / rows[1][z])) for z in used)
    assert math.isclose(found.pure_epsilon, times * pure, rel_tol=1e-9)


def test_many_reports_cost_much_less_than_their_sum() -> None:
    """The example of the design: epsilon d = 0.107, a thousand reports, delta one in a million."""
    mechanism = wh.optimal(wh.Places.from_xy(np.array([[0, 0], [0.1, 0]])), [0.5, 0.5], 1.07)
    found = wh.accounted_epsilon(mechanism, 1000, 1e-6)
    assert math.isclose(found.pure_epsilon, 107, rel_tol=1e-6)
    advanced = 0.107 * math.sqrt(2000 * math.log(1e6)) + 1000 * 0.107 * math.expm1(0.107)
    assert 10 < found.epsilon < advanced


def test_the_worst_pair_is_found() -> None:
    mechanism = wh.exponential(LINE, 1.0)
    every = wh.accounted_epsilon(mechanism, 3, 1e-3)
    each = {
        pair: wh.accounted_epsilon(mechanism, 3, 1e-3, pair=pair).epsilon
        for pair in ((0, 1), (0, 2), (1, 2))
    }
    assert every.pairs == 3
    assert math.isclose(every.epsilon, max(each.values()))
    assert each[every.pair] == max(each.values())
    near = wh.accounted_epsilon(mechanism, 3, 1e-3, within_km=0.5)
    assert (near.pair, near.pairs) == ((0, 1), 1)


def test_a_ratio_that_is_infinite_stays_so_unless_delta_covers_it() -> None:
    rows = np.array([[0.5, 0.5, 0.0], [0.5, 0.4, 0.1]])
    mechanism = wh.Mechanism(rows, wh.Places.from_xy([[0, 0], [1, 0]]), LINE)
    found = wh.accounted_epsilon(mechanism, 2, 1e-3)
    assert math.isinf(found.pure_epsilon)
    assert math.isinf(found.epsilon)
    assert math.isfinite(wh.accounted_epsilon(mechanism, 2, 0.25).epsilon)
    same = wh.Mechanism(rows[[0, 0]], wh.Places.from_xy([[0, 0], [1, 0]]), LINE)
    assert wh.accounted_epsilon(same, 2, 0.25).epsilon == 0


def test_wrong_questions_are_refused() -> None:
    mechanism = wh.exponential(LINE, 1.0)
    for change in ({"reports": 0}, {"delta": 0}, {"delta": 1}, {"pair": (0, 0)}, {"pair": (0, 3)},
                   {"pair": "x"}, {"within_km": 1e-3}, {"mechanism": 3}):  # fmt: skip
        asked = {"mechanism": mechanism, "reports": 2, "delta": 0.1, **change}
        with pytest.raises(wh.InputError):
            accounting.accounted_epsilon(**asked)  # type: ignore[arg-type]
