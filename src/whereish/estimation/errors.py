"""Standard errors and intervals of estimated shares, and places that cannot be told apart.

With N reports, the information about the shares p is J = N K diag(1 / K'p) K'. On the places with a
positive estimate, the covariance of the maximum-likelihood estimate is about J^-1 - p p' / N: the
sum of the shares is known, and J p = N 1. For K = identity this is the covariance of a multinomial
distribution.

At an estimate of zero the distribution is not normal. The interval there is [0, 1.96 s], where s is
the standard error with this place added to the positive ones. It is at least as wide as needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whereish.places import Array

NORMAL_95 = 1.959963984540054
_ZERO = 1e-6  # shares below this times 1/n are zero: the solve is not more exact
_DEPENDENT = 1e-9  # relative size of a singular value, or of a diagonal entry, that counts as zero


@dataclass(frozen=True, eq=False, repr=False)
class Spread:
    """Standard errors, 95 % intervals, and what cannot be known.

    Attributes
    ----------
    errors
        (n,) standard errors; NaN for places that cannot be told apart from others.
    low, high
        (n,) ends of the intervals; 0 and 1 where the error is not known.
    """

    errors: Array
    low: Array
    high: Array


def spread(matrix: Array, weights: Array, shares: Array, reports: int) -> Spread:
    """Return errors and intervals.

    Parameters
    ----------
    matrix
        (n, m) all columns of all mechanisms.
    weights
        (m,) the number of reports of the mechanism of each column.
    """
    n = len(shares)
    expected = np.maximum(shares @ matrix, 1e-300)
    information = (matrix * (weights / expected)) @ matrix.T
    positive = shares > _ZERO / n
    inverse, known = _inverse(information[np.ix_(positive, positive)])
    errors = np.full(n, np.nan)
    variance = np.maximum(np.diag(inverse) - shares[positive] ** 2 / reports, 0.0)
    errors[positive] = np.where(known, np.sqrt(variance), np.nan)
    # A place that joins the positive ones: the inverse of its Schur complement.
    cross = information[np.ix_(~positive, positive)]
    own = np.diag(information)[~positive]
    left = own - np.einsum("xa,ab,xb->x", cross, inverse, cross)
    apart = left > _DEPENDENT * own
    errors[~positive] = np.where(apart, 1 / np.sqrt(np.where(apart, left, 1.0)), np.nan)
    sure = np.isfinite(errors)
    reach = NORMAL_95 * np.where(sure, errors, 0.0)
    low = np.where(sure, np.maximum(shares - reach, 0.0), 0.0)
    high = np.where(sure, np.minimum(shares + reach, 1.0), 1.0)
    return Spread(errors, low, high)


def _inverse(information: Array) -> tuple[Array, Array]:
    """Return the inverse on the directions that are known, and which places lie in them."""
    scale = 1 / np.sqrt(np.diag(information))
    values, vectors = np.linalg.eigh(information * np.outer(scale, scale))
    good = values > _DEPENDENT * values[-1]
    lost = (vectors[:, ~good] ** 2).sum(axis=1)
    base = vectors[:, good]
    inverse = (base / values[good]) @ base.T * np.outer(scale, scale)
    return inverse, lost < 1e-6


def confused_groups(matrix: Array) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return the rank of a mechanism, and the groups of places that it cannot tell apart.

    A direction v with v'K = 0 changes the shares and not the reports. Two places are in a group if
    the projection on all such directions connects them. Only the sum of a group is then known.
    """
    vectors, values, _ = np.linalg.svd(matrix)
    rank = int((values > _DEPENDENT * values[0]).sum())
    null = vectors[:, rank:]
    if not null.shape[1]:
        return rank, ()
    linked = np.abs(null @ null.T) > 1e-6
    groups, left = [], set(np.flatnonzero(np.diag(linked)).tolist())
    while left:
        group, border = set[int](), {min(left)}
        while border:
            group |= border
            near = np.flatnonzero(linked[sorted(border)].any(axis=0)).tolist()
            border = {x for x in near if x in left} - group
        groups.append(tuple(sorted(group)))
        left -= group
    return rank, tuple(groups)
