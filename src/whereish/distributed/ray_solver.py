"""A team on a Ray cluster: every machine holds some of the blocks of one solve.

A member that is lost is made again somewhere else: from what it was when all were last asked for
everything they hold, and from what it was asked since. As a member does the same for the same
questions, the solve goes on as if nothing had happened.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from whereish.distributed.cluster import check_cluster, join_cluster, machines_of
from whereish.errors import SolveError
from whereish.places import Array
from whereish.retries import RETRY
from whereish.solvers.structured.blocks import Program
from whereish.solvers.structured.communicator import Node, OpenTeam
from whereish.solvers.structured.partition import Share, Told
from whereish.solvers.structured.precompute import Ground

_EVERY = 10  # steps between two times that members are asked for everything they hold
_LOOK_S = 0.2


class Member:
    """What runs on a machine of the cluster."""

    def __init__(self, ground: Ground, prior: Array, span: Node, parts: int, threads: int) -> None:
        ground, prior = copy.deepcopy((ground, prior))  # see `_ours`
        self._program = Program(ground, prior, threads, ThreadPoolExecutor(threads))
        self._share = Share(self._program, *span, parts)

    def ready(self) -> None:
        """Be there."""

    def ask(self, what: str, *arguments: Any) -> Any:
        """Answer a question about its blocks."""
        with np.errstate(all="ignore"):
            return getattr(self._share, what)(*_ours(arguments))

    def redo(self, state: Any, asked: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Be what another was, and do again what it was asked since."""
        if state is not None:
            self._share.become(state)
        for what, arguments in asked:
            self.ask(what, *arguments)

    def halt(self) -> None:
        """Have the question under way answered at once, with nothing."""
        self._program.stop[0] = 1


@dataclass
class Moved:
    """What has crossed the network: questions asked, and bytes."""

    questions: int = 0
    sent: int = 0
    received: int = 0
    kept: int = 0  # received in case a member is lost
    rebuilt: int = 0  # members


