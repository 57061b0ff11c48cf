"""Time the solvers on one program, side by side, and write table and JSON to benchmarks/results.

The paper's Table 1 in small: places x dilation x solver x form, with a time limit a cell.
`python benchmarks/solvers.py --quick` takes a minute.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import whereish as wh
from whereish.programs import least_loss, least_loss_size
from whereish.solvers import FORMS, SOLVERS, solve

RESULTS = Path(__file__).parent / "results"


def program(columns: int, rows: int, dilation: float) -> tuple[object, int]:
    places = wh.Places.from_xy(
        [[i * 0.658, j * 0.712] for j in range(rows) for i in range(columns)]
    )
    prior = np.random.default_rng(0).gamma(0.3, size=len(places))
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, dilation)
    exponents = 1.07 / spanner.stretch * spanner.lengths
    return least_loss(prior / prior.sum(), distances, spanner.edges, exponents), len(spanner.edges)


def cell(built: object, solver: str, form: str, limit: float) -> tuple[str, float | None]:
    try:
        solution = solve(built, solver, form, time_limit_s=limit)  # type: ignore[arg-type]
    except wh.WhereishError as problem:
        return ("over" if "ran out" in str(problem) else "error"), None
    return f"{solution.seconds:.2f}", solution.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small grids, a few seconds a cell")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a cell may take")
    options = parser.parse_args()
    grids = [(5, 3), (5, 5)] if options.quick else [(5, 5), (10, 5), (15, 5)]
    limit = 5.0 if options.quick else options.limit
    columns = [(solver, form) for solver in SOLVERS if solver != "auto" for form in FORMS]
    table = Table("places", "dilation", "rows", *(f"{s}\n{f}" for s, f in columns))
    rows: list[dict[str, object]] = []
    for grid in grids:
        for dilation in (1.0, 1.1, 1.2, 1.5, 2.0):
            built, edges = program(*grid, dilation)
            places = grid[0] * grid[1]
            size = least_loss_size(places, places, edges)
            texts = []
            for solver, form in columns:
                text, seconds = cell(built, solver, form, limit)
                texts.append(text)
                rows.append(
                    {
                        "places": places,
                        "dilation": dilation,
                        "edges": edges,
                        "solver": solver,
                        "form": form,
                        "seconds": seconds,
                        "state": text if seconds is None else "solved",
                    }
                )
            table.add_row(str(places), str(dilation), f"{size.constraints:,}", *texts)
    Console(width=200).print(table)
    RESULTS.mkdir(exist_ok=True)
    about = {"python": platform.python_version(), "machine": platform.machine(), "limit_s": limit}
    target = RESULTS / "solvers.json"
    target.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
