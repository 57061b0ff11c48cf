"""Compiled kernels of the structured solver, for one block: one output.

In a block the unknown is a column k > 0 over the inputs. Its privacy rows are k_j - q k_i >= 0,
q = exp(-eps d(i, j)). Everything is kept relative to the iterate, so that no number depends on
how large exp(eps d) is:

- ``slack`` + (what is missing) = 1 - q k_i / k_j. A row that joins when it is already violated, or
  nearly, is given a comfortable slack and ``lack`` = slack - (1 - q k_i / k_j) > 0, which shrinks
  with every step: the iterate is private once no row lacks anything;
- ``dual`` = y k_j for the row's multiplier y; centred means slack * dual = mu;
- a step is k (1 + step u). It changes 1 - q k_i / k_j by u_j - rho u_i, rho = q k_i / k_j.

The block matrix H = sum over rows of dual / slack (e_j - rho e_i)(e_j - rho e_i)' is nearly
singular along u = 1, the scaling of the whole column. That direction is split off exactly: with
one place g grounded, G = H without g, h = H 1 without g,

    H^-1 t = [G^-1 t] + w (w't) / sigma,   w = 1 - [G^-1 h],   sigma = w'H w.

u is kept in two parts, u = tau + v, because tau may be many orders larger than v: then
u_j - rho u_i = tau (1 - rho) + (v_j - rho v_i), with nothing cancelled.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

import whereish.solvers.structured.compiling  # noqa: F401  its clock runs from here on
from whereish.solvers.structured.envelope import cholesky, find_last, solve_factored

_RIDGE = 1e-13
NEAR = 0.2  # a pair joins below this share of the slack it could have
_FAR_OFF = 2.0
_HAIR = 4e-15
_FRESH = 1e-5
_GROWTH = 10.0
_PASSES = 4
_SHARE = 0.3  # of what an input pays: a joining row's multiplier is not larger
_ROOM = 0.5  # and is given at least this share of that


class Pairs(NamedTuple):
    """What all blocks share: row e says k_j >= shrink k_i for i, j = left[e], right[e]."""

    left: Any
    right: Any
    shrink: Any
    near: Any  # a pair joins where shrink k_i > near k_j
    shrink_of: Any  # (n, n), the same by places


class Blocks(NamedTuple):
    """The state of m blocks over n inputs, with room for some number of rows each.

    What changes with the iterate: ``k`` (m, n), the rows in use and how many (``rows_i``,
    ``rows_j``, ``count``, and which pairs those are: ``active``), their ``slack``, ``lack`` and
    ``dual``, the ``residual`` c - b - A'y, and ``reduced``, which is c - A'y for a cleaned y. The
    rest is scratch.
    """

    cost: Any
    k: Any
    residual: Any
    reduced: Any
    order: Any  # inputs from the farthest from the output to the nearest
    active: Any
    count: Any
    rows_i: Any
    rows_j: Any
    slack: Any
    lack: Any
    dual: Any
    per_slack: Any  # 1 / slack, 1 / dual
    per_dual: Any
    want: Any  # what slack * dual should change by, to first order
    d_slack: Any
    d_dual: Any
    try_slack: Any
    try_dual: Any
    factor: Any  # the factor of G, see `whereish.solvers.structured.envelope`
    first: Any
    last: Any
    ground: Any
    ground_h: Any  # G^-1 h
    sigma: Any
    right: Any
    whole: Any  # the sum of right, added up without cancelling
    v: Any
    tau: Any
    primal: Any  # 1 / the longest step
    other: Any
    trouble: Any
    stop: Any  # set to 1 from outside to be left alone


@njit(nogil=True, cache=True, error_model="numpy")
def factor_block(
    rows_i, rows_j, count, slack, lack, dual, per_slack, per_dual, pull, factor, first, last,
    ground_h,
):  # fmt: skip
    """Factor G in place of ``factor``; put G^-1 h into ``ground_h``; return g, sigma, trouble.

    The reciprocals of slacks and duals are noted for later: divisions are slow. ``pull`` is
    k (A'y), given from outside because summing it here would cancel.
    """
    n = len(pull)
    factor[:] = 0.0
    for x in range(n):
        ground_h[x] = pull[x]
        first[x] = x
    for r in range(count):
        per_slack[r], per_dual[r] = 1.0 / slack[r], 1.0 / dual[r]
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        rho = 1.0 - slack[r] + lack[r]
        weight = dual[r] * per_slack[r]
        factor[j, j] += weight
        factor[i, i] += weight * rho * rho
        low, high = min(i, j), max(i, j)
        factor[low, high] -= weight * rho
        first[high] = min(first[high], low)
        if lack[r] != 0.0:
            ground_h[j] -= weight * lack[r]
            ground_h[i] += weight * lack[r] * rho
    g = 0
    for x in range(n):
        if factor[x, x] > factor[g, g]:
            g = x
    for x in range(n):
        factor[g, x] = 0.0
        factor[x, g] = 0.0
        factor[x, x] *= 1.0 + _RIDGE
    factor[g, g] = 1.0
    first[g] = g
    find_last(first, last)
    trouble = cholesky(factor, first)
    ground_h[g] = 0.0
    solve_factored(factor, first, ground_h)
    # sigma = w'Hw, as a sum of squares: w minimises it, so an error in w hardly shows.
    sigma = 0.0
    for r in range(count):
        rho = 1.0 - slack[r] + lack[r]
        along = slack[r] - lack[r] - (ground_h[rows_j[r]] - rho * ground_h[rows_i[r]])
        sigma += dual[r] * per_slack[r] * along * along
    return g, sigma, trouble


@njit(nogil=True, cache=True, error_model="numpy")
def solve_block(factor, first, g, ground_h, sigma, right, whole, v):
    """Put the v of H^-1 right into ``v`` and return its tau; ``whole`` is the sum of right."""
    n = len(right)
    dot = 0.0
    for x in range(n):
        v[x] = right[x]
        dot += ground_h[x] * right[x]
    v[g] = 0.0
    solve_factored(factor, first, v)
    tau = (whole - dot) / sigma
    for x in range(n):
        v[x] -= tau * ground_h[x]
    return tau


@njit(nogil=True, cache=True, error_model="numpy")
def right_side(rows_i, rows_j, count, slack, lack, dual, per_slack, want, k, residual, right):
    """Put A'((want + dual lack) / slack) - k rd into ``right``; return its sum, not cancelled."""
    whole = 0.0
    for x in range(len(right)):
        right[x] = -k[x] * residual[x]
        whole += right[x]
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        share = (want[r] + dual[r] * lack[r]) * per_slack[r]
        right[j] += share
        right[i] -= share * (1.0 - slack[r] + lack[r])
        whole += share * (slack[r] - lack[r])
    return whole


@njit(nogil=True, cache=True, error_model="numpy")
def row_steps(
    rows_i, rows_j, count, slack, lack, dual, per_slack, per_dual, want, v, tau, d_slack, d_dual
):  # fmt: skip
    """Fill in how slacks and duals change; return 1 / the longest primal and dual step."""
    primal = 0.0
    other = 0.0
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        rho = 1.0 - slack[r] + lack[r]
        change = tau * (slack[r] - lack[r]) + (v[j] - rho * v[i]) - lack[r]
        d_slack[r] = change
        d_dual[r] = (want[r] - dual[r] * change) * per_slack[r]
        primal = max(primal, -change * per_slack[r])
        other = max(other, -d_dual[r] * per_dual[r])
    for x in range(len(v)):
        primal = max(primal, -(v[x] + tau))
    return primal, other


@njit(nogil=True, cache=True, error_model="numpy")
def move_rows(rows_j, count, slack, lack, dual, d_slack, d_dual, u, primal, other):
    """Take a step in slacks and duals, which stay relative to the column that moves with them."""
    for r in range(count):
        growth = 1.0 + primal * u[rows_j[r]]
        dual[r] = (dual[r] + other * d_dual[r]) * growth
        slack[r] = (slack[r] + primal * d_slack[r]) / growth
        lack[r] *= (1.0 - primal) / growth


@njit(nogil=True, cache=True, error_model="numpy")
def settle(k, rows_i, rows_j, count, slack, lack, dual, shrink_of):
    """Let rows that are private now, and not only just, stop pretending to have more slack.

    Slacks that are not tiny are worked out afresh: carried along they would drift.
    """
    for r in range(count):
        if lack[r] != 0.0:
            have = slack[r] - lack[r]
            if have > 0.2 * slack[r]:
                dual[r] *= slack[r] / have
                slack[r] = have
                lack[r] = 0.0
        elif slack[r] > _FRESH:
            slack[r] = 1.0 - shrink_of[rows_i[r], rows_j[r]] * k[rows_i[r]] / k[rows_j[r]]


@njit(nogil=True, cache=True, error_model="numpy")
def join(k, price, pairs, active, mu, rows_i, rows_j, count, slack, lack, dual):
    """Constrain the pairs that have come near their limit or past it; return the number of rows.

    They join at the centre, unless their multiplier would be large against what the input pays:
    far from the output, where k is tiny, that would spoil the bound for many steps.
    """
    for e in range(len(pairs.left)):
        if active[e] == 0 and count < len(rows_i):
            i, j = pairs.left[e], pairs.right[e]
            if pairs.shrink[e] * k[i] > pairs.near[e] * k[j]:
                left = 1.0 - pairs.shrink[e] * k[i] / k[j]
                active[e] = 1
                rows_i[count], rows_j[count] = i, j
                slack[count] = max(left, _ROOM * (1.0 - pairs.near[e]))
                lack[count] = slack[count] - left
                dual[count] = max(min(mu, slack[count] * _SHARE * abs(price[j]) * k[j]), 1e-6 * mu)
                dual[count] /= slack[count]
                count += 1
    return count


@njit(nogil=True, cache=True, error_model="numpy")
def reduced_cost(cost, k, rows_i, rows_j, count, dual, shrink_of, reduced, multiplier):
    """Put c - A'y into ``reduced``, from the multipliers y and true coefficients.

    The slacks are not used: they are carried along and drift, and a bound must not drift with them.
    """
    for x in range(len(k)):
        reduced[x] = cost[x]
    for r in range(count):
        i, j = rows_i[r], rows_j[r]
        y = dual[r] / k[j]
        multiplier[r] = y
        reduced[j] -= y
        reduced[i] += y * shrink_of[i, j]


@njit(nogil=True, cache=True, error_model="numpy")
def clean(aim, cost, rows_i, rows_j, count, shrink_of, order, reduced, multiplier):
    """Lift reduced costs that are below their aim: by less y, and never a negative one.

    Far from the output k is tiny, and a scaled multiplier's rounding is large against c. There a
    multiplier into x is lowered by what is missing; its other end i then misses q times as much,
    q = exp(-eps d), and so on towards the output, where nothing is left. ``reduced`` and
    ``multiplier`` are those of `reduced_cost`, and stay true to each other.
    """
    n = len(cost)
    short = False
    for x in range(n):
        short |= reduced[x] < aim[x] + _HAIR * abs(cost[x])
    if not short:
        return
    head = np.full(n, -1, np.int64)
    after = np.empty(count, np.int64)
    for r in range(count):
        j = rows_j[r]
        after[r] = head[j]
        head[j] = r
    for _ in range(_PASSES):
        lifted = False
        for x in order:
            # A little more than needed, for whoever adds the same numbers up in another order.
            missing = aim[x] + _HAIR * abs(cost[x]) - reduced[x]
            if missing <= 0.0:
                continue
            # First from those that have more than they need, then from the largest.
            r = head[x]
            while r >= 0 and missing > 0.0:
                i = rows_i[r]
                spare = (reduced[i] - aim[i]) / shrink_of[i, x]
                less = min(missing, multiplier[r], spare)
                if less > 0.0:
                    lifted = True
                    multiplier[r] -= less
                    reduced[x] += less
                    reduced[i] -= less * shrink_of[i, x]
                    missing -= less
                r = after[r]
            while missing > 0.0:
                largest = -1
                r = head[x]
                while r >= 0:
                    if largest < 0 or multiplier[r] > multiplier[largest]:
                        largest = r
                    r = after[r]
                if largest < 0 or multiplier[largest] <= 0.0:
                    break
                lifted = True
                less = min(missing, multiplier[largest])
                multiplier[largest] -= less
                reduced[x] += less
                i = rows_i[largest]
                reduced[i] -= less * shrink_of[i, x]
                missing -= less
        if not lifted:
            break
        # What was huge and is small now has lost its digits: work it out afresh.
        for x in range(n):
            reduced[x] = cost[x]
        for r in range(count):
            i, j = rows_i[r], rows_j[r]
            reduced[j] -= multiplier[r]
            reduced[i] += multiplier[r] * shrink_of[i, j]


@njit(nogil=True, cache=True, error_model="numpy")
def far_off(k, u, active, pairs):
    """Return 1 / the longest step before a pair not constrained yet is violated far too much."""
    limit = 0.0
    for e in range(len(pairs.left)):
        if active[e] == 0:
            i, j = pairs.left[e], pairs.right[e]
            least = pairs.shrink[e] / _FAR_OFF * k[i]
            lose = least * u[i] - k[j] * u[j]
            if lose > limit * (k[j] - least):
                limit = lose / (k[j] - least)
    for x in range(len(u)):
        limit = max(limit, u[x] / _GROWTH)
    return limit
