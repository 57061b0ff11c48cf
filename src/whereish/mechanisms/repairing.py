"""Repair the matrix of a constructor, and make the mechanism, which checks every ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whereish.errors import GuaranteeError, InputError
from whereish.measures import Proof, relative_gap
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, Places, euclidean
from whereish.release import repair


def checked_or_repaired(
    matrix: Array,
    inputs: Places,
    outputs: Places,
    epsilon: float | None,
    privacy_metric: Array | None,
    build: Build,
) -> Mechanism:
    """Make a mechanism of a matrix that is private up to rounding; repair it only if needed."""
    arguments = (inputs, outputs, epsilon, privacy_metric, build)
    try:
        return Mechanism(matrix, *arguments)
    except (GuaranteeError, InputError):
        return repair_and_check(matrix, *arguments)


def repair_and_check(
    matrix: Array,
    inputs: Places,
    outputs: Places,
    epsilon: float | None,
    privacy_metric: Array | None,
    build: Build,
    weighted_loss: Array | None = None,
    proof: Proof | None = None,
    program_bound: float | None = None,
) -> Mechanism:
    """Repair the matrix of a constructor, and make the mechanism, which checks every ratio.

    Without an epsilon, negative entries become zero and rows are normalised.

    Parameters
    ----------
    weighted_loss
        (inputs, outputs) prior(x) d_Q(x, z), for the cost of the repair and the gap.
    proof, program_bound
        The proof of ``build.lower_bound_km``, and a lower bound of the program that was solved.

    Raises
    ------
    GuaranteeError
        If the matrix is not private, and rounding does not explain it.
    """
    if epsilon is None:
        clean = np.where(matrix > 0, matrix, 0.0)
        return Mechanism(clean / clean.sum(axis=1, keepdims=True), inputs, outputs, build=build)
    metric = euclidean(inputs) if privacy_metric is None else privacy_metric
    repaired = repair(matrix, epsilon, metric)
    mix = 1 - (1 - (build.repair_mix or 0.0)) * (1 - repaired.mix)
    cost = gap = program_gap = None
    if weighted_loss is not None:
        loss = float((weighted_loss * repaired.matrix).sum())
        cost = loss - float((weighted_loss * matrix).sum())
        if build.lower_bound_km is not None:
            gap = relative_gap(loss, build.lower_bound_km)
        if program_bound is not None:
            program_gap = relative_gap(loss, program_bound)
    build = replace(build, repair_mix=mix, repair_cost_km=cost, gap=gap, program_gap=program_gap)
    return Mechanism(repaired.matrix, inputs, outputs, epsilon, metric, build, proof)
