"""Mechanisms for sets of places that are too large for an exact solve, with a lower bound.

Where epsilon is large enough for columns that cover few places, the mechanism comes from programs
with small supports (`local`). Otherwise it is extended from the optimum of a coarser program
(`lifted`). If there is time, it is a closed form where that loses less. The lower bound is in
`large_bound`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from whereish.deadline import Deadline
from whereish.errors import GuaranteeError, SolveError
from whereish.mechanisms.build import Build
from whereish.mechanisms.coarse import Coarse
from whereish.mechanisms.large_bound import (
    Progress,
    allowed_seconds,
    large_bound,
    local_program,
    loss_of,
    whole_program,
    with_bound,
)
from whereish.mechanisms.lifted import lifted_matrix, private_matrix
from whereish.mechanisms.local import ROUNDS, Local, local_columns
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.price_bound import Problem
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import Array, Places
from whereish.solvers import Progress as SolverProgress
from whereish.solvers.estimates import estimate_closed_form

_MADE_SHARE = 0.85  # of the time left, for the mechanism from small supports
_LIFT_SHARE = 0.45  # of the time left, for a mechanism from its optimum
_FORM_SHARE = 0.3  # of the time left, for a closed form that may lose less
_FORM_S = 0.2  # of its estimated time, which is for a busy machine
# Above this, in units of 1 / eps, a closed form loses less than what the optimum of the clusters
# gives.
_TOO_COARSE = 1.0


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
        Whether another mechanism may replace the closed form.
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
    found, whole, slow = None, None, 1.0
    if not lift:
        found = closed()
        if time_limit_s is None:
            deadline = Deadline(allowed_seconds(n, None))
    local = local_program(problem, deadline, tell)
    if found is None and local is not None:
        until = Deadline(_MADE_SHARE * deadline.left)
        found = _made_local(inputs, targets, problem, local, tell, until)
    has_closed = found is None or not lift
    if found is None:
        whole, slow = whole_program(problem, max(deadline.left, 0.0))
        found = _best_other(inputs, targets, problem, closed, whole, slow, tell, deadline)
    bound = large_bound(problem, local, loss_of(found, problem), deadline, tell, whole)
    if not has_closed and _form_seconds(problem) < deadline.left:
        found = min((found, closed()), key=lambda one: loss_of(one, problem))
    found = with_bound(found, problem, bound)
    build = replace(found.build, seconds=time.perf_counter() - start)
    return found.with_metadata(build, found.proof)


def _form_seconds(problem: Problem) -> float:
    """Estimate the seconds of a closed form."""
    return _FORM_S * estimate_closed_form(*problem.loss.shape).seconds


def _best_other(
    inputs: Places, targets: Places, problem: Problem, closed: Callable[[], Mechanism],
    whole: Coarse | None, slow: float, progress: Progress, deadline: Deadline,
) -> Mechanism:  # fmt: skip
    """Return a mechanism from a coarser optimum or in closed form, whichever loses less.

    If there is no time for both, the first.
    """
    found = None
    if whole is not None and _coarseness(problem, whole) < _TOO_COARSE:
        until = Deadline(_LIFT_SHARE * deadline.left)
        found = _lifted(inputs, targets, problem, whole, progress, until)
    if found is None:
        return closed()
    if slow * _form_seconds(problem) > _FORM_SHARE * deadline.left:
        return found
    return min((closed(), found), key=lambda one: loss_of(one, problem))


def _coarseness(problem: Problem, whole: Coarse) -> float:
    """Return the expected distance of a place to the medoid of its cluster, in units of 1 / eps."""
    away = problem.metric[np.arange(len(problem.prior)), whole.medoids[whole.cluster]]
    return float(problem.epsilon * (problem.prior @ away))


def _made_local(
    inputs: Places, targets: Places, problem: Problem, local: Local,
    progress: Progress, deadline: Deadline,
) -> Mechanism | None:  # fmt: skip
    matrix = private_matrix(
        problem.prior, problem.loss, problem.epsilon, problem.metric,
        local_columns(problem, local), progress, deadline, ROUNDS,
    )  # fmt: skip
    note = f"from optimal columns that cover places up to {local.radius:g} / epsilon away"
    return _repaired(matrix, inputs, targets, problem, Build("local-optimal+remap", notes=(note,)))


def _lifted(
    inputs: Places, targets: Places, problem: Problem, whole: Coarse,
    progress: Progress | None, deadline: Deadline,
) -> Mechanism | None:  # fmt: skip
    matrix = lifted_matrix(
        problem.prior, problem.loss, problem.epsilon, problem.metric, whole, progress, deadline
    )
    note = f"extended from the optimum of {len(whole.medoids)} clusters of places"
    return _repaired(matrix, inputs, targets, problem, Build("coarse-optimal+remap", notes=(note,)))


def _repaired(
    matrix: Array | None, inputs: Places, targets: Places, problem: Problem, build: Build
) -> Mechanism | None:
    """Repair and check a matrix; None if it cannot be made private."""
    if matrix is None:
        return None
    try:
        return repair_and_check(matrix, inputs, targets, problem.epsilon, problem.metric, build)
    except (GuaranteeError, SolveError):
        return None
