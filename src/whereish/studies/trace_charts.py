"""The figures of the study of traces, drawn from the rows of its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whereish.studies.drawing import as_files, label_axis, line, panels
from whereish.studies.equal_budget import EQUAL, EQUAL_POLICIES
from whereish.studies.runs import Row
from whereish.studies.trace_rows import (
    ATTACKED,
    AUTHORS,
    FILTERED,
    OURS,
    POLICIES,
    PROTOCOL,
    TAPERED,
)

# The palette of Okabe and Ito, which is safe for colour-blind readers.
_COLOURS = {
    AUTHORS: "#D55E00", OURS: "#E69F00", TAPERED: "#009E73", FILTERED: "#0072B2",
    "sporadic": "#56B4E9", "independent": "#999999", "sticky": "#CC79A7", "predictive": "#D55E00",
}  # fmt: skip
_STICKY = "sticky (not private for traces)"


def trace_chart(kind: str, tables: dict[str, list[Row]]) -> dict[str, bytes] | None:
    """Draw a figure as PNG and PDF; None if its table has no rows for it."""
    draw, table = TRACE_CHARTS[kind]
    figure = draw(tables.get(table, []))
    return None if figure is None else as_files(figure)


def _errors(rows: list[Row]) -> Any:
    """Draw the error of each policy, and what it covers, in each setting; a panel for each gap."""
    fixed = [row for row in rows if row["jump"] == 0]
    if not fixed:
        return None
    gaps = list(dict.fromkeys(row["sampling"] for row in fixed))
    settings = list(dict.fromkeys(row["setting"] for row in fixed))
    figure, axes = panels((4.2 * max(2, len(gaps)), 4.0), len(gaps))
    width = 0.8 / len(POLICIES)
    for axis, gap in zip(axes, gaps, strict=True):
        for shift, policy in enumerate(POLICIES):
            mine = {
                row["setting"]: row
                for row in fixed
                if (row["sampling"], row["policy"]) == (gap, policy)
            }
            at = [k + (shift - (len(POLICIES) - 1) / 2) * width for k in range(len(settings))]
            axis.bar(
                at, [mine[name]["mean_error_km"] for name in settings], 0.9 * width,
                color=_COLOURS[policy], label=_STICKY if policy == "sticky" else policy,
            )  # fmt: skip
            for x, name in zip(at, settings, strict=True):
                axis.text(x, mine[name]["mean_error_km"], f"{mine[name]['coverage']:.0%}",
                          ha="center", va="bottom", fontsize=5, rotation=90)  # fmt: skip
        axis.set_xticks(range(len(settings)), settings, fontsize=8)
        label_axis(axis, gap, bottom=0)
        axis.margins(y=0.12)
    axes[0].set_ylabel("mean error (km); above: coverage")
    shown = axes[0].get_legend_handles_labels()
    figure.legend(*shown, frameon=False, ncols=len(POLICIES), loc="outside upper left", fontsize=8)
    return figure


def _jumps(rows: list[Row]) -> Any:
    """Draw the error against the probability of a jump; a panel for each setting."""
    # Every minute is a jump with probability 0.
    every = [row for row in rows if row["jump"] > 0 or row["gap_s"] == 60]
    if len({row["jump"] for row in every}) < 2:
        return None
    settings = list(dict.fromkeys(row["setting"] for row in every))
    figure, axes = panels((3.4 * max(2, len(settings)), 3.6), len(settings))
    for axis, setting in zip(axes, settings, strict=True):
        for policy in POLICIES:
            mine = sorted(
                (row["jump"], row["mean_error_km"])
                for row in every
                if (row["setting"], row["policy"]) == (setting, policy)
            )
            line(axis, [p for p, _ in mine], [e for _, e in mine], _COLOURS[policy], policy)
        label_axis(axis, setting, "probability of a jump", bottom=0)
    axes[0].set_ylabel("mean error (km)")
    shown = axes[0].get_legend_handles_labels()
    figure.legend(*shown, frameon=False, ncols=len(POLICIES), loc="outside upper left", fontsize=8)
    return figure


def _attacks(rows: list[Row]) -> Any:
    if not rows:
        return None
    gaps = list(dict.fromkeys(row["sampling"] for row in rows))
    figure, (axis,) = panels((7.4, 3.6))
    width = 0.8 / len(POLICIES)
    for shift, policy in enumerate(POLICIES):
        mine = {row["sampling"]: row["attack_success"] for row in rows if row["policy"] == policy}
        at = [k + (shift - (len(POLICIES) - 1) / 2) * width for k in range(len(gaps))]
        axis.bar(at, [mine[gap] for gap in gaps], 0.9 * width, color=_COLOURS[policy],
                 label=_STICKY if policy == "sticky" else policy)  # fmt: skip
    axis.set_xticks(range(len(gaps)), gaps)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    title = "Guesses of the smoother within 300 m of the truth"
    label_axis(axis, title, y="share of the points", bottom=0)
    axis.legend(frameon=False, fontsize=8)
    return figure


def _equal(rows: list[Row]) -> Any:
    """Draw what is learned from each policy at equal budget: homes over the days, and moves."""
    if not rows:
        return None
    figure, (left, middle, right) = panels((12.6, 3.7), 3)
    there = [name for name in EQUAL_POLICIES if any(row["policy"] == name for row in rows)]
    last = {name: [row for row in rows if row["policy"] == name][-1] for name in there}
    for name in there:
        mine = [row for row in rows if row["policy"] == name]
        days, errors = zip(*((row["day"], row["home_error_km"]) for row in mine), strict=True)
        line(left, days, errors, _COLOURS[name], name)
    # Filtered reports have the draws of independent ones, and the adversary sees the draws.
    left.lines[-1].set_linestyle("--")
    label_axis(left, "Error of the guessed home", "nights with reports", "km (median)", bottom=0)
    left.legend(frameon=False, fontsize=8)
    colours = [_COLOURS[name] for name in there]
    middle.bar(there, [last[name]["moves_told"] for name in there], 0.6, color=colours)
    middle.axhline(0.5, color="#22303c", linewidth=0.8, linestyle=":")
    middle.set_ylim(0, 1.05)
    middle.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    label_axis(middle, "A changed report tells a move", y="balanced accuracy; dotted: nothing")
    at = np.arange(len(there))
    right.bar(at - 0.2, [last[name]["report_error_km"] for name in there], 0.36, color=colours)
    right.bar(at + 0.2, [last[name]["attack_error_km"] for name in there], 0.36, color=colours,
              hatch="///", edgecolor="white", linewidth=0)  # fmt: skip
    right.set_xticks(at, there)
    label_axis(right, "Error of reports; hatched: of the attack", y="km", bottom=0)
    for axis in (middle, right):
        axis.tick_params(axis="x", labelsize=8)
    return figure


# The function that draws each figure, and its table.
TRACE_CHARTS: dict[str, tuple[Callable[[list[Row]], Any], str]] = {
    "errors": (_errors, PROTOCOL),
    "jumps": (_jumps, PROTOCOL),
    "attack": (_attacks, ATTACKED),
    "equal budget": (_equal, EQUAL),
}
