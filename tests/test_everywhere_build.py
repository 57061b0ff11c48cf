"""Mechanisms for all points, built for people: guarantee, loss, bounds, and planted bugs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import checks
import whereish as wh
from effort import examples
from test_everywhere import UNIT, exact_rows
from whereish.deadline import Deadline
from whereish.everywhere.points import as_visits, clustered
from whereish.everywhere.search import Task
from whereish.measures import TOTAL, steepest
from whereish.places import Lattice
from whereish.places.lattice import to_units
from whereish.release import release_lattice, to_counts
from whereish.release.exact_noise import PlanarNoise
from whereish.solvers.cones import solve_cones


def on_lattice(
    points: Any, weights: Any, epsilon: float, **arguments: Any
) -> wh.EverywhereMechanism:
    m = wh.optimal_everywhere(points, weights, epsilon, method="lattice", **arguments)
    assert isinstance(m, wh.EverywhereMechanism)
    return m


@st.composite
def people(draw: DrawFn) -> tuple[Any, Any, float]:
    """Clustered, skewed, collinear, one spot, spots at the border of their rectangle."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["clustered", "skewed", "line", "diagonal", "spot", "border"]))
    epsilon = draw(st.sampled_from([0.2, 0.5, 1.07, 2.0, 4.0, 10.0]))
    count = draw(st.integers(2, 40))
    points = rng.uniform(-3, 3, (count, 2))
    if kind == "clustered":
        points = points[rng.integers(0, min(5, count), count)] + rng.normal(0, 0.08, (count, 2))
    elif kind == "line":
        points[:, draw(st.integers(0, 1))] = 1.25
    elif kind == "diagonal":
        points[:, 1] = 2 * points[:, 0]
    elif kind == "spot":
        points[:] = points[0]
    elif kind == "border":
        points[:4] = np.array([[-3, -3], [3, 3], [-3, 3], [3, -3]])[: len(points[:4])]
    weights = rng.gamma(0.2 if kind == "skewed" else 1.0, size=count) + 1e-12
    return points, weights / weights.sum(), epsilon


@given(people())
@examples(25)
def test_what_is_built_for_a_person_is_private_everywhere(person: Any) -> None:
    points, weights, epsilon = person
    m = on_lattice(points, weights, epsilon, vertices=60)
    assert len(m.lattice) <= 60
    assert m.epsilon == epsilon
    xs, ys = (axis.tolist() for axis in m.lattice)
    assert checks.broken_corners(m.counts.tolist(), xs, ys, epsilon) == []
    assert wh.tightest_epsilon_everywhere(m) <= epsilon
    rng = np.random.default_rng(1)
    near = points[rng.integers(0, len(points), 8)] + rng.normal(0, 0.3, (8, 2))
    near[:3] = near[3:6] + rng.normal(0, 1e-4, (3, 2))
    rows = exact_rows(m, near)
    whole = to_units(near).tolist()
    for i in range(len(near)):
        for j in range(i):
            squared = sum((a - b) ** 2 for a, b in zip(whole[i], whole[j], strict=True)) * UNIT**2
            assert not checks.broken_pair(rows[i], rows[j], epsilon, squared)
    # The loss is that of the released counts, and no bound is above it.
    away = np.hypot(*(points[:, None] - m.outputs.xy).transpose(2, 0, 1))
    exact = np.array([[float(p) for p in row] for row in exact_rows(m, points)])
    loss = float((weights[:, None] * exact * away).sum())
    assert m.build.loss_km == pytest.approx(loss, rel=1e-9, abs=1e-12)
    assert wh.expected_loss(m, points, weights) == pytest.approx(loss, rel=1e-9, abs=1e-12)
    assert m.build.program_bound_km is not None
    assert m.build.program_bound_km <= loss * (1 + 1e-9) + 1e-12
    if m.build.lower_bound_km is not None:
        assert m.build.lower_bound_km <= m.build.program_bound_km * (1 + 1e-6) + 1e-9


