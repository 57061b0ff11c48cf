"""Programs with small supports, against HiGHS, the structured solver and slow, obvious code."""

from __future__ import annotations

import itertools
import math
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from scipy.optimize import linprog

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.compiled import Result, Stopped
from whereish.errors import SolveError
from whereish.solvers import solve_structured
from whereish.solvers.local import LocalSolution, Supports, solve_local
from whereish.solvers.structured import Multipliers, multipliers_of

TOLERANCE = 1e-8
Floats = some.Floats


@dataclass(frozen=True, eq=False)
class Local:
    """A program, as `solve_local` gets it, and what it is made from."""

    lists: list[list[int]]  # by output: the places of its support, the centre first
    metric: Floats
    epsilon: float
    prior: Floats
    supports: Supports
    pairs: Any
    exponents: Floats
    costs: Floats
    reach: Floats
    amounts: Floats
    columns: Floats

    def solve(self, tolerance: float = TOLERANCE, **options: Any) -> LocalSolution:
        return solve_local(
            self.supports, self.pairs, self.exponents, self.costs, self.reach, self.amounts,
            self.columns, tolerance, **options,
        )  # fmt: skip


def program(
    metric: Floats, prior: Floats, epsilon: float, lists: list[list[int]], longest: float = math.inf
) -> Local:
    """Return a program whose first columns obey all pairs and add up to the amounts.

    The loss of output z is the distance to its centre. Pairs longer than ``longest`` are left out.
    """
    n = len(prior)
    place = np.array([x for one in lists for x in one], np.int32)
    output = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    centre = np.array([one[0] for one in lists])[output]
    first = np.cumsum([0] + [len(one) for one in lists])
    far = metric[place, centre]
    columns = np.exp(-0.5 * epsilon * far)
    amounts = np.bincount(place, columns, n)
    near = [(i, j) for i, j in itertools.combinations(range(n), 2) if metric[i, j] <= longest]
    pairs = np.array(near, np.int32).reshape(-1, 2)
    return Local(
        lists, metric, epsilon, prior, Supports(first, place, np.diff(first), output), pairs,
        epsilon * metric[pairs[:, 0], pairs[:, 1]], prior[place] * far, epsilon * far,
        amounts / amounts.max(), columns / amounts.max(),
    )  # fmt: skip


def whole(metric: Floats, prior: Floats, epsilon: float) -> Local:
    """Return the program of all places and pairs, with plain costs and amounts of 1."""
    n = len(prior)
    lists = [[z, *(x for x in range(n) if x != z)] for z in range(n)]
    made = program(metric, prior, epsilon, lists)
    columns = made.columns / np.bincount(made.supports.place, made.columns)[made.supports.place]
    return replace(made, amounts=np.ones(n), columns=columns)


@st.composite
def programs(draw: DrawFn, most: int = 8, farthest: float = math.inf) -> Local:
    """Supports of any sizes: one for each place, or fewer, of which one holds all places.

    No eps d is above ``farthest``.
    """
    where, prior = draw(some.profiles(least=2, most=most))
    n, metric = len(where), wh.euclidean(where)
    centres = draw(st.one_of(st.just(range(n)), st.lists(st.integers(0, n - 1), min_size=1)))
    lists = []
    for z, centre in enumerate(centres):
        others = draw(st.permutations([x for x in range(n) if x != centre]))
        everywhere = z == 0 and not isinstance(centres, range)
        size = n - 1 if everywhere else draw(st.integers(1, n - 1))
        lists.append([centre, *others[:size]])
    shortest = float(metric[metric > 0].min())
    longest = draw(st.sampled_from([shortest, float(np.median(metric)), math.inf]))
    epsilon = min(draw(some.EPSILONS), farthest / float(metric.max()))
    return program(metric, prior, epsilon, lists, max(longest, shortest))


def close(value: float) -> Any:
    """Return what is equal to a loss, as far as the tolerance goes; the optimum may be 0."""
    return pytest.approx(value, rel=1e-6, abs=1e-9)


