"""Mechanisms on streets: exact distances, audit, interpolation and draws, for every point."""

from __future__ import annotations

import math
import os
import pickle
from fractions import Fraction
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
from test_everywhere import Bits
from whereish.everywhere.road_search import program_edges
from whereish.measures import TOTAL, audit_roads
from whereish.places import RoadPoints, Subdivision, shortest_paths
from whereish.places.roads import SNAP_KM
from whereish.release import release_roads, to_counts

SEEDS = st.integers(0, 2**32 - 1)


def nearly_private(vertices: Subdivision, epsilon: float, outputs: int, seed: int) -> Any:
    """A matrix on the edge of the ratios: random rows, mixed with the uniform ones as needed."""
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(outputs, 0.4), size=len(vertices))
    pieces = streets.pieces_of(vertices)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        mixed = to_counts((1 - middle) * matrix + middle / outputs)
        fine = not street_checks.broken_pieces(mixed.tolist(), pieces, epsilon)
        low, high = (low, middle) if fine else (middle, high)
    return (1 - high) * matrix + high / outputs


def released(vertices: Subdivision, epsilon: float, outputs: int, seed: int) -> wh.RoadMechanism:
    matrix = nearly_private(vertices, epsilon, outputs, seed)
    reach = shortest_paths(len(vertices), *program_edges(vertices, epsilon))
    counts = release_roads(matrix, vertices, reach, epsilon).counts
    points = vertices.vertices.subset(np.arange(outputs) % len(vertices))
    return wh.RoadMechanism(counts, vertices, points, epsilon)


@st.composite
def mechanisms(draw: DrawFn) -> wh.RoadMechanism:
    network = draw(streets.networks())
    rng = np.random.default_rng(draw(SEEDS))
    vertices = streets.random_cuts(network, draw(st.integers(0, 8)), rng)
    epsilon = draw(st.sampled_from([0.2, 1.07, 3.0, 10.0]))
    return released(vertices, epsilon, draw(st.integers(1, 4)), draw(SEEDS))


NETWORK = streets.grid(3, 2, seed=4, missing=0.0)
FIXED = released(streets.random_cuts(NETWORK, 9, np.random.default_rng(2)), 1.07, 4, 5)
STEEP = released(FIXED.vertices, 10.0, 4, 5)


# The network.


@given(streets.networks(), SEEDS)
@examples(60)
def test_distances_along_the_streets_are_exact(network: wh.RoadNetwork, seed: int) -> None:
    points = streets.some_points(network, 9, np.random.default_rng(seed))
    found = network.distances(points, points)
    exact = streets.exact_distances(points)
    assert [[Fraction(value) for value in row] for row in found.tolist()] == exact


