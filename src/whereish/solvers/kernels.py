"""Compiled kernels of the structured solver: one block per output.

They hold no lock, and work on a range of blocks, so that threads can share the blocks out. What
is added up over blocks is always added up in the same order, however many threads there are.

In a block the unknown is a column k > 0 over the inputs. Its privacy rows are k_j - q k_i >= 0,
q = exp(-eps d(i, j)). Everything is kept relative to the iterate, so that no number depends on
how large exp(eps d) is:

- ``slack`` = 1 - q k_i / k_j, between 0 and 1; the row's own share of it is rho = 1 - slack;
- ``dual`` = y k_j for the row's multiplier y; centred means slack * dual = mu;
- a step is k (1 + step u). It changes a slack by u_j - rho u_i.

The block matrix H = sum over rows of dual / slack (e_j - rho e_i)(e_j - rho e_i)' is nearly
singular along u = 1, the scaling of the whole column. That direction is split off exactly: with
one place g grounded, G = H without g, h = k (A'y) without g,

    H^-1 t = [G^-1 t] + w (w't) / sigma,   w = 1 - [G^-1 h],   sigma = w'H w.

u is kept in two parts, u = tau + v, because tau may be many orders larger than v: a slack
changes by tau * slack + (v_j - rho v_i), with nothing cancelled.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
from numba import njit, types
from numba.extending import get_cython_function_address

# LAPACK inside compiled code that is cached on disk: the address is looked up under a name of
# ours each time this module is imported, and the cached code refers to the name.
_ADDRESS, _NOTHING = types.intp, types.void
for _name in ("dpotrf", "dpotri", "dpotrs"):
    llvm.add_symbol(
        f"whereish_{_name}", get_cython_function_address("scipy.linalg.cython_lapack", _name)
    )
_potrf = types.ExternalFunction("whereish_dpotrf", _NOTHING(*[_ADDRESS] * 5))
_potri = types.ExternalFunction("whereish_dpotri", _NOTHING(*[_ADDRESS] * 5))
_potrs = types.ExternalFunction("whereish_dpotrs", _NOTHING(*[_ADDRESS] * 8))
_FAINT = 1e-4
_RIDGE = 1e-13
UPPER = 85  # "U" of Fortran's columns is the lower triangle of our rows


@njit(nogil=True, cache=True, error_model="numpy")
def _cholesky(matrix, numbers, upper):
    numbers[0] = numbers[1] = matrix.shape[0]
    numbers[2] = 0
    at = numbers.ctypes.data
    _potrf(upper.ctypes.data, at, matrix.ctypes.data, at + 4, at + 8)
    return numbers[2]


@njit(nogil=True, cache=True, error_model="numpy")
def _invert(factor, numbers, upper):
    numbers[0] = numbers[1] = factor.shape[0]
    at = numbers.ctypes.data
    _potri(upper.ctypes.data, at, factor.ctypes.data, at + 4, at + 8)


@njit(nogil=True, cache=True, error_model="numpy")
def _solve(factor, right, numbers, upper):
    numbers[0] = numbers[1] = factor.shape[0]
    numbers[3] = 1
    at = numbers.ctypes.data
    _potrs(
        upper.ctypes.data, at, at + 12, factor.ctypes.data, at + 4, right.ctypes.data, at, at + 8
    )


@njit(nogil=True, cache=True, error_model="numpy")
def factor_block(rows_i, rows_j, count, slack, dual, pull, factor, ground_h, numbers, upper):
    """Factor G in place of ``factor``; put G^-1 h into ``ground_h``; return g, sigma, trouble.

    ``pull`` is k (A'y), given from outside because summing it here would cancel.
    """
    n = factor.shape[0]
    factor[:] = 0.0
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        rho = 1.0 - slack[r]
        weight = dual[r] / slack[r]
        factor[j, j] += weight
        factor[i, i] += weight * rho * rho
        factor[i, j] -= weight * rho
        factor[j, i] -= weight * rho
    g = 0
    for x in range(n):
        if factor[x, x] > factor[g, g]:
            g = x
    for x in range(n):
        factor[g, x] = 0.0
        factor[x, g] = 0.0
    for x in range(n):
        factor[x, x] *= 1.0 + _RIDGE
    factor[g, g] = 1.0
    trouble = _cholesky(factor, numbers, upper)
    for x in range(n):
        ground_h[x] = pull[x]
    ground_h[g] = 0.0
    _solve(factor, ground_h, numbers, upper)
    # sigma = w'Hw, as a sum of squares: w minimises it, so an error in w hardly shows.
    sigma = 0.0
    for r in range(count):
        rho = 1.0 - slack[r]
        along = slack[r] - (ground_h[rows_j[r]] - rho * ground_h[rows_i[r]])
        sigma += dual[r] / slack[r] * along * along
    return g, sigma, trouble


@njit(nogil=True, cache=True, error_model="numpy")
def solve_block(factor, g, ground_h, sigma, right, whole, v, numbers, upper):
    """Put the v of H^-1 right into ``v`` and return its tau; ``whole`` is the sum of right."""
    n = len(right)
    dot = 0.0
    for x in range(n):
        v[x] = right[x]
        dot += ground_h[x] * right[x]
    v[g] = 0.0
    _solve(factor, v, numbers, upper)
    tau = (whole - dot) / sigma
    for x in range(n):
        v[x] -= tau * ground_h[x]
    return tau


@njit(nogil=True, cache=True, error_model="numpy")
def complementarity_right(
    rows_i, rows_j, count, slack, dual, d_slack, d_dual, mu, second, weighed_residual, right
):
    """Put A'(rc / slack) - k rd into ``right`` and return its sum, added up without cancelling."""
    whole = 0.0
    for x in range(len(right)):
        right[x] = -weighed_residual[x]
        whole -= weighed_residual[x]
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        rc = mu - slack[r] * dual[r]
        if second:
            rc -= d_slack[r] * d_dual[r]
        share = rc / slack[r]
        right[j] += share
        right[i] -= share * (1.0 - slack[r])
        whole += rc
    return whole


@njit(nogil=True, cache=True, error_model="numpy")
def row_steps(rows_i, rows_j, count, slack, dual, d_slack, d_dual, mu, second, v, tau):
    """Fill in how slacks and duals change; return 1 / the longest primal and dual step."""
    primal = 0.0
    other = 0.0
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        rc = mu - slack[r] * dual[r]
        if second:
            rc -= d_slack[r] * d_dual[r]
        change = tau * slack[r] + (v[j] - (1.0 - slack[r]) * v[i])
        d_slack[r] = change
        d_dual[r] = (rc - dual[r] * change) / slack[r]
        primal = max(primal, -change / slack[r])
        other = max(other, -d_dual[r] / dual[r])
    for x in range(len(v)):
        primal = max(primal, -(v[x] + tau))
    return primal, other


@njit(nogil=True, cache=True, error_model="numpy")
def pair_limit(k, u, pairs_i, pairs_j, shrink, active):
    """Return 1 / the longest step before any pair that is not constrained yet becomes tight."""
    limit = 0.0
    for e in range(len(pairs_i)):
        if active[e] != 0:
            continue
        i, j = pairs_i[e], pairs_j[e]
        have = k[j] - shrink[e] * k[i]
        lose = shrink[e] * k[i] * u[i] - k[j] * u[j]
        if lose > limit * have:
            limit = lose / have
    return limit


@njit(nogil=True, cache=True, error_model="numpy")
def move_rows(rows_j, count, slack, dual, d_slack, d_dual, u, primal, other):
    """Take a step in slacks and duals, which stay relative to the column that moves with them."""
    for r in range(count):
        growth = 1.0 + primal * u[rows_j[r]]
        dual[r] = (dual[r] + other * d_dual[r]) * growth
        slack[r] = (slack[r] + primal * d_slack[r]) / growth


@njit(nogil=True, cache=True, error_model="numpy")
def activate(
    k, pairs_i, pairs_j, shrink, active, near, mu, rows_i, rows_j, count, slack, dual, residual
):
    """Constrain the pairs that have come near their limit; return the new number of rows.

    The iterate is strictly inside them, so they join with slack * dual = mu and nothing restarts.
    """
    capacity = len(rows_i)
    for e in range(len(pairs_i)):
        if active[e] == 0 and count < capacity:
            i, j = pairs_i[e], pairs_j[e]
            left = 1.0 - shrink[e] * k[i] / k[j]
            if left < near * (1.0 - shrink[e] * shrink[e]):  # of the most it could be
                active[e] = 1
                rows_i[count], rows_j[count] = i, j
                slack[count] = left
                dual[count] = _FAINT * mu / left
                residual[j] -= dual[count] / k[j]
                residual[i] += dual[count] * (1.0 - left) / k[i]
                count += 1
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def reduced_cost(cost, k, rows_i, rows_j, count, dual, shrink_of, reduced):
    """Put c - A'y into ``reduced``, from the multipliers y and the true coefficients.

    The slacks are not used: they are carried along and drift, and a bound must not drift with them.
    """
    for x in range(len(k)):
        reduced[x] = cost[x]
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        multiplier = dual[r] / k[j]
        reduced[j] -= multiplier
        reduced[i] += multiplier * shrink_of[i, j]


@njit(nogil=True, cache=True, error_model="numpy")
def clean(aim, k, rows_i, rows_j, count, dual, shrink_of, order, reduced):
    """Lift reduced costs that rounding left below their aim: by less y, and never a negative one.

    Far from the output k is tiny, and a scaled multiplier's rounding is large against c. There a
    multiplier into x is lowered by what is missing; its other end i then misses q times as much,
    q = exp(-eps d), and so on towards the output, where nothing is left.
    """
    n = len(k)
    head = np.full(n, -1, np.int64)
    after = np.empty(count, np.int64)
    multiplier = np.empty(count)
    for r in range(count):
        j = rows_j[r]
        after[r] = head[j]
        head[j] = r
        multiplier[r] = dual[r] / k[j]
    for x in order:
        missing = aim[x] - reduced[x]
        while missing > 0.0:
            largest = -1
            r = head[x]
            while r >= 0:
                if largest < 0 or multiplier[r] > multiplier[largest]:
                    largest = r
                r = after[r]
            if largest < 0 or multiplier[largest] <= 0.0:
                break
            less = min(missing, multiplier[largest])
            multiplier[largest] -= less
            reduced[x] += less
            i = rows_i[largest]
            reduced[i] -= less * shrink_of[i, x]
            missing -= less


@njit(nogil=True, cache=True, error_model="numpy")
def factor_all(
    low_z, high_z,
    k, cost, b, residual, rows_i, rows_j, count, slack, dual, factor, inverse, ground_h, sigma,
    ground, right, whole, v, tau, trouble,
):  # fmt: skip
    """Factor all blocks, form their parts of the coupling matrix, solve for the affine step."""
    n = k.shape[1]
    for z in range(low_z, high_z):
        numbers = np.zeros(4, np.int32)
        upper = np.full(1, UPPER, np.uint8)
        pull = np.empty(n)
        weighed = np.empty(n)
        for x in range(n):
            weighed[x] = k[z, x] * residual[z, x]
            pull[x] = k[z, x] * (cost[z, x] - b[x]) - weighed[x]
        ground[z], sigma[z], trouble[z] = factor_block(
            rows_i[z], rows_j[z], count[z], slack[z], dual[z], pull, factor[z], ground_h[z],
            numbers, upper,
        )  # fmt: skip
        if trouble[z] != 0:
            continue
        g = ground[z]
        part = inverse[z]
        for x in range(n):
            for y in range(n):
                part[x, y] = factor[z, x, y]
        _invert(part, numbers, upper)
        for x in range(n):
            here = 1.0 - ground_h[z, x]
            for y in range(x + 1):
                value = 0.0 if x == g or y == g else part[x, y]
                value += here * (1.0 - ground_h[z, y]) / sigma[z]
                part[x, y] = k[z, x] * k[z, y] * value
        whole[z] = complementarity_right(
            rows_i[z], rows_j[z], count[z], slack[z], dual[z], slack[z], dual[z], 0.0, False,
            weighed, right[z],
        )  # fmt: skip
        tau[z] = solve_block(
            factor[z], g, ground_h[z], sigma[z], right[z], whole[z], v[z], numbers, upper
        )


@njit(nogil=True, cache=True, error_model="numpy")
def coupling(low_x, high_x, inverse, matrix):
    """Add up the lower triangles of the blocks, always in the same order, for some rows."""
    for x in range(low_x, high_x):
        for y in range(x + 1):
            matrix[x, y] = 0.0
        for z in range(len(inverse)):
            for y in range(x + 1):
                matrix[x, y] += inverse[z, x, y]


@njit(nogil=True, cache=True, error_model="numpy")
def correct_all(
    low_z, high_z,
    k, residual, rows_i, rows_j, count, slack, dual, d_slack, d_dual, mu, factor, ground_h,
    sigma, ground, right, whole, v, tau,
):  # fmt: skip
    """Solve the blocks for a step towards slack * dual = mu, second-order term included."""
    for z in range(low_z, high_z):
        numbers = np.zeros(4, np.int32)
        upper = np.full(1, UPPER, np.uint8)
        weighed = k[z] * residual[z]
        whole[z] = complementarity_right(
            rows_i[z], rows_j[z], count[z], slack[z], dual[z], d_slack[z], d_dual[z], mu, True,
            weighed, right[z],
        )  # fmt: skip
        tau[z] = solve_block(
            factor[z], ground[z], ground_h[z], sigma[z], right[z], whole[z], v[z], numbers, upper
        )


@njit(nogil=True, cache=True, error_model="numpy")
def direct_all(
    low_z, high_z,
    k, db, rows_i, rows_j, count, slack, dual, d_slack, d_dual, mu, second, factor, ground_h,
    sigma, ground, right, whole, u, primal, other, pairs_i, pairs_j, shrink, active,
):  # fmt: skip
    """Finish the step once the coupling says db; note how far each block could go."""
    n = k.shape[1]
    for z in range(low_z, high_z):
        numbers = np.zeros(4, np.int32)
        upper = np.full(1, UPPER, np.uint8)
        total = whole[z]
        full = np.empty(n)
        for x in range(n):
            push = k[z, x] * db[x]
            full[x] = right[z, x] + push
            total += push
        v = u[z]
        tau = solve_block(
            factor[z], ground[z], ground_h[z], sigma[z], full, total, v, numbers, upper
        )
        primal[z], other[z] = row_steps(
            rows_i[z], rows_j[z], count[z], slack[z], dual[z], d_slack[z], d_dual[z], mu, second,
            v, tau,
        )  # fmt: skip
        for x in range(n):
            v[x] += tau
        if second:
            limit = pair_limit(k[z], v, pairs_i, pairs_j, shrink, active[z])
            primal[z] = max(primal[z], limit)


@njit(nogil=True, cache=True, error_model="numpy")
def complementarity(count, slack, dual, d_slack, d_dual, primal, other):
    """Return sum slack * dual after steps of these lengths, block by block."""
    totals = np.zeros(len(count))
    for z in range(len(count)):
        for r in range(count[z]):
            totals[z] += (slack[z, r] + primal * d_slack[z, r]) * (
                dual[z, r] + other * d_dual[z, r]
            )
    return totals


@njit(nogil=True, cache=True, error_model="numpy")
def advance_all(
    low_z, high_z,
    k, u, cost, primal, other, mu, near, pairs_i, pairs_j, shrink, active, rows_i, rows_j, count,
    slack, dual, d_slack, d_dual, residual, reduced, b, order, shrink_of,
):  # fmt: skip
    """Take the step, constrain the pairs that came near, work out reduced costs."""
    n = k.shape[1]
    for z in range(low_z, high_z):
        move_rows(
            rows_j[z], count[z], slack[z], dual[z], d_slack[z], d_dual[z], u[z], primal, other
        )
        for x in range(n):
            residual[z, x] *= 1.0 - other
            k[z, x] *= 1.0 + primal * u[z, x]
        count[z] = activate(
            k[z], pairs_i, pairs_j, shrink, active[z], near, mu, rows_i[z], rows_j[z],
            count[z], slack[z], dual[z], residual[z],
        )  # fmt: skip
        reduced_cost(cost[z], k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, reduced[z])
        clean(b, k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, order[z], reduced[z])
