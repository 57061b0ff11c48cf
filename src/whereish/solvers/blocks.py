"""The state of a structured solve: a block per output in use, and the steps that all take together.

`Program` is what does not change: costs, pairs, where to start. `Iterate` is what does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.solvers import kernels, passes
from whereish.solvers.envelope import padded
from whereish.solvers.ground import Ground
from whereish.solvers.guesses import likely_columns
from whereish.solvers.kernels import Blocks

_STEP = 0.95
_CORRECTORS = 3
_LONG = 1.5
_DYING = 1e-4
_NEW_SHARE = 0.01
_PARTS = 16  # the coupling is added up in this many parts, on any number of threads
_WORTH_THREADS = 4e6


class Program:
    """Minimise the loss over private mechanisms, in the terms of `whereish.solvers.kernels`."""

    def __init__(
        self,
        ground: Ground,
        prior: Array,
        threads: int,
        pool: ThreadPoolExecutor,
        stop: NDArray[np.uint8] | None = None,
    ) -> None:
        self.ground, self.threads, self.pool = ground, threads, pool
        self.n, self.m = ground.n, ground.m
        self.pairs, self.first, self.start = ground.pairs, ground.first, ground.start
        self.prior = prior[ground.order]
        self.cost = np.ascontiguousarray((self.prior[:, None] * ground.loss).T)
        self.stop = np.zeros(1, np.uint8) if stop is None else stop

    def share(self, kernel: Any, items: int, work: float, *arguments: Any) -> None:
        """Run a kernel over all items, on several threads where that is worth their start."""
        if self.threads < 2 or work < _WORTH_THREADS:
            kernel(0, items, *arguments)
        else:
            self.run(kernel, [(*span, *arguments) for span in spans(items, work)])

    def run(self, kernel: Any, calls: list[tuple[Any, ...]]) -> None:
        """Call a kernel with each of these arguments."""
        if self.threads < 2 or len(calls) < 2:
            for call in calls:
                kernel(*call)
        else:
            for job in [self.pool.submit(kernel, *call) for call in calls]:
                job.result()


def spans(items: int, work: float) -> list[tuple[int, int]]:
    """Cut a range into parts: what they are must not depend on the number of threads."""
    parts = min(items, _PARTS if work >= 8 * _WORTH_THREADS else 2 if work >= _WORTH_THREADS else 1)
    return list(itertools.pairwise(np.linspace(0, items, parts + 1).astype(int).tolist()))


class Iterate:
    """Columns and multipliers of the outputs in use."""

    def __init__(self, program: Program, outputs: NDArray[np.int64]) -> None:
        self.program = program
        n = program.n
        room = min(len(program.pairs.left), max(16 * n, 2 * len(program.first)))
        self.kept: set[int] = set()
        start = program.start[outputs]
        ground = program.ground
        likely = likely_columns(program.prior, ground.loss[:, outputs], ground.ways[0])
        start = 0.5 * (start / start.sum(axis=0) + likely)
        self.used = outputs
        s = empty_blocks(program, start, outputs, room)
        loss = float((s.cost * start).sum())
        first, pairs = program.first, program.pairs
        i, j, count = pairs.left[first], pairs.right[first], len(first)
        self.mu = 3.0 * loss / (len(outputs) * count)
        s.count[:] = count
        s.rows_i[:, :count], s.rows_j[:, :count] = i, j
        s.active[:, first] = 1
        s.slack[:, :count] = 1 - pairs.shrink[first] * start[:, i] / start[:, j]
        s.dual[:, :count] = self.mu / s.slack[:, :count]
        reduce_costs(program, s)
        self.b = (s.k * s.reduced).sum(axis=0)
        s.residual[:] = s.reduced - self.b
        self.s = s

    def add(self, outputs: NDArray[np.int64]) -> None:
        """Take more outputs into use, with small columns that are as central as the rest."""
        _, new, _ = self.price(outputs, self.program.cost[outputs] - self.b, 0.0, True)
        scale = _NEW_SHARE / new.k.max(axis=1, keepdims=True)
        new.k[:] *= scale
        new.dual[:] *= scale
        reduce_costs(self.program, new)
        new.residual[:] = new.reduced - self.b
        room = max(self.s.rows_i.shape[1], new.rows_i.shape[1])
        old, new = _with_room(self.s, room), _with_room(new, room)
        both = [np.concatenate(two) for two in zip(old[:_STATE], new[:_STATE], strict=True)]
        self.used = np.r_[self.used, outputs]
        self.s = _with_scratch(self.program, both)

    def price(
        self, outputs: NDArray[np.int64], gain: Array, enough: float, centred: bool = False
    ) -> tuple[Array, Blocks, list[tuple[Any, Any, Any]]]:
        """Price outputs by Newton's method: return bounds, columns, and rows with multipliers."""
        from whereish.solvers.pricing import price_all

        program, n, m = self.program, self.program.n, len(outputs)
        room = self.s.rows_i.shape[1]
        s = empty_blocks(program, program.start[outputs], outputs, room)
        bound, multipliers = np.empty(m), np.empty((m, room))
        floor = self.mu / _NEW_SHARE if centred else 0.0
        program.share(
            price_all, m, 20.0 * m * n**3, s, gain, np.full(n, 1 / n), program.pairs,
            program.first, enough, floor, 60, multipliers, bound,
        )  # fmt: skip
        rows = [
            (s.rows_i[z, :c].copy(), s.rows_j[z, :c].copy(), multipliers[z, :c])
            for z, c in enumerate(s.count.tolist())
        ]
        return bound, s, rows

    def snapshot(self) -> tuple[Any, ...]:
        """Return a copy of everything that `restore` needs."""
        state = [array.copy() for array in self.s[:_STATE]]
        return self.used.copy(), self.b.copy(), self.mu, state

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Go back to where `snapshot` was taken."""
        self.used, self.b, self.mu, state = snapshot
        self.s = _with_scratch(self.program, state)

    @property
    def work(self) -> float:
        """About how much a factorisation of all blocks costs."""
        return float(len(self.used) * self.program.n**3)

    @property
    def loss(self) -> float:
        """The loss of the columns as they are, private or not."""
        return float((self.s.cost * self.s.k).sum())

    def private(self) -> Array:
        """Return the (outputs in use, inputs) mechanism nearby that is private on all pairs."""
        k = self.s.k / self.s.k.sum(axis=0)
        interior = self.program.start[self.used]
        interior = interior / interior.sum(axis=0)
        share = passes.shortfall(k, interior, self.program.pairs)
        return np.asarray(k + share * (interior - k)) if share > 0 else np.asarray(k)

    def multipliers(self) -> tuple[Array, list[tuple[Any, Any, Any]]]:
        """Return c - A'y of all blocks, and the rows i, j and multipliers y that give it."""
        s = self.s
        reduced, y = np.empty_like(s.k), np.empty_like(s.dual)
        passes.clean_all(0, len(s.k), s, self.program.pairs, self.b, reduced, y)
        return reduced, [
            (s.rows_i[z, :count].copy(), s.rows_j[z, :count].copy(), y[z, :count])
            for z, count in enumerate(s.count.tolist())
        ]

    def step(self) -> bool:
        """Take one predictor-corrector step; False if the numbers no longer allow one."""
        program, s = self.program, self.s
        if self.work < _WORTH_THREADS:
            stepped, self.b, self.mu = passes.step_alone(
                s, program.pairs, self.b, self.mu, _STEP, _CORRECTORS, _LONG
            )
            return bool(stepped)
        m, n = s.k.shape
        cuts = spans(m, self.work)
        parts = np.empty((len(cuts), n, n))
        program.run(
            passes.factor_all, [(*span, s, self.b, parts[p]) for p, span in enumerate(cuts)]
        )
        if s.stop[0] or s.trouble.any():
            return False
        matrix = parts[0]
        for part in parts[1:]:
            matrix += part
        root, trouble = passes.factor_coupling(matrix)
        if trouble != 0:
            return False
        # The rest of a step costs n^2 a block.
        light = 8 * self.work / n

        def direct(d_slack: Array, d_dual: Array, u: Array, share: float) -> tuple[Any, ...]:
            db = passes.couple(s, root)
            program.share(passes.direct_all, m, light, s, db, d_slack, d_dual, u)
            return db, passes.longest(s.primal, share), passes.longest(s.other, share)

        d_slack, d_dual, try_slack, try_dual = s.d_slack, s.d_dual, s.try_slack, s.try_dual
        total = passes.complementarity(s, d_slack, d_dual, 0.0, 0.0)
        rows = s.count.sum()
        u, try_u = np.empty((2, m, n))
        _, primal, other = direct(d_slack, d_dual, u, 1.0)
        after = passes.complementarity(s, d_slack, d_dual, primal, other)
        aim = total / rows * max(after / total, 1e-4) ** 3
        program.share(passes.correct_all, m, light, s, d_slack, d_dual, aim, 0.0, 0.0)
        db, primal, other = direct(d_slack, d_dual, u, _STEP)
        for _ in range(_CORRECTORS):
            if primal + other > _LONG:
                break
            program.share(
                passes.correct_all, m, light, s, d_slack, d_dual, aim,
                min(1.0, 1.1 * primal + 0.3), min(1.0, 1.1 * other + 0.3),
            )  # fmt: skip
            try_db, try_primal, try_other = direct(try_slack, try_dual, try_u, _STEP)
            if not try_primal + try_other > primal + other + 0.02:
                break
            db, primal, other = try_db, try_primal, try_other
            u, try_u = try_u, u
            d_slack, try_slack = try_slack, d_slack
            d_dual, try_dual = try_dual, d_dual
        program.share(passes.limit_all, m, light, s, program.pairs, u)
        primal = min(primal, passes.longest(s.primal, _STEP))
        if not (np.isfinite(primal + other) and np.isfinite(db).all() and np.isfinite(u).all()):
            return False
        self.b = self.b + other * db
        self.mu = passes.complementarity(s, d_slack, d_dual, primal, other) / rows
        program.share(
            passes.advance_all, m, light, s, program.pairs, d_slack, d_dual, u, primal, other,
            self.mu, self.b,
        )  # fmt: skip
        return True

    def drop(self) -> None:
        """Merge the outputs that are dying into others: their blocks break down first.

        The sum of two private columns is a private column, so nothing is lost by it.
        """
        dying = self.s.k.max(axis=1) < _DYING
        if not dying.any():
            return
        dying &= ~np.isin(self.used, list(self.kept))
        if not dying.any() or dying.all():
            return
        stay = np.flatnonzero(~dying)
        passes.merge_all(np.flatnonzero(dying), stay, self.s, self.program.pairs)
        self.used = self.used[stay]
        for array in self.s[:_STATE]:
            array[: len(stay)] = array[stay]
        per_block = [array[: len(stay)] for array in self.s[:-1]]
        self.s = Blocks._make([*per_block, self.program.stop])

    def grow(self) -> None:
        """Make room for more rows where a block has filled its own: it could not go on."""
        room, most = self.s.rows_i.shape[1], len(self.program.pairs.left)
        if self.s.count.max() < room or room == most:
            return
        wider = _with_room(self.s, min(2 * room, most))
        self.s = _with_scratch(self.program, wider[:_STATE])


