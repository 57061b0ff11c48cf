"""The border of the compiled core, and results that do not depend on how they are computed."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

import strategies as some
import whereish as wh
from effort import examples
from whereish.compiled import Options, Result, Status, address, instruction_set, library
from whereish.measures.audit import Limits, audit_counts
from whereish.solvers import Program, Progress, Structured, solve_on
from whereish.solvers.structured import Member, reduce_members, solve_share

STOPPED = {"solved", "time", "asked", "numerics"}


def all_pairs(n: int) -> NDArray[np.int64]:
    return np.array(list(itertools.combinations(range(n), 2)), np.int64).reshape(-1, 2)


def instance(n: int, seed: int, epsilon: float = 1.07) -> tuple[Program, some.Floats]:
    places = wh.Places.from_xy(np.random.default_rng(seed).uniform(0, 4, (n, 2)))
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    program = Program(distances, spanner.edges, epsilon * spanner.lengths, epsilon * distances)
    return program, some.skewed(n, seed)


def least_loss(program: Program, prior: some.Floats) -> float:
    """Return the optimum of the linear program as it is written in the paper, by HiGHS in SciPy."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    loss, edges, exponents, _ = program.arguments
    n, m = loss.shape
    rows, columns, values, row = [], [], [], 0
    for (i, j), exponent in zip(edges.tolist(), exponents.tolist(), strict=True):
        if np.isinf(exponent):
            continue
        for a, b in ((i, j), (j, i)):  # k(a, z) - exp(exponent) k(b, z) <= 0, scaled
            for z in range(m):
                rows += [row, row]
                columns += [a * m + z, b * m + z]
                values += [np.exp(-exponent), -1.0]
                row += 1
    ratios: Any = coo_array((values, (rows, columns)), (max(row, 1), n * m)).tocsr()
    sums: Any = coo_array(
        (np.ones(n * m), (np.repeat(np.arange(n), m), np.arange(n * m))), (n, n * m)
    )
    solved = linprog(
        (prior[:, None] * loss).ravel(), ratios, np.zeros(max(row, 1)), sums.tocsr(), np.ones(n),
        method="highs",
    )  # fmt: skip
    assert solved.success
    return float(solved.fun or 0.0)


def recomputed_bound(program: Program, prior: some.Floats, found: Structured) -> float:
    """Return the sum of the least reduced costs, by the definition of the bound."""
    loss, edges, exponents, _ = program.arguments
    decay = np.zeros((program.n, program.n))
    for (i, j), exponent in zip(edges.tolist(), exponents.tolist(), strict=True):
        decay[i, j] = decay[j, i] = np.exp(-exponent)
    y, rest = found.multipliers, prior[:, None] * loss
    assert (y.value >= 0).all()
    np.subtract.at(rest, (y.right, y.output), y.value)
    np.add.at(rest, (y.left, y.output), y.value * decay[y.left, y.right])
    return float(rest.min(axis=1).sum())


