"""Mechanisms: their matrices and metadata, and the messages for bad arguments."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples


def test_a_mechanism_is_read_only_and_carries_its_guarantee() -> None:
    places, prior = some.grid(3, 2), some.skewed(6)
    mechanism = wh.optimal(places, prior, epsilon=1.07)
    with pytest.raises(ValueError, match="read-only"):
        mechanism.matrix[0, 0] = 1.0
    with pytest.raises(AttributeError):
        mechanism.epsilon = 0.1  # type: ignore[misc]
    assert mechanism.inputs is places
    assert mechanism.outputs is places
    assert mechanism.epsilon == 1.07
    assert mechanism.privacy_metric == pytest.approx(wh.euclidean(places))
    assert mechanism.verdict is not None
    assert mechanism.verdict.ratios == 6 * 5 * 6
    assert "epsilon=1.07 per km" in repr(mechanism)


def test_an_epsilon_that_does_not_hold_makes_no_mechanism() -> None:
    places = some.grid(2, 1)
    with pytest.raises(wh.GuaranteeError, match="not private: place 0 reports output 0"):
        wh.Mechanism(np.eye(2), places, places, epsilon=1.0)


def test_the_exponential_mechanism_is_its_formula() -> None:
    places = some.grid(3, 3)
    distances = wh.euclidean(places)
    matrix = wh.exponential(places, 2.0).matrix
    for x in range(9):
        weights = [math.exp(-2.0 * distances[x, z] / 2) for z in range(9)]
        assert matrix[x] == pytest.approx(np.array(weights) / sum(weights))


def test_tight_constraints_are_tight() -> None:
    places = some.grid(4, 4)
    distances = wh.euclidean(places)
    matrix = wh.tight_constraints(places, 3.0).matrix
    for z in range(16):
        assert matrix[:, z] == pytest.approx(
            matrix[z, z] * np.exp(-3.0 * distances[:, z]), rel=1e-6
        )


def test_tight_constraints_say_when_they_do_not_exist() -> None:
    with pytest.raises(
        wh.SolveError, match=r"does not exist at epsilon 0.1 per km: \d+ of 25 weights"
    ):
        wh.tight_constraints(some.grid(5, 5), 0.1)


@given(some.places(least=3, most=7), some.EPSILONS, st.data())
@examples(25)
def test_graph_metrics_are_exact_on_their_edges(
    places: wh.Places, epsilon: float, data: st.DataObject
) -> None:
    """With d_X induced by a graph its few edges give the optimum over all pairs."""
    n = len(places)
    prior = data.draw(some.priors(n))
    metric = data.draw(some.graph_metrics(n))
    mechanism = wh.optimal(places, prior, epsilon, privacy_metric=metric)
    assert checks.broken_ratios(mechanism.matrix.tolist(), epsilon, metric=metric.tolist()) == []
    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    from whereish.programs import least_loss
    from whereish.solvers import solve

    full = least_loss(prior, wh.euclidean(places), pairs, epsilon * metric[tuple(pairs.T)])
    assert wh.quality_loss(mechanism, prior) == pytest.approx(solve(full).objective, abs=1e-7)
    assert mechanism.build.edges is not None
    assert mechanism.build.notes == ()


def test_other_metrics_for_quality_and_privacy() -> None:
    places, prior = some.grid(3, 3), some.skewed(9)
    same_or_not = wh.optimal(places, prior, 1.0, privacy_metric=wh.discrete(9))
    assert wh.tightest_epsilon(same_or_not) <= 1.0
    assert same_or_not.build.edges == 36
    hits = wh.optimal(places, prior, 1.0, quality_metric=wh.discrete(9))
    for other in (wh.optimal(places, prior, 1.0), wh.exponential(places, 1.0)):
        theirs = wh.quality_loss(other, prior, wh.discrete(9))
        assert wh.quality_loss(hits, prior, wh.discrete(9)) <= theirs + 1e-9


def test_outputs_by_number_or_by_place() -> None:
    places, prior = some.grid(3, 3), some.skewed(9)
    by_number = wh.optimal(
        places, prior, 1.07, outputs=[0, 4, 8], quality_metric=wh.euclidean(places)
    )
    by_place = wh.optimal(places, prior, 1.07, outputs=places.subset([0, 4, 8]))
    assert by_number.matrix.shape == by_place.matrix.shape == (9, 3)
    assert wh.quality_loss(by_number, prior) == pytest.approx(wh.quality_loss(by_place, prior))
    assert wh.quality_loss(by_place, prior) >= wh.quality_loss(
        wh.optimal(places, prior, 1.07), prior
    )
    one = wh.optimal(places, prior, 1.07, outputs=[4])
    assert (one.matrix == 1).all()
    assert wh.exponential(places, 1.0, outputs=[1, 2]).matrix.shape == (9, 2)
    assert wh.exponential(places, 1.0, wh.discrete(9), outputs=[1, 2]).matrix.shape == (9, 2)
    assert wh.planar_laplace(places, 1.0, outputs=[1, 2]).matrix.shape == (9, 2)


def test_then_and_remap() -> None:
    places, prior = some.grid(3, 2), some.skewed(6)
    first, second = wh.planar_laplace(places, 1.0), wh.exponential(places, 2.0)
    both = first.then(second)
    assert both.matrix == pytest.approx(first.matrix @ second.matrix)
    assert both.epsilon == 1.0
    best = wh.optimal(places, prior, 1.0)
    assert best.remap(prior).matrix == pytest.approx(best.matrix, abs=1e-9)
    corner = wh.Places.from_xy([[0.0, 0.0]])
    assert first.then(np.ones((6, 1)), outputs=corner).matrix == pytest.approx(1.0)


def test_all_mass_on_one_place() -> None:
    """Whatever else happens, she is there: report it from everywhere."""
    places, prior = some.grid(3, 2), np.array([0, 0, 1.0, 0, 0, 0])
    mechanism = wh.optimal(places, prior, 1.0)
    assert wh.quality_loss(mechanism, prior) == pytest.approx(0.0, abs=1e-12)
    assert mechanism.matrix[:, 2] == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 20.0, 50.0])
def test_extreme_levels(epsilon: float) -> None:
    places, prior = some.grid(4, 4), some.skewed(16, 1)
    mechanism = wh.optimal(places, prior, epsilon)
    assert checks.broken_ratios(mechanism.matrix.tolist(), epsilon, xy=places.xy.tolist()) == []
    rivals = [wh.planar_laplace(places, epsilon).remap(prior), wh.exponential(places, epsilon)]
    best = wh.quality_loss(mechanism, prior)
    assert all(best <= wh.quality_loss(rival, prior) * (1 + 1e-6) for rival in rivals)


def test_places_a_metre_apart_and_thirty_kilometres_away() -> None:
    xy = np.array([[0, 0], [0.001, 0], [0, 0.001], [30, 0], [30.001, 0]])
    places, prior = wh.Places.from_xy(xy), np.array([0.5, 0.1, 0.0, 0.3, 0.1])
    for mechanism in (wh.optimal(places, prior, 1.07), wh.planar_laplace(places, 1.07)):
        matrix = mechanism.matrix.tolist()
        assert checks.broken_ratios(matrix, 1.07, xy=places.xy.tolist()) == []


def test_a_saved_mechanism_reads_back_to_the_same_integers(tmp_path: Any) -> None:
    city = wh.embedded_city()
    file = tmp_path / "k.whereish"
    metric = wh.graph_metric(48, [[i, i + 1] for i in range(47)], np.linspace(0.1, 1, 47))
    for mechanism in (
        wh.exponential(city.places, 1.07, outputs=[0, 5, 7]),
        wh.exponential(city.places, 1.07, privacy_metric=metric),
        wh.Mechanism(np.full((48, 48), 1 / 48), city.places, city.places),
    ):
        wh.save_mechanism(file, mechanism, city.prior)
        again, prior = wh.load_mechanism(file)
        assert (again.counts == mechanism.counts).all()
        assert np.abs(again.matrix - mechanism.matrix).max() < 1e-12
        assert again.epsilon == mechanism.epsilon
        assert again.build == mechanism.build
        assert again.inputs.same_as(mechanism.inputs)
        assert again.outputs.same_as(mechanism.outputs)
        if mechanism.privacy_metric is not None:
            assert (again.privacy_metric == mechanism.privacy_metric).all()
        assert prior == pytest.approx(city.prior)
        assert file.stat().st_mode & 0o077 == 0
    wh.save_mechanism(file, mechanism)
    assert wh.load_mechanism(file)[1] is None


# Where a type is ignored below, the wrong type is what is tested.
GRID, PRIOR = some.grid(2, 2), [0.1, 0.2, 0.3, 0.4]
PROFILE = wh.Profile(GRID, np.array(PRIOR))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: wh.optimal(GRID, [0.1, 0.2, 0.3, math.nan], 1.0),
            r"prior must be finite, got nan at \[3",
        ),
        (
            lambda: wh.optimal(GRID, [0.5, 0.6, -0.1, 0.0], 1.0),
            r"non-negative, and the number at \[2\]",
        ),
        (
            lambda: wh.optimal(GRID, [0.1, 0.2, 0.3, 0.5], 1.0),
            "prior must sum to 1, and it sums to more",
        ),
        (lambda: wh.optimal(GRID, [0.0] * 4, 1.0), "prior must sum to 1, and it sums to less"),
        (lambda: wh.optimal(GRID, [0.5, 0.5], 1.0), "prior must be 4 numbers, got 2"),
        (lambda: wh.optimal(GRID, "uniform", 1.0), "prior must be 4 numbers, got 'uniform'"),
        (
            lambda: wh.optimal(GRID, PRIOR, 0.0),
            r"epsilon must be positive and finite \(per km\), got 0",
        ),
        (lambda: wh.optimal(GRID, PRIOR, -1), "epsilon must be positive.*got -1"),
        (lambda: wh.optimal(GRID, PRIOR, math.inf), "epsilon must be positive and finite.*got inf"),
        (lambda: wh.optimal(GRID, PRIOR, math.nan), "epsilon must be positive and finite.*got nan"),
        (
            lambda: wh.optimal(GRID, PRIOR, cast(Any, "high")),
            r"epsilon must be a number \(per km\), got 'high'",
        ),
        (
            lambda: wh.optimal(GRID, PRIOR, 1.0, dilation=0.5),
            "dilation must be at least 1, got 0.5",
        ),
        (lambda: wh.optimal(wh.Places.from_xy([[0, 0]]), [1.0], 1.0), "at least 2 places, got 1"),
        (lambda: wh.optimal([[0, 0], [1, 1]], [0.5, 0.5], 1.0), "places must be Places, got list"),  # type: ignore[arg-type]
        (lambda: wh.planar_laplace(cast(Any, PROFILE), 1.0), r"got Profile: use .*: \.places"),
        (lambda: wh.optimal(GRID, cast(Any, PROFILE), 1.0), r"got Profile: use .*: \.prior"),
        (
            lambda: wh.optimal(GRID, PRIOR, 1.0, privacy_metric=np.ones((4, 4))),
            "zero on the diagonal",
        ),
        (
            lambda: wh.optimal(GRID, PRIOR, 1.0, privacy_metric=np.eye(3)),
            "privacy_metric must be 4 x 4",
        ),
        (lambda: wh.optimal(GRID, PRIOR, 1.0, quality_metric=-wh.euclidean(GRID)), "non-negative"),
        (
            lambda: wh.optimal(GRID, PRIOR, 1.0, quality_metric=np.triu(np.ones((4, 4)), 1)),
            "symmetric",
        ),
        (lambda: wh.optimal(GRID, PRIOR, 1.0, outputs=[7]), "indices must be from 0 to 3"),
        (lambda: wh.optimal(GRID, PRIOR, 1.0, time_limit_s=0), "time_limit_s must be positive"),
        (lambda: wh.optimal_privacy(GRID, PRIOR, -1.0), "quality_loss must be at least 0"),
        (
            lambda: wh.optimal_privacy(GRID, PRIOR, 0.01, outputs=[0]),
            "quality_loss must be at least",
        ),
        (lambda: wh.planar_laplace(GRID, 0), "epsilon must be positive"),
        (lambda: wh.planar_laplace_noise([[0, 0]], -1), "epsilon must be positive"),
        (
            lambda: wh.exponential(GRID, 1.0, wh.discrete(4), outputs=some.grid(1, 1)),
            "must be indices",
        ),
        (lambda: wh.exponential(GRID, 1.0).then(np.ones((4, 4))), "rows must sum to 1"),
        (lambda: wh.exponential(GRID, 1.0).then(np.ones((3, 3)) / 3), "other must be 4 x n"),
        (lambda: wh.exponential(GRID, 1.0).then(np.ones((4, 1))), "one column per output place"),
        (
            lambda: wh.exponential(GRID, 1.0).then(wh.exponential(some.grid(3, 1), 1.0)),
            "whose inputs",
        ),
        (lambda: wh.Mechanism(np.ones((4, 4)), GRID, GRID), "rows must sum to 1"),
        (lambda: wh.load_mechanism("/nowhere/k.whereish"), "mechanism must be a file that exists"),
    ],
)
def test_bad_input_is_named(make: Any, words: str) -> None:
    with pytest.raises(wh.InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


PEOPLE = [[0.1, 0.2, 0.3, 0.2, 0.1, 0.1], [1, 0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0, 0.5]]


@pytest.mark.parametrize("dilation", [1.0, 1.3])
@pytest.mark.parametrize("columns", [3, 6])
def test_each_of_many_priors_gets_its_own_optimum(columns: int, dilation: float) -> None:
    """With 6 places by HiGHS, with 12 by the structured solver."""
    xy = [[0.9 * i, 1.1 * j] for j in range(2) for i in range(columns)]
    places = wh.Places.from_xy(xy)
    priors = np.kron(PEOPLE, np.full((1, columns // 3), 3 / columns))
    told: list[tuple[int, int]] = []
    built = wh.optimal_each(
        places, priors, 1.2, dilation, progress=lambda done, of: told.append((done, of))
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
    for prior, mechanism in zip(priors, built, strict=True):
        alone = wh.optimal(places, prior, 1.2, dilation)
        assert wh.tightest_epsilon(mechanism) <= 1.2
        assert wh.quality_loss(mechanism, prior) == pytest.approx(wh.quality_loss(alone, prior))
        assert mechanism.build.program_gap == pytest.approx(alone.build.program_gap, abs=1e-9)


@pytest.mark.parametrize(
    "priors", [[], [[0.5, 0.6]], [[0.5, 0.5, 0.0]], 3, "ab", [[0.5, 0.5], [0.5]], [[np.nan, 1.0]]]
)
def test_priors_that_are_none_are_refused(priors: Any) -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0]])
    with pytest.raises(wh.InputError):
        wh.optimal_each(places, priors, 1.0)
