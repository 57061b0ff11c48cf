"""How a profile, a mechanism or a comparison is shown to a person, and as JSON facts."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

import whereish as wh
from whereish.cli.console import say
from whereish.everywhere import AnyMechanism, Everywhere, Visits, guess_error, loss_of
from whereish.places import Array
from whereish.solvers import Progress
from whereish.studies import Row
from whereish.units import km

_FAR_OFF = 1e-3
_PROVED = 1e-4
_WORTH_SAYING_S = 2.0
STOPPED = {"time": "at the time limit", "asked": "by you"}


def comparison_table(
    rows: list[Row], title: str | None = None, *, at_points: bool = False
) -> Table:
    """Make the table that `compare` and the demo show; with the loss at raw points if asked."""
    # Without lines between the columns, the table fits 80 columns.
    table = Table(
        title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False, show_edge=False,
    )  # fmt: skip
    table.add_column("mechanism", no_wrap=True)
    headings = [
        "quality loss",
        *["loss at points"] * at_points,
        "adv. error",
        "95% within",
        "map error",
    ]
    levels = {row.epsilon_per_km for row in rows}
    if not at_points or len(levels) > 1:  # one epsilon for all was said before
        headings.insert(0, "epsilon")
    for heading in headings:
        table.add_column(heading, justify="right", width=5 if heading == "map error" else 7)
    for row in rows:
        if row.problem is not None:
            table.add_row(row.name, "not built", *[""] * (len(headings) - 1))
            continue
        promised = "none" if row.epsilon_per_km is None else f"{row.epsilon_per_km:.3f}"
        losses = [row.quality_loss_km, row.adversary_error_km, row.report_radius_95_km]
        if at_points:
            losses.insert(1, row.point_loss_km)
        shown = [km(loss or 0.0).replace(" ", "\N{NO-BREAK SPACE}") for loss in losses]
        shown.append("" if row.map_error is None else f"{row.map_error:.3f}")
        table.add_row(row.name, *[promised] * ("epsilon" in headings), *shown)
    return table


def extent(value: float) -> str:
    """Format the width or height of an area, in km."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def facts_of(mechanism: wh.Mechanism, prior: Array) -> dict[str, Any]:
    """Collect what --json prints of a mechanism under a prior."""
    tightest = wh.tightest_epsilon(mechanism, wh.euclidean(mechanism.inputs))
    per_km = mechanism.epsilon if mechanism.is_per_km else None
    return {
        **vars(mechanism.build),
        "places": len(mechanism.inputs),
        "outputs": len(mechanism.outputs),
        "epsilon": mechanism.epsilon,
        "epsilon_unit": mechanism.epsilon_unit,
        "epsilon_per_km": per_km,
        "tightest_epsilon_per_km": float(tightest),
        "tightest_pair": list(tightest.pair),
        "tightest_output": tightest.output,
        "private": mechanism.epsilon is not None,
        "ratio_2_within_km": None if per_km is None else math.log(2) / per_km,
        "quality_loss_km": wh.quality_loss(mechanism, prior),
        "adversary_error_km": wh.adversary_error(mechanism, prior),
        "ratios_checked": mechanism.verdict.ratios if mechanism.verdict else 0,
    }


def everywhere_facts(
    mechanism: Everywhere, visits: Visits, visited: wh.Mechanism, weights: Array
) -> dict[str, Any]:
    """Collect what --json prints of a mechanism with a guarantee for every point."""
    tightest = wh.tightest_epsilon_everywhere(mechanism)
    corners = mechanism.verdict.corners if isinstance(mechanism, wh.EverywhereMechanism) else 0
    return {
        **vars(mechanism.build),
        "points": len(visits),
        "outputs": len(mechanism.outputs),
        "epsilon": mechanism.epsilon,
        "epsilon_unit": mechanism.epsilon_unit,
        "epsilon_per_km": mechanism.epsilon,
        "tightest_epsilon_per_km": float(tightest),
        "tightest_vertex": tightest.vertex,
        "tightest_output": tightest.output,
        "private": True,
        "ratio_2_within_km": math.log(2) / mechanism.epsilon,
        "quality_loss_km": loss_of(mechanism, visits),
        "adversary_error_km": guess_error(visited, weights),
        "corners_checked": corners,
    }


