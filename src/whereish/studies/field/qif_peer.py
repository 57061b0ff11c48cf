"""The optimal mechanism by qif, in its own process: qif and highspy cannot share one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from whereish.errors import InputError, SolveError
from whereish.mechanisms import Build, Mechanism, Request
from whereish.places import euclidean

_PROCESS = Path(__file__).with_name("qif_process.py")


def optimal_by_qif(asked: Request) -> Mechanism:
    """Return the matrix of ``qif.mechanism.d_privacy.min_loss_given_d``, as it is.

    Negative entries become zero and rows are divided by their sums, as of any matrix that is
    sampled. It gets no epsilon: nothing repaired its last digits, and nothing checked it.
    """
    if find_spec("qif") is None:
        raise InputError(
            "this mechanism needs the package qif, which is not installed: "
            "pip install 'whereish[bench]'"
        )
    n, start = len(asked.places), time.perf_counter()
    head = json.dumps({"places": n, "epsilon": asked.level}).encode() + b"\n"
    arrays = (np.asarray(asked.prior, np.float64), euclidean(asked.places))
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PROCESS)],
            input=head + b"".join(some.tobytes() for some in arrays),
            capture_output=True,
            timeout=asked.time_limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SolveError(
            f"qif ran out of its {asked.time_limit_s:g} s on {n} places: allow more time"
        ) from None
    if done.returncode != 0 or len(done.stdout) != 8 * n * n:
        raise SolveError(f"qif ended with return code {done.returncode} on {n} places")
    matrix = np.maximum(np.frombuffer(done.stdout).reshape(n, n), 0.0)
    build = Build("qif", seconds=time.perf_counter() - start)
    return Mechanism(
        matrix / matrix.sum(axis=1, keepdims=True), asked.places, asked.places, build=build
    )
