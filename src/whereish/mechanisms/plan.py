"""Decide, before anything is solved, how: exactly, or in closed form; and say why."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whereish.errors import InputError, SolveError, described
from whereish.limits import PATIENCE_S
from whereish.programs import least_loss_size
from whereish.solvers import estimate

METHODS = ("exact", "closed-form", "auto")
_SPARSE = 8  # edges a place that a spanner of dilation 1.1 has, at most

# Edges a place of a spanner in the plane, times sqrt(dilation - 1): measured up to 1.9, on grids,
# clusters, lines, circles and at random. Below this dilation a circle has more.
_EDGES, _MEASURED_FROM = 3.0, 1.05


@dataclass(frozen=True)
class Plan:
    """What is about to be done.

    Attributes
    ----------
    method
        "exact" or "closed-form".
    why
        A reason, in words.
    seconds, memory_gb
        About how much of both it takes, by the structured solver on this machine.
    after_s
        About how much of the time comes after the search, whatever ends it: the repair, the check
        of every ratio, and the closed form that a search cut short is compared with.
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
        If it must be exact and would not fit into the memory; the message says what would.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {described(method)}")
    guess = estimate(n, outputs, edges)
    memory = guess.bytes / 1e9
    closed = closed_form_needs(n, outputs)
    size = least_loss_size(n, outputs, edges)
    told = (n, outputs, size.variables, size.constraints)
    if method == "closed-form":
        return Plan("closed-form", "a closed form was asked for", *told, *closed)
    after = check_seconds(n, outputs) + closed[0]
    seconds = spanner_seconds(n, edges) + guess.seconds + check_seconds(n, outputs)
    needs = f"exact needs about {words(seconds)} and {memory:.2g} GB"
    if memory > memory_limit_gb:
        over = f"{needs}, and {memory_limit_gb:g} GB is allowed"
        if method == "exact":
            raise SolveError(f"{over}: {_what_fits(n, outputs, memory_limit_gb)}")
        return Plan("closed-form", over, *told, *closed)
    patience = PATIENCE_S if time_limit_s is None else time_limit_s
    if method == "auto" and seconds > patience:
        return Plan("closed-form", f"{needs}, and {patience:g} s is allowed", *told, *closed)
    if time_limit_s is not None:
        seconds = min(seconds, max(time_limit_s, after))
    return Plan("exact", needs, *told, seconds, max(memory, closed[1]), after)


def expected_edges(n: int, dilation: float, *, straight: bool) -> int:
    """Return about how many pairs a spanner has, rather too many, before it is made.

    For distances in the plane that is measured. Next to 1, and with any other metric, it may be all
    of them: the discrete metric needs all pairs below a dilation of 2.
    """
    pairs = n * (n - 1) // 2
    if not straight or dilation < _MEASURED_FROM:
        return pairs
    return min(pairs, int(n * (2 + _EDGES / math.sqrt(dilation - 1))))


# What follows is measured at 250 to 2,000 places, on two cores that had other things to do as well.


def closed_form_needs(n: int, outputs: int) -> tuple[float, float]:
    """Return about how many seconds and gigabytes a closed form takes, checked."""
    seconds = 4e-6 * n**2 + 5e-10 * n**3 + check_seconds(n, outputs)
    return seconds, (128 * n**2 + 32 * n * outputs) / 1e9


def check_seconds(n: int, outputs: int) -> float:
    """Return about how long it takes to repair a matrix and to check its ratios."""
    return 1e-6 * n**2 + 1e-9 * n**2 * outputs


def spanner_seconds(n: int, edges: int) -> float:
    """Return about how long it takes to find the pairs that stand for all."""
    return 2e-5 * edges * (1 + n / 1000)


def overtime_seconds(n: int, outputs: int) -> float:
    """Return how long a service must wait for a file once the time of its search is up, at most.

    What is handed over is repaired and checked, compared with the closed form, rounded to integers,
    packed and audited. A busy machine may take three times as long as expected.
    """
    release = 1e-5 * n**2 + 1e-8 * n**2 * outputs
    return 30 + 3 * (check_seconds(n, outputs) + closed_form_needs(n, outputs)[0] + release)


def _what_fits(n: int, outputs: int, limit_gb: float) -> str:
    """Name what would fit into the memory."""
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


def words(seconds: float) -> str:
    """Say a time as a person would."""
    if seconds < 1:
        return "a second"
    for size, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