def rows_of(multipliers: Multipliers) -> list[tuple[int, int, int, float]]:
    return list(
        zip(
            multipliers.output.tolist(), multipliers.left.tolist(), multipliers.right.tolist(),
            multipliers.value.tolist(), strict=True,
        )
    )  # fmt: skip


def losses(local: Local) -> list[list[float]]:
    return [
        [float(local.metric[x, one[0]]) for one in local.lists] for x in range(len(local.prior))
    ]


def proved(local: Local, found: LocalSolution) -> float:
    """Return the bound on the whole program that the multipliers prove, exactly."""
    return checks.proved_bound(
        rows_of(found.multipliers), local.prior.tolist(), losses(local), local.epsilon,
        local.metric.tolist(),
    )  # fmt: skip


def proved_here(local: Local, found: LocalSolution) -> float:
    """Return the bound on the program of the supports that the multipliers prove."""
    rest = {
        (x, z): float(local.prior[x] * local.metric[x, one[0]])
        for z, one in enumerate(local.lists)
        for x in one
    }
    for z, i, j, y in rows_of(found.multipliers):
        rest[j, z] -= y
        rest[i, z] += y * math.exp(-local.epsilon * local.metric[i, j])
    return math.fsum(
        amount * min(rest[at] for at in rest if at[0] == x)
        for x, amount in enumerate(local.amounts.tolist())
    )


def optimum(local: Local, lists: list[list[int]], amounts: Sequence[float]) -> float:
    """Return the least loss with these supports and all pairs inside them, from HiGHS."""
    at = {(x, z): k for k, (z, x) in enumerate((z, x) for z, one in enumerate(lists) for x in one)}
    costs = [local.prior[x] * local.metric[x, lists[z][0]] for x, z in at]
    rows = []
    for z, one in enumerate(lists):
        for i, j in itertools.permutations(one, 2):
            row = [0.0] * len(at)
            row[at[i, z]], row[at[j, z]] = math.exp(-local.epsilon * local.metric[i, j]), -1.0
            rows.append(row)
    sums = [[float(x == y) for x, _ in at] for y in range(len(amounts))]
    exact: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(costs, rows, [0.0] * len(rows), sums, amounts, method="highs", options=exact)
    assert found.status == 0, found.message
    assert found.fun is not None
    return float(found.fun)


def worst_row(local: Local, found: LocalSolution) -> float:
    """Return by how much a column breaks a pair that was given, or one with its centre, at most."""
    given_pairs = {frozenset(pair) for pair in local.pairs.tolist()}
    worst = 0.0
    for z, one in enumerate(local.lists):
        first = int(local.supports.first[z])
        column = dict(zip(one, found.columns[first : first + len(one)].tolist(), strict=True))
        for i, j in itertools.permutations(one, 2):
            if {i, j} in given_pairs or one[0] in (i, j):
                limit = math.exp(local.epsilon * local.metric[i, j])
                worst = max(worst, column[i] / limit - column[j])
    return worst


@given(some.profiles(least=5, most=12), some.EPSILONS, st.sampled_from([1.0, 0.5, 3.0]))
@examples(200)
def test_with_all_places_it_is_the_structured_solver(
    profile: tuple[wh.Places, Floats], epsilon: float, scale: float
) -> None:
    """Also from columns that add up to something else at first."""
    where, prior = profile
    local = whole(wh.euclidean(where), prior, epsilon)
    found = replace(local, columns=local.columns * scale).solve()
    other = solve_structured(
        prior, local.metric, local.pairs, local.exponents, epsilon * local.metric, TOLERANCE
    )
    assert float(local.costs @ found.columns) == close(other.loss)
    bound = proved(local, found)
    assert bound == close(other.bound)
    assert float(found.prices.sum()) == close(bound)
    assert abs(found.gap) <= 1e-6 or other.loss < 1e-9  # the numbers may allow no smaller one


@given(programs())
@examples(400)
def test_columns_and_multipliers_are_those_of_the_supports(local: Local) -> None:
    found = local.solve()
    assert (found.columns > 0).all()
    sums = [0.0] * len(local.amounts)
    for x, value in zip(local.supports.place.tolist(), found.columns.tolist(), strict=True):
        sums[x] += value
    assert sums == pytest.approx(local.amounts.tolist(), rel=1e-9)
    assert worst_row(local, found) <= 1e-6
    assert all(value > 0 for value in found.multipliers.value.tolist())
    for z, i, j, _ in rows_of(found.multipliers):
        assert i != j
        assert {i, j} <= set(local.lists[z])


