"""The Blahut-Arimoto mechanism: private by the exact checker, and a fixed point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import whereish as wh
from effort import examples
from strategies import EPSILONS, Floats, grid, profiles, skewed
from whereish.mechanisms import MECHANISMS, blahut_arimoto


@examples(40)
@given(profiles(2, 7), EPSILONS)
def test_every_ratio_holds_in_exact_arithmetic(
    profile: tuple[wh.Places, Floats], epsilon: float
) -> None:
    places, prior = profile
    made = blahut_arimoto(places, prior, epsilon)
    counts = [[int(one) for one in row] for row in made.counts]
    assert not checks.broken_counts(counts, epsilon, places.xy.tolist())


@examples(20)
@given(profiles(2, 6), st.sampled_from([1.0, 4.0]))
def test_it_is_the_fixed_point_with_half_of_epsilon(
    profile: tuple[wh.Places, Floats], epsilon: float
) -> None:
    """No iteration of the algorithm lowers information + beta distance by more than rounding."""
    places, prior = profile
    made = blahut_arimoto(places, prior, epsilon)
    distance, beta = wh.euclidean(places), epsilon / 2

    def objective(matrix: Floats) -> float:
        joint, marginal = prior[:, None] * matrix, prior @ matrix
        ratio = np.divide(matrix, marginal, out=np.ones_like(matrix), where=joint > 0)
        return float((joint * np.log(ratio)).sum() + beta * (joint * distance).sum())

    q, best = np.full(len(prior), 1 / len(prior)), np.inf
    for _ in range(300):
        rows = q * np.exp(-beta * distance)
        matrix = rows / rows.sum(axis=1, keepdims=True)
        q, best = prior @ matrix, min(best, objective(matrix))
    assert objective(made.matrix) <= best + 1e-6


def test_the_whole_epsilon_in_the_exponent_is_not_private() -> None:
    """The planted bug: beta = epsilon."""
    places, prior = grid(3, 2), skewed(6, 1)
    made = blahut_arimoto(places, prior, 4.0)
    with pytest.raises(wh.GuaranteeError):
        wh.Mechanism(made.matrix, places, places, 2.0)
    tightest = wh.tightest_epsilon(made)
    assert 2.0 < tightest <= 4.0


def test_it_has_a_name_and_takes_metric_and_outputs() -> None:
    places, prior = grid(3, 2), skewed(6, 1)
    assert "blahut-arimoto" in MECHANISMS
    road = wh.graph_metric(6, [(k, k + 1) for k in range(5)], [1.0] * 5)
    some = blahut_arimoto(places, prior, 1.0, road, outputs=[0, 3])
    assert some.matrix.shape == (6, 2)
    with pytest.raises(wh.InputError, match="indices of input places"):
        blahut_arimoto(places, prior, 1.0, road, outputs=grid(2, 1))
    assert wh.Mechanism(some.matrix, places, some.outputs, 1.0, road).epsilon == 1.0
