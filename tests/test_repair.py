"""Repair: what it corrects, what it costs, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from whereish.release import repair


@given(some.places(least=2, most=7), some.EPSILONS, st.integers(0, 2**32 - 1))
def test_noise_of_a_solver_is_mended(places: wh.Places, epsilon: float, seed: int) -> None:
    """Perturb a tight matrix by 1e-9, negative entries included: private again, at little cost."""
    rng = np.random.default_rng(seed)
    distances = wh.euclidean(places)
    kernel = np.exp(-epsilon / 2 * distances)
    matrix = kernel / kernel.sum(axis=1, keepdims=True)
    noisy = matrix + rng.uniform(-1e-9, 1e-9, matrix.shape)
    repaired = repair(noisy, epsilon, distances)
    rows = repaired.matrix.tolist()
    assert checks.is_stochastic(rows)
    assert checks.broken_ratios(rows, epsilon, xy=places.xy.tolist()) == []
    assert np.abs(repaired.matrix - matrix).max() < 1e-5


def test_a_private_matrix_is_left_alone() -> None:
    places = some.grid(3, 3)
    mechanism = wh.exponential(places, 1.07)
    repaired = repair(mechanism.matrix, 1.07, wh.euclidean(places))
    assert repaired.mix == 0.0
    assert np.abs(repaired.matrix - mechanism.matrix).max() < 1e-15


def test_zeros_that_must_be_positive_become_positive() -> None:
    """Large eps: a solver returns 0 for exp(-30); the ratio would be infinite."""
    places = wh.Places.from_xy([[0, 0], [5, 0], [0, 5]])
    repaired = repair(np.eye(3), 6.0, wh.euclidean(places))
    assert repaired.matrix.min() > 0
    assert checks.broken_ratios(repaired.matrix.tolist(), 6.0, xy=places.xy.tolist()) == []
    assert repaired.mix < 1e-12


def test_an_output_nobody_uses_is_emptied_for_everybody() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0], [0, 1]])
    matrix = np.array([[1 - 1e-12, 1e-12, 0], [1, 0, 0], [1, 0, 0.0]])
    repaired = repair(matrix, 1.0, wh.euclidean(places))
    assert (repaired.matrix[:, 1:] == 0).all()
    assert (repaired.matrix[:, 0] == 1).all()


def test_a_wrong_answer_is_not_repaired() -> None:
    places = some.grid(3, 2)
    with pytest.raises(wh.GuaranteeError, match="too far from private at epsilon 0.5"):
        repair(np.eye(6), 0.5, wh.euclidean(places))


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 2)), np.full((2, 2), np.nan), np.array([[1.0, 0], [0, 0]])]
)
def test_nothing_to_report_is_refused(bad: some.Floats) -> None:
    places = wh.Places.from_xy([[0, 0], [900, 0]])
    with pytest.raises(wh.GuaranteeError, match="nothing to report"):
        repair(bad, 1.0, wh.euclidean(places))


@pytest.mark.parametrize("epsilon", [1.07, 6.0, 15.0])
def test_the_repair_of_an_optimum_costs_next_to_nothing(epsilon: float) -> None:
    places, prior = some.grid(5, 5), some.skewed(25, 2)
    best = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    interior = wh.optimal(places, prior, epsilon, solver="highs-ipm")
    assert wh.quality_loss(interior, prior) == pytest.approx(best, rel=1e-6)
    assert interior.build.repair_mix is not None
    assert interior.build.repair_mix < 1e-8
