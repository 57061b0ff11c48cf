"""GLPK, the solver of the paper, through swiglpk: an optional extra for comparisons.

GLPK cannot be interrupted, its interior-point method has no time limit, and on some errors it ends
the process. So it runs in a subprocess: ``python -m whereish.solvers.glpk`` reads a program from
standard input and writes the solution to standard output.
"""

from __future__ import annotations

import io
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np

from whereish.errors import InputError, SolveError
from whereish.places import Array
from whereish.programs import LinearProgram


def solve(program: LinearProgram, method: str, time_limit_s: float | None) -> tuple[Array, Array]:
    """Solve a program; return the values of its variables and the multipliers of its rows."""
    if find_spec("swiglpk") is None:
        raise InputError(
            f"solver glpk-{method} needs the package swiglpk, which is not installed: "
            "pip install 'whereish[glpk]'"
        )
    matrix = program.matrix.tocoo()
    packed = io.BytesIO()
    np.savez(
        packed,
        method=np.array(method),
        cost=program.cost,
        right=program.right,
        equal=program.equal,
        free=program.free,
        row=matrix.row,
        column=matrix.col,
        value=matrix.data,
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "whereish.solvers.glpk"],
            input=packed.getvalue(),
            capture_output=True,
            timeout=time_limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SolveError(
            f"glpk-{method} ran out of its {time_limit_s:g} s on {program.constraints:,} "
            "constraints: allow more time, or a larger dilation"
        ) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise SolveError(f"glpk-{method} ended with {lines[-1]!r}: try another solver or form")
    answer = np.load(io.BytesIO(done.stdout))
    return answer["values"], answer["multipliers"]


def _child() -> int:  # pragma: no cover - runs in its own process
    import os

    import swiglpk as glpk

    # GLPK prints to standard output, which must hold nothing but the solution.
    answer_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    packed = np.load(io.BytesIO(sys.stdin.buffer.read()))
    problem = _problem(glpk, packed)
    method = str(packed["method"])
    rows, columns = len(packed["right"]), len(packed["cost"])
    if method == "ipm":
        code = glpk.glp_interior(problem, None)
        status, done = glpk.glp_ipt_status(problem), glpk.GLP_OPT
        value, multiplier = glpk.glp_ipt_col_prim, glpk.glp_ipt_row_dual
    else:
        glpk.glp_scale_prob(problem, glpk.GLP_SF_AUTO)
        settings = glpk.glp_smcp()
        glpk.glp_init_smcp(settings)
        settings.meth = glpk.GLP_DUAL if method == "dual-simplex" else glpk.GLP_PRIMAL
        settings.presolve = glpk.GLP_ON
        settings.tol_bnd = settings.tol_dj = 1e-9
        code = glpk.glp_simplex(problem, settings)
        status, done = glpk.glp_get_status(problem), glpk.GLP_OPT
        value, multiplier = glpk.glp_get_col_prim, glpk.glp_get_row_dual
    if code != 0 or status != done:
        print(f"return code {code}, status {status}", file=sys.stderr)
        return 1
    np.savez(
        answer_to,
        values=[value(problem, j + 1) for j in range(columns)],
        multipliers=[multiplier(problem, i + 1) for i in range(rows)],
    )
    answer_to.close()
    return 0


def _problem(glpk: Any, packed: Any) -> Any:  # pragma: no cover - runs in its own process
    rows, columns = len(packed["right"]), len(packed["cost"])
    problem = glpk.glp_create_prob()
    glpk.glp_add_rows(problem, rows)
    glpk.glp_add_cols(problem, columns)
    for i, (right, equal) in enumerate(zip(packed["right"], packed["equal"], strict=True)):
        kind = glpk.GLP_FX if equal else glpk.GLP_LO
        glpk.glp_set_row_bnds(problem, i + 1, kind, float(right), float(right))
    for j, (cost, free) in enumerate(zip(packed["cost"], packed["free"], strict=True)):
        glpk.glp_set_col_bnds(problem, j + 1, glpk.GLP_FR if free else glpk.GLP_LO, 0.0, 0.0)
        glpk.glp_set_obj_coef(problem, j + 1, float(cost))
    count = len(packed["value"])
    row, column = glpk.intArray(count + 1), glpk.intArray(count + 1)
    value = glpk.doubleArray(count + 1)
    entries = zip(
        packed["row"].tolist(),
        packed["column"].tolist(),
        packed["value"].tolist(),
        strict=True,
    )
    for k, (i, j, v) in enumerate(entries, start=1):
        row[k], column[k], value[k] = i + 1, j + 1, v
    glpk.glp_load_matrix(problem, count, row, column, value)
    return problem


if __name__ == "__main__":
    sys.exit(_child())