@given(streets.networks(), SEEDS)
@examples(60)
def test_a_point_is_moved_to_the_nearest_point_of_a_street(
    network: wh.RoadNetwork, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    xy = network.nodes.xy
    points = rng.uniform(xy.min(axis=0) - 0.3, xy.max(axis=0) + 0.3, (20, 2))
    found = network.snap(points, within_km=np.inf)
    for k, (px, py) in enumerate(points.tolist()):
        nearest = math.inf
        for a, b in network.edges.tolist():
            (ax, ay), (bx, by) = xy[a].tolist(), xy[b].tolist()
            share = ((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / math.dist(xy[a], xy[b]) ** 2
            share = min(max(share, 0.0), 1.0)
            there = (ax + share * (bx - ax), ay + share * (by - ay))
            nearest = min(nearest, math.dist((px, py), there))
        assert math.dist((px, py), found.xy[k]) == pytest.approx(nearest, abs=1e-9)
        assert found.snapped_km is not None
        assert found.snapped_km[k] == pytest.approx(nearest, abs=1e-9)


def test_of_two_nearest_streets_the_first_is_taken() -> None:
    network = wh.RoadNetwork([[0, 0], [1, 0]], [[0, 1], [0, 1], [1, 0]], [1.0, 2.0, 4.0])
    found = network.snap([[0.25, 0.1]])
    assert found.edge.tolist() == [0]
    assert found.steps.tolist() == [2**38]
    assert network.snap(network.at([2], [0.25])).xy.tolist() == [[0.75, 0.0]]


def test_a_node_is_one_point_on_all_its_streets() -> None:
    network = wh.RoadNetwork([[0, 0], [1, 0], [1, 1]], [[0, 1], [2, 1], [0, 2]])
    points = network.at([0, 1, 0, 2, 1, 2], [1, 1, 0, 0, 0, 1])
    different, of = points.merged()
    assert len(different) == 3
    assert of.tolist() == [of[0], of[0], of[2], of[2], of[4], of[4]]
    assert (network.distances(points, different).min(axis=1) == 0).all()


@given(streets.networks(), SEEDS)
@examples(60)
def test_pieces_and_places_on_them_are_exact(network: wh.RoadNetwork, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vertices = streets.random_cuts(network, 7, rng)
    vertices = vertices.cut(rng.integers(1, 4, len(vertices.pieces.width)))
    slow = {(u, v, end - begin) for _, u, v, begin, end in streets.pieces_of(vertices)}
    pieces = vertices.pieces
    whole = [Fraction(width, 1 << 40) for width in pieces.width.tolist()]
    fast = set(zip(pieces.lower.tolist(), pieces.upper.tolist(), whole, strict=True))
    assert fast == slow
    points = streets.some_points(network, 9, rng)
    at = vertices.locate(points)
    ends = [
        network.distances(vertices.vertices.subset(end), points) for end in (at.lower, at.upper)
    ]
    along = np.minimum(np.diagonal(ends[0]), np.diagonal(ends[1])) * 2.0**40
    assert (along <= np.minimum(at.steps, at.widths - at.steps)).all()
    assert ((at.steps >= 0) & (at.steps <= at.widths)).all()


@pytest.mark.parametrize(
    ("nodes", "edges", "lengths", "words"),
    [
        ([[0, np.nan], [1, 0]], [[0, 1]], None, "nodes must be finite"),
        ([[0, 0], [48.123, 0], [48.123, 0]], [[0, 1], [1, 2]], None, "differ by a millimetre"),
        ([[0, 0], [48.123, 0]], [], None, "edges must hold at least one street"),
        ([[0, 0], [48.123, 0]], np.empty((0, 2)), None, "edges must hold at least one street"),
        ([[0, 0], [1, 0]], [[0, 2]], None, r"edges must name nodes from 0 to 1, .* at \[0\]"),
        ([[0, 0], [1, 0]], [[0, 0.5]], None, "edges must name nodes"),
        ([[0, 0], [1, 0]], [[0, 1], [1, 1]], None, r"two different nodes, and the one at \[1\]"),
        ([[0, 0], [1, 0]], [[0, 1]], [0.0], r"a millimetre or more, and the one at \[0\] is not"),
        ([[0, 0], [1, 0]], [[0, 1]], [-1.0], "a millimetre or more"),
        ([[0, 0], [1, 0]], [[0, 1]], [np.nan], "lengths must be finite"),
        ([[0, 0], [1, 0]], [[0, 1]], [1.0, 2.0], "lengths must be 1 numbers"),
        ([[0, 0], [1, 0]], [[0, 1]], [3000.0], "lengths must sum to at most 2048 km"),
        ([[0, 0], [48.123, 0], [5, 5]], [[0, 1]], None, "connected, and they are in 2 parts"),
        ([[0, 0], [1, 0], [5, 5], [5, 6]], [[0, 1], [2, 3]], None, "largest_part"),
    ],
)
def test_networks_that_cannot_be_used(nodes: Any, edges: Any, lengths: Any, words: str) -> None:
    with pytest.raises(wh.InputError, match=words) as told:
        wh.RoadNetwork(nodes, edges, lengths)
    assert "48.123" not in str(told.value)


def test_points_that_cannot_be_used() -> None:
    network = wh.RoadNetwork([[0, 0], [1, 0]], [[0, 1]])
    other = wh.RoadNetwork([[0, 0], [1, 0]], [[0, 1]], [2.0])
    for call, words in (
        (lambda: network.snap([[0.5, 48.123]]), f"within {SNAP_KM:g} km of a street, and 1 of 1"),
        (lambda: network.snap([[0.5, np.nan]]), "points must be finite"),
        (lambda: network.snap(np.empty((0, 2))), "points must hold at least one point"),
        (lambda: network.snap(other.at([0], [0.5])), "on the streets of this network"),
        (lambda: network.at([1], [0.5]), "edges must be numbers of streets, from 0 to 0"),
        (lambda: network.at([0], [48.123]), "shares must be from 0 to 1"),
        (lambda: network.at([0], [0.5, 0.6]), "shares must be 1 numbers"),
        (lambda: RoadPoints(network, np.array([0]), np.array([2**41])), "steps must be from 0"),
        (lambda: Subdivision(network, np.array([0]), np.array([5])), "cuts must be sorted"),
        (lambda: Subdivision(network, np.array([0, 0]), np.array([2**39, 2**38])), "cuts must be"),
    ):
        with pytest.raises(wh.InputError, match=words) as told:
            call()
        assert "48.123" not in str(told.value)
    assert network.snap([[0.5, 48.123]], within_km=np.inf).steps.tolist() == [2**39]


def test_nothing_prints_a_point() -> None:
    network = wh.RoadNetwork([[48.123, 2.345], [48.223, 2.345]], [[0, 1]])
    vertices = Subdivision(network, np.array([0]), network.units // 3)
    m = wh.RoadMechanism(np.full((3, 1), TOTAL, np.uint64), vertices, network.at([0], [0.4]), 1.0)
    for thing in (network, network.at([0], [0.4]), vertices, m):
        assert "48." not in repr(thing)
        assert "2.3" not in repr(thing)


# The audit.


@given(mechanisms())
@examples(40)
def test_no_piece_is_broken_in_rational_numbers(m: wh.RoadMechanism) -> None:
    counts, pieces = m.counts.tolist(), streets.pieces_of(m.vertices)
    assert street_checks.broken_pieces(counts, pieces, m.epsilon) == []
    level = m.verdict.tightest
    assert level <= m.epsilon
    assert m.verdict.comparisons == len(pieces) * len(m.outputs)
    if level > 1e-9:
        # The tightest epsilon passes, and the double below it does not.
        assert street_checks.broken_pieces(counts, pieces, level) == []
        broken = street_checks.broken_pieces(counts, pieces, math.nextafter(level, 0))
        u, v = m.verdict.pair
        assert {(u, v, m.verdict.output), (v, u, m.verdict.output)} & set(broken)


@given(mechanisms(), SEEDS)
@examples(40)
def test_any_two_points_of_the_streets_keep_their_ratio(m: wh.RoadMechanism, seed: int) -> None:
    points = streets.some_points(m.network, 12, np.random.default_rng(seed))
    rows, away = streets.exact_rows(m, points), streets.exact_distances(points)
    for i in range(12):
        assert sum(rows[i]) == 1
        for j in range(i):
            assert not street_checks.broken_ratio(rows[i], rows[j], m.epsilon, away[i][j])


@given(mechanisms(), SEEDS)
@examples(40)
def test_one_count_decides(m: wh.RoadMechanism, seed: int) -> None:
    """Move few counts at the tightest pair: the audit and the slow checker always agree.

    The tightest epsilon is a double, so up to some hundred counts may be moved without harm.
    """
    level, pieces = m.verdict.tightest, streets.pieces_of(m.vertices)
    if level < 1e-9 or len(m.outputs) == 1:
        return
    rng = np.random.default_rng(seed)
    for _ in range(6):
        counts = m.counts.copy()
        row = m.verdict.pair[int(rng.integers(0, 2))]
        other = (m.verdict.output + 1) % len(m.outputs)
        step = np.uint64(2) ** np.uint64(rng.integers(0, 15))
        one, two = (m.verdict.output, other) if rng.random() < 0.5 else (other, m.verdict.output)
        counts[row, one] += step
        counts[row, two] -= step
        broken = street_checks.broken_pieces(counts.tolist(), pieces, level)
        try:
            audit_roads(counts, m.vertices, level)
        except wh.GuaranteeError:
            assert broken
        else:
            assert not broken


def test_a_zero_that_faces_a_positive_count_is_refused() -> None:
    counts = FIXED.counts.copy()
    counts[3, 0] += counts[3, 2]
    counts[3, 2] = 0
    with pytest.raises(wh.GuaranteeError, match="output 2 changes too fast between the vertices"):
        wh.RoadMechanism(counts, FIXED.vertices, FIXED.outputs, 1e9)


def test_counts_that_cannot_be_used() -> None:
    counts = FIXED.counts.copy()
    counts[3, 1] += np.uint64(1)
    with pytest.raises(wh.GuaranteeError, match="row 3 sums to"):
        wh.RoadMechanism(counts, FIXED.vertices, FIXED.outputs, 1.07)
    for change, words in (
        ({"counts": FIXED.counts[1:]}, "counts must have 15 rows and 4 columns, got 14 x 4"),
        ({"counts": FIXED.matrix}, "counts must be a matrix of unsigned 64-bit integers"),
        ({"vertices": NETWORK}, "vertices must be a Subdivision, got RoadNetwork"),
        ({"outputs": FIXED.outputs.xy}, "outputs must be RoadPoints"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"build": wh.Build("given")}, "build must be an EverywhereBuild"),
    ):
        right = {"counts": FIXED.counts, "vertices": FIXED.vertices, "outputs": FIXED.outputs}
        arguments: dict[str, Any] = right | {"epsilon": 1.07} | change
        with pytest.raises(wh.InputError, match=words):
            wh.RoadMechanism(**arguments)


def test_a_copy_is_checked_again() -> None:
    again = pickle.loads(pickle.dumps(FIXED))
    assert (again.counts == FIXED.counts).all()
    assert again.verdict == FIXED.verdict
    assert len(again.sample(FIXED.network.at([0], [0.5]), size=3)) == 3
    with pytest.raises(ValueError, match="read-only"):
        again.counts[0, 0] = 1


# Interpolation and draws.


@given(mechanisms(), SEEDS)
@examples(40)
def test_probabilities_are_the_interpolated_ones(m: wh.RoadMechanism, seed: int) -> None:
    points = streets.some_points(m.network, 9, np.random.default_rng(seed))
    exact = np.array([[float(p) for p in row] for row in streets.exact_rows(m, points)])
    assert np.abs(m.probabilities(points) - exact).max() < 1e-14
    raw = m.network.snap(points.xy)
    exact = np.array([[float(p) for p in row] for row in streets.exact_rows(m, raw)])
    assert np.abs(m.probabilities(points.xy) - exact).max() < 1e-14
    assert np.abs(m.probabilities(points.xy[0]) - exact[0]).max() < 1e-14


def slow_report(m: wh.RoadMechanism, street: int, at: Fraction, words: list[int]) -> int:
    """One report from two chosen words, as docs/proofs/roads.md describes it."""
    along = [piece[1:] for piece in streets.pieces_of(m.vertices) if piece[0] == street]
    u, v, begin, end = max((p for p in along if p[2] <= at), key=lambda piece: piece[2])
    share = (at - begin) / (end - begin)
    row = m.counts[v if Fraction(words[0], 2**63) < share else u].tolist()
    return next(z for z in range(len(row)) if words[1] < sum(row[: z + 1]))


@given(mechanisms(), SEEDS)
@examples(40)
def test_the_same_bits_give_the_same_report(m: wh.RoadMechanism, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for k in range(6):
        point = streets.some_points(m.network, 6, rng).subset([k])
        words = [int(word) for word in rng.integers(0, TOTAL, 2, dtype=np.uint64)]
        with pytest.MonkeyPatch.context() as patch:
            bits = Bits(words)
            patch.setattr(os, "urandom", bits)
            found = m.sample(point)
        (position,) = streets.positions(point)
        assert found.outputs.tolist() == [slow_report(m, *position, words)]
        assert bits.used == 2


def chi_square(m: wh.RoadMechanism, point: RoadPoints, size: int) -> float:
    expected = np.array([float(p) for p in streets.exact_rows(m, point)[0]]) * size
    counted = np.bincount(m.sample(point, size=size).outputs, minlength=len(expected))
    return float(((counted - expected) ** 2 / expected).sum())


MIDDLES = [STEEP.network.at([street], [share]) for street, share in ((0, 0.45), (3, 0.7), (5, 0.2))]


def test_draws_have_the_probabilities_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e6 draws at three points: chi-square with 3 degrees of freedom, p = 1e-6 at 30.7."""
    monkeypatch.setattr(os, "urandom", Bits([], seed=11))
    for point in MIDDLES:
        assert chi_square(STEEP, point, 1_000_000) < 30.7


def test_a_biased_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose ends with probabilities rounded to 1 / 8: the chi-square test must see it."""
    from whereish.release import corners

    def coarse(drawn: Any, steps: Any, widths: Any, words: Any) -> Any:
        return drawn < (np.floor(8 * steps / widths) / 8 * TOTAL).astype(np.uint64)

    monkeypatch.setattr(os, "urandom", Bits([], seed=11))
    monkeypatch.setattr(corners, "choose_upper", coarse)
    assert max(chi_square(STEEP, point, 1_000_000) for point in MIDDLES) > 100


@pytest.mark.parametrize("at", [(np.nan, 1.0), (1.0,), (48.123456, 2, 3), "here", [], [[1, 2, 3]]])
def test_a_point_that_cannot_be_used_is_not_repeated(at: Any) -> None:
    for ask in (FIXED.sample, FIXED.probabilities):
        with pytest.raises(wh.InputError, match="at must be points of two coordinates") as told:
            ask(at)
        assert "48" not in str(told.value)


def test_the_number_of_reports() -> None:
    assert len(FIXED.sample((0, 0), size=0)) == 0
    assert FIXED.sample((0, 0), rng=np.random.default_rng(1)).seeded
    for call, words in (
        (lambda: FIXED.sample([[0, 0], [1, 1]], size=2), "size must not be given for several"),
        (lambda: FIXED.sample((0, 0), size=10**10), "size must be at most"),
        (lambda: FIXED.sample((0, 0), rng=3), "rng must be a numpy Generator"),  # type: ignore[arg-type]
        (lambda: FIXED.sample((0.5, 48.123)), "within 1 km of a street"),
    ):
        with pytest.raises(wh.InputError, match=words) as told:
            call()  # type: ignore[no-untyped-call]
        assert "48" not in str(told.value)
