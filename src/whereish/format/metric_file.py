"""The file of a metric from a map: places, distances, what they mean, and who made the map.

The container is that of mechanisms (format/container.py): a file that was cut short or edited is
refused. The format is in docs/format.md.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError, InputError
from whereish.files import write_whole
from whereish.format.container import pack, parse_object, unpack
from whereish.format.mechanism_file import named, read_file
from whereish.format.parts import frame_of, read_places
from whereish.places import KINDS, MapMetric

METRIC_FORMAT, METRIC_VERSION = "whereish metric", "1"
METRIC_SUFFIX = ".metric"
_ARRAYS = {
    "places": "f8", "places_latlon": "f8", "distances": "f8", "edges": "i4", "lengths": "f8",
}  # fmt: skip
_FACTS = {"kind", "unit", "places", "attribution", "facts"}
_LONGEST = 200  # letters of a text


def save_metric(path: str | Path, metric: MapMetric) -> None:
    """Write a metric to a file, whole or not at all.

    Only its owner may read it: the places around a profile tell where somebody lives.
    """
    write_whole(path, metric_bytes(metric), private=True)


def metric_bytes(metric: MapMetric) -> bytes:
    """Return the bytes that `save_metric` writes.

    Raises
    ------
    InputError
        If the metric does not say who made the map: nobody could read the file.
    """
    if not metric.attribution.strip():
        raise InputError("attribution must say who made the map, and it is empty")
    arrays: dict[str, NDArray[Any]] = {"places": metric.places.xy}
    if metric.places.latlon is not None:
        arrays["places_latlon"] = metric.places.latlon
    if metric.matrix is not None:
        arrays["distances"] = metric.matrix
    elif metric.edges is not None and metric.lengths is not None:
        arrays |= {"edges": metric.edges, "lengths": metric.lengths}
    told = {
        "kind": metric.kind,
        "unit": metric.words.distance,
        "places": frame_of(metric.places),
        "attribution": metric.attribution,
        "facts": metric.facts,
    }
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return pack(arrays, {"format": METRIC_FORMAT, "version": METRIC_VERSION, "metric": text})


def load_metric(path: str | Path) -> MapMetric:
    """Read a metric, and check that it is one: all triangles of a matrix, or the graph.

    Give it as ``privacy_metric`` to `whereish.optimal` and to the other constructors. They take the
    distances between the places they are given, which must be places of the metric.

    Raises
    ------
    FormatError
        If the file is not a metric, or was changed.
    """
    file, content = read_file(path, "metric")
    with named(file):
        return read_metric_bytes(content)


def read_metric_bytes(content: bytes) -> MapMetric:
    """Return the metric in the bytes of a file, checked."""
    arrays, texts = unpack(content, "metric")
    if texts.get("format") != METRIC_FORMAT:
        raise FormatError("not a metric: make one with whereish metric EXTRACT -o FILE")
    if texts.get("version") != METRIC_VERSION:
        raise FormatError(f"version must be 1, got {str(texts.get('version'))[:20]!r}")
    if set(texts) != {"format", "version", "metric"}:
        raise FormatError("its header says more than a metric's does")
    for name, array in arrays.items():
        if name not in _ARRAYS or array.dtype != np.dtype(f"<{_ARRAYS[name]}"):
            raise FormatError(f"the array {name[:40]!r} is not one that a metric has")
    told = parse_object(texts["metric"], "metric")
    _check_told(told)
    places = read_places("places", arrays, told)
    return MapMetric(
        told["kind"], places, arrays.get("distances"), arrays.get("edges"), arrays.get("lengths"),
        told["facts"], told["attribution"],
    )  # fmt: skip


def _check_told(told: Mapping[str, Any]) -> None:
    if set(told) != _FACTS or told["kind"] not in KINDS:
        raise FormatError("its header does not say what a metric's does")
    if told["unit"] != KINDS[told["kind"]].distance:
        raise FormatError("its unit must be that of its kind, and it is another one")
    text = told["attribution"]
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise FormatError("a metric must say who made the map (attribution), and this one does not")
    if not isinstance(told["facts"], dict):
        raise FormatError("its facts must be an object")


def metric_document(metric: MapMetric) -> dict[str, str]:
    """Return a metric as it is given in JSON, for instance in the body of an HTTP request."""
    return {"file": base64.b64encode(metric_bytes(metric)).decode()}


def read_metric_document(field: str, value: Any) -> Any:
    """Return the metric of a JSON document ``{"file": base64}``; any other value as it is.

    Raises
    ------
    InputError
        If it is such a document, and holds no metric.
    """
    if not isinstance(value, dict) or set(value) != {"file"}:
        return value
    name = f"{field}.file"
    try:
        if not isinstance(value["file"], str):
            raise FormatError("not text")
        content = base64.b64decode(value["file"], validate=True)
        with named(Path(name)):
            return read_metric_bytes(content)
    except binascii.Error:
        raise InputError(f"{name} must be a metric file in base64, and it is not", name) from None
    except FormatError as wrong:
        raise InputError(f"{name} must be a metric file in base64: {wrong}", name) from None
