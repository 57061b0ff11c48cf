"""A member of a solve on a Ray cluster: what runs on one machine, and the messages it sends.

See `ray_solver` for the group of members and for what goes over the connections.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from multiprocessing.connection import Listener
from typing import Any

import numpy as np

from whereish.compiled import instruction_set
from whereish.places import Array
from whereish.solvers.structured import Member, Progress, solve_share
from whereish.solvers.structured_program import Program

_EVERY = 25  # iterations between two checkpoints
REDUCE, CHECKPOINT, PROGRESS, RESULT = b"r", b"c", b"p", b"f"


@dataclass(frozen=True)
class Task:
    """What a member solves; sent over its connection."""

    prior: Array
    tolerance: float
    time_limit_s: float | None
    number: int
    members: int
    parts: int
    tells_progress: bool
    resume: bytes | None


class MemberProcess:
    """What runs on a machine of the cluster."""

    def __init__(self, program: Program, threads: int, key: bytes) -> None:
        import ray

        host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._program, self._threads = program, threads
        self._listener = Listener((host, 0), authkey=key)

    def ready(self) -> tuple[Any, str]:
        """Return the address at which the member waits for its task, and its instruction set."""
        return self._listener.address, instruction_set()

    def solve(self) -> None:
        """Wait for a task, solve it as a member and send the result."""
        with self._listener.accept() as connection:
            task: Task = connection.recv()
            stop = np.zeros(1, np.uint8)

            def all_reduce(data: Array, sums: int, maxima: int) -> None:
                head = np.array([sums, maxima], np.int64).tobytes()
                connection.send_bytes(REDUCE + head + data.tobytes())
                answer = connection.recv_bytes()
                stop[0] |= answer[0]
                data[: sums + maxima] = np.frombuffer(answer, np.float64, offset=8)

            def checkpoint(state: bytes, iteration: int) -> None:
                connection.send_bytes(CHECKPOINT + iteration.to_bytes(8, "little") + state)

            def progress(now: Progress) -> None:
                if task.number == 0:
                    connection.send_bytes(PROGRESS)
                    connection.send(now)

            member = Member(
                task.number, task.members, task.parts, all_reduce, checkpoint, _EVERY, task.resume
            )
            # A connection that breaks means that the group has given this attempt up.
            with contextlib.suppress(OSError, EOFError):
                share = solve_share(
                    self._program,
                    task.prior,
                    task.tolerance,
                    task.time_limit_s,
                    progress if task.tells_progress else None,
                    self._threads,
                    stop,
                    member,
                )
                connection.send_bytes(RESULT)
                connection.send(share)
