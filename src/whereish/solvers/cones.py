"""The conic solver: least-cost mechanisms on a lattice that are private at every point between.

The unknowns are k(v, z) >= 0 at the vertices v of a rectangular lattice, sum_z k(v, z) = 1; between
the vertices k is interpolated bilinearly. For every corner v of every cell with its horizontal and
vertical neighbours a and b in that cell, hx and hy apart,

    ((k_a - k_v) / hx)^2 + ((k_b - k_v) / hy)^2 <= epsilon^2 k_v^2,

a second-order cone of dimension 3. The method is in the compiled core (``core/cone_driver.c``): an
interior-point method with one block for each output, like the structured solver.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish import interrupts
from whereish.compiled import (
    ConeReport,
    Options,
    ProgressCallback,
    Status,
    Stopped,
    address,
    library,
)
from whereish.compiled import Progress as CoreProgress
from whereish.errors import InputError, SolveError
from whereish.limits import LARGEST, LARGEST_EPSILON, SMALLEST_EPSILON
from whereish.parallel import cores
from whereish.places import Array
from whereish.solvers.structured import STOPPED, Progress

_REFUSED = {
    Status.BAD_SIZE: "the lattice has more vertices or outputs than it can take",
    Status.BAD_NUMBER: "two lines of the lattice are too near, or a cost is too large",
    Status.NO_MEMORY: "the program does not fit into the memory",
}
_ROUNDING = 1e-14  # of |(y1, y2)| against y0
_NEIGHBOURS = 2  # of a corner in its cell, unless the lattice is a line


@dataclass(frozen=True, eq=False)
class ConeSolution:
    """What the conic solver found.

    Attributes
    ----------
    matrix
        (n, m) probabilities, inside the cones and with rows that sum to 1, both up to rounding:
        who uses it repairs and checks it.
    loss, bound, gap
        Its cost, a lower bound on the cost of every matrix that obeys the cones, and
        (loss - bound) / loss.
    multipliers
        (m, corners, 3) dual y of each cone, y0 >= |(y1, y2)|, which prove the bound by weak duality
        alone, see `cone_bound`. Corners are ordered cell by cell (iy, ix), and in a cell lower
        left, lower right, upper left, upper right. On a line each segment has two corners, and the
        y of the missing direction is 0.
    stopped
        Why it ended: "solved", "time", "asked" (Ctrl-C, or the callback said so) or "numerics".
    """

    matrix: Array
    loss: float
    bound: float
    gap: float
    multipliers: Array
    iterations: int
    seconds: float
    stopped: str


def solve_cones(
    xs: Array,
    ys: Array,
    cost: Array,
    epsilon: float,
    tolerance: float = 1e-5,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], object] | None = None,
    threads: int | None = None,
) -> ConeSolution:
    """Find the matrix of least cost on a lattice whose interpolation is epsilon-private.

    Being stopped is no error: a time limit, or Ctrl-C, ends it with the best matrix so far.

    Parameters
    ----------
    xs, ys
        (nx,) and (ny,) increasing coordinates, in km; vertex v = iy nx + ix.
    cost
        (nx ny, m), of any sign.
    epsilon
        Per km.
    tolerance
        The relative gap at which to stop.
    progress
        Called at every iteration with the loss of the best matrix so far, and a bound; the solve
        ends if it returns False.
    threads
        As many as there are cores, if not given. The result does not depend on it.

    Raises
    ------
    InputError
        If an argument cannot be used.
    SolveError
        If the program is too large.
    """
    begun = time.perf_counter()
    across, up, costs = _checked(xs, ys, cost, epsilon)
    if not tolerance > 0:
        raise InputError(f"tolerance must be positive, got {tolerance}")
    n, m = costs.shape
    if n == 1:
        best = int(costs[0].argmin())
        matrix, loss = np.zeros((1, m)), float(costs[0, best])
        matrix[0, best] = 1.0
        seconds = time.perf_counter() - begun
        return ConeSolution(matrix, loss, loss, 0.0, np.zeros((m, 0, 3)), 0, seconds, "solved")
    core, wrong = library(), []
    options = Options(
        tolerance=tolerance,
        time_limit_s=math.inf if time_limit_s is None else max(time_limit_s, 0.0),
        threads=threads or cores(),
        catch_interrupt=interrupts.is_ours(),
    )
    if progress is not None:
        tell = progress

        def on_progress(context: Any, at: Any) -> int:
            now: CoreProgress = at.contents
            try:
                said = tell(
                    Progress(now.iteration, now.loss, now.bound, now.gap, now.outputs, now.rows)
                )
            except BaseException as error:
                wrong.append(error)
                return 1
            return said is False

        options.progress = ProgressCallback(on_progress)
    corners = core.wi_cone_corners(len(across), len(up))
    if not corners:
        raise SolveError(f"the conic solver cannot begin: {_REFUSED[Status.BAD_SIZE]}")
    matrix, multipliers = np.empty((n, m)), np.empty((m, corners, 3))
    report = ConeReport()
    status = core.wi_cones(
        len(across),
        len(up),
        m,
        address(across, np.float64),
        address(up, np.float64),
        address(costs, np.float64),
        epsilon,
        ctypes.byref(options),
        address(matrix, np.float64),
        address(multipliers, np.float64),
        ctypes.byref(report),
    )
    if wrong:
        raise wrong[0]
    if status != Status.OK:
        raise SolveError(f"the conic solver cannot go on: {_REFUSED[Status(status)]}")
    return ConeSolution(
        matrix,
        report.loss,
        report.bound,
        report.gap,
        multipliers,
        report.iterations,
        report.seconds,
        STOPPED[Stopped(report.stopped)],
    )


def cone_bound(xs: Array, ys: Array, cost: Array, epsilon: float, multipliers: Array) -> float:
    """Return the lower bound that multipliers prove, by weak duality alone.

    For y in the dual cones, sum c k = sum (c - A'y) k + y'(A k) >= sum_v min_z (c - A'y)(v, z) for
    every matrix k that obeys the cones. The slack of a corner is (epsilon k_v, (k_a - k_v) / hx,
    (k_b - k_v) / hy).

    Raises
    ------
    InputError
        If an argument cannot be used, or a y is outside its cone.
    """
    across, up, costs = _checked(xs, ys, cost, epsilon)
    m = costs.shape[1]
    own, beside, spacing = corner_cones(across, up)
    y = np.array(multipliers, np.float64)
    if y.shape != (m, len(own), 3):
        raise InputError(
            f"multipliers must have the shape {(m, len(own), 3)}: a y for every output and corner, "
            f"got {y.shape}"
        )
    length = np.hypot(y[..., 1], y[..., 2])
    if not (np.isfinite(y).all() and (y[..., 0] >= length * (1 - _ROUNDING)).all()):
        raise InputError("multipliers must be finite and inside their cones, y0 >= |(y1, y2)|")
    y[..., 0] = np.maximum(y[..., 0], length)
    reduced = costs.T.copy()
    rows = np.arange(m)[:, None]
    np.subtract.at(reduced, (rows, own), epsilon * y[..., 0])
    for axis in range(_NEIGHBOURS):
        there = beside[:, axis] >= 0
        share = y[:, there, axis + 1] / spacing[there, axis]
        np.subtract.at(reduced, (rows, beside[there, axis]), share)
        np.add.at(reduced, (rows, own[there]), share)
    return float(reduced.min(axis=0).sum())


def corner_cones(xs: Array, ys: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Return the corners of all cells: vertex (c,), neighbours (c, 2) and their distances (c, 2).

    The neighbours are the horizontal and the vertical one; on a line one is missing and is -1.
    """
    nx, ny = len(xs), len(ys)
    iy, ix, upper, right = np.meshgrid(
        np.arange(max(1, ny - 1)),
        np.arange(max(1, nx - 1)),
        np.arange(min(2, ny)),
        np.arange(min(2, nx)),
        indexing="ij",
    )
    own = (iy + upper) * nx + ix + right
    beside = np.full((*own.shape, _NEIGHBOURS), -1)
    spacing = np.ones((*own.shape, _NEIGHBOURS))
    if nx > 1:
        beside[..., 0] = (iy + upper) * nx + ix + 1 - right
        spacing[..., 0] = np.diff(xs)[ix]
    if ny > 1:
        beside[..., 1] = (iy + 1 - upper) * nx + ix + right
        spacing[..., 1] = np.diff(ys)[iy]
    count = 0 if nx * ny == 1 else own.size
    return (
        own.ravel()[:count],
        beside.reshape(-1, _NEIGHBOURS)[:count],
        spacing.reshape(-1, _NEIGHBOURS)[:count],
    )


def _checked(xs: Array, ys: Array, cost: Array, epsilon: float) -> tuple[Array, Array, Array]:
    axes = []
    for name, values in (("xs", xs), ("ys", ys)):
        axis = np.ascontiguousarray(values, np.float64)
        if axis.ndim != 1 or not len(axis) or not (np.abs(axis) <= LARGEST).all():
            raise InputError(f"{name} must be a list of finite numbers, one at least")
        if not (np.diff(axis) > 0).all():
            raise InputError(f"{name} must increase")
        axes.append(axis)
    costs = np.ascontiguousarray(cost, np.float64)
    vertices = len(axes[0]) * len(axes[1])
    if costs.ndim != len(axes) or len(costs) != vertices or not costs.shape[1]:
        raise InputError(
            f"cost must have one row for each of the {vertices} vertices and one column for each "
            f"output, got the shape {costs.shape}"
        )
    if not np.isfinite(costs).all():
        raise InputError("cost must be finite")
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InputError(
            f"epsilon must be between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g} per km"
        )
    return axes[0], axes[1], costs
