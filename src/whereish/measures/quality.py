"""Quality of service: expected and worst-case loss, and the radius of a query."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError, described
from whereish.measures.channel import Channel, checked, loss_between, prior_of
from whereish.places import Array, as_number, as_numbers


def quality_loss(mechanism: Channel, prior: ArrayLike, metric: ArrayLike | None = None) -> float:
    """Return the expected distance between the true and the reported place, in km.

    QL(K, prior, d_Q) = sum over x, z of prior(x) k(x, z) d_Q(x, z)   (Section 2.1).

    Parameters
    ----------
    metric
        d_Q, inputs x outputs; Euclidean distance if not given.
    """
    weights = prior_of(mechanism, prior)
    loss = loss_between("metric", metric, mechanism.inputs, mechanism.outputs)
    return float(weights @ (mechanism.matrix * loss).sum(axis=1))


def worst_case_loss(mechanism: Channel, metric: ArrayLike | None = None) -> float:
    """Return the largest expected distance of a report over all places, in km; needs no prior."""
    loss = loss_between("metric", metric, checked(mechanism).inputs, mechanism.outputs)
    return float((mechanism.matrix * loss).sum(axis=1).max())


def report_radius(mechanism: Channel, prior: ArrayLike | None = None, share: float = 0.95) -> float:
    """Return the distance, in km, within which this share of the reports lies: a quantile.

    With a prior the share is an average over it; without one it holds for every place.
    """
    if as_number("share", share) > 1:
        raise InputError(f"share must be above 0 and at most 1, got {described(share)}")
    distances = loss_between("metric", None, checked(mechanism).inputs, mechanism.outputs)
    if prior is None:
        rows = zip(distances, mechanism.matrix, strict=True)
        return max(_quantile(far, weight, share) for far, weight in rows)
    weights = prior_of(mechanism, prior)[:, None] * mechanism.matrix
    return _quantile(distances.ravel(), weights.ravel(), share)


def radius_to_ask(
    mechanism: Channel,
    interest_km: float,
    confidence: float = 0.95,
    prior: ArrayLike | None = None,
) -> float:
    """Return the radius of a query, so that the answer covers the area of interest.

    A person wants everything within ``interest_km`` of the true location. The service receives the
    reported location, and returns everything within some radius of it; the device then drops what
    is too far away (Section 3.5 of the paper). The answer covers the area of interest if the report
    is at most radius - interest away. So the radius is the interest plus a quantile of the distance
    between the true and the reported place.

    Parameters
    ----------
    confidence
        The share of reports for which nothing in the area of interest is missing.
    prior
        With a prior the share is an average over it; without one it holds for every place.
    """
    interest = float(as_numbers("interest_km", [interest_km], (1,))[0])
    if interest < 0:
        raise InputError(f"interest_km must not be negative, got {interest}")
    return interest + report_radius(mechanism, prior, confidence)


def _quantile(distances: Array, weights: Array, share: float) -> float:
    order = np.argsort(distances, kind="stable")
    cumulative = np.cumsum(weights[order])
    # The sum of all weights is 1 up to rounding, which must not move the index past the end.
    at = int(np.searchsorted(cumulative, min(share, 1.0) * cumulative[-1] * (1 - 1e-12)))
    return float(distances[order][min(at, len(order) - 1)])
