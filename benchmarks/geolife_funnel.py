"""The paper's funnel on GeoLife, for every reading of what the paper leaves open.

    python benchmarks/geolife_funnel.py FOLDER [--cache FOLDER]

Prints people after the first and the second filter and the spanner's edges at dilation 1, 1.05 and
1.1 on the chosen regions: the paper has 116, 86, and 872, 255, 191. The table in
docs/reproduction.md is made of this. Counts only: nothing here tells about anybody.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import whereish as wh
from whereish.profiles import PAPER_CELL_KM, Visits, traces_by_file

ZONE = "Asia/Shanghai"
# South, west, north, east: what a map of Beijing may show.
AREAS = {
    "within the 6th Ring Road": (39.68, 116.08, 40.18, 116.72),
    "within the 5th Ring Road": (39.75, 116.20, 40.03, 116.56),
    "the municipality": (39.44, 115.42, 41.06, 117.51),
}
SHIFTS = [(x / 4, y / 4) for y in range(4) for x in range(4)]


def grid(
    area: str = "within the 6th Ring Road", shift: tuple[float, float] = (0, 0)
) -> wh.SquareCells:
    cells = wh.SquareCells.over(*AREAS[area])
    corner = tuple(
        c - s * side for c, s, side in zip(cells.corner_km, shift, cells.cell_km, strict=True)
    )
    return replace(cells, corner_km=(corner[0], corner[1]))


def flat_degrees() -> wh.SquareCells:
    """Cells 0.712 km high, and as wide as 0.658 km would be in degrees at the equator."""
    cells = wh.SquareCells.over(*AREAS["within the 6th Ring Road"])
    narrow = PAPER_CELL_KM[0] * np.cos(np.radians(cells.plane.lat))
    return wh.SquareCells.over(
        *AREAS["within the 6th Ring Road"], (float(narrow), PAPER_CELL_KM[1])
    )


def by_points(visits: Visits, unit: str) -> Visits:
    """Count hours with any point, days with any, or points, instead of traces."""
    rows = visits.table
    if unit != "points":
        rows = rows.unique(["user", "hour"] if unit == "hours" else ["user", "day"])
    table = rows.group_by("user", "day").agg(traces=pl.len())
    return replace(visits, traces=table.sort("user", "day"))


def figures(visits: Visits, window: int | None = 90) -> str:
    cohort = wh.paper_profiles(visits, window_days=window)
    apart = wh.euclidean(cohort.places)
    edges = [len(wh.greedy_spanner(apart, dilation).edges) for dilation in (1, 1.05, 1.1)]
    first, second = cohort.steps[3].users, len(cohort.users)
    return f"{first:>4} {second:>4}   {edges[0]:>4} {edges[1]:>4} {edges[2]:>4}"


def readings(data: Path, cache: Path | None) -> Iterator[tuple[str, str]]:
    traces = wh.open_traces(data)

    def counted(cells: wh.SquareCells, zone: str = ZONE) -> Visits:
        return wh.count_visits(traces, cells, zone, cache=cache)

    default = counted(grid())
    yield "default", figures(default)
    yield "window: a file is a trace", figures(traces_by_file(default, traces))
    yield "window: most days with points", figures(by_points(default, "days"))
    yield "window: most hours with points", figures(by_points(default, "hours"))
    yield "window: most counted points", figures(by_points(default, "points"))
    yield "window: none", figures(default, None)
    for area in list(AREAS)[1:]:
        yield f"area: {area}", figures(counted(grid(area)))
    yield "time zone: UTC", figures(counted(grid(), "UTC"))
    yield "longitude not scaled by the cosine", figures(counted(flat_degrees()))
    for shift in SHIFTS[1:]:
        yield f"origin: {shift[0]:g}, {shift[1]:g} of a cell", figures(counted(grid(shift=shift)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("geolife", type=Path)
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args()
    print(f"{'reading':<40}  1st  2nd   edges")
    print(f"{'the paper':<40}  116   86    872  255  191")
    for name, told in readings(asked.geolife, asked.cache):
        print(f"{name:<40} {told}", flush=True)


if __name__ == "__main__":
    main()
