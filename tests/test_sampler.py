"""The sampler: the right distribution, from the randomness of the system; and snapping."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import strategies as some
import whereish as wh
from whereish.measures import TOTAL
from whereish.release import draw
from whereish.release import sampler as module

PLACES = some.grid(10, 5)
PRIOR = some.skewed(50)
ALPHA = 1e-6


def fits(drawn: Any, counts: Any, alpha: float = ALPHA) -> bool:
    """Pearson's chi-square test of one row, rare outputs taken together."""
    expected = counts.astype(np.float64) / TOTAL * len(drawn)
    seen = np.bincount(drawn, minlength=len(counts)).astype(np.float64)
    if seen[counts == 0].any():
        return False
    rare = expected < 5
    if rare.any():
        expected = np.r_[expected[~rare], max(expected[rare].sum(), 1e-300)]
        seen = np.r_[seen[~rare], seen[rare].sum()]
        if expected[-1] < 5:
            seen, expected = seen[:-1], expected[:-1]
    return bool(((seen - expected) ** 2 / expected).sum() < chi2.isf(alpha, len(seen)))


@pytest.mark.slow
def test_fifty_rows_of_draws_fit_and_wrong_ones_do_not() -> None:
    """Fifty tests at 1e-9 each. More draws make up for that: a smaller error is still found."""
    mechanism = wh.planar_laplace(PLACES, 1.07)
    counts, alpha = mechanism.counts, 1e-9
    for x in range(50):
        size = 4_000_000 if x == 20 else 1_500_000
        drawn = mechanism.sample(x, size=size).outputs
        assert fits(drawn, counts[x], alpha), x
        if x == 20:
            # The largest count 3 % higher: four million draws miss that once in 1e27 runs, by the
            # non-central chi-square distribution; a million miss it once in 65.
            bent = counts[x].astype(np.float64)
            bent[bent.argmax()] *= 1.03
            assert not fits(drawn, bent / bent.sum() * TOTAL, alpha)
            assert not fits(drawn, counts[21], alpha)


def test_a_draw_is_one_comparison_with_every_running_sum() -> None:
    """The report of a given integer is decided by exact sums, at every boundary."""
    counts = np.array([[1, 0, TOTAL - 3, 2]], np.uint64)
    sums = module.cumulative(counts)
    edges = np.array([0, 1, TOTAL - 3, TOTAL - 2, TOTAL - 1], np.uint64)

    class Fixed(np.random.Generator):
        def integers(self, *args: Any, **kwargs: Any) -> Any:
            return edges

    rows = np.zeros(len(edges), np.int64)
    assert draw(sums, rows, Fixed(np.random.PCG64())).tolist() == [0, 2, 2, 3, 3]


def test_mixed_rows_are_each_drawn_from_their_own() -> None:
    mechanism = wh.exponential(PLACES, 1.07)
    at = np.tile([3, 40], 200_000)
    drawn = mechanism.sample(at).outputs
    assert fits(drawn[::2], mechanism.counts[3])
    assert fits(drawn[1::2], mechanism.counts[40])


def _draws(queue: Any) -> None:
    queue.put(module.uniform(200_000).tolist())


