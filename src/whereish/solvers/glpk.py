"""GLPK, the solver of the paper, through swiglpk: an optional extra for comparisons.

GLPK cannot be interrupted, its interior-point method has no time limit, and on some errors it ends
the process. So it runs in a subprocess, `glpk_process`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from whereish.errors import InputError, SolveError
from whereish.places import Array
from whereish.programs import LinearProgram

# Run as a file, without the package: it starts in 0.05 s, ten times faster.
_PROCESS = Path(__file__).with_name("glpk_process.py")


def solve(program: LinearProgram, method: str, time_limit_s: float | None) -> tuple[Array, Array]:
    """Solve a program; return the values of its variables and the multipliers of its rows."""
    if find_spec("swiglpk") is None:
        raise InputError(
            f"solver glpk-{method} needs the package swiglpk, which is not installed: "
            "pip install 'whereish[glpk]'"
        )
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PROCESS)],
            input=_packed(program, method),
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
    answer = np.frombuffer(done.stdout)
    return answer[: len(program.cost)], answer[len(program.cost) :]


def _packed(program: LinearProgram, method: str) -> bytes:
    """Return a program as `glpk_process` reads it."""
    matrix = program.matrix.tocoo()
    head = {
        "method": method,
        "rows": len(program.right),
        "columns": len(program.cost),
        "entries": len(matrix.data),
    }
    reals = (program.cost, program.right, matrix.data)
    whole = (program.equal, program.free, matrix.row, matrix.col)
    arrays = [np.asarray(some, dtype=np.float64) for some in reals]
    arrays += [np.asarray(some, dtype=np.int64) for some in whole]
    return json.dumps(head).encode() + b"\n" + b"".join(some.tobytes() for some in arrays)
