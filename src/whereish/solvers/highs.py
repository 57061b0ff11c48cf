"""HiGHS through highspy: primal simplex, dual simplex, interior point."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np

from whereish.errors import InputError, SolveError
from whereish.places import Array
from whereish.programs import LinearProgram

_TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
# Tighter than the default 1e-7: the cost of the repair is that of the worst broken ratio.
# The interior-point method fails at 1e-10; the crossover to a vertex makes up for that.
OPTIONS: dict[str, dict[str, Any]] = {
    "ipm": {"solver": "ipx", "run_crossover": "on", **dict.fromkeys(_TOLERANCES, 1e-9)},
    "dual-simplex": {
        "solver": "simplex",
        "simplex_strategy": 1,
        **dict.fromkeys(_TOLERANCES, 1e-10),
    },
    "primal-simplex": {
        "solver": "simplex",
        "simplex_strategy": 4,
        **dict.fromkeys(_TOLERANCES, 1e-10),
    },
}


def solve(program: LinearProgram, method: str, time_limit_s: float | None) -> tuple[Array, Array]:
    """Solve a program; return the values of its variables and the multipliers of its rows.

    Ctrl-C stops HiGHS and is then raised as usual.
    """
    try:
        import highspy
    except ImportError:  # pragma: no cover - highspy is a dependency, but may be removed
        raise InputError(
            f"solver highs-{method} needs the package highspy: pip install highspy"
        ) from None

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    settings = {
        "output_flag": False,
        "small_matrix_value": 1e-12,
        "simplex_scale_strategy": 0,  # rows are scaled already; scaling twice loses digits
        **OPTIONS[method],
        **({} if time_limit_s is None else {"time_limit": float(time_limit_s)}),
    }
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    highs.passModel(_model(highspy, program))
    _run(highs)
    if method == "ipm" and highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        # Polish the vertex of the crossover to the tolerance of the simplex methods.
        highs.setOptionValue("solver", "simplex")
        for name in _TOLERANCES:
            highs.setOptionValue(name, 1e-10)
        _run(highs)

    status = highs.getModelStatus()
    status_text = highs.modelStatusToString(status)
    if status == highspy.HighsModelStatus.kTimeLimit:
        raise SolveError(
            f"highs-{method} ran out of its {time_limit_s:g} s on {program.constraints:,} "
            "constraints: allow more time, or a larger dilation"
        )
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolveError(f"highs-{method} ended with {status_text!r}: try another solver or form")
    solution = highs.getSolution()
    return np.array(solution.col_value), np.array(solution.row_dual)


def _model(highspy: Any, program: LinearProgram) -> Any:
    matrix = program.matrix
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.variables, program.constraints
    lp.col_cost_ = program.cost
    lp.col_lower_ = np.where(program.free, -highspy.kHighsInf, 0.0)
    lp.col_upper_ = np.full(program.variables, highspy.kHighsInf)
    lp.row_lower_ = program.right
    lp.row_upper_ = np.where(program.equal, program.right, highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    return lp


def _run(highs: Any) -> None:
    # HiGHS ignores Ctrl-C, so it runs in another thread while this one waits for the signal.
    highs.HandleUserInterrupt = True
    worker = Thread(target=highs.run, daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.05)
    except KeyboardInterrupt:
        highs.cancelSolve()
        worker.join(2.0)
        raise
