"""Validate the arguments that all constructors have: places, outputs, metrics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from whereish.measures import loss_between
from whereish.places import Array, MapMetric, Places, as_metric, euclidean
from whereish.places.documents import check_least

_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made")


def takes_map_metric(make: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
    """Let a constructor take a `MapMetric` as ``privacy_metric``.

    The constructor is given the distances between its places, which must be places of the metric.
    The build record of what it returns, a mechanism or a list of them, names the kind of metric.
    """
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Made:
        metric = kwargs.get("privacy_metric")
        if metric is None and any(isinstance(one, MapMetric) for one in args):
            metric = signature.bind(*args, **kwargs).arguments.get("privacy_metric")
        if not isinstance(metric, MapMetric):
            return make(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        places = given.arguments["places"]
        where = places if isinstance(places, Places) else getattr(places, "places", places)
        given.arguments["privacy_metric"] = metric.between(where)
        found: Any = make(*given.args, **given.kwargs)
        if isinstance(found, list):
            return [_named(one, metric.kind) for one in found]  # type: ignore[return-value]
        named: _Made = _named(found, metric.kind)
        return named

    return made


def _named(mechanism: Any, kind: str) -> Any:
    return mechanism.with_metadata(replace(mechanism.build, metric=kind), mechanism.proof)


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
