"""The conic solver against the definition of its program, other solvers and its own promises."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

import strategies as some
from effort import examples
from whereish.errors import InputError, SolveError
from whereish.solvers import Progress
from whereish.solvers.cones import ConeSolution, cone_bound, solve_cones

NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
MODULE = Path(__file__).parent.parent / "clients" / "js" / "dist" / "whereish.wasm"
Cone = tuple[int, int, int, float, float]  # v, a, b, hx, hy; -1 where there is no neighbour


def cones_of(xs: some.Floats, ys: some.Floats) -> Iterator[Cone]:
    """Every corner of every cell, by cells, and in a cell by rows: the definition, in plain loops.

    On a line a cell is a segment with two corners.
    """
    nx, ny = len(xs), len(ys)
    for iy in range(max(1, ny - 1)):
        for ix in range(max(1, nx - 1)):
            for up in range(min(2, ny)):
                for right in range(min(2, nx)):
                    own = (iy + up) * nx + ix + right
                    a = (iy + up) * nx + ix + 1 - right if nx > 1 else -1
                    b = (iy + 1 - up) * nx + ix + right if ny > 1 else -1
                    hx = float(xs[ix + 1] - xs[ix]) if nx > 1 else 1.0
                    hy = float(ys[iy + 1] - ys[iy]) if ny > 1 else 1.0
                    yield own, a, b, hx, hy


def worst_slope(matrix: some.Floats, xs: some.Floats, ys: some.Floats, epsilon: float) -> float:
    """Return the largest slope over epsilon k_v: a matrix obeys the cones if it is at most 1."""
    worst = 0.0
    for v, a, b, hx, hy in cones_of(xs, ys):
        for z in range(matrix.shape[1]):
            here = matrix[v, z]
            slope_x = (matrix[a, z] - here) / hx if a >= 0 else 0.0
            slope_y = (matrix[b, z] - here) / hy if b >= 0 else 0.0
            assert here >= 0
            if here == 0:  # an output that is not used
                assert slope_x == slope_y == 0
                continue
            worst = max(worst, math.hypot(slope_x, slope_y) / (epsilon * here))
    return worst


def slow_bound(
    xs: some.Floats, ys: some.Floats, cost: some.Floats, epsilon: float, y: some.Floats
) -> float:
    """Return sum_v min_z (c - A'y)(v, z), corner by corner."""
    reduced = cost.copy()
    for z in range(cost.shape[1]):
        for (v, a, b, hx, hy), (y0, y1, y2) in zip(cones_of(xs, ys), y[z], strict=True):
            assert y0 >= math.hypot(y1, y2) * (1 - 1e-14)
            reduced[v, z] -= epsilon * y0
            if a >= 0:
                reduced[a, z] -= y1 / hx
                reduced[v, z] += y1 / hx
            if b >= 0:
                reduced[b, z] -= y2 / hy
                reduced[v, z] += y2 / hy
    return float(reduced.min(axis=1).sum())


def hats(axis: some.Floats, at: some.Floats) -> some.Floats:
    return np.array([np.interp(at, axis, unit) for unit in np.eye(len(axis))]).T


def lattice(seed: int, low: int = 5, high: int = 9) -> tuple[Any, Any, Any, float]:
    """A graded lattice, visits with a skewed prior, outputs anywhere: c = sum_i p_i phi_v d."""
    rng = np.random.default_rng(seed)
    nx, ny = rng.integers(low, high + 1, 2)
    xs, ys = (np.cumsum(rng.uniform(0.1, 1, count) ** 2) * 2 for count in (nx, ny))
    m, epsilon = int(rng.integers(6, 16)), float(10 ** rng.uniform(-0.7, 1))
    visits, outputs = (
        np.column_stack(
            [rng.uniform(xs[0], xs[-1] + 0.01, count), rng.uniform(ys[0], ys[-1] + 0.01, count)]
        )
        for count in (60, m)
    )
    prior = rng.dirichlet(np.full(60, 0.1))
    across, up = hats(xs, visits[:, 0]), hats(ys, visits[:, 1])
    shapes = (up[:, :, None] * across[:, None, :]).reshape(60, -1)
    apart = visits[:, None] - outputs[None]
    cost = (shapes * prior[:, None]).T @ np.hypot(apart[..., 0], apart[..., 1])
    return xs, ys, cost, epsilon


def check_definition(
    xs: some.Floats,
    ys: some.Floats,
    cost: some.Floats,
    epsilon: float,
    found: ConeSolution,
) -> None:
    assert worst_slope(found.matrix, xs, ys, epsilon) <= 1 + 1e-9
    assert np.abs(found.matrix.sum(axis=1) - 1).max() < 1e-12
    size = np.abs(cost).max(axis=1).sum()
    assert found.loss == pytest.approx((cost * found.matrix).sum(), rel=1e-9, abs=1e-12 * size)
    proven = slow_bound(xs, ys, cost, epsilon, found.multipliers)
    assert found.bound == pytest.approx(proven, rel=1e-9, abs=1e-9 * size)
    assert cone_bound(xs, ys, cost, epsilon, found.multipliers) == pytest.approx(
        proven, rel=1e-9, abs=1e-9 * size
    )
    assert found.loss >= found.bound - 1e-12 * size


axes = st.lists(st.floats(0.02, 3), min_size=0, max_size=4).map(
    lambda steps: np.concatenate([[0.0], np.cumsum(steps)])
)


@examples(60)
@given(axes, axes, st.integers(1, 5), st.floats(-1, 1), st.integers(0, 2**32 - 1), st.booleans())
def test_the_result_obeys_the_definition(
    xs: some.Floats, ys: some.Floats, m: int, power: float, seed: int, is_signed: bool
) -> None:
    """Lattices of 1 to 5 lines each way, lines and a single vertex among them, any costs."""
    rng = np.random.default_rng(seed)
    cost = rng.gamma(0.3, size=(len(xs) * len(ys), m)) * (rng.random((len(xs) * len(ys), m)) < 0.7)
    if is_signed:
        cost -= rng.random((len(cost), 1))
    epsilon = 10.0**power
    found = solve_cones(xs, ys, cost, epsilon, 1e-6, threads=1)
    if len(xs) * len(ys) == 1:
        assert found.loss == found.bound == cost.min()
        assert found.matrix.sum() == 1
        return
    check_definition(xs, ys, cost, epsilon, found)
    size = np.abs(cost).max(axis=1).sum()
    # A loss near 0 against the costs it is made from has no relative gap.
    assert found.loss - found.bound <= 1e-6 * abs(found.loss) + 1e-9 * size


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_clarabel(seed: int) -> None:
    clarabel = pytest.importorskip("clarabel", reason="Clarabel, the other conic solver, is absent")
    xs, ys, cost, epsilon = lattice(seed)
    n, m = cost.shape
    entries = []
    for row, (v, a, b, hx, hy) in enumerate(cones_of(xs, ys)):
        entries += [(3 * row, v, epsilon), (3 * row + 1, a, 1 / hx), (3 * row + 1, v, -1 / hx)]
        entries += [(3 * row + 2, b, 1 / hy), (3 * row + 2, v, -1 / hy)]
    rows, columns, values = (np.array(each) for each in zip(*entries, strict=True))
    one = sparse.csr_matrix((values, (rows, columns)), shape=(rows.max() + 1, n))
    matrix = sparse.vstack([sparse.hstack([sparse.eye(n)] * m), -sparse.block_diag([one] * m)])
    right = np.concatenate([np.ones(n), np.zeros(m * one.shape[0])])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_rel = options.tol_gap_abs = options.tol_feas = 1e-9
    cones = [clarabel.ZeroConeT(n), *[clarabel.SecondOrderConeT(3)] * (m * one.shape[0] // 3)]
    nothing = sparse.csc_matrix((n * m, n * m))
    solver = clarabel.DefaultSolver(
        nothing, cost.T.ravel(), sparse.csc_matrix(matrix), right, cones, options
    )  # fmt: skip
    theirs = solver.solve()
    assert "Solved" in str(theirs.status)
    found = solve_cones(xs, ys, cost, epsilon, 1e-7)
    assert found.stopped == "solved"
    assert found.loss == pytest.approx(theirs.obj_val, rel=1e-6)
    check_definition(xs, ys, cost, epsilon, found)


def with_directions(
    xs: some.Floats, ys: some.Floats, cost: some.Floats, epsilon: float, count: int
) -> float:
    """Return the optimum of the linear program with `count` directions instead of the cones.

    It is at most that of the cones, and at least that of the cones for epsilon / cos(pi / count).
    """
    n, m = cost.shape
    entries: list[tuple[int, int, float]] = []
    row = 0
    for v, a, b, hx, hy in cones_of(xs, ys):
        for angle in np.arange(count) * 2 * np.pi / count:
            along_x, along_y = np.cos(angle) / hx, np.sin(angle) / hy
            entries += [(row, a, along_x), (row, b, along_y)]
            entries += [(row, v, -along_x - along_y - epsilon)]
            row += 1
    rows, columns, values = (np.array(each) for each in zip(*entries, strict=True))
    one = sparse.csr_matrix((values, (rows, columns)), shape=(row, n))
    above, equal = sparse.block_diag([one] * m), sparse.hstack([sparse.eye(n)] * m)
    solve: Any = optimize.linprog
    solved = solve(
        cost.T.ravel(), A_ub=above, b_ub=np.zeros(m * row), A_eq=equal, b_eq=np.ones(n),
        method="highs-ipm",
    )  # fmt: skip
    assert solved.status == 0
    return float(solved.fun)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_between_two_linear_programs_of_highs(seed: int) -> None:
    xs, ys, cost, epsilon = lattice(seed, 3, 4)
    cost, count = cost[:, :6], 24
    found = solve_cones(xs, ys, cost, epsilon, 1e-7)
    outer = with_directions(xs, ys, cost, epsilon, count)
    inner = with_directions(xs, ys, cost, epsilon * math.cos(math.pi / count), count)
    assert outer * (1 - 1e-6) <= found.loss <= inner * (1 + 1e-6)
    assert inner <= outer * 1.02  # or the test would say nothing


@pytest.mark.parametrize("seed", [3, 4])
def test_threads_do_not_change_a_bit(seed: int) -> None:
    xs, ys, cost, epsilon = lattice(seed, 14, 17)
    one, two = (solve_cones(xs, ys, cost, epsilon, threads=threads) for threads in (1, 2))
    assert one.stopped == "solved"
    assert np.array_equal(one.matrix, two.matrix)
    assert np.array_equal(one.multipliers, two.multipliers)
    assert (one.loss, one.bound, one.iterations) == (two.loss, two.bound, two.iterations)


def test_a_lattice_and_its_transpose_have_the_same_optimum() -> None:
    xs, ys, cost, epsilon = lattice(7)
    turned = cost.reshape(len(ys), len(xs), -1).swapaxes(0, 1).reshape(cost.shape)
    one = solve_cones(xs, ys, cost, epsilon, 1e-7)
    other = solve_cones(ys, xs, turned, epsilon, 1e-7)
    assert one.loss == pytest.approx(other.loss, rel=2e-7)


def test_two_vertices_have_the_optimum_of_the_formula() -> None:
    """A ratio of 1 + eps h at most, so the wrong output has probability 1 / (2 + eps h)."""
    for h, epsilon in ((1.0, 1.0), (0.3, 5.0)):
        for xs, ys in (([0.0, h], [0.0]), ([0.0], [0.0, h])):
            found = solve_cones(
                np.array(xs), np.array(ys), np.array([[0.0, 1.0], [1.0, 0.0]]), epsilon, 1e-8
            )
            assert found.loss == pytest.approx(2 / (2 + epsilon * h), rel=1e-7)


def test_progress_is_told_and_can_stop_it() -> None:
    xs, ys, cost, epsilon = lattice(5)
    seen: list[Progress] = []
    whole = solve_cones(xs, ys, cost, epsilon, progress=seen.append)
    assert [each.iteration for each in seen] == list(range(whole.iterations + 1))
    assert all(each.loss >= each.bound for each in seen)
    assert seen[-1].gap <= 1e-5 < seen[-2].gap
    assert (np.diff([each.bound for each in seen]) >= 0).all()
    part = solve_cones(
        xs, ys, cost, epsilon, progress=lambda now: None if now.iteration < 4 else False
    )
    assert (part.stopped, part.iterations) == ("asked", 4)
    assert part.loss > whole.loss
    check_definition(xs, ys, cost, epsilon, part)


def test_an_error_of_the_callback_is_raised() -> None:
    xs, ys, cost, epsilon = lattice(5)

    def broken(now: Progress) -> None:
        raise KeyError(now.iteration)

    with pytest.raises(KeyError):
        solve_cones(xs, ys, cost, epsilon, progress=broken)


def test_a_time_limit_ends_it_with_a_matrix() -> None:
    xs, ys, cost, epsilon = lattice(6, 20, 20)
    for limit in (0.0, 0.02):
        found = solve_cones(xs, ys, cost, epsilon, 1e-9, time_limit_s=limit)
        assert found.stopped == "time"
        assert found.seconds < limit + 1
        check_definition(xs, ys, cost, epsilon, found)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for another process")
def test_ctrl_c_ends_it_with_a_matrix() -> None:
    """The first Ctrl-C ends the solve, and is no exception."""
    program = (
        "import numpy as np; from whereish.solvers.cones import solve_cones\n"
        "rng = np.random.default_rng(0); xs = np.arange(40.0)\n"
        "tell = lambda now: print(now.iteration, flush=True)\n"
        "found = solve_cones(xs, xs, rng.gamma(0.3, size=(1600, 20)), 1.0, 1e-9, progress=tell)\n"
        "print(found.stopped, found.matrix.sum().round(6))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as running:
        timer = threading.Timer(120, running.kill)
        timer.start()
        assert running.stdout is not None
        while running.stdout.readline().strip() != "1":
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        said = running.stdout.read().split("\n")
        assert running.wait() == 0
        timer.cancel()
    assert said[-2] == "asked 1600.0"


def test_what_cannot_be_a_program_is_refused() -> None:
    xs, ys, cost, epsilon = np.arange(3.0), np.arange(2.0), np.ones((6, 2)), 1.0
    for wrong in (
        (xs[::-1], ys, cost, epsilon),
        (np.array([0.0, 1.0, 1.0]), ys, cost, epsilon),
        (np.array([0.0, np.nan, 2.0]), ys, cost, epsilon),
        (xs, np.array([0.0, np.inf]), cost, epsilon),
        (xs, np.array([]), cost, epsilon),
        (xs, ys, cost[:5], epsilon),
        (xs, ys, cost[:, :0], epsilon),
        (xs, ys, np.where(np.eye(6)[:, :2] > 0, np.nan, cost), epsilon),
        (xs, ys, cost, 0.0),
        (xs, ys, cost, math.nan),
        (xs, ys, cost, -1.0),
    ):
        with pytest.raises(InputError):
            solve_cones(*wrong)
    with pytest.raises(InputError, match="tolerance"):
        solve_cones(xs, ys, cost, epsilon, math.nan)
    with pytest.raises(SolveError, match="too near"):
        solve_cones(np.array([0.0, 1e-15, 1.0]), ys, cost, epsilon)
    with pytest.raises(SolveError, match="more vertices"):
        solve_cones(np.arange(30_001.0), np.zeros(1), np.zeros((30_001, 1)), epsilon)


def test_a_bound_refuses_multipliers_outside_their_cones() -> None:
    xs, ys, cost, epsilon = lattice(5)
    y = solve_cones(xs, ys, cost, epsilon).multipliers
    for change in (1 - 1e-3, math.nan, -1.0):
        spoilt = y.copy()
        z, corner = divmod(int(np.hypot(y[..., 1], y[..., 2]).argmax()), y.shape[1])
        spoilt[z, corner, 0] = np.hypot(*spoilt[z, corner, 1:]) * change
        with pytest.raises(InputError, match="inside their cones"):
            cone_bound(xs, ys, cost, epsilon, spoilt)
    with pytest.raises(InputError, match="shape"):
        cone_bound(xs, ys, cost, epsilon, y[:, 1:])
    assert cone_bound(xs, ys, cost, epsilon, 0 * y) == pytest.approx(cost.min(axis=1).sum())


@pytest.mark.skipif(NODE is None or not MODULE.exists(), reason="needs node and `make core`")
def test_the_web_module_finds_the_same_optimum(tmp_path: Path) -> None:
    xs, ys, cost, epsilon = lattice(11)
    numbers = [xs.tolist(), ys.tolist(), cost.ravel().tolist()]
    (tmp_path / "run.mjs").write_text(
        f"""
        import {{ readFileSync }} from 'node:fs';
        const env = {{ now: () => performance.now() / 1000, progress: () => {{}} }};
        const module = await WebAssembly.compile(readFileSync({json.dumps(str(MODULE))}));
        const core = (await WebAssembly.instantiate(module, {{ env }})).exports;
        core._initialize();
        const given = {json.dumps(numbers)}, [nx, ny] = [given[0].length, given[1].length];
        const m = given[2].length / (nx * ny);
        const sizes = [nx * ny * m, m * Number(core.wi_cone_corners(nx, ny)) * 3, 6];
        const at = [...given.map((each) => each.length), ...sizes].map((n) => core.malloc(8 * n));
        given.forEach((each, i) =>
          new Float64Array(core.memory.buffer, at[i], each.length).set(each));
        const status = core.wi_wasm_cones(
          nx, ny, m, at[0], at[1], at[2], {epsilon!r}, 1e-7, NaN, at[3], at[4], at[5]);
        const told = [...new Float64Array(core.memory.buffer, at[5], 6)];
        console.log(JSON.stringify({{ status, told }}));
        """
    )
    done = subprocess.run(
        [str(NODE), "run.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    loss, bound, gap, _, iterations, stopped = said["told"]
    assert (said["status"], stopped) == (0, 0)
    assert gap <= 1e-7
    assert iterations > 1
    found = solve_cones(xs, ys, cost, epsilon, 1e-7)
    assert loss == pytest.approx(found.loss, rel=2e-7)
    assert bound == pytest.approx(found.bound, rel=2e-7)
