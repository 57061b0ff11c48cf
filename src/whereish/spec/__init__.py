"""The one description of a build: `build_spec`. Its fields: `fields`; its result: `building`."""

from whereish.spec.build_spec import NOT_EVERYWHERE, BuildOptions, BuildSpec, Recipe
from whereish.spec.building import EVERYWHERE, GUARANTEES, PLACES
from whereish.strict_json import read_json

__all__ = [
    "EVERYWHERE",
    "GUARANTEES",
    "NOT_EVERYWHERE",
    "PLACES",
    "BuildOptions",
    "BuildSpec",
    "Recipe",
    "read_json",
]
