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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.places.metrics import symmetric_graph
from whereish.places.validation import Array, as_number, as_numbers, as_whole, readonly

UNIT = math.log(2)  # within this distance lies a mass of at least 1
REACH = math.log(6)  # the requirement ends here: at the mass 6.68
SHARE = 0.999  # of the cells must meet the requirement; the authors of [1] stop at 0.95
# Inside of a fence: so short that no two cells can be told apart, and still a metric.
INSIDE_FENCE = 1e-6
OUTSIDE_FENCE = 100.0  # between a fence and the rest: exp(100) limits nothing
MOST_CELLS = 40_000
_GROWTH = 1.8  # of the radius in a pass: 1.05 takes three times as long, for the same balls
_ROWS = 4_000_000  # distances that a pass holds at once: 32 MB
_ROUNDED = 1 - 1e-12  # lengths are rounded down: sums in another order must not break anything


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
        within = np.empty(self.grid.size)
        for cells, rows in _searches(self.graph(), np.arange(self.grid.size), distance):
            within[cells] = (rows <= distance).sum(axis=1)
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

    The passes go up in the distance l. A pass takes every cell c whose requirement holds up to a
    radius r below the next l. As long as the cells within r hold no more than the mass
    (r / ln 2)^2, the nearest cell that is not among them is joined to c by an edge of length r. An
    edge is never shorter than what earlier passes have settled, so balls that were large enough
    stay as they are. Passes end when ``share`` of the cells meet the requirement.

    Parameters
    ----------
    mass
        (n,) positive masses.
    fence
        (n,) the number of the fence around each cell, -1 for none. The cells of a fence are at no
        distance from each other (1e-6), and far from all others (100): nobody can tell where inside
        of it somebody is, and anybody can tell that somebody is inside. They hide no other cell.
    progress
        Called with words, and with the share of the way, after each pass.

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
    met = _met(symmetric_graph(n, edges, lengths), masses, free)
    return ElasticGraph(
        grid, readonly(masses), readonly(fences), readonly(edges), readonly(lengths), met,
        passes.count,
    )  # fmt: skip


