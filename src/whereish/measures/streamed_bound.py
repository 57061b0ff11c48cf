"""The lower bound of a proof that does not fit into memory: multipliers of a few outputs at a time.

The same weak duality as `bound.lower_bound`, in doubles with a margin for their rounding. It does
not know where the multipliers come from. The proof is in docs/proofs/price-bound.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from whereish.errors import GuaranteeError, InputError
from whereish.measures.bound import Proof, valid_rows
from whereish.places import Array, as_epsilon, as_numbers, as_prior

_UNIT = 2.0**-53
# Relative margin for exp, for the distance in it, and for priors and losses that were rounded.
_ROOM = 2.0**-40
_AT_ONCE = 64


def streamed_bound(
    proofs: Iterable[Proof], prior: Array, quality_metric: Array, privacy_metric: Array
) -> float:
    """Return a lower bound on the quality loss of every private mechanism, in km.

    LB(y) = sum over x of min over z of prior(x) d_Q(x, z) - (A'y)(x, z), see `lower_bound`.

    Parameters
    ----------
    proofs
        The multipliers, in the order of their outputs: all rows of an output are in one proof, and
        no output of a proof comes before one of an earlier proof.

    Raises
    ------
    GuaranteeError
        If these are not multipliers of rows at one epsilon, or not in order. Then nothing is
        proved.
    """
    quality = as_numbers("quality_metric", quality_metric, (None, None))
    n, m = quality.shape
    weights = as_prior(prior, n)
    metric = as_numbers("privacy_metric", privacy_metric, (n, n))
    if quality.size == 0 or quality.min() < 0 or metric.min() < 0:
        raise InputError("quality_metric and privacy_metric must hold numbers, none negative")
    least = np.full(n, np.inf)
    done, level = 0, None
    for proof in proofs:
        output, left, right, y = valid_rows(proof, n, m)
        # A row at a smaller epsilon need not hold at the level of the others.
        if level is not None and proof.epsilon != level:
            raise GuaranteeError("not a proof: all parts must be about the same epsilon")
        level = as_epsilon(proof.epsilon)
        if not len(y):
            continue
        first, last = int(output.min()), int(output.max())
        if first < done:
            raise GuaranteeError("not a proof: the rows of an output must be in one part, in order")
        for start in range(done, first, _AT_ONCE):  # outputs without multipliers
            some = quality[:, start : min(start + _AT_ONCE, first)]
            np.minimum(least, (1 - _ROOM) * weights * some.min(axis=1), out=least)
        far = np.maximum(metric[left, right], metric[right, left])
        given = y * (np.exp(-level * (1 + _ROOM) * far) * (1 - _ROOM))
        width = last + 1 - first
        cell_left, cell_right = left * width + output - first, right * width + output - first
        cost = (weights[:, None] * quality[:, first : last + 1]).ravel()
        added = np.bincount(cell_left, given, n * width)
        taken = np.bincount(cell_right, y, n * width)
        # A sum of r terms is wrong by at most r units of the sum of their absolute values.
        margin = _ROOM + 4 * (len(y) + 4) * _UNIT
        low = (cost + added) * (1 - margin) - taken * (1 + margin)
        np.minimum(least, low.reshape(n, width).min(axis=1), out=least)
        done = last + 1
    for start in range(done, m, _AT_ONCE):
        some = quality[:, start : start + _AT_ONCE]
        np.minimum(least, (1 - _ROOM) * weights * some.min(axis=1), out=least)
    total = math.fsum(least)
    return math.nextafter(total - math.fsum(np.abs(least)) * _ROOM, -math.inf)
