"""How the figures of studies look: panels, labels, lines, and the files of a figure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from whereish.plotting.pictures import new_figure

INK = "#22303c"


def as_files(figure: Any) -> dict[str, bytes]:
    """Return a figure as PNG and PDF."""
    files = {}
    for ending in ("png", "pdf"):
        stream = io.BytesIO()
        # Without a date and a version in the file, the same rows give the same bytes.
        metadata = {"CreationDate": None} if ending == "pdf" else {"Software": None}
        figure.savefig(stream, format=ending, metadata=metadata)
        files[ending] = stream.getvalue()
    return files


def panels(size: tuple[float, float], count: int = 1) -> tuple[Any, list[Any]]:
    """Return an empty figure with panels side by side, in the style of the studies."""
    figure, axes = new_figure(size, count)
    for axis in axes:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axis.tick_params(colors=INK, labelsize=9)
        axis.title.set_color(INK)
    return figure, axes


def label_axis(
    axis: Any, title: str, x: str = "", y: str = "", bottom: float | None = None
) -> None:
    """Write the title and the labels of a panel, and where its y axis begins, if that is given."""
    axis.set_title(title, loc="left")
    axis.set(xlabel=x, ylabel=y)
    if bottom is not None:
        axis.set_ylim(bottom=bottom)


def line(axis: Any, x: Sequence[float], y: Sequence[Any], colour: str, label: str = "") -> None:
    """Draw a line with a mark at each value."""
    axis.plot(x, y, color=colour, marker="o", markersize=4, label=label)
