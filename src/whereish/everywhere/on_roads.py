"""The optimal mechanism on streets: the least loss that is private at every point of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from whereish.deadline import Deadline
from whereish.errors import InputError, described
from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.points import MOST_POINTS, QualityMetric, distances
from whereish.everywhere.road_bound import reports_for, road_bound
from whereish.everywhere.road_mechanism import RoadMechanism
from whereish.everywhere.road_search import (
    RoadFound,
    RoadTask,
    RoadVisits,
    search_roads,
    vertex_costs,
)
from whereish.limits import BOUND_S, MEMORY_GB, MOST_VERTICES, VERTICES
from whereish.measures import relative_gap
from whereish.places import (
    Places,
    RoadNetwork,
    RoadPoints,
    as_epsilon,
    as_number,
    as_prior,
    as_whole,
    normalised,
)
from whereish.release import release_roads
from whereish.solvers import Progress

ROAD_TOLERANCE = 1e-5
_BOUND_SHARE = 0.25  # of the time left, for the lower bound on visited points


def optimal_on_roads(
    network: RoadNetwork,
    points: ArrayLike | Places | RoadPoints,
    weights: ArrayLike | None,
    epsilon: float,
    *,
    vertices: int = VERTICES,
    outputs: ArrayLike | Places | RoadPoints | None = None,
    quality_metric: QualityMetric | str | None = None,
    tolerance: float = ROAD_TOLERANCE,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    memory_limit_gb: float = MEMORY_GB,
    normalise: bool = False,
) -> RoadMechanism:
    """Build a mechanism with little quality loss that is private between any two points of streets.

    Among the mechanisms that interpolate linearly between vertices on the streets, the one with the
    least expected d_Q between the true point and the report. Its guarantee is between all points x
    and x' of all streets: k(x, z) <= exp(eps d(x, x')) k(x', z), d the distance along the streets.
    The steps: cuts where epsilon matters most, the linear program with a ratio of 1 + eps w for a
    piece of length w, repair, rounding to integers, exact audit, lower bounds. See
    docs/proofs/roads.md.

    Parameters
    ----------
    network
        The streets.
    points, weights
        (n, 2) points in km, or `Places`, that the person visits, and how often: non-negative
        numbers with sum 1, or None for equal shares. Each is moved to the nearest point of a
        street, which must be within 1 km. Or `RoadPoints` of the network.
    epsilon
        The privacy level, per km along the streets.
    vertices
        The most vertices, at least as many as the network has nodes. More are better and take
        longer. What counts is epsilon times the length of a piece.
    outputs
        What may be reported: points like ``points``. If not given, outputs are chosen among the
        vertices.
    quality_metric
        d_Q: the distance along the streets if not given; "euclidean"; or a function of (n, 2)
        points and (m, 2) outputs, in km, that returns an (n, m) matrix. It is measured from the
        point of the street: how far a point is from its street is not part of the loss.
    tolerance
        The relative gap to the optimum of the program at which the search ends.
    time_limit_s
        The time limit of the search in seconds. The best mechanism so far is returned.
    progress
        Called at every iteration of the last stage; the search ends if it returns False.
    memory_limit_gb
        The memory of the search in GB.
    normalise
        Divide the weights by their sum.

    Raises
    ------
    InputError
        If an argument cannot be used.
    SolveError
        If the program does not fit into the memory.

    >>> import whereish as wh
    >>> square = wh.RoadNetwork([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1], [1, 2], [2, 3], [3, 0]])
    >>> m = wh.optimal_on_roads(square, [[0.5, 0.01], [1, 0.7]], [0.8, 0.2], epsilon=2, vertices=40)
    >>> m.verdict.tightest <= 2
    True
    >>> len(m.sample((0.2, 0.98), size=100))
    100
    """
    start = time.perf_counter()
    if not isinstance(network, RoadNetwork):
        raise InputError(f"network must be a RoadNetwork, got {type(network).__name__}")
    visits = as_road_visits(network, points, weights, normalise)
    level = as_epsilon(epsilon)
    nodes = len(network.nodes)
    most = as_whole("vertices", vertices, 2)
    if not nodes <= most <= MOST_VERTICES:
        raise InputError(
            f"vertices must be from {nodes:,}, the nodes of the network, to {MOST_VERTICES:,}, got "
            f"{most:,}"
        )
    metric = as_quality(quality_metric)
    targets = None if outputs is None else network.snap(outputs)
    as_number("tolerance", tolerance)
    as_number("memory_limit_gb", memory_limit_gb, unit="GB")
    clock = Deadline(None if time_limit_s is None else as_number("time_limit_s", time_limit_s))
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function, got {type(progress).__name__}")
    task = RoadTask(
        network, visits, level, most, targets, metric, tolerance, clock, memory_limit_gb, progress
    )
    return _released(search_roads(task), task, start)


def as_road_visits(
    network: RoadNetwork,
    points: ArrayLike | Places | RoadPoints,
    weights: ArrayLike | None,
    normalise: bool = False,
) -> RoadVisits:
    """Validate points and weights, and move the points to the streets.

    Points without weight are left out, and equal points are one.
    """
    found = network.snap(points)
    if len(found) > MOST_POINTS:
        raise InputError(
            f"points must be at most {MOST_POINTS:,}, got {len(found):,}: cluster them"
        )
    if weights is None:
        shares = np.full(len(found), 1 / len(found))
    else:
        shares = as_prior(normalised(weights) if normalise else weights, len(found), "weights")
    different, of = found.subset(np.flatnonzero(shares > 0)).merged()
    return RoadVisits(different, np.bincount(of, shares[shares > 0]).astype(np.float64))


def as_quality(metric: QualityMetric | str | None) -> QualityMetric | None:
    """Return a function of points and outputs; None for the distance along the streets."""
    if isinstance(metric, str) and metric == "euclidean":
        return distances
    if metric is not None and not callable(metric):
        raise InputError(
            "quality_metric must be a function of points and outputs, or euclidean, got "
            f"{described(metric)}"
        )
    return metric


def road_loss(
    mechanism: RoadMechanism, visits: RoadVisits, metric: QualityMetric | None = None
) -> float:
    """Return the expected loss for validated points."""
    costs, _ = vertex_costs(visits, mechanism.vertices, mechanism.outputs, metric)
    return float((mechanism.matrix * costs).sum())


def _released(found: RoadFound, task: RoadTask, start: float) -> RoadMechanism:
    """Repair, round and audit a solution, and record how it was built."""
    solution, level = found.solution, task.level
    released = release_roads(solution.matrix, found.vertices, found.reach, level)
    counts, outputs = released.counts, found.outputs
    if task.outputs is None:  # outputs that nobody reports are left out
        used = np.flatnonzero(counts.max(axis=0) > 0)
        counts, outputs = np.ascontiguousarray(counts[:, used]), outputs.subset(used)
    mechanism = RoadMechanism(counts, found.vertices, outputs, level)
    loss = road_loss(mechanism, task.visits, task.metric)
    left = task.clock.seconds
    bound = None
    if solution.stopped != "asked":  # who has pressed Ctrl-C does not wait for it
        limit = BOUND_S if left is None else _BOUND_SHARE * left
        reports = reports_for(task.visits, outputs) if task.outputs is None else outputs
        bound = road_bound(task.visits, level, found.coarse, reports, task.metric, limit)
    n, pieces = len(found.vertices), len(found.vertices.pieces.width)
    build = EverywhereBuild(
        "optimal-on-roads",
        solver="structured",
        seconds=time.perf_counter() - start,
        variables=n * len(found.outputs),
        constraints=n + 2 * pieces * len(found.outputs),
        edges=pieces,
        repair_mix=released.mix,
        repair_cost_km=loss - solution.loss,
        lower_bound_km=bound,
        gap=None if bound is None else relative_gap(loss, bound),
        program_bound_km=solution.bound,
        program_gap=relative_gap(loss, solution.bound),
        stopped=None if solution.stopped == "solved" else solution.stopped,
        loss_km=loss,
    )
    return RoadMechanism(counts, found.vertices, outputs, level, build)