@given(programs(most=6, farthest=8.0))  # HiGHS takes exp(-eps d) below 1e-9 for 0
@examples(300)
def test_it_finds_the_optimum_and_the_multipliers_prove_it(local: Local) -> None:
    """Of the supports; and for the whole program the multipliers prove a bound that is true."""
    n = len(local.prior)
    every_pair = replace(whole(local.metric, local.prior, local.epsilon), lists=local.lists)
    local = replace(local, pairs=every_pair.pairs, exponents=every_pair.exponents)
    found = local.solve()
    least = optimum(local, local.lists, local.amounts.tolist())
    assert float(local.costs @ found.columns) == close(least)
    assert proved_here(local, found) == close(least)
    assert float(found.prices @ local.amounts) == close(least)
    everywhere = [[one[0], *(x for x in range(n) if x != one[0])] for one in local.lists]
    assert proved(local, found) <= optimum(local, everywhere, [1.0] * n) * (1 + 1e-7) + 1e-9


def on_a_grid(columns: int = 3, rows: int = 2, size: int = 4) -> Local:
    """Return supports of the places nearest to each place, of several sizes."""
    places = some.grid(columns, rows)
    metric, n = wh.euclidean(places), len(places)
    lists = [
        np.argsort(metric[z], kind="stable")[: min(n, size + z % 5)].tolist() for z in range(n)
    ]
    return program(metric, some.skewed(n, 1), 1.07, lists, 1.5)


@pytest.mark.parametrize(("columns", "rows"), [(2, 1), (3, 2), (8, 7)])
@pytest.mark.parametrize("one_output", [False, True])
def test_few_places_many_places_and_one_output(columns: int, rows: int, one_output: bool) -> None:
    """33 places and more have a factor of two strips; one output leaves nothing to choose."""
    local = on_a_grid(columns, rows, 30)
    if one_output:
        order = np.argsort(local.metric[0], kind="stable").tolist()
        local = program(local.metric, local.prior, 1.07, [order])
    found = local.solve()
    assert float(local.costs @ found.columns) == close(proved_here(local, found))
    assert worst_row(local, found) <= 1e-6
    if one_output:
        assert found.columns == pytest.approx(local.columns, rel=1e-9)


def changed(values: Any, at: Any, value: float) -> Any:
    copy = np.array(values)
    copy[at] = value
    return copy


def with_number(name: str, value: float) -> Callable[[Local], Local]:
    """Return the change of the second number of a field to this value."""
    return lambda one: replace(one, **{name: changed(getattr(one, name), 1, value)})


def numbers(name: str, *values: float) -> dict[str, Callable[[Local], Local]]:
    """Return changes of the second number of a field."""
    return {f"{name} {value}": with_number(name, value) for value in values}


def of_supports(one: Local, **fields: Any) -> Local:
    return replace(one, supports=replace(one.supports, **fields))


