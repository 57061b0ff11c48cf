"""The paper's proposition, lemma and theorem on generated inputs (Section 3, Appendix A)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.programs import least_loss
from whereish.solvers import solve


@given(st.data(), some.profiles(most=7), some.EPSILONS, st.sampled_from([1.05, 1.2, 1.5, 2.0]))
@examples(25)
def test_proposition_1_private_on_a_spanner_is_private_everywhere(
    data: st.DataObject, profile: tuple[wh.Places, some.Floats], epsilon: float, delta: float
) -> None:
    """(eps / delta) d_G-privacy implies eps d_X-privacy.

    The mechanism is built on the graph metric itself, so the library never constrains d_X.
    """
    places, _ = profile
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, delta)
    along = np.array(
        checks.shortest_ways(
            len(places), [(int(a), int(b)) for a, b in spanner.edges], spanner.lengths.tolist()
        )
    )
    along = (along + along.T) / 2
    level = epsilon / spanner.exact_dilation
    mechanism = wh.exponential(places, level, privacy_metric=along)
    assert checks.broken_ratios(mechanism.matrix.tolist(), level, metric=along.tolist()) == []
    assert wh.tightest_epsilon(mechanism, distances) <= epsilon * (1 + 1e-9)


@given(st.data(), some.profiles(most=7), some.EPSILONS, st.sampled_from([1.0, 1.1, 1.5, 2.0]))
@examples(30)
def test_spanner_mechanisms_are_private_for_the_true_metric(
    data: st.DataObject, profile: tuple[wh.Places, some.Floats], epsilon: float, delta: float
) -> None:
    places, prior = profile
    mechanism = wh.optimal(places, prior, epsilon, dilation=delta)
    assert checks.is_stochastic(mechanism.matrix.tolist())
    assert checks.broken_ratios(mechanism.matrix.tolist(), epsilon, xy=places.xy.tolist()) == []
    assert mechanism.build.dilation is not None
    assert mechanism.build.dilation <= delta


@given(st.data(), some.profiles(most=8), some.EPSILONS)
def test_remapping_lemma(
    data: st.DataObject, profile: tuple[wh.Places, some.Floats], epsilon: float
) -> None:
    """Whatever is done to a report, K H is as private as K."""
    places, prior = profile
    follow = data.draw(some.stochastic(len(places), len(places)))
    for mechanism in (wh.planar_laplace(places, epsilon), wh.exponential(places, epsilon)):
        followed = mechanism.then(follow)
        expected = checks.product(mechanism.matrix.tolist(), follow.tolist())
        assert np.allclose(followed.matrix, expected, atol=1e-9)
        assert checks.broken_ratios(followed.matrix.tolist(), epsilon, xy=places.xy.tolist()) == []
        remapped = mechanism.remap(prior)
        assert checks.broken_ratios(remapped.matrix.tolist(), epsilon, xy=places.xy.tolist()) == []
        assert remapped.epsilon == followed.epsilon == epsilon


@given(some.profiles(most=8), some.EPSILONS, st.sampled_from([1.0, 1.2]))
def test_theorem_adversary_error_is_quality_loss(
    profile: tuple[wh.Places, some.Floats], epsilon: float, delta: float
) -> None:
    """No remapping helps against an optimal mechanism, exact or on a spanner, where d_A = d_Q."""
    places, prior = profile
    mechanism = wh.optimal(places, prior, epsilon, dilation=delta)
    loss = wh.quality_loss(mechanism, prior)
    assert wh.adversary_error(mechanism, prior) == pytest.approx(loss, abs=1e-7)
    assert wh.quality_loss(mechanism.remap(prior), prior) == pytest.approx(loss, abs=1e-7)


@given(st.data(), some.places(least=3, most=7), some.EPSILONS)
@examples(25)
def test_theorem_holds_for_any_privacy_metric(
    data: st.DataObject, places: wh.Places, epsilon: float
) -> None:
    n = len(places)
    prior = data.draw(some.priors(n))
    along = data.draw(some.graph_metrics(n))
    mechanism = wh.optimal(places, prior, epsilon, privacy_metric=along, quality_metric=along)
    assert checks.broken_ratios(mechanism.matrix.tolist(), epsilon, metric=along.tolist()) == []
    loss = wh.quality_loss(mechanism, prior, along)
    assert wh.adversary_error(mechanism, prior, along) == pytest.approx(loss, abs=1e-7)


def test_theorem_fails_when_the_adversary_only_wants_the_exact_place() -> None:
    """Section 3.4, last paragraph: d_A discrete, so OptQL is not OptPriv."""
    places, prior = some.grid(4, 3), some.skewed(12, seed=5)
    best = wh.optimal(places, prior, 1.07)
    loss = wh.quality_loss(best, prior)
    other = wh.optimal_privacy(places, prior, loss, adversary_metric=wh.discrete(12))
    assert wh.quality_loss(other, prior) <= loss + 1e-9
    gained = wh.adversary_error(other, prior, wh.discrete(12))
    assert gained > wh.adversary_error(best, prior, wh.discrete(12)) + 0.01


@given(some.profiles(least=3, most=8), some.EPSILONS)
@examples(20)
def test_shokri_at_equal_loss_has_equal_privacy(
    profile: tuple[wh.Places, some.Floats], epsilon: float
) -> None:
    """OptPriv with q = QL(OptQL) has AdvError q on the prior it was built for (Section 3.4)."""
    places, prior = profile
    q = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    assume(q > 1e-6)
    rival = wh.optimal_privacy(places, prior, quality_loss=q)
    assert wh.quality_loss(rival, prior) <= q + 1e-7
    assert wh.adversary_error(rival, prior) == pytest.approx(q, abs=1e-7)
    assert rival.epsilon is None


@given(some.profiles(least=3, most=7), some.EPSILONS)
@examples(15)
def test_loss_never_falls_as_dilation_grows_on_the_same_edges(
    profile: tuple[wh.Places, some.Floats], epsilon: float
) -> None:
    places, prior = profile
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.4)
    losses = []
    for delta in (1.0, 1.1, 1.3, 1.6, 2.0):
        program = least_loss(prior, distances, spanner.edges, epsilon / delta * spanner.lengths)
        losses.append(solve(program).objective)
    assert all(later >= earlier - 1e-8 for earlier, later in itertools.pairwise(losses))


@given(some.profiles(least=3, most=8), some.EPSILONS, st.sampled_from([1.05, 1.3, 1.8]))
@examples(25)
def test_the_exact_optimum_is_never_above_anything_private(
    profile: tuple[wh.Places, some.Floats], epsilon: float, delta: float
) -> None:
    places, prior = profile
    best = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    others = [
        wh.optimal(places, prior, epsilon, dilation=delta),
        wh.planar_laplace(places, epsilon),
        wh.planar_laplace(places, epsilon).remap(prior),
        wh.exponential(places, epsilon).remap(prior),
    ]
    try:
        others.append(wh.tight_constraints(places, epsilon).remap(prior))
    except wh.SolveError as missing:
        assert "does not exist" in str(missing)
    for other in others:
        assert best <= wh.quality_loss(other, prior) + 1e-8
