"""Solves in processes of their own: warm before they are needed, limited, and stoppable."""

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

from whereish.parallel import cores

LONGEST_LINE = 1 << 16
_LARGEST_FILE = 4 * 2**30
_LOOK_S, _NOTE_S, _WARMING_S = 0.25, 5.0, 600.0
COMPILING = "the solver is being compiled, once: about a minute"
_log = logging.getLogger("whereish.queue")
_COLD_DEATHS = 2


@dataclass(frozen=True)
class Outcome:
    """What came of a solve: a file, or an error, or neither when the process died."""

    file: bytes | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    was_warm: bool = True


class AnyWorker(ABC):
    """What a worker is, here or afar: it takes one recipe, and warms up until it is given it."""

    def __init__(self) -> None:
        self._news: queue.Queue[Outcome | dict[str, Any]] = queue.Queue()
        self.is_warm = False

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether it can be given a recipe, or works on one."""

    @property
    def patience_s(self) -> float:
        """How long a wait is before it is told."""
        return _NOTE_S

    @property
    def waits_for(self) -> str | None:
        """What it has to wait for before it can begin. Until then its time stands still."""
        return None

    @abstractmethod
    def kill(self) -> None:
        """End it now, whatever it does, and whatever it has started."""

    @abstractmethod
    def _give(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        """Hand it its recipe."""

    @abstractmethod
    def _end(self) -> None:
        """Be done with it."""

    def solve(
        self,
        recipe: bytes,
        memory_gb: float,
        time_limit_s: float,
        progress: Callable[[dict[str, Any]], object],
        wanted: Callable[[], bool],
    ) -> Outcome:
        """Give it its recipe and wait for what comes of it. It is gone when this returns."""
        asked = begun = time.monotonic()
        try:
            self._give(recipe, memory_gb, time_limit_s)
            while True:
                try:
                    news = self._news.get(timeout=_LOOK_S)
                except queue.Empty:
                    news = {}
                if isinstance(news, Outcome):
                    return news
                now = time.monotonic()
                waits_for = self.waits_for
                # The clock of the solve starts when its process does: compiling is not its own.
                if waits_for is not None or (not self.is_warm and now < asked + _WARMING_S):
                    begun = now
                if news:
                    progress(news)
                elif waits_for is not None and now > asked + self.patience_s:
                    progress({"note": waits_for})
                elif not self.is_warm and now > asked + _NOTE_S:
                    progress({"note": COMPILING})
                if not wanted():
                    return Outcome(error={"code": "cancelled", "message": "", "field": None})
                if now > begun + time_limit_s:
                    message = (
                        f"it took longer than the {time_limit_s:g} s that this service allows: "
                        "give a time_limit_s, and the best so far is what you get"
                    )
                    return Outcome(
                        error={"code": "time", "message": message, "field": "time_limit_s"}
                    )
        except BrokenPipeError:
            return Outcome(was_warm=self.is_warm)
        finally:
            self._end()

    def hear(self, said: dict[str, Any], read: Callable[[int], bytes]) -> None:
        """Take in a line of what it says; what makes no sense raises."""
        if "ready" in said:
            self.is_warm = True
        elif "broken" in said:
            _log.error("a worker cannot start: %s", said["broken"])
        elif "progress" in said:
            self._news.put(said["progress"])
        elif "error" in said:
            self._news.put(Outcome(error=said["error"]))
        elif "file" in said and 0 < said["file"] <= _LARGEST_FILE:
            file = read(said["file"])
            if len(file) == said["file"]:
                self._news.put(Outcome(file, said["result"]))


def environment() -> dict[str, str]:
    """Return the environment of a process that solves: without what is the server's alone."""
    # One thread a solve for mathematics that brings its own: ours are counted by cores.
    found = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found.pop("WHEREISH_SECRET", None)
    found.pop("WHEREISH_DATABASE", None)
    return found


class Worker(AnyWorker):
    """One process of this machine for one recipe."""

    def __init__(self, cache: Path | None = None) -> None:
        super().__init__()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "whereish.service.workers.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment() | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}),
            # A group of its own: what a solver starts ends with it, and Ctrl-C is the server's.
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it now, whatever it does, and whatever it has started."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _give(self, recipe: bytes, memory_gb: float, time_limit_s: float) -> None:
        order = {"length": len(recipe), "memory_gb": memory_gb}
        stdin = self._process.stdin
        if stdin is not None:
            stdin.write(json.dumps(order).encode() + b"\n" + recipe)
            stdin.flush()

    def _end(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        """Read its lines until there are no more; what makes no sense is its death."""
        try:
            stdout = self._process.stdout
            while stdout is not None and (line := stdout.readline(LONGEST_LINE)):
                self.hear(json.loads(line), stdout.read)
        except (ValueError, OSError, KeyError, TypeError):
            pass
        self._news.put(Outcome(was_warm=self.is_warm))


def _can_compile() -> bool:
    """Tell whether compiled code can be kept where it is by default."""
    told = os.environ.get("NUMBA_CACHE_DIR")
    home = Path.home() / ".cache"
    beside = Path(__file__).parents[2] / "solvers" / "structured"
    places = [Path(told)] if told else [beside, home if home.is_dir() else home.parent]
    return any(os.access(place, os.W_OK) for place in places)


class Workers:
    """As many workers as may solve at a time, and one that is warm before it is needed."""

    def __init__(self, folder: Path) -> None:
        self._cache = None if _can_compile() else folder / "compiled"
        self._cold_deaths = 0
        self._lock = threading.Lock()
        self._spare: AnyWorker | None = None
        self._busy: set[AnyWorker] = set()
        self.stopping = False

    def start(self) -> int:
        """Begin; return how many may solve at a time when nothing else is said."""
        return cores()

    def _new(self) -> AnyWorker:
        return Worker(self._cache)

    def warm(self) -> None:
        """Start a worker ahead of time."""
        with self._lock:
            spare = self._spare
            if spare is not None:
                if spare.is_warm:
                    self._cold_deaths = 0
                elif not spare.is_alive:
                    self._cold_deaths += 1
            if not self.stopping and (spare is None or not spare.is_alive):
                self._spare = self._new()

    @property
    def work(self) -> bool:
        """Whether workers can be started: not if one after the other dies before it is warm."""
        return self._cold_deaths < _COLD_DEATHS

    def take(self) -> AnyWorker:
        """Return a worker; the next one begins to warm up."""
        with self._lock:
            worker = self._spare
            self._spare = None
        if worker is None or not worker.is_alive:
            worker = self._new()
        self.warm()
        with self._lock:
            self._busy.add(worker)
        return worker

    def give_back(self, worker: AnyWorker) -> None:
        """Say that a worker is done with."""
        with self._lock:
            self._busy.discard(worker)
            if worker.is_warm:
                self._cold_deaths = 0

    def stop(self) -> None:
        """End them all. Their jobs stay as they are, to be taken up again."""
        self.stopping = True
        with self._lock:
            for worker in (*self._busy, *([self._spare] if self._spare else [])):
                worker.kill()
