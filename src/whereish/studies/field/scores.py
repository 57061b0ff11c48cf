"""Every measure of one mechanism, for the prior it was built for and for others."""

from __future__ import annotations

import numpy as np

from whereish.errors import InputError
from whereish.everywhere import (
    AnyMechanism,
    tightest_epsilon_everywhere,
)
from whereish.measures import (
    Channel,
    adversary_error,
    exact_tightest_epsilon,
    quality_loss,
    worst_case_loss,
)
from whereish.mechanisms import Mechanism
from whereish.places import Array, Places
from whereish.studies.field.map_error import REPORTS, map_error
from whereish.studies.runs import Row

PLACES, POINTS, NONE, OTHER_METRIC = "places", "any points", "none", "another metric"
# The measures of a row, in the order of the page.
MEASURES = (
    "tightest_epsilon_per_km", "loss_km", "worst_case_loss_km", "adversary_error_km",
    "adversary_error_uniform_km", "adversary_error_other_km", "right_guess", "map_error", "cpu_s",
)  # fmt: skip


def scores(
    made: AnyMechanism,
    places: Places,
    prior: Array,
    other: Array | None,
    seed: list[int],
    reports: int = REPORTS,
) -> Row:
    """Return the measures of a mechanism at some places.

    The adversary guesses one of the places. A mechanism for all points is measured at the places.

    Parameters
    ----------
    prior, other
        That of the build, and another person's, or None.
    seed
        Of the reports for the map.
    """
    there = at_places(made, places)
    uniform = np.full(len(places), 1 / len(places))
    return {
        "guarantee": guarantee(made),
        "epsilon_per_km": made.epsilon if guarantee(made) in (PLACES, POINTS) else None,
        "tightest_epsilon_per_km": tightest(made),
        "loss_km": quality_loss(there, prior),
        "worst_case_loss_km": worst_case_loss(there),
        "adversary_error_km": adversary_error(there, prior),
        "adversary_error_uniform_km": adversary_error(there, uniform),
        "adversary_error_other_km": None if other is None else adversary_error(there, other),
        "right_guess": right_guess(there, prior),
        "map_error": map_error(there.matrix, prior, np.random.default_rng(seed), reports),
    }


def at_places(made: AnyMechanism, places: Places) -> Channel:
    """Return a mechanism as a matrix from these places."""
    if isinstance(made, Mechanism):
        if not made.inputs.same_as(places):
            raise InputError("the inputs of a mechanism must be the places of the study")
        return made
    here = places.in_plane_of(made.outputs)
    rows = made.probabilities(here.xy if here.latlon is None else here.latlon)
    return Mechanism(rows / rows.sum(axis=1, keepdims=True), here, made.outputs)


def guarantee(made: AnyMechanism) -> str:
    """Return what the checked epsilon of a mechanism is between."""
    if made.epsilon is None:
        return NONE
    if isinstance(made, Mechanism):
        return PLACES if made.is_per_km else OTHER_METRIC
    return POINTS


def tightest(made: AnyMechanism) -> float:
    """Return the tightest epsilon, per km of Euclidean distance, from the integer counts.

    Between places, or between any two points for a mechanism for all points. Planar Laplace noise
    for all points has no table of counts: its epsilon is that of the noise.
    """
    if isinstance(made, Mechanism):
        return float(exact_tightest_epsilon(made.counts, made.inputs.xy))
    return float(tightest_epsilon_everywhere(made))


def right_guess(mechanism: Channel, prior: Array) -> float:
    """Return how often the likeliest place is the true one: sum_z max_x prior(x) k(x, z)."""
    return float((prior[:, None] * mechanism.matrix).max(axis=0).sum())
