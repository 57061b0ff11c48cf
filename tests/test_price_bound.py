"""Large sets of places: the bound from prices is never too high, the mechanism is private."""

from __future__ import annotations

import inspect
from dataclasses import replace
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
from whereish.deadline import Deadline
from whereish.measures import streamed_bound
from whereish.mechanisms import coarse, lifted, price_bound
from whereish.mechanisms.price_bound import Problem
from whereish.mechanisms.repairing import repair_and_check
from whereish.programs import greedy_spanner, least_loss
from whereish.solvers import solve

Floats = some.Floats


def optimum(prior: Floats, loss: Floats, epsilon: float, metric: Floats) -> float:
    """Return the least loss, from HiGHS with all pairs."""
    spanner = greedy_spanner(metric, 1.0)
    program = least_loss(prior, loss, spanner.edges, epsilon * spanner.lengths)
    return solve(program).objective


def rows_of(proofs: list[wh.Proof]) -> list[tuple[int, int, int, float]]:
    return [
        row
        for part in proofs
        for row in zip(
            part.output.tolist(), part.left.tolist(), part.right.tolist(), part.value.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def slow_bound(proofs: list[wh.Proof], problem: Problem) -> Fraction:
    """Compute LB(y) with rational numbers, with code that shares nothing with the library."""
    return checks.least_proved_bound(
        rows_of(proofs), problem.prior.tolist(), problem.loss.tolist(), problem.epsilon,
        problem.metric.tolist(),
    )  # fmt: skip


def problem_of(where: wh.Places, prior: Floats, epsilon: float) -> Problem:
    metric = wh.euclidean(where)
    return Problem(prior, metric, epsilon, metric)


def coarse_of(problem: Problem, clusters: int) -> Any:
    parts = (problem.prior, problem.loss, problem.epsilon, problem.metric)
    return coarse.solve_coarse(*parts, clusters)


def proved(problem: Problem, clusters: int) -> tuple[float, list[wh.Proof]]:
    found = coarse_of(problem, clusters)
    if found is None:
        return 0.0, []
    decay = problem.decay()
    prices = price_bound.improved(problem, found.prices, decay, None)
    proofs = list(price_bound.proofs(problem, prices, decay))
    return streamed_bound(proofs, problem.prior, problem.loss, problem.metric), proofs


@examples(60)
@given(profile=some.profiles(3, 9), epsilon=st.sampled_from([0.2, 1.07, 4.0]), data=st.data())
def test_the_bound_is_at_most_the_optimum(
    profile: tuple[wh.Places, Floats], epsilon: float, data: st.DataObject
) -> None:
    where, prior = profile
    problem = problem_of(where, prior, epsilon)
    bound, proofs = proved(problem, data.draw(st.integers(2, 9)))
    least = optimum(prior, problem.loss, epsilon, problem.metric)
    assert bound <= least + 1e-9 * problem.loss.max()
    exact = slow_bound(proofs, problem)
    assert Fraction(bound) <= exact
    assert float(exact) - bound <= 1e-9 * problem.loss.max()


@examples(20)
@given(data=st.data(), epsilon=st.sampled_from([0.3, 1.0]))
def test_other_metrics_and_outputs(data: st.DataObject, epsilon: float) -> None:
    n = data.draw(st.integers(3, 8))
    metric, prior = data.draw(some.graph_metrics(n)), data.draw(some.priors(n))
    loss = np.random.default_rng(n).uniform(0, 3, (n, data.draw(st.integers(1, 5))))
    bound, _ = proved(Problem(prior, loss, epsilon, metric), n)
    assert bound <= optimum(prior, loss, epsilon, metric) + 1e-9


def test_all_places_as_clusters_give_nearly_the_optimum() -> None:
    where, prior = some.grid(6, 5), some.skewed(30, 3)
    problem = problem_of(where, prior, 1.07)
    bound, _ = proved(problem, 30)
    least = optimum(prior, problem.loss, 1.07, problem.metric)
    assert 0.97 * least <= bound <= least + 1e-9


def test_fewer_clusters_still_give_most_of_it() -> None:
    where, prior = some.grid(9, 8), some.skewed(72, 3)
    problem = problem_of(where, prior, 1.07)
    least = wh.optimal(where, prior, 1.07, tolerance=1e-4).build.lower_bound_km
    assert least is not None
    bound, _ = proved(problem, 36)
    assert 0.8 * least <= bound <= least * (1 + 2e-4)


def test_raised_prices_are_covered_and_prove_more() -> None:
    where, prior = some.grid(9, 8), some.skewed(72, 3)
    problem = problem_of(where, prior, 3.0)
    whole = coarse_of(problem, 12)
    decay = problem.decay()
    least = wh.optimal(where, prior, 3.0, tolerance=1e-4).build.lower_bound_km
    assert least is not None
    bounds = []
    for deadline in (Deadline(0.0), Deadline()):  # one pass; as many as help
        prices = price_bound.improved(problem, whole.prices, decay, None, deadline)
        rows = list(price_bound.proofs(problem, prices, decay))
        bounds.append(streamed_bound(rows, prior, problem.loss, problem.metric))
    assert bounds[-1] == pytest.approx(prices.sum(), rel=0.02)
    assert 1.02 * bounds[0] < bounds[1] <= least * (1 + 2e-4)


@pytest.mark.parametrize("effort", price_bound.EFFORTS)
def test_less_effort_proves_less_and_never_too_much(effort: price_bound.Effort) -> None:
    where, prior = some.grid(9, 8), some.skewed(72, 3)
    problem = problem_of(where, prior, 1.07)
    whole = coarse_of(problem, 36)
    decay = problem.decay()
    prices = price_bound.improved(problem, whole.prices, decay, effort=effort)
    rows = price_bound.proofs(problem, prices, decay, effort, Deadline(0.0))
    least = wh.optimal(where, prior, 1.07, tolerance=1e-4).build.lower_bound_km
    assert least is not None
    assert 0.3 * least < streamed_bound(rows, prior, problem.loss, problem.metric)
    rows = price_bound.proofs(problem, prices, decay, effort, Deadline(0.0))
    assert streamed_bound(rows, prior, problem.loss, problem.metric) <= least * (1 + 2e-4)


class TestStreamedBound:
    where, prior = some.grid(4, 3), some.skewed(12, 5)
    metric = wh.euclidean(where)

    @staticmethod
    def part(proof: wh.Proof, rows: Any) -> wh.Proof:
        """Return the proof with some of its rows."""
        arrays: list[Any] = [proof.output, proof.left, proof.right, proof.value]
        return wh.Proof(proof.epsilon, *(array[rows] for array in arrays))

    def proofs(self) -> list[wh.Proof]:
        return proved(problem_of(self.where, self.prior, 1.07), 12)[1]

    def bound(self, proofs: list[wh.Proof]) -> float:
        return streamed_bound(proofs, self.prior, self.metric, self.metric)

    def test_it_agrees_with_the_bound_of_a_file(self) -> None:
        (proof,) = self.proofs()
        whole = wh.lower_bound(proof, self.prior, self.metric, self.metric)
        assert 0 < self.bound([proof]) <= whole
        assert self.bound([proof]) == pytest.approx(whole, rel=1e-9)

    def test_parts_add_up(self) -> None:
        (proof,) = self.proofs()
        parts = [self.part(proof, some_) for some_ in (proof.output < 5, proof.output >= 5)]
        assert self.bound(parts) == pytest.approx(self.bound([proof]), rel=1e-9)
        with pytest.raises(wh.GuaranteeError, match="in order"):
            self.bound(parts[::-1])

    def test_an_output_in_two_parts_is_refused(self) -> None:
        (proof,) = self.proofs()
        half = len(proof.value) // 2
        assert proof.output[half - 1] == proof.output[half]
        parts = [self.part(proof, rows) for rows in (slice(half), slice(half, None))]
        with pytest.raises(wh.GuaranteeError, match="in one part"):
            self.bound(parts)

    def test_nothing_proves_nothing(self) -> None:
        assert self.bound([]) <= 0

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"value": -1.0}, "negative"),
            ({"value": np.nan}, "negative"),
            ({"value": np.inf}, "negative"),
            ({"left": 12}, "none"),
            ({"output": -1}, "none"),
            ({"left": 3, "right": 3}, "itself"),
        ],
    )
    def test_a_forged_row_is_refused(self, change: dict[str, float], why: str) -> None:
        row = {"output": 0, "left": 1, "right": 2, "value": 0.1} | change
        kinds = (np.int32, np.int32, np.int32, np.float64)
        arrays = (np.array([v], k) for v, k in zip(row.values(), kinds, strict=True))
        with pytest.raises(wh.GuaranteeError, match=why):
            self.bound([wh.Proof(1.07, *arrays)])

    def test_parts_at_different_epsilons_are_refused(self) -> None:
        """A row at a smaller epsilon need not hold for a mechanism at a larger one."""
        one, other = (
            wh.Proof(
                level,
                *(
                    np.array([z], np.int32),
                    np.array([1], np.int32),
                    np.array([2], np.int32),
                    np.array([0.1]),
                ),
            )
            for z, level in ((0, 1.07), (1, 0.5))
        )
        self.bound([one])
        with pytest.raises(wh.GuaranteeError, match="the same epsilon"):
            self.bound([one, other])

    def test_planted_a_term_left_out_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A judge that forgets what is taken at the right place proves more than the optimum."""
        least = optimum(self.prior, self.metric, 1.07, self.metric)
        (proof,) = self.proofs()
        more = replace(proof, value=5 * proof.value)  # also multipliers, if not good ones
        assert self.bound([more]) <= least
        honest, calls = np.bincount, iter(range(9))

        def forgets(cells: Any, weights: Any, size: int) -> Any:
            return honest(cells, weights, size) * (next(calls) == 0)

        monkeypatch.setattr(np, "bincount", forgets)
        assert self.bound([more]) > least


class TestLifted:
    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [0.5, 1.07, 3.0])
    def test_it_is_private_and_near_the_optimum(self, epsilon: float) -> None:
        where, prior = some.grid(9, 8), some.skewed(72, 3)
        metric = wh.euclidean(where)
        whole = coarse_of(problem_of(where, prior, epsilon), 50)
        matrix = lifted.lifted_matrix(prior, metric, epsilon, metric, whole)
        assert matrix is not None
        made = repair_and_check(matrix, where, where, epsilon, metric, wh.Build("lifted"))
        assert not checks.broken_ratios(made.matrix.tolist(), epsilon, where.xy.tolist())
        least = wh.optimal(where, prior, epsilon, tolerance=1e-4).build.lower_bound_km
        assert least is not None
        assert least <= wh.quality_loss(made, prior) <= 1.25 * least


class TestLarge:
    @pytest.fixture(autouse=True)
    def _few_are_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for function in (wh.optimal, wh.how_far):
            monkeypatch.setitem(inspect.unwrap(function).__globals__, "LARGE_PLACES", 40)

    where, prior = some.grid(8, 7), some.skewed(56, 3)

    def test_a_closed_form_has_a_gap(self) -> None:
        told: list[object] = []
        built = wh.optimal(self.where, self.prior, 1.07, method="closed-form", progress=told.append)
        closed = wh.closed_form(self.where, self.prior, 1.07)
        assert (built.matrix == closed.matrix).all()
        least = wh.optimal(self.where, self.prior, 1.07, tolerance=1e-4).build.lower_bound_km
        assert built.build.lower_bound_km is not None
        assert least is not None
        assert 0.9 * least <= built.build.lower_bound_km <= least * (1 + 2e-4)
        assert built.proof is not None
        metric = wh.euclidean(self.where)
        again = wh.lower_bound(built.proof, self.prior, metric, metric)
        assert again == pytest.approx(built.build.lower_bound_km, rel=1e-9)
        assert told

    @pytest.mark.parametrize(
        ("most_local", "method"), [(6_000, "local-optimal+remap"), (0, "coarse-optimal+remap")]
    )
    def test_auto_takes_the_better_one(
        self, most_local: int, method: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("whereish.mechanisms.large_bound._MOST_LOCAL", most_local)
        built = wh.optimal(self.where, self.prior, 1.07, method="auto", memory_limit_gb=1e-6)
        closed = wh.closed_form(self.where, self.prior, 1.07)
        assert wh.quality_loss(built, self.prior) <= wh.quality_loss(closed, self.prior)
        assert built.build.gap is not None
        assert built.build.gap < 0.1
        assert built.build.method == method

    def test_a_bound_comes_out_even_if_the_time_is_up(self) -> None:
        built = wh.optimal(
            self.where, self.prior, 1.07, method="auto", memory_limit_gb=1e-6, time_limit_s=1e-6
        )
        least = wh.optimal(self.where, self.prior, 1.07, tolerance=1e-4).build.lower_bound_km
        assert least is not None
        assert built.build.lower_bound_km is not None
        assert 0 < built.build.lower_bound_km <= least * (1 + 2e-4)

    @pytest.mark.parametrize(
        ("most_local", "note"), [(6_000, "epsilon long"), (0, "clusters of places")]
    )
    def test_how_far_uses_prices(
        self, most_local: int, note: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("whereish.mechanisms.large_bound._MOST_LOCAL", most_local)
        built = wh.how_far(wh.exponential(self.where, 1.07), self.prior)
        assert note in built.build.notes[-1]

    @pytest.mark.parametrize("most_local", [6_000, 0])
    def test_how_far_tells_how_much_is_done(
        self, most_local: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("whereish.mechanisms.large_bound._MOST_LOCAL", most_local)
        told: list[tuple[int, int]] = []
        made = wh.exponential(self.where, 1.07)
        wh.how_far(made, self.prior, progress=lambda done, all_: told.append((done, all_)))
        assert told
        assert all(0 <= done < all_ for done, all_ in told)

    @pytest.mark.parametrize("outputs", [[3], [0, 55], [1, 8, 20, 21, 22, 40]])
    def test_few_outputs(self, outputs: list[int]) -> None:
        """Places that are far from all outputs are in the support of the best one."""
        built = wh.optimal(
            self.where, self.prior, 2.0, method="auto", memory_limit_gb=1e-6, outputs=outputs
        )
        best = wh.optimal(self.where, self.prior, 2.0, outputs=outputs)
        assert best.build.lower_bound_km is not None
        assert built.build.lower_bound_km is not None
        assert built.build.lower_bound_km <= best.build.lower_bound_km * (1 + 1e-5)
        assert wh.quality_loss(built, self.prior) >= best.build.lower_bound_km * (1 - 1e-9)

    def test_outputs_that_are_far_from_most_places(self) -> None:
        """exp(-eps d) to half of them is 0 in doubles."""
        far = wh.Places.from_xy([*self.where.xy.tolist(), [3000.0, 0.0], [3000.5, 0.0]])
        prior = np.append(self.prior, [0.1, 0.1]) / 1.2
        built = wh.optimal(far, prior, 2.0, method="auto", memory_limit_gb=1e-6, outputs=[56, 57])
        assert built.epsilon == 2.0
        assert built.build.lower_bound_km is not None
        assert built.build.lower_bound_km <= wh.quality_loss(built, prior)

    @pytest.mark.parametrize("zeros", [0.3, 0.6])
    def test_auto_is_never_worse_than_the_closed_form(self, zeros: float) -> None:
        prior = np.where(np.random.default_rng(7).random(56) < zeros, 0.0, self.prior)
        prior /= prior.sum()
        built = wh.optimal(self.where, prior, 4.0, method="auto", memory_limit_gb=1e-6)
        closed = wh.closed_form(self.where, prior, 4.0)
        assert wh.quality_loss(built, prior) <= wh.quality_loss(closed, prior)
        assert built.build.gap is not None
        assert built.build.gap < 0.5

    def test_a_large_proof_is_not_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("whereish.mechanisms.large_bound._KEPT_ROWS", 10)
        built = wh.how_far(wh.exponential(self.where, 1.07), self.prior)
        assert built.proof is None
        assert "is not kept" in built.build.notes[-1]
        assert built.build.lower_bound_km is not None
        assert built.build.lower_bound_km > 0
