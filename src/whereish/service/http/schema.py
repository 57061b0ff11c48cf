"""The schema of a recipe in OpenAPI."""

from __future__ import annotations

from typing import Any

from whereish.places.validation import LARGEST, LARGEST_EPSILON, PRIOR_TOLERANCE, SMALLEST_EPSILON
from whereish.solvers import SOLVERS
from whereish.spec import METRICS, MOST_PLACES, RECIPE_METHODS


def _list_of(item: dict[str, Any], least: int, most: int, about: str) -> dict[str, Any]:
    return {
        "type": "array", "items": item, "minItems": least, "maxItems": most, "description": about,
    }  # fmt: skip


_REAL = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
_LENGTH = {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST}


def _pairs(first: dict[str, Any], second: dict[str, Any], about: str) -> dict[str, Any]:
    pair = {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}
    return _list_of(pair, 2, MOST_PLACES, about)


def _places_schema(name: str, points: dict[str, Any]) -> dict[str, Any]:
    cell = _list_of(_LENGTH, 2, 2, "Width and height of the cells whose centres these are, in km.")
    return {
        "type": "object",
        "properties": {name: points, "cell_km": {"anyOf": [cell, {"type": "null"}]}},
        "required": [name],
        "additionalProperties": False,
    }


def _metric_schema(field: str, about: str) -> dict[str, Any]:
    row = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": LARGEST}}
    edge = {**row, "minItems": 3, "maxItems": 3}
    shapes: list[dict[str, Any]] = [{"enum": [*METRICS[field], None]}]
    for name, item in (("matrix", row), ("edges", edge)):
        shapes.append(
            {
                "type": "object",
                "properties": {name: {"type": "array", "items": item, "minItems": 1}},
                "required": [name],
                "additionalProperties": False,
            }
        )
    return {"anyOf": shapes, "description": about}


# What OpenAPI says of a recipe. What it cannot say (a prior sums to 1) is in the descriptions.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Recipe",
    "description": "A mechanism to be built.",
    "required": ["places", "prior", "epsilon_per_km"],
    "additionalProperties": False,
    "properties": {
        "places": {
            "description": "Where the person may be: in degrees, or in km in a plane.",
            "oneOf": [
                _places_schema(
                    "latlon",
                    _pairs(
                        {"type": "number", "minimum": -90, "maximum": 90},
                        {"type": "number", "minimum": -180, "maximum": 180},
                        "Latitude and longitude, in degrees.",
                    ),
                ),
                _places_schema("xy_km", _pairs(_REAL, _REAL, "Kilometres in a plane.")),
            ],
        },
        "prior": _list_of(
            {"type": "number", "minimum": 0, "maximum": 1 + PRIOR_TOLERANCE}, 2, MOST_PLACES,
            "How likely each place is: as many numbers as places, with sum 1. It is never kept "
            "longer than the build takes, nor written to a log.",
        ),
        "epsilon_per_km": {
            "type": "number", "minimum": SMALLEST_EPSILON, "maximum": LARGEST_EPSILON,
            "description": "Privacy level: ln(2) / 0.65 means twice as likely, at most, at 650 m.",
        },
        "dilation": {
            "type": "number", "minimum": 1, "maximum": 1e6, "default": 1,
            "description": "1 is exact; more means fewer constraints and slightly more loss.",
        },
        "method": {"enum": list(RECIPE_METHODS), "default": "exact"},
        "solver": {"enum": list(SOLVERS), "default": "auto"},
        "tolerance": {
            "type": "number", "minimum": 1e-12, "maximum": 1, "default": 1e-6,
            "description": "How near to the optimum is near enough, relatively.",
        },
        "time_limit_s": {
            "type": ["number", "null"], "minimum": 0.001, "maximum": 86_400,
            "description": "Seconds to take: then the best so far is what you get.",
        },
        "privacy_metric": _metric_schema("privacy_metric", "What privacy is measured by."),
        "quality_metric": _metric_schema("quality_metric", "What loss is measured by."),
        "outputs": {
            "anyOf": [
                _list_of(
                    {"type": "integer", "minimum": 0, "maximum": MOST_PLACES - 1}, 1, MOST_PLACES,
                    "Numbers of the places that may be reported.",
                ),
                {"type": "null"},
            ],
        },
        "keep_prior": {
            "type": "boolean", "default": False,
            "description": "Whether the file holds the prior, and what was computed from it.",
        },
        "prior_blur": {
            "type": "number", "minimum": 0, "maximum": 1, "default": 0,
            "description": "Share of a public prior that is mixed in. Not with keep_prior.",
        },
        "blur_with": {
            "anyOf": [
                {"enum": ["uniform", None]},
                _list_of(
                    {"type": "number", "minimum": 0, "maximum": 1 + PRIOR_TOLERANCE}, 2,
                    MOST_PLACES,
                    "The public prior: as many numbers as places, with sum 1. With prior_blur.",
                ),
            ],
        },
    },
    "example": {
        "places": {"latlon": [[48.85, 2.35], [48.86, 2.33], [48.87, 2.36]]},
        "prior": [0.5, 0.3, 0.2],
        "epsilon_per_km": 1.07,
    },
}  # fmt: skip

# The schemas of a request's body, and the name of the one that POST takes.
COMPONENTS: dict[str, Any] = {"BuildSpec": SCHEMA}
REQUEST_BODY = "BuildSpec"
