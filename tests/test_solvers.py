"""Every solver and both forms give the same optimum; what fails, fails in words."""

from __future__ import annotations

import _thread
import json
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest

import strategies as some
import whereish as wh
from whereish.programs import LinearProgram, least_loss
from whereish.solvers import SOLVERS, highs, solve

HIGHS = [name for name in SOLVERS if name.startswith("highs")]
GLPK = [name for name in SOLVERS if name.startswith("glpk")]


def instance(seed: int) -> tuple[wh.Places, some.Floats, float]:
    """24 instances: grids and scattered places over 5 km, eps 0.1 to 6, priors with zeros."""
    rng = np.random.default_rng(seed)
    epsilon = (0.1, 0.5, 1.07, 2.0, 3.0, 6.0)[seed % 6]
    if seed % 2:
        places = wh.Places.from_xy(rng.uniform(0, 5 / np.sqrt(2), (int(rng.integers(5, 14)), 2)))
    else:
        columns, rows = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        cell = 5 / np.hypot(columns - 1, rows - 1)
        places = wh.Places.from_xy(
            [[i * cell, j * cell] for j in range(rows) for i in range(columns)]
        )
    return places, some.skewed(len(places), seed), epsilon


@pytest.mark.parametrize("seed", range(24))
def test_the_optimum_does_not_depend_on_the_solver_or_the_form(seed: int) -> None:
    places, prior, epsilon = instance(seed)
    losses = {
        (solver, form): wh.quality_loss(
            wh.optimal(places, prior, epsilon, solver=solver, form=form), prior
        )
        for solver in HIGHS
        for form in ("primal", "dual")
    }
    reference = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    for name, loss in losses.items():
        assert loss == pytest.approx(reference, rel=1e-6, abs=1e-9), name


@pytest.mark.skipif(find_spec("swiglpk") is None, reason="GLPK (swiglpk) is not installed")
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.slow
def test_glpk_agrees_where_it_answers(seed: int) -> None:
    """The simplex methods answer on the primal program; the rest may fail, but only in words."""
    places, prior, epsilon = instance(seed)
    reference = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    answered = 0
    for solver in GLPK:
        for form in ("primal", "dual"):
            try:
                mechanism = wh.optimal(
                    places, prior, epsilon, solver=solver, form=form, time_limit_s=60
                )
            except wh.SolveError as failure:
                assert solver in str(failure)
                continue
            answered += 1
            # GLPK's interior point stops at a gap of 1e-8 of larger numbers.
            tolerance = 1e-4 if solver == "glpk-ipm" else 1e-6
            loss = wh.quality_loss(mechanism, prior)
            assert loss == pytest.approx(reference, rel=tolerance, abs=1e-6), (solver, form)
    assert answered >= 2


QIF = """
import json, sys
import numpy as np, qif
task = json.load(sys.stdin)
d, prior, epsilon = np.array(task["d"]), np.array(task["prior"]), task["epsilon"]
qif.lp.defaults.solver = task.get("solver", "AUTO")
matrix = qif.mechanism.d_privacy.min_loss_given_d(
    prior, len(prior), lambda i, j: epsilon * d[i, j], lambda i, j: d[i, j])
print(json.dumps(float((prior[:, None] * d * matrix).sum())))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("qif") is None, reason="qif is not installed")
@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_qif_agrees(seed: int) -> None:
    """The authors' own library, in a process of its own: its solvers and ours do not mix."""
    places, prior, epsilon = instance(seed)
    task = {"d": wh.euclidean(places).tolist(), "prior": prior.tolist(), "epsilon": epsilon}
    done = subprocess.run(
        [sys.executable, "-c", QIF],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = wh.quality_loss(wh.optimal(places, prior, epsilon), prior)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)


def large_program(columns: int = 9, rows: int = 7) -> LinearProgram:
    places = some.grid(columns, rows)
    distances = wh.euclidean(places)
    spanner = wh.greedy_spanner(distances, 1.0)
    prior = some.skewed(columns * rows)
    return least_loss(prior, distances, spanner.edges, 1.07 * spanner.lengths)


