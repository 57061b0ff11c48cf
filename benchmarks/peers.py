"""Solve one program with one peer, in a process of its own, and print seconds and loss as JSON.

Peers do not mix in one process, some have no time limit, and one of them may crash: whoever calls
this kills it when its time is up. Seconds are those of the solver's own call: what is built
for it before the clock starts is given to it for free. Called by solvers.py.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

Task = dict[str, Any]


def with_ours(task: Task, method: str) -> tuple[float, float]:
    """HiGHS and GLPK, through `whereish.solvers`: "highs-ipm/primal"."""
    from whereish.programs import least_loss
    from whereish.solvers import solve

    solver, form = method.split("/")
    program = least_loss(task["prior"], task["loss"], task["edges"], task["exponents"])
    start = time.perf_counter()
    solution = solve(program, solver, form, task["limit"])
    return time.perf_counter() - start, solution.objective


def with_clarabel(task: Task) -> tuple[float, float]:
    import clarabel
    from scipy import sparse

    from whereish.programs import least_loss
    from whereish.solvers import _balanced

    whole = least_loss(task["prior"], task["loss"], task["edges"], task["exponents"])
    program, _ = _balanced(whole)
    equal, n = program.equal, program.variables
    rows = sparse.vstack([program.matrix[equal], -program.matrix[~equal], -sparse.eye(n)])
    right = np.concatenate([program.right[equal], -program.right[~equal], np.zeros(n)])
    cones = [
        clarabel.ZeroConeT(int(equal.sum())),
        clarabel.NonnegativeConeT(int((~equal).sum()) + n),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = task["limit"]
    start = time.perf_counter()
    nothing = sparse.csc_matrix((n, n))
    solver = clarabel.DefaultSolver(
        nothing, program.cost, sparse.csc_matrix(rows), right, cones, settings
    )
    found = solver.solve()
    if "Solved" not in str(found.status):
        raise RuntimeError(str(found.status))
    return time.perf_counter() - start, float(found.obj_val)


def with_qif(task: Task) -> tuple[float, float]:
    """The authors' own library. It takes a metric, not a list of pairs, and builds its own LP."""
    import qif

    prior, loss, reach = task["prior"], task["loss"], task["reach"]
    start = time.perf_counter()
    matrix = qif.mechanism.d_privacy.min_loss_given_d(
        prior, len(prior), lambda i, j: reach[i, j], lambda i, j: loss[i, j]
    )
    return time.perf_counter() - start, float((prior[:, None] * loss * matrix).sum())


def main() -> None:
    task: Task = {
        name: np.asarray(value) if isinstance(value, list) else value
        for name, value in json.load(sys.stdin).items()
    }
    method = str(task["method"])
    run = {"clarabel": with_clarabel, "qif": with_qif}.get(method)
    try:
        seconds, loss = run(task) if run is not None else with_ours(task, method)
        print(json.dumps({"state": "solved", "seconds": seconds, "loss_km": loss}))
    except Exception as wrong:
        over = any(word in str(wrong) for word in ("ran out", "MaxTime", "time limit"))
        print(json.dumps({"state": "over" if over else "error", "said": str(wrong)[:200]}))


if __name__ == "__main__":
    main()