def check(program: Program, prior: some.Floats, found: Structured) -> None:
    """Check what holds of every result, solved or not."""
    loss, edges, exponents, _ = program.arguments
    matrix = found.matrix
    assert found.stopped in STOPPED
    assert np.isfinite(matrix).all()
    assert (matrix >= 0).all()
    assert np.abs(matrix.sum(axis=1) - 1).max() < 1e-9
    size = (prior[:, None] * loss).sum()
    assert found.loss == pytest.approx((prior[:, None] * loss * matrix).sum(), rel=1e-9)
    assert 0 <= found.bound <= found.loss * (1 + 1e-12)
    assert recomputed_bound(program, prior, found) >= found.bound * (1 - 1e-9) - 1e-12 * size
    for (i, j), exponent in zip(edges.tolist(), exponents.tolist(), strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            for a, b in ((i, j), (j, i)):
                assert (matrix[a] * np.exp(-exponent) <= matrix[b] * (1 + 1e-9) + 1e-15).all()


def same(one: Structured, other: Structured) -> bool:
    fields = ("output", "left", "right", "value")
    y, w = vars(one.multipliers), vars(other.multipliers)
    return (
        np.array_equal(one.matrix, other.matrix)
        and (one.loss, one.bound, one.iterations) == (other.loss, other.bound, other.iterations)
        and all(np.array_equal(y[name], w[name]) for name in fields)
    )


class TestBorder:
    """What is wrong is refused with its status, before anything is computed."""

    def arguments(self, n: int = 4, m: int = 3) -> dict[str, Any]:
        edges = all_pairs(n)
        return {
            "loss": np.ones((n, m)),
            "edges": edges,
            "exponents": np.ones(len(edges)),
            "reach": np.ones((n, n)) - np.eye(n),
        }

    def refused(self, words: str, **changed: Any) -> None:
        with pytest.raises(wh.SolveError, match=words):
            Program(**(self.arguments() | changed))

    def test_what_is_right_is_taken(self) -> None:
        Program(**self.arguments())

    def test_sizes(self) -> None:
        for changed in (
            {"loss": np.ones((0, 3)), "reach": np.ones((0, 0))},
            {"loss": np.ones((4, 0))},
            {"reach": np.ones((4, 3))},
            {"exponents": np.ones(5)},
            {"edges": np.tile(all_pairs(4), (2, 1)), "exponents": np.ones(12)},  # more than all
        ):
            self.refused("a size", **changed)

    @pytest.mark.parametrize("pair", [(-1, 2), (0, 4), (2, 2), (2**31 - 1, 0), (0, -(2**31))])
    def test_indices(self, pair: tuple[int, int]) -> None:
        edges = all_pairs(4)
        edges[3] = pair
        self.refused("a pair names a place", edges=edges)

    @pytest.mark.parametrize("turned", [False, True])
    def test_a_pair_that_comes_twice(self, turned: bool) -> None:
        """Two limits of one pair gave multipliers below zero: a bound that was not one."""
        edges = all_pairs(4)
        edges[5] = edges[0][::-1] if turned else edges[0]
        self.refused("comes twice", edges=edges, exponents=np.arange(6.0))
        few = np.array([edges[0], edges[5]])
        self.refused("comes twice", edges=few, exponents=np.ones(2))

    @pytest.mark.parametrize("wrong", [np.nan, -1.0, -1e-300, -np.inf, np.inf])
    @pytest.mark.parametrize("name", ["loss", "exponents", "reach"])
    def test_numbers(self, name: str, wrong: float) -> None:
        values = np.array(self.arguments()[name])
        values.flat[-1] = wrong
        if wrong == np.inf and name != "loss":
            Program(**(self.arguments() | {name: values}))  # no limit at all
        else:
            self.refused("negative, infinite or not a number", **{name: values})

    @pytest.mark.parametrize("wrong", [np.nan, -1.0, np.inf])
    def test_a_prior(self, wrong: float) -> None:
        program = Program(**self.arguments())
        with pytest.raises(wh.SolveError, match="negative, infinite or not a number"):
            solve_on(program, np.array([0.5, 0.5, wrong, 0.0]))
        assert program.parts(np.array([0.5, 0.5, wrong, 0.0])) == 0
        with pytest.raises(wh.SolveError, match="a size"):
            solve_on(program, np.ones(3) / 3)

    @pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan])
    def test_a_tolerance(self, tolerance: float) -> None:
        with pytest.raises(wh.SolveError, match="a size"):
            solve_on(Program(**self.arguments()), np.full(4, 0.25), tolerance)

    @pytest.mark.parametrize(
        ("number", "members", "parts"),
        [(2, 2, 16), (-1, 2, 16), (0, 17, 16), (0, 2, 1), (0, 1, 7), (0, 1, 65), (0, 1, -1)],
    )
    def test_a_member(self, number: int, members: int, parts: int) -> None:
        member = Member(number, members, parts, lambda data, sums, maxima: None)
        with pytest.raises(wh.SolveError, match="a size"):
            solve_share(Program(**self.arguments()), np.full(4, 0.25), 1e-6, member=member)

    def test_nothing_at_all(self) -> None:
        core, handle, result = library(), ctypes.c_void_p(1), ctypes.POINTER(Result)()
        assert core.wi_program_new(2, 2, 1, None, None, None, None, ctypes.byref(handle)) == 1
        assert handle.value is None
        assert core.wi_program_new(2, 2, 1, None, None, None, None, None) == Status.BAD_SIZE
        assert core.wi_solve(None, None, ctypes.byref(Options()), ctypes.byref(result)) == 1
        core.wi_program_free(None)
        core.wi_result_free(None)
        ones = np.ones((2, 2))
        for n, m, edges in ((2**31 - 1, 2, 0), (2, 2**31 - 1, 0), (2, 2, 2**62), (-1, 2, 0)):
            told = core.wi_program_new(
                n, m, edges, address(ones, np.float64), None, None, address(ones, np.float64),
                ctypes.byref(handle),
            )  # fmt: skip
            assert told == Status.BAD_SIZE
        assert core.wi_leaves(16, 0, 0) == core.wi_leaves(0, 1, 0) == core.wi_leaves(16, 2, 2) == 0

    def test_a_spanner(self) -> None:
        """No room is written past: the last word of each array stays what it was."""
        core, n, count = library(), 6, ctypes.c_int64(-1)
        xy = np.random.default_rng(0).uniform(0, 1, (n, 2))
        metric = np.linalg.norm(xy[:, None] - xy[None], axis=2)

        def call(n: int, metric: some.Floats, stretch: float, limit: float) -> int:
            edges, paths = np.full((16, 2), -7, np.int32), np.full(37, -7.0)
            told: int = core.wi_spanner(
                n, address(metric, np.float64), stretch, limit, address(edges, np.int32),
                ctypes.byref(count), address(paths, np.float64),
            )  # fmt: skip
            assert (edges[15] == -7).all()
            assert paths[36] == -7
            return told

        assert call(n, metric, 1.0, np.inf) == Status.OK
        assert n - 1 <= count.value <= 15
        assert call(1, metric, 1.0, np.inf) == Status.OK
        assert count.value == 0
        assert call(n, metric, np.inf, np.inf) == Status.OK
        for size in (0, -1, 30001, 2**31 - 1):
            assert call(size, metric, 1.0, np.inf) == Status.BAD_SIZE
        for stretch in (0.9, -1.0, np.nan):
            assert call(n, metric, stretch, np.inf) == Status.BAD_SIZE
        for limit in (-1.0, np.nan):
            assert call(n, metric, 1.0, limit) == Status.OUT_OF_TIME
        for wrong in (np.nan, -1.0):
            broken = metric.copy()
            broken[2, 3] = wrong
            assert call(n, broken, 1.0, np.inf) == Status.BAD_NUMBER

    @pytest.mark.parametrize(("parts", "members"), [(0, 1), (65, 1), (16, 17), (-1, 1), (16, 0)])
    def test_a_reduction(self, parts: int, members: int) -> None:
        core, out = library(), np.zeros(1)
        held = (ctypes.c_void_p * 17)(*[address(out, np.float64)] * 17)
        assert core.wi_reduce(parts, members, held, 1, 0, address(out, np.float64)) == 1
        with pytest.raises(wh.SolveError):
            reduce_members(parts, [out] * members, 1, 0)


