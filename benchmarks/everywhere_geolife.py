"""Mechanisms for all points on GeoLife: loss against snapping and planar Laplace.

    python benchmarks/everywhere_geolife.py --folder FOLDER [--epsilon 1.07 2] [--people 20]

The folder is that of GeoLife; by default the one that WHEREISH_GEOLIFE names. Only medians over
people, largest ratios and counts are printed, no figure of a single person.

The raw points of a person are the first ones of every five minutes within the 6th Ring Road of
Beijing. The square of 10 x 10 km, on a raster of 1 km, that holds the most of them is the area of
the person; points outside are left out. People with less than half of their points in it, or fewer
than 500, are left out. Of the others, those with the most points are taken.

- Everywhere, on a lattice: `optimal_everywhere`, built for at most 300 clusters of the raw points.
  It has a guarantee for every two points.
- Planar Laplace + remap: `planar_laplace_everywhere`, for the same clusters: the same guarantee.
- Discrete with snapping: the optimal mechanism on the centres of cells of 0.658 x 0.712 km, as in
  the paper: of the visited cells, or of all cells of the square. A raw point is moved to its
  nearest centre. The guarantee is between the centres only.

All losses are expected distances for the raw points, not for clusters or centres. What snapping
gives away is the largest ratio of the probabilities of a report between any two points of the area
that are 10 m apart: from the counts of all pairs of places whose Voronoi cells are so close. A
guarantee for every two points allows exp(0.01 eps).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import shapely

import whereish as wh
from whereish.everywhere.points import Visits, clustered

# South, west, north, east: within the 6th Ring Road.
AREA = (39.68, 116.08, 40.18, 116.72)
SLOT_S = 300
SQUARE_KM, FEWEST, CLUSTERS = 10, 500, 300
NEAR_KM = 0.01


def raw_points(folder: Path) -> dict[str, Any]:
    """Return (n, 2) km for every person: the first point of every five minutes in the area."""
    south, west, north, east = AREA

    def reduce(batch: pl.DataFrame) -> pl.DataFrame:
        return (
            batch.filter(pl.col("lat").is_between(south, north))
            .filter(pl.col("lon").is_between(west, east))
            .with_columns(slot=pl.col("time").dt.epoch("s").floordiv(SLOT_S))
            .sort("user", "time")
            .unique(["user", "slot"], keep="first", maintain_order=True)
        )

    table = pl.concat(list(wh.open_traces(folder).map(reduce)))
    table = table.sort("user", "time").unique(["user", "slot"], keep="first", maintain_order=True)
    plane = wh.SquareCells.over(*AREA).plane
    return {
        str(user[0]): plane.to_xy(rows.select("lat", "lon").to_numpy())
        for user, rows in table.group_by("user", maintain_order=True)
    }


def in_square(xy: Any) -> Any:
    """Return the points in the best square, in km from its corner."""
    low = np.floor(xy.min(axis=0)).astype(int)
    at = np.floor(xy).astype(int) - low
    counts = np.zeros(at.max(axis=0) + 1 + 2 * SQUARE_KM)
    np.add.at(counts, tuple((at + SQUARE_KM).T), 1)
    sums = np.pad(counts.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    k = SQUARE_KM
    inside = sums[k:, k:] - sums[:-k, k:] - sums[k:, :-k] + sums[:-k, :-k]
    corner = np.array(np.unravel_index(inside.argmax(), inside.shape)) - k + low
    kept = ((xy >= corner) & (xy < corner + k)).all(axis=1)
    return xy[kept] - corner


def chosen(points: dict[str, Any], people: int) -> list[Any]:
    found = []
    for xy in points.values():
        if len(xy) >= FEWEST:
            inside = in_square(xy)
            if len(inside) >= max(FEWEST, len(xy) / 2):
                found.append(inside)
    found.sort(key=len, reverse=True)
    print(f"{len(points)} people with points, {len(found)} that can be used", flush=True)
    return found[:people]


def discrete(xy: Any, epsilon: float, visited: bool) -> tuple[float, float, int]:
    """Return the loss for raw points, the largest ratio between near points, and the places."""
    size = np.array(wh.profiles.PAPER_CELL_KM)
    at = np.floor(xy / size).astype(int)
    columns, rows = np.ceil(SQUARE_KM / size).astype(int)
    counts = np.zeros((columns, rows))
    np.add.at(counts, tuple(at.T), 1)
    cells = np.argwhere(counts > 0) if visited else np.argwhere(counts >= 0)
    places = wh.Places.from_xy((cells + 0.5) * size)
    m = wh.optimal(places, counts[tuple(cells.T)] / len(xy), epsilon)
    away = np.hypot(*(xy[:, None] - places.xy[None]).transpose(2, 0, 1))
    # The outputs are the places.
    loss = float((m.matrix[away.argmin(axis=1)] * away).sum() / len(xy))
    return loss, largest_factor(m), len(places)


def voronoi_cell(sites: Any, k: int) -> Any:
    """Return the corners of the Voronoi cell of a site, within the square."""
    cell = np.array([[0, 0], [SQUARE_KM, 0], [SQUARE_KM, SQUARE_KM], [0, SQUARE_KM]], float)
    away = np.hypot(*(sites - sites[k]).T)
    for other in np.argsort(away, kind="stable")[1:]:
        if away[other] / 2 > np.hypot(*(cell - sites[k]).T).max():
            break
        # Above 0: nearer to the other site.
        over = (cell - (sites[k] + sites[other]) / 2) @ (sites[other] - sites[k])
        kept = []
        for i, corner in enumerate(cell):
            if over[i - 1] * over[i] < 0:
                share = over[i - 1] / (over[i - 1] - over[i])
                kept.append(cell[i - 1] + share * (corner - cell[i - 1]))
            if over[i] <= 0:
                kept.append(corner)
        cell = np.array(kept)
    return cell


def largest_factor(m: Any) -> float:
    """Return the largest ratio of a report's probabilities between two points 10 m apart."""
    sites = m.inputs.xy
    cells = [shapely.Polygon(voronoi_cell(sites, k)) for k in range(len(sites))]
    ones, twos = shapely.STRtree(cells).query(cells, predicate="dwithin", distance=NEAR_KM)
    counts = m.counts.astype(np.float64)
    worst = 1.0
    for one, two in zip(ones, twos, strict=True):
        used = counts[one] > 0
        with np.errstate(divide="ignore"):
            worst = max(worst, float((counts[one][used] / counts[two][used]).max()))
    return worst


