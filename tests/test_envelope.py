"""The factors and inverses of the structured solver, against numpy's, and the order of places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whereish.solvers.structured.envelope import (
    WIDTH,
    add_inverse,
    cholesky,
    find_last,
    padded,
    solve_factored,
)
from whereish.solvers.structured.warm_start import first_rows, near_order, shortest_ways


def matrix(rng: np.random.Generator, first: list[int]) -> np.ndarray:
    """Return a positive definite matrix that is empty above ``first`` in every column."""
    n = len(first)
    whole = np.zeros((n, n))
    for j, top in enumerate(first):
        whole[top:j, j] = rng.normal(size=j - top)
    whole += whole.T
    return whole + np.diag(np.abs(whole).sum(axis=1) + rng.uniform(1e-3, 1.0, n))


@given(st.integers(1, 90), st.floats(0, 1), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_factor_solution_and_inverse_are_those_of_numpy(n: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = np.array([rng.integers(int((1 - share) * j), j + 1) for j in range(n)])
    whole = matrix(rng, first.tolist())
    # One place may be grounded: it has no entries but its diagonal, and no part in the inverse.
    skipped = int(rng.integers(-1, n))
    if skipped >= 0:
        whole[skipped], whole[:, skipped], whole[skipped, skipped] = 0.0, 0.0, 1.0
    factor = np.zeros((n, padded(n)))
    factor[:, :n] = np.triu(whole)
    assert cholesky(factor, first) == 0
    root = np.linalg.cholesky(whole)
    assert np.allclose(np.triu(factor[:, :n], 1), np.triu(root.T, 1), atol=1e-12)
    inside = (np.arange(n) >= first[:, None]) & np.tri(n, k=-1, dtype=bool)
    assert np.allclose(factor[:, :n][inside], root[inside], atol=1e-12)
    assert np.allclose(1 / np.diag(factor), np.diag(root), rtol=1e-12)

    right = rng.normal(size=n)
    solved = right.copy()
    solve_factored(factor, first, solved)
    assert np.allclose(whole @ solved, right, atol=1e-10)

    last, strip = np.empty(n, np.int64), np.empty((n, WIDTH))
    find_last(first, last)
    k, part = rng.uniform(0, 2, n), np.ones((n, n))
    add_inverse(factor, first, last, skipped, k, part, strip)
    scale = np.where(np.arange(n) == skipped, 0.0, k)
    expected = 1.0 + k[:, None] * np.linalg.inv(whole) * scale
    assert np.allclose(np.tril(part), np.tril(expected), atol=1e-11)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 70])
def test_a_matrix_that_is_not_positive_definite_is_refused(n: int) -> None:
    factor = np.zeros((n, padded(n)))
    factor[:, :n] = np.eye(n)
    factor[n - 1, n - 1] = -1e-9
    assert cholesky(factor, np.zeros(n, np.int64)) != 0
    factor[n - 1, n - 1] = np.nan
    assert cholesky(factor, np.zeros(n, np.int64)) != 0


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_the_order_is_an_order_even_of_places_that_are_not_connected(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 1.5 / n]
    order = near_order(n, np.array(pairs, np.int64).reshape(-1, 2))
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
    rank[near_order(160, edges)] = np.arange(160)
    assert np.abs(rank[edges[:, 0]] - rank[edges[:, 1]]).max() <= 10


@given(st.integers(2, 25), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_first_rows_hold_near_pairs_both_ways_and_connect_all(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 5, (n, 2))
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    lengths = np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1)
    rows = first_rows(n, edges, lengths)
    half = len(rows) // 2
    assert np.array_equal(rows[half:], rows[:half] + len(edges))
    chosen = {tuple(edge) for edge in edges[rows[:half]].tolist()}
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
@settings(max_examples=50, deadline=None)
def test_shortest_ways_are_made_of_pairs_and_as_short_as_can_be(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = [(int(rng.integers(0, j)), j) for j in range(1, n)]
    more = [(i, j) for j in range(n) for i in range(j) if rng.random() < 0.3]
    edges = np.array(sorted(set(tree + more)))
    lengths = rng.uniform(0.1, 3.0, len(edges))
    found, before = shortest_ways(n, edges, lengths)
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