_PER_ROW = ("rows_i", "rows_j", "slack", "lack", "dual")
_STATE = Blocks._fields.index("dual") + 1


def reduce_costs(program: Program, s: Blocks) -> None:
    """Work out c - A'y of all blocks."""
    y = np.empty(s.rows_i.shape[1])
    for z in range(len(s.k)):
        kernels.reduced_cost(
            s.cost[z], s.k[z], s.rows_i[z], s.rows_j[z], s.count[z], s.dual[z],
            program.pairs.shrink_of, s.reduced[z], y,
        )  # fmt: skip


def _with_room(s: Blocks, room: int) -> Blocks:
    """Return the same blocks with room for more rows."""
    more = room - s.rows_i.shape[1]
    if more == 0:
        return s
    return s._replace(**{name: np.pad(getattr(s, name), ((0, 0), (0, more))) for name in _PER_ROW})


def empty_blocks(program: Program, k: Array, outputs: NDArray[np.int64], room: int) -> Blocks:
    """Return blocks for these outputs and columns, without rows yet."""
    m = len(outputs)
    state = [
        program.cost[outputs],
        np.array(k),
        np.empty_like(k),
        np.empty_like(k),
        program.ground.farthest[outputs],
        np.zeros((m, len(program.pairs.left)), np.uint8),
        np.zeros(m, np.int64),
        np.zeros((m, room), np.uint32),
        np.zeros((m, room), np.uint32),
        np.ones((m, room)),
        np.zeros((m, room)),
        np.ones((m, room)),
    ]
    return _with_scratch(program, state)


def _with_scratch(program: Program, state: Sequence[Any]) -> Blocks:
    """Return blocks of this state, with fresh scratch of the right size."""
    (m, n), room = state[1].shape, state[-1].shape[1]
    per_row = [np.zeros((m, room)) for _ in range(7)]
    ground_h, right, v = (np.empty((m, n)) for _ in range(3))
    sigma, whole, tau, primal, other = (np.zeros(m) for _ in range(5))
    ground, trouble = np.zeros(m, np.int64), np.zeros(m, np.int64)
    factor = np.empty((m, n, padded(n)))
    first, last = np.empty((m, n), np.int64), np.empty((m, n), np.int64)
    scratch = [
        *per_row,
        factor,
        first,
        last,
        ground,
        ground_h,
        sigma,
        right,
        whole,
        v,
        tau,
        primal,
        other,
    ]
    return Blocks._make([*state, *scratch, trouble, program.stop])
