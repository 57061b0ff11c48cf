"""Pruned proofs: few multipliers, and the recorded bound is never above what they prove."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.format import unpack
from whereish.mechanisms import search
from whereish.release import compiled_pruning, prune, pruning


def rows_of(proof: wh.Proof) -> list[tuple[int, int, int, float]]:
    parts = (proof.output, proof.left, proof.right, proof.value)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def exact_bound(proof: wh.Proof, prior: Any, loss: Any, metric: Any) -> Fraction:
    """LB(y) in Fractions, with the test's own exponential."""
    return checks.least_proved_bound(
        rows_of(proof), prior.tolist(), loss.tolist(), proof.epsilon, metric.tolist()
    )


def cycles_of(proof: wh.Proof) -> int:
    """The number of rows that close a cycle with earlier rows of their output."""
    trees: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        while node in trees:
            node = trees[node]
        return node

    closed = 0
    for z, left, right, _ in rows_of(proof):
        one, other = root((z, left)), root((z, right))
        closed += one == other
        if one != other:
            trees[one] = other
    return closed


def solved(places: wh.Places, prior: Any, epsilon: float, **options: Any) -> tuple[Any, wh.Proof]:
    """A mechanism, and the whole proof of the solver."""
    whole: list[wh.Proof] = []

    def spy(proof: wh.Proof, *about: Any) -> tuple[wh.Proof, float]:
        whole.append(proof)
        return prune(proof, *about)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "prune", spy)
        built = wh.optimal(places, prior, epsilon, solver="structured", **options)
    return built, whole[-1]


def check_pruned(proof: wh.Proof, prior: Any, loss: Any, metric: Any) -> wh.Proof:
    """Prune a proof and check everything that is said of the result, in exact arithmetic."""
    fewer, bound = prune(proof, prior, loss, metric)
    exact = exact_bound(fewer, prior, loss, metric)
    assert Fraction(bound) <= exact
    before = wh.lower_bound(proof, prior, loss, metric)
    assert bound >= before - pruning.LOST * abs(before)
    given = {row[:3] for row in rows_of(proof)}
    assert {row[:3] for row in rows_of(fewer)} <= given
    return fewer


def always_pruned(proof: wh.Proof, prior: Any, loss: Any, metric: Any) -> wh.Proof:
    """What pruning makes of a proof, whether or not it proves as much."""
    cost = prior[:, None] * loss
    n, m = cost.shape
    rows = pruning._ordered(proof, n, m, metric)
    return pruning._pruned(rows, cost, proof.epsilon)


@examples(60)
@given(some.profiles(2, 8), st.floats(0.05, 20.0), st.data())
def test_the_proof_of_a_mechanism_is_a_forest(
    profile: tuple[wh.Places, some.Floats], epsilon: float, data: st.DataObject
) -> None:
    """Any metric and loss: at most n - 1 rows an output; the recorded bound is below LB(y)."""
    places, prior = profile
    n = len(places)
    metric, quality = data.draw(some.metrics_and_losses(n))
    built, whole = solved(places, prior, epsilon, privacy_metric=metric, quality_metric=quality)
    loss = wh.euclidean(places) if quality is None else quality
    away = wh.euclidean(places) if metric is None else metric
    fewer = check_pruned(whole, prior, loss, away)
    assert rows_of(fewer) == rows_of(built.proof)
    if fewer is not whole:
        assert cycles_of(fewer) == 0
        assert len(fewer.value) <= n * (n - 1)
    assert Fraction(built.build.lower_bound_km) <= max(
        exact_bound(fewer, prior, loss, away), Fraction(0)
    )


