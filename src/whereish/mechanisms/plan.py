"""Decide, before anything is solved, how: exactly, or in closed form; and say why."""

from __future__ import annotations

from dataclasses import dataclass

from whereish.errors import InputError, SolveError
from whereish.programs import least_loss_size
from whereish.solvers import estimate

METHODS = ("exact", "closed-form", "auto")
_SPARSE = 8  # edges a place that a spanner of dilation 1.1 has, at most


_PATIENCE_S = 120.0  # of whoever asks for "auto" and names no time


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
    """

    method: str
    why: str
    places: int
    outputs: int
    variables: int
    constraints: int
    seconds: float
    memory_gb: float


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
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    guess = estimate(n, outputs, edges)
    memory = guess.bytes / 1e9
    size = least_loss_size(n, outputs, edges)
    told = (n, outputs, size.variables, size.constraints)
    if method == "closed-form":
        return Plan("closed-form", "a closed form was asked for", *told, 0.0, 0.0)
    needs = f"exact needs about {words(guess.seconds)} and {memory:.2g} GB"
    if memory > memory_limit_gb:
        over = f"{needs}, and {memory_limit_gb:g} GB is allowed"
        if method == "exact":
            raise SolveError(f"{over}: {_what_fits(n, outputs, memory_limit_gb)}")
        return Plan("closed-form", over, *told, 0.0, 0.0)
    patience = _PATIENCE_S if time_limit_s is None else time_limit_s
    if method == "auto" and guess.seconds > patience:
        return Plan("closed-form", f"{needs}, and {patience:g} s is allowed", *told, 0.0, 0.0)
    return Plan("exact", needs, *told, guess.seconds, memory)


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
