"""Mechanisms on streets, built for people: guarantee, loss, bounds, and planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import street_checks
import streets
import whereish as wh
from effort import examples
from whereish.everywhere import on_roads, road_search
from whereish.everywhere.on_roads import as_road_visits
from whereish.everywhere.road_search import program_edges, vertex_costs
from whereish.measures import TOTAL
from whereish.places import RoadPoints, shortest_paths
from whereish.release import release_roads, to_counts
from whereish.solvers import solve_structured


@st.composite
def people(draw: DrawFn) -> tuple[wh.RoadNetwork, RoadPoints, Any, float]:
    """Networks of all kinds, with a person who visits a few points of their streets."""
    network = draw(streets.networks())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 30))
    points = streets.some_points(network, count, rng)
    weights = rng.gamma(draw(st.sampled_from([0.2, 1.0])), size=count) + 1e-12
    epsilon = draw(st.sampled_from([0.2, 0.5, 1.07, 2.0, 4.0, 10.0]))
    return network, points, weights / weights.sum(), epsilon


def slow_loss(m: wh.RoadMechanism, points: RoadPoints, weights: Any) -> float:
    """The expected distance along the streets, from exact rows and exact distances."""
    both = RoadPoints(
        points.network,
        np.r_[points.edge, m.outputs.edge],
        np.r_[points.steps, m.outputs.steps],
    )
    away, rows = streets.exact_distances(both), streets.exact_rows(m, points)
    n = len(points)
    return math.fsum(
        float(weight) * float(sum(p * d for p, d in zip(rows[k], away[k][n:], strict=True)))
        for k, weight in enumerate(weights)
    )


@given(people())
@examples(25)
def test_what_is_built_for_a_person_is_private_on_all_streets(person: Any) -> None:
    network, points, weights, epsilon = person
    m = wh.optimal_on_roads(network, points, weights, epsilon, vertices=40)
    assert len(m.vertices) <= 40
    assert m.epsilon == epsilon
    assert m.network is network
    pieces = streets.pieces_of(m.vertices)
    assert street_checks.broken_pieces(m.counts.tolist(), pieces, epsilon) == []
    near = streets.some_points(network, 9, np.random.default_rng(1))
    rows, away = streets.exact_rows(m, near), streets.exact_distances(near)
    for i in range(len(near)):
        for j in range(i):
            assert not street_checks.broken_ratio(rows[i], rows[j], epsilon, away[i][j])
    # The loss is that of the released counts, and no bound is above it.
    loss = slow_loss(m, points, weights)
    assert m.build.loss_km == pytest.approx(loss, rel=1e-9, abs=1e-12)
    assert wh.expected_loss(m, points, weights) == pytest.approx(loss, rel=1e-9, abs=1e-12)
    assert m.build.program_bound_km is not None
    assert m.build.program_bound_km <= loss * (1 + 1e-9) + 1e-12
    assert m.build.lower_bound_km is not None
    assert m.build.lower_bound_km <= loss * (1 + 1e-12) + 1e-15


def spots(network: wh.RoadNetwork, seed: int = 3, count: int = 60) -> tuple[Any, Any]:
    """A person with five spots of 20 m beside streets, and 4 % elsewhere."""
    rng = np.random.default_rng(seed)
    home = network.at(rng.integers(0, len(network.edges), 5), rng.random(5)).xy
    points = home[rng.choice(5, count, p=[0.4, 0.3, 0.15, 0.1, 0.05])]
    points = points + rng.normal(0, 0.02, (count, 2))
    elsewhere = rng.integers(0, len(network.edges), count // 25), rng.random(count // 25)
    points[: count // 25] = network.at(*elsewhere).xy
    return points, np.full(count, 1 / count)


NETWORK = streets.grid(5, 4, seed=6, scale=0.4)
POINTS, WEIGHTS = spots(NETWORK)
EPSILON = 2.0
GOOD = wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=80)
PAIRS, EXPONENTS = program_edges(GOOD.vertices, EPSILON)
PIECES = streets.pieces_of(GOOD.vertices)
COSTS, MASS = vertex_costs(
    as_road_visits(NETWORK, POINTS, WEIGHTS), GOOD.vertices, GOOD.outputs, None
)


def solved(pairs: Any, exponents: Any) -> Any:
    """The rows that a build with other pairs or exponents would have, as counts."""
    loss = np.where(MASS[:, None] > 0, COSTS / np.maximum(MASS, 1e-300)[:, None], 0.0)
    reach = shortest_paths(len(MASS), pairs, exponents)
    matrix = np.maximum(solve_structured(MASS, loss, pairs, exponents, reach, 1e-5).matrix, 1e-9)
    return to_counts(matrix / matrix.sum(axis=1, keepdims=True))


def tightest_pair() -> int:
    return next(
        k for k, pair in enumerate(PAIRS.tolist()) if sorted(GOOD.verdict.pair) == sorted(pair)
    )


def one_street_left_out() -> Any:
    """Leave out the pieces of a street of a cycle that carries much of the loss."""
    pieces = GOOD.vertices.pieces
    for street in range(len(NETWORK.edges)):
        of = {tuple(sorted(ends)) for ends in zip(
            pieces.lower[pieces.street == street].tolist(),
            pieces.upper[pieces.street == street].tolist(), strict=True,
        )}  # fmt: skip
        kept = np.array([tuple(sorted(pair)) not in of for pair in PAIRS.tolist()])
        if len(of) > 1:  # the ends of the first piece are free, those of the others too
            first = np.flatnonzero(~kept)[0]
            kept[~kept] = True
            kept[first] = False
        if np.isfinite(shortest_paths(len(MASS), PAIRS[kept], EXPONENTS[kept])).all():
            counts = solved(PAIRS[kept], EXPONENTS[kept])
            if street_checks.broken_pieces(counts.tolist(), PIECES, EPSILON):
                return counts
    raise AssertionError("every street follows from the others")


BUGS: dict[str, Callable[[], Any]] = {
    "a street left out": one_street_left_out,
    "lengths a tenth too long": lambda: solved(PAIRS, np.log1p(1.1 * np.expm1(EXPONENTS))),
    "one piece twice as long": lambda: solved(
        PAIRS,
        np.where(
            np.arange(len(PAIRS)) == tightest_pair(), np.log1p(2 * np.expm1(EXPONENTS)), EXPONENTS
        ),
    ),
    "exp(eps w) instead of 1 + eps w": lambda: solved(PAIRS, np.expm1(EXPONENTS)),
    "epsilon per mile": lambda: solved(PAIRS, np.log1p(1.609 * np.expm1(EXPONENTS))),
    "vertices in another order": lambda: np.ascontiguousarray(np.roll(GOOD.counts, 1, axis=0)),
    "rows rounded to three decimals": lambda: to_counts(
        np.round(GOOD.matrix, 3) / np.round(GOOD.matrix, 3).sum(axis=1, keepdims=True)
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught_by_the_audit(name: str) -> None:
    counts = BUGS[name]()
    assert [sum(row) for row in counts.tolist()] == [TOTAL] * len(GOOD.counts)
    with pytest.raises(wh.GuaranteeError, match="not private along the streets"):
        wh.RoadMechanism(counts, GOOD.vertices, GOOD.outputs, EPSILON)
    assert street_checks.broken_pieces(counts.tolist(), PIECES, EPSILON)


def test_the_audit_does_not_cry_wolf() -> None:
    assert wh.RoadMechanism(solved(PAIRS, EXPONENTS * 0.999), GOOD.vertices, GOOD.outputs, EPSILON)


@pytest.mark.parametrize("factor", [1.1, 1.609])
def test_a_builder_with_a_bug_hands_nothing_over(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole build, with wrong lengths in its program: the judge measures them itself."""

    def wrong(vertices: Any, level: float) -> Any:
        return program_edges(vertices, factor * level)

    monkeypatch.setattr(road_search, "program_edges", wrong)
    with pytest.raises(wh.GuaranteeError, match="too far from private along the streets"):
        wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=80)


