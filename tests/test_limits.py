"""Time and memory limits: what is announced, and the result of an interrupted search."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from typer.testing import CliRunner

import checks
import strategies as some
import whereish as wh
from effort import examples
from whereish.cli import app
from whereish.deadline import Deadline, OutOfTimeError
from whereish.mechanisms import plan as planning
from whereish.mechanisms import search
from whereish.programs import spanner_of
from whereish.service.jobs.queue import Queue
from whereish.service.limits import Limits
from whereish.service.settings import Settings
from whereish.service.workers import process as worker
from whereish.solvers import Program, Progress, Structured, estimates, solve_on
from whereish.spec import BuildSpec

GRID, PRIOR = some.grid(6, 5), some.skewed(30)
XY = [[0, 0], [1, 0], [2, 0], [0, 3]]
CERTAIN = [1.0, 0.0, 0.0, 0.0]


class TestNothingToLose:
    """A search that is stopped before its first step, where the closed form loses nothing."""

    def test_library(self) -> None:
        built = wh.optimal(wh.Places.from_xy(XY), CERTAIN, 1.07, time_limit_s=0.001)
        assert wh.quality_loss(built, CERTAIN) == pytest.approx(0.0, abs=1e-9)
        assert built.build.gap is None or 0 <= built.build.gap <= 1

    def test_command_line(self, tmp_path: Path) -> None:
        lines = [f"{x},{y},{p}" for (x, y), p in zip(XY, CERTAIN, strict=True)]
        file = tmp_path / "me.csv"
        file.write_text("\n".join(["x_km,y_km,prior", *lines]))
        words = ["build", file, "--epsilon", "1.07", "--time-limit", "0.001", "--json"]
        ran = CliRunner().invoke(app, [str(word) for word in [*words, "-o", tmp_path / "k"]])
        assert ran.exit_code == 0, ran.output
        assert json.loads(ran.stdout)["quality_loss_km"] == pytest.approx(0.0, abs=1e-9)

    def test_service(self) -> None:
        recipe = {
            "places": {"xy_km": XY}, "prior": CERTAIN, "epsilon_per_km": 1.07,
            "time_limit_s": 0.001,
        }  # fmt: skip
        file, result = worker.solve(json.dumps(recipe).encode(), 8.0, lambda *told: None)
        assert file
        assert result["loss_km"] == pytest.approx(0.0, abs=1e-9)

    @examples(30)
    @given(some.places(2, 9), st.floats(0.05, 20.0), st.data())
    def test_any_prior(self, places: wh.Places, epsilon: float, data: st.DataObject) -> None:
        """All in one place, most at nothing, and losses that are all zero."""
        n = len(places)
        prior = np.zeros(n)
        some_ = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2, unique=True))
        prior[some_] = 1 / len(some_)
        quality: Any = data.draw(st.sampled_from([None, np.zeros((n, n))]))
        options: dict[str, Any] = {"quality_metric": quality, "time_limit_s": 1e-6}
        built = wh.optimal(places, prior, epsilon, **options)
        assert checks.broken_ratios(built.matrix.tolist(), epsilon, places.xy.tolist()) == []
        gap = built.build.gap
        assert gap is None or 0 <= gap <= 1
        told = wh.how_far(wh.exponential(places, epsilon), prior, quality)
        assert told.build.gap is not None
        assert 0 <= told.build.gap <= 1


class Clock:
    """A clock that goes on when somebody says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


