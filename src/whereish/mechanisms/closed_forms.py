"""Mechanisms in closed form: exponential, and the one whose every constraint is tight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import GuaranteeError, InputError, SolveError
from whereish.mechanisms.arguments import (
    check_places,
    chosen_outputs,
    metric_or_euclidean,
    quality_to,
)
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism, seal
from whereish.mechanisms.planar_laplace import cell_masses
from whereish.places import Array, Places, as_epsilon, as_metric, as_prior, euclidean


def exponential(
    places: Places,
    epsilon: float,
    privacy_metric: ArrayLike | None = None,
    outputs: Places | ArrayLike | None = None,
) -> Mechanism:
    """Build the exponential mechanism: k(x, z) proportional to exp(-eps d(x, z) / 2).

    Half of epsilon pays for the exponent, half for the normalisation of the rows.

    Parameters
    ----------
    privacy_metric
        (n, n) d_X; Euclidean distance if not given.
    outputs
        Places to report, which need Euclidean distance, or the numbers of some of the inputs.
    """
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    targets = chosen_outputs(inputs, outputs)
    if privacy_metric is None:
        metric, reach = euclidean(inputs), euclidean(inputs, targets)
    else:
        metric = as_metric("privacy_metric", privacy_metric, len(inputs))
        itself = outputs is None or targets.same_as(inputs)
        if isinstance(outputs, Places) and not itself:
            raise InputError(
                "outputs must be numbers of input places where privacy_metric is given: "
                "the metric says nothing about other places"
            )
        reach = metric if itself else metric[:, np.asarray(outputs)]
    matrix = _exponential_matrix(reach, level)
    return seal(matrix, inputs, targets, level, metric, Build("exponential"))


def _exponential_matrix(reach: Array, level: float) -> Array:
    exponents = -level / 2 * reach
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def tight_constraints(
    places: Places, epsilon: float, privacy_metric: ArrayLike | None = None
) -> Mechanism:
    """Build the mechanism for which k(x, z) = exp(-eps d(x, z)) k(z, z): every ratio at its limit.

    K = E diag(v) with E = exp(-eps d) and E v = 1. It exists when no weight in v is negative,
    and then it often is, up to a remap, close to optimal.

    Raises
    ------
    SolveError
        If some weights are negative: the mechanism does not exist for these places and epsilon.
    """
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    metric = metric_or_euclidean(privacy_metric, inputs)
    matrix = tight_matrix(metric, level)
    return seal(matrix, inputs, inputs, level, metric, Build("tight-constraints"))


def tight_matrix(metric: Array, level: float) -> Array:
    """Return E diag(v), or say that it is none."""
    # A hair less than epsilon, so that ratios at their limit survive rounding.
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


def closed_form(
    places: Places,
    prior: ArrayLike,
    epsilon: float,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
) -> Mechanism:
    """Build the best private mechanism that needs no solver: for thousands of places.

    Tight constraints, or planar Laplace where those do not exist (the exponential mechanism, if
    the metric is not Euclidean), followed by the remap that is best for the prior. A remap
    costs no privacy and never loses quality.
    """
    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    level = as_epsilon(epsilon)
    metric = metric_or_euclidean(privacy_metric, inputs)
    targets = chosen_outputs(inputs, outputs)
    loss = quality_to(inputs, targets, outputs, quality_metric)
    try:
        matrix, method = tight_matrix(metric, level), "tight-constraints"
        why = "tight constraints exist"
    except SolveError as none:
        why = str(none).split(":")[0]
        if privacy_metric is None:
            matrix, method = cell_masses(inputs, inputs, level), "planar-laplace"
        else:
            matrix, method = _exponential_matrix(metric, level), "exponential"
    to = ((weights[:, None] * matrix).T @ loss).argmin(axis=1)
    remapped = np.zeros((len(inputs), len(targets)))
    for z in np.unique(to):
        remapped[:, z] = matrix[:, to == z].sum(axis=1)
    build = Build(f"{method}+remap", notes=(f"closed form: {method} and a remap; {why}",))
    told = (inputs, targets, level, metric, build)
    try:
        return Mechanism(remapped, *told)
    except (GuaranteeError, InputError):
        return seal(remapped, *told)


def _weights(kernel: Array, level: float) -> Array:
    try:
        weights = np.linalg.solve(kernel, np.ones(len(kernel))).astype(np.float64)
        return weights
    except np.linalg.LinAlgError:
        raise SolveError(
            f"the tight-constraints mechanism cannot be computed at epsilon {level:g} per km: "
            "places are too close for double precision; use optimal or exponential"
        ) from None
