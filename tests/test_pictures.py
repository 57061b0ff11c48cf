"""Pictures: all text is readable, for an area of any shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strategies as some
import whereish as wh
from whereish.plotting import draw_comparison, draw_mechanism, draw_profile, pictures

# Columns and rows of a grid, and the side of a cell in km: square, flat; slow: tall, one row, one
# column, tiny, large. Together they take twenty seconds.
_SLOW = [(2, 12, 0.7), (30, 1, 1.0), (1, 30, 1.0), (2, 2, 0.001), (3, 3, 60.0)]
SHAPES = [(5, 5, 0.7), (12, 2, 0.7), *(pytest.param(s, marks=pytest.mark.slow) for s in _SLOW)]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    figures: list[Any] = []
    make = pictures.new_figure

    def kept(*args: Any) -> Any:
        made = make(*args)
        figures.append(made[0])
        return made

    monkeypatch.setattr(pictures, "new_figure", kept)
    return figures


def grid(columns: int, rows: int, side: float) -> wh.Places:
    column, row = np.meshgrid(np.arange(columns), np.arange(rows))
    return wh.Places.from_xy(np.column_stack([column.ravel(), row.ravel()]) * side)


def check(file: Path, figures: list[Any]) -> None:
    from matplotlib import image
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    pixels = image.imread(file)[:, :, :3]
    for edge in (pixels[:4], pixels[-4:], pixels[:, :4], pixels[:, -4:]):
        assert (edge > 0.999).all(), "something is cut off at the edge"
    (figure,) = figures
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    titles = [
        title.get_window_extent(renderer)
        for axis in figure.axes
        for title in (axis._left_title, axis.title)
        if title.get_text()
    ]
    assert titles
    for number, one in enumerate(titles):
        for other in titles[number + 1 :]:
            assert not one.overlaps(other), "two titles overlap"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.slow
def test_a_profile_and_its_spanner(
    tmp_path: Path, drawn: list[Any], shape: tuple[int, int, float]
) -> None:
    places = grid(*shape)
    who = wh.Profile(places, some.skewed(len(places), 2))
    net = wh.greedy_spanner(wh.euclidean(places), 1.05)
    draw_profile(who, tmp_path / "a.png", net)
    check(tmp_path / "a.png", drawn)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_a_mechanism(
    tmp_path: Path, drawn: list[Any], shape: tuple[int, int, float], known: bool
) -> None:
    places = grid(*shape)
    who = wh.Profile(places, some.skewed(len(places), 2))
    net = wh.greedy_spanner(wh.euclidean(places), 1.05)
    mechanism = wh.exponential(places, 1 / shape[2])
    draw_mechanism(mechanism, who, tmp_path / "a.png", None, net, prior_known=known)
    check(tmp_path / "a.png", drawn)


def test_a_comparison_of_long_names(tmp_path: Path, drawn: list[Any]) -> None:
    rows = [("optimal", 0.7), ("a mechanism whose name is a good deal longer than others", 1.4)]
    draw_comparison(rows, 1.0701234, tmp_path / "a.png")
    check(tmp_path / "a.png", drawn)
