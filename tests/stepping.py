"""Run the command line so that it halts at a step of its own, until it is told to go on.

A test that kills or interrupts a process in the middle of something must know that it is in the
middle. Waiting for some seconds does not tell: a fast machine is done by then, a busy one has not
begun. Here the process itself says that it has made the n-th call of a function, and waits.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Halted:
    """A command that halts once, at the n-th call of a function."""

    def __init__(self, process: subprocess.Popen[str], reached: int, go_on: int) -> None:
        self.process, self._reached, self._go_on = process, reached, go_on

    def wait(self) -> None:
        """Return when it has halted; fail if it ended before."""
        if not os.read(self._reached, 1):
            raise AssertionError(f"it never got there: {self.process.communicate()}")

    def resume(self) -> None:
        """Let it go on."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go_on, b"x")


@contextmanager
def halting(function: str, call: int, *words: str, **more: Any) -> Iterator[Halted]:
    """Start ``whereish WORDS``, to halt at the n-th call of a function named MODULE:NAME.

    The rest goes to `subprocess.Popen`. Whatever happens, the process has ended at the end.
    """
    reached, tell = os.pipe()
    hear, go_on = os.pipe()
    command = [sys.executable, __file__, function, str(call), str(tell), str(hear), *words]
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            pass_fds=(tell, hear), **more,
        ) as process:  # fmt: skip
            os.close(tell)
            os.close(hear)
            try:
                yield Halted(process, reached, go_on)
            finally:
                process.kill()
    finally:
        os.close(reached)
        os.close(go_on)


def _halt_at(function: str, call: int, tell: int, hear: int) -> None:
    """Replace a function by one that does the same, and halts before its n-th call."""
    module, _, path = function.partition(":")
    owner: Any = importlib.import_module(module)
    *owners, name = path.split(".")
    for one in owners:
        owner = getattr(owner, one)
    original, calls = getattr(owner, name), 0

    def halting_once(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os.write(tell, b"x")
            os.close(tell)
            os.read(hear, 1)
        return original(*args, **kwargs)

    setattr(owner, name, halting_once)


if __name__ == "__main__":
    function, call, tell, hear, *words = sys.argv[1:]
    _halt_at(function, int(call), int(tell), int(hear))
    from whereish.cli import main

    sys.argv = ["whereish", *words]
    main()
