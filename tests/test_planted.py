"""Bugs that peers have shipped, or that we could: each must be caught by the audit or a test.

Every entry makes the probabilities that a mechanism with that bug would have, on 12 places of
Paris. As integers they claim an epsilon they do not have, and the audit must refuse them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import whereish as wh
from whereish.measures import TOTAL
from whereish.release import sampler, to_counts

PLACES = wh.square_grid(48.84, 2.30, 48.87, 2.35, cell_km=(0.9, 1.1))
N = len(PLACES)
PRIOR = np.random.default_rng(3).dirichlet(np.full(N, 0.4))
EPSILON = 1.07
D = wh.euclidean(PLACES)
GOOD = wh.optimal(PLACES, PRIOR, EPSILON).matrix
LAPLACE = wh.planar_laplace(PLACES, EPSILON).matrix
X, Y = PLACES.xy.T


def rows(matrix: Any) -> Any:
    matrix = np.asarray(matrix, dtype=np.float64)
    return matrix / matrix.sum(axis=1, keepdims=True)


def optimal_at(epsilon: float, metric: Any = None) -> Any:
    return wh.optimal(PLACES, PRIOR, epsilon, privacy_metric=metric).matrix


def clipped(matrix: Any, below: float) -> Any:
    return rows(np.where(matrix < below, 0.0, matrix))


def one_row(matrix: Any, row: int, values: Any) -> Any:
    changed = np.array(matrix)
    changed[row] = values
    return rows(changed)


def dropped_pair() -> Any:
    """Constrain all pairs but those of one place: its row may do as it likes."""
    away = D.copy()
    away[0, 1:] += 3.0
    away[1:, 0] += 3.0
    return optimal_at(EPSILON, away)


def without_dilation() -> Any:
    """Constrain a spanner's edges at the full epsilon, and not at epsilon / dilation."""
    spanner = wh.greedy_spanner(D, 1.4)
    return wh.optimal(PLACES, PRIOR, EPSILON * spanner.exact_dilation, dilation=1.4).matrix


def redrawn() -> Any:
    """Draw planar Laplace again and again until it falls inside the box of the places."""
    rng = np.random.default_rng(0)
    reports = np.zeros((N, N))
    low, high = PLACES.xy.min(axis=0), PLACES.xy.max(axis=0)
    for x in range(N):
        moved = wh.planar_laplace_noise(np.repeat(PLACES.xy[[x]], 200_000, axis=0), EPSILON, rng)
        inside = moved[((moved >= low) & (moved <= high)).all(axis=1)]
        reports[x] = np.bincount(PLACES.tree.query(inside)[1], minlength=N)
    return rows(reports)


def north_south_only_at_poles() -> Any:
    """Keep the earth-centred z axis for the plane's: hardly any noise from north to south."""
    return rows(np.exp(-EPSILON * np.hypot(X[:, None] - X, 30 * (Y[:, None] - Y))))


