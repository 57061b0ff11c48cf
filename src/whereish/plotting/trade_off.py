"""The picture of a trade-off: what each level costs, and what it hides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from whereish.choosing import ChosenLevel, TradeOff
from whereish.errors import InputError
from whereish.plotting.pictures import finish, new_figure, picture_kind, titled
from whereish.units import km

_LOSS, _GUESS, _GREY, _INK = "#c8102e", "#1f6f9f", "#8b98a3", "#22303c"


def plot_trade_off(table: TradeOff, path: str | Path, chosen: ChosenLevel | None = None) -> None:
    """Draw the loss and the adversary error over epsilon, and the success of the best guess.

    Parameters
    ----------
    table
        What `whereish.trade_off` returned.
    path
        A .png, .pdf or .svg file, readable by its owner only.
    chosen
        A level of `whereish.epsilon_for` to mark.
    """
    if not isinstance(table, TradeOff):
        raise InputError(f"table must be a TradeOff, got {type(table).__name__}")
    picture_kind(path)
    figure, (left, right) = new_figure((11.0, 4.4), 2)
    levels = table.column("epsilon")
    loss, error = table.column("loss_km"), table.column("adversary_error_km")
    left.plot(levels, error, color=_GUESS, linewidth=4, alpha=0.35, label="adversary error")
    left.plot(levels, loss, color=_LOSS, marker="o", markersize=3.5, label="quality loss")
    left.axhline(table.constant_loss_km, color=_GREY, linestyle=":", linewidth=1)
    _note(left, table.constant_loss_km, "always the same report")
    left.set_ylabel("km", color=_INK)
    left.set_ylim(0, 1.12 * max(table.constant_loss_km, table.blind_error_km))
    titled(left, "How far off a report is, and the best guess of an adversary")
    right.plot(
        levels, 100 * table.column("guess_success"), color=_GUESS, marker="o", markersize=3.5
    )
    right.axhline(100 * table.blind_success, color=_GREY, linestyle=":", linewidth=1)
    _note(right, 100 * table.blind_success, "a guess without any report")
    right.set_ylim(0, 104)
    right.set_ylabel("% of the guesses", color=_INK)
    titled(right, "How often the best guess is the true place")
    for axis in (left, right):
        axis.set_xscale("log")
        _ticks(axis, float(levels[0]), float(levels[-1]))
        if chosen is not None:
            axis.axvline(chosen.epsilon, color=_INK, linestyle="--", linewidth=1)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    left.legend(frameon=False, fontsize=9, loc="lower left")
    if chosen is not None:
        left.annotate(
            f"epsilon {chosen.epsilon:.3g}", (chosen.epsilon, 0.03), (4, 0),
            xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=9, color=_INK,
        )  # fmt: skip
    finish(figure, path)


def _note(axis: Any, height: float, text: str) -> None:
    """Write a remark above a horizontal line, at the right."""
    axis.annotate(
        text, (0.99, height), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", fontsize=8, color="#5b6873",
    )  # fmt: skip


def _ticks(axis: Any, low: float, high: float) -> None:
    """Label levels with numbers, and above with the distance of a ratio of 2."""
    steps = [base * 10.0**power for power in range(-10, 11) for base in (1, 2, 5)]
    shown = [step for step in steps if low * 0.999 <= step <= high * 1.001]
    if len(shown) > 9:
        shown = [step for step in shown if math.isclose(math.log10(step) % 1, 0, abs_tol=1e-9)]
    axis.set_xticks(shown, [f"{step:g}\n{km(math.log(2) / step)}" for step in shown])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("epsilon per km; below: within this far, at most 2 times likelier", fontsize=9)
    axis.tick_params(labelsize=8)
