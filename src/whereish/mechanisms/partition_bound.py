"""A lower bound on the loss for more places than an exact solve can take: part by part.

Cut the places into parts, and ask of each part alone how little its share of the loss can be,
with the pairs inside the part. Every private mechanism obeys those pairs, and its loss is the sum
over the parts: so the sum of the parts' lower bounds is a lower bound of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.deadline import Deadline
from whereish.errors import InputError
from whereish.limits import BOUND_S, BOUND_TOLERANCE
from whereish.measures import Proof, loss_between, lower_bound, quality_loss, relative_gap
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, as_number, as_prior
from whereish.programs import greedy_spanner
from whereish.solvers import Multipliers, estimate, solve_structured

_SMALLEST_PART = 50


def proof_by_parts(
    prior: Array,
    loss: Array,
    epsilon: float,
    metric: Array,
    time_limit_s: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    tolerance: float = BOUND_TOLERANCE,
) -> tuple[Proof, float]:
    """Return the best proof of a lower bound that the time allows, and the bound.

    Parts that the time does not allow for count 0. Heavier parts come first.
    """
    deadline = Deadline(time_limit_s)
    largest = _largest_part(len(loss), time_limit_s)
    parts = _cut(metric, np.arange(len(metric)), largest)
    parts.sort(key=lambda part: -prior[part].sum())
    found: list[Multipliers] = []
    for number, part in enumerate(parts):
        if progress is not None:
            progress(number, len(parts))
        if deadline.passed:
            break
        if len(part) < 2:
            continue
        inside, names = metric[np.ix_(part, part)], part.astype(np.int32)
        spanner = greedy_spanner(inside, 1.0)
        solved = solve_structured(
            prior[part], loss[part], spanner.edges, epsilon * spanner.lengths, epsilon * inside,
            tolerance, deadline.seconds,
        )  # fmt: skip
        y = solved.multipliers
        found.append(Multipliers(y.output, names[y.left], names[y.right], y.value))
        if solved.stopped == "asked":
            break
    none = np.empty(0, np.int32)
    proof = Proof(
        epsilon,
        np.concatenate([none, *(one.output for one in found)]),
        np.concatenate([none, *(one.left for one in found)]),
        np.concatenate([none, *(one.right for one in found)]),
        np.concatenate([np.empty(0), *(one.value for one in found)]),
    )
    return proof, lower_bound(proof, prior, loss, metric)


def _largest_part(n: int, time_limit_s: float | None) -> int:
    """Return how large parts may be: the larger, the better the bound, and the longer it takes."""
    allowed = BOUND_S if time_limit_s is None else time_limit_s
    size = _SMALLEST_PART
    while size < n and n / size * estimate(2 * size, 2 * size, 0).seconds < allowed:
        size *= 2
    return size


def _cut(metric: Array, places: NDArray[np.int64], largest: int) -> list[NDArray[np.int64]]:
    """Halve a set of places, between two far ends, until every part is small enough."""
    if len(places) <= largest:
        return [places]
    one = places[metric[places[0], places].argmax()]
    other = places[metric[one, places].argmax()]
    order = places[np.argsort(metric[one, places] - metric[other, places], kind="stable")]
    half = len(order) // 2
    return _cut(metric, np.sort(order[:half]), largest) + _cut(
        metric, np.sort(order[half:]), largest
    )


def how_far(
    mechanism: Mechanism,
    prior: ArrayLike,
    quality_metric: ArrayLike | None = None,
    *,
    time_limit_s: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    tolerance: float = BOUND_TOLERANCE,
) -> Mechanism:
    """Return a mechanism with the best lower bound on the loss that can be afforded.

    For mechanisms in closed form, or any other with an epsilon: how much better could one with the
    same privacy be under this prior? ``build.lower_bound_km`` and ``build.gap`` say; the
    bound is one part of the places after another, see docs/theory/solver.md.

    Parameters
    ----------
    quality_metric
        (inputs, outputs) d_Q; Euclidean distance if not given.
    progress
        Called with how many parts are done, and how many there are.
    tolerance
        How near to the best bound of each part is near enough.
    """
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"how_far needs a Mechanism, got {type(mechanism).__name__}")
    if time_limit_s is not None:
        as_number("time_limit_s", time_limit_s, unit="seconds")
    if mechanism.epsilon is None or mechanism.privacy_metric is None:
        raise InputError("how_far needs a mechanism with an epsilon, got one that promises none")
    weights = as_prior(prior, len(mechanism.inputs))
    loss = loss_between("quality_metric", quality_metric, mechanism.inputs, mechanism.outputs)
    proof, bound = proof_by_parts(
        weights, loss, mechanism.epsilon, mechanism.privacy_metric, time_limit_s, progress,
        as_number("tolerance", tolerance),
    )  # fmt: skip
    bound = max(bound, 0.0)
    now = quality_loss(mechanism, weights, loss)
    build = replace(mechanism.build, lower_bound_km=bound, gap=relative_gap(now, bound))
    return mechanism.telling(build, proof)
