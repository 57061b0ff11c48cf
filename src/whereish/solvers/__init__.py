"""HOW: solvers for the linear programs. `solve` and `attempts` find a solver by its name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from whereish.deadline import Deadline
from whereish.errors import InputError, SolveError, described
from whereish.places import Array, as_number
from whereish.programs import LinearProgram, dual
from whereish.solvers import glpk, highs
from whereish.solvers.estimates import Estimate, estimate
from whereish.solvers.structured import (
    Multipliers,
    Progress,
    Structured,
    solve_on,
    solve_structured,
)
from whereish.solvers.structured_program import Program

__all__ = [
    "AUTO",
    "FORMS",
    "METHODS",
    "SOLVERS",
    "Estimate",
    "Multipliers",
    "Program",
    "Progress",
    "Solution",
    "Structured",
    "attempts",
    "check_solver",
    "estimate",
    "solve",
    "solve_on",
    "solve_structured",
]

METHODS = ("ipm", "dual-simplex", "primal-simplex")
SOLVERS = (
    "auto",
    "structured",
    *(f"{family}-{m}" for family in ("highs", "glpk") for m in METHODS),
)
FORMS = ("primal", "dual")
# The fastest and most exact way first; measured in docs/architecture.md.
AUTO = (
    ("highs-dual-simplex", "dual"),
    ("highs-dual-simplex", "primal"),
    ("highs-ipm", "primal"),
)
_FAMILIES = {"highs": highs.solve, "glpk": glpk.solve}


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer of a solver.

    Attributes
    ----------
    values, objective
        The values of the variables of the primal program, and its optimum.
    multipliers
        The multipliers of its rows: the values of the variables of the dual program.
    solver, form
        The solver, and whether it solved the "primal" or the "dual" program.
    seconds
        How long it took.
    """

    values: Array
    multipliers: Array
    objective: float
    solver: str
    form: str
    seconds: float


def check_solver(solver: str, form: str | None, time_limit_s: float | None = None) -> None:
    """Raise InputError unless solver, form and time limit are valid and go together."""
    if time_limit_s is not None:
        as_number("time_limit_s", time_limit_s, unit="seconds")
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}, got {described(solver)}")
    if form is not None and (not isinstance(form, str) or form not in FORMS):
        raise InputError(f"form must be one of {', '.join(FORMS)}, got {described(form)}")
    if solver == "structured" and form is not None:
        raise InputError(f"form must be left out with the structured solver, got {described(form)}")


def solve(
    program: LinearProgram,
    solver: str = "auto",
    form: str | None = None,
    time_limit_s: float | None = None,
) -> Solution:
    """Solve a linear program.

    Parameters
    ----------
    solver
        One of `SOLVERS`. "auto" is the dual simplex of HiGHS on the dual program and, if that
        fails, the other attempts in `AUTO`.
    form
        "primal" solves the program itself, "dual" its dual (Appendix B of the paper), whose row
        multipliers are the values. By default "primal", except with "auto".

    Raises
    ------
    SolveError
        If the solver fails, exceeds the time limit or returns values that are no numbers.
    """
    return next(attempts(program, solver, form, time_limit_s))


def attempts(
    program: LinearProgram,
    solver: str = "auto",
    form: str | None = None,
    time_limit_s: float | None = None,
) -> Iterator[Solution]:
    """Yield solutions of a linear program, each by another attempt in `AUTO`.

    A caller that cannot use a solution takes the next one. A named solver has one attempt; "auto"
    has those in `AUTO`, as long as there is time.
    """
    check_solver(solver, form, time_limit_s)
    if solver == "structured":
        raise InputError(
            "the structured solver builds least-loss mechanisms only, not this program"
        )
    ways: tuple[tuple[str, str], ...] = AUTO if solver == "auto" else ((solver, "primal"),)
    if form is not None:
        ways = tuple(dict.fromkeys((name, form) for name, _ in ways))
    deadline = Deadline(time_limit_s)
    for number, (name, stated) in enumerate(ways):
        try:
            if number:
                deadline.check(f"after {number} of the {len(ways)} ways of {solver}")
            yield _solve(program, name, stated, deadline.seconds if number else time_limit_s)
        except SolveError:
            if number == len(ways) - 1 or deadline.passed:
                raise


def _solve(program: LinearProgram, solver: str, form: str, time_limit_s: float | None) -> Solution:
    family, method = solver.split("-", 1)
    start = time.perf_counter()
    balanced, scale = _balanced(program)
    stated = balanced if form == "primal" else dual(balanced)
    both = _FAMILIES[family](stated, method, time_limit_s)
    answer, multipliers = both if form == "primal" else both[::-1]
    if len(answer) != program.variables or not np.isfinite(answer).all():
        raise SolveError(f"{solver} returned values that are not numbers: try another solver")
    return Solution(
        values=answer,
        multipliers=multipliers * scale,
        objective=float(program.cost @ answer),
        solver=solver,
        form=form,
        seconds=time.perf_counter() - start,
    )


def _balanced(program: LinearProgram) -> tuple[LinearProgram, Array]:
    """Divide every row by its largest coefficient; return what rows were multiplied by as well.

    Solvers stop at an absolute tolerance per row. A privacy row with coefficients exp(+-20) asks
    for eight digits more than they have; they then call wrong answers optimal. Measured at
    epsilon 10 to 50 per km: without this, losses up to 1e4 times too large, or no answer.
    """
    from scipy.sparse import diags_array

    largest = np.abs(program.matrix).max(axis=1).toarray().ravel()
    scale = 1 / np.where(largest > 0, largest, 1.0)
    balanced = replace(
        program,
        matrix=(diags_array(scale) @ program.matrix).tocsr(),
        right=program.right * scale,
    )
    return balanced, scale