class TestTime:
    """Every phase counts, and what must come after the search has its time."""

    def test_the_search_gets_what_the_pairs_have_left(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock, limits = Clock(), []
        monkeypatch.setattr("whereish.deadline.time", clock)

        def slow(*told: Any) -> Any:
            clock.now += 8.0
            return spanner_of(*told)

        def solve_on(ground: Any, prior: Any, tolerance: float, limit: float, *more: Any) -> Any:
            limits.append(limit)
            raise OutOfTimeError("seen enough")

        monkeypatch.setattr(search, "spanner_of", slow)
        monkeypatch.setattr(search, "solve_on", solve_on)
        wh.optimal(GRID, PRIOR, 1.07, time_limit_s=10.0)
        after = planning.plan("exact", 30, 30, 435, 10.0, 8.0).after_s
        assert 0 < after < 1
        assert limits[0] == pytest.approx(2.0 - after, abs=1e-9)

    def test_a_spanner_that_takes_too_long_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(OutOfTimeError, match="spanner"):
            spanner_of(wh.euclidean(GRID), 1.0, Deadline(-1.0))
        clock = Clock()
        monkeypatch.setattr("whereish.deadline.time", clock)

        def slow(*told: Any) -> Any:
            clock.now += 11.0
            return spanner_of(*told)

        monkeypatch.setattr(search, "spanner_of", slow)
        built = wh.optimal(GRID, PRIOR, 1.07, time_limit_s=10.0)
        closed = wh.closed_form(GRID, PRIOR, 1.07)
        assert (built.matrix == closed.matrix).all()
        assert (built.build.stopped, built.build.gap) == ("time", 1.0)
        assert "the time allowed was up while the spanner" in built.build.notes[-1]
        with pytest.raises(wh.SolveError, match="time allowed was up"):
            wh.optimal(GRID, PRIOR, 1.07, solver="highs-ipm", time_limit_s=10.0)

    def test_the_limit_ends_the_solve_and_the_rest_is_done(self) -> None:
        """It is up in the middle of a descent: what came by then is private, and has a bound."""
        began = time.monotonic()

        def slow(now: Progress) -> None:
            while now.iteration == 4 and time.monotonic() < began + 3.0:
                threading.Event().wait(0.01)

        built = wh.optimal(GRID, PRIOR, 1.07, solver="structured", time_limit_s=2.5, progress=slow)
        assert built.build.stopped == "time"
        assert built.build.gap is not None
        assert 1e-6 < built.build.gap < 1
        assert checks.broken_ratios(built.matrix.tolist(), 1.07, GRID.xy.tolist()) == []

    @pytest.mark.parametrize("n", [250, 500, 1000, 2000, 5000])
    def test_closed_forms_are_estimated(self, n: int) -> None:
        """Within a factor of six of what was measured: 1 s, 1.5 s, 5 s, 21 s with all outputs."""
        made = planning.plan("closed-form", n, n, n * (n - 1) // 2, None, 8.0)
        seen = {250: 0.5, 500: 1.5, 1000: 6.0, 2000: 22.0, 5000: 150.0}[n]
        assert seen / 6 <= made.seconds <= seen * 6
        assert n * n * 8 * 5 / 1e9 <= made.memory_gb <= n * n * 8 * 40 / 1e9
        limited = planning.plan("exact", n, 24, n * 24, 1.0, 1e6)
        assert limited.seconds >= limited.after_s > 0

    def test_a_service_waits_for_what_comes_after_the_search(self, tmp_path: Path) -> None:
        """Its limit ends a solve that hangs, not one that is being checked."""
        queue = object.__new__(Queue)
        queue._settings = Settings(tmp_path, limits=Limits(time_limit_s=900.0))
        for n, outputs in ((20, None), (2000, 24), (2000, None)):
            recipe = {
                "places": {"xy_km": np.random.default_rng(0).uniform(0, 50, (n, 2)).tolist()},
                "prior": [1 / n] * n, "epsilon_per_km": 1.07, "time_limit_s": 5.0,
                "outputs": None if outputs is None else list(range(outputs)),
                "dilation": 1.5,
            }  # fmt: skip
            made = BuildSpec.from_document(recipe).plan(1e6)
            assert queue._seconds(json.dumps(recipe).encode()) > 5.0 + 2 * made.after_s + 20


def program() -> Program:
    distances = wh.euclidean(GRID)
    spanner = wh.greedy_spanner(distances, 1.0)
    return Program(distances, spanner.edges, 1.07 * spanner.lengths, 1.07 * distances)


# Tells when it is in the middle of a solve, and goes on when it is told to.
_INTERRUPTED = """
import signal, sys
import numpy as np
import strategies as some
from test_limits import PRIOR, program
from whereish.solvers import solve_on

def wait(now):
    if now.iteration == 5:
        print("there", flush=True)
        sys.stdin.readline()

if sys.argv[1] == "ours":
    signal.signal(signal.SIGINT, lambda number, frame: print("heard", flush=True))
found = solve_on(program(), PRIOR, progress=wait, threads=2)
print(found.stopped, found.iterations, found.matrix.shape, found.gap > 1e-6)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("python's again")
"""


class TestStopping:
    """What ends a solve of the compiled core: the result is the best so far."""

    def check(self, found: Structured, stopped: str, iterations: int) -> None:
        assert (found.stopped, found.iterations) == (stopped, iterations)
        assert found.gap > 1e-6
        assert found.loss > found.bound >= 0
        assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-9
        pairs = wh.greedy_spanner(wh.euclidean(GRID), 1.0)
        for (a, b), length in zip(pairs.edges, pairs.lengths, strict=True):
            for x, y in ((a, b), (b, a)):
                limit = np.exp(1.07 * length) * found.matrix[y] * (1 + 1e-12)
                assert (found.matrix[x] <= limit).all()

    def test_a_callback_that_says_so(self) -> None:
        found = solve_on(program(), PRIOR, progress=lambda now: now.iteration < 6)
        self.check(found, "asked", 6)

    def test_only_false_ends_it(self) -> None:
        def told(result: object) -> Callable[[Progress], object]:
            return lambda now: result

        for result in (None, True, 0, "", 1):
            found = solve_on(program(), PRIOR, 0.1, progress=told(result))
            assert found.stopped == "solved", result

    def test_a_callback_that_fails(self) -> None:
        def fail(now: Progress) -> None:
            if now.iteration == 3:
                raise LookupError("no such thing")

        with pytest.raises(LookupError, match="no such thing"):
            solve_on(program(), PRIOR, progress=fail)

    def test_another_thread(self) -> None:
        stop = np.zeros(1, np.uint8)

        def ask() -> None:
            stop[0] = 1

        def start(now: Progress) -> None:
            if now.iteration == 5:
                other = threading.Thread(target=ask)
                other.start()
                other.join()

        self.check(solve_on(program(), PRIOR, progress=start, stop=stop), "asked", 5)

    def test_a_flag_that_is_set_already(self) -> None:
        found = solve_on(program(), PRIOR, stop=np.ones(1, np.uint8))
        self.check(found, "asked", 0)

    def test_a_time_limit(self) -> None:
        began = time.monotonic()

        def slow(now: Progress) -> None:
            while now.iteration == 5 and time.monotonic() < began + 1.2:
                threading.Event().wait(0.01)

        found = solve_on(program(), PRIOR, time_limit_s=1.0, progress=slow)
        self.check(found, "time", 5)
        for limit in (0.0, -1.0, 1e-300):
            self.check(solve_on(program(), PRIOR, time_limit_s=limit), "time", 0)

    @pytest.mark.heavy
    @pytest.mark.parametrize("whose", ["default", "ours"])
    def test_ctrl_c(self, whose: str) -> None:
        """The first is the solver's, and the next is Python's, unless the program has its own."""
        folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        with subprocess.Popen(
            [sys.executable, "-c", _INTERRUPTED, whose], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": folders},
        ) as child:  # fmt: skip
            try:
                assert child.stdout is not None
                assert child.stdin is not None
                assert child.stdout.readline() == "there\n"
                child.send_signal(signal.SIGINT)
                if whose == "ours":
                    assert child.stdout.readline() == "heard\n"
                out, _ = child.communicate("\n")
            finally:
                child.kill()
        assert child.returncode == 0
        if whose == "ours":
            assert out.startswith("solved ")
            assert out.endswith("heard\n")
        else:
            assert out == "asked 5 (30, 30) True\npython's again\n"


class TestMemory:
    """What a dilation saves is not taken for granted."""

    n, epsilon = 400, 1.07
    places = some.grid(20, 20)
    prior = np.full(400, 1 / 400)

    def test_a_dilation_next_to_one_saves_nothing(self) -> None:
        needed = planning.plan("exact", self.n, self.n, self.n * 399 // 2, None, 1e6).memory_gb
        sparse = planning.plan("exact", self.n, self.n, self.n * 16, None, 1e6).memory_gb
        limit = 0.5 * (needed + sparse)
        for dilation in (1.0, 1.0 + 1e-15, 1.0000001, 1.00001):
            with pytest.raises(wh.SolveError, match="GB is allowed"):
                wh.optimal(self.places, self.prior, self.epsilon, dilation, memory_limit_gb=limit)
        recipe = {
            "places": {"xy_km": self.places.xy.tolist()}, "prior": self.prior.tolist(),
            "epsilon_per_km": 1.07, "dilation": 1.0000001,
        }  # fmt: skip
        with pytest.raises(wh.InputError, match="memory"):
            BuildSpec.from_document(recipe).plan(limit)
        assert BuildSpec.from_document(recipe | {"dilation": 1.1}).plan(limit)

    @pytest.mark.parametrize("dilation", [1.001, 1.01, 1.05, 1.1, 1.5, 2.0])
    @pytest.mark.parametrize("kind", ["grid", "circle", "line", "clusters", "uniform"])
    def test_the_expected_pairs_are_enough(self, dilation: float, kind: str) -> None:
        rng, n = np.random.default_rng(1), 150
        turn = np.linspace(0, 2 * np.pi, n, endpoint=False)
        xy = {
            "grid": some.grid(15, 10).xy,
            "circle": np.column_stack([np.cos(turn), np.sin(turn)]) * 5,
            "line": np.column_stack([np.arange(n), np.zeros(n)]),
            "clusters": rng.normal(0, 0.2, (n, 2)) + 3 * rng.integers(0, 4, (n, 2)),
            "uniform": rng.uniform(0, 9, (n, 2)),
        }[kind]
        spanner = wh.greedy_spanner(wh.euclidean(wh.Places.from_xy(xy)), dilation)
        assert len(spanner.edges) <= estimates.expected_edges(n, dilation, straight=True)

    def test_other_metrics_may_need_all_pairs(self) -> None:
        assert estimates.expected_edges(50, 1.9, straight=False) == 50 * 49 // 2

    def test_what_the_pairs_turn_out_to_need_is_checked_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Should there be more of them than expected: before anything is solved."""
        n, m = 30, 30
        few = planning.plan("exact", n, m, 30, None, 1e6).memory_gb
        building = importlib.import_module("whereish.mechanisms.optimal")
        monkeypatch.setattr(building, "expected_edges", lambda *told, straight: 30)
        monkeypatch.setattr(search, "solve_on", lambda *told: pytest.fail("it was solved"))
        with pytest.raises(wh.SolveError, match="GB is allowed"):
            wh.optimal(GRID, PRIOR, 1.07, memory_limit_gb=few)
        built = wh.optimal(GRID, PRIOR, 1.07, method="auto", memory_limit_gb=few)
        assert "GB is allowed" in built.build.notes[-1]
