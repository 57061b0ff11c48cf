"""The structured solver: an interior-point method that sees what the program is made of.

The constraint matrix is the same for every output, and only n rows couple the outputs. So a Newton
step is one n x n factorisation per output and one n x n system between them. Three things make
it fast: only outputs that carry probability are in the program (the others are proved useless
by pricing), only pairs that come near their limit are constrained (they join while the method
runs, without a restart, because every iterate is strictly inside all pairs), and everything
is kept relative to the iterate (see `whereish.solvers.kernels`).
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.solvers.guesses import first_rows, likely_outputs

_STEP = 0.95
_NEAR = 0.15
_ROUGH = 3e-3
_FAR = 400.0  # a start of exp(-100) is small enough, and min(d, 400) is as private as d
_DYING = 1e-3
_WORTH_THREADS = 1e7


@dataclass(frozen=True)
class Progress:
    """Where the solver is: loss so far, a bound no mechanism can beat, their relative gap."""

    iteration: int
    loss: float
    bound: float
    gap: float
    outputs: int
    rows: int


@dataclass(frozen=True, eq=False)
class Structured:
    """What the structured solver found.

    Attributes
    ----------
    matrix
        (n, m) probabilities. Every iterate is strictly inside all pairs given, up to rounding: who
        uses it repairs and checks it. Rows sum to 1 up to about 1e-10.
    loss, bound, gap
        Its loss, a lower bound on the loss of every private mechanism, and (loss - bound) / loss.
        The bound is weak duality on the multipliers and true coefficients, in doubles: it does
        not depend on how exact the iterate is.
    stopped
        Why it ended: "solved", "time" or "numerics".
    """

    matrix: Array
    loss: float
    bound: float
    gap: float
    iterations: int
    seconds: float
    stopped: str


def solve_structured(
    prior: Array,
    loss: Array,
    edges: NDArray[np.int64],
    exponents: Array,
    reach: Array,
    tolerance: float = 1e-6,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Structured:
    """Find the private mechanism with the least loss.

    Parameters
    ----------
    prior, loss
        (n,) and (n, m).
    edges, exponents
        (e, 2) pairs and (e,) values of eps d: k(x, z) <= exp(eps d) k(x', z), both ways.
    reach
        (n, n) values of eps d for all pairs, whose differences obey the exponents.
    tolerance
        The relative gap at which to stop.
    """
    from threadpoolctl import threadpool_limits

    threads = os.cpu_count() or 1
    quiet = np.errstate(all="ignore")  # numbers that break down end the solve, see `step`
    with quiet, threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        run = _Run(prior, loss, edges, exponents, reach, progress, threads, pool)
        return run.solve(tolerance, time_limit_s)


def memory_needed(n: int, outputs: int) -> int:
    """Return about how many bytes a solve takes: two n x n matrices per output in use, and rows.

    At most half of the outputs are expected to be in use at a time.
    """
    in_use = outputs if outputs <= 24 else outputs // 2
    return in_use * (16 * n * n + 40 * 24 * n) + 8 * n * n


class _Run:
    """The state of one solve: a block per output in use."""

    def __init__(
        self,
        prior: Array,
        loss: Array,
        edges: NDArray[np.int64],
        exponents: Array,
        reach: Array,
        progress: Callable[[Progress], None] | None,
        threads: int,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.threads, self.pool = threads, pool
        self.start = time.perf_counter()
        self.n, self.m = loss.shape
        self.all_cost = np.ascontiguousarray((prior[:, None] * loss).T)
        self.progress = progress
        self.pairs_i = np.r_[edges[:, 0], edges[:, 1]].astype(np.int32)
        self.pairs_j = np.r_[edges[:, 1], edges[:, 0]].astype(np.int32)
        self.shrink = np.exp(-np.r_[exponents, exponents])
        self.shrink_of = np.zeros((self.n, self.n))
        self.shrink_of[self.pairs_i, self.pairs_j] = self.shrink
        self.first = first_rows(self.n, edges, exponents)
        self.capacity = min(len(self.pairs_i), max(24 * self.n, 2 * len(self.first)))
        # An output that is not an input stands where it is most useful.
        at = loss.argmin(axis=0)
        self.reach = np.ascontiguousarray(np.minimum(reach[:, at], _FAR).T)
        self.order = np.argsort(-self.reach, axis=1, kind="stable")
        self.seeds = likely_outputs(prior, loss, reach)
        self.iterations = 0
        self.kept = np.empty(0, np.int64)

    def solve(self, tolerance: float, time_limit_s: float | None) -> Structured:
        self.deadline = np.inf if time_limit_s is None else self.start + time_limit_s
        self.open(self.seeds)
        bound, stopped = 0.0, "solved"
        target = max(_ROUGH, tolerance)
        for _ in range(50):
            stopped = self.descend(target)
            paying, low = self.price(0.1 * min(target, 1e-2))
            bound = max(bound, low)
            if stopped != "solved" or self.loss - bound <= tolerance * self.loss:
                break
            if len(paying):
                self.kept = np.union1d(self.kept, paying)
                self.open(np.union1d(self.used, paying))
            elif target == 0.5 * tolerance:
                break
            target = 0.5 * tolerance
        matrix = np.zeros((self.n, self.m))
        matrix[:, self.used] = self.k.T
        gap = (self.loss - bound) / self.loss if self.loss > 0 else 0.0
        return Structured(
            matrix,
            self.loss,
            bound,
            gap,
            self.iterations,
            time.perf_counter() - self.start,
            stopped,
        )

    def open(self, outputs: NDArray[np.int64]) -> None:
        """Start all blocks from the exponential mechanism at half of epsilon: strictly private."""
        self.used = outputs
        k = np.exp(-0.25 * self.reach[outputs])
        self.k = k / k.sum(axis=0)
        self.cost = self.all_cost[outputs]
        self.loss = float((self.cost * self.k).sum())
        rows = len(outputs) * len(self.first)
        self.rows_of(self.k, 0.3 * self.loss / rows)
        self.b = (self.k * self.reduced).sum(axis=0)
        self.residual = self.reduced - self.b

    def rows_of(self, k: Array, mu: float) -> None:
        """Give every block its first rows, centred at mu."""
        m, capacity = len(k), self.capacity
        count = len(self.first)
        self.rows_i = np.zeros((m, capacity), np.int32)
        self.rows_j = np.zeros((m, capacity), np.int32)
        self.slack, self.dual = np.ones((m, capacity)), np.ones((m, capacity))
        self.active = np.zeros((m, len(self.pairs_i)), np.uint8)
        self.count = np.full(m, count, np.int64)
        i, j = self.pairs_i[self.first], self.pairs_j[self.first]
        self.rows_i[:, :count], self.rows_j[:, :count] = i, j
        self.active[:, self.first] = 1
        self.slack[:, :count] = 1 - self.shrink[self.first] * k[:, i] / k[:, j]
        self.dual[:, :count] = mu / self.slack[:, :count]
        self.scratch()
        self.update_reduced()

    def scratch(self) -> None:
        m, n = self.k.shape
        self.d_slack = np.zeros_like(self.slack)
        self.d_dual = np.zeros_like(self.dual)
        self.factor, self.inverse = np.empty((m, n, n)), np.empty((m, n, n))
        self.ground_h, self.right, self.v, self.u = (np.empty((m, n)) for _ in range(4))
        self.sigma, self.whole, self.tau, self.primal, self.other = (np.empty(m) for _ in range(5))
        self.ground, self.trouble = np.zeros(m, np.int64), np.zeros(m, np.int64)

    def update_reduced(self) -> None:
        """Work out c - A'y of every block."""
        self.reduced = np.empty_like(self.k)
        for z, k in enumerate(self.k):
            rows = slice(0, self.count[z])
            i, j = self.rows_i[z, rows], self.rows_j[z, rows]
            y = self.dual[z, rows] / k[j]
            pull = np.bincount(j, y, self.n) - np.bincount(i, y * self.shrink_of[i, j], self.n)
            self.reduced[z] = self.cost[z] - pull

    def descend(self, target: float) -> str:
        """Newton steps until the gap over the outputs in use is below the target."""
        from whereish.solvers import kernels

        best = -np.inf
        self.bound_x = self.reduced.min(axis=0)
        for _ in range(400):
            low = self.reduced.min(axis=0)
            if low.sum() > best:
                best, self.bound_x = float(low.sum()), low
            self.loss = float((self.cost * self.k).sum())
            gap = (self.loss - best) / self.loss if self.loss > 0 else 0.0
            if self.progress is not None:
                self.progress(
                    Progress(
                        self.iterations, self.loss, best, gap, len(self.used), int(self.count.sum())
                    )
                )
            if gap <= target:
                return "solved"
            if time.perf_counter() > self.deadline:
                return "time"
            if not self.step(kernels):
                return "numerics"
            self.iterations += 1
            self.drop()
            self.grow()
        return "numerics"

    def step(self, kernels: Any) -> bool:
        """Take one predictor-corrector step; False if the numbers no longer allow one."""
        from scipy.linalg import cho_solve

        m = len(self.k)
        rows = (self.rows_i, self.rows_j, self.count, self.slack, self.dual)
        solved = (self.factor, self.ground_h, self.sigma, self.ground, self.right, self.whole)
        pairs = (self.pairs_i, self.pairs_j, self.shrink)
        off = 1 - self.k.sum(axis=0)
        self.share(
            kernels.factor_all, m,
            self.k, self.cost, self.b, self.residual, *rows, self.factor, self.inverse,
            self.ground_h, self.sigma, self.ground, self.right, self.whole, self.v, self.tau,
            self.trouble,
        )  # fmt: skip
        if self.trouble.any():
            return False
        matrix = np.empty((self.n, self.n))
        self.share(kernels.coupling, self.n, self.inverse, matrix)
        try:
            root = np.linalg.cholesky(np.tril(matrix) + np.tril(matrix, -1).T)
        except np.linalg.LinAlgError:
            return False

        def couple() -> Array:
            right = off - (self.k * (self.v + self.tau[:, None])).sum(axis=0)
            return np.asarray(cho_solve((root, True), right, check_finite=False))

        total = kernels.complementarity(
            self.count, self.slack, self.dual, self.d_slack, self.d_dual, 0.0, 0.0
        ).sum()
        mu = total / self.count.sum()
        self.share(
            kernels.direct_all, m,
            self.k, couple(), *rows, self.d_slack, self.d_dual, 0.0, False, *solved, self.u,
            self.primal, self.other, *pairs, self.active,
        )  # fmt: skip
        primal, other = _longest(self.primal, 1.0), _longest(self.other, 1.0)
        after = kernels.complementarity(
            self.count, self.slack, self.dual, self.d_slack, self.d_dual, primal, other
        ).sum()
        aim = mu * max(after / total, 1e-4) ** 3
        self.share(
            kernels.correct_all, m,
            self.k, self.residual, *rows, self.d_slack, self.d_dual, aim, self.factor,
            self.ground_h, self.sigma, self.ground, self.right, self.whole, self.v, self.tau,
        )  # fmt: skip
        db = couple()
        self.share(
            kernels.direct_all, m,
            self.k, db, *rows, self.d_slack, self.d_dual, aim, True, *solved, self.u,
            self.primal, self.other, *pairs, self.active,
        )  # fmt: skip
        primal, other = _longest(self.primal, _STEP), _longest(self.other, _STEP)
        if not (
            np.isfinite(primal + other) and np.isfinite(db).all() and np.isfinite(self.u).all()
        ):
            return False
        self.b = self.b + other * db
        self.share(
            kernels.advance_all, m,
            self.k, self.u, self.cost, primal, other, aim, _NEAR, *pairs, self.active,
            self.rows_i, self.rows_j, self.count, self.slack, self.dual, self.d_slack, self.d_dual,
            self.residual, self.reduced, self.b, self.order[self.used], self.shrink_of,
        )  # fmt: skip
        return True

    def share(self, kernel: Any, items: int, *arguments: Any) -> None:
        """Run a kernel over all items, on several threads where that is worth their start."""
        threads = min(self.threads, items)
        if threads < 2 or items * self.n**3 < _WORTH_THREADS:
            kernel(0, items, *arguments)
            return
        cuts = np.linspace(0, items, 4 * threads + 1).astype(int)
        jobs = [
            self.pool.submit(kernel, low, high, *arguments)
            for low, high in itertools.pairwise(cuts.tolist())
            if low < high
        ]
        for job in jobs:
            job.result()

    def price(self, tolerance: float) -> tuple[NDArray[np.int64], float]:
        """Price the outputs left out; return those not proved useless, and the bound over all."""
        from whereish.solvers.pricing import price_all

        out = np.setdiff1d(np.arange(self.m), self.used)
        if not len(out):
            return out, float(self.bound_x.sum())
        k = np.exp(-0.25 * self.reach[out])
        m, capacity = len(out), self.capacity
        rows_i, rows_j = np.zeros((m, capacity), np.int32), np.zeros((m, capacity), np.int32)
        slack, dual = np.ones((m, capacity)), np.ones((m, capacity))
        count, bound = np.zeros(m, np.int64), np.empty(m)
        reduced = np.empty((m, self.n))
        gain = self.all_cost[out] - self.bound_x
        weight = np.full(self.n, 1 / self.n)
        self.share(
            price_all, m,
            gain, k, weight, self.pairs_i, self.pairs_j, self.shrink, self.first, _NEAR,
            tolerance * self.loss, 60, rows_i, rows_j, count, slack, dual, reduced, bound,
            self.order[out], self.shrink_of,
        )  # fmt: skip
        low = np.minimum(self.bound_x, (reduced + self.bound_x).min(axis=0))
        return out[bound < -tolerance * self.loss], float(low.sum())

    def drop(self) -> None:
        """Merge the outputs that are dying into others: their blocks break down first.

        The sum of two private columns is a private column, so rows still sum to 1 and every
        iterate stays strictly private.
        """
        dying = (self.k.max(axis=1) < _DYING) & ~np.isin(self.used, self.kept)
        if not dying.any() or dying.all():
            return
        stay = np.flatnonzero(~dying)
        for z in np.flatnonzero(dying):
            into = stay[(self.cost[stay] @ self.k[z]).argmin()]
            self.add_to(int(into), self.k[z])
        for name in (
            "used", "k", "cost", "rows_i", "rows_j", "slack", "dual", "active", "count", "residual",
            "reduced",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name)[stay])
        self.scratch()

    def grow(self) -> None:
        """Make room for more rows where a block has filled its own: it could not go on."""
        if self.count.max() < self.capacity or self.capacity == len(self.pairs_i):
            return
        more = min(2 * self.capacity, len(self.pairs_i)) - self.capacity
        for name in ("rows_i", "rows_j", "slack", "dual"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
        self.capacity += more
        self.scratch()

    def add_to(self, z: int, more: Array) -> None:
        """Add a private column to that of a block. The multipliers y stay as they are."""
        old, rows = self.k[z].copy(), slice(0, self.count[z])
        self.k[z] += more
        k = self.k[z]
        i, j = self.rows_i[z, rows], self.rows_j[z, rows]
        gained = 1 - self.shrink_of[i, j] * more[i] / more[j]
        self.slack[z, rows] = (self.slack[z, rows] * old[j] + gained * more[j]) / k[j]
        self.dual[z, rows] *= k[j] / old[j]


def _longest(inverse: Array, share: float) -> float:
    return float(min(1.0, share / max(float(inverse.max()), 1e-300)))
