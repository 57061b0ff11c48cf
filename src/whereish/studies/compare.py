"""Mechanisms side by side for one profile and one privacy level.

Most are private between places: a raw point is moved to the nearest place first. Some are private
between any two points. All are measured twice: at the places under the prior, and at the visited
points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from whereish.errors import WhereishError
from whereish.estimation import expected_map_error
from whereish.everywhere import (
    AnyMechanism,
    Everywhere,
    at_visited_points,
    guess_error,
    loss_of,
    tightest_epsilon_everywhere,
    visits_in,
)
from whereish.limits import DILATION
from whereish.measures import (
    adversary_error,
    conditional_entropy,
    quality_loss,
    report_radius,
    tightest_epsilon,
    worst_case_loss,
)
from whereish.mechanisms import MECHANISMS, Mechanism, Request, optimal
from whereish.places import Array, Places
from whereish.profiles import Profile

Guarantee = Literal["places", "everywhere"]
VERTICES = 300  # of a lattice in a comparison: a second instead of some, and 1 to 10 % more loss


@dataclass(frozen=True)
class Row:
    """One mechanism, measured. ``problem`` says why there are no numbers, if there are none.

    The measures are those at the places of the profile, under its prior. ``point_loss_km`` is the
    expected loss at the visited points, or at the places if the profile has none. ``guarantee``
    says what epsilon is between: "places", or "everywhere" for any two points; None if there is no
    epsilon. ``map_error`` is the expected total variation between the prior and its estimate from
    10,000 reports (`whereish.expected_map_error`).
    """

    name: str
    mechanism: AnyMechanism | None = None
    epsilon_per_km: float | None = None
    tightest_epsilon_per_km: float | None = None
    quality_loss_km: float | None = None
    adversary_error_km: float | None = None
    worst_case_loss_km: float | None = None
    report_radius_95_km: float | None = None
    conditional_entropy_bits: float | None = None
    constraints: int | None = None
    variables: int | None = None
    edges: int | None = None
    dilation: float | None = None
    solver: str | None = None
    seconds: float | None = None
    problem: str | None = None
    guarantee: Guarantee | None = None
    point_loss_km: float | None = None
    map_error: float | None = None


def measure(name: str, mechanism: Mechanism, profile: Profile) -> Row:
    """Take every measure of one mechanism under a profile's prior."""
    return Row(
        name=name,
        mechanism=mechanism,
        epsilon_per_km=mechanism.epsilon,
        tightest_epsilon_per_km=tightest_epsilon(mechanism),
        quality_loss_km=quality_loss(mechanism, profile.prior),
        adversary_error_km=adversary_error(mechanism, profile.prior),
        worst_case_loss_km=worst_case_loss(mechanism),
        report_radius_95_km=report_radius(mechanism, profile.prior, 0.95),
        conditional_entropy_bits=conditional_entropy(mechanism, profile.prior),
        constraints=mechanism.build.constraints,
        variables=mechanism.build.variables,
        edges=mechanism.build.edges,
        dilation=mechanism.build.dilation,
        solver=mechanism.build.solver,
        seconds=mechanism.build.seconds,
        guarantee=None if mechanism.epsilon is None else "places",
        point_loss_km=snapped_loss(mechanism, points_of(profile)),
        map_error=expected_map_error(mechanism, profile.prior),
    )


def measure_everywhere(name: str, mechanism: Everywhere, profile: Profile) -> Row:
    """Take every measure of a mechanism for all points: at the places, and at the points."""
    places = profile.places.in_plane_of(mechanism.outputs)
    rows = mechanism.probabilities(places.xy if places.latlon is None else places.latlon)
    there = Mechanism(rows / rows.sum(axis=1, keepdims=True), places, mechanism.outputs)
    at_places = visits_in(mechanism, profile.places, profile.prior)
    points = points_of(profile)
    built = mechanism.build
    return Row(
        name=name,
        mechanism=mechanism,
        epsilon_per_km=mechanism.epsilon,
        tightest_epsilon_per_km=float(tightest_epsilon_everywhere(mechanism)),
        quality_loss_km=loss_of(mechanism, at_places),
        adversary_error_km=guess_error(*at_visited_points(mechanism, at_places)),
        worst_case_loss_km=worst_case_loss(there),
        report_radius_95_km=report_radius(there, profile.prior, 0.95),
        conditional_entropy_bits=conditional_entropy(there, profile.prior),
        constraints=built.constraints,
        variables=built.variables,
        solver=built.solver,
        seconds=built.seconds,
        guarantee="everywhere",
        point_loss_km=loss_of(mechanism, visits_in(mechanism, points.places, points.prior)),
        map_error=expected_map_error(there, profile.prior),
    )


