"""Write the constants that the JavaScript code shares with the library.

The client reads traces and builds mechanisms in the browser. It must find the same places as
``whereish profile``, and repair and round as the library does. Its constants are the library's:
this writes them to files of the client and of the page, and a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path

import whereish
from whereish import limits
from whereish.device import budget_manager, filtering
from whereish.everywhere import private_test as lattice_test
from whereish.everywhere.optimal import EVERYWHERE_TOLERANCE
from whereish.format import certificate
from whereish.mechanisms import MECHANISMS, private_test
from whereish.places import points
from whereish.places.map_metric import KINDS
from whereish.profiles import DegreeTiles, defaults
from whereish.profiles.regions import FAR_KM
from whereish.profiles.visited import HEAVIEST, MERGED_CELLS, OTHERS, POINT_CELL_KM
from whereish.profiles.visits import STEP_S
from whereish.release import lattice_rounding, pruning, rounding
from whereish.release.repair import _LARGEST_EXPONENT, LARGEST_MIX, UNUSED
from whereish.traces.cleaning import EARLIEST
from whereish.traces.readers.columns import OTHER_NAMES
from whereish.traces.readers.geojson import TIMES_NAMES
from whereish.traces.readers.google import LONGEST_STAY_S, QUARTER_S

ROOT = Path(__file__).parent.parent
_PROFILE = {
    "PLACES": defaults.PLACES,
    "RADIUS_KM": defaults.RADIUS_KM,
    "CELL_SIZES_M": defaults.CELL_SIZES_M,
    "COVERAGE": defaults.COVERAGE,
    "FEW_POINTS": defaults.FEW_POINTS,
    "HEAVIEST_TILES": defaults.HEAVIEST_TILES,
    "EARTH_RADIUS_KM": defaults.EARTH_RADIUS_KM,
    "TILE_DEGREES": DegreeTiles().step,
    "FAR_KM": FAR_KM,
    "STEP_MS": STEP_S * 1000,
    "POINT_CELL_KM": POINT_CELL_KM,
    "MERGED_CELLS": MERGED_CELLS,
    "HEAVIEST_CLUSTERS": HEAVIEST,
    "OTHER_CLUSTERS": OTHERS,
    "EARLIEST_MS": round(EARLIEST.timestamp() * 1000),
    "QUARTER_MS": QUARTER_S * 1000,
    "LONGEST_STAY_MS": LONGEST_STAY_S * 1000,
    "COLUMN_NAMES": OTHER_NAMES,
    "TIMES_NAMES": TIMES_NAMES,
}
_CLIENT = {
    "VERSION": whereish.__version__,
    "LARGEST": limits.LARGEST,
    "MOST_PLACES": limits.MOST_PLACES,
    "SMALLEST_EPSILON": limits.SMALLEST_EPSILON,
    "LARGEST_EPSILON": limits.LARGEST_EPSILON,
    "SAME_PLACE_KM": points.SAME_PLACE_KM,
    "FURTHEST_KM": points.FURTHEST_KM,
    "POLAR_RADIUS_KM": points._POLAR_RADIUS_KM,
    "WORTH_SAYING": certificate._WORTH_SAYING,
    "TELLS_PRIOR": certificate.TELLS_PRIOR,
    "LARGEST_MIX": LARGEST_MIX,
    "ROUNDING_ERROR": rounding._ROUNDING,
    "SPARE_COUNTS": rounding._SPARE,
    "MIX_GROWTH": rounding._GROWTH,
    "ROUNDED_EXPONENT": rounding._LARGEST_EXPONENT,
    "QUANTILE_DRAW": budget_manager.QUANTILE_DRAW,
    "QUANTILE_TEST": budget_manager.QUANTILE_TEST,
    "RHO": budget_manager.RHO,
    "ETA_UTILITY": budget_manager.ETA_UTILITY,
    "ETA_RATE": budget_manager.ETA_RATE,
    "CHEAP_TEST": budget_manager._CHEAP_TEST,
    "CHEAP_THRESHOLD": budget_manager._CHEAP_THRESHOLD,
    "TEST_EXPONENT": private_test._LARGEST,
    "TEST_BELOW": private_test._BELOW,
    "TEST_SPACING": lattice_test._SPACING,
    "TEST_BLUNT": lattice_test._BLUNT,
    "TEST_REACH": lattice_test._REACH,
    "TEST_TOLERANCE": lattice_test._BELOW,
    "TEST_STEPS": lattice_test._STEPS,
    "LEAST_GAIN": filtering.LEAST_GAIN,
    "SHARED_WEIGHT": filtering._SHARED,
    "METRIC_KINDS": {
        kind: [words.epsilon_unit, certificate.metric_words(False, kind)]
        for kind, words in KINDS.items()
    },
}
_BUILD = {
    "TOLERANCE": limits.TOLERANCE,
    "EVERYWHERE_TOLERANCE": EVERYWHERE_TOLERANCE,
    "BOUND_TOLERANCE": limits.BOUND_TOLERANCE,
    "VERTICES": limits.VERTICES,
    "LEAST_VERTICES": limits.LEAST_VERTICES,
    "MOST_VERTICES": limits.MOST_VERTICES,
    "UNUSED": UNUSED,
    "UNUSED_ON_LATTICE": lattice_rounding.UNUSED,
    "LARGEST_MIX": LARGEST_MIX,
    "LARGEST_EXPONENT": _LARGEST_EXPONENT,
    "ROUNDING_ERROR": rounding._ROUNDING,
    "MIX_GROWTH": rounding._GROWTH,
    "LOST": pruning.LOST,
    "PRUNING_ROOM": pruning._ROOM,
    "FAINTEST": pruning._FAINTEST,
}
_PAGE = {
    "METHODS_WITHOUT_PRIOR": [n for n, entry in MECHANISMS.items() if not entry.needs_prior],
}
FILES = {
    "clients/js/whereish/constants.js": _CLIENT,
    "clients/js/profile/constants.js": _PROFILE,
    "clients/js/build/constants.js": _BUILD,
    "src/whereish/service/page/constants.js": _PAGE,
}


def constants(values: dict[str, object]) -> str:
    """Return the text of a file."""
    lines = [f"export const {name} = {_literal(value)};" for name, value in values.items()]
    head = "// Written by tools/page_constants.py from the constants of the library: do not edit."
    return "\n".join([head, "", *lines, ""])


def _literal(value: object) -> str:
    """Write a value in JavaScript, a line for each key of a mapping."""
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = "".join(f"  {key}: {json.dumps(part)},\n" for key, part in value.items())
    return "{\n" + rows + "}"


if __name__ == "__main__":
    for name, values in FILES.items():
        (ROOT / name).write_text(constants(values), encoding="utf-8")
