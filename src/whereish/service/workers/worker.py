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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whereish.service.error_body import describe_error

LONGEST_LINE = 1 << 16
_LARGEST_FILE = 4 * 2**30
_POLL_S, _NOTE_S, _WARMING_S = 0.25, 5.0, 600.0
COMPILING = "the solver is being compiled, once: about a minute"
_log = logging.getLogger("whereish.queue")


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt: a file, or an error, or neither if the worker died.

    Attributes
    ----------
    was_warm
        Whether the worker was ready for work when it died. If not, no recipe is at fault.
    """

    file: bytes | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    was_warm: bool = True


class Worker(ABC):
    """Solves one recipe, on this machine or on a cluster. It loads the solver when it starts."""

    def __init__(self) -> None:
        self._messages: queue.Queue[Outcome | dict[str, Any]] = queue.Queue()
        self.is_warm = False

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
                # Waiting for a core and compiling do not count against the time limit.
                if waits_for is not None or (not self.is_warm and now < submitted + _WARMING_S):
                    started = now
                if message:
                    on_progress(message)
                elif waits_for is not None and now > submitted + self.patience_s:
                    on_progress({"note": waits_for})
                elif not self.is_warm and now > submitted + _NOTE_S:
                    on_progress({"note": COMPILING})
                if not is_wanted():
                    return Outcome(error=describe_error("cancelled", ""))
                if now > started + time_limit_s:
                    text = (
                        f"it took longer than the {time_limit_s:g} s that this service allows: "
                        "set time_limit_s to get the best mechanism found in that time"
                    )
                    return Outcome(error=describe_error("time", text, "time_limit_s"))
        except BrokenPipeError:
            return Outcome(was_warm=self.is_warm)
        finally:
            self._close()

    def handle(self, message: dict[str, Any], read: Callable[[int], bytes]) -> None:
        """Handle a message of the process. A message of the wrong form raises an error."""
        if "ready" in message:
            self.is_warm = True
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


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker process: without the server's secret and database."""
    # Other libraries get one thread for each solve: the solver divides the cores itself.
    found = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found.pop("WHEREISH_SECRET", None)
    found.pop("WHEREISH_DATABASE", None)
    return found


class LocalWorker(Worker):
    """A worker process of this machine."""

    def __init__(self, cache: Path | None = None) -> None:
        super().__init__()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "whereish.service.workers.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=worker_environment() | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}),
            # A separate session: processes of a solver end with it, and Ctrl-C reaches the server
            # only.
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, with every process that it has started."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _submit(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        order = {"length": len(recipe), "memory_gb": memory_gb}
        stdin = self._process.stdin
        if stdin is not None:
            stdin.write(json.dumps(order).encode() + b"\n" + recipe)
            stdin.flush()

    def _close(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        """Read messages until the process ends. A message of the wrong form counts as its death."""
        try:
            stdout = self._process.stdout
            while stdout is not None and (line := stdout.readline(LONGEST_LINE)):
                self.handle(json.loads(line), stdout.read)
        except (ValueError, OSError, KeyError, TypeError):
            pass
        self._messages.put(Outcome(was_warm=self.is_warm))
