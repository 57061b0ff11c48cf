"""The forward filter: by enumeration of all paths, and whether it helps or does no harm."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest

import strategies as some
import whereish as wh
from test_tracker import Walk
from whereish.device.filtering import Belief, ForwardFilter, emissions

PLACES = some.grid(4, 4)
PRIOR = some.skewed(16) * 0.9 + 0.1 / 16
MECHANISM = wh.exponential(PLACES, 2.0)


def filtered_by_paths(walk: Walk, matrix: Any, times: list[float], draws: list[int]) -> Any:
    """P(place at the end | draws), as a sum over all paths."""
    n = len(walk.places)
    weights = np.zeros(n)
    for path in itertools.product(range(n), repeat=len(draws)):
        weight = walk.initial_at(times[0])[path[0]]
        for k in range(1, len(draws)):
            weight *= walk.transition(times[k - 1], times[k])[path[k - 1], path[k]]
        weights[path[-1]] += weight * math.prod(
            matrix[x, z] for x, z in zip(path, draws, strict=True)
        )
    return weights / weights.sum()


def test_the_filter_is_the_sum_over_all_paths() -> None:
    places = some.grid(2, 2)
    mechanism = wh.exponential(places, 1.5)
    walk = Walk(places, some.skewed(4) * 0.8 + 0.05, stay=0.6)
    made = ForwardFilter(mechanism, walk)
    times, draws = [100.0, 900.0, 2000.0, 2300.0], [0, 3, 3, 1]
    belief = None
    for k, (time, z) in enumerate(zip(times, draws, strict=True)):
        belief = made.observed(belief, time, made.emission[:, z])
        expected = filtered_by_paths(walk, mechanism.matrix, times[: k + 1], draws[: k + 1])
        assert belief.moving == pytest.approx(expected)
        assert belief.mixed.sum() == pytest.approx(1.0)
        assert 0 < belief.trust < 1
    assert belief is not None
    kept = Belief.of_json(json.loads(json.dumps(belief.as_json())), 4)
    assert (kept.moving.tolist(), kept.trust) == (belief.moving.tolist(), belief.trust)
    with pytest.raises(wh.InputError):
        Belief.of_json(belief.as_json(), 5)


def test_the_best_report_has_the_least_expected_distance() -> None:
    made = ForwardFilter(MECHANISM, Walk(PLACES, PRIOR))
    belief = made.observed(None, 0.0, made.emission[:, 5])
    expected = [
        sum(p * math.dist(x, y) for p, x in zip(belief.mixed, PLACES.xy, strict=True))
        for y in MECHANISM.outputs.xy
    ]
    assert made.best(belief) == int(np.argmin(expected))
    assert made.best(belief, made.best(belief)) == made.best(belief)
    worst = int(np.argmax(expected))
    assert made.best(belief, worst) == made.best(belief)


def mean_errors(walk: Walk, truth: Walk, seed: int) -> tuple[float, float]:
    """Return the mean error of draws and of filtered reports of people who walk like `truth`."""
    rng = np.random.default_rng(seed)
    made, raw, sent = ForwardFilter(MECHANISM, walk), [], []
    for _ in range(30):
        x, belief = int(rng.choice(16, p=truth.initial_at(0.0))), None
        for k in range(40):
            if k:
                x = int(rng.choice(16, p=truth.transition(0.0, 600.0)[x]))
            z = int(MECHANISM.sample(x, rng=rng).outputs[0])
            belief = made.observed(belief, 600.0 * k, made.emission[:, z])
            y = made.best(belief, z)
            raw.append(math.dist(PLACES.xy[x], PLACES.xy[z]))
            sent.append(math.dist(PLACES.xy[x], PLACES.xy[y]))
    return float(np.mean(raw)), float(np.mean(sent))


def test_a_model_that_fits_helps_and_one_that_does_not_is_not_followed() -> None:
    people = Walk(PLACES, PRIOR, stay=0.95)
    raw, sent = mean_errors(people, people, 1)
    assert sent < 0.6 * raw
    # Nobody stays as long as this model says: the expert that forgets takes over.
    restless = Walk(PLACES, PRIOR, stay=0.05)
    raw, sent = mean_errors(Walk(PLACES, PRIOR, stay=0.9999), restless, 2)
    assert sent < 1.05 * raw


def test_what_the_model_says_is_impossible_changes_nothing() -> None:
    made = ForwardFilter(MECHANISM, Walk(PLACES, PRIOR))
    before = made.observed(None, 0.0, made.emission[:, 3])
    after = made.observed(before, 0.0, np.zeros(16))
    assert after.moving.tolist() == before.moving.tolist()


def test_models_and_mechanisms_of_all_kinds() -> None:
    noise = wh.planar_laplace_everywhere(PLACES.xy, None, 2.0)
    chances = emissions(noise, PLACES)
    assert chances.sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    earth = wh.square_grid(south=48.8, west=2.2, north=48.83, east=2.24, cell_km=(1.0, 1.0))
    with pytest.raises(wh.InputError, match="comparable"):
        ForwardFilter(MECHANISM, Walk(earth, np.full(len(earth), 1 / len(earth))))
