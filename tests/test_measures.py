"""Quality and adversary measures against their definitions, spelled out with loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh


@st.composite
def judged(draw: st.DrawFn, most: int = 5) -> tuple[wh.Mechanism, some.Floats]:
    places, prior = draw(some.profiles(least=2, most=most))
    matrix = draw(some.stochastic(len(places), len(places)))
    return wh.Mechanism(matrix, places, places), prior


@given(judged())
def test_quality_loss_is_the_definition(case: tuple[wh.Mechanism, some.Floats]) -> None:
    mechanism, prior = case
    distances = wh.euclidean(mechanism.inputs).tolist()
    expected = checks.expected_distance(mechanism.matrix.tolist(), prior.tolist(), distances)
    assert wh.quality_loss(mechanism, prior) == pytest.approx(expected)
    squared = np.array(distances) ** 2
    expected = checks.expected_distance(mechanism.matrix.tolist(), prior.tolist(), squared.tolist())
    assert wh.quality_loss(mechanism, prior, squared) == pytest.approx(expected)


@given(judged(most=4))
def test_adversary_error_is_the_best_of_all_remappings(
    case: tuple[wh.Mechanism, some.Floats],
) -> None:
    mechanism, prior = case
    n = len(mechanism.inputs)
    for metric in (wh.euclidean(mechanism.inputs), wh.discrete(n)):
        expected = checks.adversary_error_by_trying(
            mechanism.matrix.tolist(), prior.tolist(), metric.tolist()
        )
        found = wh.adversary_error(mechanism, prior, metric)
        assert found == pytest.approx(expected, abs=1e-12)
        remapped = mechanism.remap(prior, metric)
        assert wh.quality_loss(remapped, prior, metric) == pytest.approx(expected, abs=1e-12)


@given(judged())
def test_the_adversary_is_never_worse_than_believing_the_report(
    case: tuple[wh.Mechanism, some.Floats],
) -> None:
    mechanism, prior = case
    assert wh.adversary_error(mechanism, prior) <= wh.quality_loss(mechanism, prior) + 1e-12


@given(judged())
def test_worst_case_and_entropy_are_the_definitions(
    case: tuple[wh.Mechanism, some.Floats],
) -> None:
    mechanism, prior = case
    matrix, n = mechanism.matrix, len(mechanism.inputs)
    distances = wh.euclidean(mechanism.inputs)
    worst = max(math.fsum(matrix[x] * distances[x]) for x in range(n))
    assert wh.worst_case_loss(mechanism) == pytest.approx(worst)
    entropy = 0.0
    for z in range(n):
        seen = math.fsum(prior * matrix[:, z])
        for x in range(n):
            joint = prior[x] * matrix[x, z]
            if joint > 0:
                entropy -= joint * math.log2(joint / seen)
    assert wh.conditional_entropy(mechanism, prior) == pytest.approx(entropy, abs=1e-12)


@given(judged(), st.floats(0.05, 1.0))
def test_report_radius_covers_its_share_and_no_smaller_one_does(
    case: tuple[wh.Mechanism, some.Floats], share: float
) -> None:
    mechanism, prior = case
    distances = wh.euclidean(mechanism.inputs)
    joint = prior[:, None] * mechanism.matrix
    radius = wh.report_radius(mechanism, prior, share)
    assert joint[distances <= radius].sum() >= share - 1e-9
    assert joint[distances < radius].sum() < share + 1e-9
    everywhere = wh.report_radius(mechanism, share=share)
    for x, row in enumerate(mechanism.matrix):
        assert row[distances[x] <= everywhere].sum() >= share - 1e-9


@given(judged(), st.floats(0.0, 3.0), st.floats(0.1, 1.0))
def test_the_radius_to_ask_covers_the_interest(
    case: tuple[wh.Mechanism, some.Floats], interest: float, confidence: float
) -> None:
    """A disc around the truth lies in the disc asked for when d + interest <= radius."""
    mechanism, prior = case
    radius = wh.radius_to_ask(mechanism, interest, confidence, prior)
    distances = wh.euclidean(mechanism.inputs)
    joint = prior[:, None] * mechanism.matrix
    covered = joint[distances + interest <= radius + 1e-12].sum()
    assert covered >= confidence - 1e-9


def test_outputs_other_than_inputs() -> None:
    inputs, outputs = some.grid(3, 2), wh.Places.from_xy([[0.3, 0.3], [1.0, 0.5]])
    prior = some.skewed(6)
    mechanism = wh.optimal(inputs, prior, 1.07, outputs=outputs)
    assert mechanism.matrix.shape == (6, 2)
    expected = (prior[:, None] * mechanism.matrix * wh.euclidean(inputs, outputs)).sum()
    assert wh.quality_loss(mechanism, prior) == pytest.approx(expected)
    assert wh.adversary_error(mechanism, prior) <= expected + 1e-12
    assert mechanism.remap(prior).outputs is inputs


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, p: wh.report_radius(m, p, 0), "share must be positive"),
        (lambda m, p: wh.report_radius(m, p, 1.1), "share must be above 0 and at most 1, got 1.1"),
        (lambda m, p: wh.radius_to_ask(m, -1.0), "interest_km must not be negative"),
        (lambda m, p: wh.quality_loss(m, [1.0]), "prior must be 4 numbers, got 1"),
        (lambda m, p: wh.quality_loss(m, p, np.ones((4, 4))), "zero on the diagonal"),
        (lambda m, p: wh.adversary_error(m, p, np.ones((3, 4))), "metric must be 4 x n"),
    ],
)
def test_bad_input(call: object, words: str) -> None:
    mechanism = wh.exponential(some.grid(2, 2), 1.0)
    with pytest.raises(wh.InputError, match=words):
        call(mechanism, some.skewed(4))  # type: ignore[operator]