NUMBERS = st.one_of(
    st.floats(0, 10),
    st.sampled_from([0.0, 1e-300, 1e-30, 1e-9, 1.0, 299.0, 301.0, 1e9, 1e30, 1e300]),
    st.sampled_from([np.inf, -np.inf, np.nan, -1.0, 5e-324]),
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[tuple[Any, ...], some.Floats]:
    """Any numbers at all, most of them plausible; pairs may be missing, or make no sense."""
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = all_pairs(n)
    edges = edges[rng.random(len(edges)) < draw(st.sampled_from([0.0, 0.3, 1.0]))]
    where = rng.uniform(0, 4, (n, 2)) * draw(st.sampled_from([1e-6, 1.0, 300.0]))
    reach = np.linalg.norm(where[:, None] - where[None], axis=2)
    arrays = [rng.uniform(0, 3, (n, m)), reach[edges[:, 0], edges[:, 1]], reach]
    prior = rng.dirichlet(np.full(n, 0.3))
    for array in (*arrays, prior):
        for _ in range(draw(st.integers(0, 2)) if array.size else 0):
            array.flat[draw(st.integers(0, array.size - 1))] = draw(NUMBERS)
    if len(edges) and draw(st.booleans()):
        edges[draw(st.integers(0, len(edges) - 1))] = draw(
            st.tuples(st.integers(-2, n + 1), st.integers(-2, n + 1))
        )
    return (arrays[0], edges, arrays[1], arrays[2]), prior


@given(programs(), st.sampled_from([1, 2]))
@examples(400)
def test_any_program_is_refused_or_solved(
    case: tuple[tuple[Any, ...], some.Floats], threads: int
) -> None:
    arguments, prior = case
    loss, edges, exponents, reach = arguments
    n = len(loss)
    plausible = (
        all(bool((array >= 0).all()) for array in (loss, exponents, reach, prior))
        and bool((loss <= 1e300).all())
        and bool((prior <= 1e300).all())
        and bool(((edges >= 0) & (edges < n)).all())
        and bool((edges[:, 0] != edges[:, 1]).all())
        and len({frozenset(pair) for pair in edges.tolist()}) == len(edges)
    )
    try:
        program = Program(*arguments)
        found = solve_on(program, prior, threads=threads, time_limit_s=20.0)
    except wh.SolveError:
        return
    assert plausible
    assert found.stopped in STOPPED
    assert found.matrix.shape == loss.shape
    assert (found.matrix >= 0).all()
    assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-9


class TestSpecialPrograms:
    """Small, flat, lopsided and cut into pieces: each against HiGHS."""

    def agrees(self, program: Program, prior: some.Floats, **options: Any) -> Structured:
        found = solve_on(program, prior, **options)
        check(program, prior, found)
        optimum = least_loss(program, prior)
        assert found.stopped == "solved"
        assert found.loss == pytest.approx(optimum, rel=1.1e-6, abs=1e-9)
        assert found.bound <= optimum * (1 + 1e-9) + 1e-9
        return found

    def euclidean(
        self, xy: Any, epsilon: float = 1.07, dilation: float = 1.0, outputs: Any = None
    ) -> Program:
        places = wh.Places.from_xy(np.asarray(xy, float))
        distances = wh.euclidean(places)
        spanner = wh.greedy_spanner(distances, dilation)
        level = epsilon / spanner.exact_dilation
        loss = distances
        if outputs is not None:
            loss = np.linalg.norm(places.xy[:, None] - np.asarray(outputs)[None], axis=2)
        return Program(loss, spanner.edges, level * spanner.lengths, level * distances)

    @pytest.mark.parametrize("m", [1, 2, 5, 20])
    def test_one_place(self, m: int) -> None:
        loss = np.random.default_rng(m).uniform(1, 2, (1, m))
        program = Program(loss, np.zeros((0, 2), int), np.zeros(0), np.zeros((1, 1)))
        found = self.agrees(program, np.ones(1))
        assert found.loss == loss.min()

    @pytest.mark.parametrize("epsilon", [0.05, 1.07, 50.0])
    def test_two_places(self, epsilon: float) -> None:
        for prior in ([0.3, 0.7], [0.0, 1.0], [1e-9, 1 - 1e-9], [0.5, 0.5]):
            self.agrees(self.euclidean([[0, 0], [1, 0]], epsilon), np.array(prior))

    @pytest.mark.parametrize("seed", range(3))
    def test_all_on_a_line(self, seed: int) -> None:
        along = np.sort(np.random.default_rng(seed).uniform(0, 6, 20))
        for prior in (some.skewed(20, seed), np.eye(1, 20, 7)[0]):
            self.agrees(self.euclidean(np.column_stack([along, 2 * along])), prior)

    @pytest.mark.parametrize("m", [1, 3, 13, 40])
    def test_outputs_that_are_not_inputs(self, m: int) -> None:
        rng = np.random.default_rng(m)
        program = self.euclidean(rng.uniform(0, 4, (14, 2)), outputs=rng.uniform(0, 4, (m, 2)))
        self.agrees(program, some.skewed(14, m))

    def test_more_zeros_than_not(self) -> None:
        rng = np.random.default_rng(3)
        program = self.euclidean(rng.uniform(0, 4, (20, 2)))
        for some_ in ([3], [3, 4], [0, 7, 19]):
            prior = np.zeros(20)
            prior[some_] = rng.dirichlet(np.ones(len(some_)))
            self.agrees(program, prior)

    @pytest.mark.parametrize("dilation", [1.05, 1.1, 1.5])
    def test_a_dilation(self, dilation: float) -> None:
        xy = np.random.default_rng(9).uniform(0, 4, (22, 2))
        self.agrees(self.euclidean(xy, dilation=dilation), some.skewed(22, 9))

    @pytest.mark.parametrize("listed", [False, True])
    def test_places_without_a_limit_between_them(self, listed: bool) -> None:
        """Two groups: the pairs between them are left out, or have an exponent of infinity."""
        xy = np.random.default_rng(4).uniform(0, 4, (16, 2))
        distances = wh.euclidean(wh.Places.from_xy(xy))
        edges = all_pairs(16)
        apart = (edges[:, 0] < 8) != (edges[:, 1] < 8)
        exponents = np.where(apart, np.inf, distances[edges[:, 0], edges[:, 1]])
        reach = np.where((np.arange(16) < 8)[:, None] != (np.arange(16) < 8), np.inf, distances)
        if not listed:
            edges, exponents = edges[~apart], exponents[~apart]
        self.agrees(Program(distances, edges, exponents, reach), some.skewed(16, 4))

    def test_no_pairs_at_all(self) -> None:
        loss = np.random.default_rng(0).uniform(0, 1, (6, 30))
        program = Program(loss, np.zeros((0, 2), int), np.zeros(0), np.full((6, 6), np.inf))
        prior = some.skewed(6, 1)
        found = self.agrees(program, prior)
        assert found.loss == pytest.approx(prior @ loss.min(axis=1), rel=1e-14)

    def test_a_place_without_pairs_is_solved_or_said_not_to_be(self) -> None:
        program, prior = instance(12, 1)
        loss, edges, exponents, reach = program.arguments
        keep = (edges != 3).all(axis=1)
        lonely = Program(loss, edges[keep], exponents[keep], reach)
        check(lonely, prior, found := solve_on(lonely, prior))
        assert found.stopped in ("solved", "numerics")

    @pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-9, 1e9, 1e30, 1e299])
    def test_units_of_loss_and_prior(self, scale: float) -> None:
        program, prior = instance(13, 6)
        loss, edges, exponents, reach = program.arguments
        plain = solve_on(program, prior)
        other = solve_on(Program(loss * scale, edges, exponents, reach), prior)
        assert other.stopped == "solved"
        assert other.loss / scale == pytest.approx(plain.loss, rel=2e-6)

    def test_losses_that_are_all_zero(self) -> None:
        program, prior = instance(9, 2)
        _, edges, exponents, reach = program.arguments
        for loss in (np.zeros((9, 9)), np.zeros((9, 1)), np.zeros((9, 20))):
            found = solve_on(Program(loss, edges, exponents, reach), prior)
            assert (found.loss, found.bound, found.stopped) == (0.0, 0.0, "solved")
            assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-9
        nobody = solve_on(program, np.zeros(9))
        assert (nobody.loss, nobody.stopped) == (0.0, "solved")

    def test_a_reach_that_does_not_obey_the_pairs(self) -> None:
        """The starting point would be outside: a negative loss was called solved."""
        loss, edges, exponents, reach = instance(20, 1)[0].arguments
        with pytest.raises(wh.SolveError, match="the reach does not obey the pairs"):
            Program(loss, edges, exponents, 100 * reach)
        with pytest.raises(wh.SolveError, match="the reach does not obey the pairs"):
            Program(loss, edges, exponents, 2.01 * reach)
        for right in (0 * reach, 0.5 * reach, 1.99 * reach):
            self.agrees(Program(loss, edges, exponents, right), some.skewed(20, 1))


