"""Validate the arguments that all constructors have: places, outputs, metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.measures import loss_between
from whereish.places import Array, Places, as_metric, euclidean
from whereish.places.documents import check_least


def chosen_outputs(inputs: Places, outputs: Places | Any | None) -> Places:
    """Return the output places: all inputs, other places, or some inputs by index."""
    if outputs is None:
        return inputs
    return outputs.in_plane_of(inputs) if isinstance(outputs, Places) else inputs.subset(outputs)


def quality_matrix(
    inputs: Places,
    targets: Places,
    outputs: object,
    quality_metric: ArrayLike | None,
) -> Array:
    """Return d_Q as an (inputs, outputs) matrix, validated.

    If the outputs are given by index, `quality_metric` is (inputs, inputs), and their columns are
    taken.
    """
    if quality_metric is None or outputs is None or isinstance(outputs, Places):
        return loss_between("quality_metric", quality_metric, inputs, targets)
    square = loss_between("quality_metric", quality_metric, inputs, inputs)
    return square[:, np.asarray(outputs)]


def metric_or_euclidean(privacy_metric: ArrayLike | None, inputs: Places) -> Array:
    """Return d_X, validated; Euclidean distance if none is given."""
    distances = euclidean(inputs)
    if privacy_metric is None or np.array_equal(privacy_metric, distances):
        inputs.check_km()
        return distances  # a metric: no need to check all triangles
    return as_metric("privacy_metric", privacy_metric, len(inputs))


def check_places(places: Places) -> Places:
    """Raise InputError unless these are at least two places."""
    if not isinstance(places, Places):
        euclidean(places)  # raises the error for other types
    check_least(places)
    return places
