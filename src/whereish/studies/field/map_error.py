"""The error of a heat map that a collector estimates from reports."""

from __future__ import annotations

import numpy as np

from whereish.places import Array

REPORTS = 10_000
_GAP = 1e-6
_MOST_STEPS = 20_000


def map_error(
    matrix: Array, prior: Array, rng: np.random.Generator, reports: int = REPORTS
) -> float:
    """Return the total variation between the places of many reports and their estimate.

    Independent reports of people who are distributed like the prior are drawn. The estimate is the
    most likely distribution of the true places.
    """
    seen = rng.multinomial(reports, _shares(prior @ matrix)) / reports
    return float(np.abs(most_likely(matrix, seen) - prior).sum() / 2)


def most_likely(matrix: Array, shares: Array) -> Array:
    """Return the distribution p of places that maximises sum_z shares(z) log (K'p)(z).

    The iterative Bayesian update p <- p g with g = K (shares / K'p). It ends when max g - 1, which
    bounds the distance of the likelihood from the largest one, is at most 1e-6.
    """
    columns, q = matrix[:, shares > 0], shares[shares > 0]
    p = np.full(len(matrix), 1 / len(matrix))
    for _ in range(_MOST_STEPS):
        gradient = columns @ (q / (p @ columns))
        p = _shares(p * gradient)
        if gradient.max() - 1 <= _GAP:
            break
    return p


def _shares(weights: Array) -> Array:
    return np.asarray(weights / weights.sum())
