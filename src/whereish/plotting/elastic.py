"""The picture of an elastic metric: how far the distance ln 2 goes around each cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whereish.maps import ATTRIBUTION, MapFile
from whereish.places import Places
from whereish.places.elastic import ElasticGraph
from whereish.plotting.ground import draw_ground
from whereish.plotting.pictures import finish

_INK = "#22303c"


def draw_elastic(
    cells: Places, made: ElasticGraph, path: str | Path, background: MapFile | None = None
) -> None:
    """Draw the radius of the disc as large as all cells within ln 2 of each cell, over a map."""
    from matplotlib.figure import Figure

    grid = made.grid
    width, height = grid.columns * grid.cell_km[0], grid.rows * grid.cell_km[1]
    figure = Figure(figsize=(7.6, max(3.0, 0.5 + 6.2 * height / width)), layout="constrained")
    axis = figure.add_subplot()
    frame = (-width / 2, width / 2, -height / 2, height / 2)
    axis.set_xlim(frame[0], frame[1])
    axis.set_ylim(frame[2], frame[3])
    axis.set_aspect("equal")
    draw_ground(axis, background, cells.plane)
    radius = 1000 * made.ball_km().reshape(grid.rows, grid.columns)
    radius[made.fence.reshape(radius.shape) >= 0] = np.nan
    shown = axis.imshow(
        radius, origin="lower", extent=frame, cmap="viridis", aspect="equal", zorder=0.9,
        alpha=1.0 if background is None else 0.55, interpolation="nearest",
    )  # fmt: skip
    bar = figure.colorbar(shown, ax=axis, shrink=0.8)
    bar.set_label("radius of what lies within the distance ln 2, in m", color=_INK)
    axis.set_title("Elastic metric: how far the distance ln 2 goes", color=_INK, fontsize=11)
    axis.set_xlabel("km", color=_INK)
    axis.set_ylabel("km", color=_INK)
    if background is None:
        axis.text(
            0.99, 0.012, ATTRIBUTION, transform=axis.transAxes, ha="right", va="bottom",
            fontsize=5.5, color=_INK, bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1},
        )  # fmt: skip
    finish(figure, path)
