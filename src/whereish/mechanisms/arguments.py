"""What every constructor is given, checked: places, outputs, metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.measures import loss_between
from whereish.places import Array, Places, as_metric, euclidean
from whereish.places.documents import check_least


def chosen_outputs(inputs: Places, outputs: Places | Any | None) -> Places:
    """Return the output places: the inputs, other places, or some of the inputs by number."""
    if outputs is None:
        return inputs
    return outputs.in_plane_of(inputs) if isinstance(outputs, Places) else inputs.subset(outputs)


def quality_to(
    inputs: Places,
    targets: Places,
    outputs: object,
    quality_metric: ArrayLike | None,
) -> Array:
    """Return the (inputs, outputs) quality metric; of an (n, n) one, the columns of the outputs."""
    if quality_metric is None or outputs is None or isinstance(outputs, Places):
        return loss_between("quality_metric", quality_metric, inputs, targets)
    square = loss_between("quality_metric", quality_metric, inputs, inputs)
    return square[:, np.asarray(outputs)]


def metric_or_euclidean(privacy_metric: ArrayLike | None, inputs: Places) -> Array:
    """Return a given privacy metric after checking it, or Euclidean distance if none."""
    straight = euclidean(inputs)
    if privacy_metric is None or np.array_equal(privacy_metric, straight):
        return straight  # which needs no check of all triangles
    return as_metric("privacy_metric", privacy_metric, len(inputs))


def check_places(places: Places) -> Places:
    """Raise InputError unless there are at least two places to be hidden among."""
    if not isinstance(places, Places):
        euclidean(places)  # says what must hold
    check_least(places)
    return places