@examples(150)
@given(some.profiles(2, 6), st.sampled_from([0.01, 0.5, 3.0, 40.0, 900.0]), st.data())
def test_any_multipliers_may_be_pruned(
    profile: tuple[wh.Places, some.Floats], epsilon: float, data: st.DataObject
) -> None:
    """Random rows with directed cycles, the same row twice, zeros, tiny and large multipliers."""
    places, prior = profile
    n, m = len(places), data.draw(st.integers(1, 3))
    count = data.draw(st.integers(0, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    left = rng.integers(0, n, count)
    right = (left + rng.integers(1, n, count)) % n
    scale = data.draw(st.sampled_from([1e-3, 1.0, 1e6]))
    value = np.where(rng.random(count) < 0.1, 0.0, scale * rng.gamma(0.2, size=count))
    output = rng.integers(0, m, count).astype(np.int32)
    proof = wh.Proof(epsilon, output, left.astype(np.int32), right.astype(np.int32), value)
    loss, metric = rng.uniform(0, 3, (n, m)), wh.euclidean(places)
    check_pruned(proof, prior, loss, metric)
    # In exact arithmetic no reduced cost falls below the least one; in doubles, by rounding only.
    fewer = always_pruned(proof, prior, loss, metric)
    assert cycles_of(fewer) == 0
    lost = exact_bound(proof, prior, loss, metric) - exact_bound(fewer, prior, loss, metric)
    assert lost <= 1e-13 * (1 + value.sum())


@pytest.mark.parametrize("seed", range(20))
def test_factors_of_a_cycle_below_all_doubles(seed: int) -> None:
    """Three places on a line: exp(-eps d) is 1e-143, and two of them multiply to 1e-286."""
    places = wh.Places.from_xy([[0.0, 0.0], [1.5, 0.0], [22.0, 0.0]])
    prior, metric = np.array([0.5, 0.2, 0.3]), wh.euclidean(places)
    pairs = np.array([(x, y) for x in range(3) for y in range(3) if x != y], dtype=np.int32)
    value = 10.0 ** np.random.default_rng(seed).uniform(-150, 1, len(pairs))
    proof = wh.Proof(15.0, np.zeros(len(pairs), np.int32), pairs[:, 0], pairs[:, 1], value)
    fewer = always_pruned(proof, prior, metric[:, :1], metric)
    assert cycles_of(proof) > 0
    assert cycles_of(fewer) == 0
    check_pruned(proof, prior, metric[:, :1], metric)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.07, 3.0, 10.0, 50.0])
def test_few_multipliers_are_left_at_every_epsilon(epsilon: float) -> None:
    places, prior = some.grid(6, 5), some.skewed(30, 3)
    built, whole = solved(places, prior, epsilon)
    assert built.proof is not None
    # At 50 the solver computes most multipliers on forests already: there are fewer from the start.
    assert len(whole.value) > (870 if epsilon == 50 else 3 * 870)
    assert len(built.proof.value) <= 870
    assert cycles_of(built.proof) == 0
    assert built.build.gap <= 1e-6


def test_library_file_and_audit_agree(tmp_path: Path) -> None:
    """What is in memory is in the file, and the file proves the bound that is recorded."""
    places, prior = some.grid(4, 4), some.skewed(16)
    built = wh.optimal(places, prior, 1.07, solver="structured")
    assert built.proof is not None
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, built, prior)
    arrays, _ = unpack(path.read_bytes())
    for name in ("output", "left", "right", "value"):
        assert np.array_equal(arrays[f"proof_{name}"], getattr(built.proof, name))
    assert wh.audit_file(path)["lower_bound_km"] == built.build.lower_bound_km
    again, _ = wh.load_mechanism(path)
    assert again.proof is not None
    assert rows_of(again.proof) == rows_of(built.proof)


