"""How the fields of a build are read and described, and read back from a mechanism.

`build_spec.py` has the fields. Places and priors are personal, so that no message repeats a number
of them: it names the field instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from whereish.errors import InputError
from whereish.format.metric_file import read_metric_document
from whereish.mechanisms import MECHANISMS, Mechanism, method_names
from whereish.places import MapMetric, Places, documents
from whereish.validated import Earlier, Reader, Schema


def of_places(read: Callable[[str, Any, Places], Any], schema: Callable[[], Schema]) -> Reader:
    """Mark a field that can only be read where the places could."""

    def checked(field: str, value: Any, earlier: Earlier) -> Any:
        if "places" not in earlier:
            raise InputError("places must be given", "places")
        return read(field, value, earlier["places"])

    return Reader(checked, schema)


def read_metric(field: str, value: Any, places: Places) -> Any:
    """Read a metric: a name, a matrix, edges, or the content of a metric file."""
    return documents.read_metric(field, read_metric_document(field, value), places)


def within(least: float, most: float) -> Any:
    """Say the limits of a number, both included."""
    return Field(ge=least, le=most)


def about(words: str) -> Any:
    """Say in the schema what a field means."""
    return Field(description=words)


def methods() -> str:
    """Say in the schema what each registered mechanism is."""
    return "; ".join(f"{name}: {MECHANISMS[name].about}" for name in method_names())


PLACES_READER = Reader(
    lambda field, value, _: documents.read_places(field, value), documents.places_schema
)
PRIOR_READER = Reader(
    lambda field, value, _: documents.read_prior(field, value), documents.prior_schema
)


def metric_of(mechanism: Mechanism) -> Any:
    """Return the metric of a mechanism as a description has it: None for Euclidean distance."""
    if mechanism.is_per_km or mechanism.build.metric is None:
        return None if mechanism.is_per_km else mechanism.privacy_metric
    return MapMetric(mechanism.build.metric, mechanism.inputs, mechanism.privacy_metric)


def numbers_of(some: Places, places: Places) -> list[int]:
    """Return the numbers of some places among others."""
    at = {tuple(point): i for i, point in enumerate(places.xy.tolist())}
    try:
        return [at[tuple(point)] for point in some.xy.tolist()]
    except KeyError:
        raise InputError("outputs must be some of the places to be described", "outputs") from None
