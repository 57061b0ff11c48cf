"""Proofs of lower bounds: they hold, and a wrong proof or answer is detected."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.measures import privacy
from whereish.mechanisms.plan import plan
from whereish.solvers import Progress, Structured, solve_structured


def optimum_of(places: wh.Places, prior: some.Floats, epsilon: float, **options: Any) -> float:
    exact = wh.optimal(places, prior, epsilon, solver="highs-dual-simplex", **options)
    return wh.quality_loss(exact, prior, options.get("quality_metric"))


def exactly(proof: wh.Proof, places: wh.Places, prior: some.Floats, loss: some.Floats) -> float:
    rows = zip(
        proof.output.tolist(),
        proof.left.tolist(),
        proof.right.tolist(),
        proof.value.tolist(),
        strict=True,
    )
    return checks.proved_bound(
        list(rows), prior.tolist(), loss.tolist(), proof.epsilon, wh.euclidean(places).tolist()
    )


def scattered(seed: int, n: int = 14) -> tuple[wh.Places, some.Floats]:
    rng = np.random.default_rng(seed)
    return wh.Places.from_xy(rng.uniform(0, 4, (n, 2))), some.skewed(n, seed)


@pytest.mark.parametrize("seed", range(6))
def test_exact_arithmetic_confirms_the_bound(seed: int) -> None:
    places, prior = scattered(seed)
    epsilon = (0.3, 1.07, 4.0)[seed % 3]
    built = wh.optimal(places, prior, epsilon, solver="structured")
    assert built.proof is not None
    assert built.build.lower_bound_km is not None
    bound = exactly(built.proof, places, prior, wh.euclidean(places))
    assert bound == pytest.approx(built.build.lower_bound_km, rel=1e-11)
    optimum = optimum_of(places, prior, epsilon)
    assert optimum * (1 - 1e-6) - 1e-12 <= bound <= optimum * (1 + 1e-9)


@examples(60)
@given(some.profiles(2, 8), st.floats(0.05, 6.0), st.data())
def test_proofs_hold_for_whatever_is_generated(
    profile: tuple[wh.Places, some.Floats], epsilon: float, data: st.DataObject
) -> None:
    """Graph metrics, losses that are no metric, every solver: bound <= optimum <= loss."""
    places, prior = profile
    n = len(places)
    metric, quality = data.draw(some.metrics_and_losses(n))
    solver = data.draw(st.sampled_from(["structured", "auto", "highs-ipm"]))
    form = data.draw(st.sampled_from([None, "dual"])) if solver == "highs-ipm" else None
    built = wh.optimal(
        places, prior, epsilon, privacy_metric=metric, quality_metric=quality, solver=solver,
        form=form,
    )  # fmt: skip
    optimum = optimum_of(places, prior, epsilon, privacy_metric=metric, quality_metric=quality)
    assert built.build.lower_bound_km is not None
    assert optimum * (1 - 2e-6) - 1e-8 <= built.build.lower_bound_km <= optimum + 1e-9
    assert wh.quality_loss(built, prior, quality) == pytest.approx(optimum, rel=2e-6, abs=1e-8)


@pytest.mark.parametrize("dilation", [1.05, 1.2, 1.5])
def test_the_true_optimum_is_inside_the_bracket(dilation: float) -> None:
    places, prior = scattered(3, 16)
    built = wh.optimal(places, prior, 1.07, dilation, solver="structured")
    truth = optimum_of(places, prior, 1.07)
    assert built.build.lower_bound_km is not None
    assert built.build.gap is not None
    loss = wh.quality_loss(built, prior)
    assert built.build.lower_bound_km <= truth * (1 + 1e-9) <= loss * (1 + 2e-9)
    assert built.build.gap == pytest.approx(1 - built.build.lower_bound_km / loss)
    assert built.build.program_gap is not None
    assert built.build.program_gap <= 1e-6 < built.build.gap


class TestPlantedFailures:
    """Each must be caught by code that shares nothing with the solver."""

    places, prior = scattered(1)
    distances = wh.euclidean(places)

    def proved(self) -> wh.Proof:
        proof = wh.optimal(self.places, self.prior, 1.07, solver="structured").proof
        assert proof is not None
        return proof

    def gap(self, proof: wh.Proof) -> float:
        optimum = optimum_of(self.places, self.prior, 1.07)
        return 1 - wh.lower_bound(proof, self.prior, self.distances, self.distances) / optimum

    def test_a_negative_multiplier(self) -> None:
        proof = self.proved()
        value = proof.value.copy()
        value[value.argmax()] *= -1
        with pytest.raises(wh.GuaranteeError, match="a multiplier is negative"):
            self.gap(replace(proof, value=value))

    def test_a_wrong_sign(self) -> None:
        """Rows read the other way round: then nothing is proved."""
        proof = self.proved()
        assert self.gap(proof) <= 1e-6
        assert self.gap(replace(proof, left=proof.right, right=proof.left)) > 1e-3

    def test_a_missing_multiplier(self) -> None:
        proof = self.proved()
        keep = np.arange(len(proof.value)) != proof.value.argmax()
        names = ("output", "left", "right", "value")
        less = replace(proof, **{name: getattr(proof, name)[keep] for name in names})
        assert self.gap(less) > 1e-6

    def test_rows_about_nothing(self) -> None:
        proof = self.proved()
        with pytest.raises(wh.GuaranteeError, match="about a place that is none"):
            self.gap(replace(proof, left=proof.left + 100))
        with pytest.raises(wh.GuaranteeError, match="about an output that is none"):
            self.gap(replace(proof, output=proof.output + 100))

    @pytest.mark.slow
    def test_a_missing_pair(self) -> None:
        """Solved without one pair, the answer is too good to be private, and the check says so."""
        spanner = wh.greedy_spanner(self.distances, 1.0)
        caught = 0
        for e in range(len(spanner.edges)):
            keep = np.arange(len(spanner.edges)) != e
            found = solve_structured(
                self.prior, self.distances, spanner.edges[keep], 1.07 * spanner.lengths[keep],
                1.07 * self.distances,
            )  # fmt: skip
            matrix = found.matrix / found.matrix.sum(axis=1, keepdims=True)
            if found.loss < optimum_of(self.places, self.prior, 1.07) * (1 - 1e-6):
                with pytest.raises(wh.GuaranteeError, match="not private"):
                    privacy.check_private(matrix, 1.07, self.distances)
                caught += 1
        assert caught > 0

    def test_a_stopped_iteration(self) -> None:
        """The gap that independent code works out is open; what came is private all the same."""
        built = wh.optimal(
            self.places,
            self.prior,
            1.07,
            solver="structured",
            progress=lambda now: now.iteration < 4,
        )
        assert built.build.stopped == "asked"
        assert built.build.gap is not None
        assert built.build.gap > 1e-3
        assert built.proof is not None
        bound = wh.lower_bound(built.proof, self.prior, self.distances, self.distances)
        assert (
            bound < optimum_of(self.places, self.prior, 1.07) < wh.quality_loss(built, self.prior)
        )
        assert checks.broken_ratios(built.matrix.tolist(), 1.07, self.places.xy.tolist()) == []


class TestStopping:
    places, prior = some.grid(6, 5), some.skewed(30)

    def solve(self, progress: Any) -> Structured:
        distances = wh.euclidean(self.places)
        spanner = wh.greedy_spanner(distances, 1.0)
        return solve_structured(
            self.prior, distances, spanner.edges, 1.07 * spanner.lengths, 1.07 * distances,
            progress=progress,
        )  # fmt: skip

    def test_ctrl_c_ends_it_with_the_best_so_far(self) -> None:
        before = signal.getsignal(signal.SIGINT)

        def interrupt(now: Progress) -> None:
            if now.iteration == 5:
                os.kill(os.getpid(), signal.SIGINT)

        found = self.solve(interrupt)
        assert found.stopped == "asked"
        assert found.iterations <= 7
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_second_ctrl_c_is_an_interrupt(self) -> None:
        def interrupt(now: Progress) -> None:
            signal.raise_signal(signal.SIGINT)  # handled before it returns
            signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            self.solve(interrupt)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_a_solve_puts_the_handler_of_python_back_first(self) -> None:
        """Other code (polars) may have replaced it below Python, where nobody sees it."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.signal.restype, libc.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
        ignore = 1
        libc.signal(signal.SIGINT, ignore)
        self.test_a_second_ctrl_c_is_an_interrupt()

    def test_another_thread_may_solve(self) -> None:
        found: list[Structured] = []
        thread = threading.Thread(target=lambda: found.append(self.solve(None)))
        thread.start()
        thread.join()
        assert found[0].stopped == "solved"

    def test_a_loose_tolerance_is_quicker(self) -> None:
        seen: list[int] = []
        for tolerance in (1e-2, 1e-8):
            count: list[Progress] = []
            built = wh.optimal(
                self.places, self.prior, 1.07, tolerance=tolerance, progress=count.append,
                solver="structured",
            )  # fmt: skip
            assert built.build.gap is not None
            assert built.build.gap <= tolerance
            seen.append(len(count))
        assert seen[0] < seen[1]


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.07, 3.0, 10.0, 25.0, 50.0])
def test_epsilon_from_tiny_to_huge(epsilon: float) -> None:
    """25 places, 7 km across: the gap closes, the repair costs next to nothing, no ratio breaks."""
    rng = np.random.default_rng(int(epsilon * 100))
    xy = np.array([[1.4 * i, 1.4 * j] for j in range(5) for i in range(5)])
    places, prior = wh.Places.from_xy(xy + rng.uniform(0, 0.2, xy.shape)), some.skewed(25, 7)
    built = wh.optimal(places, prior, epsilon, solver="structured")
    loss = wh.quality_loss(built, prior)
    assert built.build.gap is not None
    assert built.build.gap <= 1e-6 or loss < 1e-18
    assert built.build.repair_cost_km is not None
    assert built.build.repair_cost_km <= 1e-6 * loss
    assert checks.broken_ratios(built.matrix.tolist(), epsilon, places.xy.tolist()) == []