def test_the_bound_of_parts_is_pruned_too() -> None:
    places, prior = some.grid(5, 4), some.skewed(20)
    built = wh.how_far(wh.closed_form(places, prior, 1.07), prior)
    assert built.proof is not None
    assert cycles_of(built.proof) == 0
    away = wh.euclidean(places)
    assert built.build.lower_bound_km is not None
    assert Fraction(built.build.lower_bound_km) <= exact_bound(built.proof, prior, away, away)


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    places, prior = some.grid(5, 4), some.skewed(20)
    away = wh.euclidean(places)
    _, whole = solved(places, prior, 1.07)
    found = [rows_of(prune(whole, prior, away, away)[0])]
    monkeypatch.setattr(pruning, "_MANY", 0)
    for cores in (1, 3):
        monkeypatch.setattr("whereish.parallel.cores", lambda cores=cores: cores)
        found.append(rows_of(prune(whole, prior, away, away)[0]))
    assert found[0] == found[1] == found[2]


def test_what_is_no_proof_is_refused() -> None:
    places, prior = some.grid(3, 2), some.skewed(6)
    away = wh.euclidean(places)
    zero = np.zeros(1, np.int32)
    for left, y in ((zero, 1.0), (zero + 9, 1.0), (zero + 1, -1.0), (zero + 1, np.nan)):
        with pytest.raises(wh.GuaranteeError, match="not a proof"):
            prune(wh.Proof(1.07, zero, left, zero, np.array([y])), prior, away, away)
    nothing = wh.Proof(1.07, zero[:0], zero[:0], zero[:0], np.zeros(0))
    assert rows_of(prune(nothing, prior, away, away)[0]) == []


class TestPlantedBugs:
    places, prior = some.grid(4, 3), some.skewed(12, 5)
    away = wh.euclidean(places)

    def whole(self) -> wh.Proof:
        return solved(self.places, self.prior, 1.07)[1]

    @pytest.mark.parametrize("bug", ["flows the wrong way", "no factors", "rows only dropped"])
    def test_a_wrong_pruning_costs_rows_never_the_bound(
        self, bug: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The bound is computed again: what proves less than the solver's proof is not taken."""
        whole, real = self.whole(), compiled_pruning.cancel_cycles
        assert cycles_of(check_pruned(whole, self.prior, self.away, self.away)) == 0

        def wrong(low: int, high: int, n: int, first: Any, left: Any, right: Any,
                  gain: Any, y: Any) -> None:  # fmt: skip
            if bug == "flows the wrong way":
                real(low, high, n, first, right, left, gain, y)
            elif bug == "no factors":
                real(low, high, n, first, left, right, np.ones_like(gain), y)
            else:
                y[first[low] : first[high]] *= y[first[low] : first[high]] > 1e-3

        monkeypatch.setattr(compiled_pruning, "cancel_cycles", wrong)
        worse = always_pruned(whole, self.prior, self.away, self.away)
        least = exact_bound(whole, self.prior, self.away, self.away)
        assert exact_bound(worse, self.prior, self.away, self.away) < least * (1 - 1e-5)
        assert check_pruned(whole, self.prior, self.away, self.away) is whole

    def test_a_bound_that_was_not_computed_again_is_noticed(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Rows are dropped, but the bound of the whole proof is recorded."""

        def careless(proof: wh.Proof, *about: Any) -> tuple[wh.Proof, float]:
            kept = proof.value > 1e-3
            names = ("output", "left", "right", "value")
            less = replace(proof, **{name: getattr(proof, name)[kept] for name in names})
            return less, wh.lower_bound(proof, *about)

        monkeypatch.setattr(search, "prune", careless)
        built = wh.optimal(self.places, self.prior, 1.07, solver="structured")
        assert built.proof is not None
        assert built.build.lower_bound_km is not None
        exact = exact_bound(built.proof, self.prior, self.away, self.away)
        assert Fraction(built.build.lower_bound_km) > exact
        path = tmp_path / "k.whereish"
        wh.save_mechanism(path, built, self.prior)
        some.forge(path, claimed={"lower_bound_km": built.build.lower_bound_km})
        with pytest.raises(wh.GuaranteeError, match="lower_bound_km"):
            wh.audit_file(path)
