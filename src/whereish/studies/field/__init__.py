"""The mechanisms of the field side by side: mechanisms x measures x data, as rows and a page."""

from whereish.studies.field.people import FieldData, load_check_ins, load_city, load_geolife
from whereish.studies.field.registry import (
    FIELD,
    FieldMechanism,
    field_mechanisms,
    register_field,
)
from whereish.studies.field.rows import FieldDesign
from whereish.studies.field.study import FieldStudy, register_from, study_mechanisms

__all__ = [
    "FIELD", "FieldData", "FieldDesign", "FieldMechanism", "FieldStudy", "field_mechanisms",
    "load_check_ins", "load_city", "load_geolife", "register_field", "register_from",
    "study_mechanisms",
]  # fmt: skip
