"""The error of a map that is estimated from reports of a mechanism, by simulation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from whereish.measures.channel import Channel, prior_of
from whereish.places import as_whole
from whereish.solvers.mixture import maximise

REPORTS, DRAWS, SEED = 10_000, 10, 20140813  # the seed is public: everybody gets the same number
_MOST_STEPS = 500  # for thousands of places, where no step of Newton's method is affordable


def expected_map_error(
    mechanism: Channel,
    prior: ArrayLike,
    reports: int = REPORTS,
    draws: int | None = None,
    seed: int = SEED,
) -> float:
    """Return the expected total variation between the prior and its estimate from reports.

    The reports are drawn from the prior through the mechanism, and the prior is estimated from them
    as `estimate` does, without knowing it. The mean of 10 draws with a public seed; of fewer for
    more than 100 places, whose error varies less.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> wh.expected_map_error(wh.tight_constraints(places, 2.0), [0.2, 0.5, 0.3]) < 0.02
    True
    """
    weights = prior_of(mechanism, prior)
    as_whole("reports", reports)
    matrix = np.asarray(mechanism.matrix)
    times = max(1, min(DRAWS, 1000 // len(matrix))) if draws is None else as_whole("draws", draws)
    truth = weights @ matrix
    rng = np.random.default_rng(as_whole("seed", seed, 0))
    errors = []
    for _ in range(times):
        shares = rng.multinomial(reports, truth / truth.sum()) / reports
        found = maximise(matrix, shares, most=_MOST_STEPS)
        errors.append(0.5 * float(np.abs(found.weights - weights).sum()))
    return float(np.mean(errors))
