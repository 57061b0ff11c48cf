"""Studies: comparisons of mechanisms, the paper's evaluation, and reports over time, as rows."""

from whereish.studies.claims import Claim, claims
from whereish.studies.compare import Row, compare, measure
from whereish.studies.datasets import DATASETS, Choice, People, load_people
from whereish.studies.equal_budget import EqualDesign
from whereish.studies.evaluation import Design
from whereish.studies.field import (
    FieldDesign,
    field_mechanisms,
    load_check_ins,
    load_city,
    load_geolife,
    register_field,
    register_from,
    study_mechanisms,
)
from whereish.studies.folder import check_folder
from whereish.studies.paper import Evaluation, evaluate, expected_seconds
from whereish.studies.trace_people import TRACE_DATASETS, TracePeople, load_trace_people
from whereish.studies.trace_protocol import Rules
from whereish.studies.trace_rows import TraceDesign
from whereish.studies.trace_study import study_traces

__all__ = [
    "DATASETS", "TRACE_DATASETS", "Choice", "Claim", "Design", "EqualDesign", "Evaluation",
    "FieldDesign", "People", "Row", "Rules", "TraceDesign", "TracePeople", "check_folder", "claims",
    "compare", "evaluate", "expected_seconds", "field_mechanisms", "load_check_ins", "load_city",
    "load_geolife", "load_people", "load_trace_people", "measure", "register_field",
    "register_from", "study_mechanisms", "study_traces",
]  # fmt: skip
