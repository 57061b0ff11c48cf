"""Write the constants that the page shares with the library.

The page reads traces in the browser, and must find the same places as ``whereish profile``. Its
constants are the library's: this writes them to a file of the page, and a test compares it.
"""

from __future__ import annotations

import json
from pathlib import Path

from whereish.mechanisms import MECHANISMS
from whereish.profiles import DegreeTiles, defaults
from whereish.profiles.regions import FAR_KM
from whereish.profiles.visited import HEAVIEST, MERGED_CELLS, OTHERS, POINT_CELL_KM
from whereish.profiles.visits import STEP_S
from whereish.traces.cleaning import EARLIEST
from whereish.traces.readers.columns import OTHER_NAMES
from whereish.traces.readers.geojson import TIMES_NAMES
from whereish.traces.readers.google import LONGEST_STAY_S, QUARTER_S

FILE = Path(__file__).parent.parent / "src/whereish/service/page/constants.js"


def constants() -> str:
    """Return the text of the file."""
    values = {
        "PLACES": defaults.PLACES,
        "RADIUS_KM": defaults.RADIUS_KM,
        "CELL_SIZES_M": defaults.CELL_SIZES_M,
        "COVERAGE": defaults.COVERAGE,
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
        "METHODS_WITHOUT_PRIOR": [n for n, entry in MECHANISMS.items() if not entry.needs_prior],
    }
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
    FILE.write_text(constants(), encoding="utf-8")
