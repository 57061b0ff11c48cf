"""A solve whose blocks are held by several members: the same bits, even if a member is lost."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import strategies as some
import whereish as wh
from whereish.compiled import library
from whereish.distributed.ray_solver import check_instruction_sets
from whereish.solvers import Program, Progress, Structured, solve_on
from whereish.solvers.structured import Member, Share, assembled, reduce_members, solve_share

PARTS = 16
# Some take outputs in late, and begin again from before that: places, epsilon, scattered.
INSTANCES = {
    1: (30, 1.07, True),
    2: (36, 6.0, False),
    19: (42, 0.3, True),
    26: (36, 3.0, False),
    40: (24, 3.0, False),
    51: (42, 0.3, True),
}
Reduce = Callable[[int, list[some.Floats], int, int], some.Floats]


class LostError(Exception):
    """A member is gone, as if its machine were."""


@dataclass
class Group:
    """Members in threads of this process, and the all-reduce between them.

    Some members are lost: then all resume from the last checkpoint that is complete.
    """

    program: Program
    prior: some.Floats
    members: int
    losses: int = 0
    reduce: Reduce = reduce_members
    tolerance: float = 1e-6
    stopping: dict[int, int] = field(default_factory=dict)  # member: after so many all-reduces
    half_way: int = -1  # the iteration in the middle of which the first member is asked to stop
    resumed: list[int] = field(default_factory=list)  # iterations
    reduces: int = 0
    _states: list[bytes | None] = field(default_factory=list, repr=False)
    _iteration: int = -1

    def solve(self) -> Structured:
        self._states = [None] * self.members
        rng = np.random.default_rng(7)
        for left in range(self.losses, -1, -1):
            # The first loss may be before any checkpoint, the others are all over the solve.
            lost = (int(rng.integers(self.members)), int(rng.integers(3, 40))) if left else None
            shares = self._attempt(lost)
            if shares is not None:
                break
            self.resumed.append(self._iteration)
        assert shares is not None
        told = {(s.loss, s.bound, s.gap, s.iterations, s.stopped) for s in shares}
        assert len(told) == 1, "the members do not agree"
        return assembled(self.program, shares)

    def _attempt(self, lost: tuple[int, int] | None) -> list[Share] | None:
        """Run all members; return None if one was lost."""
        buffers: dict[int, some.Floats] = {}
        answer: list[some.Floats] = []
        shares: dict[int, Share] = {}
        wrong: list[BaseException] = []
        states: dict[int, dict[int, bytes]] = {}
        meaning: list[tuple[int, int]] = [(0, 0)]

        def reduce_all() -> None:
            self.reduces += 1
            held = [buffers[number] for number in range(self.members)]
            answer[:] = [self.reduce(PARTS, held, *meaning[0])]

        barrier = threading.Barrier(self.members, reduce_all)

        def member(number: int) -> None:
            calls, stop = 0, np.zeros(1, np.uint8)

            def all_reduce(data: some.Floats, sums: int, maxima: int) -> None:
                nonlocal calls
                calls += 1
                if lost == (number, calls):
                    raise LostError
                stop[0] |= calls == self.stopping.get(number)
                buffers[number], meaning[0] = data.copy(), (sums, maxima)
                barrier.wait()
                data[: sums + maxima] = answer[0]

            def checkpoint(state: bytes, iteration: int) -> None:
                states.setdefault(iteration, {})[number] = state
                # All have agreed to go on: they are about to take the next step.
                stop[0] |= number == 0 and iteration == self.half_way

            one = Member(
                number, self.members, PARTS, all_reduce, checkpoint, 2, self._states[number]
            )
            try:
                shares[number] = solve_share(
                    self.program, self.prior, self.tolerance, threads=1, stop=stop, member=one
                )
            except BaseException as error:
                wrong.append(error)
                barrier.abort()

        threads = [threading.Thread(target=member, args=(i,)) for i in range(self.members)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for iteration, complete in states.items():
            if len(complete) == self.members and iteration > self._iteration:
                self._iteration = iteration
                self._states = [complete[number] for number in range(self.members)]
        if not wrong:
            return [shares[number] for number in range(self.members)]
        for error in wrong:
            if not isinstance(error, (LostError, threading.BrokenBarrierError)):
                raise error
        assert any(isinstance(error, LostError) for error in wrong)
        return None


def instance(seed: int) -> tuple[Program, some.Floats]:
    count, level, scattered = INSTANCES[seed]
    if scattered:
        places = wh.Places.from_xy(np.random.default_rng(seed).uniform(0, 4, (count, 2)))
    else:
        places = some.grid(count // 4, 4)
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    program = Program(distances, spanner.edges, level * spanner.lengths, level * distances)
    return program, some.skewed(count, seed)


def same(one: Structured, other: Structured) -> bool:
    y, w = one.multipliers, other.multipliers
    order, others = (np.lexsort((m.right, m.left, m.output)) for m in (y, w))
    return (
        bool((one.matrix == other.matrix).all())
        and (one.loss, one.bound, one.iterations) == (other.loss, other.bound, other.iterations)
        and len(y.value) == len(w.value)
        and all(
            bool((vars(y)[name][order] == vars(w)[name][others]).all())
            for name in ("output", "left", "right", "value")
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", INSTANCES)
def test_any_number_of_members_gives_the_same_bits(seed: int) -> None:
    program, prior = instance(seed)
    alone = Group(program, prior, 1).solve()
    assert alone.stopped == "solved"
    for members in (2, 3, 4, 16):
        several = Group(program, prior, members).solve()
        assert same(alone, several), members
        assert several.machines == members


@pytest.mark.parametrize("seed", INSTANCES)
def test_a_lost_member_is_restored_from_the_last_checkpoint_with_the_same_bits(seed: int) -> None:
    program, prior = instance(seed)
    alone = Group(program, prior, 1).solve()
    group = Group(program, prior, 3, losses=8)
    assert same(alone, group.solve())
    assert len(group.resumed) >= 3
    assert len(set(group.resumed)) >= 3, "or all losses were in one place"


def test_a_group_of_one_is_the_local_solve() -> None:
    places, prior = some.grid(10, 6), some.skewed(60, 3)
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    program = Program(distances, spanner.edges, 1.07 * spanner.lengths, 1.07 * distances)
    assert program.parts(prior) == PARTS
    here = solve_on(program, prior)
    assert same(here, Group(program, prior, 1).solve())
    assert same(here, Group(program, prior, 2).solve())


def test_those_solves_take_outputs_in_and_give_them_up() -> None:
    """Or the tests above would say little."""
    joined, merged, restored = 0, 0, 0
    for seed in INSTANCES:
        seen: list[Progress] = []
        solve_on(*instance(seed), progress=seen.append)
        for before, now in itertools.pairwise(seen):
            joined += now.outputs > before.outputs
            merged += now.outputs < before.outputs
            restored += now.gap > 10 * before.gap > 0
    assert joined >= 3
    assert merged >= 3
    assert restored >= 1


def backwards(parts: int, buffers: list[some.Floats], sums: int, maxima: int) -> some.Floats:
    """Add up from the last member to the first: right, but in another order than the tree's."""
    total, largest = np.zeros(sums), np.full(maxima, -np.inf)
    for buffer in reversed(buffers):
        for leaf in reversed(buffer[: len(buffer) - maxima].reshape(-1, max(sums, 1))):
            total += leaf
        largest = np.maximum(largest, buffer[len(buffer) - maxima :])
    return np.concatenate([total, largest])