@pytest.mark.parametrize("epsilon", [0.1, 1.07, 20.0])
def test_degenerate_places(epsilon: float) -> None:
    rng = np.random.default_rng(5)
    kinds = {
        "two": [[0, 0], [1, 0]],
        "collinear": [[0.7 * i, 0] for i in range(12)],
        "one metre and 30 km": [
            *rng.uniform(0, 0.003, (6, 2)),
            *(30 + rng.uniform(0, 0.003, (6, 2))),
        ],
    }
    for name, xy in kinds.items():
        places = wh.Places.from_xy(np.array(xy))
        n = len(places)
        for prior in (some.skewed(n, 2), np.eye(1, n, 1)[0]):
            built = wh.optimal(places, prior, epsilon, solver="structured")
            assert built.build.gap is not None
            assert built.build.gap <= 1e-6 or wh.quality_loss(built, prior) < 1e-9, name
            optimum = optimum_of(places, prior, epsilon)
            assert wh.quality_loss(built, prior) == pytest.approx(optimum, rel=2e-6, abs=1e-8), name


class TestClosedForm:
    def test_it_is_private_and_says_what_it_is(self) -> None:
        places, prior = some.grid(5, 4), some.skewed(20)
        built = wh.closed_form(places, prior, 1.07)
        assert built.build.method == "tight-constraints+remap"
        assert checks.broken_ratios(built.matrix.tolist(), 1.07, places.xy.tolist()) == []
        assert wh.quality_loss(built, prior) <= wh.quality_loss(
            wh.tight_constraints(places, 1.07), prior
        )

    def test_planar_laplace_where_tight_constraints_do_not_exist(self) -> None:
        places, prior = some.grid(5, 4), some.skewed(20)
        with pytest.raises(wh.SolveError):
            wh.tight_constraints(places, 0.2)
        built = wh.closed_form(places, prior, 0.2)
        assert built.build.method == "planar-laplace+remap"
        assert "does not exist" in built.build.notes[0]
        along = wh.graph_metric(20, [[i, i + 1] for i in range(19)] + [[0, 10]], np.full(20, 0.3))
        other = wh.closed_form(places, prior, 0.2, privacy_metric=along, outputs=[0, 3, 9])
        assert other.matrix.shape == (20, 3)
        assert checks.broken_ratios(other.matrix.tolist(), 0.2, metric=along.tolist()) == []

    def test_how_far_it_is_from_optimal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("whereish.mechanisms.partition_bound._SMALLEST_PART", 12)
        monkeypatch.setattr("whereish.mechanisms.partition_bound.BOUND_S", 0.0)
        places, prior = some.grid(6, 5), some.skewed(30)
        parts: list[tuple[int, int]] = []
        built = wh.how_far(
            wh.closed_form(places, prior, 1.07), prior, progress=lambda *p: parts.append(p)
        )
        assert parts == [(i, 4) for i in range(4)]
        optimum = optimum_of(places, prior, 1.07)
        assert built.proof is not None
        assert built.build.lower_bound_km is not None
        assert 0.3 * optimum < built.build.lower_bound_km <= optimum * (1 + 1e-9)
        bound = exactly(built.proof, places, prior, wh.euclidean(places))
        assert bound == pytest.approx(built.build.lower_bound_km, rel=1e-11)
        with pytest.raises(wh.InputError, match="got one without"):
            wh.how_far(wh.optimal_privacy(places, prior, 0.5), prior)

    def test_stopped_it_is_never_worse_than_the_closed_form(self) -> None:
        places = some.grid(12, 10)
        prior = some.skewed(120)
        quick = wh.optimal(places, prior, 1.07, time_limit_s=0.01)
        closed = wh.closed_form(places, prior, 1.07)
        assert quick.build.stopped == "time"
        assert wh.quality_loss(quick, prior) <= wh.quality_loss(closed, prior) * (1 + 1e-9)
        assert wh.tightest_epsilon(quick) <= 1.07
        assert quick.build.gap is not None
        if quick.build.method != "optimal":
            assert "nothing better" in quick.build.notes[-1] or "better" in quick.build.notes[-1]

    def test_auto_does_not_wait_for_an_hour_unasked(self) -> None:
        chosen = plan("auto", 1000, 1000, 500_000, None, 100.0)
        assert chosen.method == "closed-form"
        assert "120 s is allowed" in chosen.why
        assert plan("auto", 1000, 1000, 500_000, 1e5, 100.0).method == "exact"

    def test_auto_chooses_and_says_why(self) -> None:
        places, prior = some.grid(5, 5), some.skewed(25)
        plans: list[wh.Plan] = []
        exact = wh.optimal(places, prior, 1.07, method="auto", announce=plans.append)
        assert (exact.build.method, plans[-1].method) == ("optimal", "exact")
        assert plans[-1].constraints == exact.build.constraints
        small = wh.optimal(
            places, prior, 1.07, method="auto", memory_limit_gb=1e-4, announce=plans.append
        )
        assert small.build.method == "tight-constraints+remap"
        assert "0.0001 GB is allowed" in plans[-1].why
        assert plans[-1].why in small.build.notes[-1]
        quick = wh.optimal(places, prior, 1.07, method="auto", time_limit_s=1e-6)
        assert "1e-06 s is allowed" in quick.build.notes[-1]
        with pytest.raises(wh.InputError, match="method must be one of exact, closed-form, auto"):
            wh.optimal(places, prior, 1.07, method="best")