def points_of(profile: Profile) -> Profile:
    """Return the visited points as places; the places themselves if there are none."""
    return profile if profile.visited is None else profile.as_points


def snapped_loss(mechanism: Mechanism, points: Profile) -> float:
    """Return the loss of a mechanism between places at raw points, in km.

    The sum over the points x and outputs z of weight(x) k(s(x), z) |x - z|, where s(x) is the place
    nearest to x.
    """
    xy = points.places.in_plane_of(mechanism.inputs).xy
    _, nearest = mechanism.inputs.tree.query(xy)
    outputs, total = _in_plane(mechanism.outputs, mechanism.inputs), 0.0
    for x, place, weight in zip(xy, nearest, points.prior, strict=True):
        total += weight * float(mechanism.matrix[place] @ np.hypot(*(outputs - x).T))
    return total


def _in_plane(outputs: Places, inputs: Places) -> Array:
    return outputs.xy if outputs.plane == inputs.plane else outputs.in_plane_of(inputs).xy


def compare(
    profile: Profile,
    epsilon: float,
    dilation: float = DILATION,
    solver: str = "auto",
    time_limit_s: float | None = None,
    *,
    everywhere: bool = True,
    tell: Callable[[str], object] = lambda name: None,
) -> Iterator[Row]:
    """Build and measure the mechanisms of the paper and its peers, one row at a time.

    First those with the same epsilon between places, then those with this epsilon between any two
    points, then those with the same quality loss as the optimal one (Section 4.2), in the order of
    the registry. One that does not exist or cannot be solved is a row that says so.

    Parameters
    ----------
    everywhere
        Whether mechanisms with a guarantee between any two points are compared too. They are built
        for the visited points, or for the places of a profile without them.
    tell
        Called with the name of each row before it is built.
    """
    tell("optimal")
    best = optimal(
        profile.places, profile.prior, epsilon, dilation, solver=solver, time_limit_s=time_limit_s
    )
    if best.build.stopped == "asked":
        raise KeyboardInterrupt  # half an optimum is nothing to compare with
    yield measure("optimal", best, profile)
    asked = Request(
        profile.places, profile.prior, epsilon, quality_loss(best, profile.prior), dilation,
        solver=solver, time_limit_s=time_limit_s,
    )  # fmt: skip
    points = points_of(profile)
    at_points = replace(asked, places=points.places, prior=points.prior, vertices=VERTICES)
    for row in other_mechanisms():
        if row.guarantee == "everywhere" and not everywhere:
            continue
        tell(row.name)
        try:
            made = row.make(at_points if row.guarantee == "everywhere" else asked)
            if isinstance(made, Mechanism):
                yield measure(row.name, made, profile)
            else:
                yield measure_everywhere(row.name, made, profile)
        except WhereishError as wrong:
            yield Row(row.name, problem=str(wrong), guarantee=row.guarantee)


@dataclass(frozen=True)
class Listed:
    """A mechanism of the registry as a row: name, what epsilon is between, words, constructor."""

    name: str
    guarantee: Guarantee | None
    about: str
    make: Callable[[Request], AnyMechanism]


def other_mechanisms() -> Iterator[Listed]:
    """List the rows after the first, in their order."""
    shown = [entry for entry in MECHANISMS.values() if entry.title and entry.name != "exact"]
    private = [(entry, make) for entry in shown if (make := entry.for_epsilon) is not None]
    for entry, make in private:
        if entry.remaps:
            name, about = f"{entry.title} + remap", f"{entry.about}; then the best guess"
            yield Listed(name, "places", about, partial(_remapped, make))
    for entry, make in private:
        yield Listed(str(entry.title), "places", entry.about, make)
    for entry in shown:
        if entry.for_points is not None:
            yield Listed(str(entry.title), "everywhere", entry.about, entry.for_points)
    for entry in shown:
        if entry.for_loss is not None:
            between: Guarantee | None = None if entry.for_epsilon is None else "places"
            name, about = f"{entry.title}, equal loss", f"{entry.about}; the optimal one's loss"
            yield Listed(name, between, about, entry.for_loss)


def _remapped(make: Callable[[Request], Mechanism], asked: Request) -> Mechanism:
    return make(asked).remap(asked.prior)