@pytest.mark.parametrize("seed", INSTANCES)
def test_a_planted_order_of_summation_is_noticed(seed: int) -> None:
    program, prior = instance(seed)
    alone = Group(program, prior, 1).solve()
    other = Group(program, prior, 5, reduce=backwards).solve()
    assert other.loss == pytest.approx(alone.loss, rel=2e-6)
    assert not same(alone, other)


def test_a_member_that_is_asked_to_stop_stops_all() -> None:
    program, prior = instance(1)
    whole = Group(program, prior, 3)
    whole.solve()
    for member in range(3):
        group = Group(program, prior, 3, stopping={member: whole.reduces // 2})
        found = group.solve()
        assert found.stopped == "asked"
        assert group.reduces < whole.reduces
        assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-9
        assert found.gap > 1e-6


@pytest.mark.parametrize("iteration", [0, 2, 6, 12])
def test_a_step_under_way_is_given_up(iteration: int) -> None:
    """Asked after all have agreed to take a step, they do not finish it: it may take long."""
    found = Group(*instance(1), 3, half_way=iteration).solve()
    assert (found.stopped, found.iterations) == ("asked", iteration)
    assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-9


def test_an_error_of_the_network_is_raised() -> None:
    program, prior = instance(40)

    def broken(data: some.Floats, sums: int, maxima: int) -> None:
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError, match="gone"):
        solve_share(program, prior, 1e-6, member=Member(0, 2, PARTS, broken))


Node = tuple[int, int]


def tree_sum(values: some.Floats, node: Node) -> some.Floats:
    """Add up a node of the binary tree as its definition says."""
    low, high = node
    if high - low == 1:
        return np.asarray(values[low])
    middle = (low + high) // 2
    return tree_sum(values, (low, middle)) + tree_sum(values, (middle, high))


def inside(low: int, high: int, node: Node) -> list[Node]:
    """Return the largest nodes of the tree between two parts, in order."""
    if low <= node[0] and node[1] <= high:
        return [node]
    if node[1] <= low or high <= node[0]:
        return []
    middle = (node[0] + node[1]) // 2
    return inside(low, high, (node[0], middle)) + inside(low, high, (middle, node[1]))


@pytest.mark.parametrize("parts", [1, 16, 64])
@given(st.integers(1, 16), st.integers(0, 4), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_sums_do_not_depend_on_the_cut(
    parts: int, members: int, sums: int, maxima: int, seed: int
) -> None:
    members = min(members, parts)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(parts, sums)) * 10.0 ** rng.integers(-9, 9, (parts, 1))
    largest = rng.normal(size=(members, maxima))
    buffers, covered = [], []
    for member in range(members):
        nodes = inside(parts * member // members, parts * (member + 1) // members, (0, parts))
        assert library().wi_leaves(parts, members, member) == len(nodes)
        covered += [part for low, high in nodes for part in range(low, high)]
        own = [tree_sum(values, node) for node in nodes]
        buffers.append(np.concatenate([*own, largest[member]]))
    assert covered == list(range(parts))
    reduced = reduce_members(parts, buffers, sums, maxima)
    assert (reduced[:sums] == tree_sum(values, (0, parts))).all()
    assert (reduced[sums:] == largest.max(axis=0)).all()
    for number in range(sums):
        exact = math.fsum(values[:, number])
        assert reduced[number] == pytest.approx(exact, abs=1e-13 * np.abs(values).sum())


def test_buffers_of_other_sizes_are_refused() -> None:
    for buffers in ([np.zeros(4), np.zeros(5)], [np.zeros(3)], [np.zeros(0), np.zeros(0)]):
        with pytest.raises(wh.SolveError, match="do not solve the same program"):
            reduce_members(PARTS, buffers, 3, 1)
    assert reduce_members(PARTS, [np.zeros(4), np.ones(4)], 3, 1).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (["x86-64-v4", "x86-64-v3", "x86-64-v4"], "WHEREISH_ISA=v3"),
        (["x86-64-v3", "arm64"], "machines of one kind"),
    ],
)
def test_members_with_other_instructions_are_refused(names: list[str], advice: str) -> None:
    with pytest.raises(wh.SolveError, match=f"the same instruction set, and use .*{advice}"):
        check_instruction_sets(names)
    check_instruction_sets(names[:1] * 3)