BUGS: dict[str, Callable[[], Any]] = {
    "clipped zeros": lambda: clipped(GOOD, 0.02),
    "rounded to three decimals": lambda: rows(np.round(GOOD, 3)),
    "rounded down to percents": lambda: rows(np.floor(LAPLACE * 100) + (LAPLACE >= 0.3)),
    "only the likeliest reports kept": lambda: rows(
        np.where(np.sort(GOOD)[:, [-2]] <= GOOD, GOOD, 0)
    ),
    "missing dilation": without_dilation,
    "a dropped place": dropped_pair,
    "epsilon in degrees": lambda: optimal_at(EPSILON * 111.0),
    "epsilon per mile": lambda: optimal_at(EPSILON * 1.609),
    "epsilon halved in the exponent": lambda: optimal_at(2 * EPSILON),
    "ratio taken for its logarithm": lambda: optimal_at(np.exp(EPSILON)),
    "epsilon ignored": lambda: np.eye(N),
    "noise shrunk by latitude": lambda: rows(
        np.exp(-EPSILON * np.hypot((X[:, None] - X) / 0.658**2, Y[:, None] - Y))
    ),
    "longitude not shrunk by latitude": lambda: optimal_at(EPSILON, D / 0.658),
    "no noise from north to south": north_south_only_at_poles,
    "manhattan for euclidean": lambda: optimal_at(
        EPSILON, np.abs(X[:, None] - X) + np.abs(Y[:, None] - Y)
    ),
    "squared distance": lambda: optimal_at(EPSILON, np.sqrt(D) * np.sqrt(D.max())),
    "exponential without its half": lambda: rows(np.exp(-EPSILON * D)),
    "redraw until inside": redrawn,
    "the true place a quarter of the time": lambda: 0.266 * np.eye(N) + 0.734 * GOOD,
    "never the true place": lambda: rows(LAPLACE * (1 - np.eye(N))),
    "swapped rows": lambda: LAPLACE[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, N - 1, *range(11, N - 1), 10]],
    "shifted outputs in one row": lambda: one_row(LAPLACE, 0, np.roll(LAPLACE[0], 3)),
    "a column emptied for some rows": lambda: rows(
        np.where((np.arange(N)[:, None] > 3) & (np.arange(N) == 2), 0.0, LAPLACE)
    ),
    "one entry three times too large": lambda: one_row(
        LAPLACE, 4, LAPLACE[4] * np.where(np.arange(N) == 4, 3.0, 1.0)
    ),
    "columns normalised, not rows": lambda: rows(GOOD / (GOOD.sum(axis=0) + 1e-3) ** 2),
    "weighted by the prior": lambda: rows(
        LAPLACE * (PRIOR[:, None] + 1e-3) * PRIOR + np.eye(N) / 50
    ),
    "transposed": lambda: rows(wh.closed_form(PLACES, PRIOR, EPSILON).matrix.T + 1e-9),
    "a remap that knows the place": lambda: rows(0.3 * np.eye(N) + LAPLACE * (D <= 1.5)),
    "the mean of a report and the truth": lambda: rows(LAPLACE @ np.eye(N) + 2 * np.eye(N)),
    "powers of two": lambda: rows(2.0 ** np.round(np.log2(LAPLACE) * 0.9)),
    "a float32 on the way, twice differenced": lambda: rows(
        np.diff(np.cumsum(np.round(GOOD, 2), axis=1).astype(np.float32), prepend=0, axis=1).clip(0)
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught_by_the_audit(name: str) -> None:
    counts = to_counts(BUGS[name]())
    assert [sum(row) for row in counts.tolist()] == [TOTAL] * N
    with pytest.raises(wh.GuaranteeError, match="not private: place"):
        wh.Mechanism.of_counts(counts, PLACES, PLACES, EPSILON)


def test_the_audit_does_not_cry_wolf() -> None:
    for mechanism in (
        wh.optimal(PLACES, PRIOR, EPSILON),
        wh.optimal(PLACES, PRIOR, EPSILON, dilation=1.4),
        wh.planar_laplace(PLACES, EPSILON),
        wh.exponential(PLACES, EPSILON),
        wh.closed_form(PLACES, PRIOR, EPSILON),
    ):
        made = wh.Mechanism.of_counts(mechanism.counts, PLACES, PLACES, EPSILON)
        assert made.verdict is not None
        assert len(BUGS) >= 25


def off_by_one(counts: Any) -> None:
    counts[3, 0] += np.uint64(1)


def overflowing(counts: Any) -> None:
    counts[3] = np.uint64(2**62)
    counts[3, 0] += np.uint64(TOTAL)


def one_sided_zero(counts: Any) -> None:
    counts[3, 1] += counts[3, 0]
    counts[3, 0] = 0


@pytest.mark.parametrize("spoil", [off_by_one, overflowing, one_sided_zero])
def test_spoiled_integers_are_caught(spoil: Callable[[Any], None]) -> None:
    counts = wh.planar_laplace(PLACES, EPSILON).counts.copy()
    spoil(counts)
    with pytest.raises(wh.GuaranteeError):
        wh.Mechanism.of_counts(counts, PLACES, PLACES, EPSILON)


# Bugs of a sampler: a detector that is silent about ours must speak about theirs.


def repeats() -> bool:
    """Draw twice: reports that come again can be taken off again."""
    mechanism = wh.planar_laplace(PLACES, EPSILON)
    one, two = (mechanism.sample(0, size=200).outputs.tolist() for _ in range(2))
    return bool(one == two)


def test_a_seeded_generator_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not repeats()
    monkeypatch.setattr(os, "urandom", lambda size: np.random.default_rng(42).bytes(size))
    assert repeats()


def misses() -> bool:
    """Ask for the integers next to every boundary of a row: each must fall on its own side."""
    counts = np.array([[3, TOTAL // 2, 1, TOTAL - TOTAL // 2 - 4]], np.uint64)
    sums = np.cumsum(counts[0]).tolist()
    asked = sorted({edge + step for edge in sums for step in (-1, 0) if edge + step < TOTAL})
    expected = [next(z for z, edge in enumerate(sums) if value < edge) for value in asked]
    drawn = iter([np.array(asked, np.uint64)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "uniform", lambda size, rng=None: next(drawn))
        found = sampler.draw(sampler.cumulative(counts), np.zeros(len(asked), np.int64))
    return bool(found.tolist() != expected)


def test_a_float_cdf_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not misses()
    exact = sampler.cumulative
    monkeypatch.setattr(
        sampler, "cumulative", lambda counts: exact(counts).astype(np.float64).astype(np.uint64)
    )
    assert misses()