def test_what_is_no_proof_no_mechanism_or_no_dilation() -> None:
    places, prior = scattered(1)
    distances = wh.euclidean(places)
    built = wh.optimal(places, prior, 1.07, solver="structured")
    assert built.proof is not None
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("proof must be", lambda: wh.lower_bound(None, prior, distances, distances)),  # type: ignore[arg-type]  # the wrong type is the test
        ("prior", lambda: wh.lower_bound(built.proof, prior[:5] / 2, distances, distances)),  # type: ignore[arg-type]  # known not to be None
        ("privacy_metric", lambda: wh.lower_bound(built.proof, prior, distances, distances[:3])),  # type: ignore[arg-type]  # as above
        ("needs a Mechanism", lambda: wh.how_far(3, prior)),  # type: ignore[arg-type]  # the wrong type is the test
        ("time_limit_s must", lambda: wh.how_far(built, prior, time_limit_s=-1.0)),
        ("dilation must", lambda: wh.optimal(places, prior, 1.07, 0.5, method="closed-form")),
    ]
    for words, call in wrong:
        with pytest.raises(wh.InputError, match=words):
            call()


@pytest.mark.parametrize("zeros", [False, True])
def test_the_tightest_epsilon_is_that_of_the_definition(zeros: bool) -> None:
    rng = np.random.default_rng(3)
    places = wh.Places.from_xy(rng.uniform(0, 3, (21, 2)))
    matrix = rng.gamma(0.3, size=(21, 17))
    if zeros:
        matrix[:, 4] = 0.0
        matrix[3, 5] = 0.0
    matrix /= matrix.sum(axis=1, keepdims=True)
    given_ = wh.Mechanism(matrix, places, places.subset(range(17)))
    distances = wh.euclidean(places)
    levels = {}
    for x, here in enumerate(matrix.tolist()):
        for other, there in enumerate(matrix.tolist()):
            for z, (k, other_k) in enumerate(zip(here, there, strict=True)):
                if x != other and k > 0:
                    level = math.log(k / other_k) / distances[x, other] if other_k else math.inf
                    levels[x, other, z] = level
    found = wh.tightest_epsilon(given_)
    assert found == pytest.approx(max(levels.values()), rel=1e-14)
    assert levels[(*found.pair, found.output)] == max(levels.values())
    assert math.isinf(found) == zeros