class _Passes:
    """The edges so far, and how far the requirement holds around each cell."""

    def __init__(self, grid: Grid, mass: Array, free: NDArray[np.bool_]) -> None:
        self.grid, self.mass = grid, mass
        self.reach = np.where(free, UNIT * np.sqrt(mass), np.inf)
        self.cells = np.arange(grid.size)
        self.column, self.row = self.cells % grid.columns, self.cells // grid.columns
        # Cells of one colour are no neighbours: the next colour sees the edges of the last one.
        self.colour = self.column % 2 + 2 * (self.row % 2)
        self.right, self.up = _nearest_first(grid)
        self.tried = np.zeros(grid.size, np.int64)  # neighbours that are in the ball already
        self.inside = ~free  # of the ball of the cell at hand; a fence is never joined
        self.fenced = ~free
        self.place = np.full(grid.size, -1)  # where a cell is in the order of the ball at hand
        self.start: list[int] = []
        self.end: list[int] = []
        self.length: list[float] = []
        self.count = 0

    def run(self, share: float, progress: Callable[[str, float], object]) -> None:
        """Make passes until a share of the cells is finished."""
        level, first = 0.0, float(self.reach.min())
        free = int((~self.fenced).sum())
        while (left := int((self.reach < REACH).sum())) > (1 - share) * free:
            level = min(max(level, float(self.reach.min())) * _GROWTH, REACH)
            for colour in range(4):
                todo = np.flatnonzero((self.reach < level) & (self.colour == colour))
                graph = self.graph() if len(todo) else None
                for cells, rows in _searches(graph, todo, level):
                    for cell, row in zip(cells.tolist(), rows, strict=True):
                        self._grow(cell, row, level)
            self.count += 1
            done = math.log(level / first) / math.log(REACH / first) if first < REACH else 1.0
            progress(f"{len(self.start):,} edges, {free - left:,} of {free:,} cells done", done)

    def edges(self) -> NDArray[np.int32]:
        """(m, 2) the edges so far."""
        return np.array([self.start, self.end], np.int32).T.reshape(-1, 2)

    def lengths(self) -> Array:
        """(m,) their lengths."""
        return np.array(self.length, np.float64)

    def graph(self) -> Any:
        """Return the edges so far as a sparse matrix. Parallel edges stay: a search takes both."""
        from scipy.sparse import csr_array

        n, edges, lengths = self.grid.size, self.edges(), self.lengths()
        a, b = np.concatenate([edges, edges[:, ::-1]]).T
        order = np.argsort(a, kind="stable")
        begins = np.concatenate([[0], np.cumsum(np.bincount(a, minlength=n))]).astype(np.int32)
        return csr_array((np.tile(lengths, 2)[order], b[order], begins), shape=(n, n))

    def _grow(self, cell: int, row: Array, level: float) -> None:
        """Join cells to one cell until its requirement holds up to a level.

        The cells that the graph has within the level join by themselves, in the order of their
        distance, if the mass before them is enough.
        """
        near = np.flatnonzero(row <= level)
        away = row[near]
        order = np.argsort(away, kind="stable")
        near, away = near[order], away[order]
        total = np.concatenate([[0.0], np.cumsum(self.mass[near])])
        self.place[near] = np.arange(len(near))
        joined: list[int] = []
        at, more = 0, 0.0
        while True:
            radius = UNIT * math.sqrt(total[at] + more)
            if at < len(away) and away[at] <= radius:
                enough = away[at:] <= UNIT * np.sqrt(total[at:-1] + more)
                steps = len(enough) if enough.all() else int(enough.argmin())
                self.inside[near[at : at + steps]] = True
                at += steps
                continue
            if radius >= level:
                break
            other = self._next(cell)
            self.start.append(cell)
            self.end.append(other)
            self.length.append(radius * _ROUNDED)
            self.inside[other] = True
            joined.append(other)
            more += self.mass[other]
            if (later := self.place[other]) >= 0:  # it would have joined by itself
                total[later + 1 :] -= self.mass[other]
        self.reach[cell] = radius
        self.place[near] = -1
        self.inside[near] = self.fenced[near]
        self.inside[joined] = False

    def _next(self, cell: int) -> int:
        """Return the nearest cell by the straight line that is not inside the ball."""
        column, row = int(self.column[cell]), int(self.row[cell])
        k = int(self.tried[cell])
        while True:
            x, y = column + self.right[k], row + self.up[k]
            if 0 <= x < self.grid.columns and 0 <= y < self.grid.rows:
                other = y * self.grid.columns + x
                if not self.inside[other]:
                    self.tried[cell] = k
                    return other
            k += 1


def _searches(
    graph: Any, cells: NDArray[np.int64], limit: float
) -> Iterator[tuple[NDArray[np.int64], Array]]:
    """Yield some of the cells, and the distances of all from each of them, up to a limit."""
    from scipy.sparse.csgraph import dijkstra

    if len(cells) == 0:
        return
    step = max(1, _ROWS // graph.shape[0])
    for begin in range(0, len(cells), step):
        part = cells[begin : begin + step]
        yield part, np.asarray(dijkstra(graph, directed=True, indices=part, limit=limit))


def _met(graph: Any, mass: Array, free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which cells meet the requirement; those in fences are not asked."""
    met = ~free
    for cells, rows in _searches(graph, np.flatnonzero(free), REACH):
        for cell, row in zip(cells.tolist(), rows, strict=True):
            near = np.flatnonzero(row <= REACH)
            order = np.argsort(row[near], kind="stable")
            away, total = row[near][order], np.cumsum(mass[near][order])
            needed = np.square(np.append(away[1:], REACH) / UNIT)  # just before the next one joins
            met[cell] = bool((total >= needed * (1 - 1e-9)).all())
    return met


def _nearest_first(grid: Grid) -> tuple[list[int], list[int]]:
    """Return the steps to the other cells of a grid, the nearest by the straight line first."""
    right, up = np.meshgrid(
        np.arange(1 - grid.columns, grid.columns), np.arange(1 - grid.rows, grid.rows)
    )
    away = np.hypot(right * grid.cell_km[0], up * grid.cell_km[1])
    order = np.lexsort((right.ravel(), up.ravel(), away.ravel()))[1:]  # without the cell itself
    return right.ravel()[order].tolist(), up.ravel()[order].tolist()


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
