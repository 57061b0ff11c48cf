"""Mechanisms for sets of places that are too large for an exact solve, with a lower bound.

Steps: a coarser program (`coarse`), a mechanism from it (`lifted`) or in closed form, whichever
loses less, and a lower bound from its prices (`price_bound`). Each step is made smaller if there
is less time: fewer clusters, no mechanism from them, a less thorough proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from whereish.deadline import Deadline
from whereish.errors import GuaranteeError, SolveError
from whereish.limits import BOUND_PLACES, BOUND_POWER, BOUND_S
from whereish.measures import Proof, relative_gap, streamed_bound
from whereish.mechanisms.build import Build
from whereish.mechanisms.coarse import Coarse, solve_coarse
from whereish.mechanisms.lifted import lifted_matrix
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.price_bound import (
    EFFORTS,
    Problem,
    improved,
    pass_seconds,
    proofs,
)
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import Array, Places
from whereish.solvers import Progress as SolverProgress
from whereish.solvers import estimate
from whereish.solvers.estimates import estimate_closed_form

Progress = Callable[[int, int], object]

_SIZES = (500, 400, 350, 300, 250, 200, 150, 100, 60)  # clusters of the program for all places
_WHOLE_SHARE = 0.3  # of the time, for the program of all places
_COARSE_S = 0.5  # of the estimated time of a solve, which is for a smaller gap
_CLUSTERING_S = 7e-8  # seconds to choose clusters, times the square of the number of places
_LIFT_SHARE = 0.45  # of the time left, for a mechanism from its optimum
_FORM_SHARE = 0.3  # of the time left, for a closed form that may lose less
_FORM_S = 0.2  # of its estimated time, which is for a busy machine
_SAFE = 1.25  # a pass may take this many times its estimate
_LARGEST_GAP = 0.1  # of a coarser program that is preferred to the smallest one
# Above this, in units of 1 / eps, a closed form loses less than what the optimum of the clusters
# gives.
_TOO_COARSE = 1.0
# A proof with more multipliers, or for more pairs of places and outputs, is not kept.
_KEPT_ROWS, _KEPT_PAIRS = 5_000_000, 10_000_000


def allowed_seconds(n: int, time_limit_s: float | None) -> float:
    """Return the time of all steps: the limit, or where there is none what n places may take."""
    if time_limit_s is not None:
        return time_limit_s
    return float(BOUND_S * max(1.0, n / BOUND_PLACES) ** BOUND_POWER)


def whole_program(problem: Problem, seconds: float) -> tuple[Coarse | None, float]:
    """Solve one coarser program for all places, as large as the time allows.

    The smallest one comes first. It tells how fast the machine is now, and it is there if there is
    no time for a larger one. Also returns how many times longer than expected it took.
    """
    deadline = Deadline(seconds * _WHOLE_SHARE)
    clustering = _CLUSTERING_S * len(problem.prior) ** 2

    def expected(clusters: int) -> float:
        return clustering + _COARSE_S * estimate(clusters, clusters, 0).seconds

    smallest = min(_SIZES)
    start = time.perf_counter()
    # There is no bound without it, and it is small.
    first = solve_coarse(*_parts(problem), smallest)
    slow = max(1.0, (time.perf_counter() - start) / expected(smallest))
    clusters = next((c for c in _SIZES if slow * expected(c) <= deadline.left), smallest)
    if clusters > smallest and len(problem.prior) > smallest:
        found = solve_coarse(*_parts(problem), clusters, max(deadline.left, 0.0))
        # A solve that was ended early may have prices that are worse than coarse ones.
        if found is not None and (first is None or found.gap < _LARGEST_GAP):
            return found, slow
    return first, slow


def _coarseness(problem: Problem, whole: Coarse) -> float:
    """Return the expected distance of a place to the medoid of its cluster, in units of 1 / eps."""
    away = problem.metric[np.arange(len(problem.prior)), whole.medoids[whole.cluster]]
    return float(problem.epsilon * (problem.prior @ away))


def _parts(problem: Problem) -> tuple[Array, Array, float, Array]:
    return problem.prior, problem.loss, problem.epsilon, problem.metric


@dataclass(frozen=True, eq=False)
class PriceBound:
    """A lower bound, its proof if that is small enough, and how many multipliers prove it."""

    bound: float
    proof: Proof | None
    multipliers: int


def price_bound(
    problem: Problem, whole: Coarse, deadline: Deadline, progress: Progress | None = None
) -> PriceBound:
    """Bound the loss of every private mechanism.

    Where a thorough proof would be late, a less thorough one is made. The least thorough one is
    made at any rate: it takes a small part of the time of the mechanism itself.
    """
    decay, prices = problem.decay(), whole.prices
    effort, pass_s, proof_s = EFFORTS[-1], 0.0, 0.0
    if not deadline.passed:
        for effort in EFFORTS:
            pass_s, proof_s = pass_seconds(problem, prices, decay, effort)
            if deadline.left > _SAFE * proof_s:
                break
    if deadline.left > pass_s + proof_s or effort == EFFORTS[-1]:
        ready = deadline.earlier(_SAFE * proof_s)
        prices = improved(problem, prices, decay, progress, ready, effort)
    kept: list[Proof] = []
    n, m = problem.loss.shape
    count = 0

    def parts() -> Iterator[Proof]:
        nonlocal count
        for part in proofs(problem, prices, decay, effort, deadline):
            count += len(part.value)
            if n * m <= _KEPT_PAIRS and count <= _KEPT_ROWS:
                kept.append(part)
            else:
                kept.clear()
            yield part

    bound = max(0.0, streamed_bound(parts(), problem.prior, problem.loss, problem.metric))
    proof = None
    if kept and sum(len(part.value) for part in kept) == count:
        proof = Proof(
            problem.epsilon,
            np.concatenate([part.output for part in kept]),
            np.concatenate([part.left for part in kept]),
            np.concatenate([part.right for part in kept]),
            np.concatenate([part.value for part in kept]),
        )
    return PriceBound(bound, proof, count)


def with_bound(
    mechanism: Mechanism,
    problem: Problem,
    whole: Coarse | None,
    deadline: Deadline,
    progress: Progress | None = None,
) -> Mechanism:
    """Return a mechanism with a lower bound from prices and its gap."""
    if whole is None:
        notes = (*mechanism.build.notes, "there was no time for a lower bound")
        return mechanism.with_metadata(replace(mechanism.build, notes=notes))
    found = price_bound(problem, whole, deadline, progress)
    note = f"the lower bound is from the prices of {len(whole.medoids)} clusters of places"
    if found.proof is None:
        note += f"; its proof of {found.multipliers:,} multipliers was checked and is not kept"
    loss = _loss(mechanism, problem)
    build = replace(
        mechanism.build, lower_bound_km=found.bound, gap=relative_gap(loss, found.bound),
        notes=(*mechanism.build.notes, note),
    )  # fmt: skip
    return mechanism.with_metadata(build, found.proof)


def large_mechanism(
    inputs: Places,
    targets: Places,
    problem: Problem,
    closed: Callable[[], Mechanism],
    time_limit_s: float | None,
    *,
    lift: bool,
    progress: Callable[[SolverProgress], object] | None = None,
) -> Mechanism:
    """Build a mechanism for a large set of places, with a lower bound on the loss of every other.

    Parameters
    ----------
    closed
        Builds the closed form.
    lift
        Whether a mechanism of a coarser program may replace the closed form.
    """
    start = time.perf_counter()
    n, m = problem.loss.shape
    steps, silent = 0, float((problem.prior @ problem.loss).min())

    def tell(_done: int, _all: int) -> None:
        nonlocal steps
        steps += 1
        if progress is not None:
            # Nothing is known yet, but that the best constant report is private and loses this.
            progress(SolverProgress(steps, silent, 0.0, 1.0, m, 0))

    deadline = Deadline(allowed_seconds(n, time_limit_s))
    found = None
    if not lift:
        found = closed()
        if time_limit_s is None:
            deadline = Deadline(allowed_seconds(n, None))
    whole, slow = whole_program(problem, max(deadline.left, 0.0))
    if lift and whole is not None and _coarseness(problem, whole) < _TOO_COARSE:
        until = Deadline(_LIFT_SHARE * deadline.left)
        found = _lifted(inputs, targets, problem, whole, tell, until)
    form_s = slow * _FORM_S * estimate_closed_form(n, m).seconds
    if found is None or (lift and form_s < _FORM_SHARE * deadline.left):
        other = closed()
        if found is None or _loss(other, problem) <= _loss(found, problem):
            found = other
    found = with_bound(found, problem, whole, deadline, tell)
    build = replace(found.build, seconds=time.perf_counter() - start)
    return found.with_metadata(build, found.proof)


def _loss(mechanism: Mechanism, problem: Problem) -> float:
    rows = zip(problem.prior, problem.loss, mechanism.matrix, strict=True)
    return float(sum(weight * (row @ chances) for weight, row, chances in rows))


def _lifted(
    inputs: Places, targets: Places, problem: Problem, whole: Coarse,
    progress: Progress | None, deadline: Deadline,
) -> Mechanism | None:  # fmt: skip
    matrix = lifted_matrix(
        problem.prior, problem.loss, problem.epsilon, problem.metric, whole, progress, deadline
    )
    if matrix is None:
        return None
    note = f"extended from the optimum of {len(whole.medoids)} clusters of places"
    try:
        return repair_and_check(
            matrix, inputs, targets, problem.epsilon, problem.metric,
            Build("coarse-optimal+remap", notes=(note,)),
        )  # fmt: skip
    except (GuaranteeError, SolveError):
        return None