class RayTeam:
    """One member on every machine of a cluster, each with all the cores of its machine."""

    def __init__(self, address: str, program: Program, parts: int) -> None:
        self._ray = join_cluster(address)
        wrong = self._ray.exceptions
        self._lost = (wrong.RayActorError, wrong.ObjectLostError, wrong.OutOfMemoryError)
        self._program, self._parts, self._halted = program, parts, False
        machines = machines_of(self._ray)[:parts]
        count = len(machines)
        if not count:
            raise SolveError(f"the cluster {address} has no machine with a core: add one")
        self.moved = Moved()
        self.spans: Sequence[Node] = [
            (parts * i // count, parts * (i + 1) // count) for i in range(count)
        ]
        # The prior does not go through Ray's store, which may end up on a disk.
        ground = copy.copy(program.ground)
        vars(ground).pop("tight", None)  # for the beginning, which is made here
        self._ground, self._prior = self._ray.put(ground), np.empty_like(program.prior)
        self._prior[program.ground.order] = program.prior
        self.moved.sent += count * _bytes(vars(ground))
        self._cores = [cores for _, cores in machines]
        self._members = [self._member(i, cores, name) for i, (name, cores) in enumerate(machines)]
        self._states: list[Any] = [None] * count
        self._asked: list[list[tuple[str, tuple[Any, ...]]]] = [[] for _ in machines]
        self._steps = 0
        self._deaths = [0] * count
        try:
            self._wait_for_room(address)
        except BaseException:
            self.close()
            raise

    def _wait_for_room(self, address: str) -> None:
        calls = [member.ready.remote() for member in self._members]
        end = time.monotonic() + RETRY.placing_s
        while len(self._ray.wait(calls, num_returns=len(calls), timeout=_LOOK_S)[0]) < len(calls):
            if self._program.stop[0]:
                raise KeyboardInterrupt
            check_cluster(self._ray)
            if time.monotonic() > end:
                raise SolveError(
                    f"the cluster {address} is busy: its {len(calls)} machines with "
                    f"{sum(self._cores)} cores were not all free within {RETRY.placing_s:.0f} s: "
                    "try again later"
                )

    def _member(self, i: int, cores: int, machine: str | None = None) -> Any:
        options: dict[str, Any] = {
            "num_cpus": cores, "max_restarts": 0, "concurrency_groups": {"halting": 1},
        }  # fmt: skip
        if machine is not None:
            strategies = self._ray.util.scheduling_strategies
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(
                machine, soft=True
            )
        actor = self._ray.remote(**options)(Member)
        return actor.remote(self._ground, self._prior, self.spans[i], self._parts, self._cores[i])

    @property
    def moved_bytes(self) -> int:
        """How much has crossed between machines."""
        return self.moved.sent + self.moved.received + self.moved.kept

    def ask(self, what: str, *arguments: Any) -> list[Any]:
        """Ask all members the same, and return their answers in order."""
        return self.ask_each(what, [arguments] * len(self._members))

    def ask_each(self, what: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask every member with arguments of its own."""
        if what == "factor":
            self._steps += 1
            if self._steps % _EVERY == 0:
                self._keep()
        answers = self._answers(what, arguments)
        self.moved.received += _bytes(answers)
        if what in Share.CHANGES:
            for asked, own in zip(self._asked, arguments, strict=True):
                asked.append((what, own))
        return answers

    def _keep(self) -> None:
        """Ask for everything they hold: what was asked before need not be remembered."""
        self._states = self._answers("state", [()] * len(self._members))
        self._asked = [[] for _ in self._members]
        self.moved.kept += _bytes(self._states)

    def _answers(self, what: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        ray = self._ray
        self.moved.questions += 1
        self.moved.sent += _bytes(arguments)
        try:
            calls = [
                member.ask.remote(what, *own)
                for member, own in zip(self._members, arguments, strict=True)
            ]
            with contextlib.suppress(ray.exceptions.GetTimeoutError, *self._lost):
                answers = ray.get(calls, timeout=_LOOK_S)
                self._deaths = [0] * len(calls)
                return [_ours(answer) for answer in answers]
            return [self._answer(i, call, what, arguments[i]) for i, call in enumerate(calls)]
        except (ray.exceptions.RaySystemError, OSError) as wrong:
            raise SolveError(
                f"the cluster is gone ({type(wrong).__name__}), and the solve with it"
            ) from None

    def _answer(self, i: int, call: Any, what: str, arguments: tuple[Any, ...]) -> Any:
        while True:
            try:
                self._wait(call)
                answer = _ours(self._ray.get(call))
                self._deaths[i] = 0
                return answer
            except self._lost:
                self._rebuild(i)
                call = self._members[i].ask.remote(what, *arguments)

    def _wait(self, call: Any, seconds: float = np.inf) -> bool:
        """Wait for an answer, and tell whether it is there; look after the cluster meanwhile."""
        end = time.monotonic() + seconds
        while not self._ray.wait([call], timeout=_LOOK_S)[0]:
            if self._program.stop[0] and not self._halted:
                self._halted = True
                for member in self._members:
                    member.halt.options(concurrency_group="halting").remote()
            check_cluster(self._ray)
            if time.monotonic() > end:
                return False
        return True

    def _rebuild(self, i: int) -> None:
        """Make a member that is lost again."""
        ray = self._ray
        self._deaths[i] += 1
        if self._deaths[i] >= RETRY.deaths:
            raise SolveError(
                f"a worker of the cluster died {RETRY.deaths} times over the same step: it may "
                "need more memory than its machine has"
            )
        self.moved.rebuilt += 1
        member = self._member(i, self._cores[i])
        if not self._wait(member.ready.remote(), RETRY.replacing_s):
            # No machine has so many cores left: somewhere it has to be.
            ray.kill(member)
            member = self._member(i, 0)
        self._members[i] = member
        self.moved.sent += _bytes(self._states[i]) + _bytes(self._asked[i])
        with contextlib.suppress(*self._lost):  # the next question tells
            again = member.redo.remote(self._states[i], self._asked[i])
            self._wait(again)
            ray.get(again)

    def close(self) -> None:
        """Let the members go."""
        # Ray would start another cluster to be asked this of one that it has left.
        for member in self._members if self._ray.is_initialized() else []:
            with contextlib.suppress(Exception):
                self._ray.kill(member)


def ray_team(address: str) -> OpenTeam:
    """Return a function that partitions the blocks of a solve over the machines of a cluster."""

    @contextlib.contextmanager
    def open_team(program: Program, parts: int) -> Iterator[RayTeam]:
        team = RayTeam(address, program, parts)
        try:
            yield team
        finally:
            team.close()

    return open_team


def _ours(what: Any) -> Any:
    """Copy the arrays in what Ray hands over: they are read-only, for which nothing is compiled."""
    if isinstance(what, np.ndarray):
        return what.copy()
    if isinstance(what, dict):
        return {name: _ours(value) for name, value in what.items()}
    if isinstance(what, Told):
        return Told(*map(_ours, what))
    if isinstance(what, tuple | list):
        return type(what)(map(_ours, what))
    return what


def _bytes(what: Any) -> int:
    """Return about how many bytes it is on the way."""
    if isinstance(what, np.ndarray):
        return int(what.nbytes)
    if isinstance(what, dict):
        return sum(_bytes(one) for one in what.values())
    if isinstance(what, tuple | list):
        return sum(_bytes(one) for one in what)
    return 0 if what is None else 8
