"""The structured solver against HiGHS, the definition of privacy, and its own promises."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checks
import strategies as some
import whereish as wh
from whereish.mechanisms import search
from whereish.solvers import Program, Progress, Structured, estimate, solve_on, solve_structured
from whereish.solvers.structured import Member, assembled, solve_share


def direct(
    places: wh.Places,
    prior: some.Floats,
    epsilon: float,
    loss: some.Floats | None = None,
    metric: some.Floats | None = None,
    dilation: float = 1.0,
    **options: Any,
) -> Structured:
    distances = wh.euclidean(places) if metric is None else metric
    spanner = wh.greedy_spanner(distances, dilation)
    level = epsilon / spanner.exact_dilation
    return solve_structured(
        prior,
        wh.euclidean(places) if loss is None else loss,
        spanner.edges,
        level * spanner.lengths,
        level * distances,
        **options,
    )


def instance(seed: int) -> tuple[wh.Places, some.Floats, float]:
    rng = np.random.default_rng(seed)
    epsilon = (0.05, 0.3, 1.07, 2.0, 4.0, 6.0)[seed % 6]
    if seed % 2:
        places = wh.Places.from_xy(rng.uniform(0, 4, (int(rng.integers(13, 24)), 2)))
    else:
        places = some.grid(int(rng.integers(4, 6)), int(rng.integers(3, 6)))
    return places, some.skewed(len(places), seed), epsilon


@pytest.mark.parametrize("seed", range(30))
def test_it_finds_the_optimum_and_proves_it(seed: int) -> None:
    """Skewed priors with a zero, gridded and scattered, 13 to 25 places, eps 0.05 to 6 per km."""
    places, prior, epsilon = instance(seed)
    optimum = wh.quality_loss(
        wh.optimal(places, prior, epsilon, solver="highs-dual-simplex"), prior
    )
    found = direct(places, prior, epsilon)
    assert found.stopped == "solved"
    assert found.gap <= 1e-6
    assert found.bound <= optimum * (1 + 1e-7) + 1e-9
    assert found.loss >= optimum * (1 - 1e-7) - 1e-9
    assert found.loss == pytest.approx(optimum, rel=1e-6, abs=1e-9)
    assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-9
    mechanism = wh.optimal(places, prior, epsilon, solver="structured")
    assert mechanism.build.solver == "structured"
    assert mechanism.build.repair_mix is not None
    assert mechanism.build.repair_mix < 1e-9
    matrix = mechanism.matrix.tolist()
    assert checks.broken_ratios(matrix, epsilon, xy=places.xy.tolist()) == []


@pytest.mark.parametrize("seed", range(6))
def test_other_metrics_and_outputs(seed: int) -> None:
    places, prior, epsilon = instance(2 * seed + 1)
    n = len(places)
    rng = np.random.default_rng(seed)
    tree = [[int(rng.integers(0, i)), i] for i in range(1, n)]
    along = wh.graph_metric(n, tree, rng.uniform(0.2, 1.0, n - 1))
    outputs = wh.Places.from_xy(rng.uniform(0, 4, (15, 2)))
    variants: list[dict[str, Any]] = [
        {"privacy_metric": along},
        {"quality_metric": wh.discrete(n)},
        {"outputs": list(range(0, n, 2))},
        {"outputs": outputs},
        {"dilation": 1.2},
    ]
    for variant in variants:
        pair = [
            wh.optimal(places, prior, epsilon, solver=solver, **variant)
            for solver in ("structured", "highs-dual-simplex")
        ]
        metric = variant.get("quality_metric")
        losses = [wh.quality_loss(m, prior, metric) for m in pair]
        gap = pair[0].build.program_gap
        assert gap is not None
        assert gap < 1e-6
        assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-9), variant


@pytest.mark.parametrize(
    "prior",
    [
        np.eye(1, 16, 5)[0],
        np.r_[np.full(2, 0.5), np.zeros(14)],
        np.full(16, 1 / 16),
        np.r_[1 - 15e-9, np.full(15, 1e-9)],
    ],
    ids=["one place", "two places", "uniform", "nearly one"],
)
def test_priors_at_the_edge(prior: some.Floats) -> None:
    places = some.grid(4, 4)
    mechanism = wh.optimal(places, prior, 1.07, solver="structured")
    exact = wh.quality_loss(wh.optimal(places, prior, 1.07, solver="highs-dual-simplex"), prior)
    assert wh.quality_loss(mechanism, prior) == pytest.approx(exact, rel=1e-6, abs=1e-8)


def test_every_iterate_is_bounded_below_and_the_bound_never_lies() -> None:
    places, prior, epsilon = instance(2)
    optimum = wh.quality_loss(
        wh.optimal(places, prior, epsilon, solver="highs-dual-simplex"), prior
    )
    seen: list[Progress] = []
    direct(places, prior, epsilon, progress=seen.append)
    assert len(seen) > 5
    assert all(now.loss >= optimum * (1 - 1e-9) for now in seen)
    assert seen[-1].gap <= 1e-6
    assert [now.iteration for now in seen] == sorted(now.iteration for now in seen)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_holds_even_where_the_numbers_break_down(seed: int) -> None:
    """Clusters of ten metres, kilometres apart: the gap may stay open, the bound may not lie."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 1e-2, (24, 2)) + rng.choice([0.0, 3.0, 30.0], (24, 1))
    places, prior = wh.Places.from_xy(xy), some.skewed(24, seed)
    epsilon = (0.1, 0.6, 1.2, 4.0)[seed % 4]
    found = direct(places, prior, epsilon)
    optimum = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    assert found.bound <= optimum * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_it_proves_the_optimum_where_eps_d_is_in_the_hundreds(seed: int) -> None:
    """On a line of 40 km k is as small as 1e-130, and scaled multipliers have no digits there."""
    rng = np.random.default_rng(seed)
    xy = np.outer(np.sort(rng.uniform(-20, 20, 30)), [0.8, 0.6])
    prior = rng.gamma(0.3, size=30) * (rng.random(30) < 0.9) + 1e-12
    prior /= prior.sum()
    places = wh.Places.from_xy(xy)
    found = wh.optimal(places, prior, 8.0, solver="structured")
    assert found.build.gap is not None
    assert found.build.gap <= 1e-6
    other = wh.quality_loss(wh.optimal(places, prior, 8.0, solver="highs-dual-simplex"), prior)
    assert wh.quality_loss(found, prior) == pytest.approx(other, rel=1e-5)
    assert found.build.lower_bound_km is not None
    assert found.build.lower_bound_km <= other * (1 + 1e-9)


