"""The figures of the evaluation, drawn from the rows of its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whereish.studies.drawing import INK, as_files, label_axis, line, panels
from whereish.studies.evaluation import LAPLACE, OPT_PRIV, OPTIMAL
from whereish.studies.runs import Row, grouped

# The palette of Okabe and Ito, which is safe for colour-blind readers.
_COLOURS = {
    OPTIMAL: "#0072B2", OPT_PRIV: "#E69F00", LAPLACE: "#D55E00",
    f"{LAPLACE} + remap": "#CC79A7", "tight constraints": "#56B4E9",
    "tight constraints + remap": "#009E73", "exponential": "#999999",
}  # fmt: skip
_NAMES = {OPT_PRIV: "Shokri et al. (OptPriv)"}
_SHOWN = 10
_THREE = (OPTIMAL, OPT_PRIV, LAPLACE)  # the mechanisms of Figures 3 and 6


def chart(kind: str, tables: dict[str, list[Row]]) -> dict[str, bytes] | None:
    """Draw a figure as PNG and PDF; None if its tables have no rows."""
    draw, needs = CHARTS[kind]
    if not all(tables.get(name) for name in needs):
        return None
    return as_files(draw(*(tables[name] for name in needs)))


def _figure_1(rows: list[Row]) -> Any:
    figure, (left, right) = panels((8.4, 3.4), 2)
    spots = {(r["x1_km"], r["y1_km"]) for r in rows} | {(r["x2_km"], r["y2_km"]) for r in rows}
    xs, ys = (sorted({spot[part] for spot in spots}) for part in (0, 1))
    size = xs[1] - xs[0]
    for axis in (left, right):
        axis.scatter(*zip(*spots, strict=True), s=22, color=INK, zorder=3)
        _map(axis, xs, ys, 0.6 * size)
    for x in (*[v - size / 2 for v in xs], xs[-1] + size / 2):
        left.axvline(x, color="#b8b2a4", linewidth=0.8)
    for y in (*[v - size / 2 for v in ys], ys[-1] + size / 2):
        left.axhline(y, color="#b8b2a4", linewidth=0.8)
    for r in rows:
        right.plot([r["x1_km"], r["x2_km"]], [r["y1_km"], r["y2_km"]], color="#0072B2", lw=1)
    pairs = len(spots) * (len(spots) - 1) // 2
    spanner = f"A spanner: {len(rows)} of {pairs} pairs, dilation {rows[0]['dilation']:.3f}"
    label_axis(left, f"{len(xs)} x {len(ys)} cells of Paris", "km east", "km north")
    label_axis(right, spanner, "km east")
    return figure


def _figure_2(rows: list[Row]) -> Any:
    figure, (left, right) = panels((8.8, 4.2), 2)
    x, y, score = (np.array([r[key] for r in rows]) for key in ("x_km", "y_km", "score"))
    chosen = np.array([r["chosen"] for r in rows], dtype=bool)
    size = _cell(x), _cell(y)
    _cells(left, x, y, score, size)
    scores = "Regions by score: how many people have them\namong their most visited"
    label_axis(left, scores, "km east", "km north")
    drawn = _cells(right, x[chosen], y[chosen], score[chosen], size)
    label_axis(right, f"The {chosen.sum()} regions with the highest score", "km east")
    figure.colorbar(drawn, ax=right, shrink=0.8, label="score (people)")
    for axis, where in ((left, score > 0), (right, chosen)):
        _map(axis, x[where], y[where], max(size))
    return figure


def _map(axis: Any, x: Any, y: Any, room: float) -> None:
    """Show the area of points, with room around it; a km is as long in both directions."""
    axis.set_aspect("equal")
    axis.set_xlim(min(x) - room, max(x) + room)
    axis.set_ylim(min(y) - room, max(y) + room)


def _cell(values: Any) -> float:
    steps = np.diff(np.unique(values.round(6)))
    return float(steps.min()) if len(steps) else 1.0


def _cells(axis: Any, x: Any, y: Any, score: Any, size: tuple[float, float]) -> Any:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    patches = [
        Rectangle((a - size[0] / 2, b - size[1] / 2), *size) for a, b in zip(x, y, strict=True)
    ]
    drawn = PatchCollection(patches, cmap="Blues", edgecolor="none")
    drawn.set_array(score)
    drawn.set_clim(0, max(1, int(score.max())))
    return axis.add_collection(drawn)


def _figure_3(rows: list[Row]) -> Any:
    figure, (axis,) = panels((8.4, 4.2))
    periods = list(dict.fromkeys(r["period"] for r in rows))
    for shift, name in enumerate(_THREE):
        values = [
            [r["adversary_error_km"] for r in rows if (r["mechanism"], r["period"]) == (name, p)]
            for p in periods
        ]
        _boxes(axis, values, [p + (shift - 1) * 0.26 for p in range(len(periods))], name, 0.22)
    axis.set_xticks(range(len(periods)), periods)
    title = "Privacy at equal quality loss: the further off the best guess, the better"
    label_axis(axis, title, y="adversary's error (km)", bottom=0)
    _legend(axis)
    return figure


def _figure_4(rows: list[Row]) -> Any:
    figure, (axis,) = panels((8.4, 4.2))
    for name in (OPTIMAL, LAPLACE):
        mine = [r for r in rows if r["mechanism"] == name]
        axis.scatter(
            [r["epsilon_per_km"] for r in mine], [r["quality_loss_km"] for r in mine],
            s=7, color=_COLOURS[name], alpha=0.35, linewidths=0,
        )  # fmt: skip
        line(axis, *_medians(mine, "epsilon_per_km", "quality_loss_km"), _COLOURS[name], name)
    title = "Quality loss at equal privacy: one point for each person, lines join the medians"
    x = "epsilon (per km): more private to the left"
    label_axis(axis, title, x, "quality loss (km)", bottom=0)
    axis.legend(frameon=False)
    return figure


def _figure_5(rows: list[Row], sizes: list[Row]) -> Any:
    figure, (left, right) = panels((10.6, 4.2), 2)
    dilations = sorted({r["dilation"] for r in rows})
    values = [[r["quality_loss_km"] for r in rows if r["dilation"] == d] for d in dilations]
    width = 0.7 * min(np.diff(dilations), default=0.05)
    _boxes(left, values, dilations, OPTIMAL, width)
    _ticks(left, dilations)
    loss = "Loss grows slowly with dilation"
    label_axis(left, loss, "dilation (1: exact)", "quality loss (km)", bottom=0)
    asked = [r["dilation"] for r in sizes]
    line(right, asked, [r["constraints"] for r in sizes], _COLOURS[OPTIMAL])
    title = "Constraints, and how well epsilon is used"
    label_axis(right, title, "dilation", "constraints", bottom=0)
    right.yaxis.label.set_color(_COLOURS[OPTIMAL])
    right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    other = right.twinx()
    used = [r["share_of_epsilon_used"] for r in sizes]
    other.plot(asked, used, color="#D55E00", marker="s", markersize=3.5, linestyle="--")
    other.set_ylabel("share of epsilon used, on average (dashed)", color="#D55E00")
    other.set_ylim(0, 1.03)
    other.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return figure


def _bracket(rows: list[Row]) -> Any:
    figure, (axis,) = panels((8.4, 3.8))
    exact = {r["user"]: r["quality_loss_km"] for r in rows if r["dilation"] == 1}
    others = [r for r in rows if r["dilation"] > 1]
    above = [
        r | {"above": r["quality_loss_km"] / exact[r["user"]] - 1}
        for r in others
        if exact.get(r["user"])
    ]
    proved = [
        r | {"allowed": r["quality_loss_km"] / r["lower_bound_km"] - 1}
        for r in others
        if r["lower_bound_km"]
    ]
    if above:
        line(axis, *_medians(above, "dilation", "above"), "#0072B2", "above the optimum (median)")
        worst = grouped(above, "dilation", "above")
        label = "above the optimum (worst person)"
        line(axis, list(worst), [max(part) for part in worst.values()], "#56B4E9", label)
    if proved:
        label = "what the two-sided bound allows (median)"
        line(axis, *_medians(proved, "dilation", "allowed"), "#D55E00", label)
    dilations = sorted({r["dilation"] for r in others})
    if dilations:
        axis.plot(dilations, [d - 1 for d in dilations], color="#999999", linestyle=":",
                  label="dilation - 1")  # fmt: skip
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    title = "How far a spanner's mechanism is from the best of all"
    label_axis(axis, title, "dilation", "extra quality loss", bottom=0)
    axis.legend(frameon=False)
    return figure


def _others(rows: list[Row]) -> Any:
    figure, (axis,) = panels((8.4, 4.2))
    for name in _COLOURS:
        mine = [r for r in rows if r["mechanism"] == name]
        if mine:
            line(axis, *_medians(mine, "epsilon_per_km", "quality_loss_km"), _COLOURS[name], name)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
    title = "All mechanisms at equal privacy"
    label_axis(axis, title, "epsilon (per km)", "median quality loss (km)")
    axis.legend(frameon=False)
    return figure


def _wrong_prior(rows: list[Row]) -> Any:
    figure, axes = panels((9.6, 3.8), 2)
    periods = list(dict.fromkeys(r["period"] for r in rows))
    keys = ("error_of_who_knows_all_day_only_km", "adversary_error_km")
    titles = ("An adversary who only knows the all-day prior", "One who knows the period's")
    for axis, key, title in zip(axes, keys, titles, strict=True):
        for shift, name in enumerate(_THREE):
            values = [
                np.median([r[key] for r in rows if (r["mechanism"], r["period"]) == (name, p)])
                for p in periods
            ]
            axis.bar([i + (shift - 1) * 0.27 for i in range(len(periods))], values, 0.25,
                     color=_COLOURS[name], label=_NAMES.get(name, name))  # fmt: skip
        axis.set_xticks(range(len(periods)), periods)
        label_axis(axis, title)
    top = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(0, top)
    axes[0].set_ylabel("median error of the guess (km)")
    patches = axes[0].get_legend_handles_labels()
    figure.legend(*patches, frameon=False, ncols=3, loc="outside upper left")
    return figure


def _repeated(rows: list[Row]) -> Any:
    figure, (axis,) = panels((8.4, 3.8))
    counts = sorted({r["reports"] for r in rows})
    values = [[r["adversary_error_km"] for r in rows if r["reports"] == k] for k in counts]
    axis.fill_between(
        counts, [np.quantile(v, 0.25) for v in values], [np.quantile(v, 0.75) for v in values],
        color="#0072B2", alpha=0.2, linewidth=0, label="half of the people",
    )  # fmt: skip
    line(axis, counts, [np.median(v) for v in values], "#0072B2", "independent reports (median)")
    axis.axhline(
        float(np.median(values[0])), color="#009E73", linestyle="--", label="the same report again"
    )
    axis.set_xscale("log", base=2)
    axis.set_xticks(counts, [str(k) for k in counts])
    title = "k reports cost k epsilon: repeated ones give the place away"
    label_axis(axis, title, "reports from the same place", "adversary's error (km)", bottom=0)
    axis.legend(frameon=False)
    return figure


# The function that draws each figure, and the tables that it needs.
CHARTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "figure 1": (_figure_1, ("figure 1",)),
    "figure 2": (_figure_2, ("figure 2",)),
    "figure 3": (_figure_3, ("figure 3",)),
    "figure 4": (_figure_4, ("figure 4",)),
    "figure 5": (_figure_5, ("figure 5a", "figure 5b")),
    "figure 6": (_figure_3, ("figure 6",)),
    "figure 7": (_figure_4, ("figure 7",)),
    "bracket": (_bracket, ("figure 5a",)),
    "all mechanisms": (_others, ("figure 4",)),
    "wrong prior": (_wrong_prior, ("figure 3",)),
    "repeated reports": (_repeated, ("repeated reports",)),
}


def _boxes(axis: Any, values: Sequence[Any], at: Sequence[float], name: str, width: float) -> None:
    axis.boxplot(
        values, positions=at, widths=width, patch_artist=True, manage_ticks=False,
        flierprops={"markersize": 2.5, "markeredgecolor": _COLOURS[name], "marker": "o"},
        boxprops={"facecolor": _COLOURS[name], "alpha": 0.55, "edgecolor": INK},
        medianprops={"color": INK, "linewidth": 1.6},
    )  # fmt: skip


def _legend(axis: Any) -> None:
    from matplotlib.patches import Patch

    axis.legend(
        handles=[Patch(facecolor=_COLOURS[n], alpha=0.55, label=_NAMES.get(n, n)) for n in _THREE],
        frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.06), borderaxespad=0,
    )  # fmt: skip


def _ticks(axis: Any, dilations: Sequence[float]) -> None:
    shown: list[float] = []
    room = (dilations[-1] - dilations[0]) / _SHOWN
    for dilation in dilations:
        if not shown or dilation - shown[-1] >= room - 1e-9:
            shown.append(dilation)
    axis.set_xticks(shown, [f"{d:g}" for d in shown])


def _medians(rows: list[Row], key: str, value: str) -> tuple[list[float], list[float]]:
    found = grouped(rows, key, value)
    return list(found), [float(np.median(part)) for part in found.values()]
