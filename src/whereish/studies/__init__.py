"""Studies: comparisons of mechanisms, and the evaluation of the paper, as rows of tables."""

from whereish.studies.claims import Claim, claims
from whereish.studies.compare import Row, compare, measure
from whereish.studies.datasets import DATASETS, Choice, People, load_people
from whereish.studies.evaluation import Design
from whereish.studies.paper import Evaluation, check_folder, evaluate, expected_seconds

__all__ = [
    "DATASETS", "Choice", "Claim", "Design", "Evaluation", "People", "Row", "check_folder",
    "claims", "compare", "evaluate", "expected_seconds", "load_people", "measure",
]  # fmt: skip