def test_running_out_of_time_says_so() -> None:
    with pytest.raises(wh.SolveError, match=r"highs-dual-simplex ran out of its 0.01 s"):
        solve(large_program(), "highs-dual-simplex", time_limit_s=0.01)


@pytest.mark.skipif(find_spec("swiglpk") is None, reason="GLPK (swiglpk) is not installed")
def test_glpk_running_out_of_time_says_so() -> None:
    with pytest.raises(wh.SolveError, match=r"glpk-ipm ran out of its 0.01 s"):
        solve(large_program(), "glpk-ipm", time_limit_s=0.01)


def test_ctrl_c_stops_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener hears the interrupt while HiGHS works, stops it and passes it on."""
    begun: list[threading.Thread] = []

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            begun.append(self)
            _thread.interrupt_main()

    monkeypatch.setattr("whereish.solvers.highs.Thread", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(large_program(5, 5), "highs-ipm")
    (worker,) = begun
    worker.join()  # HiGHS has ended, too


def impossible() -> LinearProgram:
    """v >= 0, -v >= 1."""
    from scipy.sparse import csr_array

    return LinearProgram(
        cost=np.ones(1),
        matrix=csr_array(np.array([[-1.0]])),
        right=np.ones(1),
        equal=np.zeros(1, dtype=bool),
        free=np.zeros(1, dtype=bool),
    )


@pytest.mark.parametrize("solver", HIGHS)
def test_a_solver_that_fails_is_quoted(solver: str) -> None:
    with pytest.raises(wh.SolveError, match=f"{solver} ended with 'Infeasible'.*try another"):
        solve(impossible(), solver)


def test_auto_tries_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def failing(program: LinearProgram, method: str, limit: float | None) -> object:
        tried.append(method)
        if method == "dual-simplex":
            raise wh.SolveError("made to fail")
        return highs.solve(program, method, limit)

    monkeypatch.setitem(__import__("whereish.solvers").solvers._FAMILIES, "highs", failing)
    places, prior, epsilon = instance(2)
    assert wh.optimal(places, prior, epsilon).build.solver == "highs-ipm"
    assert tried == ["dual-simplex", "dual-simplex", "ipm"]


def test_nonsense_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that calls a non-private matrix optimal gets no mechanism through."""

    def wrong(program: LinearProgram, method: str, limit: float | None) -> object:
        n = int(np.sqrt(program.variables))
        return np.eye(n).ravel(), np.zeros(program.constraints)

    monkeypatch.setitem(__import__("whereish.solvers").solvers._FAMILIES, "highs", wrong)
    places, prior, _ = instance(2)
    with pytest.raises(wh.SolveError, match="cannot be used: the matrix is too far from private"):
        wh.optimal(places, prior, 0.5, solver="highs-ipm")


def test_numbers_that_are_none_are_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(program: LinearProgram, method: str, limit: float | None) -> object:
        return np.full(program.variables, np.nan), np.zeros(program.constraints)

    monkeypatch.setitem(__import__("whereish.solvers").solvers._FAMILIES, "highs", empty)
    places, prior, epsilon = instance(2)
    with pytest.raises(wh.SolveError, match="not numbers"):
        wh.optimal(places, prior, epsilon, solver="highs-ipm")


@pytest.mark.parametrize("name", ["simplex", "", "highs", "glpk-simplex"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(wh.InputError, match="solver must be one of auto, structured, highs-ipm"):
        wh.optimal(some.grid(2, 2), some.skewed(4), 1.0, solver=name)
    with pytest.raises(wh.InputError, match="form must be one of primal, dual"):
        wh.optimal(some.grid(2, 2), some.skewed(4), 1.0, form=name)


def test_a_solver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whereish.solvers.glpk.find_spec", lambda name: None)
    with pytest.raises(wh.InputError, match="glpk-ipm needs the package swiglpk.*pip install"):
        wh.optimal(some.grid(2, 2), some.skewed(4), 1.0, solver="glpk-ipm")
