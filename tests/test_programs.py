"""The linear programs: their sizes, their coefficients and their duals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

import strategies as some
import whereish as wh
from effort import examples
from whereish.programs import LinearProgram, dual, least_loss, least_loss_size, most_privacy
from whereish.solvers import solve


def small_program(epsilon: float = 1.07) -> tuple[LinearProgram, wh.Spanner, wh.Places]:
    places = some.grid(3, 2)
    spanner = wh.greedy_spanner(wh.euclidean(places), 1.0)
    program = least_loss(
        some.skewed(6), wh.euclidean(places), spanner.edges, epsilon * spanner.lengths
    )
    return program, spanner, places


def test_sizes_are_known_before_anything_is_built() -> None:
    program, spanner, _ = small_program()
    size = least_loss_size(6, 6, len(spanner.edges))
    assert (program.variables, program.constraints) == (size.variables, size.constraints)
    assert program.matrix.shape == (size.constraints, size.variables)


def test_the_rows_say_what_the_paper_says() -> None:
    """Feed the program a matrix: a row is non-negative exactly where the ratio is allowed."""
    program, spanner, places = small_program()
    matrix = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    rows = program.matrix @ matrix.T.ravel()
    at = 0
    for z in range(6):
        ordered = [(int(b), int(a)) for a, b in spanner.edges]
        ordered += [(int(a), int(b)) for a, b in spanner.edges]
        for larger, smaller in ordered:
            limit = math.exp(1.07 * wh.euclidean(places)[larger, smaller])
            assert (rows[at] >= 0) == (matrix[smaller, z] <= limit * matrix[larger, z])
            at += 1
    assert rows[at:] == pytest.approx(np.ones(6))
    assert program.equal[at:].all()
    assert not program.equal[:at].any()
    assert program.right == pytest.approx(program.equal.astype(float))


def test_privacy_rows_are_scaled_symmetrically() -> None:
    program, spanner, _ = small_program(epsilon=6.0)
    privacy = program.matrix[: 2 * len(spanner.edges)].toarray()
    for row in privacy:
        larger, smaller = row.max(), row.min()
        assert larger * smaller == pytest.approx(-1.0)


def test_no_coefficient_is_so_small_that_a_solver_drops_it() -> None:
    places = wh.Places.from_xy([[0, 0], [50, 0], [0, 70]])
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    program = least_loss(some.skewed(3), distances, spanner.edges, 10 * spanner.lengths)
    assert np.abs(program.matrix.data).min() > 1e-9
    assert np.abs(program.matrix.data).max() < 1e9


def test_the_dual_of_the_dual_is_the_program() -> None:
    program, _, _ = small_program()
    again = dual(dual(program))
    assert (again.cost == program.cost).all()
    assert (again.right == program.right).all()
    assert (again.matrix != program.matrix).nnz == 0
    assert (again.equal == program.equal).all()
    assert (again.free == program.free).all()


def test_the_dual_is_that_of_appendix_b() -> None:
    """b_x + sum over x' of (exp(eps d) a_x'xz - a_xx'z) <= prior_x d_Q(x, z), up to row scaling."""
    program, spanner, places = small_program()
    other = dual(program)
    assert (other.variables, other.constraints) == (program.constraints, program.variables)
    distances = wh.euclidean(places)
    n, edges = 6, len(spanner.edges)
    variables = np.random.default_rng(1).uniform(0, 1, other.variables)
    rows = -(other.matrix @ variables)
    for z in range(n):
        for x in range(n):
            total = variables[2 * edges * n + x]
            for e, (a, b) in enumerate(spanner.edges):
                half = math.exp(1.07 * distances[a, b] / 2)
                one_way = variables[2 * edges * z + e] / half
                other_way = variables[2 * edges * z + edges + e] / half
                # one_way is a_{ab z} of the paper: the constraint k_a <= exp(eps d) k_b.
                if x == b:
                    total += half**2 * one_way - other_way
                if x == a:
                    total += half**2 * other_way - one_way
            assert rows[z * n + x] == pytest.approx(total)
    assert -other.right == pytest.approx(program.cost)


@given(some.profiles(least=3, most=6), some.EPSILONS)
@examples(15)
def test_any_dual_point_bounds_the_loss_of_every_private_mechanism(
    profile: tuple[wh.Places, some.Floats], epsilon: float
) -> None:
    """Weak duality: the optimum of the dual, read as data, is at most the loss of Laplace."""
    places, prior = profile
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    program = least_loss(prior, distances, spanner.edges, epsilon * spanner.lengths)
    bound = -solve(dual(program), "highs-ipm").objective
    assert bound <= wh.quality_loss(wh.planar_laplace(places, epsilon), prior) + 1e-8
    assert bound == pytest.approx(solve(program).objective, abs=1e-7)


def test_shokris_program_counts() -> None:
    loss = wh.euclidean(some.grid(3, 2))
    program = most_privacy(some.skewed(6), loss, loss, 0.4)
    assert program.variables == 6 * 6 + 6
    assert program.constraints == 6 * 6 + 1 + 6
