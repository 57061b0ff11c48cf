"""The mechanism of Shokri et al.: the largest adversary error at a quality loss, no epsilon."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.measures import loss_between
from whereish.mechanisms.arguments import check_places, chosen_outputs, quality_matrix
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import Places, as_number, as_prior
from whereish.programs import most_privacy
from whereish.solvers import check_solver, solve


def optimal_privacy(
    places: Places,
    prior: ArrayLike,
    quality_loss: float,
    quality_metric: ArrayLike | None = None,
    adversary_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    solver: str = "auto",
    *,
    form: str | None = None,
    time_limit_s: float | None = None,
) -> Mechanism:
    """Build the mechanism with the largest adversary error at a quality loss.

    Shokri et al. [1]_, Definition 1 of the paper. It guarantees its quality loss and nothing else:
    its epsilon is None, and its `tightest_epsilon` may be infinite.

    Parameters
    ----------
    quality_loss
        The largest expected d_Q allowed, in km.
    quality_metric, adversary_metric
        (n, outputs) d_Q and (n, n) d_A; Euclidean distance if not given.

    References
    ----------
    .. [1] Shokri, Theodorakopoulos, Troncoso, Hubaux, Le Boudec: Protecting location privacy:
       optimal strategy against localization attacks. CCS 2012.
    """
    start = time.perf_counter()
    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    allowed = as_number("quality_loss", quality_loss, unit="km", or_equal=True)
    check_solver(solver, form, time_limit_s)
    targets = chosen_outputs(inputs, outputs)
    loss = quality_matrix(inputs, targets, outputs, quality_metric)
    least = float(weights @ loss.min(axis=1))
    if allowed < least:
        raise InputError(
            f"quality_loss must be at least {least:.6g} km with these outputs, got {allowed:g}"
        )
    adversary = loss_between("adversary_metric", adversary_metric, inputs, inputs)
    program = most_privacy(weights, loss, adversary, allowed)
    solution = solve(program, solver, form, time_limit_s)
    n, m = loss.shape
    build = Build(
        method="optimal-privacy",
        solver=solution.solver,
        form=solution.form,
        seconds=time.perf_counter() - start,
        variables=program.variables,
        constraints=program.constraints,
        notes=("guarantees its quality loss only: this mechanism has no epsilon",),
    )
    matrix = solution.values[: n * m].reshape(m, n).T
    return repair_and_check(matrix, inputs, targets, None, None, build)
