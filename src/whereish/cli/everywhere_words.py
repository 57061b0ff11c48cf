"""What the command line says about a mechanism with a guarantee for every point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import whereish as wh
from whereish.cli.console import say
from whereish.cli.presentation import STOPPED, everywhere_facts, extent
from whereish.cli.words import saved
from whereish.everywhere import Everywhere, at_visited_points, visits_in
from whereish.places import Array
from whereish.units import km


def say_points(points: wh.Places) -> None:
    """Say how many visited points there are and how large the area is."""
    width, height = np.ptp(points.xy, axis=0)
    say(f"{len(points):,} visited points within {extent(width)} x {extent(height)} km")


def everywhere_in_words(epsilon: float) -> str:
    """Say what an epsilon means between all points."""
    apart = math.log(2) / epsilon
    return (
        f"epsilon {epsilon:.4g} per km: for any two points {km(apart)} apart, wherever they are, "
        f"no report is more than 2 times likelier from one than from the other ({km(2 * apart)}: "
        "4 times)"
    )


def build_facts(mechanism: Everywhere, points: wh.Places, weights: Array) -> dict[str, Any]:
    """Collect what --json prints of a mechanism for visited points."""
    visits = visits_in(mechanism, points, weights)
    return everywhere_facts(mechanism, visits, *at_visited_points(mechanism, visits)) | {
        "guarantee": "everywhere",
        "kind": "lattice" if isinstance(mechanism, wh.EverywhereMechanism) else "planar-laplace",
        "vertices": (
            len(mechanism.lattice) if isinstance(mechanism, wh.EverywhereMechanism) else None
        ),
    }


def say_everywhere(mechanism: Everywhere, facts: dict[str, Any]) -> None:
    """Say what a mechanism promises, what was checked, what it costs, and which one was better."""
    built, loss_km = mechanism.build, facts["quality_loss_km"]
    say()
    if isinstance(mechanism, wh.EverywhereMechanism):
        took = "" if built.seconds is None else f" in {built.seconds:.2f} s"
        say(
            f"  solved        a lattice of {len(mechanism.lattice):,} vertices with "
            f"{len(mechanism.outputs)} outputs{took}"
        )
        checked = f"{mechanism.verdict.corners:,} corners, checked one by one in exact integers"
    else:
        say(f"  built         planar Laplace noise, then one of {len(mechanism.outputs)} outputs")
        checked = "the noise is drawn in exact integers"
    say(
        f"  privacy       for any two points, wherever they are: epsilon {mechanism.epsilon:.4g} "
        f"per km ({checked})"
    )
    if built.stopped is not None:
        why = STOPPED.get(built.stopped, "early")
        say(f"  stopped       {why}, with the best mechanism so far; its privacy is complete")
    say(f"  quality loss  a report is {km(loss_km)} off on average")
    guess = km(facts["adversary_error_km"])
    say(f"  adversary     the best guess of an adversary who knows the points is {guess} off")
    for words in _bounds(built):
        say(f"  bound         {words}")
    if built.other_loss_km is not None:
        say(f"  chosen        {_chosen(mechanism, loss_km, built.other_loss_km)}")


def _bounds(built: wh.EverywhereBuild) -> list[str]:
    """Say both lower bounds, as far as they are known."""
    found = []
    if built.program_bound_km is not None:
        gap = max(built.program_gap or 0.0, 0.0)
        found.append(
            f"on this lattice, with these outputs, no loss is below {km(built.program_bound_km)} "
            f"(gap {gap:.1e})"
        )
    if built.lower_bound_km is not None:
        gap = max(built.gap or 0.0, 0.0)
        found.append(
            "on any lattice or none, with this privacy and these outputs, no loss is below "
            f"{km(built.lower_bound_km)} ({gap:.1%} less)"
        )
    return found


def _chosen(mechanism: Everywhere, loss_km: float, other_km: float) -> str:
    """Say which of the two mechanisms was better, and by how much."""
    if isinstance(mechanism, wh.EverywhereMechanism):
        return (
            f"the optimal lattice, {saved(loss_km, other_km)} than planar Laplace with the best "
            f"remap ({km(other_km)})"
        )
    return (
        f"planar Laplace with the best remap: the optimal lattice loses {km(other_km)}; more "
        "--vertices may be better"
    )
