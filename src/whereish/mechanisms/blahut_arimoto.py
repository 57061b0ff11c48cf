"""The Blahut-Arimoto mechanism: the least mutual information at a quality loss, as in PRIVIC.

References
----------
.. [1] Biswas, Palamidessi: PRIVIC: a privacy-preserving method for incremental collection of
   location data. PoPETs 2024.
.. [2] Csiszar: On the computation of rate-distortion functions. IEEE Transactions on Information
   Theory 20, 1974.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.mechanisms.arguments import check_places, chosen_outputs, metric_or_euclidean
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import Places, as_epsilon, as_prior, euclidean
from whereish.solvers.mixture import maximise

_GAP = 1e-9
_NEVER = 1e-9  # outputs that are reported less often are left out


def blahut_arimoto(
    places: Places,
    prior: ArrayLike,
    epsilon: float,
    privacy_metric: ArrayLike | None = None,
    outputs: Places | ArrayLike | None = None,
) -> Mechanism:
    """Build k(x, z) proportional to q(z) exp(-eps d(x, z) / 2), with q(z) = sum_x prior(x) k(x, z).

    The fixed point has the least mutual information between place and report of all mechanisms with
    its expected distance [2]_. It is private for any q [1]_: exp(-eps d(x, z) / 2) changes by at
    most exp(eps d(x, x') / 2) between two places, and so does the normalisation of the rows. The
    exponential mechanism is the case of equal q.

    q maximises sum_x prior(x) log sum_z q(z) exp(-eps d(x, z) / 2), so the program is that of
    `whereish.solvers.mixture`, and is solved to a proved gap of 1e-9.

    Parameters
    ----------
    prior
        (n,) the probability of each place. Where reports serve statistics, a public one.
    privacy_metric
        (n, n) d_X; Euclidean distance if not given.
    outputs
        The places to report, with Euclidean distance only; or the indices of some of the inputs.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.blahut_arimoto(places, [0.2, 0.5, 0.3], epsilon=4.0)
    >>> bool(wh.tightest_epsilon(m) <= 4.0)
    True
    """
    inputs = check_places(places)
    weights = as_prior(prior, len(inputs))
    level = as_epsilon(epsilon)
    targets = chosen_outputs(inputs, outputs)
    metric = metric_or_euclidean(privacy_metric, inputs)
    if privacy_metric is None:
        distances = euclidean(inputs, targets)
    elif outputs is None or targets.same_as(inputs):
        distances = metric
    elif isinstance(outputs, Places):
        raise InputError(
            "outputs must be indices of input places if privacy_metric is given: the metric does "
            "not contain other places"
        )
    else:
        distances = metric[:, np.asarray(outputs)]
    exponents = -level / 2 * (distances - distances.min(axis=1, keepdims=True))
    found = maximise(np.ascontiguousarray(np.exp(exponents).T), weights, _GAP)
    often = np.where(found.weights > _NEVER, found.weights, 0.0)
    with np.errstate(divide="ignore"):
        exponents = exponents + np.log(often)
    rows = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    matrix = rows / rows.sum(axis=1, keepdims=True)
    return repair_and_check(matrix, inputs, targets, level, metric, Build("blahut-arimoto"))