def test_nothing_repeats_across_a_fork() -> None:
    context = multiprocessing.get_context("fork")
    module.uniform(10)
    queue: Any = context.Queue()
    workers = [context.Process(target=_draws, args=(queue,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    drawn = [queue.get() for _ in workers] + [module.uniform(200_000).tolist()]
    for worker in workers:
        worker.join()
    whole = [value for part in drawn for value in part]
    assert len(whole) == 1_000_000
    assert len(set(whole)) == len(whole)


def test_no_entropy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(size: int) -> bytes:
        raise NotImplementedError("none")

    monkeypatch.setattr(os, "urandom", empty)
    with pytest.raises(wh.WhereishError, match="no randomness"):
        wh.exponential(PLACES, 1.0).sample(0)


def test_a_seed_is_for_studies_and_the_result_says_so() -> None:
    mechanism = wh.exponential(PLACES, 1.0)
    one = mechanism.sample(3, size=50, rng=np.random.default_rng(1))
    two = mechanism.sample(3, size=50, rng=np.random.default_rng(1))
    assert one.outputs.tolist() == two.outputs.tolist()
    assert one.seeded
    assert "seeded" in repr(one)
    free = mechanism.sample(3, size=50)
    assert not free.seeded
    assert free.outputs.tolist() != mechanism.sample(3, size=50).outputs.tolist()


# Where one is ----------------------------------------------------------------------------------

PARIS = wh.square_grid(48.84, 2.30, 48.87, 2.35, cell_km=(0.9, 1.1))


def test_a_point_is_reported_as_its_nearest_place() -> None:
    mechanism = wh.exponential(PARIS, 1000.0)  # which reports the place itself
    assert PARIS.latlon is not None
    near = PARIS.latlon + np.array([[0.002, -0.001]])
    reports = mechanism.sample(near)
    assert reports.outputs.tolist() == list(range(len(PARIS)))
    assert reports.latlon is not None
    assert np.abs(reports.latlon - PARIS.latlon).max() == 0
    away = wh.geodesic(wh.Places.from_latlon(near), PARIS)
    assert reports.snapped_km == pytest.approx(np.diag(away), rel=1e-4)
    assert not reports.outside.any()


def test_a_tuple_is_a_point_whatever_its_numbers_are() -> None:
    mechanism = wh.exponential(wh.square_grid(47.5, 1.5, 48.5, 2.5, cell_km=(20, 20)), 1.0)
    one = mechanism.sample((48, 2))
    assert len(one) == 1
    assert one.snapped_km[0] > 0
    assert len(mechanism.sample([4, 2])) == 2


def test_outside_is_never_silent() -> None:
    mechanism = wh.exponential(PARIS, 2.0)
    outside = (48.95, 2.30)
    with pytest.raises(wh.InputError, match="must be inside the area"):
        mechanism.sample(outside)
    nearest = mechanism.sample(outside, outside="nearest")
    assert nearest.outside.tolist() == [True]
    noisy = mechanism.sample([outside, (48.85, 2.32)], outside="planar-laplace")
    assert noisy.outputs[0] == -1
    assert noisy.outputs[1] >= 0
    assert noisy.latlon is not None
    assert abs(noisy.latlon[0, 0] - 48.95) < 0.2
    with pytest.raises(wh.InputError, match="outside must be one of"):
        mechanism.sample(outside, outside="shrug")


def test_noise_outside_is_large_enough_on_the_ground_or_refused() -> None:
    mechanism = wh.exponential(PARIS, 1.0)
    for lat, lon in ((-36.85, 174.76), (40.7, -74.0)):
        with pytest.raises(wh.InputError, match="within 1,000 km"):
            mechanism.sample((lat, lon), outside="planar-laplace")
    london = np.array([[51.5, -0.12]])
    reports = mechanism.sample(np.repeat(london, 20_000, axis=0), outside="planar-laplace")
    assert reports.latlon is not None
    ground = wh.geodesic(
        wh.Places.from_latlon(london), wh.Places.from_latlon(np.unique(reports.latlon, axis=0))
    )
    assert ground.mean() > 1.95  # planar Laplace at 1 per km is 2 km off on average


def test_the_area_is_that_of_the_cells_or_of_the_neighbours() -> None:
    assert PARIS.reach_km == pytest.approx(np.hypot(0.9, 1.1) / 2)
    assert wh.Places.from_xy([[0, 0], [1, 0], [4, 0]]).reach_km == pytest.approx(3.0)


@pytest.mark.parametrize(
    "at",
    [
        -1,
        50,
        [0, 50],
        1.5,
        [],
        "3",
        None,
        [1.0, 2.0, 3.0],
        np.zeros((2, 4)),
        np.zeros((4, 1)),
        [[np.nan, 1.0]],
        [[1.0, 2.0], [1.0]],
    ],
)
def test_what_is_no_place_is_refused(at: Any) -> None:
    with pytest.raises(wh.InputError):
        wh.exponential(PLACES, 1.0).sample(at)


@pytest.mark.parametrize(("at", "size"), [([1, 2], 3), (1, -1), (1, 2.5), (1, True), (1, 10**13)])
def test_sizes_that_are_none(at: Any, size: Any) -> None:
    with pytest.raises(wh.InputError):
        wh.exponential(PLACES, 1.0).sample(at, size)


# Mironov's test ---------------------------------------------------------------------------------


def on_a_lattice(reports: Any, candidate: Any) -> float:
    """How often a report is a sum of the candidate and some float, in both coordinates."""
    return float(((candidate + (reports - candidate)) == reports).all(axis=1).mean())


def test_last_digits_do_not_tell_the_true_point_from_another() -> None:
    """Mironov (CCS 2012): naive noise gives the true point away, and rounded noise does not."""
    one, other = np.array([[3.3, 4.7]]), np.array([[3.31, 4.69]])
    count, rng = 500_000, np.random.default_rng(0)

    def naive(points: Any) -> Any:
        radius, angle = rng.gamma(2, size=count), rng.uniform(0, 2 * np.pi, count)
        return points + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def ours(points: Any) -> Any:
        return wh.planar_laplace_noise(np.repeat(points, count, axis=0), 1.0)

    assert on_a_lattice(naive(one), one) - on_a_lattice(naive(other), one) > 0.01
    for candidate, elsewhere in ((one, other), (other, one)):
        true, wrong = (on_a_lattice(ours(at), candidate) for at in (candidate, elsewhere))
        assert abs(true - wrong) < 0.002  # 7 standard deviations
