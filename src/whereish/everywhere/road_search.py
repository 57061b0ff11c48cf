"""The search for the mechanism of least loss on streets: cuts where they matter, then the program.

Over a piece of length w, linear interpolation allows a ratio of 1 + eps w instead of exp(eps w): it
costs about (eps w)^2 / 2 of the exponent. If a piece is cut into k equal ones, the cost of all of
them together is a k-th. So the next cut belongs to the piece with the largest price w^2 / (k (k +
1)), where the price is what an exponent is worth: the multipliers of a coarse program times the
probabilities. Before there is a solution all prices are equal.

The first cuts are at the points that are visited most. The probabilities of a report have a cusp
there; and with the distance along the streets as quality metric, a node or a visited point is
always among the best reports (docs/proofs/roads.md).
"""

from __future__ import annotations

import heapq
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from whereish.deadline import Deadline
from whereish.errors import SolveError
from whereish.everywhere.points import QualityMetric, quality
from whereish.places import Array, RoadNetwork, RoadPoints, Subdivision, shortest_paths
from whereish.places.lattice import UNITS_PER_KM, Whole
from whereish.places.subdivision import LEAST_PIECE
from whereish.solvers import Progress, Structured, estimate, solve_structured

# A subdivision of so many vertices is solved first, to this gap, to find the prices.
_COARSE, _COARSE_TOLERANCE = 150, 3e-3
_VISITED = 0.5  # of the cuts, at visited points at most
_APART = 0.02  # from another vertex, in units of 1 / eps: closer visited points are not cut at
_CHEAPEST = 0.01  # of the largest price: cuts everywhere, though few
_USED = 1e-3  # an output below this probability everywhere is no candidate of the last stage
_FIRST_OUTPUTS = 240  # candidates of the first stage
_OUTPUTS = 100  # candidates of the last stage
_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False, repr=False)
class RoadVisits:
    """Different points of streets that somebody visits, with weights that sum to 1."""

    points: RoadPoints
    weights: Array

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, eq=False, repr=False)
class RoadTask:
    """What a search is for: the person, epsilon, what is given, and what it may take."""

    network: RoadNetwork
    visits: RoadVisits
    level: float
    vertices: int
    outputs: RoadPoints | None
    metric: QualityMetric | None
    tolerance: float
    clock: Deadline
    memory_gb: float
    progress: Callable[[Progress], object] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class RoadFound:
    """A solution on the vertices of a subdivision, with its candidate outputs."""

    vertices: Subdivision
    outputs: RoadPoints
    reach: Array  # shortest paths between vertices, log(1 + eps w) for a piece
    solution: Structured
    coarse: Subdivision  # of the first stage


def search_roads(task: RoadTask) -> RoadFound:
    """Solve on few vertices to find where cuts matter and which outputs, then on all of them.

    A first stage that is stopped, by the time limit or Ctrl-C, is the last one.
    """
    nodes, coarse = len(task.network.nodes), _coarse(task)
    _check_memory(task)
    vertices = _at_visits(task, int(_VISITED * (coarse - nodes)))
    vertices = refined(vertices, np.ones(len(vertices.pieces.width)), coarse)
    outputs = _first_candidates(task, vertices) if task.outputs is None else task.outputs
    if coarse < task.vertices:
        found = _solved(task, vertices, outputs, max(task.tolerance, _COARSE_TOLERANCE), None)
        if found.solution.stopped in ("time", "asked"):
            return found
        fine = refined(vertices, prices(found), task.vertices)
        if task.outputs is None:
            outputs = _candidates(task, found, fine)
        last = _solved(task, fine, outputs, task.tolerance, task.progress)
        return replace(last, coarse=vertices)
    return _solved(task, vertices, outputs, task.tolerance, task.progress)


