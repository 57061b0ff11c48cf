"""The partition of blocks in one process, and the operations on them.

What it is asked, and what it answers, is small: vectors over the inputs, and once in a step the
sum of its blocks' inverses. What it holds is large, and stays where it is. It does the same for the
same questions, always: so a member that is lost can be made again from what it was asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.solvers.structured import passes
from whereish.solvers.structured.blocks import (
    PER_ROW,
    STATE,
    Program,
    empty_blocks,
    first_blocks,
    reduce_costs,
    with_room,
    with_scratch,
)
from whereish.solvers.structured.communicator import Node, added_up, subtrees
from whereish.solvers.structured.kernels import Blocks

NEW_SHARE = 0.01
Numbers = NDArray[np.int64]
Sums = dict[Node, Array]
# Rows with multipliers: output, left, right, value.
Rows = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Array]


class Told(NamedTuple):
    """What a member says of its blocks after every step."""

    reduced: Array  # the least c - A'y of any block, for each input
    loss: Sums
    totals: Sums  # what the columns add up to
    largest: Array  # entry of each block's column
    most: int  # rows of any block
    rows: int


class Share:
    """The blocks of the parts from low to high, of so many in all."""

    # What changes it, besides questions. A member is what these have made of it.
    CHANGES = frozenset(
        {
            "add", "advance", "begin", "correct", "direct", "drop", "factor", "grow", "keep",
            "limit", "private", "restore", "settle", "snapshot",
        }
    )  # fmt: skip

    def __init__(self, program: Program, low: int, high: int, parts: int) -> None:
        self.program, self.low, self.high = program, low, high
        self.nodes = tuple(subtrees(low, high, (0, parts)))
        self.used, self.part = np.empty(0, np.int64), np.empty(0, np.int64)
        self.best: tuple[Numbers, Array] = (self.used, np.empty((0, program.n)))
        self.saved: tuple[Any, ...] = ()

    def begin(self, outputs: Numbers, part: Numbers, start: Array, mu: float) -> Sums:
        """Hold its own of these outputs, with these columns; return the sum of k (c - A'y)."""
        mine = (part >= self.low) & (part < self.high)
        self.used, self.part = outputs[mine], part[mine]
        self.s = first_blocks(self.program, start[mine], self.used, mu)
        self._cut()
        return self._summed(passes.by_part(self.bounds, self.s.k * self.s.reduced))

    def settle(self, b: Array) -> Told:
        """Note what each input pays."""
        self.s.residual[:] = self.s.reduced - b
        return self.told()

    def told(self) -> Told:
        """Return how the blocks are."""
        return self._told(*passes.told(self.bounds, self.s))

    # A step.

    def step_alone(self, b: Array, mu: float, *limits: float) -> tuple[bool, Array, float, Told]:
        """Take a whole step, as the only member, with a single part."""
        stepped, b, mu, told = passes.step_alone(self.s, self.program.pairs, b, mu, *limits)
        return bool(stepped), b, mu, self._told(*told)

    def factor(self, b: Array) -> tuple[bool, Sums, Sums]:
        """Factor all blocks: return whether they could be, the sum of their inverses, and `push`.

        The last of them is what the columns would add up to.
        """
        s, program = self.s, self.program
        m, n = s.k.shape
        nodes = self._nodes(program.calls(float(m * n**3)))
        matrices, self.of_rows = np.empty((len(nodes), n, n)), np.zeros((m, 4))
        self.u, self.try_u = np.empty((2, m, n))
        self.directed, self.tried = (s.d_slack, s.d_dual), (s.try_slack, s.try_dual)
        calls = [
            (low - self.low, high - self.low, self.bounds, s, b, matrix, self.of_rows)
            for (low, high), matrix in zip(nodes, matrices, strict=True)
        ]
        program.run(passes.factor_all, calls)
        if s.stop[0] or s.trouble.any():
            return False, {}, {}
        known = dict(zip(nodes, matrices, strict=True))
        return True, {node: added_up(known, node) for node in self.nodes}, self._push()

    def direct(self, db: Array, trial: bool, affine: bool) -> tuple[float, float, Sums]:
        """Finish a direction; return 1 / the longest steps, and the products of the affine one."""
        u = self.try_u if trial else self.u
        self._light(passes.direct_all, self.s, db, *(self.tried if trial else self.directed), u)
        longest = self.s.primal.max(initial=0.0), self.s.other.max(initial=0.0)
        return *longest, self._products() if affine else {}

    def correct(self, aim: float, primal: float, other: float, take: bool) -> Sums:
        """Solve for a direction that corrects the last one; return what columns would add up to.

        The last one is the one that was tried, if it is to be taken.
        """
        self._take(take)
        self._light(passes.correct_all, self.s, *self.directed, aim, primal, other)
        return self._push()

    def limit(self, take: bool) -> tuple[float, bool, Sums]:
        """Return 1 / the longest step before a pair is violated too much, and the products.

        In between, whether the direction is one at all.
        """
        self._take(take)
        self._light(passes.limit_all, self.s, self.program.pairs, self.u)
        finite = bool(np.isfinite(self.u).all())
        return self.s.primal.max(initial=0.0), finite, self._products()

    def advance(self, primal: float, other: float, mu: float, b: Array) -> Told:
        """Take the step."""
        self._light(
            passes.advance_all, self.s, self.program.pairs, *self.directed, self.u, primal, other,
            mu, b,
        )  # fmt: skip
        return self.told()

    # Outputs that come and go.

    def columns(self, outputs: Numbers) -> Array:
        """Return the columns of its own of these outputs."""
        return np.asarray(self.s.k[np.isin(self.used, outputs)])

    def drop(self, outputs: Numbers, into: Numbers, columns: Array) -> Told:
        """Give up its own of these outputs; add their columns to those of others."""
        for other, more in zip(into, columns, strict=True):
            for z in np.flatnonzero(self.used == other):
                passes.merge(z, more, self.s, self.program.pairs)
        stay = np.flatnonzero(~np.isin(self.used, outputs))
        self.used, self.part = self.used[stay], self.part[stay]
        for array in self.s[:STATE]:
            array[: len(stay)] = array[stay]
        per_block = [array[: len(stay)] for array in self.s[:-1]]
        self.s = Blocks._make([*per_block, self.program.stop])
        self._cut()
        return self.told()

    def grow(self, room: int) -> None:
        """Make room for more rows."""
        self.s = with_scratch(self.program, with_room(self.s, room)[:STATE])

    def add(self, b: Array, mu: float, outputs: Numbers, part: Numbers) -> Told:
        """Take more outputs into use, with small columns that are as central as the rest."""
        if len(outputs):
            _, new, _ = self._priced(outputs, self.program.cost[outputs] - b, 0.0, mu / NEW_SHARE)
            scale = NEW_SHARE / new.k.max(axis=1, keepdims=True)
            new.k[:] *= scale
            new.dual[:] *= scale
            reduce_costs(self.program, new)
            new.residual[:] = new.reduced - b
            both = [np.concatenate(two) for two in zip(self.s[:STATE], new[:STATE], strict=True)]
            part = np.r_[self.part, part]
            order = np.argsort(part, kind="stable")
            self.used, self.part = np.r_[self.used, outputs][order], part[order]
            self.s = with_scratch(self.program, [array[order] for array in both])
            self._cut()
        return self.told()

    def snapshot(self) -> None:
        """Remember how everything is."""
        state = [array.copy() for array in self.s[:STATE]]
        self.saved = (self.used, self.part, state)

    def restore(self) -> Told:
        """Go back to where `snapshot` was asked for."""
        self.used, self.part, state = self.saved
        self.s = with_scratch(self.program, state)
        self._cut()
        return self.told()

    # The private mechanism nearby.

    def private(self, totals: Array, interior: Array) -> tuple[float, Sums]:
        """Return which share of an interior point makes the columns private on all pairs.

        Also the loss of both, of which the mixture's is a mixture.
        """
        self.k, self.interior = self.s.k / totals, self.program.start[self.used] / interior
        share = float(passes.shortfall(self.k, self.interior, self.program.pairs))
        both = [(self.s.cost * columns).sum(axis=1) for columns in (self.k, self.interior)]
        return share, self._summed(passes.by_part(self.bounds, np.column_stack(both)))

    def keep(self, share: float) -> None:
        """Mix in a share of the interior point, and remember that as the best so far."""
        mixed = self.k + share * (self.interior - self.k) if share > 0 else self.k
        self.best = (self.used, mixed)

    def found(self) -> tuple[Numbers, Array]:
        """Return the outputs and columns of the best so far."""
        return self.best

    # Bounds on the loss.

    def multipliers(self, b: Array, final: bool) -> tuple[Array, Rows | None]:
        """Return the least c - A'y of any block, and the multipliers y that give it if wanted."""
        s = self.s
        reduced, y = np.empty_like(s.k), np.empty_like(s.dual)
        self._light(passes.clean_all, s, self.program.pairs, b, reduced, y)
        rows = _rows(self.used, s, y) if final else None
        return reduced.min(axis=0, initial=np.inf), rows

    def prove(
        self, outputs: Numbers, bound: Array, enough: float, thorough: bool, final: bool
    ) -> tuple[Array, Array, Rows | None]:
        """Prove that outputs left out are useless: return what is left to prove of each.

        Also how low c - A'y becomes by the proofs, and the proofs, if they are wanted: without
        those of the outputs of which too much is left, if there is time to be thorough.
        """
        from whereish.solvers.structured import pricing

        program, n = self.program, self.program.n
        lengths, before = program.ground.ways
        ways = np.exp(-lengths)
        gain = program.cost[outputs] - bound
        left, bids = np.empty(len(outputs)), np.empty((len(outputs), n))
        rounds = np.zeros(len(outputs), np.int64)
        program.share(
            pricing.prove_all, len(outputs), 20.0 * gain.size * n, gain, ways, enough, left, bids,
            rounds,
        )  # fmt: skip
        low = bound.copy()
        if not final:
            return left, low, None
        easy = left <= enough if thorough else np.ones(len(outputs), dtype=bool)
        of, i, j, y = pricing.write_proofs(
            np.flatnonzero(easy), gain, ways, before, program.pairs.shrink_of, bids, rounds,
            program.cost[outputs], low,
        )  # fmt: skip
        return left, low, (outputs[of].astype(np.int32), i, j, y)

    def price(
        self, outputs: Numbers, bound: Array, enough: float, final: bool
    ) -> tuple[Array, Array, Rows | None]:
        """Price outputs left out by Newton's method: return what a column of each can gain.

        Also how low c - A'y becomes, and the multipliers y if they are wanted.
        """
        gain = self.program.cost[outputs] - bound
        paying, s, y = self._priced(outputs, gain, enough, 0.0)
        low = (s.reduced + bound).min(axis=0, initial=np.inf)
        return paying, low, _rows(outputs, s, y) if final else None

    # To be made again somewhere else.

    def state(self) -> dict[str, Any]:
        """Return everything that it is, between two steps."""
        return {
            "now": (self.used, self.part, _packed(self.s[:STATE])),
            "saved": (*self.saved[:2], _packed(self.saved[2])) if self.saved else (),
            "best": self.best,
        }

    def become(self, state: dict[str, Any]) -> None:
        """Be what another was."""
        self.used, self.part, packed = state["now"]
        self.s = with_scratch(self.program, _unpacked(self.program, self.used, packed))
        if state["saved"]:
            used, part, packed = state["saved"]
            self.saved = (used, part, _unpacked(self.program, used, packed))
        self.best = state["best"]
        self._cut()

    def _cut(self) -> None:
        self.bounds = np.searchsorted(self.part, np.arange(self.low, self.high + 1))

    def _light(self, kernel: Any, *arguments: Any) -> None:
        """Run what costs n^2 a block over all blocks."""
        m, n = self.s.k.shape
        self.program.share(kernel, m, 8.0 * m * n**2, *arguments)

    def _take(self, take: bool) -> None:
        if take:
            self.u, self.try_u = self.try_u, self.u
            self.directed, self.tried = self.tried, self.directed

    def _products(self) -> Sums:
        """Return the sums of products that say what slack * dual will be after the step."""
        self._light(passes.products_all, self.s, *self.directed, self.of_rows)
        return self._summed(passes.by_part(self.bounds, self.of_rows))

    def _push(self) -> Sums:
        return self._summed(passes.pushed(self.bounds, self.s))

    def _told(
        self, reduced: Array, loss: Array, totals: Array, largest: Array, most: int, rows: int
    ) -> Told:
        return Told(reduced, self._summed(loss), self._summed(totals), largest, most, rows)

    def _nodes(self, count: int) -> list[Node]:
        """Return the subtrees it holds, cut into as many as this, as far as they can be."""
        nodes = list(self.nodes)
        while len(nodes) < count:
            start, end = max(nodes, key=lambda node: node[1] - node[0])
            if end - start == 1:
                break
            nodes.remove((start, end))
            nodes += [(start, (start + end) // 2), ((start + end) // 2, end)]
        return nodes

    def _summed(self, values: Array) -> Sums:
        """Add up the values of its parts, as far as it holds whole subtrees."""
        sums = {}
        for start, end in self.nodes:
            layer = values[start - self.low : end - self.low]
            while len(layer) > 1:
                layer = layer[0::2] + layer[1::2]
            sums[start, end] = layer[0]
        return sums

    def _priced(
        self, outputs: Numbers, gain: Array, enough: float, floor: float
    ) -> tuple[Array, Blocks, Array]:
        from whereish.solvers.structured.pricing import price_all

        program, n, m = self.program, self.program.n, len(outputs)
        room = self.s.rows_i.shape[1]
        s = empty_blocks(program, program.start[outputs], outputs, room)
        bound, y = np.empty(m), np.empty((m, room))
        program.share(
            price_all, m, 20.0 * m * n**3, s, gain, np.full(n, 1 / n), program.pairs,
            program.first, enough, floor, 60, y, bound,
        )  # fmt: skip
        return bound, s, y


def _rows(outputs: Numbers, s: Blocks, y: Array) -> Rows:
    """Return the rows of all blocks one after the other, with their multipliers."""
    there = np.arange(y.shape[1]) < s.count[:, None]
    of = np.repeat(outputs, s.count).astype(np.int32)
    return of, s.rows_i[there].astype(np.int32), s.rows_j[there].astype(np.int32), y[there]


_COST, _ORDER, _ACTIVE = (Blocks._fields.index(name) for name in ("cost", "order", "active"))
_OF_ROWS = {Blocks._fields.index(name) for name in PER_ROW}


def _packed(state: Any) -> tuple[Any, ...]:
    """Leave out what can be worked out again, and the room that is empty."""
    most = int(state[Blocks._fields.index("count")].max(initial=0))
    packed: list[Any] = [state[-1].shape[1], state[_ACTIVE].shape[1]]
    for at, array in enumerate(state):
        if at == _ACTIVE:
            packed.append(np.packbits(array, axis=1))
        elif at in _OF_ROWS:
            packed.append(array[:, :most].copy())
        elif at not in (_COST, _ORDER):
            packed.append(array.copy())
    return tuple(packed)


def _unpacked(program: Program, used: Numbers, packed: tuple[Any, ...]) -> list[Any]:
    room, pairs, *arrays = packed
    state: list[Any] = []
    for at in range(STATE):
        if at == _COST:
            state.append(program.cost[used])
        elif at == _ORDER:
            state.append(program.ground.farthest[used])
        elif at == _ACTIVE:
            state.append(np.unpackbits(arrays.pop(0), axis=1, count=pairs))
        elif at in _OF_ROWS:
            array = arrays.pop(0)
            state.append(np.pad(array, ((0, 0), (0, room - array.shape[1]))))
        else:
            state.append(np.array(arrays.pop(0)))
    return state
