"""A lower bound on the quality loss by partition, for more places than an exact solve allows.

The places are cut into parts. For each part, the least loss of its places is bounded, with the
privacy constraints inside the part only. Every private mechanism satisfies these constraints, and
its loss is the sum over the parts. So the sum of the bounds is a lower bound for all places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.deadline import Deadline
from whereish.errors import InputError
from whereish.limits import BOUND_S, BOUND_TOLERANCE, LARGE_PLACES
from whereish.measures import Proof, loss_between, quality_loss, relative_gap
from whereish.mechanisms.large_bound import (
    allowed_seconds,
    large_bound,
    local_program,
    with_bound,
)
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.price_bound import Problem
from whereish.places import Array, as_number, as_prior
from whereish.programs import greedy_spanner
from whereish.release import prune
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
    """Return a proof of a lower bound within a time limit, and the bound.

    Parts with more probability come first. Parts for which there is no time have the bound 0.
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
    return prune(proof, prior, loss, metric)


def _largest_part(n: int, time_limit_s: float | None) -> int:
    """Return the largest size of a part: larger parts give a better bound and take longer."""
    allowed = BOUND_S if time_limit_s is None else time_limit_s
    size = _SMALLEST_PART
    while size < n and n / size * estimate(2 * size, 2 * size, 0).seconds < allowed:
        size *= 2
    return size


def _cut(metric: Array, places: NDArray[np.int64], largest: int) -> list[NDArray[np.int64]]:
    """Halve a set of places between two distant ones, until every part is small enough."""
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
    """Return the same mechanism with a lower bound on the loss and its optimality gap.

    For a closed form, or any other mechanism with an epsilon: ``build.lower_bound_km`` is a lower
    bound on the loss of every mechanism with the same privacy under this prior, and ``build.gap``
    the relative gap to it. The bound is computed by partition (see docs/theory/solver.md); from 500
    places on from prices (see docs/proofs/price-bound.md).

    Parameters
    ----------
    quality_metric
        (inputs, outputs) d_Q; Euclidean distance if not given.
    progress
        Called with the number of parts that are done, and of all parts.
    tolerance
        The relative gap at which the solve of a part ends.
    """
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"how_far needs a Mechanism, got {type(mechanism).__name__}")
    if time_limit_s is not None:
        as_number("time_limit_s", time_limit_s, unit="seconds")
    if mechanism.epsilon is None or mechanism.privacy_metric is None:
        raise InputError("how_far needs a mechanism with an epsilon, got one without")
    weights = as_prior(prior, len(mechanism.inputs))
    loss = loss_between("quality_metric", quality_metric, mechanism.inputs, mechanism.outputs)
    as_number("tolerance", tolerance)
    if len(weights) >= LARGE_PLACES:
        problem = Problem(weights, loss, mechanism.epsilon, mechanism.privacy_metric)
        seconds = allowed_seconds(len(weights), time_limit_s)
        deadline = Deadline(seconds)
        local = local_program(problem, deadline, progress)
        own_loss = quality_loss(mechanism, weights, loss)
        found = large_bound(problem, local, own_loss, deadline, progress)
        if found is not None:
            return with_bound(mechanism, problem, found)
    proof, bound = proof_by_parts(
        weights, loss, mechanism.epsilon, mechanism.privacy_metric, time_limit_s, progress,
        tolerance,
    )  # fmt: skip
    bound = max(bound, 0.0)
    own_loss = quality_loss(mechanism, weights, loss)
    build = replace(mechanism.build, lower_bound_km=bound, gap=relative_gap(own_loss, bound))
    return mechanism.with_metadata(build, proof)
