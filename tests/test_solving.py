"""One worker process for one recipe: its outcome, its limits, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import whereish as wh
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
    steps = [far["iteration"] for far in seen]
    assert steps
    assert steps == sorted(steps)


def test_a_worker_has_loaded_what_it_needs() -> None:
    """A recipe does not wait for an import: none of the packages is loaded by its solve."""
    points = [[48 + 0.01 * (place % 6), 2 + 0.013 * (place // 6)] for place in range(30)]
    document = recipe(30) | {"places": {"latlon": points}}
    code = """
import json, sys
from whereish.service.workers.process import load, solve
load()
packages = lambda: {name.partition(".")[0] for name in sys.modules}
before = packages()
file, result = solve(sys.stdin.buffer.read(), 8.0, lambda *message: None)
print(json.dumps([result["solver"], sorted(packages() - before)]))
"""
    body = json.dumps(document).encode()
    done = subprocess.run([sys.executable, "-c", code], input=body, capture_output=True, check=True)
    solver, late = json.loads(done.stdout)
    assert solver == "structured"
    assert [name for name in late if not name.startswith("_")] == []


def test_a_read_only_package_and_home_are_enough(tmp_path: Path) -> None:
    """Nothing is written beside the package, in the home folder or in a temporary one."""
    copy, home = tmp_path / "site", tmp_path / "home"
    skipped = shutil.ignore_patterns("__pycache__", "vendor")
    shutil.copytree(Path(wh.__file__).parent, copy / "whereish", ignore=skipped)
    home.mkdir()
    before = sorted(tmp_path.rglob("*"))
    for folder, _, files in os.walk(tmp_path):
        for each in (folder, *(os.path.join(folder, name) for name in files)):
            os.chmod(each, 0o555)
    code = """
import json, sys
import whereish
from whereish.service.workers.worker import LocalWorker
outcome = LocalWorker().solve(
    sys.stdin.buffer.read(), 8.0, 120.0, lambda progress: None, lambda: True
)
print(json.dumps([whereish.__file__, outcome.file is not None, outcome.error]))
"""
    # Root may write anywhere, so what is there afterwards is compared too.
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home),
    }  # fmt: skip
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=home, check=True,
            input=json.dumps(recipe(40)).encode(), capture_output=True,
        )  # fmt: skip
        assert sorted(tmp_path.rglob("*")) == before
    finally:
        for folder, _, _ in os.walk(tmp_path):
            os.chmod(folder, 0o755)
    where, has_file, error = json.loads(done.stdout)
    assert Path(where).is_relative_to(copy)
    assert (has_file, error) == (True, None)


@pytest.mark.thorough
def test_one_that_takes_too_long_is_ended() -> None:
    """A solver that hands over nothing early: only the limit ends it."""
    outcome = solve(recipe(120, solver="highs-ipm"), time_limit_s=6)
    assert outcome.error is not None
    assert outcome.error["code"] == "time"


@pytest.mark.thorough
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
    cold = Outcome(was_ready=False)
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
