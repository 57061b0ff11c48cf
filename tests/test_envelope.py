"""The factors and inverses of the structured solver, against numpy's, and the order of places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from effort import examples
from whereish.compiled import address, library
from whereish.solvers import Program

Floats = NDArray[np.float64]


def envelope(
    whole: Floats, first: NDArray[np.int32], right: Floats, skipped: int, k: Floats
) -> tuple[bool, Floats, Floats]:
    """Return whether a matrix could be factored, the solution, and its scaled inverse."""
    n = len(whole)
    # The core may read the upper triangle inside the envelope only: the rest is not a number.
    rows, columns = np.indices((n, n))
    given = np.where((rows <= columns) & (rows >= first), whole, np.nan)
    solved, inverse = right.copy(), np.zeros((n, n))
    failed = library().wi_envelope(
        n, address(given, np.float64), address(first, np.int32), address(solved, np.float64),
        skipped, address(k, np.float64), address(inverse, np.float64),
    )  # fmt: skip
    return not failed, solved, inverse


def program(n: int, edges: NDArray[np.int64], lengths: Floats) -> Program:
    """Return a program of these pairs; nothing else about it matters here."""
    return Program(np.ones((n, n)), edges, lengths, np.ones((n, n)))


def matrix(rng: np.random.Generator, first: list[int]) -> np.ndarray:
    """Return a positive definite matrix that is empty above ``first`` in every column."""
    n = len(first)
    whole = np.zeros((n, n))
    for j, top in enumerate(first):
        whole[top:j, j] = rng.normal(size=j - top)
    whole += whole.T
    return whole + np.diag(np.abs(whole).sum(axis=1) + rng.uniform(1e-3, 1.0, n))


@given(st.integers(1, 90), st.floats(0, 1), st.integers(0, 2**32 - 1))
@examples(80)
def test_factor_solution_and_inverse_are_those_of_numpy(n: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = np.array([rng.integers(int((1 - share) * j), j + 1) for j in range(n)])
    whole = matrix(rng, first.tolist())
    # One place may be grounded: it has no entries but its diagonal, and no part in the inverse.
    skipped = int(rng.integers(-1, n))
    if skipped >= 0:
        whole[skipped], whole[:, skipped], whole[skipped, skipped] = 0.0, 0.0, 1.0
    right, k = rng.normal(size=n), rng.uniform(0, 2, n)
    could, solved, inverse = envelope(whole, first.astype(np.int32), right, skipped, k)
    assert could
    assert np.allclose(whole @ solved, right, atol=1e-10)
    scale = np.where(np.arange(n) == skipped, 0.0, k)
    expected = k[:, None] * np.linalg.inv(whole) * scale
    assert np.allclose(np.tril(inverse), np.tril(expected), atol=1e-11)
    assert not np.triu(inverse, 1).any(), "the upper triangle is the caller's"


@pytest.mark.parametrize("n", [1, 31, 32, 33, 70])
@pytest.mark.parametrize("at", ["first", "last"])
def test_a_matrix_that_is_not_positive_definite_is_refused(n: int, at: str) -> None:
    place = 0 if at == "first" else n - 1
    full, ones = np.zeros(n, np.int32), np.ones(n)
    assert envelope(np.eye(n), full, ones, -1, ones)[0]
    for wrong in (-1e-9, 0.0, np.nan, -np.inf):
        whole = np.eye(n)
        whole[place, place] = wrong
        assert not envelope(whole, full, ones, -1, ones)[0], wrong


@pytest.mark.parametrize("first", [[0, 2, 0], [-1, 0, 0], [0, 1, 3]])
def test_an_envelope_outside_the_matrix_is_refused(first: list[int]) -> None:
    ones = np.ones(3)
    given, inverse = np.eye(3), np.zeros((3, 3))
    assert library().wi_envelope(
        3, address(given, np.float64), address(np.array(first, np.int32), np.int32),
        address(ones, np.float64), -1, address(ones, np.float64), address(inverse, np.float64),
    )  # fmt: skip


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
@examples(50)
def test_the_order_is_an_order_even_of_places_that_are_not_connected(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 1.5 / n]
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    order, _ = program(n, edges, rng.uniform(0.1, 3.0, len(edges))).order()
    assert sorted(order.tolist()) == list(range(n))


def test_the_order_undoes_a_shuffle_of_a_grid() -> None:
    """Rows of 8 places: no order can do better than 8 between neighbours, this one does 8 to 10."""
    rng = np.random.default_rng(5)
    names = rng.permutation(160)
    cells = {(c, r): names[8 * c + r] for c in range(20) for r in range(8)}
    edges = np.array(
        [
            (a, cells[other])
            for (c, r), a in cells.items()
            for other in ((c + 1, r), (c, r + 1))
            if other in cells
        ]
    )
    rank = np.empty(160, np.int64)
    order, first = program(160, edges, np.ones(len(edges))).order()
    assert first.all(), "each place has four neighbours at most"
    rank[order] = np.arange(160)
    assert np.abs(rank[edges[:, 0]] - rank[edges[:, 1]]).max() <= 10


@given(st.integers(2, 25), st.integers(0, 2**32 - 1))
@examples(50)
def test_the_first_pairs_are_the_nearest_and_connect_all(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (n, 2))
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    lengths = np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1)
    _, first = program(n, edges, lengths).order()
    chosen = {tuple(edge) for edge in edges[first].tolist()}
    assert len(chosen) <= 5 * n, "or every pair would do"
    whole = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    for x in range(n):
        for y in np.argsort(whole[x])[1:5].tolist():
            assert (min(x, y), max(x, y)) in chosen
    reached, todo = {0}, [0]
    while todo:
        x = todo.pop()
        for edge in chosen:
            if x in edge:
                other = edge[0] + edge[1] - x
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
    assert len(reached) == n


@given(st.integers(2, 15), st.integers(0, 2**32 - 1))
@examples(50)
def test_shortest_ways_are_made_of_pairs_and_as_short_as_can_be(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = [(int(rng.integers(0, j)), j) for j in range(1, n)]
    more = [(i, j) for j in range(n) for i in range(j) if rng.random() < 0.3]
    edges = np.array(sorted(set(tree + more)))
    lengths = rng.uniform(0.1, 3.0, len(edges))
    whole = program(n, edges, lengths)
    order, _ = whole.order()
    rank = np.argsort(order)
    ordered, ordered_before = whole.paths()
    found = ordered[np.ix_(rank, rank)]
    before = np.where(ordered_before < 0, -1, order[ordered_before])[np.ix_(rank, rank)]
    expected = np.full((n, n), np.inf)
    np.fill_diagonal(expected, 0.0)
    for (i, j), length in zip(edges.tolist(), lengths.tolist(), strict=True):
        expected[i, j] = expected[j, i] = length
    by_pair = expected.copy()
    for by in range(n):
        expected = np.minimum(expected, expected[:, [by]] + expected[[by]])
    assert np.allclose(found, expected)
    for start in range(n):
        for end in range(n):
            at, walked = end, 0.0
            while at != start:
                walked += by_pair[before[start, at], at]
                at = before[start, at]
            assert walked == pytest.approx(expected[start, end])