LATTICE, LAPLACE, BETTER = "everywhere, on a lattice", "planar Laplace + remap", "the better"
SNAPPED = {"discrete, visited cells": True, "discrete, all cells": False}


def measured(xy: Any, epsilon: float, vertices: int) -> dict[str, float]:
    groups = clustered(Visits(xy, np.full(len(xy), 1 / len(xy))), CLUSTERS)
    weights = groups.weights / groups.weights.sum()
    start = time.perf_counter()
    m = wh.optimal_everywhere(groups.xy, weights, epsilon, vertices=vertices, method="lattice")
    found = {"seconds": time.perf_counter() - start, "clusters": len(groups.xy)}
    assert isinstance(m, wh.EverywhereMechanism)
    assert wh.tightest_epsilon_everywhere(m) <= epsilon
    other = wh.planar_laplace_everywhere(groups.xy, weights, epsilon)
    found[LATTICE], found[LAPLACE] = (wh.expected_loss(one, xy) for one in (m, other))
    found[BETTER] = min(found[LATTICE], found[LAPLACE])
    for name, visited in SNAPPED.items():
        found[name], found[name + " factor"], found[name + " places"] = discrete(
            xy, epsilon, visited
        )
    return found


def report(epsilon: float, found: list[dict[str, float]]) -> None:
    columns = {name: np.array([one[name] for one in found]) for name in found[0]}
    medians = {name: np.median(column) for name, column in columns.items()}
    print(
        f"eps {epsilon:g}, {len(found)} people: medians of {medians['clusters']:.0f} clusters, "
        f"{medians['seconds']:.1f} s for the lattice"
    )
    for name in (LATTICE, LAPLACE, BETTER, *SNAPPED):
        ratios = columns[name] / columns[LAPLACE]
        print(
            f"  {name:>24}: loss {medians[name]:.3f} km, to planar Laplace + remap "
            f"{np.median(ratios):.3f} ({ratios.min():.3f} to {ratios.max():.3f})"
        )
    for name in SNAPPED:
        factor = columns[name + " factor"]
        print(
            f"  {name:>24}: {medians[name + ' places']:.0f} places; points 10 m apart: factor "
            f"{np.median(factor):.2f}, largest {factor.max():.2f} (everywhere: "
            f"{np.exp(epsilon * NEAR_KM):.4f})"
        )
    better = int((columns[LATTICE] < columns[LAPLACE]).sum())
    print(f"  the lattice is better than planar Laplace + remap for {better}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=os.environ.get("WHEREISH_GEOLIFE"))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.07])
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--vertices", type=int, default=600)
    args = parser.parse_args()
    if args.folder is None:
        sys.exit("name the folder of GeoLife: --folder, or WHEREISH_GEOLIFE")
    people = chosen(raw_points(args.folder), args.people)
    for epsilon in args.epsilon:
        report(epsilon, [measured(xy, epsilon, args.vertices) for xy in people])


if __name__ == "__main__":
    main()