_SETS = """
import numpy as np
from test_core import instance
from whereish.compiled import instruction_set
from whereish.solvers import solve_on
print(instruction_set())
for n in (14, 30, 60):
    found = solve_on(*instance(n, n), 1e-9)
    print(found.stopped, repr(found.loss), repr(found.bound))
"""


@pytest.mark.slow
def test_all_instruction_sets_give_the_same_loss() -> None:
    """The numbers differ in their last bits only: sums are taken in another order."""
    if not instruction_set().startswith("x86-64-v"):
        pytest.skip(f"{instruction_set()} has one instruction set")
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    levels: dict[str, list[list[str]]] = {}
    for asked in ("v2", "v3", ""):
        done = subprocess.run(
            [sys.executable, "-c", _SETS], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONPATH": folders, "WHEREISH_ISA": asked},
        )  # fmt: skip
        name, *lines = done.stdout.splitlines()
        assert not asked or name <= f"x86-64-{asked}"
        levels[name] = [line.split() for line in lines]
    assert "x86-64-v2" in levels
    for one, other in itertools.combinations(levels.values(), 2):
        for (stopped, loss, bound), (also, loss_2, bound_2) in zip(one, other, strict=True):
            assert stopped == also == "solved"
            assert float(loss) == pytest.approx(float(loss_2), rel=1e-9)
            assert float(bound) == pytest.approx(float(bound_2), rel=1e-9)


