"""Mechanisms in closed form: exponential, and tight constraints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError, SolveError
from whereish.mechanisms.arguments import (
    check_places,
    chosen_outputs,
    metric_or_euclidean,
    quality_matrix,
    takes_map_metric,
)
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.planar_laplace import cell_masses
from whereish.mechanisms.repairing import checked_or_repaired, repair_and_check
from whereish.places import Array, Places, as_epsilon, as_metric, as_prior, euclidean


@takes_map_metric
def exponential(
    places: Places,
    epsilon: float,
    privacy_metric: ArrayLike | None = None,
    outputs: Places | ArrayLike | None = None,
) -> Mechanism:
    """Build the exponential mechanism: k(x, z) proportional to exp(-eps d(x, z) / 2).

    Half of epsilon is used by the exponent, half by the normalisation of the rows.

    Parameters
    ----------
    privacy_metric
        (n, n) d_X; Euclidean distance if not given.
    outputs
        The places to report, with Euclidean distance only; or the indices of some of the inputs.

    References
    ----------
    .. [1] McSherry, Talwar: Mechanism design via differential privacy. FOCS 2007.
    """
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    targets = chosen_outputs(inputs, outputs)
    if privacy_metric is None:
        metric, distances = euclidean(inputs), euclidean(inputs, targets)
    else:
        metric = as_metric("privacy_metric", privacy_metric, len(inputs))
        itself = outputs is None or targets.same_as(inputs)
        if isinstance(outputs, Places) and not itself:
            raise InputError(
                "outputs must be indices of input places if privacy_metric is given: "
                "the metric does not contain other places"
            )
        distances = metric if itself else metric[:, np.asarray(outputs)]
    matrix = _exponential_matrix(distances, level)
    return repair_and_check(matrix, inputs, targets, level, metric, Build("exponential"))


def _exponential_matrix(distances: Array, level: float) -> Array:
    exponents = -level / 2 * distances
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@takes_map_metric
def tight_constraints(
    places: Places, epsilon: float, privacy_metric: ArrayLike | None = None
) -> Mechanism:
    """Build the mechanism with k(x, z) = exp(-eps d(x, z)) k(z, z): every constraint is tight.

    K = E diag(v) with E = exp(-eps d) and E v = 1. It exists if no weight in v is negative. With a
    remap, it is then often close to optimal.

    Raises
    ------
    SolveError
        If some weights are negative: the mechanism does not exist for these places and epsilon.
    """
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    metric = metric_or_euclidean(privacy_metric, inputs)
    matrix = tight_matrix(metric, level)
    return repair_and_check(matrix, inputs, inputs, level, metric, Build("tight-constraints"))


def tight_matrix(metric: Array, level: float) -> Array:
    """Return E diag(v); raise SolveError if a weight is negative."""
    # Slightly less than epsilon, so that ratios at their limit hold after rounding.
    kernel = np.exp(-level * (1 - 1e-12) * metric)
    weights = _weights(kernel, level)
    if weights.min() < -1e-12 * np.abs(weights).max():
        worst = int(weights.argmin())
        raise SolveError(
            f"the tight-constraints mechanism does not exist at epsilon {level:g} per km: "
            f"{int((weights < 0).sum())} of {len(weights)} weights are negative, the lowest "
            f"{weights[worst]:.3g} at place {worst}; use optimal, planar_laplace or exponential"
        )
    matrix = kernel * np.maximum(weights, 0.0)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


@takes_map_metric
def closed_form(
    places: Places,
    prior: ArrayLike,
    epsilon: float,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
) -> Mechanism:
    """Build the best private mechanism that needs no solver: for thousands of places.

    Tight constraints; or planar Laplace if those do not exist (the exponential mechanism if the
    metric is not Euclidean). Then the best remap for the prior, which costs no privacy and never
    increases the loss (Section 3.4 of the paper).
    """
    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    level = as_epsilon(epsilon)
    metric = metric_or_euclidean(privacy_metric, inputs)
    targets = chosen_outputs(inputs, outputs)
    loss = quality_matrix(inputs, targets, outputs, quality_metric)
    try:
        matrix, method = tight_matrix(metric, level), "tight-constraints"
        why = "tight constraints exist"
    except SolveError as missing:
        why = str(missing).split(":")[0]
        if privacy_metric is None:
            matrix, method = cell_masses(inputs, inputs, level), "planar-laplace"
        else:
            matrix, method = _exponential_matrix(metric, level), "exponential"
    to = ((weights[:, None] * matrix).T @ loss).argmin(axis=1)
    remapped = np.zeros((len(inputs), len(targets)))
    for z in np.unique(to):
        remapped[:, z] = matrix[:, to == z].sum(axis=1)
    build = Build(f"{method}+remap", notes=(f"closed form: {method} and a remap; {why}",))
    return checked_or_repaired(remapped, inputs, targets, level, metric, build)


def _weights(kernel: Array, level: float) -> Array:
    try:
        weights = np.linalg.solve(kernel, np.ones(len(kernel))).astype(np.float64)
        return weights
    except np.linalg.LinAlgError:
        raise SolveError(
            f"the tight-constraints mechanism cannot be computed at epsilon {level:g} per km: "
            "places are too close for double precision; use optimal or exponential"
        ) from None
