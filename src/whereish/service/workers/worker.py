"""A worker: one process that solves one recipe, with a memory limit and a time limit."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from whereish.service.error_body import describe_error

_LONGEST_LINE = 1 << 16
_LARGEST_FILE = 4 * 2**30
_POLL_S, _NOTE_S = 0.25, 5.0
_LOADING_S = 60.0  # loading takes a second or two, and much longer on a machine that is busy
_log = logging.getLogger("whereish.queue")


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt: a file, or an error, or neither if the worker died."""

    file: bytes | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    was_ready: bool = True  # when it died; if it was not ready for work, no recipe is at fault


class Worker(ABC):
    """Solves one recipe, on this machine or on a cluster. It loads the solver when it starts."""

    def __init__(self) -> None:
        self._messages: queue.Queue[Outcome | dict[str, Any]] = queue.Queue()
        self.is_ready = False

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether it can take a recipe, or works on one."""

    @property
    def patience_s(self) -> float:
        """Seconds of waiting after which the job says what it waits for."""
        return _NOTE_S

    @property
    def waits_for(self) -> str | None:
        """What it waits for before it can start. The time limit does not run until then."""
        return None

    @abstractmethod
    def kill(self) -> None:
        """End it at once, with every process that it has started."""

    @abstractmethod
    def _submit(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        """Send it its recipe."""

    @abstractmethod
    def _close(self) -> None:
        """End it and free what it holds."""

    def solve(
        self,
        recipe: bytes,
        memory_gb: float,
        time_limit_s: float,
        on_progress: Callable[[dict[str, Any]], object],
        is_wanted: Callable[[], bool],
    ) -> Outcome:
        """Send the recipe and wait for the outcome. The worker has ended when this returns."""
        submitted = started = time.monotonic()
        try:
            self._submit(recipe, memory_gb, time_limit_s)
            while True:
                try:
                    message = self._messages.get(timeout=_POLL_S)
                except queue.Empty:
                    message = {}
                if isinstance(message, Outcome):
                    return message
                now = time.monotonic()
                waits_for = self.waits_for
                # Waiting for a core and loading do not count against the time limit.
                if waits_for is not None or (not self.is_ready and now < submitted + _LOADING_S):
                    started = now
                if message:
                    on_progress(message)
                elif waits_for is not None and now > submitted + self.patience_s:
                    on_progress({"note": waits_for})
                if not is_wanted():
                    return Outcome(error=describe_error("cancelled", ""))
                if now > started + time_limit_s:
                    text = (
                        f"it took longer than the {time_limit_s:g} s that this service allows: "
                        "set time_limit_s to get the best mechanism found in that time"
                    )
                    return Outcome(error=describe_error("time", text, "time_limit_s"))
        except BrokenPipeError:
            return Outcome(was_ready=self.is_ready)
        finally:
            self._close()

    def handle(self, message: dict[str, Any], read: Callable[[int], bytes]) -> None:
        """Handle a message of the process. A message of the wrong form raises an error."""
        if "ready" in message:
            self.is_ready = True
        elif "broken" in message:
            _log.error("a worker cannot start: %s", message["broken"])
        elif "progress" in message:
            self._messages.put(message["progress"])
        elif "error" in message:
            self._messages.put(Outcome(error=message["error"]))
        elif "file" in message and 0 < message["file"] <= _LARGEST_FILE:
            file = read(message["file"])
            if len(file) == message["file"]:
                self._messages.put(Outcome(file, message["result"]))


class MessageProcess(subprocess.Popen[bytes]):
    """A process of this package that reads and writes messages: lines of JSON, some with bytes."""

    def __init__(self, module: str) -> None:
        # Other libraries get one thread for each solve: the solver divides the cores itself.
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment = os.environ | threads
        for private in ("WHEREISH_SECRET", "WHEREISH_DATABASE"):
            environment.pop(private, None)
        super().__init__(
            [sys.executable, "-m", module], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            # A separate session: its own processes end with it, and Ctrl-C reaches the server only.
            start_new_session=True,
        )  # fmt: skip
        self.input, self.output = cast(IO[bytes], self.stdin), cast(IO[bytes], self.stdout)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield its messages until it ends."""
        while line := self.output.readline(_LONGEST_LINE):
            yield json.loads(line)

    def kill(self) -> None:
        """End it at once, with every process that it has started."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


class LocalWorker(Worker):
    """A worker process of this machine."""

    def __init__(self) -> None:
        super().__init__()
        self._process = MessageProcess("whereish.service.workers.process")
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def _submit(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        order = {"length": len(recipe), "memory_gb": memory_gb}
        self._process.input.write(json.dumps(order).encode() + b"\n" + recipe)
        self._process.input.flush()

    def _close(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.input, self._process.output):
            with contextlib.suppress(OSError):
                pipe.close()

    def _read(self) -> None:
        """Read messages until the process ends. A message of the wrong form counts as its death."""
        with contextlib.suppress(ValueError, OSError, KeyError, TypeError):
            for message in self._process.messages():
                self.handle(message, self._process.output.read)
        self._messages.put(Outcome(was_ready=self.is_ready))
