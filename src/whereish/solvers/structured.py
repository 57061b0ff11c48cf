"""The structured solver: an interior-point method that uses the block structure of the program.

The method is in the compiled core (``core/driver.c`` is the whole of it). The constraint matrix is
the same for every output, and only n rows couple the outputs. So a Newton step is one n x n
factorisation for each output and one n x n system between them, the Schur complement. Only outputs
that carry probability are in the program (pricing proves the others useless), and only pairs that
come near their limit are constrained.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish import interrupts
from whereish.compiled import (
    AllReduceCallback,
    CheckpointCallback,
    Options,
    ProgressCallback,
    Result,
    Status,
    Stopped,
    address,
    library,
)
from whereish.compiled import Progress as CoreProgress
from whereish.errors import SolveError
from whereish.limits import TOLERANCE
from whereish.parallel import cores
from whereish.places import Array
from whereish.solvers.structured_program import REFUSED, Program, check

STOPPED = {
    Stopped.SOLVED: "solved",
    Stopped.TIME: "time",
    Stopped.STOPPED: "asked",
    Stopped.NUMERICS: "numerics",
}


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


@dataclass(frozen=True)
class Member:
    """One process of a group that solves a program together (SPMD).

    Attributes
    ----------
    number, members
        Which one it is, from 0, of how many.
    parts
        Leaves of the tree of sums: `Program.parts`, or 16 for a program that is too small to be
        worth sharing.
    all_reduce
        Called with a buffer, the number of sums and of maxima. It replaces the numbers in the
        buffer as `reduce_members` does for the buffers of all members.
    checkpoint
        Called with the state of the member, every ``every`` iterations, and the iteration.
    resume
        A state to continue from.
    """

    number: int
    members: int
    parts: int
    all_reduce: Callable[[Array, int, int], None]
    checkpoint: Callable[[bytes, int], None] | None = None
    every: int = 25
    resume: bytes | None = None


@dataclass(frozen=True, eq=False)
class Share:
    """What one member of a group found: some columns, and the multipliers that it holds."""

    outputs: NDArray[np.int32]
    columns: Array
    multipliers: Multipliers
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
    tolerance: float = TOLERANCE,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    threads: int | None = None,
) -> Structured:
    """Find the private mechanism with the least loss.

    Being stopped is no error: a time limit, or Ctrl-C, ends it with the best mechanism so far.
    (A second Ctrl-C is an interrupt like any other.)

    Parameters
    ----------
    prior
        (n,).
    loss, edges, exponents, reach
        See `Program`.
    tolerance
        The relative gap at which to stop.
    progress
        Called at every iteration; the solve ends if it returns False.
    threads
        As many as there are cores, if not given. The result does not depend on it.
    """
    program = Program(loss, edges, exponents, reach)
    return solve_on(program, prior, tolerance, time_limit_s, progress, threads)


def solve_on(
    program: Program,
    prior: Array,
    tolerance: float = TOLERANCE,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    threads: int | None = None,
    stop: NDArray[np.uint8] | None = None,
) -> Structured:
    """Do what `solve_structured` does for a program that is prepared.

    Another thread ends it by setting ``stop[0]`` to 1.
    """
    share = solve_share(program, prior, tolerance, time_limit_s, progress, threads, stop)
    return assembled(program, [share])


def assembled(program: Program, shares: Sequence[Share], moved_bytes: int = 0) -> Structured:
    """Put together what the members of a group found."""
    matrix = np.zeros((program.n, program.m))
    for share in shares:
        matrix[:, share.outputs] = share.columns.T
    first = shares[0]
    multipliers = first.multipliers
    if len(shares) > 1:
        each = zip(*(vars(share.multipliers).values() for share in shares), strict=True)
        multipliers = Multipliers(*map(np.concatenate, each))
    return Structured(
        matrix,
        first.loss,
        first.bound,
        first.gap,
        multipliers,
        first.iterations,
        max(share.seconds for share in shares),
        first.stopped,
        len(shares),
        moved_bytes,
    )


def solve_share(
    program: Program,
    prior: Array,
    tolerance: float,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    threads: int | None = None,
    stop: NDArray[np.uint8] | None = None,
    member: Member | None = None,
) -> Share:
    """Solve as one member of a group; without one, alone.

    An exception of a callback ends the solve, and is raised again here.
    """
    core, wrong = library(), []

    def guarded(function: Callable[..., int]) -> Callable[..., int]:
        def call(context: Any, *arguments: Any) -> int:
            try:
                return function(*arguments)
            except BaseException as error:
                wrong.append(error)
                return 1

        return call

    weights = np.ascontiguousarray(prior, np.float64)
    if weights.shape != (program.n,):
        raise SolveError(f"the structured solver cannot begin: {REFUSED[Status.BAD_SIZE]}")
    options = Options(
        tolerance=tolerance,
        time_limit_s=math.inf if time_limit_s is None else max(time_limit_s, 0.0),
        threads=threads or cores(),
        catch_interrupt=interrupts.is_ours(),
        stop=None if stop is None else address(stop, np.uint8),
        members=1,
    )
    if progress is not None:
        tell = progress

        def on_progress(at: Any) -> int:
            now: CoreProgress = at.contents
            return (
                tell(Progress(now.iteration, now.loss, now.bound, now.gap, now.outputs, now.rows))
                is False
            )

        options.progress = ProgressCallback(guarded(on_progress))
    resume = _join(options, member, guarded) if member else None
    result = ctypes.POINTER(Result)()
    status = core.wi_solve(
        program.handle, address(weights, np.float64), ctypes.byref(options), ctypes.byref(result)
    )
    del resume
    try:
        if wrong:
            raise wrong[0]
        check(status)
        return _share(program, result.contents)
    finally:
        core.wi_result_free(result)


def _join(options: Options, member: Member, guarded: Any) -> Any:
    """Fill in the options of a member; return what must live until the solve has ended."""
    leaves = library().wi_leaves(member.parts, member.members, member.number)

    def on_all_reduce(data: Any, sums: int, maxima: int) -> int:
        member.all_reduce(_array(data, leaves * sums + maxima), sums, maxima)
        return 0

    options.members, options.member = member.members, member.number
    options.parts = member.parts
    options.all_reduce = AllReduceCallback(guarded(on_all_reduce))
    if member.checkpoint is not None:
        keep = member.checkpoint

        def on_checkpoint(state: Any, count: int, iteration: int) -> int:
            keep(ctypes.string_at(state, count), iteration)
            return 0

        options.checkpoint = CheckpointCallback(guarded(on_checkpoint))
        options.checkpoint_every = member.every
    if member.resume is None:
        return None
    state = ctypes.create_string_buffer(member.resume, len(member.resume))
    options.resume, options.resume_bytes = ctypes.addressof(state), len(member.resume)
    return state


def reduce_members(parts: int, buffers: Sequence[Array], sums: int, maxima: int) -> Array:
    """Return what an all-reduce of these buffers gives: sums as a binary tree, then maxima.

    The tree is over the parts, so the sums do not depend on the number of members.
    """
    held = [np.ascontiguousarray(buffer, np.float64) for buffer in buffers]
    for number, buffer in enumerate(held):
        leaves = library().wi_leaves(parts, len(held), number)
        if buffer.shape != (leaves * sums + maxima,):
            raise SolveError("the members of the group do not solve the same program")
    data = (ctypes.c_void_p * len(held))(*(address(buffer, np.float64) for buffer in held))
    reduced = np.empty(sums + maxima)
    check(library().wi_reduce(parts, len(held), data, sums, maxima, address(reduced, np.float64)))
    return reduced


def multipliers_of(result: Result) -> Multipliers:
    """Return a copy of the multipliers of a result of the core."""
    fields = (result.row_output, result.row_left, result.row_right, result.row_value)
    return Multipliers(*(_array(each, result.multipliers).copy() for each in fields))


def _share(program: Program, result: Result) -> Share:
    columns = result.columns
    return Share(
        _array(result.output, columns).copy(),
        _array(result.column, columns * program.n).reshape(columns, program.n).copy(),
        multipliers_of(result),
        result.loss,
        result.bound,
        result.gap,
        result.iterations,
        result.seconds,
        STOPPED[Stopped(result.stopped)],
    )


def _array(pointer: Any, count: int) -> NDArray[Any]:
    """Return the numbers at an address, without a copy."""
    if count == 0:
        return np.empty(0, pointer._type_)
    return np.ctypeslib.as_array(pointer, (count,))