def close_points() -> RoadPoints:
    """Pairs of points a few metres apart, on both sides of the middle of pieces."""
    pieces = GOOD.vertices.pieces
    long = np.argsort(-pieces.width)[:25]
    middle = pieces.start[long] + pieces.width[long] // 2
    steps = np.concatenate([middle - 2**31, middle + 2**31])  # 2 m from the middle
    return RoadPoints(NETWORK, np.tile(pieces.street[long], 2), steps)


def broken_pairs(rows: Any, points: RoadPoints) -> int:
    away = NETWORK.distances(points, points)
    return sum(
        street_checks.broken_ratio(rows[i], rows[j], EPSILON, Fraction(float(away[i, j])))
        for i in range(len(points))
        for j in range(i)
    )


def test_moving_to_a_vertex_instead_of_interpolating_is_caught() -> None:
    points = close_points()
    vertices = GOOD.vertices.vertices
    nearest = NETWORK.distances(points, vertices).argmin(axis=1)
    assert broken_pairs(streets.exact_rows(GOOD, vertices.subset(nearest)), points) > 5
    assert broken_pairs(streets.exact_rows(GOOD, points), points) == 0


# The search.


@pytest.mark.parametrize("lengths", [[0.2, 2.0], [2.0, 0.2]])
def test_of_two_streets_between_the_same_nodes_the_shorter_decides(lengths: list[float]) -> None:
    network = wh.RoadNetwork([[0.0, 0.0], [0.2, 0.0]], [[0, 1], [1, 0]], lengths)
    nodes = network.at([0, 0], [0, 1])
    m = wh.optimal_on_roads(network, nodes, [0.5, 0.5], 1.0, vertices=2)
    assert m.verdict.tightest == pytest.approx(1.0, rel=1e-4)
    assert m.probabilities(nodes).max() == pytest.approx(1.2 / 2.2, rel=1e-4)