def test_out_of_time_it_hands_over_a_private_mechanism() -> None:
    """Stopped at once, it returns what it has: strictly private, with an honest gap."""
    places, prior = some.grid(6, 5), some.skewed(30)
    found = direct(places, prior, 1.07, time_limit_s=1e-9)
    assert found.stopped == "time"
    assert found.gap > 0.01
    spanner = wh.greedy_spanner(wh.euclidean(places), 1.0)
    for (a, b), length in zip(spanner.edges, spanner.lengths, strict=True):
        for x, y in itertools.permutations((a, b)):
            assert (found.matrix[x] <= np.exp(1.07 * length) * found.matrix[y] + 1e-300).all()
    mechanism = wh.optimal(places, prior, 1.07, solver="structured", time_limit_s=1e-9)
    assert mechanism.build.gap is not None
    assert mechanism.build.gap > 0.01


def test_threads_do_not_change_the_answer() -> None:
    """With the work cut into parts as for a large program: the same parts for any number."""
    places, prior = some.grid(10, 7), some.skewed(70, 4)
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    program = Program(distances, spanner.edges, 1.07 * spanner.lengths, 1.07 * distances)
    assert program.parts(prior) == 16, "or the threads would have nothing to share"
    one, two, seven = (solve_on(program, prior, threads=t) for t in (1, 2, 7))
    for other in (two, seven):
        assert (one.matrix == other.matrix).all()
        assert (one.loss, one.bound, one.iterations) == (other.loss, other.bound, other.iterations)
        assert (one.multipliers.value == other.multipliers.value).all()
    # Cut into parts or not, the sums are the same but for the order of summation.
    uncut = Member(0, 1, 1, lambda data, sums, maxima: None)
    whole = assembled(program, [solve_share(program, prior, 1e-6, member=uncut)])
    assert abs(whole.iterations - one.iterations) <= 2
    assert whole.loss == pytest.approx(one.loss, rel=2e-6)
    assert not (whole.matrix == one.matrix).all(), "or the parts were not forced"


