"""The private test of a guess: its probabilities, its audit, and a bug that the audit catches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples
from test_sampler import fits
from whereish.everywhere.private_test import LatticeTests, lattice_test
from whereish.mechanisms import private_test as module
from whereish.mechanisms.private_test import FAR, NEAR, PlaceTests, private_test


def laplace_near(distance: float, epsilon: float, threshold: float) -> float:
    """P(distance <= threshold + Lap(1 / epsilon)), by the distribution function."""
    t = distance - threshold
    below = math.exp(epsilon * t) / 2 if t < 0 else 1 - math.exp(-epsilon * t) / 2
    return 1 - below


@given(data=st.data())
@examples(30)
def test_the_counts_of_a_test_pass_a_check_that_shares_no_code(data: Any) -> None:
    where = data.draw(some.places(2, 6))
    epsilon = data.draw(some.EPSILONS)
    threshold = data.draw(st.sampled_from([0.0, 0.3, 2.0, 40.0]))
    metric = data.draw(st.one_of(st.none(), some.graph_metrics(len(where))))
    guess = data.draw(st.integers(0, len(where) - 1))
    test = private_test(where, guess, epsilon, threshold, metric)
    counts = test.counts.tolist()
    assert not checks.broken_counts(
        counts, epsilon, where.xy.tolist(), None if metric is None else metric.tolist()
    )
    distances = wh.euclidean(where) if metric is None else metric
    for x in range(len(where)):
        expected = laplace_near(float(distances[x, guess]), epsilon, threshold)
        assert counts[x][NEAR] / 2**63 == pytest.approx(expected, abs=1e-8)


def test_a_test_that_is_sharper_than_its_epsilon_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the noise of the test is half as large as it must be."""
    where = some.grid(3, 2)
    real = module.near_probabilities
    monkeypatch.setattr(
        module, "near_probabilities", lambda d, epsilon, within: real(d, epsilon * 2, within)
    )
    with pytest.raises(wh.GuaranteeError):
        private_test(where, 0, 3.0, 0.1).counts  # noqa: B018


def test_all_guesses_share_a_table_and_are_drawn_as_audited() -> None:
    where = some.grid(3, 2)
    tests = PlaceTests(wh.exponential(where, 1.0), 0.7, 0.9)
    rng = np.random.default_rng(5)
    for guess in (4, 0):
        counts = tests.test(guess).counts
        assert tests.near_counts(guess).tolist() == counts[:, NEAR].tolist()
        drawn = tests.draw(np.full(4000, guess), np.full(4000, 2), rng)
        assert fits(drawn, counts[2])
    both = tests.draw(np.array([4, 0] * 2000), np.array([4, 5] * 2000), rng)
    assert (both[::2] == FAR).mean() < (both[1::2] == FAR).mean()


def test_a_guess_that_is_no_place_of_another_metric_is_its_nearest_place() -> None:
    where = some.grid(3, 2)
    metric = wh.graph_metric(6, [(i, i + 1) for i in range(5)], [1.0] * 5)
    other = wh.Places.from_xy(where.xy[:2] + 0.01)
    mechanism = wh.exponential(where, 1.0, privacy_metric=metric).then(np.full((6, 2), 0.5), other)
    test = PlaceTests(mechanism, 0.5, 1.0).test(1)
    assert test.matrix[:, NEAR].argmax() == 1
    assert not checks.broken_counts(test.counts.tolist(), 0.5, metric=metric.tolist())


@pytest.mark.parametrize(("epsilon", "threshold"), [(1.0, 2.0), (0.3, 7.0), (23.0, 0.01)])
def test_the_test_for_all_points_is_private_and_close_to_laplace(
    epsilon: float, threshold: float
) -> None:
    test = lattice_test(epsilon, threshold)
    assert test.epsilon == epsilon
    assert test.verdict.tightest > 0.999 * epsilon  # the inner epsilon is as large as can be
    for distance in np.array([0.0, 0.5, 1.0, 3.0]) / epsilon + threshold:
        near = test.probabilities((distance * 0.6, -distance * 0.8))[NEAR]
        assert near == pytest.approx(laplace_near(distance, epsilon, threshold), abs=0.05)
    far_away = test.probabilities((1000.0 / epsilon, 0.0))
    assert far_away[NEAR] < 1e-6


@pytest.mark.slow
def test_a_piece_of_the_lattice_passes_a_check_that_shares_no_code() -> None:
    test = lattice_test(1.0, 2.0)
    xs = test.lattice.xs
    n, part = len(xs), slice(len(xs) // 2 - 8, len(xs) // 2 + 25)
    counts = test.counts.reshape(n, n, 2)[part, part].reshape(-1, 2)
    piece = xs[part].tolist()
    assert not checks.broken_corners(counts.tolist(), piece, piece, 1.0)
    assert checks.broken_corners(counts.tolist(), piece, piece, 0.999)


def test_one_lattice_serves_all_guesses() -> None:
    outputs = wh.Places.from_xy([[0.0, 0.0], [30.0, -4.0]])
    tests = LatticeTests(outputs, 1.0, 1.0)
    at = np.array([[30.5, -4.0]] * 3000)
    rng = np.random.default_rng(2)
    near = (tests.draw(np.ones(3000, np.int64), at, rng) == NEAR).mean()
    expected = tests.mechanism.probabilities((0.5, 0.0))[NEAR]
    assert near == pytest.approx(expected, abs=0.04)
    assert (tests.draw(np.zeros(3000, np.int64), at, rng) == FAR).all()


@pytest.mark.parametrize(
    "wrong",
    [(9, 1.0, 1.0), (0, 0.0, 1.0), (0, 1.0, -1.0), (0, 1.0, math.nan), (-1, 1.0, 1.0)],
)
def test_misuse_is_refused(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(wh.InputError):
        private_test(some.grid(3, 2), *wrong)


def test_a_test_can_be_saved_and_audited_as_any_mechanism(tmp_path: Path) -> None:
    test = private_test(some.grid(3, 2), 1, 0.8, 1.0)
    wh.save_mechanism(tmp_path / "test.whereish", test)
    assert wh.audit_file(tmp_path / "test.whereish")["certified"]
