"""The process in which GLPK solves one program: run as a file by `glpk`.

It imports nothing but swiglpk, so that it starts at once. It reads a line of JSON and arrays of
8-byte numbers from standard input, and writes the values of the variables and the multipliers of
the rows to standard output.
"""

from __future__ import annotations

import json
import os
import sys
from array import array
from typing import Any, BinaryIO


def main() -> int:  # pragma: no cover - runs in its own process
    """Solve the program on standard input."""
    import swiglpk as glpk

    # GLPK prints to standard output, which must hold nothing but the solution.
    answer_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    stream = sys.stdin.buffer
    head = json.loads(stream.readline())
    rows, columns = head["rows"], head["columns"]
    problem = _problem(glpk, head, stream)
    if head["method"] == "ipm":
        code = glpk.glp_interior(problem, None)
        status, done = glpk.glp_ipt_status(problem), glpk.GLP_OPT
        value, multiplier = glpk.glp_ipt_col_prim, glpk.glp_ipt_row_dual
    else:
        glpk.glp_scale_prob(problem, glpk.GLP_SF_AUTO)
        settings = glpk.glp_smcp()
        glpk.glp_init_smcp(settings)
        settings.meth = glpk.GLP_DUAL if head["method"] == "dual-simplex" else glpk.GLP_PRIMAL
        settings.presolve = glpk.GLP_ON
        settings.tol_bnd = settings.tol_dj = 1e-9
        code = glpk.glp_simplex(problem, settings)
        status, done = glpk.glp_get_status(problem), glpk.GLP_OPT
        value, multiplier = glpk.glp_get_col_prim, glpk.glp_get_row_dual
    if code != 0 or status != done:
        print(f"return code {code}, status {status}", file=sys.stderr)
        return 1
    answer = array("d", (value(problem, j + 1) for j in range(columns)))
    answer.extend(multiplier(problem, i + 1) for i in range(rows))
    answer_to.write(answer.tobytes())
    answer_to.close()
    return 0


def _problem(glpk: Any, head: dict[str, Any], stream: BinaryIO) -> Any:  # pragma: no cover
    """Read the arrays in the order in which `glpk` writes them, and make GLPK's problem of them."""
    rows, columns, entries = head["rows"], head["columns"], head["entries"]
    costs, rights, values = (_read(stream, "d", n) for n in (columns, rows, entries))
    equals, frees, at_rows, at_columns = (
        _read(stream, "q", n) for n in (rows, columns, entries, entries)
    )
    problem = glpk.glp_create_prob()
    glpk.glp_add_rows(problem, rows)
    glpk.glp_add_cols(problem, columns)
    for i, (right, equal) in enumerate(zip(rights, equals, strict=True)):
        kind = glpk.GLP_FX if equal else glpk.GLP_LO
        glpk.glp_set_row_bnds(problem, i + 1, kind, right, right)
    for j, (cost, free) in enumerate(zip(costs, frees, strict=True)):
        glpk.glp_set_col_bnds(problem, j + 1, glpk.GLP_FR if free else glpk.GLP_LO, 0.0, 0.0)
        glpk.glp_set_obj_coef(problem, j + 1, cost)
    row, column = glpk.intArray(entries + 1), glpk.intArray(entries + 1)
    value = glpk.doubleArray(entries + 1)
    for k, (i, j, v) in enumerate(zip(at_rows, at_columns, values, strict=True), start=1):
        row[k], column[k], value[k] = i + 1, j + 1, v
    glpk.glp_load_matrix(problem, entries, row, column, value)
    return problem


def _read(stream: BinaryIO, kind: str, count: int) -> array[Any]:  # pragma: no cover
    found = array(kind)
    found.frombytes(stream.read(8 * count))
    return found


if __name__ == "__main__":
    sys.exit(main())
