"""Places, priors, metrics and place numbers as they stand in a JSON document.

Each has a reader and, beside it, the JSON Schema of what the reader takes. Readers take Python's
own objects as well: `Places`, arrays, and whatever they returned before. A list of a million
numbers is checked in one pass. Places and priors are personal: a message names the field, like
``prior[3]``, and never repeats a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.limits import LARGEST, LEAST_PLACES, MOST_PLACES, PRIOR_TOLERANCE
from whereish.places.map_metric import MapMetric
from whereish.places.metrics import METRICS, graph_metric, metric_names
from whereish.places.points import Places
from whereish.places.validation import Array, as_distances, as_loss, check_order, readonly
from whereish.strict_json import as_object, kind_of

Schema = dict[str, Any]


def read_numbers(field: str, value: Any, width: int | None, least: int, most: int) -> Array:
    """Read a list of numbers, or of rows of ``width`` numbers each."""
    if not isinstance(value, list) and hasattr(value, "__array__"):
        check_order(field, value)
        value = np.asarray(value).tolist()
    if isinstance(value, tuple):
        value = list(value)
    if not isinstance(value, list):
        raise InputError(f"{field} must be a list, got {kind_of(value)}", field)
    if not least <= len(value) <= most:
        items = f"{least:,} to {most:,} items" if least < most else f"{most:,} item"
        many = "s" * (most != 1 and least == most)
        raise InputError(f"{field} must have {items}{many}, got {len(value):,}", field)
    if width is None:
        _check_kinds(field, value)
    elif set(map(type, value)) != {list} or set(map(len, value)) != {width}:
        wrong = (not isinstance(row, list) or len(row) != width for row in value)
        some = f"{field}[{next(i for i, is_wrong in enumerate(wrong) if is_wrong)}]"
        raise InputError(f"{some} must be {width} numbers", some)
    elif set(map(type, chain.from_iterable(value))) - {int, float}:
        for i, row in enumerate(value):
            _check_kinds(f"{field}[{i}]", row)
    try:
        array = np.array(value, dtype=np.float64)
    except (OverflowError, ValueError, TypeError):
        array = np.full((1, 1), np.inf)
    if not (np.abs(array) <= LARGEST).all():
        raise InputError(f"{field} must be numbers of at most {LARGEST:g}", field)
    return array


def _check_kinds(field: str, items: list[Any]) -> None:
    """Name the first item that is no number."""
    if set(map(type, items)) - {int, float}:
        i = next(i for i, item in enumerate(items) if type(item) not in (int, float))
        some = f"{field}[{i}]"
        raise InputError(f"{some} must be a number, got {kind_of(items[i])}", some)


def check_least(places: Places) -> None:
    """Refuse too few places to be hidden among."""
    if len(places) < LEAST_PLACES:
        must = f"must hold at least {LEAST_PLACES} places, got {len(places)}"
        raise InputError(f"places {must}: one place hides nothing", "places")


def read_places(field: str, value: Any) -> Places:
    """Read places: an object with ``latlon`` or ``xy_km``, and ``cell_km`` if they are cells."""
    if isinstance(value, Places):
        check_least(value)
        if len(value) > MOST_PLACES:
            raise InputError(f"{field} must be at most {MOST_PLACES:,}, got {len(value):,}", field)
        return value
    parts = as_object(field, value, field, ("xy_km", "latlon", "cell_km"))
    if ("xy_km" in parts) == ("latlon" in parts):
        raise InputError(f"{field} must have xy_km or latlon, and not both", field)
    name = "xy_km" if "xy_km" in parts else "latlon"
    places = _points(f"{field}.{name}", parts[name], name == "latlon")
    if parts.get("cell_km") is None:
        return places
    cell = f"{field}.cell_km"
    width, height = read_numbers(cell, parts["cell_km"], None, 2, 2).tolist()
    if min(width, height) <= 0:
        raise InputError(f"{cell} must be positive, width and height in km", cell)
    return replace(places, cell_km=(width, height))


def _points(field: str, value: Any, on_earth: bool) -> Places:
    points = read_numbers(field, value, 2, LEAST_PLACES, MOST_PLACES)
    outside = np.abs(points) > (90, 180)
    if on_earth and outside.any():
        i, j = (int(k) for k in np.argwhere(outside)[0])
        what = ("latitude must be from -90 to 90", "longitude must be from -180 to 180")[j]
        raise InputError(f"{field}[{i}]: {what} degrees", f"{field}[{i}]")
    try:
        return Places.from_latlon(points) if on_earth else Places.from_xy(points)
    except InputError as wrong:
        # Which two are the same may be said, but not where they are.
        same = re.search(r"but (\d+) and (\d+) are both", str(wrong))
        said = f", but {same[1]} and {same[2]} are the same" if same else ""
        must = "must lie in one region of the earth, and differ by a millimetre"
        raise InputError(f"{field} {must}{said}", field) from None


def read_prior(field: str, value: Any, places: Places | None = None) -> Array:
    """Read a prior: a non-negative number for each of the places, if they are known, with sum 1."""
    prior = read_numbers(field, value, None, 1, MOST_PLACES)
    if places is not None and len(prior) != len(places):
        must = f"must have a number for each of {len(places)} places, got {len(prior)}"
        raise InputError(f"{field} {must}", field)
    if (prior < 0).any():
        some = f"{field}[{int(np.argmax(prior < 0))}]"
        raise InputError(f"{some} must not be negative", some)
    if not abs(float(prior.sum()) - 1) <= PRIOR_TOLERANCE:
        raise InputError(f"{field} must sum to 1: divide it by its sum", field)
    return readonly(prior)


def read_outputs(field: str, value: Any, places: Places) -> tuple[int, ...]:
    """Read the numbers of the places that may be reported."""
    n = len(places)
    chosen = read_numbers(field, value, None, 1, n)
    if (chosen != np.floor(chosen)).any() or (chosen < 0).any() or (chosen >= n).any():
        raise InputError(f"{field} must be place numbers from 0 to {n - 1}", field)
    if len(set(chosen.tolist())) < len(chosen):
        raise InputError(f"{field} must be different places", field)
    return tuple(int(i) for i in chosen)


@dataclass(frozen=True, eq=False, repr=False)
class GivenMetric:
    """A metric that is given as data: a matrix, or the edges of a graph with their lengths."""

    kind: str
    numbers: Array

    def distances(self, field: str, places: Places) -> Array:
        """Return the (n, n) distances."""
        if self.kind == "matrix":
            return self.numbers
        try:
            return graph_metric(len(places), self.numbers[:, :2], self.numbers[:, 2])
        except InputError as wrong:
            raise InputError(str(wrong), f"{field}.edges") from None


def read_metric(field: str, value: Any, places: Places) -> str | GivenMetric | MapMetric | None:
    """Read a metric: a name from the registry, ``{"matrix": ...}`` or ``{"edges": ...}``.

    A `MapMetric` is restricted to the places; as a privacy metric it keeps its meaning. ``field``
    says what it is for, as in "privacy_metric". None stands for Euclidean distance.
    """
    if value is None or isinstance(value, str):
        known = metric_names(field.removesuffix("_metric"))
        if value is not None and value not in known:
            raise InputError(f"{field} must be one of {', '.join(known)}", field)
        if value is not None and METRICS[value].on_earth and places.latlon is None:
            raise InputError(f"{field} {value} must have places.latlon to go with", field)
        return None if value == "euclidean" else value
    if isinstance(value, MapMetric):
        try:
            on_places = value.restricted(places)
        except InputError as wrong:
            raise InputError(f"{field}: {wrong}", field) from None
        if field == "privacy_metric":
            return on_places
        value = on_places.distances
    if isinstance(value, GivenMetric):
        value = {value.kind: value.numbers}
    elif hasattr(value, "__array__"):
        value = {"matrix": value}
    ((kind, numbers),) = as_object(
        field, value, field, ("matrix", "edges"), exactly_one=True
    ).items()
    read = _matrix if kind == "matrix" else _edges
    return GivenMetric(kind, read(f"{field}.{kind}", numbers, len(places)))


def _matrix(field: str, value: Any, n: int) -> Array:
    """Read a matrix, and check what can be checked at once; the triangle inequality takes long."""
    matrix = read_numbers(field, value, n, n, n)
    try:
        if field.startswith("privacy"):
            return readonly(as_distances(field, matrix, n))
        return readonly(as_loss(field, matrix, n, n, same=True))
    except InputError as wrong:
        raise InputError(str(wrong), field) from None


def _edges(field: str, value: Any, n: int) -> Array:
    rows = read_numbers(field, value, 3, 1, MOST_PLACES**2)
    ends = rows[:, :2]
    wrong = ((ends != np.floor(ends)) | (ends < 0) | (ends >= n)).any(1) | (rows[:, 2] <= 0)
    if wrong.any():
        some = f"{field}[{int(np.argmax(wrong))}]"
        raise InputError(f"{some} must be two place numbers below {n} and a positive length", some)
    return readonly(rows)


# ---- The JSON Schema of each. What a schema cannot say (a prior sums to 1) is in words. ----------


def list_of(item: Schema, least: int, most: int, about: str) -> Schema:
    """Describe a list."""
    return {
        "type": "array", "items": item, "minItems": least, "maxItems": most, "description": about,
    }  # fmt: skip


def number(least: float, most: float, **more: Any) -> Schema:
    """Describe a number."""
    return {"type": "number", "minimum": least, "maximum": most, **more}


def _object(name: str, value: Schema, more: Schema | None = None) -> Schema:
    return {
        "type": "object", "properties": {name: value, **(more or {})}, "required": [name],
        "additionalProperties": False,
    }  # fmt: skip


def _pairs(first: Schema, second: Schema, about: str) -> Schema:
    pair = {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}
    return list_of(pair, LEAST_PLACES, MOST_PLACES, about)


def places_schema() -> Schema:
    """Describe what `read_places` takes."""
    length = {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST}
    cell = list_of(length, 2, 2, "Width and height of the cells whose centres these are, in km.")
    real, more = number(-LARGEST, LARGEST), {"cell_km": {"anyOf": [cell, {"type": "null"}]}}
    degrees = _pairs(number(-90, 90), number(-180, 180), "Latitude and longitude, in degrees.")
    plane = _pairs(real, real, "Kilometres in a plane.")
    return {"oneOf": [_object("latlon", degrees, more), _object("xy_km", plane, more)]}


def prior_schema() -> Schema:
    """Describe what `read_prior` takes."""
    about = "As many numbers as places, with sum 1."
    return list_of(number(0, 1 + PRIOR_TOLERANCE), LEAST_PLACES, MOST_PLACES, about)


def outputs_schema() -> Schema:
    """Describe what `read_outputs` takes."""
    place = {"type": "integer", "minimum": 0, "maximum": MOST_PLACES - 1}
    return list_of(place, 1, MOST_PLACES, "Numbers of the places that may be reported.")


def metric_schema(use: str) -> Schema:
    """Describe what `read_metric` takes, for one use."""
    row = {"type": "array", "items": number(0, LARGEST)}
    edge = {**row, "minItems": 3, "maxItems": 3}
    names = metric_names(use)
    words = "; ".join(f"{name}: {METRICS[name].about}" for name in names)
    as_data = [
        _object(name, {"type": "array", "items": item, "minItems": 1})
        for name, item in (("matrix", row), ("edges", edge))
    ]
    about = "A metric file of `whereish metric`, in base64, for these places."
    as_data.append(_object("file", {"type": "string", "description": about}))
    return {"anyOf": [{"enum": [*names, None], "description": words}, *as_data]}
