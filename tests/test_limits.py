"""Time and memory: what is announced, and that a search which is stopped hands something over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

import checks
import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.service import worker

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
