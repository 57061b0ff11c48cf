"""PROOF: measurements as functions that return rows, and pictures of them."""

from whereish.studies.compare import Row, compare, measure
from whereish.studies.pictures import (
    draw_comparison,
    draw_mechanism,
    draw_profile,
    picture_kind,
)

__all__ = [
    "Row",
    "compare",
    "draw_comparison",
    "draw_mechanism",
    "draw_profile",
    "measure",
    "picture_kind",
]
