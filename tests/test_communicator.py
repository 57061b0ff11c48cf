"""A solve whose blocks are in several processes: the same bits, even if one process is lost."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from whereish.solvers.structured.blocks import Program
from whereish.solvers.structured.communicator import Node, added_up, subtrees
from whereish.solvers.structured.partition import Share

import strategies as some
import whereish as wh
from whereish.solvers import Structured, solve_structured
from whereish.solvers.structured import driver

# Some take outputs in late, and begin again from before that: places, epsilon, scattered.
INSTANCES = {
    1: (30, 1.07, True),
    2: (36, 6.0, False),
    19: (42, 0.3, True),
    26: (36, 3.0, False),
    40: (24, 3.0, False),
    51: (42, 0.3, True),
}


class Several:
    """Members in this process. Some are lost, and made again as on a cluster."""

    moved_bytes = 0

    def __init__(self, program: Program, parts: int, spans: Sequence[Node], losing: float) -> None:
        self.spans = spans
        self._program, self._parts, self._losing = program, parts, losing
        self._rng = np.random.default_rng(7)
        self._members = [self._member(span) for span in spans]
        self._states: list[bytes | None] = [None] * len(spans)
        self._asked: list[list[tuple[str, bytes]]] = [[] for _ in spans]
        self.lost = 0
        self.asked: set[str] = set()

    def _member(self, span: Node) -> Share:
        of, pool = self._program, ThreadPoolExecutor(1)
        prior = np.empty_like(of.prior)
        prior[of.ground.order] = of.prior
        return Share(Program(of.ground, prior, 1, pool), *span, self._parts)

    def ask(self, what: str, *arguments: Any) -> list[Any]:
        return self.ask_each(what, [arguments] * len(self.spans))

    def ask_each(self, what: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.asked.add(what)
        if what == "factor" and self._losing and self._rng.random() < 0.3:
            self._states = [pickle.dumps(member.state()) for member in self._members]
            self._asked = [[] for _ in self.spans]
        answers = []
        for i, own in enumerate(arguments):
            if self._rng.random() < self._losing:
                self._lose(i)
            answers.append(getattr(self._members[i], what)(*own))
            if what in Share.CHANGES:
                self._asked[i].append((what, pickle.dumps(own)))
        return answers

    def _lose(self, i: int) -> None:
        self.lost += 1
        again = self._member(self.spans[i])
        state = self._states[i]
        if state is not None:
            again.become(pickle.loads(state))
        for what, own in self._asked[i]:
            getattr(again, what)(*pickle.loads(own))
        self._members[i] = again


def solve(
    monkeypatch: pytest.MonkeyPatch, seed: int, cuts: Sequence[int] | None, losing: float = 0.0
) -> tuple[Structured, Several | None]:
    """Solve with members that hold the parts between these cuts, or alone."""
    monkeypatch.setattr("whereish.solvers.structured.blocks._WORTH_THREADS", 0)
    teams: list[Several] = []

    @contextmanager
    def team(program: Program, parts: int) -> Iterator[Several]:
        assert cuts is not None
        spans = list(zip([0, *cuts], [*cuts, parts], strict=True))
        teams.append(Several(program, parts, spans, losing))
        yield teams[0]

    if cuts is not None:
        monkeypatch.setattr(driver, "_local_team", team)
    count, level, scattered = INSTANCES[seed]
    if scattered:
        places = wh.Places.from_xy(np.random.default_rng(seed).uniform(0, 4, (count, 2)))
    else:
        places = some.grid(count // 4, 4)
    prior = some.skewed(count, seed)
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    found = solve_structured(
        prior, distances, spanner.edges, level * spanner.lengths, level * distances, threads=1
    )
    monkeypatch.undo()
    return found, teams[0] if teams else None


def same(one: Structured, other: Structured) -> bool:
    y, w = one.multipliers, other.multipliers
    order, others = (np.lexsort((m.right, m.left, m.output)) for m in (y, w))
    return (
        bool((one.matrix == other.matrix).all())
        and (one.loss, one.bound, one.iterations) == (other.loss, other.bound, other.iterations)
        and bool((y.value[order] == w.value[others]).all())
    )


@pytest.mark.parametrize("seed", INSTANCES)
def test_any_number_of_members_gives_the_same_bits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, _ = solve(monkeypatch, seed, None)
    assert alone.stopped == "solved"
    for cuts in ([], [8], [5, 10], [4, 8, 12], list(range(1, 16)), [1, 15]):
        several, _ = solve(monkeypatch, seed, cuts)
        assert same(alone, several), cuts
        assert several.machines == len(cuts) + 1


@pytest.mark.parametrize("seed", INSTANCES)
def test_a_member_that_is_lost_is_made_again_with_the_same_bits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, _ = solve(monkeypatch, seed, None)
    several, team = solve(monkeypatch, seed, [3, 8], losing=0.02)
    assert team is not None
    assert team.lost > 3
    assert same(alone, several)


def test_those_solves_take_outputs_in_and_give_them_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the tests above would say little."""
    asked: set[str] = set()
    for seed in INSTANCES:
        _, team = solve(monkeypatch, seed, [8])
        assert team is not None
        asked |= team.asked
    assert {"add", "drop", "price", "prove", "snapshot", "restore", "multipliers"} <= asked


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=16, max_size=16),
    st.sets(st.integers(1, 15)),
)
def test_sums_do_not_depend_on_who_adds_up_what(values: list[float], cuts: set[int]) -> None:
    leaves = {(i, i + 1): value for i, value in enumerate(values)}
    whole = added_up(leaves, (0, 16))
    assert whole == pytest.approx(math.fsum(values), abs=1e-3)
    known: dict[Node, float] = {}
    ends = [0, *sorted(cuts), 16]
    for low, high in itertools.pairwise(ends):
        nodes = list(subtrees(low, high, (0, 16)))
        assert sorted(i for start, end in nodes for i in range(start, end)) == list(
            range(low, high)
        )
        known |= {node: added_up(leaves, node) for node in nodes}
    assert added_up(known, (0, 16)) == whole
