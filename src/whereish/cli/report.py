"""What a profile, a mechanism or a comparison looks like to a person, and as JSON facts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.table import Table

import whereish as wh
from whereish.cli.console import say
from whereish.cli.words import km
from whereish.places import Array
from whereish.studies import Row


def comparison_table(rows: list[Row]) -> Table:
    """Make the table that `compare` and the demo show."""
    table = Table(title_justify="left", header_style="bold")
    table.add_column("mechanism", no_wrap=True)
    for heading in ("epsilon / km", "quality loss", "adversary error", "95% within"):
        table.add_column(heading, justify="right")
    for row in rows:
        if row.problem is not None:
            reason = row.problem if len(row.problem) <= 60 else row.problem[:57] + "..."
            table.add_row(row.name, "-", "-", "-", reason)
            continue
        promised = "none" if row.epsilon_per_km is None else f"{row.epsilon_per_km:.3f}"
        losses = (row.quality_loss_km, row.adversary_error_km, row.report_radius_95_km)
        table.add_row(row.name, promised, *(km(loss or 0.0) for loss in losses))
    return table


def facts_of(mechanism: wh.Mechanism, prior: Array) -> dict[str, Any]:
    """Collect what --json prints of a mechanism under a prior."""
    built = mechanism.build
    tightest = wh.tightest_epsilon(mechanism)
    return {
        "method": built.method,
        "places": len(mechanism.inputs),
        "outputs": len(mechanism.outputs),
        "epsilon_per_km": mechanism.epsilon,
        "tightest_epsilon_per_km": float(tightest),
        "tightest_pair": list(tightest.pair),
        "tightest_output": tightest.output,
        "private": mechanism.epsilon is not None,
        "ratio_2_within_km": None if not mechanism.epsilon else math.log(2) / mechanism.epsilon,
        "quality_loss_km": wh.quality_loss(mechanism, prior),
        "adversary_error_km": wh.adversary_error(mechanism, prior),
        "constraints": built.constraints,
        "variables": built.variables,
        "edges": built.edges,
        "dilation": built.dilation,
        "requested_dilation": built.requested_dilation,
        "solver": built.solver,
        "form": built.form,
        "seconds": built.seconds,
        "repair_mix": built.repair_mix,
        "repair_cost_km": built.repair_cost_km,
        "ratios_checked": mechanism.verdict.ratios if mechanism.verdict else 0,
        "notes": list(built.notes),
    }


def say_profile(who: wh.Profile) -> None:
    """Say how many places there are and how large the area is."""
    width, height = np.ptp(who.places.xy, axis=0)
    extent = f"{len(who.places):,} places within {width:.3g} x {height:.3g} km"
    if who.places.plane is not None:
        extent += f" (the plane is off by at most {who.places.projection_error:.1g} of a distance)"
    say(extent)


def say_mechanism(mechanism: wh.Mechanism, facts: dict[str, Any]) -> None:
    """Say what a mechanism promises, what was checked and what it costs."""
    built = mechanism.build
    say()
    if built.constraints is not None:
        say(
            f"  solved        {built.constraints:,} constraints, {built.variables:,} variables "
            f"by {built.solver} in {built.seconds:.2f} s"
        )
    for note in built.notes:
        say(f"                {note}")
    if mechanism.verdict is None:
        say("  privacy       no epsilon is promised")
    else:
        say(
            f"  privacy       epsilon {mechanism.epsilon:.4g} per km holds for all "
            f"{mechanism.verdict.ratios:,} ratios, checked one by one"
        )
    say(f"  quality loss  a report is {km(facts['quality_loss_km'])} off on average")
    unit = facts.get("adversary_error_unit", "km")
    error = facts["adversary_error_km"]
    if unit == "km":
        say(f"  adversary     who knows the prior and guesses best is {km(error)} off on average")
    else:
        say(
            f"  adversary     who knows the prior and guesses best is wrong {error:.1%} of the time"
        )
