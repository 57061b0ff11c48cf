"""Time and memory limits: what is announced, and the result of an interrupted search."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from typer.testing import CliRunner
from whereish.solvers.structured.step import Iterate

import checks
import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.deadline import Deadline, OutOfTimeError
from whereish.mechanisms import plan as planning
from whereish.mechanisms import search
from whereish.programs import spanner_of
from whereish.service.jobs.queue import Queue
from whereish.service.limits import Limits
from whereish.service.settings import Settings
from whereish.service.workers import process as worker
from whereish.solvers import estimates
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

    @settings(max_examples=30, deadline=None)
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

    def test_a_step_that_never_ends_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The flag that ends a step half-way is set when the time is up, not after the step."""
        seen = []

        def step(self: Iterate) -> bool:
            while not self.program.stop[0]:
                threading.Event().wait(0.01)
            seen.append(True)
            return False

        monkeypatch.setattr(Iterate, "step", step)
        built = wh.optimal(GRID, PRIOR, 1.07, time_limit_s=2.0)
        assert seen
        assert built.build.stopped == "time"
        assert checks.broken_ratios(built.matrix.tolist(), 1.07, GRID.xy.tolist()) == []

    def test_compiling_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With no compiled code at hand, and no time to make it, what needs none is taken."""

        def never(*told: Any) -> Any:
            raise AssertionError("the structured solver was used")

        monkeypatch.setattr(search, "is_compiled", lambda: False)
        monkeypatch.setattr(search, "solve_on", never)
        built = wh.optimal(GRID, PRIOR, 1.07, time_limit_s=30.0)
        assert built.build.solver is not None
        assert built.build.solver.startswith("highs")
        asked = wh.optimal(GRID, PRIOR, 1.07, solver="structured", time_limit_s=30.0)
        assert asked.build.stopped == "time"
        assert "has to be compiled first" in asked.build.notes[-1]
        with pytest.raises(AssertionError):  # and with time enough, or no limit, it is
            wh.optimal(GRID, PRIOR, 1.07, solver="structured", time_limit_s=300.0)

    @pytest.mark.slow
    def test_compiled_code_is_noticed(self, tmp_path: Path) -> None:
        """In a process with an empty cache there is none; in this one, after a solve, there is."""
        wh.optimal(GRID, PRIOR, 1.07, solver="structured")
        from whereish.solvers import is_compiled

        assert is_compiled()
        code = "from whereish.solvers import is_compiled; print(is_compiled())"
        told = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        assert told.stdout.strip() == "False"

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