def spots(seed: int = 3, count: int = 120) -> tuple[Any, Any]:
    """A person with five spots of 80 m, and 4 % elsewhere."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.5, 3.5, (5, 2))[rng.choice(5, count, p=[0.4, 0.3, 0.15, 0.1, 0.05])]
    points = points + rng.normal(0, 0.08, (count, 2))
    points[: count // 25] = rng.uniform(0, 4, (count // 25, 2))
    return points, np.full(count, 1 / count)


POINTS, WEIGHTS = spots()
EPSILON = 1.07
GOOD = on_lattice(POINTS, WEIGHTS, EPSILON, vertices=150)
XS, YS = GOOD.lattice
COSTS = GOOD.lattice.spread(
    POINTS,
    WEIGHTS[:, None] * np.hypot(*(POINTS[:, None] - GOOD.outputs.xy).transpose(2, 0, 1)),
)


def solved(xs: Any, ys: Any, epsilon: float) -> Any:
    """The rows that a build for another lattice or epsilon would have, as counts."""
    matrix = np.maximum(solve_cones(xs, ys, COSTS, epsilon, 1e-4).matrix, 1e-9)
    return to_counts(matrix / matrix.sum(axis=1, keepdims=True))


def one_vertex_left_out() -> Any:
    """Leave out the cones of one vertex: it may report its best output more often."""
    matrix = GOOD.matrix.copy()
    best = int(COSTS[70].argmin())
    matrix[70] *= 0.9
    matrix[70, best] += 0.1
    return to_counts(matrix)


BUGS: dict[str, Callable[[], Any]] = {
    "a cone left out": one_vertex_left_out,
    "only differences along the axes, not their norm": lambda: solved(XS, YS, EPSILON * 2**0.5),
    "wrong spacing": lambda: solved(XS * 1.25, YS * 1.25, EPSILON),
    "spacings of the axes swapped": lambda: solved(
        np.linspace(XS[0], XS[0] + np.ptp(YS), len(XS)),
        np.linspace(YS[0], YS[0] + np.ptp(XS) * 0.7, len(YS)),
        EPSILON,
    ),
    "even spacing instead of the graded one": lambda: solved(
        np.linspace(XS[0], XS[-1], len(XS)), np.linspace(YS[0], YS[-1], len(YS)), EPSILON
    ),
    "epsilon per mile": lambda: solved(XS, YS, EPSILON * 1.609),
    "rows rounded to three decimals": lambda: to_counts(
        np.round(GOOD.matrix, 3) / np.round(GOOD.matrix, 3).sum(axis=1, keepdims=True)
    ),
    "small probabilities cut off": lambda: to_counts(
        np.where(GOOD.matrix < 0.02, 0, GOOD.matrix)
        / np.where(GOOD.matrix < 0.02, 0, GOOD.matrix).sum(axis=1, keepdims=True)
    ),
    "vertices in the other order": lambda: np.ascontiguousarray(
        GOOD.counts.reshape(len(YS), len(XS), -1).transpose(1, 0, 2).reshape(GOOD.counts.shape)
    ),
}


def _away(one: Any, other: Any) -> Any:
    return np.hypot(*(one[:, None] - other).transpose(2, 0, 1))


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught_by_the_audit(name: str) -> None:
    counts = BUGS[name]()
    assert [sum(row) for row in counts.tolist()] == [TOTAL] * len(GOOD.counts)
    with pytest.raises(wh.GuaranteeError, match="not private everywhere"):
        wh.EverywhereMechanism(counts, GOOD.lattice, GOOD.outputs, EPSILON)
    assert steepest(counts, GOOD.lattice)[0] > EPSILON
    assert checks.broken_corners(counts.tolist(), XS.tolist(), YS.tolist(), EPSILON)


def test_the_audit_does_not_cry_wolf() -> None:
    assert wh.EverywhereMechanism(GOOD.counts, GOOD.lattice, GOOD.outputs, EPSILON).verdict


def worst_pair(rows: Callable[[Any], list[Any]], points: Any) -> bool:
    """Whether the rows of some two of these points break their ratio, in exact arithmetic."""
    found, whole = rows(points), to_units(points).tolist()
    return any(
        checks.broken_pair(
            found[i],
            found[j],
            EPSILON,
            sum((a - b) ** 2 for a, b in zip(whole[i], whole[j], strict=True)) * UNIT**2,
        )
        for i in range(len(points))
        for j in range(i)
        if whole[i] != whole[j]
    )


def close_points() -> Any:
    """Pairs of points a few metres apart, all over the rectangle, many across a border."""
    rng = np.random.default_rng(8)
    middles = [(axis[1:] + axis[:-1]) / 2 for axis in GOOD.lattice]
    points = np.column_stack([rng.choice(middle, 12) for middle in middles])
    return np.vstack([points - 0.002, points + 0.002])


def snapped(points: Any) -> list[Any]:
    """Report from the nearest vertex, without interpolation."""
    index = _away(points, GOOD.lattice.vertices).argmin(axis=1)
    return exact_rows(GOOD, GOOD.lattice.vertices[index])


def renormalised(points: Any) -> list[Any]:
    """Interpolate with weights that do not sum to 1, and divide by the sum of the result."""
    found = []
    for point in points:
        away = _away(point[None], GOOD.lattice.vertices)[0]
        near = np.argsort(away)[:4]
        weights = [1 / (Fraction(float(away[v])) + UNIT) ** 4 for v in near]
        rows = exact_rows(GOOD, GOOD.lattice.vertices[near])
        total = [
            sum((w * row[z] for w, row in zip(weights, rows, strict=True)), start=0 * weights[0])
            for z in range(len(rows[0]))
        ]
        found.append([value / sum(weights) for value in total])
    return found


@pytest.mark.parametrize("rows", [snapped, renormalised])
def test_a_planted_bug_is_caught_by_pairs_of_raw_points(rows: Callable[[Any], list[Any]]) -> None:
    assert worst_pair(rows, close_points())
    assert not worst_pair(lambda points: exact_rows(GOOD, points), close_points())


# The search.


@pytest.mark.slow
@pytest.mark.thorough
def test_more_vertices_lose_less_and_beat_planar_laplace() -> None:
    other = wh.planar_laplace_everywhere(POINTS, WEIGHTS, EPSILON)
    losses = [
        wh.expected_loss(on_lattice(POINTS, WEIGHTS, EPSILON, vertices=v), POINTS, WEIGHTS)
        for v in (36, 120, 400)
    ]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.95 * wh.expected_loss(other, POINTS, WEIGHTS) < 0.9 * 2 / EPSILON


@pytest.mark.slow
@pytest.mark.thorough
def test_auto_returns_the_better_one_and_says_which() -> None:
    fine = wh.optimal_everywhere(POINTS, WEIGHTS, EPSILON, vertices=400)
    assert isinstance(fine, wh.EverywhereMechanism)
    assert "planar Laplace with the best remap would lose" in fine.build.notes[-1]
    assert fine.build.other_loss_km > fine.build.loss_km  # type: ignore[operator]
    coarse = wh.optimal_everywhere(POINTS, WEIGHTS, 8.0, vertices=16)
    assert isinstance(coarse, wh.PlanarLaplaceEverywhere)
    assert coarse.build.notes[-1].startswith("planar Laplace, because the lattice of ")
    assert coarse.build.other_loss_km > coarse.build.loss_km  # type: ignore[operator]
    asked = wh.optimal_everywhere(POINTS, WEIGHTS, EPSILON, method="planar-laplace")
    assert isinstance(asked, wh.PlanarLaplaceEverywhere)


def test_a_given_lattice_and_given_outputs_are_used() -> None:
    outputs = wh.Places.from_xy([[1, 1], [2, 2], [3, 1]])
    xs, ys = np.linspace(0, 4, 7), np.linspace(0, 4, 6)
    m = on_lattice(POINTS, WEIGHTS, EPSILON, lattice=(xs, ys), outputs=outputs)
    assert m.outputs is outputs
    assert np.allclose(m.lattice.xs, xs, rtol=0, atol=1e-12)
    assert len(m.lattice) == 42
    squared = on_lattice(
        POINTS, WEIGHTS, EPSILON, lattice=(xs, ys), outputs=outputs,
        quality_metric=lambda x, z: _away(x, z) ** 2,
    )  # fmt: skip
    loss = wh.expected_loss(m, POINTS, WEIGHTS, lambda x, z: _away(x, z) ** 2)
    assert squared.build.loss_km < loss  # type: ignore[operator]


def test_one_spot_is_always_reported() -> None:
    m = wh.optimal_everywhere([[2.0, 3.0]], [1.0], 1.0)
    assert m.sample((9.0, 9.0)).xy.round(9).tolist() == [[2.0, 3.0]]
    assert m.build.loss_km == pytest.approx(0.0, abs=1e-9)


def test_places_on_the_earth() -> None:
    places = wh.embedded_city().places
    m = on_lattice(places, wh.embedded_city().prior, 0.7, vertices=40)
    assert m.outputs.latlon is not None
    assert m.outputs.plane == places.plane
    assert places.latlon is not None
    assert wh.expected_loss(m, places, wh.embedded_city().prior) == pytest.approx(m.build.loss_km)
    assert m.sample(places.latlon[:2]).latlon is not None


def test_a_search_that_is_stopped_returns_a_private_mechanism() -> None:
    quick = on_lattice(POINTS, WEIGHTS, EPSILON, vertices=400, time_limit_s=1e-6)
    assert quick.build.stopped == "time"
    calls: list[Any] = []
    asked = on_lattice(
        POINTS, WEIGHTS, EPSILON, vertices=400,
        progress=lambda at: calls.append(at) or len(calls) < 3,  # type: ignore[func-returns-value]
    )  # fmt: skip
    assert asked.build.stopped == "asked"
    assert len(calls) == 3


def test_a_given_lattice_without_time_is_still_private() -> None:
    xs, ys = np.linspace(0, 4, 12), np.linspace(0, 4, 12)
    quick = on_lattice(POINTS, WEIGHTS, EPSILON, lattice=(xs, ys), time_limit_s=1e-6)
    assert len(quick.lattice) == 144
    assert quick.build.stopped == "time"
    assert quick.build.program_gap > 0  # type: ignore[operator]


def test_visits_are_divided_by_their_sum() -> None:
    visits = np.arange(1, 121)
    one = on_lattice(POINTS, visits, EPSILON, vertices=40, normalise=True)
    two = on_lattice(POINTS, visits / visits.sum(), EPSILON, vertices=40)
    assert one.build.loss_km == pytest.approx(two.build.loss_km, rel=1e-6)
    kept = one.build.without_prior()
    assert kept.method == "optimal-everywhere"
    assert kept.loss_km is kept.lower_bound_km is kept.program_bound_km is None
    assert wh.EverywhereMechanism(one.counts, one.lattice, one.outputs, EPSILON, kept).build == kept


def test_matrices_far_from_private_are_refused() -> None:
    lattice = Lattice(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    with pytest.raises(wh.GuaranteeError, match="too far from private everywhere"):
        release_lattice(np.eye(4) * 0.9 + 0.025, lattice, 0.1)
    with pytest.raises(wh.GuaranteeError, match="nothing to report"):
        release_lattice(np.zeros((4, 2)), lattice, 1.0)


def test_small_violations_are_repaired() -> None:
    rng = np.random.default_rng(0)
    noisy = GOOD.matrix * (1 + 1e-6 * rng.normal(size=GOOD.matrix.shape)) - 1e-8
    released = release_lattice(noisy, GOOD.lattice, EPSILON)
    assert 1e-9 < released.mix < 1e-3
    assert released.verdict.tightest <= EPSILON
    assert np.abs(released.counts / TOTAL - GOOD.matrix).max() < 1e-3


# Planar Laplace for raw points.


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.4, 1.3])
def test_noise_has_its_exact_distribution(rate: float) -> None:
    """Chi-square of 40,000 pairs against the sums of exp(-rate |.|) over the integers."""
    source = PlanarNoise(rate, np.random.default_rng(5))
    pairs = [source.draw() for _ in range(40_000)]
    side = np.arange(-150, 151)
    weights = np.exp(-rate * np.hypot(side[:, None], side))
    weights /= weights.sum()
    near = [(a, b) for a in range(-3, 4) for b in range(-3, 4)]
    expected = np.array([40_000 * weights[150 + a, 150 + b] for a, b in near])
    counted = np.array([pairs.count(pair) for pair in near])
    enough = expected > 8
    assert enough.sum() >= 20
    found = float(((counted - expected)[enough] ** 2 / expected[enough]).sum())
    assert found < 49 + 6 * np.sqrt(2 * 49)


def test_noise_at_the_unit_of_the_lattice() -> None:
    source = PlanarNoise(1.07 / 2**40, np.random.default_rng(5))
    radii = 1.07 / 2**40 * np.array([np.hypot(*source.draw()) for _ in range(20_000)])
    assert radii.mean() == pytest.approx(2.0, abs=0.06)  # Gamma(2, 1)
    assert np.mean(radii**2) == pytest.approx(6.0, abs=0.4)


def test_chances_are_decided_digit_by_digit() -> None:
    source = PlanarNoise(1.0, np.random.default_rng(0))
    third = 2**63 // 3
    for words, expected in (
        ([third - 1], True), ([third + 1], False), ([third, 0], True), ([third, 2**63 - 1], False),
    ):  # fmt: skip
        source._words = [7, *words[::-1]]
        assert source._chance(1, 3) is expected
        assert source._words == [7]


@pytest.mark.slow
def test_planar_laplace_reports_have_the_loss_that_is_told() -> None:
    m = wh.planar_laplace_everywhere(POINTS, WEIGHTS, EPSILON)
    many = np.repeat(POINTS, 60, axis=0)
    reports = m.sample(many, rng=np.random.default_rng(2))
    loss = np.hypot(*(reports.xy - many).T)
    error = loss.std() / len(loss) ** 0.5
    assert loss.mean() == pytest.approx(m.build.loss_km, abs=5 * error)
    assert wh.expected_loss(m, POINTS, WEIGHTS) == pytest.approx(m.build.loss_km, rel=1e-6)
    counted = np.bincount(
        m.sample(POINTS[7], size=20_000, rng=np.random.default_rng(3)).outputs,
        minlength=len(m.outputs),
    )
    expected = 20_000 * m.probabilities(POINTS[7])
    assert expected.sum() == pytest.approx(20_000)
    some = expected > 8
    found = float(((counted - expected)[some] ** 2 / expected[some]).sum())
    assert found < some.sum() + 6 * np.sqrt(2 * some.sum())


def test_planar_laplace_of_a_far_point_and_a_copy() -> None:
    m = wh.planar_laplace_everywhere(POINTS, None, EPSILON)
    assert len(m.sample((1e9, -1e9), size=3)) == 3
    again = pickle.loads(pickle.dumps(m))
    assert (again.table == m.table).all()
    assert float(wh.tightest_epsilon_everywhere(m)) == EPSILON


# Arguments.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": [[np.nan, 48.123]]}, r"points must be finite, got nan at \[0, 0\]"),
        ({"points": np.empty((0, 2))}, "points must hold at least one point"),
        ({"points": [[48.123, 2.0, 1.0]]}, "points must be n x 2 numbers, got 1 x 3"),
        ({"points": [[48.123, 9999.0]] * 120}, "points must be within 4096 km of the origin"),
        ({"weights": np.full(120, 0.0123)}, "weights must sum to 1, and it sums to more"),
        ({"weights": [0.123, 0.877]}, "weights must be 120 numbers"),
        ({"weights": np.r_[-0.123, np.full(119, 1.123 / 119)]}, "weights must be non-negative"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"vertices": 0}, "vertices must be a whole number, at least 4"),
        ({"lattice": ([0, 1, 0.5], [0, 1])}, "xs must be increasing"),
        ({"lattice": [0, 1, 2]}, r"lattice must be \(xs, ys\)"),
        ({"outputs": [1, 2]}, "outputs must be Places"),
        ({"quality_metric": np.eye(3)}, "quality_metric must be a function"),
        ({"quality_metric": lambda x, z: -_away(x, z)}, "quality_metric must be non-negative"),
        ({"method": "exact"}, "method must be one of auto, lattice, planar-laplace"),
        ({"tolerance": 0}, "tolerance must be positive"),
        ({"time_limit_s": -1}, "time_limit_s must be positive"),
        ({"progress": 3}, "progress must be a function"),
        ({"memory_limit_gb": "much"}, "memory_limit_gb must be a number"),
    ],
)
def test_arguments_that_cannot_be_used(change: dict[str, Any], words: str) -> None:
    arguments = {"points": POINTS, "weights": WEIGHTS, "epsilon": EPSILON, "vertices": 20} | change
    if "points" in change and len(change["points"]) != 120:
        arguments["weights"] = None
    with pytest.raises(wh.InputError, match=words) as told:
        wh.optimal_everywhere(
            arguments.pop("points"), arguments.pop("weights"), arguments.pop("epsilon"), **arguments
        )
    assert "48.123" not in str(told.value)
    assert "0.123" not in str(told.value)


def test_a_lattice_over_the_memory_limit() -> None:
    with pytest.raises(wh.SolveError, match=r"100,000 vertices .* what fits is about"):
        wh.optimal_everywhere(POINTS, WEIGHTS, EPSILON, vertices=100_000, memory_limit_gb=2)


def test_a_mechanism_on_places_tells_its_factor_at_a_border() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0], [0, 1], [1, 1]])
    m = wh.optimal(places, [0.4, 0.3, 0.2, 0.1], 1.5)
    found = wh.tightest_epsilon_everywhere(m)
    rows = m.counts.astype(float)
    borders = [(0, 1), (0, 2), (1, 3), (2, 3)]
    worst = max(float((rows[a] / rows[b]).max()) for pair in borders for a, b in (pair, pair[::-1]))
    assert float(found) == np.inf
    assert found.factor == pytest.approx(worst)
    with pytest.raises(wh.InputError, match="mechanism must be"):
        wh.tightest_epsilon_everywhere(3)  # type: ignore[arg-type]
    with pytest.raises(wh.InputError, match="for a Mechanism use quality_loss"):
        wh.expected_loss(m, POINTS)  # type: ignore[arg-type]


def test_everything_that_is_the_same_everywhere_has_epsilon_zero() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0]])
    half = np.full((2, 2), TOTAL // 2, np.uint64)
    m = wh.Mechanism.of_counts(half, places, places, 1.0)
    assert float(wh.tightest_epsilon_everywhere(m)) == 0.0


def test_what_holds_points_of_a_person_does_not_print_them() -> None:
    """Found by a review: the default representation printed the home of a person."""
    points = np.array([[1.234567, 2.345678], [1.434567, 2.345678]])
    visits = as_visits(points, None, normalise=False)
    lattice = Lattice(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    private = (
        visits, clustered(visits, 2), lattice.position(points),
        Task(visits, 1.0, 4, None, None, None, 1e-5, Deadline(None)),
    )  # fmt: skip
    for one in private:
        assert "object at" in repr(one)


@pytest.mark.parametrize("jitter", [1e-9, 5e-7, 1e-6, 3.9e-6, 4e-6, 2e-5])
@pytest.mark.parametrize("epsilon", [1.0, 3e5, 1e9])
def test_points_on_a_line_with_the_jitter_of_rounding(jitter: float, epsilon: float) -> None:
    points = np.array([[0, 0], [1, jitter]])
    m = wh.planar_laplace_everywhere(points, None, epsilon)
    assert 0 <= wh.expected_loss(m, points, [0.5, 0.5]) < 3
