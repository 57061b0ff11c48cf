"""Time the solvers on one program, side by side, and write table and JSON to benchmarks/results.

The paper's Table 1 in small: places x dilation x solver x form, with a time limit a cell. Seconds
are those of the whole call: spanner, program, solve, repair, check. The structured solver is
compiled before the clock starts. `python benchmarks/solvers.py --quick` takes half a minute.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import whereish as wh
from whereish.solvers import FORMS, SOLVERS

RESULTS = Path(__file__).parent / "results"
COLUMNS = [("structured", None)] + [
    (solver, form) for solver in SOLVERS if "-" in solver for form in FORMS
]


def city(columns: int, rows: int) -> tuple[wh.Places, list[float]]:
    places = wh.Places.from_xy(
        [[i * 0.658, j * 0.712] for j in range(rows) for i in range(columns)]
    )
    prior = np.random.default_rng(0).gamma(0.3, size=len(places))
    return places, (prior / prior.sum()).tolist()


def cell(
    places: wh.Places,
    prior: list[float],
    dilation: float,
    solver: str,
    form: str | None,
    limit: float,
) -> dict[str, object]:
    row: dict[str, object] = {
        "places": len(places),
        "dilation": dilation,
        "solver": solver,
        "form": form,
    }
    start = time.perf_counter()
    try:
        found = wh.optimal(
            places, prior, 1.07, dilation, solver=solver, form=form, time_limit_s=limit
        )
    except wh.WhereishError as problem:
        return row | {"state": "over" if "ran out" in str(problem) else "error"}
    return row | {
        "state": "solved",
        "seconds": time.perf_counter() - start,
        "constraints": found.build.constraints,
        "quality_loss_km": wh.quality_loss(found, prior),
        "gap": found.build.gap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small grids, a few seconds a cell")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a cell may take")
    options = parser.parse_args()
    grids = [(5, 3), (5, 5)] if options.quick else [(5, 5), (10, 5), (15, 5)]
    limit = 5.0 if options.quick else options.limit
    warm = city(5, 3)
    wh.optimal(*warm, 1.07, solver="structured")
    table = Table("places", "dilation", *(f"{s}\n{f or ''}" for s, f in COLUMNS))
    rows = []
    for grid in grids:
        places, prior = city(*grid)
        for dilation in (1.0, 1.1, 1.2, 1.5, 2.0):
            line = [cell(places, prior, dilation, s, f, limit) for s, f in COLUMNS]
            rows += line
            texts = [
                f"{one['seconds']:.2f}" if one["state"] == "solved" else str(one["state"])
                for one in line
            ]
            table.add_row(str(len(places)), str(dilation), *texts)
    Console(width=200).print(table)
    RESULTS.mkdir(exist_ok=True)
    about = {"python": platform.python_version(), "machine": platform.machine(), "limit_s": limit}
    target = RESULTS / "solvers.json"
    target.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
