"""The error of a heat map that a collector estimates from reports."""

from __future__ import annotations

import numpy as np

from whereish.places import Array
from whereish.solvers.mixture import maximise

REPORTS = 10_000


def map_error(
    matrix: Array, prior: Array, rng: np.random.Generator, reports: int = REPORTS
) -> float:
    """Return the total variation between the places of many reports and their estimate.

    Independent reports of people who are distributed like the prior are drawn. The estimate is the
    most likely distribution of the true places.
    """
    seen = rng.multinomial(reports, _shares(prior @ matrix)) / reports
    return float(np.abs(maximise(matrix, seen).weights - prior).sum() / 2)


def _shares(weights: Array) -> Array:
    return np.asarray(weights / weights.sum())
