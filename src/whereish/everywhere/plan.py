"""Plan the build of a mechanism for all points before the solve: time and memory."""

from __future__ import annotations

from whereish.errors import SolveError
from whereish.everywhere.search import OUTPUTS, check_memory, memory_gb
from whereish.limits import PATIENCE_S
from whereish.mechanisms.plan import Plan
from whereish.units import duration

# Measured on two cores: a person with 300 points at eps 2 per km took 4.5 s with 600 vertices, 15 s
# with 1,200 and 74 s with 2,400; at eps 1.07, 1.6 s and 6.5 s. The estimate is for the slow ones.
# The solve of the last lattice dominates; the linear algebra grows with the cube.
_FIRST_S = 1.5  # the coarse lattices, and the lower bound on visited points
_BLOCK_S = 2.8e-7  # times vertices^2 outputs
_COUPLING_S = 1e-9  # times vertices^3
_NOISE_S, _NOISE_GB = 1.5, 0.2  # of planar Laplace with its remap
_POINTS_S = 3e-7  # for each point and output: costs and loss
_AFTER_S = 0.5  # repair, rounding, audit


def plan_everywhere(
    method: str,
    points: int,
    vertices: int,
    outputs: int | None,
    time_limit_s: float | None,
    memory_limit_gb: float,
) -> Plan:
    """Choose a method and estimate its time and memory.

    Parameters
    ----------
    method
        "exact": the better one of the optimal lattice mechanism and planar Laplace;
        "closed-form": planar Laplace with the best remap; "auto": exact if that fits.
    points, vertices
        The number of visited points, and the most vertices of the lattice.
    outputs
        The number of outputs; None if they are chosen.

    Raises
    ------
    SolveError
        If the method is exact and does not fit into the memory; the message says what does.
    """
    m = OUTPUTS if outputs is None else outputs
    sizes = (points, m, vertices * m, vertices + 4 * vertices * m)
    closed = (_NOISE_S + points * m * _POINTS_S, _NOISE_GB)
    if method == "closed-form":
        return Plan("closed-form", "a closed form was requested", *sizes, *closed)
    seconds = _FIRST_S + closed[0] + _BLOCK_S * vertices**2 * m + _COUPLING_S * vertices**3
    memory = memory_gb(vertices, m) + _NOISE_GB
    try:
        check_memory(vertices, m, memory_limit_gb)
    except SolveError as wrong:
        if method == "exact":
            raise
        return Plan("closed-form", str(wrong), *sizes, *closed)
    needs = f"the lattice needs about {duration(seconds)} and {memory:.2g} GB"
    patience = PATIENCE_S if time_limit_s is None else time_limit_s
    if method == "auto" and seconds > patience:
        return Plan("closed-form", f"{needs}, and {patience:g} s is allowed", *sizes, *closed)
    after = closed[0] + _AFTER_S
    if time_limit_s is not None:
        seconds = min(seconds, time_limit_s + after)
    return Plan("exact", needs, *sizes, seconds, memory, after)
