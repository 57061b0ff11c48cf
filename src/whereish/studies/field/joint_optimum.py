"""The joint optimum: the largest adversary error within a quality loss and an epsilon.

The program of Shokri et al. (CCS 2012) with the constraints of geo-indistinguishability as well. If
adversary and quality are measured by the same distance, no adversary error exceeds the loss, and
optimal mechanisms attain it (Bordenabe et al., CCS 2014). Then the joint optimum is the optimal
mechanism of the smaller epsilon that has this loss.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from whereish.measures import loss_between
from whereish.mechanisms import Build, Mechanism
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import Places, as_epsilon, as_number, as_prior, euclidean
from whereish.programs import LinearProgram, greedy_spanner, least_loss, most_privacy
from whereish.solvers import solve


def joint_optimum(
    places: Places,
    prior: ArrayLike,
    epsilon: float,
    quality_loss: float,
    adversary_metric: ArrayLike | None = None,
    dilation: float = 1.0,
    *,
    solver: str = "auto",
    time_limit_s: float | None = None,
) -> Mechanism:
    """Build the mechanism with the largest adversary error within a loss and an epsilon.

    Parameters
    ----------
    quality_loss
        The largest expected distance between place and report, in km. It must be at least the loss
        of the optimal mechanism; with a dilation, at least the loss of that of the spanner.
    adversary_metric
        (n, n) d_A; Euclidean distance if not given.
    dilation
        Of the spanner whose edges get the constraints; 1 for all of them.

    Raises
    ------
    SolveError
        If no mechanism has this loss and this epsilon.

    References
    ----------
    .. [1] Shokri: Privacy games: optimal user-centric data obfuscation. PETS 2015.
    """
    start = time.perf_counter()
    level = as_epsilon(epsilon)
    weights = as_prior(prior, len(places))
    allowed = as_number("quality_loss", quality_loss, unit="km", or_equal=True)
    distances = euclidean(places)
    adversary = loss_between("adversary_metric", adversary_metric, places, places)
    spanner = greedy_spanner(distances, dilation)
    exponents = spanner.edge_epsilon(level) * spanner.lengths
    program = _joined(
        most_privacy(weights, distances, adversary, allowed),
        least_loss(weights, distances, spanner.edges, exponents),
    )
    solution = solve(program, solver, None, time_limit_s)
    n = len(places)
    build = Build(
        "joint-optimum", solution.solver, solution.form, time.perf_counter() - start,
        program.variables, program.constraints, len(spanner.edges), spanner.dilation, dilation,
    )  # fmt: skip
    matrix = solution.values[: n * n].reshape(n, n).T
    return repair_and_check(matrix, places, places, level, distances, build)


def _joined(errors: LinearProgram, private: LinearProgram) -> LinearProgram:
    """Add the privacy rows of one program to another, which has more variables at its end."""
    from scipy.sparse import csr_array, hstack, vstack

    rows = np.flatnonzero(~private.equal)
    more = errors.variables - private.variables
    wider = hstack([private.matrix[rows], csr_array((len(rows), more))])
    return replace(
        errors,
        matrix=vstack([errors.matrix, wider], format="csr"),
        right=np.r_[errors.right, private.right[rows]],
        equal=np.r_[errors.equal, np.zeros(len(rows), dtype=bool)],
    )