class TestCheckpoints:
    """Those of another solve, cut ones and damaged ones are refused."""

    def states(
        self, program: Program, prior: some.Floats, resume: bytes | None = None, **options: Any
    ) -> tuple[list[bytes], Any]:
        kept: list[bytes] = []
        member = Member(
            0, 1, 16, lambda data, sums, maxima: None, lambda state, iteration: kept.append(state),
            1, resume,
        )  # fmt: skip
        return kept, solve_share(program, prior, 1e-6, member=member, **options)

    def test_every_one_of_them_leads_to_the_same_bits(self) -> None:
        program, prior = instance(20, 1)
        kept, whole = self.states(program, prior)
        assert len(kept) == whole.iterations > 5
        for state in kept:
            _, again = self.states(program, prior, state)
            assert (again.loss, again.bound, again.iterations) == (
                whole.loss, whole.bound, whole.iterations,
            )  # fmt: skip
            assert np.array_equal(again.columns, whole.columns)
            assert np.array_equal(again.multipliers.value, whole.multipliers.value)

    def test_another_program_prior_or_tolerance(self) -> None:
        program, prior = instance(20, 1)
        state = self.states(program, prior)[0][-1]
        other = prior[::-1].copy()
        loss, edges, exponents, reach = program.arguments
        changed = [
            (Program(loss * 2, edges, exponents, reach), prior),
            (Program(loss, edges, exponents * 0.9, reach), prior),
            (Program(loss, edges, exponents, 0.5 * reach), prior),
            (program, other),
            (instance(21, 1)[0], instance(21, 1)[1]),
        ]
        for one, its in changed:
            with pytest.raises(wh.SolveError, match="does not belong to this program"):
                self.states(one, its, state)
        member = Member(0, 1, 16, lambda data, sums, maxima: None, resume=state)
        with pytest.raises(wh.SolveError, match="does not belong to this program"):
            solve_share(program, prior, 1e-7, member=member)
        for number, members, parts in ((0, 2, 16), (1, 2, 16), (0, 1, 64), (0, 1, 1)):
            member = Member(number, members, parts, lambda d, s, m: None, resume=state)
            with pytest.raises(wh.SolveError, match="does not belong to this program"):
                solve_share(program, prior, 1e-6, member=member)

    def test_cut_and_flipped_ones(self) -> None:
        program, prior = instance(12, 3)
        state = self.states(program, prior)[0][-1]
        rng = np.random.default_rng(0)
        damaged = [state[:k] for k in (0, 1, 7, 8, 9, 63, len(state) // 2, len(state) - 1)]
        damaged += [state + b"\0", state + bytes(8), bytes(len(state))]
        for at in rng.integers(0, 8 * len(state), 300).tolist():
            flipped = bytearray(state)
            flipped[at // 8] ^= 1 << at % 8
            damaged.append(bytes(flipped))
        for wrong in damaged:
            with pytest.raises(wh.SolveError, match="does not belong to this program"):
                self.states(program, prior, wrong)

    @pytest.mark.slow
    def test_damaged_ones_whose_digest_is_right(self) -> None:
        """As somebody who knows the format would make them: refused or solved, without a crash."""
        folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", _FUZZ, "600"], capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": folders},
        )  # fmt: skip
        assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
        told = dict(line.split() for line in done.stdout.splitlines() if line)
        assert int(told["refused"]) > 50
        assert int(told["solved"]) > 50


# Words of a checkpoint are replaced by others of it, by extreme numbers or by noise.
_FUZZ = """
import sys
import numpy as np
from collections import Counter
from test_core import instance, sealed
from whereish.errors import SolveError
from whereish.solvers.structured import Member, solve_share

rng, told = np.random.default_rng(5), Counter(refused=0, solved=0)
words = np.array([0, 1, 2, 7, -1, 2**31 - 1, 2**31, -2**31, 2**40, 2**62, -2**63], np.int64)
numbers = np.array([0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, 1e-308]).view(np.int64)
program, prior = instance(14, 3)
kept = []
first = Member(0, 1, 16, lambda d, s, m: None, lambda state, i: kept.append(state), 1)
solve_share(program, prior, 1e-6, member=first)
for number in range(int(sys.argv[1])):
    state = bytearray(kept[rng.integers(len(kept))][:-8])
    for _ in range(rng.integers(1, 4)):
        # Sizes and indices are at the beginning of each part, numbers everywhere.
        at = int(rng.integers(0, 60) * 4 if rng.random() < 0.3 else rng.integers(len(state) - 8))
        at -= at % 4
        other = int(rng.integers(len(state) - 8)) // 4 * 4
        new = (
            int(rng.choice(words)).to_bytes(8, "little", signed=True),
            int(rng.choice(numbers)).to_bytes(8, "little", signed=True),
            bytes(state[other : other + 8]),
            rng.bytes(8),
        )[rng.integers(4)]
        size = int(rng.choice([4, 8]))
        state[at : at + size] = new[:size]
    if rng.random() < 0.1:
        del state[int(rng.integers(len(state))) :]
    member = Member(0, 1, 16, lambda d, s, m: None, resume=sealed(bytes(state)))
    try:
        solve_share(program, prior, 1e-6, time_limit_s=1.0, threads=2, member=member)
        told["solved"] += 1
    except SolveError:
        told["refused"] += 1
for name, count in told.items():
    print(name, count)
"""


def sealed(state: bytes) -> bytes:
    """Return a state with its digest: FNV-1a over words of 8 bytes, folded."""
    whole, value = 2**64 - 1, 0xCBF29CE484222325
    filled = state + bytes(-len(state) % 8)
    for word in np.frombuffer(filled, "<u8").tolist():
        value = (value ^ word) * 0x100000001B3 & whole
        value ^= value >> 32
    return state + value.to_bytes(8, "little")


class TestSameResult:
    """Neither threads nor repetition nor an observer change a bit."""

    @pytest.mark.slow
    def test_threads(self) -> None:
        places = wh.Places.from_xy(np.random.default_rng(110).uniform(0, 8, (110, 2)))
        distances, prior = wh.euclidean(places), some.skewed(110, 5)
        spanner = wh.greedy_spanner(distances, 1.0)
        program = Program(distances, spanner.edges, 1.07 * spanner.lengths, 1.07 * distances)
        one, two, three = (solve_on(program, prior, 1e-5, threads=t) for t in (1, 2, 3))
        assert one.stopped == "solved"
        assert same(one, two)
        assert same(one, three)

    @pytest.mark.parametrize("n", [14, 60])
    def test_repetition(self, n: int) -> None:
        """Also by another program of the same numbers, and with other solves at the same time."""
        program, prior = instance(n, 8)
        first = solve_on(program, prior)
        for again in (program, program, Program(*program.arguments)):
            assert same(first, solve_on(again, prior))
        nested: list[Structured] = []

        def solve_another(now: Progress) -> None:
            if now.iteration == 3:
                nested.append(solve_on(program, prior))
                nested.append(solve_on(instance(12, 2)[0], instance(12, 2)[1]))

        solve_on(program, prior, progress=solve_another)
        assert same(first, nested[0])

    @pytest.mark.parametrize("n", [14, 40])
    def test_the_shape_of_the_arrays(self, n: int) -> None:
        """Views, other orders and other types of number are copied, not read wrongly."""
        program, prior = instance(n, 8)
        loss, edges, exponents, reach = program.arguments
        spread = np.zeros((n, 2 * n))
        spread[:, ::2] = loss
        other = Program(
            spread[:, ::2],
            np.asfortranarray(edges),
            exponents[::-1][::-1],
            np.asfortranarray(reach),
        )
        assert same(solve_on(program, prior), solve_on(other, prior[::-1].copy()[::-1]))


# The losses must agree with the best of the others, and every audit must pass.
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.7, 1.07, 2.5, 6.0, 15.0, 50.0])
def test_every_epsilon_on_ten_seeds(epsilon: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        xy = rng.uniform(0, 3, (25, 2)) if seed % 2 else some.grid(5, 5).xy
        places, prior = wh.Places.from_xy(xy), some.skewed(25, seed)
        built = wh.optimal(places, prior, epsilon, solver="structured")
        assert wh.tightest_epsilon(built) <= epsilon
        audit_counts(built.counts, Limits(epsilon, places.xy))  # raises if a ratio is broken
        exact = wh.optimal(places, prior, epsilon, solver="highs-dual-simplex")
        losses = [wh.quality_loss(each, prior) for each in (built, exact)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-9), seed
