"""The optimal mechanism for all points: the least loss on a lattice that is private everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.deadline import Deadline
from whereish.errors import InputError, described
from whereish.everywhere.bound import visited_bound
from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.loss import loss_of
from whereish.everywhere.mechanism import EverywhereMechanism, as_lattice, check_near
from whereish.everywhere.planar_laplace import (
    PlanarLaplaceEverywhere,
    check_quality,
    outputs_in,
    planar_laplace_for,
)
from whereish.everywhere.points import QualityMetric, as_visits
from whereish.everywhere.search import OUTPUTS, Found, Task, check_memory, search
from whereish.limits import LEAST_VERTICES, MEMORY_GB, VERTICES
from whereish.measures import relative_gap
from whereish.places import Places, as_epsilon, as_number, as_whole
from whereish.release import release_lattice
from whereish.solvers import Progress

METHODS = ("auto", "lattice", "planar-laplace")
EVERYWHERE_TOLERANCE = 1e-5
_BOUND_SHARE = 0.25  # of the time left, for the lower bound on visited points


def optimal_everywhere(
    points: ArrayLike | Places,
    weights: ArrayLike | None,
    epsilon: float,
    *,
    vertices: int = VERTICES,
    lattice: Any = None,
    outputs: Places | None = None,
    quality_metric: QualityMetric | None = None,
    method: str = "auto",
    tolerance: float = EVERYWHERE_TOLERANCE,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    stage: Callable[[str], object] | None = None,
    memory_limit_gb: float = MEMORY_GB,
    normalise: bool = False,
) -> EverywhereMechanism | PlanarLaplaceEverywhere:
    """Build a mechanism with little quality loss that is private between any two points.

    Among the mechanisms that interpolate bilinearly between the vertices of a lattice, the one with
    the least expected d_Q between the true point and the report. Its guarantee is not between a set
    of places, but between all points x and x' of the plane: k(x, z) <= exp(eps |x - x'|) k(x', z).
    The steps: a coarse lattice and many outputs, a finer lattice where epsilon matters most and the
    outputs in use, moved to their medians, the conic program of the full lattice, repair, rounding
    to integers, exact audit, lower bounds. See docs/proofs/everywhere.md.

    Parameters
    ----------
    points, weights
        (n, 2) points in km, or `Places`, that the person visits, and how often: non-negative
        numbers with sum 1, or None for equal shares. Points may be equal.
    epsilon
        The privacy level, per km.
    vertices
        The most vertices of the lattice, at least 4. More are better and take longer. What counts
        is epsilon times the spacing.
    lattice
        (xs, ys), increasing coordinates in km, to use instead; in the plane of the points.
    outputs
        The places that may be reported; chosen if not given.
    quality_metric
        d_Q: a function of (n, 2) points and (m, 2) outputs that returns an (n, m) matrix; Euclidean
        distance if not given.
    method
        "lattice"; "planar-laplace", see `planar_laplace_everywhere`, which has the same guarantee;
        or "auto": the one of the two with the smaller loss. ``build.notes`` says which.
    tolerance
        The relative gap to the optimum of the lattice at which the search ends.
    time_limit_s
        The time limit of the search in seconds. The best mechanism so far is returned.
    progress
        Called at every iteration of the last stage; the search ends if it returns False.
    stage
        Called when a stage begins, with its name in words.
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
    >>> m = wh.optimal_everywhere(
    ...     [[0, 0], [1, 0.2], [2, 1]], [0.5, 0.3, 0.2], epsilon=1.0, vertices=64
    ... )
    >>> bool(wh.tightest_epsilon_everywhere(m) <= 1.0)
    True
    """
    start = time.perf_counter()
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {described(method)}")
    visits = as_visits(points, weights, normalise)
    level = as_epsilon(epsilon)
    check_quality(quality_metric)
    most = as_whole("vertices", vertices, LEAST_VERTICES)
    given = None if lattice is None else as_lattice(lattice)
    if given is not None and visits.plane is not None:
        check_near(given.vertices, "lattice")
    places = None if outputs is None else outputs_in(outputs, visits)
    as_number("tolerance", tolerance)
    as_number("memory_limit_gb", memory_limit_gb, unit="GB")
    clock = Deadline(None if time_limit_s is None else as_number("time_limit_s", time_limit_s))
    for name, function in (("progress", progress), ("stage", stage)):
        if function is not None and not callable(function):
            raise InputError(f"{name} must be a function, got {type(function).__name__}")
    tell = (lambda words: None) if stage is None else stage
    other = None
    if method != "lattice":
        tell("planar Laplace with the best remap")
        other = planar_laplace_for(visits, level, places, quality_metric)
        if method == "planar-laplace":
            return other
    task = Task(
        visits, level, most, given, None if places is None else places.xy, quality_metric,
        tolerance, clock, progress, tell,
    )  # fmt: skip
    columns = OUTPUTS if places is None else len(places)
    check_memory(most if given is None else len(given), columns, memory_limit_gb)
    built = _released(search(task), task, places, start)
    return built if other is None else _better_of(built, other)


def _released(found: Found, task: Task, places: Places | None, start: float) -> EverywhereMechanism:
    """Repair, round and audit a solution, and record how it was built."""
    solution, visits, level = found.solution, task.visits, task.level
    released = release_lattice(solution.matrix, found.lattice, level)
    if places is None:
        # Outputs that nobody reports are left out.
        used = released.counts.max(axis=0) > 0
        released = replace(released, counts=np.ascontiguousarray(released.counts[:, used]))
        places = visits.places(found.outputs[used])
    mechanism = EverywhereMechanism(released.counts, found.lattice, places, level)
    loss = loss_of(mechanism, visits, task.metric)
    left = task.clock.seconds
    limit = None if left is None else _BOUND_SHARE * left
    bound = proof = None
    if solution.stopped != "asked":  # who has pressed Ctrl-C does not wait for it
        task.stage("lower bound on the visited points")
        bound, proof = visited_bound(visits, level, places, task.metric, limit)
    n, m = mechanism.counts.shape
    build = EverywhereBuild(
        "optimal-everywhere",
        solver="cones",
        seconds=time.perf_counter() - start,
        variables=n * m,
        constraints=n + mechanism.verdict.corners,
        repair_mix=released.mix,
        repair_cost_km=loss - solution.loss,
        lower_bound_km=bound,
        gap=None if bound is None else relative_gap(loss, bound),
        program_bound_km=solution.bound,
        program_gap=relative_gap(loss, solution.bound),
        stopped=None if solution.stopped == "solved" else solution.stopped,
        loss_km=loss,
    )
    return replace(mechanism, build=build, proof=proof)


def _better_of(
    built: EverywhereMechanism, other: PlanarLaplaceEverywhere
) -> EverywhereMechanism | PlanarLaplaceEverywhere:
    """Return the mechanism with the smaller loss, with a note about the other one."""
    ours, theirs = built.build.loss_km or 0.0, other.build.loss_km or 0.0
    if ours <= theirs:
        note = f"planar Laplace with the best remap would lose {theirs:.4g} km"
        build = replace(built.build, other_loss_km=theirs, notes=(*built.build.notes, note))
        return replace(built, build=build)
    note = (
        f"planar Laplace, because the lattice of {len(built.lattice):,} vertices would lose "
        f"{ours:.4g} km: with more vertices it may be the better one"
    )
    bound = built.build.lower_bound_km
    same = built.outputs is other.outputs  # the bound is for these outputs only
    build = replace(
        other.build,
        seconds=built.build.seconds,
        stopped=built.build.stopped,
        other_loss_km=ours,
        lower_bound_km=bound if same else None,
        gap=relative_gap(theirs, bound) if same and bound is not None else None,
        notes=(*other.build.notes, note),
    )
    return replace(other, build=build)
