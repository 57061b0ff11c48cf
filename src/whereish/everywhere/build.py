"""The record of how a mechanism for all points of the plane was built."""

from __future__ import annotations

from dataclasses import dataclass

from whereish.mechanisms.build import Build
from whereish.units import hidden_in_words, km


@dataclass(frozen=True)
class EverywhereBuild(Build):
    """The record of how a mechanism for all points was built. A field that does not apply is None.

    ``variables``, ``constraints`` and ``program_gap`` refer to the program on the vertices of the
    lattice or the streets; ``repair_mix`` includes the share that was mixed in for the rounding.

    Attributes
    ----------
    loss_km
        The expected quality loss for the points and weights of the build, of the released counts.
    program_bound_km, program_gap
        A lower bound on the loss of every mechanism that is interpolated between these vertices and
        has these outputs, from the dual of the program; and the relative gap to it.
    lower_bound_km, gap
        A lower bound on the loss of every mechanism with this epsilon and these outputs, with any
        vertices or none, from the discrete program on visited points; and the relative gap to it.
    other_loss_km
        The expected loss of the alternative that was not returned: planar Laplace for a lattice
        mechanism, and the other way round.
    """

    loss_km: float | None = None
    program_bound_km: float | None = None
    other_loss_km: float | None = None


def everywhere_facts(epsilon: float, build: EverywhereBuild) -> list[tuple[str, str]]:
    """Return what a notebook shows of a mechanism for all points: its level and its loss."""
    rows = [
        ("epsilon", f"{epsilon:.4g} per km, between any two points of the plane"),
        ("what it hides", hidden_in_words(epsilon)),
    ]
    if build.loss_km is not None:
        rows.append(("loss", f"{km(build.loss_km)} on average"))
    return rows
