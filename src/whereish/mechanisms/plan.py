"""Plan a build before the solve: exact or closed form. The estimates are in `solvers.estimates`."""

from __future__ import annotations

from dataclasses import dataclass

from whereish.errors import InputError, SolveError, described
from whereish.limits import PATIENCE_S
from whereish.programs import least_loss_size
from whereish.solvers.estimates import (
    check_seconds,
    estimate,
    estimate_closed_form,
    spanner_seconds,
)
from whereish.units import duration

METHODS = ("exact", "closed-form", "auto")
_SPARSE = 8  # edges per place of a spanner of dilation 1.1, at most


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
    memory = guess.gigabytes
    form = estimate_closed_form(n, outputs)
    closed = (form.seconds, form.gigabytes)
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
