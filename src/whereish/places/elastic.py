"""The elastic metric: distances that are long where much lies, and short where little does.

Every cell of a grid has a mass: how well it hides a person. The requirement: around every cell, the
cells within distance l hold at least the mass (l / ln 2)^2, for all l from 0 to ln 6. The metric is
the shortest path in a graph, and the graph is made by passes that add edges until the requirement
is met. In the open country a cell is close to others that are kilometres away; in a town it is not.

References
----------
.. [1] Chatzikokolakis, Palamidessi, Stronati: Constructing elastic distinguishability metrics for
   location privacy. PETS 2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.compiled import ElasticPasses, Status, address, library
from whereish.errors import InputError
from whereish.parallel import parallel_for
from whereish.places.metrics import symmetric_graph
from whereish.places.validation import Array, as_number, as_numbers, as_whole, readonly

UNIT = math.log(2)  # within this distance lies a mass of at least 1
REACH = math.log(6)  # the requirement ends here: at the mass 6.68
SHARE = 0.999  # of the cells must meet the requirement; the authors of [1] stop at 0.95
# Inside of a fence: so short that no two cells can be told apart, and still a metric.
INSIDE_FENCE = 1e-6
OUTSIDE_FENCE = 100.0  # between a fence and the rest: exp(100) limits nothing
MOST_CELLS = 40_000
_GROWTH = 1.5  # of the distance in a pass
_SLACK = 0.05  # of the distance where a pass begins: cells closer than this share their edges
_PART = 256  # cells of a call of the core: progress and Ctrl-C come between calls
_CHECKED = 1 - 1e-9  # sums in another order may differ in their last digits


class Grid(NamedTuple):
    """A grid of cells, row by row from the south-west, as `whereish.square_grid` lays it out."""

    columns: int
    rows: int
    cell_km: tuple[float, float]

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.columns * self.rows


@dataclass(frozen=True, eq=False)
class ElasticGraph:
    """The graph of an elastic metric.

    Attributes
    ----------
    grid
        The cells.
    mass
        (n,) the mass of each cell.
    fence
        (n,) the number of the fence that a cell is in; -1 for none.
    edges, lengths
        (m, 2) cells and (m,) lengths. A distance is the length of the shortest path.
    met
        (n,) whether a cell meets the requirement. Cells in fences do not count, and are True.
    passes
        How many passes were made.
    """

    grid: Grid
    mass: Array
    fence: NDArray[np.int64]
    edges: NDArray[np.int32]
    lengths: Array
    met: NDArray[np.bool_]
    passes: int

    @property
    def share(self) -> float:
        """The share of the cells outside of fences that meet the requirement."""
        return float(self.met[self.fence < 0].mean())

    def graph(self) -> Any:
        """Return the edges as a sparse matrix of SciPy."""
        return symmetric_graph(self.grid.size, self.edges, self.lengths)

    def ball_km(self, distance: float = UNIT) -> Array:
        """Return (n,) radii: of the disc as large as all cells within a distance of each cell."""
        area = self.grid.cell_km[0] * self.grid.cell_km[1]
        every = np.arange(self.grid.size)
        _, within = _balls(self.graph(), np.ones(self.grid.size), every, distance, math.inf)
        return np.sqrt(within * area / math.pi)


def elastic_graph(
    grid: Grid,
    mass: ArrayLike,
    fence: ArrayLike | None = None,
    *,
    share: float = SHARE,
    progress: Callable[[str, float], object] = lambda news, done: None,
) -> ElasticGraph:
    """Build the graph of an elastic metric, by passes that add edges.

    The passes go up in the distance l, each by a half. A pass takes the cells c one by one. Where
    the cells within l of c hold too little mass, the nearest cell that is not among them is joined
    to c by an edge of length 0.9 l; its own neighbours then need no edge. A pass that begins at L
    demands a little more: the mass ((l + s) / ln 2)^2 within l, with s = L / 20. A cell at a
    distance of at most s from c then meets its own requirement, because its ball of radius l
    contains that of radius l - s around c, and the pass leaves it out. So the work is bounded:
    where balls have many cells, only few of them are searched. The requirement is checked around
    each cell after the last pass.

    Parameters
    ----------
    mass
        (n,) positive masses.
    fence
        (n,) the number of the fence around each cell, -1 for none. The cells of a fence are at no
        distance from each other (1e-6), and far from all others (100): nobody can tell where inside
        of it somebody is, and anybody can tell that somebody is inside. They hide no other cell.
    progress
        Called with words, and with the share of the way, several times in each pass.

    Raises
    ------
    InputError
        If the cells do not hold the mass that the requirement needs at ln 6, which is 6.68.

    >>> made = elastic_graph(Grid(6, 1, (1.0, 1.0)), [1, 1, 2, 4, 2, 1])
    >>> made.share
    1.0
    >>> bool(made.lengths.max() <= REACH)
    True
    """
    n = _check_grid(grid)
    masses = as_numbers("mass", mass, (n,))
    if (masses <= 0).any():
        raise InputError("mass must be positive, and that of a cell is not")
    if not 0 < as_number("share", share) <= 1:
        raise InputError("share must be at most 1, and it is not")
    fences = np.full(n, -1) if fence is None else as_numbers("fence", fence, (n,)).astype(np.int64)
    free = fences < 0
    if not free.any() or masses[free].sum() < (REACH / UNIT) ** 2 * (1 + 1e-9):
        raise InputError(
            f"the cells must hold a mass of {(REACH / UNIT) ** 2:.3g} or more for the requirement, "
            f"and they hold {masses[free].sum():.3g}: take a larger area"
        )
    passes = _Passes(grid, masses, free)
    passes.run(share, progress)
    joined = _connected(grid, free, passes.edges(), passes.lengths())
    edges, lengths = _fenced(grid, fences, *joined)
    progress(f"{len(edges):,} edges, checking the requirement", 1.0)
    met = _met(symmetric_graph(n, edges, lengths), masses, free)
    return ElasticGraph(
        grid, readonly(masses), readonly(fences), readonly(edges), readonly(lengths), met,
        passes.count,
    )  # fmt: skip


class _Passes:
    """The edges so far, and how far the requirement holds around each cell."""

    def __init__(self, grid: Grid, mass: Array, free: NDArray[np.bool_]) -> None:
        n = grid.size
        self.reach = np.where(free, UNIT * np.sqrt(mass), np.inf)
        self.free = int(free.sum())
        right, up = _nearest_first(grid)
        # The core keeps addresses: the arrays must live as long as this object.
        self.arrays: dict[str, NDArray[Any]] = {
            "mass": np.ascontiguousarray(mass, np.float64), "fenced": (~free).astype(np.uint8),
            "right": right, "up": up, "covered": np.zeros(n, np.uint8),
            "first": np.full(n, -1, np.int32), "to": np.empty(0, np.int32),
            "next": np.empty(0, np.int32), "length": np.empty(0),
        }  # fmt: skip
        self.state = ElasticPasses(columns=grid.columns, rows=grid.rows, steps=len(right))
        self.count = 0
        self._make_room(4 * n)

    def run(self, share: float, progress: Callable[[str, float], object]) -> None:
        """Make passes until a share of the cells is finished."""
        level, first = 0.0, float(self.reach.min())
        while int((self.reach < REACH).sum()) > (1 - share) * self.free:
            begin = max(level, float(self.reach.min()))
            level = min(begin * _GROWTH, REACH)
            todo = np.flatnonzero(self.reach < level).astype(np.int32)
            self.state.level, self.state.slack = level, _SLACK * begin
            self.state.start = begin - self.state.slack
            self.arrays["covered"][:] = 0
            for at in range(0, len(todo), _PART):
                self._join(todo[at : at + _PART])
                way = math.log(begin * (level / begin) ** (at / len(todo)) / first)
                progress(f"{self.state.edges:,} edges", way / math.log(REACH / first))
            self.reach[todo] = level
            self.count += 1

    def edges(self) -> NDArray[np.int32]:
        """(m, 2) the edges so far."""
        return np.array(self.arrays["to"][: 2 * self.state.edges], np.int32).reshape(-1, 2)

    def lengths(self) -> Array:
        """(m,) their lengths."""
        return np.array(self.arrays["length"][: self.state.edges])

    def _join(self, cells: NDArray[np.int32]) -> None:
        """Add the edges that some cells need."""
        while len(cells):
            done = library().wi_elastic_pass(
                byref(self.state), len(cells), address(cells, np.int32)
            )
            if done < 0:
                raise MemoryError
            cells = cells[done:]
            if len(cells):
                self._make_room(2 * self.state.capacity)

    def _make_room(self, edges: int) -> None:
        for name, size in (("to", 2 * edges), ("next", 2 * edges), ("length", edges)):
            self.arrays[name] = np.resize(self.arrays[name], size)
        for name, array in self.arrays.items():
            setattr(self.state, name, address(array, array.dtype))
        self.state.capacity = edges


def _balls(
    graph: Any, mass: Array, cells: NDArray[np.int64], limit: float, enough: float
) -> tuple[Array, Array]:
    """Return two measures of the ball of radius ``limit`` around each of some cells.

    The least mass(closer than d) / (d / ln 2)^2 over the distances d in it, and its mass. A search
    ends where the mass has reached ``enough``.
    """
    weights = np.ascontiguousarray(mass, np.float64)
    begins, ends = (np.ascontiguousarray(a, np.int32) for a in (graph.indptr, graph.indices))
    lengths = np.ascontiguousarray(graph.data, np.float64)
    arrays = (weights, begins, ends, lengths)
    least, held = np.empty(len(cells)), np.empty(len(cells))
    every = cells.astype(np.int32)
    for at in range(0, len(cells), 4 * _PART):
        part = slice(at, at + 4 * _PART)
        parallel_for(
            _measure, len(every[part]), graph.shape[0],
            address(every[part], np.int32), *(address(array, array.dtype) for array in arrays),
            limit, enough, address(least[part], np.float64), address(held[part], np.float64),
        )  # fmt: skip
    return least, held


def _measure(low: int, high: int, *arguments: Any) -> None:
    if library().wi_elastic_balls(low, high, *arguments) != Status.OK:
        raise MemoryError


def _met(graph: Any, mass: Array, free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which cells meet the requirement; those in fences are not asked."""
    met = ~free
    enough = (REACH / UNIT) ** 2
    least, held = _balls(graph, mass, np.flatnonzero(free), REACH, enough)
    met[free] = (least >= _CHECKED) & (held >= enough * _CHECKED)
    return met


