"""Plan a build before the solve: exact or closed form, with estimates of time and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whereish.errors import InputError, SolveError, described
from whereish.limits import PATIENCE_S
from whereish.programs import least_loss_size
from whereish.solvers import estimate
from whereish.units import duration

METHODS = ("exact", "closed-form", "auto")
_SPARSE = 8  # edges per place of a spanner of dilation 1.1, at most

# Edges per place of a spanner in the plane, times sqrt(dilation - 1): at most 1.9 was measured, on
# grids, clusters, lines, circles and random places. Below this dilation a circle has more.
_EDGES, _MEASURED_FROM = 3.0, 1.05


@dataclass(frozen=True)
class Plan:
    """The plan of a build.

    Attributes
    ----------
    method
        "exact" or "closed-form".
    why
        The reason for the method.
    places, outputs, variables, constraints
        The size of the program.
    seconds, memory_gb
        Estimates for the structured solver on this machine.
    after_s
        The estimated seconds after the search: the repair, the check of every ratio, and the closed
        form that the result of an interrupted search is compared with.
    """

    method: str
    why: str
    places: int
    outputs: int
    variables: int
    constraints: int
    seconds: float
    memory_gb: float
    after_s: float = 0.0


def plan(
    method: str,
    n: int,
    outputs: int,
    edges: int,
    time_limit_s: float | None,
    memory_limit_gb: float,
) -> Plan:
    """Choose a method.

    Raises
    ------
    SolveError
        If the method is exact and does not fit into the memory; the message says what does.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {described(method)}")
    guess = estimate(n, outputs, edges)
    memory = guess.bytes / 1e9
    closed = closed_form_needs(n, outputs)
    size = least_loss_size(n, outputs, edges)
    sizes = (n, outputs, size.variables, size.constraints)
    if method == "closed-form":
        return Plan("closed-form", "a closed form was requested", *sizes, *closed)
    after = check_seconds(n, outputs) + closed[0]
    seconds = spanner_seconds(n, edges) + guess.seconds + check_seconds(n, outputs)
    needs = f"exact needs about {duration(seconds)} and {memory:.2g} GB"
    if memory > memory_limit_gb:
        over = f"{needs}, and {memory_limit_gb:g} GB is allowed"
        if method == "exact":
            raise SolveError(f"{over}: {_what_fits(n, outputs, memory_limit_gb)}")
        return Plan("closed-form", over, *sizes, *closed)
    patience = PATIENCE_S if time_limit_s is None else time_limit_s
    if method == "auto" and seconds > patience:
        return Plan("closed-form", f"{needs}, and {patience:g} s is allowed", *sizes, *closed)
    if time_limit_s is not None:
        seconds = min(seconds, max(time_limit_s, after))
    return Plan("exact", needs, *sizes, seconds, max(memory, closed[1]), after)


def expected_edges(n: int, dilation: float, *, straight: bool) -> int:
    """Estimate the number of edges of a spanner from above, before it is built.

    For Euclidean distances the estimate is measured. For a dilation close to 1, and for any other
    metric, it is all pairs: the discrete metric needs all of them below a dilation of 2.
    """
    pairs = n * (n - 1) // 2
    if not straight or dilation < _MEASURED_FROM:
        return pairs
    return min(pairs, int(n * (2 + _EDGES / math.sqrt(dilation - 1))))


# The estimates below were measured at 250 to 2,000 places, on two cores with other load.


def closed_form_needs(n: int, outputs: int) -> tuple[float, float]:
    """Estimate the seconds and gigabytes of a closed form, with its check."""
    seconds = 4e-6 * n**2 + 5e-10 * n**3 + check_seconds(n, outputs)
    return seconds, (128 * n**2 + 32 * n * outputs) / 1e9


def check_seconds(n: int, outputs: int) -> float:
    """Estimate the seconds of the repair of a matrix and the check of its ratios."""
    return 1e-6 * n**2 + 1e-9 * n**2 * outputs


def spanner_seconds(n: int, edges: int) -> float:
    """Estimate the seconds of the construction of a spanner."""
    return 2e-5 * edges * (1 + n / 1000)


def overtime_seconds(n: int, outputs: int) -> float:
    """Return how many seconds after the time limit of a search a service waits for its file.

    The result is repaired, checked, compared with the closed form, rounded to counts, packed and
    audited. A busy machine may take three times as long as estimated.
    """
    release = 1e-5 * n**2 + 1e-8 * n**2 * outputs
    return 30 + 3 * (check_seconds(n, outputs) + closed_form_needs(n, outputs)[0] + release)


def _what_fits(n: int, outputs: int, limit_gb: float) -> str:
    """Return what fits into the memory, for a message."""
    ways = []
    sparse = n * _SPARSE
    if estimate(n, outputs, sparse).bytes <= limit_gb * 1e9:
        ways.append("a dilation of 1.1")
    fewer = next(
        (m for m in range(outputs, 23, -1) if estimate(n, m, sparse).bytes <= limit_gb * 1e9), None
    )
    if fewer is not None and fewer < outputs:
        ways.append(f"{fewer:,} outputs instead of {outputs:,}")
    ways.append('method "closed-form"')
    return "what fits is " + " or ".join(ways)