_HOW_MANY = """
import hashlib, numpy as np, whereish as wh
rng = np.random.default_rng(110)
prior = rng.gamma(0.3, size=110)
places = wh.Places.from_xy(rng.uniform(0, 8, (110, 2)))
found = wh.optimal(places, prior / prior.sum(), 1.07, tolerance=1e-4)
print(hashlib.sha256(np.array(found.counts, dtype=object).astype(str).tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_threads_of_numpy_do_not_change_the_answer() -> None:
    """They do change what numpy finds: the same build has other counts then, and other files."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", _HOW_MANY], env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True, text=True, check=True,
        ).stdout
        for threads in ("1", "2")
    }  # fmt: skip
    assert len(digests) == 1


@pytest.mark.slow
def test_auto_takes_it_for_larger_programs() -> None:
    city = wh.embedded_city()
    mechanism = wh.optimal(city.places, city.prior, 1.07)
    assert mechanism.build.solver == "structured"
    exact = wh.optimal(city.places, city.prior, 1.07, solver="highs-dual-simplex", form="dual")
    loss = wh.quality_loss(mechanism, city.prior)
    assert loss == pytest.approx(wh.quality_loss(exact, city.prior), rel=1e-6)
    assert wh.adversary_error(mechanism, city.prior) == pytest.approx(loss, rel=1e-6)
    assert mechanism.build.lower_bound_km is not None
    assert mechanism.build.lower_bound_km <= wh.quality_loss(exact, city.prior) * (1 + 1e-9)


def test_auto_goes_on_with_highs_when_the_gap_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    module = search

    def open_gap(*arguments: Any) -> Structured:
        found = solve_on(*arguments)
        return replace(found, bound=0.999 * found.bound)

    monkeypatch.setattr(module, "STRUCTURED_FROM", 0)
    monkeypatch.setattr(module, "solve_on", open_gap)
    places, prior, epsilon = instance(2)
    assert wh.optimal(places, prior, epsilon).build.solver == "highs-dual-simplex"
    monkeypatch.setattr(module, "HIGHS_UP_TO", 0)
    mechanism = wh.optimal(places, prior, epsilon)
    assert mechanism.build.solver == "structured"
    assert mechanism.build.program_gap == pytest.approx(1e-3, rel=1e-2)


def test_too_large_for_the_memory_is_said_before_it_starts() -> None:
    assert estimate(50, 50, 1225).bytes < 10**8
    places = wh.Places.from_xy([[0.01 * i, 0.0] for i in range(1200)])
    prior = np.full(1200, 1 / 1200)
    with pytest.raises(wh.SolveError, match=r"8 GB is allowed: what fits is a dilation .* method"):
        wh.optimal(places, prior, 1.0)
    with pytest.raises(wh.SolveError, match=r"1 GB is allowed: what fits is .* outputs .* method"):
        wh.optimal(places, prior, 1.0, memory_limit_gb=1)
    with pytest.raises(wh.SolveError, match=r"0\.0001 GB is allowed: what fits is method"):
        wh.optimal(some.grid(5, 5), some.skewed(25), 1.0, memory_limit_gb=1e-4)


def test_it_is_for_least_loss_only() -> None:
    with pytest.raises(wh.InputError, match="least-loss mechanisms only"):
        wh.optimal_privacy(some.grid(2, 2), some.skewed(4), 0.3, solver="structured")
