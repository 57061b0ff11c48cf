"""Values of eps d for which exp(eps d) overflows: right numbers, and no warnings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strategies as some
import whereish as wh
from whereish.plotting.pictures import draw_mechanism

SIZES = {"metres": 1e-3, "a city": 1.0, "a continent": 1e3, "as far as it goes": 1e9}


def places_of(size: float) -> wh.Places:
    rng = np.random.default_rng(4)
    return wh.Places.from_xy(rng.uniform(0, size, (7, 2)))


def uses_of(mechanism: wh.Mechanism, prior: Any) -> list[Any]:
    return [
        lambda: wh.quality_loss(mechanism, prior),
        lambda: wh.adversary_error(mechanism, prior),
        lambda: wh.conditional_entropy(mechanism, prior),
        lambda: wh.worst_case_loss(mechanism),
        lambda: wh.report_radius(mechanism, prior),
        lambda: wh.radius_to_ask(mechanism, 0.3),
        lambda: wh.how_far(mechanism, prior).build.gap,
        lambda: wh.quality_loss(mechanism.remap(prior), prior),
        lambda: wh.certify(mechanism, prior)["quality_loss_km"],
    ]


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 750.0, 1e6, 1e9])
@pytest.mark.parametrize("size", SIZES)
def test_no_warning_from_a_millimetre_to_the_moon(
    size: str, epsilon: float, tmp_path: Path
) -> None:
    """Every function on every mechanism: an error on purpose, or a finite answer."""
    places, prior = places_of(SIZES[size]), some.skewed(7)
    makers: list[Any] = [
        lambda: wh.optimal(places, prior, epsilon),
        lambda: wh.optimal(places, prior, epsilon, solver="structured"),
        lambda: wh.optimal(places, prior, epsilon, 1.5),
        lambda: wh.closed_form(places, prior, epsilon),
        lambda: wh.exponential(places, epsilon),
        lambda: wh.planar_laplace(places, epsilon),
        lambda: wh.tight_constraints(places, epsilon),
        lambda: wh.optimal(places, prior, epsilon, privacy_metric=wh.discrete(7)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = 0
        for make in makers:
            try:
                mechanism = make()
            except (wh.SolveError, wh.GuaranteeError):
                continue  # in words
            made += 1
            uses = uses_of(mechanism, prior)
            for use in uses:
                try:
                    assert np.isfinite(use())
                except (wh.SolveError, wh.GuaranteeError):
                    continue
            assert not np.isnan(wh.tightest_epsilon(mechanism))
            path = tmp_path / f"{made}.whereish"
            try:
                wh.save_mechanism(path, mechanism, prior)
            except wh.GuaranteeError:
                continue
            assert wh.audit_file(path)["certified"]
            mechanism.sample(3, size=5)
        assert made
        wh.planar_laplace_noise(places.xy, epsilon)


def test_a_mechanism_without_an_epsilon_may_have_an_infinite_one() -> None:
    places = places_of(1e3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wh.tightest_epsilon(wh.Mechanism(np.eye(7), places, places)) == np.inf


def test_ratios_too_large_for_a_double_are_still_numbers() -> None:
    """0.5 / 5e-324 is more than a double can be, and ln of it is not infinite."""
    places = wh.Places.from_xy([[0, 0], [1, 0]])
    matrix = np.array([[0.5, 0.5], [5e-324, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = wh.tightest_epsilon(wh.Mechanism(matrix, places, places))
    assert float(found) == pytest.approx(np.log(0.5) + 1074 * np.log(2), rel=1e-12)
    assert (found.pair, found.output) == ((0, 1), 0)
    assert wh.Mechanism(matrix, places, places, 800.0).verdict is not None
    with pytest.raises(wh.GuaranteeError, match="not private"):
        wh.Mechanism(matrix, places, places, 700.0)


@pytest.mark.slow
def test_pictures_of_sharp_mechanisms(tmp_path: Path) -> None:
    places, prior = places_of(1e3), some.skewed(7)
    mechanism = wh.closed_form(places, prior, 1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_mechanism(mechanism, wh.Profile(places, prior), tmp_path / "k.png")
    assert (tmp_path / "k.png").stat().st_size > 1000
