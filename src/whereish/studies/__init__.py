"""PROOF: measurements as functions that return rows, and pictures of them."""

from whereish.studies.compare import Row, compare, measure
from whereish.studies.pictures import (
    KINDS,
    draw_comparison,
    draw_mechanism,
    draw_profile,
    km,
    picture_kind,
)

__all__ = [
    "KINDS",
    "Row",
    "compare",
    "draw_comparison",
    "draw_mechanism",
    "draw_profile",
    "km",
    "measure",
    "picture_kind",
]
