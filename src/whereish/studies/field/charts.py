"""The figures of the study of mechanisms, drawn from the rows of the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whereish.studies.drawing import INK, as_files, label_axis, line, panels
from whereish.studies.field.scores import NONE, PLACES, POINTS
from whereish.studies.runs import Row

# The palette of Okabe and Ito, which is safe for colour-blind readers.
_ANOTHER = "another"  # epsilon than the one asked for, as an equal loss needs
_COLOURS = {PLACES: "#0072B2", POINTS: "#009E73", _ANOTHER: "#E69F00", NONE: "#B0B0B0"}
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8B6F47")
_WORDS = {
    PLACES: "this epsilon between places", POINTS: "this epsilon between any points",
    _ANOTHER: "another epsilon", NONE: "no epsilon",
}  # fmt: skip
_BARS = (
    ("loss_km", "quality loss (km)"), ("adversary_error_km", "adversary error (km)"),
    ("right_guess", "right guesses (share)"), ("map_error", "map error (share)"),
)  # fmt: skip
_FAR = 30.0  # times the epsilon asked for: a larger tightest epsilon is drawn at the border


def field_charts(medians: Sequence[Row], epsilon: float) -> dict[str, dict[str, bytes]]:
    """Draw the figures of each data set as PNG and PDF: all measures at one epsilon, and levels."""
    drawn = {}
    for data in dict.fromkeys(row["data"] for row in medians):
        mine = [row for row in medians if row["data"] == data and row["built"]]
        here = [row for row in mine if row["asked_epsilon_per_km"] == epsilon]
        if here:
            drawn[f"{data} measures"] = as_files(_measures(here, epsilon))
            drawn[f"{data} levels"] = as_files(_levels(here, mine, epsilon))
    return drawn


def _measures(rows: list[Row], epsilon: float) -> Any:
    figure, axes = panels((13.5, 0.3 * len(rows) + 1.6), len(_BARS))
    at = np.arange(len(rows))[::-1]
    for number, (axis, (measure, title)) in enumerate(zip(axes, _BARS, strict=True)):
        values = [row[measure] for row in rows]
        axis.barh(at, values, 0.72, color=[_colour(row) for row in rows])
        for y, value in zip(at, values, strict=True):
            axis.text(value, y, f" {value:.3g}", va="center", fontsize=8, color=INK)
        axis.set_yticks(at, [row["mechanism"] if number == 0 else "" for row in rows])
        axis.margins(x=0.16)
        label_axis(axis, title)
    _legend(figure, rows, f"epsilon {epsilon:g} per km")
    return figure


def _levels(here: list[Row], rows: list[Row], epsilon: float) -> Any:
    many = len({row["asked_epsilon_per_km"] for row in rows}) > 1
    figure, axes = panels((13.5 if many else 8.5, 0.26 * len(here) + 1.6), 2 if many else 1)
    left = axes[0]
    at = np.arange(len(here))[::-1]
    for y, row in zip(at, here, strict=True):
        share = row["tightest_epsilon_per_km"] / epsilon
        is_far = share >= _FAR
        left.plot(
            [min(share, _FAR)], [y], marker=">" if is_far else "o", color=_colour(row), markersize=7
        )
        words = "infinite" if np.isinf(share) else f"{share:.3g}"
        side = ("right", -8) if share > 3 else ("left", 8)
        left.annotate(words, (min(share, _FAR), y), (side[1], 0), textcoords="offset points",
                      va="center", ha=side[0], fontsize=8, color=INK)  # fmt: skip
    left.axvline(1.0, color=INK, linewidth=0.8, linestyle=":")
    left.set_xscale("log")
    left.set_xticks([0.5, 1, 2, 5, 10, _FAR], ["0.5", "1", "2", "5", "10", "more"])
    left.set_xlim(0.4, _FAR * 1.25)
    left.minorticks_off()
    left.set_yticks(at, [row["mechanism"] for row in here])
    label_axis(left, f"Tightest epsilon / epsilon asked for ({epsilon:g} per km)")
    for right in axes[1:]:
        _loss_lines(right, rows)
    _legend(figure, here, "")
    return figure


def _loss_lines(axis: Any, rows: list[Row]) -> None:
    """Draw the loss against the epsilon asked for, of the mechanisms that have that epsilon."""
    private = [row for row in rows if _kind(row) in (PLACES, POINTS)]
    names = list(dict.fromkeys(row["mechanism"] for row in private))
    for number, name in enumerate(names):
        mine = sorted(
            (row["asked_epsilon_per_km"], row["loss_km"])
            for row in private
            if row["mechanism"] == name
        )
        line(axis, [e for e, _ in mine], [loss for _, loss in mine],
             _LINES[number % len(_LINES)], name)  # fmt: skip
        axis.lines[-1].set_linestyle("-" if number < len(_LINES) else "--")
    label_axis(axis, "Loss at the epsilon asked for", "epsilon per km", "quality loss (km)", 0)
    axis.legend(frameon=False, fontsize=8)


def _legend(figure: Any, rows: list[Row], title: str) -> None:
    from matplotlib.patches import Patch

    there = [kind for kind in _COLOURS if any(_kind(row) == kind for row in rows)]
    shown = [Patch(color=_COLOURS[kind], label=_WORDS[kind]) for kind in there]
    figure.legend(handles=shown, frameon=False, ncols=4, loc="outside upper left", fontsize=9,
                  title=title or None, alignment="left")  # fmt: skip


def _kind(row: Row) -> str:
    if row["guarantee"] not in (PLACES, POINTS):
        return NONE
    is_asked = row["epsilon_per_km"] == row["asked_epsilon_per_km"]
    return str(row["guarantee"]) if is_asked else _ANOTHER


def _colour(row: Row) -> str:
    return _COLOURS[_kind(row)]
