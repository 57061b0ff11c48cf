"""The elastic metric of a map: cells with their masses, and the metric between cells or places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.maps.area import Area
from whereish.maps.map_file import ATTRIBUTION
from whereish.maps.masses import Found
from whereish.places import Array, LocalPlane, MapMetric, Places, grid_layout
from whereish.places.elastic import ElasticGraph, Grid, elastic_graph

CELL_KM = 0.1
FULL_KM, EMPTY_KM = (
    0.3,
    3.0,
)  # a mass of 1: within 300 m in the middle, within 3 km where nothing is
_NEAR_KM = 1.0  # the middle: cells at most so far from the mean position of what lies there


@dataclass(frozen=True, eq=False)
class Cells:
    """A grid over an area, and what lies in its cells.

    Attributes
    ----------
    places
        The centres of the cells.
    grid
        Its columns, rows and the size of a cell.
    weight
        (n,) the weighted number of buildings and amenities.
    """

    places: Places
    grid: Grid
    weight: Array

    @property
    def prior(self) -> Array:
        """(n,) the share of what lies in each cell: a public prior."""
        return np.asarray(self.weight / self.weight.sum())


def make_cells(
    found: Found, area: Area, cell_km: tuple[float, float], weights: Mapping[str, float]
) -> Cells:
    """Count what lies in the cells of a grid over an area."""
    plane, cell, (columns, rows) = grid_layout(*area, cell_km)
    grid = Grid(columns, rows, cell)
    x = (np.arange(columns) - (columns - 1) / 2) * cell[0]
    y = (np.arange(rows) - (rows - 1) / 2) * cell[1]
    xy = np.column_stack([np.tile(x, rows), np.repeat(y, columns)])
    places = Places(xy, plane.to_latlon(xy), plane, cell)
    weight = found.in_cells(grid, plane, weights)
    if not weight.any():
        raise InputError("an area must hold buildings or amenities with a weight, and it has none")
    return Cells(places, grid, weight)


def scaled_mass(cells: Cells) -> Array:
    """Return (n,) the mass of each cell: m = a + b w.

    w is the weight of a cell, at most its mean plus two standard deviations. a = 1 / (cells within
    3 km), so that 3 km of nothing have the mass 1. b is such that the mean mass within 300 m is 1
    around the cells in the middle.
    """
    weight = np.minimum(cells.weight, cells.weight.mean() + 2 * cells.weight.std())
    xy = cells.places.xy
    tree = cells.places.tree
    middle = (xy * (cells.weight / cells.weight.sum())[:, None]).sum(axis=0)
    near = tree.query_ball_point(middle, _NEAR_KM) or [int(tree.query(middle)[1])]
    around = tree.query_ball_point(xy[near], FULL_KM * (1 + 1e-9))
    lies = float(np.mean([weight[one].sum() for one in around]))
    if lies <= 0:
        raise InputError("the middle of the area must hold buildings or amenities, and it is empty")
    full, empty = (_cells_within(cells.grid.cell_km, radius) for radius in (FULL_KM, EMPTY_KM))
    return np.asarray(1 / empty + (1 - full / empty) / lies * weight)


def _cells_within(cell_km: tuple[float, float], radius: float) -> int:
    """Return how many cells of an endless grid have their centre within a radius of one of them."""
    across, up = (np.arange(-n, n + 1) * side for side in cell_km for n in [int(radius / side) + 1])
    return int((np.hypot(across[:, None], up) <= radius * (1 + 1e-9)).sum())


def make_elastic(
    cells: Cells,
    fences: Sequence[Area] = (),
    progress: Callable[[str, float], object] = lambda news, done: None,
) -> ElasticGraph:
    """Build the graph of the elastic metric; the cells of each fence have no distance inside."""
    latlon: Any = cells.places.latlon
    fence = np.full(cells.grid.size, -1)
    for number, box in enumerate(fences):
        inside = (latlon >= [box.south, box.west]).all(axis=1)
        inside &= (latlon <= [box.north, box.east]).all(axis=1)
        if not inside.any():
            raise InputError("a fence must hold the centre of a cell, and one holds none")
        fence[inside & (fence < 0)] = number
    return elastic_graph(cells.grid, scaled_mass(cells), fence, progress=progress)


def elastic_metric(cells: Cells, made: ElasticGraph, places: Places | None = None) -> MapMetric:
    """Return the elastic metric between all cells, or between the cells that places are in.

    Raises
    ------
    InputError
        If two places are in the same cell, or one is in none.
    """
    facts = {
        "cells": made.grid.size,
        "cell_km": list(made.grid.cell_km),
        "edges": len(made.edges),
        "share_met": made.share,
        "fences": int(made.fence.max()) + 1,
        "mass_1_within_km": FULL_KM,
    }
    if places is None:
        return MapMetric(
            "elastic", cells.places, None, made.edges, made.lengths, facts, ATTRIBUTION
        )
    number = _cells_of(cells, places)
    from scipy.sparse.csgraph import dijkstra

    rows = np.asarray(dijkstra(made.graph(), directed=True, indices=number))[:, number]
    return MapMetric(
        "elastic", places, np.minimum(rows, rows.T), facts=facts, attribution=ATTRIBUTION
    )


def _cells_of(cells: Cells, places: Places) -> Any:
    plane: LocalPlane | None = cells.places.plane
    if plane is None or places.latlon is None:
        raise InputError("places must be in degrees (lat, lon) to be found on a map")
    at = plane.to_xy(places.latlon) / np.array(cells.grid.cell_km)
    at = np.floor(at + np.array([cells.grid.columns, cells.grid.rows]) / 2).astype(np.int64)
    if ((at < 0) | (at >= [cells.grid.columns, cells.grid.rows])).any():
        raise InputError("places must be inside the area, and one is not: give a larger --margin")
    number = at[:, 1] * cells.grid.columns + at[:, 0]
    if len(set(number.tolist())) < len(number):
        raise InputError(
            "places must be in different cells, and two are in the same one: take smaller cells, "
            "like --cell 50m"
        )
    return number
