"""One solve on the machines of a Ray cluster: SPMD with an all-reduce.

Every machine runs a member: the same driver of the compiled core, on its share of the blocks. The
members communicate by all-reduces only, over authenticated TCP connections to this process, which
adds up the sums in the order that the core fixes (`reduce_members`). So the result is the local
one, to the last bit. Ray supplies the processes and says when one is lost; the prior, the states
and the result do not go through its object store, which may end up on a disk.

A lost member is replaced, and all members resume from the last checkpoint that is complete.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish import interrupts
from whereish.distributed.cluster import check_cluster, join_cluster, machines_of
from whereish.distributed.ray_member import (
    CHECKPOINT,
    PROGRESS,
    REDUCE,
    RESULT,
    MemberProcess,
    Task,
)
from whereish.errors import SolveError
from whereish.places import Array
from whereish.retries import RETRY
from whereish.solvers.structured import (
    Progress,
    Share,
    Structured,
    assembled,
    reduce_members,
    solve_on,
)
from whereish.solvers.structured_program import Program

_LOOK_S = 0.2


@dataclass
class Moved:
    """What has crossed the network, in bytes, and how often."""

    reduces: int = 0
    sums: int = 0
    checkpoints: int = 0
    rebuilt: int = 0  # members

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.sums + self.checkpoints


@dataclass
class _Attempt:
    """The state of the group from its start, or its last restart, to the end or the next loss."""

    connections: dict[Connection[Any, Any], int]
    calls: list[Any]
    shares: dict[int, Share] = field(default_factory=dict)
    waiting: dict[int, tuple[int, int, Array]] = field(default_factory=dict)
    states: dict[int, dict[int, bytes]] = field(default_factory=dict)


class _Group:
    """The members of one solve, one on each machine, and the all-reduce between them."""

    def __init__(self, address: str, program: Program, parts: int) -> None:
        self._ray = join_cluster(address)
        machines = machines_of(self._ray)[:parts]
        if not machines:
            raise SolveError(f"the cluster {address} has no machine with a core: add one")
        self._program, self._parts, self._key = program, parts, os.urandom(32)
        self._lost = (
            self._ray.exceptions.RayActorError,
            self._ray.exceptions.ObjectLostError,
            self._ray.exceptions.OutOfMemoryError,
        )
        self._cores = [cores for _, cores in machines]
        self.moved, self.stopped = Moved(), False
        self._states: list[bytes | None] = [None] * len(machines)
        self._iteration, self._deaths = -1, 0
        self._placed = self._ray.put(program)
        self._actors = [self._start(cores, name) for name, cores in machines]
        self._wait_for_room(address)

    def _start(self, cores: int, machine: str | None = None) -> Any:
        options: dict[str, Any] = {"num_cpus": cores, "max_restarts": 0}
        if machine is not None:
            strategies = self._ray.util.scheduling_strategies
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(
                machine, soft=True
            )
        actor = self._ray.remote(**options)(MemberProcess)
        return actor.remote(self._placed, max(cores, 1), self._key)

    def _wait_for_room(self, address: str) -> None:
        calls = [actor.ready.remote() for actor in self._actors]
        end = time.monotonic() + RETRY.placing_s
        while len(self._ray.wait(calls, num_returns=len(calls), timeout=_LOOK_S)[0]) < len(calls):
            if self.stopped:
                raise KeyboardInterrupt
            check_cluster(self._ray)
            if time.monotonic() > end:
                raise SolveError(
                    f"the cluster {address} is busy: its {len(calls)} machines with "
                    f"{sum(self._cores)} cores were not all free within {RETRY.placing_s:.0f} s: "
                    "try again later"
                )

    def solve(
        self,
        prior: Array,
        tolerance: float,
        time_limit_s: float | None,
        progress: Callable[[Progress], object] | None,
        stop: NDArray[np.uint8] | None,
    ) -> list[Share]:
        """Return what each member found."""
        end = None if time_limit_s is None else time.monotonic() + time_limit_s
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                attempt = self._begin(prior, tolerance, left, progress is not None)
                return self._serve(attempt, progress, stop)
            except (*self._lost, EOFError, OSError):
                self._replace_lost()
            except self._ray.exceptions.RaySystemError as wrong:
                raise SolveError(
                    f"the cluster is gone ({type(wrong).__name__}), and the solve with it"
                ) from None

    def _begin(
        self, prior: Array, tolerance: float, left: float | None, tells_progress: bool
    ) -> _Attempt:
        ready = self._ray.get([actor.ready.remote() for actor in self._actors])
        check_instruction_sets([name for _, name in ready])
        addresses = [address for address, _ in ready]
        calls = [actor.solve.remote() for actor in self._actors]
        attempt = _Attempt({}, calls)
        try:
            for number, (address, state) in enumerate(zip(addresses, self._states, strict=True)):
                connection = Client(tuple(address), authkey=self._key)
                attempt.connections[connection] = number
                connection.send(
                    Task(
                        prior, tolerance, left, number, len(addresses), self._parts,
                        tells_progress, state,
                    )
                )  # fmt: skip
                self.moved.checkpoints += len(state or b"")
        except BaseException:
            _close(attempt)
            raise
        return attempt

    def _serve(
        self,
        attempt: _Attempt,
        progress: Callable[[Progress], object] | None,
        stop: NDArray[np.uint8] | None,
    ) -> list[Share]:
        """Answer the members until all have ended."""
        looked = time.monotonic()
        try:
            while len(attempt.shares) < len(self._actors):
                for connection in wait(list(attempt.connections), timeout=_LOOK_S):
                    self._receive(attempt, connection, progress)
                self.stopped |= stop is not None and bool(stop[0])
                if time.monotonic() > looked + 1.0:
                    looked = time.monotonic()
                    done, _ = self._ray.wait(
                        attempt.calls, num_returns=len(attempt.calls), timeout=0
                    )
                    self._ray.get(done)  # raises if a member is lost
                    check_cluster(self._ray)
            return [attempt.shares[number] for number in range(len(self._actors))]
        finally:
            _close(attempt)

    def _receive(self, attempt: _Attempt, connection: Any, progress: Any) -> None:
        number = attempt.connections[connection]
        message = connection.recv_bytes()
        kind, content = message[:1], memoryview(message)[1:]
        if kind == REDUCE:
            sums, maxima = np.frombuffer(content[:16], np.int64)
            data = np.frombuffer(content[16:], np.uint8).copy().view(np.float64)
            attempt.waiting[number] = int(sums), int(maxima), data
            self.moved.sums += len(message)
            if len(attempt.waiting) == len(self._actors):
                self._answer(attempt)
        elif kind == CHECKPOINT:
            iteration = int.from_bytes(content[:8], "little")
            states = attempt.states.setdefault(iteration, {})
            states[number] = bytes(content[8:])
            self.moved.checkpoints += len(message)
            if len(states) == len(self._actors):
                self._states = [states[number] for number in range(len(self._actors))]
                if iteration > self._iteration:
                    self._iteration, self._deaths = iteration, 0
                attempt.states = {i: kept for i, kept in attempt.states.items() if i > iteration}
        elif kind == PROGRESS:
            now = connection.recv()
            if progress is not None and progress(now) is False:
                self.stopped = True
        elif kind == RESULT:
            attempt.shares[number] = connection.recv()
            del attempt.connections[connection]
            connection.close()

    def _answer(self, attempt: _Attempt) -> None:
        """Send the result of an all-reduce to all members, and whether to stop."""
        waiting = [attempt.waiting[number] for number in range(len(self._actors))]
        attempt.waiting.clear()
        sums, maxima, _ = waiting[0]
        if {each[:2] for each in waiting} != {(sums, maxima)}:
            raise SolveError("the members of the group do not solve the same program")
        reduced = reduce_members(self._parts, [data for _, _, data in waiting], sums, maxima)
        answer = self.stopped.to_bytes(8, "little") + reduced.tobytes()
        self.moved.reduces += 1
        for connection in attempt.connections:
            connection.send_bytes(answer)
            self.moved.sums += len(answer)

    def _replace_lost(self) -> None:
        """Replace the members that do not answer. The others wait for a task already."""
        self._deaths += 1
        if self._deaths >= RETRY.deaths:
            raise SolveError(
                f"a worker of the cluster died {RETRY.deaths} times over the same step: it may "
                "need more memory than its machine has"
            )
        for number, actor in enumerate(self._actors):
            try:
                self._wait_for(actor.ready.remote(), np.inf)
            except self._lost:
                self.moved.rebuilt += 1
                self._actors[number] = self._replacement(self._cores[number])

    def _replacement(self, cores: int) -> Any:
        actor = self._start(cores)
        if not self._wait_for(actor.ready.remote(), RETRY.replacing_s):
            # No machine has so many cores left: somewhere it has to be.
            self._ray.kill(actor)
            actor = self._start(0)
        return actor

    def _wait_for(self, call: Any, seconds: float) -> bool:
        """Wait for a call, and tell whether it has ended; look after the cluster meanwhile."""
        end = time.monotonic() + seconds
        while not self._ray.wait([call], timeout=_LOOK_S)[0]:
            check_cluster(self._ray)
            if time.monotonic() > end:
                return False
        self._ray.get(call)
        return True

    def close(self) -> None:
        """End the members."""
        # Ray would start another cluster to be asked this of one that it has left.
        for actor in self._actors if self._ray.is_initialized() else []:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)


def _close(attempt: _Attempt) -> None:
    for connection in attempt.connections:
        with contextlib.suppress(OSError):
            connection.close()


def solve_on_cluster(
    address: str,
    program: Program,
    prior: Array,
    tolerance: float,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    stop: NDArray[np.uint8] | None = None,
) -> Structured:
    """Do what `solve_on` does, on all machines of a cluster. The result is the same.

    A program that is too small to be shared is solved here.
    """
    parts = program.parts(prior)
    if parts == 1:
        return solve_on(program, prior, tolerance, time_limit_s, progress, None, stop)
    group = _Group(address, program, parts)
    try:
        with _stoppable(group):
            shares = group.solve(prior, tolerance, time_limit_s, progress, stop)
    finally:
        group.close()
    return assembled(program, shares, group.moved.bytes)


def check_instruction_sets(names: Sequence[str]) -> None:
    """Raise SolveError unless all members compute with the same instructions.

    Each member factors the Schur complement by itself. With other instructions the last digits
    differ, and the members would drift apart.
    """
    different = sorted(set(names))
    if len(different) > 1:
        advice = "use machines of one kind"
        if all(name.startswith("x86-64-") for name in different):
            advice = f"start Ray on all of them with WHEREISH_ISA={different[0][len('x86-64-') :]}"
        raise SolveError(
            "the machines of the cluster must use the same instruction set, and use "
            f"{' and '.join(different)}: {advice}"
        )


@contextlib.contextmanager
def _stoppable(group: _Group) -> Iterator[None]:
    """Let the first Ctrl-C end the solve with the best so far, where that is ours to decide."""
    if not interrupts.is_ours():
        yield
        return

    def first(number: int, frame: Any) -> None:
        group.stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