NAN, INF = math.nan, math.inf
SIZE, INDEX, NUMBER = "a size of", "a pair names", "a number of"
WRONG: dict[str, dict[str, Callable[[Local], Local]]] = {
    NUMBER: {
        **numbers("costs", -1.0, NAN, INF, 2e300),
        **numbers("reach", -1.0, NAN, -INF),
        **numbers("exponents", -1.0, NAN, -INF),
        **numbers("amounts", -1.0, 0.0, 1.0 + 1e-15, NAN, INF),
        **numbers("columns", -1.0, 0.0, NAN, INF, 2e300),
    },
    INDEX: {
        "negative place": lambda one: of_supports(one, place=changed(one.supports.place, 2, -1)),
        "place too high": lambda one: of_supports(one, place=changed(one.supports.place, 2, 6)),
        "huge place": lambda one: of_supports(one, place=changed(one.supports.place, 2, 2**31 - 1)),
        "place twice": lambda one: of_supports(
            one, place=changed(one.supports.place, 2, one.supports.place[1])
        ),
        "last place twice": lambda one: of_supports(
            one, place=changed(one.supports.place, -1, one.supports.place[-2])
        ),
        "negative pair": lambda one: replace(one, pairs=changed(one.pairs, (1, 0), -1)),
        "pair too high": lambda one: replace(one, pairs=changed(one.pairs, (1, 1), 6)),
        "pair of one place": lambda one: replace(one, pairs=changed(one.pairs, 1, 3)),
    },
    SIZE: {
        "no pairs": lambda one: replace(one, pairs=one.pairs[:0], exponents=one.exponents[:0]),
        "too many pairs": lambda one: replace(
            one, pairs=np.tile(one.pairs, (9, 1)), exponents=np.tile(one.exponents, 9)
        ),
        "no outputs": lambda one: replace(
            of_supports(one, first=np.zeros(1, np.int64), place=np.zeros(0, np.int32)),
            costs=np.zeros(0), reach=np.zeros(0), columns=np.zeros(0),
        ),
        "fewer costs": lambda one: replace(one, costs=one.costs[1:]),
        "fewer reaches": lambda one: replace(one, reach=one.reach[1:]),
        "fewer columns": lambda one: replace(one, columns=one.columns[1:]),
        "fewer exponents": lambda one: replace(one, exponents=one.exponents[1:]),
        "more places": lambda one: of_supports(one, place=np.append(one.supports.place, 0)),
        "last too high": lambda one: of_supports(one, first=changed(one.supports.first, -1, 99)),
        "first not 0": lambda one: of_supports(one, first=changed(one.supports.first, 0, 1)),
        "negative first": lambda one: of_supports(one, first=changed(one.supports.first, 1, -2)),
        "huge first": lambda one: of_supports(one, first=changed(one.supports.first, 1, 2**62)),
        "first not increasing": lambda one: of_supports(
            one, first=np.append(one.supports.first, one.supports.first[-1])
        ),
        "first decreasing": lambda one: of_supports(
            one, first=changed(one.supports.first, 2, one.supports.first[1] - 1)
        ),
        "support of one place": lambda one: program(
            one.metric, one.prior, one.epsilon, [*one.lists, [0]]
        ),
        "support of more than all": lambda one: of_supports(
            one, first=changed(one.supports.first, 1, 7)
        ),
        "place in no support": lambda one: replace(
            one, amounts=np.append(one.amounts, 1.0)
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("why", "change"),
    [pytest.param(why, each, id=name) for why, all in WRONG.items() for name, each in all.items()],
)
def test_wrong_input_is_refused(why: str, change: Callable[[Local], Local]) -> None:
    local = on_a_grid()
    local.solve()  # right, as it is
    with pytest.raises(SolveError, match=why):
        change(local).solve()


@pytest.mark.parametrize("tolerance", [0.0, -1.0, NAN, -INF])
def test_a_tolerance_must_be_positive(tolerance: float) -> None:
    with pytest.raises(SolveError, match=SIZE):
        on_a_grid().solve(tolerance)


def test_what_has_no_limit_may_be_infinite() -> None:
    """Pairs without a limit, and places that are not paired with the centre."""
    local = on_a_grid()
    free = replace(
        local, exponents=np.full(len(local.pairs), INF), reach=np.full_like(local.reach, INF)
    )
    found, bound = free.solve(), local.solve()
    assert float(local.costs @ found.columns) < 0.9 * float(local.costs @ bound.columns)


def test_the_input_stays_as_it_is() -> None:
    local = on_a_grid()
    names = ("pairs", "exponents", "costs", "reach", "amounts", "columns")
    before = [np.array(getattr(local, name)) for name in names]
    found = local.solve()
    assert not np.shares_memory(found.columns, local.columns)
    for name, old in zip(names, before, strict=True):
        assert (getattr(local, name) == old).all(), name


@pytest.mark.parametrize("seed", [217, 1086, 1620, 1649, 2300])
def test_a_closed_gap_is_not_enough_to_end(seed: int) -> None:
    """A pair that joined in the last step may be broken by far more than the tolerance."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 14))
    metric = wh.euclidean(wh.Places.from_xy(rng.uniform(0, 4, (n, 2))))
    lists = [np.argsort(row).tolist()[: int(rng.integers(2, n + 1))] for row in metric]
    epsilon = (0.3, 1.07, 3.0, 6.0)[seed % 4]
    local = program(metric, some.skewed(n, seed), epsilon, lists)
    found = local.solve(1e-6)
    assert found.gap <= 1e-6
    assert worst_row(local, found) <= 1e-6


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Stopped]:
    """Return why each solve ended, which a solution does not tell."""
    seen: list[Stopped] = []

    def watched(result: Result) -> Multipliers:
        seen.append(Stopped(result.stopped))
        return multipliers_of(result)

    monkeypatch.setattr("whereish.solvers.local.multipliers_of", watched)
    return seen


def test_supports_that_no_columns_fit_are_not_solved(ends: list[Stopped]) -> None:
    """Places 1 and 2 need twice exp(-eps d) at place 0, and its amount is 1."""
    metric = np.array([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    made = program(metric, np.full(3, 1 / 3), 0.1, [[0, 1], [0, 2]])
    made.solve()
    local = replace(made, amounts=np.ones(3), columns=np.array([0.5, 1.0, 0.5, 1.0]))
    found = local.solve()
    assert ends == [Stopped.SOLVED, Stopped.NUMERICS]
    assert not abs(found.gap) <= 0.1


def test_a_callback_that_raises_ends_the_solve() -> None:
    calls = []

    def progress() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError("told")

    with pytest.raises(ZeroDivisionError, match="told"):
        on_a_grid().solve(progress=progress)
    assert len(calls) == 3


def test_ctrl_c_is_not_taken_for_a_result() -> None:
    calls = []

    def progress() -> None:
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        on_a_grid().solve(progress=progress)
    assert len(calls) <= 3


def test_progress_is_told_of_every_iteration_and_changes_nothing() -> None:
    calls: list[int] = []
    local = on_a_grid()
    found = local.solve(progress=lambda: calls.append(1))
    assert len(calls) == found.iterations + 1
    assert float(local.costs @ found.columns) == pytest.approx(
        float(local.costs @ local.solve().columns), rel=1e-7
    )


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_without_time_it_returns_the_first_columns(limit: float, ends: list[Stopped]) -> None:
    local = on_a_grid()
    found = local.solve(time_limit_s=limit)
    assert ends == [Stopped.TIME]
    assert found.iterations == 0
    assert found.gap > 0.1
    assert found.columns == pytest.approx(local.columns, rel=1e-12)


def test_a_time_limit_ends_a_solve(ends: list[Stopped]) -> None:
    """The gap cannot be so small: without a limit it goes on until the numbers allow no step."""
    local = on_a_grid(12, 10, 20)
    found = local.solve(1e-300, time_limit_s=0.01)
    assert found.seconds < 5
    assert found.iterations < local.solve(1e-300).iterations
    assert ends == [Stopped.TIME, Stopped.NUMERICS]


def test_a_tolerance_that_the_numbers_do_not_allow_spoils_nothing() -> None:
    """On a line with all pairs the gap stays at 5e-8: steps beyond that lost the columns again."""
    prior = np.array([0.004, 0.15, 0.0, 0.206, 0.0, 0.206, 4e-6, 0.15, 0.0, 0.284, 0.0])
    metric = wh.euclidean(wh.Places.from_xy([[0, 1.424 * k] for k in range(11)]))
    local = whole(metric, prior / prior.sum(), 3.0)
    found = local.solve(1e-12)
    assert abs(found.gap) <= 1e-6
    assert worst_row(local, found) <= 1e-7
    assert float(local.costs @ found.columns) == close(proved(local, found))


def test_threads_change_no_bit() -> None:
    local = on_a_grid(8, 7, 12)
    one, three = (local.solve(threads=threads) for threads in (1, 3))
    assert one.iterations == three.iterations > 5
    assert one.columns.tobytes() == three.columns.tobytes()
    assert one.prices.tobytes() == three.prices.tobytes()
    assert rows_of(one.multipliers) == rows_of(three.multipliers)