def _nearest_first(grid: Grid) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the steps to the other cells of a grid, the nearest by the straight line first."""
    right, up = np.meshgrid(
        np.arange(1 - grid.columns, grid.columns), np.arange(1 - grid.rows, grid.rows)
    )
    away = np.hypot(right * grid.cell_km[0], up * grid.cell_km[1])
    order = np.lexsort((right.ravel(), up.ravel(), away.ravel()))[1:]  # without the cell itself
    return right.ravel()[order].astype(np.int32), up.ravel()[order].astype(np.int32)


def _connected(
    grid: Grid, free: NDArray[np.bool_], edges: NDArray[np.int32], lengths: Array
) -> tuple[NDArray[np.int32], Array]:
    """Join neighbours that no path joins by edges of length ln 6, where the requirement ends."""
    from scipy.sparse.csgraph import connected_components

    cells = np.arange(grid.size).reshape(grid.rows, grid.columns)
    beside = np.column_stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()])
    above = np.column_stack([cells[:-1].ravel(), cells[1:].ravel()])
    left = np.flatnonzero(free)  # the last pairs join what fences have separated
    for pairs in (np.concatenate([beside, above]), np.column_stack([left[:-1], left[1:]])):
        _, part = connected_components(symmetric_graph(grid.size, edges, lengths), directed=False)
        apart = pairs[free[pairs].all(axis=1) & (part[pairs[:, 0]] != part[pairs[:, 1]])]
        edges = np.concatenate([edges, apart.astype(np.int32)])
        lengths = np.concatenate([lengths, np.full(len(apart), REACH)])
    return edges, lengths


def _fenced(
    grid: Grid, fence: NDArray[np.int64], edges: NDArray[np.int32], lengths: Array
) -> tuple[NDArray[np.int32], Array]:
    """Add the edges inside of fences, and one from each fence to the nearest cell outside."""
    cells = np.arange(grid.size)
    xy = np.column_stack([cells % grid.columns, cells // grid.columns]) * np.array(grid.cell_km)
    free = np.flatnonzero(fence < 0)
    pairs, much = edges.tolist(), lengths.tolist()
    for number in np.unique(fence[fence >= 0]):
        middle, *rest = np.flatnonzero(fence == number).tolist()
        away = np.square(xy[free] - xy[[middle, *rest]].mean(axis=0)).sum(axis=1)
        pairs += [*([middle, other] for other in rest), [middle, int(free[away.argmin()])]]
        much += [*(INSIDE_FENCE / 2 for _ in rest), OUTSIDE_FENCE]
    return np.array(pairs, np.int32).reshape(-1, 2), np.array(much, np.float64)


def _check_grid(grid: Grid) -> int:
    for name in ("columns", "rows"):
        as_whole(name, getattr(grid, name))
    for side in grid.cell_km:
        as_number("cell_km", side, unit="km")
    if grid.size > MOST_CELLS:
        raise InputError(
            f"cells must be at most {MOST_CELLS:,}, got {grid.size:,}: take larger cells (--cell) "
            "or a smaller area"
        )
    return grid.size
