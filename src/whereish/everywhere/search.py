"""The search for the mechanism of least loss on a lattice: outputs and lattice in stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from whereish.deadline import Deadline
from whereish.errors import SolveError
from whereish.everywhere.area import first_importance, graded_lattice, next_importance
from whereish.everywhere.points import (
    QualityMetric,
    Visits,
    clustered,
    distances,
    medians,
    quality,
    separate,
)
from whereish.places import Array, Lattice
from whereish.solvers import Progress
from whereish.solvers.cones import ConeSolution, solve_cones

# The stages before the last one: vertices, the most candidate outputs, tolerance.
_STAGES = ((120, 64, 3e-3), (300, 40, 1e-3))
OUTPUTS = _STAGES[-1][1]  # the most candidates of the last stage
_USED = 1e-2  # an output below this probability everywhere is no candidate of the next stage
_APART = 0.02  # outputs closer than this, in units of 1 / eps, are one
_NEW = 0.3  # new candidates are at least this far from the others, in units of 1 / eps
_MEDIAN_CLUSTERS = 600
_FEW_OUTPUTS = 40  # given outputs, up to which all are in the last stage
_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """A solution on a lattice, with its outputs."""

    lattice: Lattice
    outputs: Array
    solution: ConeSolution


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """What a search is for: the person, epsilon, what is given, and what it may take."""

    visits: Visits
    level: float
    vertices: int
    lattice: Lattice | None
    outputs: Array | None
    metric: QualityMetric | None
    tolerance: float
    clock: Deadline
    progress: Callable[[Progress], object] | None = None
    stage: Callable[[str], object] = lambda words: None


def search(task: Task) -> Found:
    """Solve on coarse lattices to choose outputs and spacings, then on the lattice itself.

    A stage that is stopped, by the time limit or Ctrl-C, is the last one.
    """
    importance = first_importance(task.visits)
    outputs = candidates(task) if task.outputs is None else task.outputs
    stages = _stages(task)
    for k, (vertices, _, tolerance) in enumerate(stages):
        lattice = graded_lattice(importance, vertices)
        task.stage(f"{len(lattice):,} vertices, to choose outputs and lattice")
        found = _solved(task, lattice, outputs, tolerance)
        if found.solution.stopped in ("time", "asked"):
            if task.lattice is None:
                return found
            return _without_time(task, task.lattice, outputs, found.solution.stopped)
        importance = next_importance(lattice, found.solution)
        most = stages[k + 1][1] if k + 1 < len(stages) else 0
        outputs = _next_outputs(task, found, most)
    lattice = graded_lattice(importance, task.vertices) if task.lattice is None else task.lattice
    task.stage(f"{len(lattice):,} vertices and {len(outputs)} outputs")
    return _solved(task, lattice, outputs, task.tolerance, task.progress)


def _without_time(task: Task, lattice: Lattice, outputs: Array, stopped: str) -> Found:
    """Return the first matrix of the solver on the given lattice, after a stage was stopped."""
    found = _solved(replace(task, clock=Deadline(0.0)), lattice, outputs, task.tolerance)
    return replace(found, solution=replace(found.solution, stopped=stopped))


def _stages(task: Task) -> list[tuple[int, int, float]]:
    """Return the stages before the last one: with fewer vertices, or one with as many."""
    few = task.outputs is not None and len(task.outputs) <= _FEW_OUTPUTS
    if few and task.lattice is not None:
        return []  # there is nothing to choose
    most = task.vertices if task.lattice is None else max(len(task.lattice), 4)
    smaller = [stage for stage in _STAGES if stage[0] < most]
    return smaller or [(most, *_STAGES[0][1:])]


def candidates(task: Task) -> Array:
    """Return the first candidates: the heaviest clusters of points, and a coarse grid."""
    most = _STAGES[0][1]
    groups = clustered(task.visits, most)
    order = np.argsort(-groups.weights, kind="stable")[: most * 2 // 3]
    low, high = task.visits.xy.min(axis=0), task.visits.xy.max(axis=0)
    side = max(2, int(np.sqrt(most / 3)))
    axes = [np.unique(np.linspace(a, b, side)) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    return separate(np.vstack([groups.xy[order], grid]), _APART / task.level)


def vertex_costs(task: Task, lattice: Lattice, outputs: Array) -> Array:
    """Return (vertices, outputs) c(v, z): the sum of weight(x) phi_v(x) d_Q(x, z) over points x."""
    total = np.zeros((len(lattice), len(outputs)))
    visits = task.visits
    step = max(1, _AT_ONCE // len(outputs))
    for first in range(0, len(visits), step):
        some = slice(first, first + step)
        away = quality(visits.xy[some], outputs, task.metric)
        total += lattice.spread(visits.xy[some], visits.weights[some, None] * away)
    return total


def check_memory(vertices: int, columns: int, limit_gb: float) -> None:
    """Raise SolveError if the conic program of a lattice does not fit into the memory."""
    needed = memory_gb(vertices, columns)
    if needed > limit_gb:
        fewer = vertices
        while fewer > 1 and memory_gb(fewer, columns) > limit_gb:
            fewer = int(fewer * 0.95)
        raise SolveError(
            f"{vertices:,} vertices and {columns:,} outputs need about {needed:.2g} GB, and "
            f"{limit_gb:g} GB is allowed: what fits is about {fewer:,} vertices"
        )


def memory_gb(vertices: int, outputs: int) -> float:
    """Return an estimate of the memory of a solve, in GB."""
    blocks = outputs * vertices * (40 * vertices**0.5 + 1600)
    return float(40 * vertices**2 + blocks) / 1e9


def _solved(
    task: Task,
    lattice: Lattice,
    outputs: Array,
    tolerance: float,
    progress: Callable[[Progress], object] | None = None,
) -> Found:
    costs = vertex_costs(task, lattice, outputs)
    solution = solve_cones(
        lattice.xs, lattice.ys, costs, task.level, max(tolerance, task.tolerance),
        task.clock.seconds, progress,
    )  # fmt: skip
    return Found(lattice, outputs, solution)


def _next_outputs(task: Task, found: Found, most: int) -> Array:
    """Return the outputs in use, moved to their medians, and clusters between them up to ``most``.

    Given outputs, and those of another metric, are not moved.
    """
    matrix = found.solution.matrix
    used = matrix.max(axis=0) >= _USED
    kept: Array = found.outputs[used]
    if task.outputs is not None:
        return kept if len(task.outputs) > _FEW_OUTPUTS else task.outputs
    groups = clustered(task.visits, _MEDIAN_CLUSTERS)
    if task.metric is None:
        corners, weights = found.lattice.weights(groups.xy)
        reports = np.einsum("nk,nkm->mn", weights, matrix[:, used][corners])
        kept = medians(reports * groups.weights, groups.xy)
    kept = separate(kept, _APART / task.level)
    if len(kept) >= most:
        return kept
    fine = clustered(task.visits, 2 * most)
    for at in np.argsort(-fine.weights, kind="stable"):
        if len(kept) >= most:
            break
        if distances(fine.xy[at : at + 1], kept).min() >= _NEW / task.level:
            kept = np.vstack([kept, fine.xy[at]])
    return kept
