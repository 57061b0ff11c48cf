"""The structured solver: an interior-point method that uses the block structure of the program.

The constraint matrix is the same for every output, and only n rows couple the outputs. So a Newton
step is one n x n factorisation per output and one n x n system between them. Three things make
it fast: only outputs that carry probability are in the program (the others are proved useless
by pricing), only pairs that come near their limit are constrained (they join while the method
runs, without a restart), and everything is kept relative to the iterate (see
`whereish.solvers.structured.kernels`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whereish.parallel import cores
from whereish.places import Array

if TYPE_CHECKING:
    from whereish.solvers.structured.blocks import Program
    from whereish.solvers.structured.communicator import OpenTeam, Team
    from whereish.solvers.structured.partition import Rows
    from whereish.solvers.structured.precompute import Ground
    from whereish.solvers.structured.step import Iterate

# Gaps at which outputs left out are priced on the way: one found late costs more of the way.
_STAGE, _STAGES, _MANY = (1e-2,), (3e-2, 1e-3), 100
_ROUNDS = 30
_FEW = 12  # so few outputs are all taken
_ITERATIONS = 300
# How long it takes to compile, once: half a minute on a machine that has nothing else to do.
COMPILING_S = 60.0


@dataclass(frozen=True)
class Progress:
    """Where the solver is: loss so far, a bound no mechanism can beat, their relative gap.

    The loss is that of a mechanism which is private on all pairs. The bound is over the outputs
    in use; outputs left out are priced later.
    """

    iteration: int
    loss: float
    bound: float
    gap: float
    outputs: int
    rows: int


@dataclass(frozen=True, eq=False)
class Multipliers:
    """A proof of a lower bound: a y >= 0 for some rows k(right, z) >= exp(-eps d) k(left, z).

    With A'y the sum over the rows of output z, + y at right and - y exp(-eps d) at left, no private
    mechanism loses less than the sum over x of the least prior(x) loss(x, z) - (A'y)(x, z) over z.
    """

    output: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array


@dataclass(frozen=True, eq=False)
class Structured:
    """What the structured solver found.

    Attributes
    ----------
    matrix
        (n, m) probabilities, inside all pairs given up to rounding: who uses it repairs and
        checks it.
    loss, bound, gap
        Its loss, a lower bound on the loss of every private mechanism, and (loss - bound) / loss.
    multipliers
        What proves the bound, by weak duality alone: it does not depend on how exact the iterate
        is.
    stopped
        Why it ended: "solved", "time", "asked" (Ctrl-C, or the callback said so) or "numerics".
    machines, moved_bytes
        How many machines held the blocks, and what crossed between them.
    """

    matrix: Array
    loss: float
    bound: float
    gap: float
    multipliers: Multipliers
    iterations: int
    seconds: float
    stopped: str
    machines: int = 1
    moved_bytes: int = 0


def solve_structured(
    prior: Array,
    loss: Array,
    edges: NDArray[np.int64],
    exponents: Array,
    reach: Array,
    tolerance: float = 1e-6,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    threads: int | None = None,
) -> Structured:
    """Find the private mechanism with the least loss.

    Being stopped is no error: a time limit, or Ctrl-C, ends it with the best mechanism so far.
    (A second Ctrl-C is an interrupt like any other.)

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
    progress
        Called at every iteration; the solve ends if it returns False.
    threads
        As many as there are cores, if not given. The result does not depend on it.
    """
    start = time.perf_counter()
    ground = prepare(loss, edges, exponents, reach)
    return solve_on(ground, prior, tolerance, time_limit_s, progress, threads, start)


def prepare(loss: Array, edges: NDArray[np.int64], exponents: Array, reach: Array) -> Ground:
    """Work out what solves for different priors have in common."""
    from whereish.solvers.structured.precompute import Ground

    return Ground(loss, edges, exponents, reach)


def solve_on(
    ground: Ground,
    prior: Array,
    tolerance: float = 1e-6,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    threads: int | None = None,
    start: float | None = None,
    stop: NDArray[np.uint8] | None = None,
    open_team: OpenTeam | None = None,
) -> Structured:
    """Do what `solve_structured` does where everything but the prior is worked out already.

    Another thread ends it by setting ``stop[0]`` to 1. ``open_team`` partitions the blocks over
    several processes, see `whereish.distributed.ray_solver`; by default this process has them all.
    """
    from whereish.solvers.structured.blocks import Program, parts_of
    from whereish.solvers.structured.step import Iterate
    from whereish.solvers.structured.warm_start import likely_outputs

    start = time.perf_counter() if start is None else start
    count = threads or cores()
    # Numbers that break down end the solve, see `step`.
    with np.errstate(all="ignore"), ThreadPoolExecutor(count) as pool:
        program = Program(ground, prior, count, pool, stop)
        with _stoppable(program):
            if program.m <= _FEW:
                seeds = np.arange(program.m)
            else:
                seeds = likely_outputs(program.prior, ground.loss, ground.tight)
            parts = parts_of(program.n, len(seeds))
            open_ = _local_team if open_team is None or parts == 1 else open_team
            with open_(program, parts) as team:
                at = Iterate(program, seeds, team, parts)
                solve = _Solve(program, at, start, time_limit_s, progress)
                with _ended_at(solve.deadline, program):
                    return solve.to(tolerance)


@contextmanager
def _local_team(program: Program, parts: int) -> Iterator[Team]:
    """Keep all blocks in this process."""
    from whereish.solvers.structured.communicator import Alone
    from whereish.solvers.structured.partition import Share

    yield Alone(Share(program, 0, parts, parts))


@contextmanager
def _ended_at(deadline: float, program: Program) -> Iterator[None]:
    """Set the stop flag at the deadline: the step under way ends with the block it is at."""
    if deadline == np.inf:
        yield
        return

    def end() -> None:
        program.stop[0] = 1

    timer = threading.Timer(max(0.0, deadline - time.perf_counter()), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _stoppable(program: Program) -> Iterator[None]:
    """Let the first Ctrl-C set the stop flag, where that is ours to decide."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def first(number: int, frame: Any) -> None:
        program.stop[0] = 1
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Solve:
    """Descend, price the outputs left out, take in those that pay, until the gap is closed."""

    def __init__(
        self,
        program: Program,
        at: Iterate,
        start: float,
        time_limit_s: float | None,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self.program, self.at, self.progress = program, at, progress
        self.start = start
        self.deadline = np.inf if time_limit_s is None else start + time_limit_s
        self.iterations = 0
        self.loss, self.bound = np.inf, 0.0
        self.multipliers = _gather([])
        self.note()

    def to(self, tolerance: float) -> Structured:
        on_the_way = _STAGES if self.program.n >= _MANY else _STAGE
        stages = [stage for stage in on_the_way if stage > 3 * tolerance]
        target = stages.pop(0) if stages else 0.5 * tolerance
        snapshot, stopped = None, "solved"
        for _ in range(_ROUNDS):
            stopped = self.descend(target)
            solved = stopped == "solved"
            final = target <= tolerance or not solved
            paying = self.price(0.1 * min(target, 1e-2), solved, final)
            if not solved or self.loss - self.bound <= tolerance * self.loss:
                break
            if len(paying):
                if snapshot is not None:
                    self.at.restore(snapshot)
                self.at.kept |= set(paying.tolist())
                fresh = ~np.isin(paying, self.at.used)
                self.at.add(paying[fresh])
                snapshot = self.at.snapshot()
            elif target <= 0.03 * tolerance:
                break
            elif target > tolerance:
                snapshot = self.at.snapshot()
                target = stages.pop(0) if stages else 0.5 * tolerance
            else:
                target *= 0.3
        matrix = np.zeros((self.program.n, self.program.m))
        order = self.program.ground.order
        outputs, columns = self.at.found()
        matrix[np.ix_(order, outputs)] = columns.T
        y = self.multipliers
        proof = Multipliers(y.output, order[y.left], order[y.right], y.value)
        gap = (self.loss - self.bound) / self.loss if self.loss > 0 else 0.0
        return Structured(
            matrix,
            self.loss,
            self.bound,
            gap,
            proof,
            self.iterations,
            time.perf_counter() - self.start,
            "solved" if gap <= tolerance else "numerics" if stopped == "solved" else stopped,
            len(self.at.team.spans),
            self.at.team.moved_bytes,
        )

    def descend(self, target: float) -> str:
        """Newton steps until the gap over the outputs in use is below the target."""
        at, best = self.at, -np.inf
        for _ in range(_ITERATIONS):
            best = max(best, float(at.reduced.sum()))
            loss = at.loss
            if self.progress is not None or loss - best <= target * loss:
                loss = self.note()
            gap = (loss - best) / loss if loss > 0 else 0.0
            if self.progress is not None:
                told = Progress(self.iterations, loss, best, gap, len(at.used), at.rows)
                if self.progress(told) is False:
                    self.program.stop[0] = 1
            if gap <= target:
                return "solved"
            if time.perf_counter() > self.deadline:
                return "time"
            if self.program.stop[0]:
                return "asked"
            if not at.step():
                return self.why()
            self.iterations += 1
            at.drop()
            at.grow()
        return "numerics"

    def why(self) -> str:
        """Say why a step came to nothing."""
        if not self.program.stop[0]:
            return "numerics"
        return "time" if time.perf_counter() >= self.deadline else "asked"

    def note(self) -> float:
        """Keep the private mechanism of now if it is the best so far; return its loss."""
        loss, share = self.at.private()
        if loss < self.loss:
            self.loss = loss
            self.at.keep(share)
        return loss

    def price(self, tolerance: float, thorough: bool, final: bool) -> NDArray[np.int64]:
        """Bound the loss over all outputs; return those left out that would pay."""
        at = self.at
        self.note()
        out: NDArray[np.int64] = np.setdiff1d(np.arange(self.program.m), at.used)
        final = final or not len(out)
        bound, proved = at.multipliers(final)
        low, paying = bound, out
        if len(out):
            enough = tolerance * self.loss
            each = enough / self.program.n
            left, low, rows = at.prove(out, bound, each, thorough, final)
            proved += rows
            paying = out[left > each] if thorough else out[:0]
        if len(paying):
            gains, lower, rows = at.price(paying, bound, enough, final)
            low = np.minimum(low, lower)
            proved += rows
            paying = paying[gains < -enough]
        if final:
            self.keep(float(low.sum()), proved)
        return paying

    def keep(self, bound: float, proved: list[Rows]) -> None:
        """Keep a bound and what proves it, if it is the best so far."""
        found = _gather(proved)
        if bound > self.bound and np.isfinite(found.value).all():
            self.bound, self.multipliers = bound, found


def _gather(proved: list[Rows]) -> Multipliers:
    nothing = (np.empty(0, np.int32),) * 3 + (np.empty(0),)
    return Multipliers(*map(np.concatenate, zip(nothing, *proved, strict=True)))


def is_compiled() -> bool:
    """Tell whether the solver can begin at once: it was used before, here or by another process."""
    from whereish.solvers.structured import passes, pricing

    functions: tuple[Any, ...] = (passes.factor_all, passes.advance_all, pricing.prove_all)
    try:
        return all(
            function.signatures or function._cache._cache_file._load_index()
            for function in functions
        )
    except (AttributeError, OSError):
        return False