def test_given_outputs_and_other_metrics() -> None:
    outputs = wh.Places.from_xy([[0.4, 0.42], [0.8, 0.4], [1.2, 0.8]])
    m = wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=60, outputs=outputs)
    assert len(m.outputs) == 3
    assert np.hypot(*(m.outputs.xy - outputs.xy).T).max() < 0.1
    straight = wh.optimal_on_roads(
        NETWORK, POINTS, WEIGHTS, EPSILON, vertices=60, outputs=outputs, quality_metric="euclidean"
    )
    at = NETWORK.snap(POINTS)
    away = np.hypot(*(at.xy[:, None] - straight.outputs.xy).transpose(2, 0, 1))
    loss = float((WEIGHTS[:, None] * straight.probabilities(at) * away).sum())
    assert straight.build.loss_km == pytest.approx(loss, rel=1e-9)
    assert loss < wh.expected_loss(m, POINTS, WEIGHTS, "euclidean")

    def squared(x: Any, z: Any) -> Any:
        return np.square(x[:, None] - z).sum(axis=2)

    function = wh.optimal_on_roads(
        NETWORK, POINTS, WEIGHTS, EPSILON, vertices=60, outputs=outputs, quality_metric=squared
    )
    assert function.build.loss_km < wh.expected_loss(m, POINTS, WEIGHTS, squared)  # type: ignore[operator]


def test_one_point_is_always_reported() -> None:
    m = wh.optimal_on_roads(NETWORK, NETWORK.at([3], [0.4]), None, 1.0, vertices=60)
    assert m.sample((0.3, 0.5)).xy == pytest.approx(NETWORK.at([3], [0.4]).xy)
    assert m.build.loss_km == pytest.approx(0.0, abs=1e-9)


def test_streets_on_the_earth() -> None:
    places = wh.Places.from_latlon([[48.85, 2.34], [48.86, 2.34], [48.86, 2.36]])
    network = wh.RoadNetwork(places, [[0, 1], [1, 2]])
    assert network.lengths.tolist() == pytest.approx([1.112, 1.467], abs=1e-3)
    visits = wh.Places.from_latlon([[48.8501, 2.3402], [48.8603, 2.351]])
    m = wh.optimal_on_roads(network, visits, [0.7, 0.3], 2.0, vertices=40)
    assert visits.latlon is not None
    reports = m.sample(visits.latlon)
    assert reports.latlon is not None
    assert reports.snapped_km.tolist() == pytest.approx([0.0147, 0.0334], abs=1e-3)
    assert wh.expected_loss(m, visits, [0.7, 0.3]) == pytest.approx(m.build.loss_km)
    with pytest.raises(wh.InputError, match="at must be points of two coordinates"):
        m.sample((480.0, 2.0))


def test_a_search_that_is_stopped_returns_a_private_mechanism() -> None:
    quick = wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=240, time_limit_s=1e-6)
    assert quick.build.stopped == "time"
    calls: list[Any] = []
    asked = wh.optimal_on_roads(
        NETWORK, POINTS, WEIGHTS, EPSILON, vertices=240,
        progress=lambda at: calls.append(at) or len(calls) < 3,  # type: ignore[func-returns-value]
    )  # fmt: skip
    assert asked.build.stopped == "asked"
    assert len(calls) == 3
    assert asked.build.lower_bound_km is None


def test_visits_are_divided_by_their_sum() -> None:
    visits = np.arange(len(POINTS))
    one = wh.optimal_on_roads(NETWORK, POINTS, visits, EPSILON, vertices=40, normalise=True)
    two = wh.optimal_on_roads(NETWORK, POINTS, visits / visits.sum(), EPSILON, vertices=40)
    assert one.build.loss_km == pytest.approx(two.build.loss_km, rel=1e-6)
    assert one.build.without_prior().loss_km is None