class Watch:
    """A stopwatch: how long a command took."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def say(self, *mechanisms: AnyMechanism) -> dict[str, float]:
        """Say it if it was long; return it for JSON."""
        waited = time.perf_counter() - self._start
        if waited - sum(one.build.seconds or 0.0 for one in mechanisms) >= _WORTH_SAYING_S:
            say(f"It took {waited:.0f} s in all, with all checks and the writing of the file.")
        # compile_seconds: programs that read it expect the key, from versions that compiled.
        return {"waited_seconds": waited, "compile_seconds": 0.0}


def say_profile(who: wh.Profile) -> None:
    """Say how many places there are and how large the area is."""
    width, height = np.ptp(who.places.xy, axis=0)
    say(f"{len(who.places):,} places within {extent(width)} x {extent(height)} km")
    off = who.places.projection_error
    if off > _FAR_OFF:
        say(f"Careful: the places are too far apart for a flat map: distances are {off:.0%} off")


def say_mechanism(mechanism: AnyMechanism, facts: dict[str, Any]) -> None:
    """Say what a mechanism promises, what was checked and what it costs."""
    built = mechanism.build
    say()
    if built.constraints is not None:
        took = "" if built.seconds is None else f" in {built.seconds:.2f} s"
        say(
            f"  solved        {built.constraints:,} constraints, {built.variables:,} variables "
            f"by {built.solver}{took}"
        )
    for note in built.notes:
        say(f"  note          {note}")
    say(f"  privacy       {_privacy(mechanism)}")
    if built.stopped is not None:
        why = STOPPED.get(built.stopped, "early")
        say(f"  stopped       {why}, with the best mechanism so far; its privacy is complete")
    if (words := _optimum(built)) is not None:
        say(f"  optimum       {words}")
    say(f"  quality loss  a report is {km(facts['quality_loss_km'])} off on average")
    error = facts["adversary_error_km"]
    off = f"{km(error)} off on average"
    if facts.get("adversary_error_unit", "km") != "km":
        off = f"wrong {error:.1%} of the time"
    say(f"  adversary     the best guess of an adversary who knows the prior is {off}")


def _privacy(mechanism: AnyMechanism) -> str:
    """Say what is promised, and what was checked."""
    if mechanism.epsilon is None:
        return "no epsilon is promised"
    level = f"epsilon {mechanism.epsilon:.4g} {mechanism.epsilon_unit} holds"
    if isinstance(mechanism, wh.PlanarLaplaceEverywhere):
        return f"{level} for any two points of the plane, because of its noise"
    if isinstance(mechanism, wh.EverywhereMechanism):
        corners = f"{mechanism.verdict.corners:,} corners of cells"
        return f"{level} for any two points of the plane: {corners}, checked one by one"
    ratios = 0 if mechanism.verdict is None else mechanism.verdict.ratios
    return f"{level} for all {ratios:,} ratios, checked one by one"


def _optimum(built: wh.Build) -> str | None:
    """Say how near a mechanism is to the optimum; None where nothing is known."""
    if built.gap is None or built.lower_bound_km is None:
        return None
    if built.gap <= _PROVED:
        least, gap = km(built.lower_bound_km), max(built.gap, 0.0)
        return f"proved: with this privacy, no loss is below {least} (gap {gap:.1e})"
    if built.lower_bound_km <= 0:
        return "not proved; how near this mechanism is to it is not known yet"
    if (built.dilation or 1) > 1 and (built.program_gap or 1.0) <= _PROVED:
        why = "the best for this dilation; with dilation 1"
    else:
        why = "not proved; with this privacy"
    return (
        f"{why}, the loss could be up to {built.gap:.1%} smaller, but not below "
        f"{km(built.lower_bound_km)}"
    )


def solve_progress(now: Progress, tolerance: float) -> tuple[str, float]:
    """Say how far a solve has come, the gap first, and which share of the way that is."""
    reached = -math.log10(min(max(now.gap, 1e-12), 1.0))
    words = f"gap {now.gap:.1e}, {km(now.loss)} off, step {now.iteration}"
    return words, min(1.0, reached / -math.log10(min(tolerance, 0.1)))
