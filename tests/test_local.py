"""Programs with small supports: the bound is never too high, the mechanism is private."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples
from test_price_bound import optimum, problem_of, rows_of, slow_bound
from whereish.deadline import Deadline
from whereish.measures import streamed_bound
from whereish.mechanisms import large_bound, local, outside, price_bound, supports
from whereish.mechanisms.coarse import solve_coarse
from whereish.mechanisms.lifted import private_matrix
from whereish.mechanisms.price_bound import Problem
from whereish.mechanisms.repairing import repair_and_check

Floats = some.Floats


def grid(side: int, seed: int, epsilon: float) -> tuple[wh.Places, Problem]:
    places = wh.Places.from_xy([[0.5 * i, 0.5 * j] for j in range(side) for i in range(side)])
    prior = np.random.default_rng(seed).gamma(0.3, size=side * side)
    return places, problem_of(places, prior / prior.sum(), epsilon)


def solved(problem: Problem, clusters: int, some_outputs: int | None = None) -> local.Local | None:
    parts = (problem.prior, problem.loss, problem.epsilon, problem.metric)
    first = solve_coarse(*parts, clusters)
    if first is None:
        return None
    outputs = np.arange(problem.loss.shape[1])
    if some_outputs is not None:
        outputs = supports.spread_outputs(problem, first, some_outputs)
    return local.solve_in_rounds(problem, outputs, first, problem.decay(), Deadline(60))


@examples(30)
@given(profile=some.profiles(4, 9), epsilon=st.sampled_from([0.5, 2.0, 6.0]))
def test_the_bound_is_at_most_the_optimum(
    profile: tuple[wh.Places, Floats], epsilon: float
) -> None:
    """Supports of a few of the places, so that places are outside."""
    places, prior = profile
    problem = problem_of(places, prior, epsilon)
    found = solved(problem, 3)
    if found is None:
        return
    proofs = list(local.local_proofs(problem, found, problem.decay()))
    bound = streamed_bound(proofs, problem.prior, problem.loss, problem.metric)
    best = optimum(problem.prior, problem.loss, epsilon, problem.metric)
    assert bound <= best * (1 + 1e-9) + 1e-12
    assert bound <= float(slow_bound(proofs, problem)) * (1 + 1e-12) + 1e-15
    assert all(value >= 0 for *_, value in rows_of(proofs))


@pytest.mark.slow
def test_bound_and_mechanism_are_close_to_the_optimum() -> None:
    places, problem = grid(15, 3, 2.0)
    found = solved(problem, 60)
    assert found is not None
    decay = problem.decay()
    proofs = local.local_proofs(problem, found, decay)
    bound = streamed_bound(proofs, problem.prior, problem.loss, problem.metric)
    exact = wh.optimal(places, problem.prior, 2.0, solver="structured")
    best = exact.build.lower_bound_km
    assert best is not None
    matrix = private_matrix(
        problem.prior, problem.loss, 2.0, problem.metric, local.local_columns(problem, found)
    )
    assert matrix is not None
    made = repair_and_check(matrix, places, places, 2.0, problem.metric, wh.Build("local"))
    loss = float((problem.prior[:, None] * problem.loss * made.matrix).sum())
    assert 0.9 * best < bound <= best * (1 + 1e-5)
    assert best * (1 - 1e-9) <= loss < 1.06 * best


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_with_some_outputs_the_bound_is_of_all_mechanisms(epsilon: float) -> None:
    """The prices of a program with some of the outputs are too high for the others."""
    places, problem = grid(9, 4, epsilon)
    found = solved(problem, 20, 25)
    assert found is not None
    assert 25 <= len(found.outputs) < 81
    bound = large_bound.local_bound(problem, found, Deadline(30))
    best = wh.optimal(places, problem.prior, epsilon).build.lower_bound_km
    assert best is not None
    assert 0.8 * best < bound.bound <= best * (1 + 1e-5)
    assert bound.proof is not None
    again = wh.lower_bound(bound.proof, problem.prior, problem.loss, problem.metric)
    assert again == pytest.approx(bound.bound, rel=1e-9)
    assert "outputs" in bound.note


def test_outputs_are_spread_over_all_places() -> None:
    _, problem = grid(12, 4, 2.0)
    first = solve_coarse(problem.prior, problem.loss, 2.0, problem.metric, 20)
    assert first is not None
    chosen = supports.spread_outputs(problem, first, 40)
    assert (np.diff(chosen) > 0).all()
    assert set(first.outputs.tolist()) <= set(chosen.tolist())
    assert int(problem.prior.argmax()) in chosen
    nearest = problem.loss[:, chosen].min(axis=1)
    assert nearest.max() <= 1.5  # on a grid of 0.5 km, each of 40 outputs serves 4 places


@pytest.mark.parametrize("scale", [0.3, 1.0, 1.1, 3.0])
def test_prices_are_lowered_until_hardly_anything_is_uncovered(scale: float) -> None:
    _, problem = grid(9, 4, 2.0)
    first = solve_coarse(problem.prior, problem.loss, 2.0, problem.metric, 60)
    assert first is not None
    lowered = price_bound.nearly_covered(problem, scale * first.prices, problem.decay())
    share = float((lowered / (scale * first.prices)).max())
    assert min(abs(share - one) for one in price_bound._SHARES) < 1e-12
    assert lowered == pytest.approx(share * scale * first.prices)
    assert (share == 1) == (scale == 0.3)


@examples(40)
@given(data=st.data(), epsilon=st.sampled_from([0.5, 2.0, 8.0]), far=st.integers(0, 3))
def test_supports_have_their_centre_first_and_no_place_twice(
    data: st.DataObject, epsilon: float, far: int
) -> None:
    places, prior = data.draw(some.profiles(3, 12))
    problem = problem_of(places, prior, epsilon)
    size = data.draw(st.integers(1, 12))
    centres = problem.loss.argmin(axis=0)
    chosen = supports.supports_of(problem, centres, 2.0, size, far)
    for output, centre in enumerate(centres):
        mine = chosen.of(output).tolist()
        assert mine[0] == centre
        assert len(set(mine)) == len(mine) >= 2
        assert 2 <= chosen.near[output] <= len(mine) <= chosen.near[output] + far
        near = problem.metric[centre, mine[: chosen.near[output]]]
        left_out = np.setdiff1d(np.arange(len(prior)), mine[: chosen.near[output]])
        if len(left_out) and chosen.near[output] > 2:
            assert near.max() <= problem.metric[centre, left_out].min() * (1 + 1e-12)


@examples(40)
@given(profile=some.profiles(4, 10), epsilon=st.sampled_from([0.5, 2.0, 6.0]), data=st.data())
def test_the_costs_of_supports_are_what_the_flows_leave(
    profile: tuple[wh.Places, Floats], epsilon: float, data: st.DataObject
) -> None:
    """Costs plus flows of an output, added up one by one: no place outside falls below its price.

    And each place of a support has exactly the cost that the program gets.
    """
    places, prior = profile
    problem = problem_of(places, prior, epsilon)
    n = len(prior)
    centres = np.arange(n)
    chosen = supports.supports_of(problem, centres, 1.5, 3, 1)
    scale = data.draw(st.floats(0.0, 0.5))
    prices = scale * prior * problem.metric.mean(axis=1)
    found = outside.outside_of(problem, chosen, centres, prices, problem.decay())
    for output in range(n):
        mine = chosen.of(output)
        near = set(mine[: chosen.near[output]].tolist())
        left = (prior * problem.loss[:, output]).tolist()
        flows = [
            (a, b, y)
            for a, b, y in zip(
                found.common.left, found.common.right, found.common.value, strict=True
            )
            if a not in near and b not in near
        ]
        piece, at = divmod(output, outside.AT_ONCE)
        for rows in (found.given[piece], found.charged[piece]):
            flows += [(a, b, y) for o, a, b, y in zip(*rows, strict=True) if o == at]
        for a, b, y in flows:
            assert y >= 0
            left[b] -= y
            left[a] += y * np.exp(-epsilon * problem.metric[a, b])
        entries = slice(chosen.first[output], chosen.first[output + 1])
        assert np.maximum(np.array(left)[mine], 0) == pytest.approx(
            found.costs[entries], rel=1e-5, abs=1e-7
        )


def test_a_proof_with_more_than_there_is_would_be_caught() -> None:
    """A planted bug: twice the multipliers prove nothing more."""
    places, problem = grid(6, 1, 3.0)
    found = solved(problem, 12)
    assert found is not None
    proofs = list(local.local_proofs(problem, found, problem.decay()))
    best = wh.optimal(places, problem.prior, 3.0).build.lower_bound_km
    assert best is not None
    twice = [
        wh.Proof(part.epsilon, part.output, part.left, part.right, 2 * part.value)
        for part in proofs
    ]
    assert streamed_bound(twice, problem.prior, problem.loss, problem.metric) < best


@pytest.mark.slow
def test_auto_uses_it_where_columns_are_short() -> None:
    """A sample of the ratios holds in exact arithmetic, by code that shares nothing."""
    places, problem = grid(23, 2, 3.0)
    made = wh.optimal(places, problem.prior, 3.0, method="auto", time_limit_s=25.0)
    assert made.build.gap is not None
    assert 0 <= made.build.gap < 1
    some_places = np.random.default_rng(5).choice(len(places), 12, replace=False)
    counts = made.counts[some_places].tolist()
    metric = problem.metric[np.ix_(some_places, some_places)].tolist()
    assert checks.broken_counts(counts, 3.0, metric=metric) == []