def _coarse(task: RoadTask) -> int:
    """Return the number of vertices of the first stage."""
    return min(task.vertices, max(_COARSE, len(task.network.nodes) + task.vertices // 4))


def _check_memory(task: RoadTask) -> None:
    """Raise SolveError if a stage does not fit into the memory."""
    few = _coarse(task)
    given = None if task.outputs is None else len(task.outputs)
    first = given or min(few, _FIRST_OUTPUTS)
    stages = [(few, first), (task.vertices, given or min(task.vertices, _OUTPUTS))]
    needed, n, columns = max(
        (estimate(n, m, n + len(task.network.edges)).bytes / 1e9, n, m) for n, m in stages
    )
    if needed > task.memory_gb:
        raise SolveError(
            f"{n:,} vertices and {columns:,} outputs need about {needed:.2g} GB, and "
            f"{task.memory_gb:g} GB is allowed: take fewer vertices"
        )


def _at_visits(task: RoadTask, most: int) -> Subdivision:
    """Cut the streets at the points that are visited most, where no vertex is near."""
    network, points = task.network, task.visits.points
    apart = max(LEAST_PIECE, int(_APART / task.level * UNITS_PER_KM))
    cuts: dict[int, list[int]] = {}
    count = 0
    for k in np.argsort(-task.visits.weights, kind="stable").tolist():
        if count >= most:
            break
        street, steps = int(points.edge[k]), int(points.steps[k])
        along = cuts.setdefault(street, [0, int(network.units[street])])
        after = bisect(along, steps)
        near = [abs(steps - other) for other in along[max(0, after - 1) : after + 1]]
        if min(near) >= apart:
            along.insert(after, steps)
            count += 1
    found = [(street, steps) for street in sorted(cuts) for steps in cuts[street][1:-1]]
    position = np.array(found, np.int64).reshape(-1, 2)
    return Subdivision(network, position[:, 0], position[:, 1])


def refined(vertices: Subdivision, price: Array, most: int) -> Subdivision:
    """Return a subdivision of at most so many vertices, with cuts where prices are high."""
    width = vertices.pieces.width
    worth = np.maximum(price, _CHEAPEST * max(float(price.max()), 1e-300)) * np.square(
        width / UNITS_PER_KM
    )
    counts = np.ones(len(width), np.int64)
    queue = [(-value / 2, k) for k, value in enumerate(worth.tolist())]
    heapq.heapify(queue)
    for _ in range(most - len(vertices)):
        while queue and width[queue[0][1]] // (counts[queue[0][1]] + 1) <= 2 * LEAST_PIECE:
            heapq.heappop(queue)
        if not queue:
            break
        k = queue[0][1]
        counts[k] += 1
        heapq.heapreplace(queue, (-float(worth[k]) / (counts[k] * (counts[k] + 1)), k))
    return vertices.cut(counts)


def _first_candidates(task: RoadTask, vertices: Subdivision) -> RoadPoints:
    """Return all vertices; of many, most of them near visited points and the others anywhere."""
    points = vertices.vertices
    if len(points) <= _FIRST_OUTPUTS:
        return points
    often = np.argsort(-task.visits.weights, kind="stable")[:_FIRST_OUTPUTS]
    away = task.network.distances(points, task.visits.points.subset(often)).min(axis=1)
    order = np.argsort(away, kind="stable")
    near = 3 * _FIRST_OUTPUTS // 4
    rest = order[np.linspace(near, len(order) - 1, _FIRST_OUTPUTS - near).astype(np.int64)]
    return points.subset(np.concatenate([order[:near], rest]))


def _candidates(task: RoadTask, coarse: RoadFound, vertices: Subdivision) -> RoadPoints:
    """Return the outputs that the coarse program uses, and the vertices nearest to them."""
    use = coarse.solution.matrix.max(axis=0)
    used = coarse.outputs.subset(np.flatnonzero(use >= _USED))
    away = task.network.distances(vertices.vertices, used).min(axis=1)
    return vertices.vertices.subset(np.argsort(away, kind="stable")[: max(_OUTPUTS, len(used))])


def prices(found: RoadFound) -> Array:
    """Return what the exponent of each piece is worth: multipliers times probabilities."""
    pieces, rows = found.vertices.pieces, found.solution.multipliers
    n = len(found.vertices)
    shrink = np.exp(-found.reach[rows.left, rows.right])
    worth = rows.value * shrink * found.solution.matrix[rows.left, rows.output]
    low, high = np.minimum(rows.left, rows.right), np.maximum(rows.left, rows.right)
    pair = low.astype(np.int64) * n + high
    of = np.minimum(pieces.lower, pieces.upper) * n + np.maximum(pieces.lower, pieces.upper)
    different, first = np.unique(of, return_inverse=True)
    at = np.clip(np.searchsorted(different, pair), 0, len(different) - 1)
    is_piece = different[at] == pair
    total = np.bincount(at[is_piece], worth[is_piece], len(different))
    return np.asarray(total[first.reshape(-1)], np.float64)


def road_quality(points: RoadPoints, outputs: RoadPoints, metric: QualityMetric | None) -> Array:
    """Return d_Q between points and outputs, (n, m): along the streets if it is not given."""
    if metric is None:
        return points.network.distances(points, outputs)
    return quality(points.xy, outputs.xy, metric)


def vertex_costs(
    visits: RoadVisits, vertices: Subdivision, outputs: RoadPoints, metric: QualityMetric | None
) -> tuple[Array, Array]:
    """Return (vertices, outputs) sums of weight(x) phi_v(x) d_Q(x, z) over points x, phi_v the hat.

    The second value is the sums of weight(x) phi_v(x).
    """
    total, mass = np.zeros((len(vertices), len(outputs))), np.zeros(len(vertices))
    step = max(1, _AT_ONCE // len(outputs))
    for first in range(0, len(visits), step):
        some = np.arange(first, min(first + step, len(visits)))
        points = visits.points.subset(some)
        away = road_quality(points, outputs, metric)
        ends, hats = vertices.weights(points)
        for k in range(2):
            shares = visits.weights[some] * hats[:, k]
            np.add.at(mass, ends[:, k], shares)
            np.add.at(total, ends[:, k], shares[:, None] * away)
    return total, mass


def _solved(
    task: RoadTask,
    vertices: Subdivision,
    outputs: RoadPoints,
    tolerance: float,
    progress: Callable[[Progress], object] | None,
) -> RoadFound:
    costs, mass = vertex_costs(task.visits, vertices, outputs, task.metric)
    # The solver takes a prior and a loss; the loss of a vertex that nobody visits does not count.
    loss = road_quality(vertices.vertices, outputs, task.metric)
    seen = mass > 1e-200
    loss[seen] = costs[seen] / mass[seen, None]
    pairs, exponents = program_edges(vertices, task.level)
    reach = shortest_paths(len(vertices), pairs, exponents)
    solution = solve_structured(
        np.where(seen, mass, 0.0), loss, pairs, exponents, reach, tolerance, task.clock.seconds,
        progress,
    )  # fmt: skip
    return RoadFound(vertices, outputs, reach, solution, vertices)


def program_edges(vertices: Subdivision, level: float) -> tuple[Whole, Array]:
    """Return neighbouring vertices, each pair once, and log(1 + eps w) of the shortest piece."""
    pieces = vertices.pieces
    ends = np.sort(np.column_stack([pieces.lower, pieces.upper]), axis=1)
    order = np.lexsort((pieces.width, ends[:, 1], ends[:, 0]))
    ends, width = ends[order], pieces.width[order]
    first = np.r_[True, (np.diff(ends, axis=0) != 0).any(axis=1)]
    return ends[first], np.log1p(level * width[first] / UNITS_PER_KM)
