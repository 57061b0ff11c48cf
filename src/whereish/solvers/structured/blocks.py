"""The program of a structured solve, and its blocks: one for each output in use."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.solvers.structured import kernels
from whereish.solvers.structured.envelope import padded
from whereish.solvers.structured.kernels import Blocks
from whereish.solvers.structured.precompute import Ground

_PARTS, _MANY_PARTS, _MANY = 16, 64, 500
_WORTH_THREADS = 4e6


class Program:
    """Minimise the loss over private mechanisms, in the terms of `kernels`."""

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
        self.run(kernel, [(*span, *arguments) for span in self.spans(items, work)])

    def spans(self, items: int, work: float) -> list[tuple[int, int]]:
        """Cut a range of items for the threads."""
        parts = max(1, min(items, self.calls(work)))
        return [(items * p // parts, items * (p + 1) // parts) for p in range(parts)]

    def calls(self, work: float) -> int:
        """Return in how many pieces work is worth being cut."""
        if self.threads < 2 or work < _WORTH_THREADS:
            return 1
        return 2 if work < 8 * _WORTH_THREADS else max(_PARTS, 4 * self.threads)

    def run(self, kernel: Any, calls: list[tuple[Any, ...]]) -> None:
        """Call a kernel with each of these arguments."""
        if self.threads < 2 or len(calls) < 2:
            for call in calls:
                kernel(*call)
        else:
            for job in [self.pool.submit(kernel, *call) for call in calls]:
                job.result()


def parts_of(n: int, outputs: int) -> int:
    """Return in how many parts the blocks of so many outputs are held: 1 if they are too small."""
    if outputs * n**3 < _WORTH_THREADS:
        return 1
    return _PARTS if n < _MANY else _MANY_PARTS


PER_ROW = ("rows_i", "rows_j", "slack", "lack", "dual")
STATE = Blocks._fields.index("dual") + 1


def first_room(program: Program) -> int:
    """Return for how many rows a block has room at first."""
    return min(len(program.pairs.left), max(16 * int(program.n), 2 * len(program.first)))


def first_blocks(program: Program, start: Array, outputs: NDArray[np.int64], mu: float) -> Blocks:
    """Return central blocks for these outputs and columns, with the first rows."""
    first, pairs = program.first, program.pairs
    count = len(first)
    s = empty_blocks(program, start, outputs, first_room(program))
    i, j = pairs.left[first], pairs.right[first]
    s.count[:] = count
    s.rows_i[:, :count], s.rows_j[:, :count] = i, j
    s.active[:, first] = 1
    s.slack[:, :count] = 1 - pairs.shrink[first] * start[:, i] / start[:, j]
    s.dual[:, :count] = mu / s.slack[:, :count]
    reduce_costs(program, s)
    return s


def reduce_costs(program: Program, s: Blocks) -> None:
    """Work out c - A'y of all blocks."""
    y = np.empty(s.rows_i.shape[1])
    for z in range(len(s.k)):
        kernels.reduced_cost(
            s.cost[z], s.k[z], s.rows_i[z], s.rows_j[z], s.count[z], s.dual[z],
            program.pairs.shrink_of, s.reduced[z], y,
        )  # fmt: skip


def with_room(s: Blocks, room: int) -> Blocks:
    """Return the same blocks with room for more rows."""
    more = room - s.rows_i.shape[1]
    if more == 0:
        return s
    return s._replace(**{name: np.pad(getattr(s, name), ((0, 0), (0, more))) for name in PER_ROW})


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
    return with_scratch(program, state)


def with_scratch(program: Program, state: Sequence[Any]) -> Blocks:
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
