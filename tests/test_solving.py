"""One worker process for one recipe: its outcome, its limits, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any

import pytest

from serving import recipe
from whereish.format import audit_bytes
from whereish.service.workers.worker import LocalWorker, Outcome

pytestmark = pytest.mark.heavy


def solve(
    document: dict[str, Any], memory_gb: float = 8.0, time_limit_s: float = 120.0, **more: Any
) -> Outcome:
    asked = {"on_progress": lambda progress: None, "is_wanted": lambda: True} | more
    return LocalWorker().solve(json.dumps(document).encode(), memory_gb, time_limit_s, **asked)


def test_what_comes_of_it_is_certified() -> None:
    seen: list[dict[str, Any]] = []
    outcome = solve(recipe(60), on_progress=seen.append)
    assert outcome.file is not None
    assert audit_bytes(outcome.file)["certified"]
    assert outcome.result is not None
    assert outcome.result["gap"] <= 1e-6
    steps = [far["iteration"] for far in seen if "note" not in far]  # a note: it is not warm yet
    assert steps == sorted(steps)


def test_one_that_takes_too_long_is_ended() -> None:
    """A solver that hands over nothing early: only the limit ends it."""
    outcome = solve(recipe(120, solver="highs-ipm"), time_limit_s=6)
    assert outcome.error is not None
    assert outcome.error["code"] == "time"


def test_one_that_takes_too_much_memory_is_ended() -> None:
    outcome = solve(recipe(130, solver="highs-ipm"), memory_gb=1e-3)
    if outcome.error is None:  # ended by the operating system: the server tries again, then parks
        assert outcome == Outcome()
    else:
        assert outcome.error["code"] in ("memory", "not_solved"), outcome.error


def test_one_that_is_not_wanted_is_ended() -> None:
    asked = 0

    def wanted() -> bool:
        nonlocal asked
        asked += 1
        return asked < 12

    outcome = solve(recipe(500), is_wanted=wanted)
    assert outcome.error is not None
    assert outcome.error["code"] == "cancelled"


def test_one_that_dies_is_neither_a_file_nor_an_error() -> None:
    worker = LocalWorker()
    pid = worker._process.pid
    body = json.dumps(recipe(500)).encode()

    def die(far: dict[str, Any]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    assert worker.solve(body, 8.0, 600, die, lambda: True) == Outcome()
    assert not worker.is_alive


def test_one_that_is_dead_before_it_is_asked() -> None:
    worker = LocalWorker()
    worker.kill()
    worker._process.wait()
    body = json.dumps(recipe(500)).encode()
    cold = Outcome(was_warm=False)
    assert worker.solve(body, 8.0, 60, lambda far: None, lambda: True) == cold


@pytest.mark.parametrize(
    ("document", "code", "field"),
    [
        (recipe(3, privacy_metric={"matrix": [[0, 1, 9], [1, 0, 1], [9, 1, 0]]}), "invalid",
         "privacy_metric"),
        (recipe(4, privacy_metric={"edges": [[0, 1, 1.5], [2, 3, 1.5]]}), "invalid",
         "privacy_metric.edges"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_says_why(document: Any, code: str, field: str) -> None:
    outcome = solve(document)
    assert outcome.error is not None
    assert (outcome.error["code"], outcome.error["field"]) == (code, field)
    assert "1.5" not in outcome.error["message"]
    assert "9" not in outcome.error["message"]
