"""PROOF: measurements as functions that return rows, pictures of them, the paper's evaluation."""

from whereish.studies.claims import Claim, claims
from whereish.studies.compare import Row, compare, measure
from whereish.studies.datasets import DATASETS, Choice, People, load_people
from whereish.studies.evaluation import Design
from whereish.studies.paper import Evaluation, check_folder, evaluate, expected_seconds
from whereish.studies.pictures import (
    KINDS,
    draw_comparison,
    draw_mechanism,
    draw_profile,
    km,
    picture_kind,
)

__all__ = [
    "DATASETS",
    "KINDS",
    "Choice",
    "Claim",
    "Design",
    "Evaluation",
    "People",
    "Row",
    "check_folder",
    "claims",
    "compare",
    "draw_comparison",
    "draw_mechanism",
    "draw_profile",
    "evaluate",
    "expected_seconds",
    "km",
    "load_people",
    "measure",
    "picture_kind",
]