def test_matrices_far_from_private_are_refused() -> None:
    reach = shortest_paths(len(MASS), PAIRS, EXPONENTS)
    with pytest.raises(wh.GuaranteeError, match="too far from private"):
        release_roads(np.eye(len(MASS)) * 0.9 + 0.1 / len(MASS), GOOD.vertices, reach, EPSILON)
    with pytest.raises(wh.GuaranteeError, match="nothing to report"):
        release_roads(np.zeros((len(MASS), 2)), GOOD.vertices, reach, EPSILON)


def test_small_violations_are_repaired() -> None:
    rng = np.random.default_rng(0)
    noisy = GOOD.matrix * (1 + 1e-6 * rng.normal(size=GOOD.matrix.shape)) - 1e-9
    reach = shortest_paths(len(MASS), PAIRS, EXPONENTS)
    released = release_roads(noisy, GOOD.vertices, reach, EPSILON)
    assert 1e-9 < released.mix < 1e-2
    assert released.verdict.tightest <= EPSILON
    assert np.abs(released.counts / TOTAL - GOOD.matrix).max() < 1e-3


def test_there_is_no_file_and_no_certificate(tmp_path: Path) -> None:
    for call in (
        lambda: wh.save_mechanism(tmp_path / "a.whereish", GOOD),  # type: ignore[arg-type]  # the mistake is the test
        lambda: wh.certify(GOOD),  # type: ignore[arg-type]  # as above
    ):
        with pytest.raises(wh.InputError, match="the file format has no streets yet"):
            call()
    assert not list(tmp_path.iterdir())
    with pytest.raises(wh.InputError, match="a Reporter needs"):
        wh.Reporter(GOOD, tmp_path / "ledger", budget=1.0)  # type: ignore[arg-type]  # as above


# Arguments.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": [[0, 1]]}, "network must be a RoadNetwork, got list"),
        ({"points": [[np.nan, 48.123]]}, r"points must be finite, got nan at \[0, 0\]"),
        ({"points": np.empty((0, 2))}, "points must hold at least one point"),
        ({"points": [[48.123, 2.0, 1.0]]}, "points must be n x 2 numbers, got 1 x 3"),
        ({"points": [[48.123, 9.0]]}, "within 1 km of a street, and 1 of 1 are not"),
        ({"weights": np.full(60, 0.0123)}, "weights must sum to 1, and it sums to less"),
        ({"weights": [0.123, 0.877]}, "weights must be 60 numbers"),
        ({"weights": np.r_[-0.123, np.full(59, 1.123 / 59)]}, "weights must be non-negative"),
        ({"weights": np.full(60, np.nan)}, "weights must be finite"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"vertices": 5}, "vertices must be from 20, the nodes of the network, to 10,000, got 5"),
        ({"vertices": 20.5}, "vertices must be a whole number"),
        ({"outputs": [1, 2]}, "points must be n x 2 numbers"),
        ({"quality_metric": np.eye(3)}, "quality_metric must be a function"),
        ({"quality_metric": "48.123"}, "quality_metric must be a function .* or euclidean"),
        ({"quality_metric": lambda x, z: -np.ones((len(x), len(z)))}, "must be non-negative"),
        ({"tolerance": 0}, "tolerance must be positive"),
        ({"time_limit_s": -1}, "time_limit_s must be positive"),
        ({"progress": 3}, "progress must be a function"),
        ({"memory_limit_gb": "much"}, "memory_limit_gb must be a number"),
    ],
)
def test_arguments_that_cannot_be_used(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "network": NETWORK, "points": POINTS, "weights": WEIGHTS, "epsilon": EPSILON,
        "vertices": 40,
    } | change  # fmt: skip
    if "points" in change:
        arguments["weights"] = None
    with pytest.raises(wh.InputError, match=words) as told:
        wh.optimal_on_roads(**arguments)
    assert "48.123" not in str(told.value)
    assert "0.123" not in str(told.value)


def test_a_program_over_the_memory_limit() -> None:
    with pytest.raises(wh.SolveError, match=r"10,000 vertices .* take fewer vertices"):
        wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=10_000, memory_limit_gb=2)


def test_what_holds_points_of_a_person_does_not_print_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Any] = []
    search = road_search.search_roads

    def searched(task: Any) -> Any:
        found = search(task)
        kept.extend([task, found, task.visits])
        return found

    monkeypatch.setattr(on_roads, "search_roads", searched)
    wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=40)
    for one in kept:
        assert "object at" in repr(one)
