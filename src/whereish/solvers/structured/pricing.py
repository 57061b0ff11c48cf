"""Pricing: prove that an output left out is useless, or find a column of it that would pay.

Let b be what each input pays now. An output is useless if some y >= 0 has A'y <= c - b = gain. A
multiplier y on the pair (i, j) takes y from the gain of j and gives q y to that of i, with
q = exp(-eps d(i, j)): gains that are positive must cover those that are negative, at a loss that
grows with distance. That is a transport problem, and nearly always easy: `prove_all` lets every
supply serve the places that bid most for it, and raises the bids of those still in need. What it
cannot settle goes to `price_all`, Newton's method on a single block, which gives the proof or the
column.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from whereish.solvers.structured.envelope import padded
from whereish.solvers.structured.kernels import (
    clean,
    factor_block,
    far_off,
    join,
    move_rows,
    reduced_cost,
    right_side,
    row_steps,
    settle,
    solve_block,
)

_ROUNDS = (30, 60, 120)  # up to which round bids count with powers 8, 16, 32
_SMALL = 1e-5


_SUMS = {"reassoc", "contract", "nsz"}  # may be made in any order, if always in the same


@njit(nogil=True, cache=True, error_model="numpy")
def _near(reach, supplies, needy):
    near = np.empty((len(supplies), len(needy)))
    for a in range(len(supplies)):
        for c in range(len(needy)):
            near[a, c] = reach[needy[c], supplies[a]]
    return near


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _serve(near, bids, squarings, weights):
    """Put into ``weights`` the share of each supply that each place in need gets."""
    needs = len(bids)
    for a in range(len(near)):
        row, here = weights[a], near[a]
        best = 0.0
        for c in range(needs):
            row[c] = bids[c] * here[c]
            best = max(best, row[c])
        scale = 1.0 / best if best > 0.0 else 0.0
        for c in range(needs):
            row[c] *= scale
        for _ in range(squarings):
            for c in range(needs):
                row[c] *= row[c]
        total = 0.0
        for c in range(needs):
            row[c] = row[c] if row[c] >= _SMALL else 0.0
            total += row[c]
        scale = 1.0 / max(total, 1.0)
        for c in range(needs):
            row[c] *= scale


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _receive(near, weights, supply, got):
    """Put into ``got`` what reaches each place in need."""
    got[:] = 0.0
    for a in range(len(near)):
        row, here, flow = weights[a], near[a], supply[a]
        for c in range(len(got)):
            got[c] += row[c] * here[c] * flow


@njit(nogil=True, cache=True, error_model="numpy")
def prove_all(low, high, gain, reach, tolerance, left, bids, rounds):
    """Try to cover the negative gains of each output with its positive ones.

    ``reach`` is exp(-eps d) along the pairs. What stays uncovered comes back in ``left``; the bids
    and the number of rounds say how, for `write_proof`.
    """
    for z in range(low, high):
        needy = np.flatnonzero(gain[z] < 0.0)
        supplies = np.flatnonzero(gain[z] > 0.0)
        need, supply = -gain[z][needy], gain[z][supplies]
        left[z] = need.sum()
        bids[z] = 1.0
        rounds[z] = 0
        if left[z] <= tolerance or len(supplies) == 0:
            continue
        near = _near(reach, supplies, needy)
        weights = np.empty_like(near)
        got = np.empty(len(needy))
        bid = np.ones(len(needy))
        for round_ in range(_ROUNDS[2]):
            squarings = 3 if round_ < _ROUNDS[0] else (4 if round_ < _ROUNDS[1] else 5)
            _serve(near, bid, squarings, weights)
            _receive(near, weights, supply, got)
            missing = 0.0
            for c in range(len(needy)):
                missing += max(0.0, need[c] - got[c])
            if missing < left[z]:
                left[z] = missing
                rounds[z] = round_ + 1
                for c in range(len(needy)):
                    bids[z, needy[c]] = bid[c]
            if missing <= tolerance:
                break
            power = 1.2 / 2.0**squarings
            for c in range(len(needy)):
                bid[c] *= (need[c] / max(got[c], 0.01 * need[c])) ** power


@njit(nogil=True, cache=True, error_model="numpy")
def write_proofs(which, gain, reach, before, shrink_of, bids, rounds, cost, low):
    """Return the multipliers that `prove_all` found for these outputs: numbers and rows i, j, y.

    ``before[j, i]`` is the last place but one on the shortest way from j to i, along pairs.
    ``low`` is lowered to cost - A'y where it is above.
    """
    n = gain.shape[1]
    multipliers, pull = np.empty((n, n)), np.empty(n)
    room = 4 * n * len(which)
    of, y = np.empty(room, np.int32), np.empty(room)
    rows_i, rows_j = np.empty(room, np.int32), np.empty(room, np.int32)
    count = 0
    for a in which:
        if count + n * n > room:
            room = 2 * room + n * n
            of, y = _longer(of, room), _longer(y, room)
            rows_i, rows_j = _longer(rows_i, room), _longer(rows_j, room)
        multipliers[:] = 0.0
        pull[:] = 0.0
        if rounds[a] > 0:
            _write(gain[a], reach, before, shrink_of, bids[a], rounds[a], multipliers)
        for i in range(n):
            for j in range(n):
                value = multipliers[i, j]
                if value != 0.0:
                    pull[j] += value
                    pull[i] -= value * shrink_of[i, j]
                    of[count], rows_i[count], rows_j[count], y[count] = a, i, j, value
                    count += 1
        for x in range(n):
            low[x] = min(low[x], cost[a, x] - pull[x])
    return of[:count], rows_i[:count], rows_j[:count], y[:count]


@njit(nogil=True, cache=True, error_model="numpy")
def _longer(array, room):
    longer = np.empty(room, array.dtype)
    longer[: len(array)] = array
    return longer


@njit(nogil=True, cache=True, error_model="numpy")
def _write(gain, reach, before, shrink_of, bids, rounds, multipliers):
    """Add the flows of `prove_all` to the multipliers of the pairs along their ways."""
    needy = np.flatnonzero(gain < 0.0)
    supplies = np.flatnonzero(gain > 0.0)
    weights = np.empty((len(supplies), len(needy)))
    squarings = 3 if rounds <= _ROUNDS[0] else (4 if rounds <= _ROUNDS[1] else 5)
    _serve(_near(reach, supplies, needy), bids[needy], squarings, weights)
    way = np.empty(len(gain), np.int64)
    for a in range(len(supplies)):
        j = supplies[a]
        for c in range(len(needy)):
            flow = weights[a, c] * gain[j] * (1.0 - 1e-14)  # or rounding would take too much
            if flow == 0.0:
                continue
            steps = 0
            at = needy[c]
            while at != j:
                way[steps] = at
                steps += 1
                at = before[j, at]
            for step in range(steps - 1, -1, -1):
                multipliers[way[step], at] += flow
                flow *= shrink_of[way[step], at]
                at = way[step]


@njit(nogil=True, cache=True, error_model="numpy")
def price_all(
    low, high,
    s, gain, weight, pairs, first, tolerance, floor, limit, multipliers, bound,
):  # fmt: skip
    """Look, for each output left out, for a column that would pay, or a proof that none does.

    Minimise gain'v over private columns v with weight'v = 1. ``bound`` is the proof: no column is
    below it. It stops when the bound is high enough, or the column in ``s.k`` clearly pays. With a
    ``floor`` it goes instead to the central point where slack * dual is that times the column's
    largest entry.
    """
    n = s.k.shape[1]
    shrink_of = pairs.shrink_of
    k, rows_i, rows_j, count = s.k, s.rows_i, s.rows_j, s.count
    slack, lacks, dual, reduced, order = s.slack, s.lack, s.dual, s.reduced, s.order
    for z in range(low, high):
        capacity = rows_i.shape[1]
        v = np.empty(n)
        w_v = np.empty(n)
        right = np.empty(n)
        pull = np.empty(n)
        push = np.empty(n)
        ground_h = np.empty(n)
        factor = np.empty((n, padded(n)))
        first_of, last_of = np.empty(n, np.int64), np.empty(n, np.int64)
        residual = np.zeros(n)
        d_slack, d_dual = np.zeros(capacity), np.zeros(capacity)
        per_slack, per_dual, want = np.empty(capacity), np.empty(capacity), np.empty(capacity)
        lack, active = lacks[z], s.active[z]
        aim = np.empty(n)
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
            i, j = pairs.left[e], pairs.right[e]
            active[e] = 1
            rows_i[z, r], rows_j[z, r] = i, j
            slack[z, r] = 1.0 - pairs.shrink[e] * k[z, i] / k[z, j]
            dual[z, r] = mu / slack[z, r]
        count[z] = len(first)
        reduced_cost(
            c, k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, reduced[z], multipliers[z]
        )
        t = 0.0
        for x in range(n):
            t += k[z, x] * reduced[z, x]
        for _ in range(limit):
            low_x = 1e300
            found = 0.0
            lacking = 0.0
            for x in range(n):
                found += c[x] * k[z, x]
                residual[x] = reduced[z, x] - t * weight[x]
                aim[x] = min(0.0, t) * weight[x]
            clean(
                aim, c, rows_i[z], rows_j[z], count[z], shrink_of, order[z], reduced[z],
                multipliers[z],
            )  # fmt: skip
            for x in range(n):
                low_x = min(low_x, reduced[z, x] / weight[x])
            bound[z] = low_x
            comp = 0.0
            for r in range(count[z]):
                comp += slack[z, r] * dual[z, r]
                lacking = max(lacking, lack[r] / slack[z, r])
            mu = comp / count[z]
            largest = 0.0
            for x in range(n):
                largest = max(largest, k[z, x])
            least = floor * largest
            if floor > 0.0:
                if lacking < 0.1 and mu < 1.5 * least:
                    break
            elif low_x >= -tolerance or (
                lacking < 0.1 and (found < 0.5 * low_x or comp < 1e-3 * tolerance)
            ):
                break
            off = 1.0
            for x in range(n):
                pull[x] = k[z, x] * (c[x] - t * weight[x] - residual[x])
                push[x] = k[z, x] * weight[x]
                off -= push[x]
            g, sigma, trouble = factor_block(
                rows_i[z], rows_j[z], count[z], slack[z], lack, dual[z], per_slack, per_dual, pull,
                factor, first_of, last_of, ground_h,
            )  # fmt: skip
            if trouble != 0:
                break
            w_tau = solve_block(factor, first_of, g, ground_h, sigma, push, 1.0 - off, w_v)
            curve = 0.0
            for x in range(n):
                curve += push[x] * (w_v[x] + w_tau)
            target, primal, other, dt, tau = 0.0, 0.0, 0.0, 0.0, 0.0
            for stage in range(2):
                for r in range(count[z]):
                    want[r] = target - slack[z, r] * dual[z, r]
                    if stage == 1:
                        want[r] -= d_slack[r] * d_dual[r]
                whole = right_side(
                    rows_i[z], rows_j[z], count[z], slack[z], lack, dual[z], per_slack, want, k[z],
                    residual, right,
                )  # fmt: skip
                tau = solve_block(factor, first_of, g, ground_h, sigma, right, whole, v)
                reach = off
                for x in range(n):
                    reach -= push[x] * (v[x] + tau)
                dt = reach / curve
                tau += dt * w_tau
                for x in range(n):
                    v[x] += dt * w_v[x]
                primal, other = row_steps(
                    rows_i[z], rows_j[z], count[z], slack[z], lack, dual[z], per_slack, per_dual,
                    want, v, tau, d_slack, d_dual,
                )  # fmt: skip
                if stage == 0:
                    primal = min(1.0, 1.0 / max(primal, 1e-300))
                    other = min(1.0, 1.0 / max(other, 1e-300))
                    after = 0.0
                    for r in range(count[z]):
                        after += (slack[z, r] + primal * d_slack[r]) * (
                            dual[z, r] + other * d_dual[r]
                        )
                    target = max(least, mu * max(after / comp, 1e-4) ** 3)
            for x in range(n):
                v[x] += tau
            primal = max(primal, far_off(k[z], v, active, pairs))
            primal = min(1.0, 0.95 / max(primal, 1e-300))
            other = min(1.0, 0.95 / max(other, 1e-300))
            move_rows(
                rows_j[z], count[z], slack[z], lack, dual[z], d_slack, d_dual, v, primal, other
            )
            t += other * dt
            for x in range(n):
                k[z, x] *= 1.0 + primal * v[x]
            settle(k[z], rows_i[z], rows_j[z], count[z], slack[z], lack, dual[z], shrink_of)
            count[z] = join(
                k[z], c, pairs, active, mu, rows_i[z], rows_j[z], count[z], slack[z], lack, dual[z]
            )
            reduced_cost(
                c, k[z], rows_i[z], rows_j[z], count[z], dual[z], shrink_of, reduced[z],
                multipliers[z],
            )  # fmt: skip
