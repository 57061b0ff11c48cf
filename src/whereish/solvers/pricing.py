"""Pricing: find a column for an output left out that would pay, or prove that there is none."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from whereish.solvers.kernels import (
    UPPER,
    activate,
    clean,
    complementarity_right,
    factor_block,
    move_rows,
    pair_limit,
    reduced_cost,
    row_steps,
    solve_block,
)


@njit(nogil=True, cache=True, error_model="numpy")
def price_all(
    low_z, high_z,
    gain, k, weight, pairs_i, pairs_j, shrink, first, near, tolerance, limit, rows_i, rows_j,
    count, slack, dual, reduced, bound, order, shrink_of,
):  # fmt: skip
    """Look, for each output left out, for a column that would pay, or a proof that none does.

    Minimise gain'v over private columns v with weight'v = 1. ``bound`` is the proof: no column is
    below it. It stops when the bound is high enough, or the column in ``k`` clearly pays.
    """
    n = k.shape[1]
    for z in range(low_z, high_z):
        numbers = np.zeros(4, np.int32)
        upper = np.full(1, UPPER, np.uint8)
        capacity = rows_i.shape[1]
        v = np.empty(n)
        w_v = np.empty(n)
        right = np.empty(n)
        pull = np.empty(n)
        weighed = np.empty(n)
        push = np.empty(n)
        ground_h = np.empty(n)
        factor = np.empty((n, n))
        residual = np.zeros(n)
        d_slack = np.empty(capacity)
        d_dual = np.empty(capacity)
        active = np.zeros(len(pairs_i), np.uint8)
        c = gain[z]
        total = 0.0
        for x in range(n):
            total += weight[x] * k[z, x]
        scale = 0.0
        for x in range(n):
            k[z, x] /= total
            scale = max(scale, abs(c[x]) / weight[x])
        mu = 0.1 * scale / n
        for r in range(len(first)):
            e = first[r]
            active[e] = 1
            rows_i[z, r], rows_j[z, r] = pairs_i[e], pairs_j[e]
            slack[z, r] = 1.0 - shrink[e] * k[z, pairs_i[e]] / k[z, pairs_j[e]]
            dual[z, r] = mu / slack[z, r]
        count[z] = len(first)
        reduced_cost(c, k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, reduced[z])
        t = 0.0
        for x in range(n):
            t += k[z, x] * reduced[z, x]
        nothing = np.zeros(n)
        for _ in range(limit):
            low = 1e300
            found = 0.0
            for x in range(n):
                found += c[x] * k[z, x]
                residual[x] = reduced[z, x] - t * weight[x]
            clean(
                nothing, k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, order[z],
                reduced[z],
            )  # fmt: skip
            for x in range(n):
                low = min(low, reduced[z, x] / weight[x])
            bound[z] = low
            if low >= -tolerance or (found < -10.0 * tolerance and found < 0.5 * low):
                break
            comp = 0.0
            for r in range(count[z]):
                comp += slack[z, r] * dual[z, r]
            mu = comp / count[z]
            off = 1.0
            for x in range(n):
                weighed[x] = k[z, x] * residual[x]
                pull[x] = k[z, x] * (c[x] - t * weight[x]) - weighed[x]
                push[x] = k[z, x] * weight[x]
                off -= push[x]
            g, sigma, trouble = factor_block(
                rows_i[z], rows_j[z], count[z], slack[z], dual[z], pull, factor, ground_h,
                numbers, upper,
            )  # fmt: skip
            if trouble != 0:
                break
            w_tau = solve_block(factor, g, ground_h, sigma, push, 1.0 - off, w_v, numbers, upper)
            curve = 0.0
            for x in range(n):
                curve += push[x] * (w_v[x] + w_tau)
            target = 0.0
            for stage in range(2):
                whole = complementarity_right(
                    rows_i[z], rows_j[z], count[z], slack[z], dual[z], d_slack, d_dual, target,
                    stage == 1, weighed, right,
                )  # fmt: skip
                tau = solve_block(factor, g, ground_h, sigma, right, whole, v, numbers, upper)
                reach = off
                for x in range(n):
                    reach -= push[x] * (v[x] + tau)
                dt = reach / curve
                tau += dt * w_tau
                for x in range(n):
                    v[x] += dt * w_v[x]
                primal, other = row_steps(
                    rows_i[z], rows_j[z], count[z], slack[z], dual[z], d_slack, d_dual, target,
                    stage == 1, v, tau,
                )  # fmt: skip
                if stage == 0:
                    primal = min(1.0, 1.0 / max(primal, 1e-300))
                    other = min(1.0, 1.0 / max(other, 1e-300))
                    after = 0.0
                    for r in range(count[z]):
                        after += (slack[z, r] + primal * d_slack[r]) * (
                            dual[z, r] + other * d_dual[r]
                        )
                    target = mu * max(after / comp, 1e-4) ** 3
            for x in range(n):
                v[x] += tau
            primal = max(primal, pair_limit(k[z], v, pairs_i, pairs_j, shrink, active))
            primal = min(1.0, 0.95 / max(primal, 1e-300))
            other = min(1.0, 0.95 / max(other, 1e-300))
            move_rows(rows_j[z], count[z], slack[z], dual[z], d_slack, d_dual, v, primal, other)
            t += other * dt
            for x in range(n):
                k[z, x] *= 1.0 + primal * v[x]
            count[z] = activate(
                k[z], pairs_i, pairs_j, shrink, active, near, mu, rows_i[z], rows_j[z],
                count[z], slack[z], dual[z], residual,
            )  # fmt: skip
            reduced_cost(c, k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, reduced[z])