def test_a_repair_is_that_of_its_description() -> None:
    from whereish.release.repair import repair

    places, prior = scattered(4, 20)
    distances = wh.euclidean(places)
    rough = wh.optimal(places, prior, 1.07).matrix + np.random.default_rng(0).uniform(
        -1e-9, 1e-9, (20, 20)
    )
    found = repair(rough, 1.07, distances)
    clean = np.maximum(rough, 0.0)
    used = clean.max(axis=0) >= 1e-10
    lifted = (np.exp(-1.07 * distances)[:, :, None] * clean[None, :, used]).max(axis=1)
    lifted /= lifted.sum(axis=1, keepdims=True)
    margin = 1e-14 * (4 + 2 * 1.07 * distances)
    factors = np.exp(np.maximum(1.07 * distances - margin, 0.0))
    short = (lifted[:, None, :] - factors[:, :, None] * lifted[None, :, :]).max(axis=2)
    np.fill_diagonal(short, 0.0)
    needed = short / (short + (factors - 1 + np.eye(20)) / used.sum())
    assert found.mix == pytest.approx(max(needed.max(), 0.0), rel=1e-6)
    assert 0 < found.mix < 1e-6
    mixed = (1 - found.mix) * lifted + found.mix / used.sum()
    assert np.abs(found.matrix[:, used] - mixed).max() < 1e-16
    assert not found.matrix[:, ~used].any()
