"""Compiled passes of the structured solver over all blocks, and a whole step for small programs.

They hold no lock, and work on a range of blocks, so that threads can share the blocks out. What
is added up over blocks is added up part by part, and the parts in an order that depends on nothing
else: not on the number of threads, nor of machines (see `communicator`). ``bounds`` says
where a part begins: part p has the blocks bounds[p] to bounds[p + 1].
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from whereish.solvers.structured.envelope import (
    WIDTH,
    add_inverse,
    cholesky,
    padded,
    solve_factored,
)
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

_SUMS = {"reassoc", "contract", "nsz"}  # may be made in any order, if always in the same


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _product(rows, one, other):
    total = 0.0
    for r in range(rows):
        total += one[r] * other[r]
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def factor_all(low, high, bounds, s, b, matrix, products):
    """Factor the blocks of the parts below a node of the tree, and solve for the affine step.

    What they add to the coupling matrix goes into the matrix, and slack * dual to the first of the
    products.
    """
    n, parts, layers = len(b), high - low, 1
    while 1 << (layers - 1) < parts:
        layers += 1
    sums = np.empty((layers, n, n))
    layer = 0
    for part in range(low, high):
        sums[layer] = 0.0
        _factor(bounds[part], bounds[part + 1], s, b, sums[layer], products)
        done = part - low + 1
        while done % 2 == 0:
            layer -= 1
            sums[layer] += sums[layer + 1]
            done //= 2
        layer += 1
    matrix[:] = sums[0]


@njit(nogil=True, cache=True, error_model="numpy")
def _factor(low, high, s, b, part, products):
    n = s.k.shape[1]
    strip = np.empty((n, WIDTH))
    pull = np.empty(n)
    for z in range(low, high):
        if s.stop[0] != 0:
            break
        count = s.count[z]
        k, ground_h, slack, dual, want = s.k[z], s.ground_h[z], s.slack[z], s.dual[z], s.want[z]
        for x in range(n):
            pull[x] = k[x] * (s.cost[z, x] - b[x] - s.residual[z, x])
        g, sigma, trouble = factor_block(
            s.rows_i[z], s.rows_j[z], count, slack, s.lack[z], dual, s.per_slack[z], s.per_dual[z],
            pull, s.factor[z], s.first[z], s.last[z], ground_h,
        )  # fmt: skip
        s.ground[z], s.sigma[z], s.trouble[z] = g, sigma, trouble
        if trouble != 0:
            continue
        add_inverse(s.factor[z], s.first[z], s.last[z], g, k, part, strip)
        for x in range(n):
            here = k[x] * (1.0 - ground_h[x]) / sigma
            for y in range(x + 1):
                part[x, y] += here * k[y] * (1.0 - ground_h[y])
        for r in range(count):
            want[r] = -slack[r] * dual[r]
        products[z, 0] = _product(count, slack, dual)
        s.whole[z] = right_side(
            s.rows_i[z], s.rows_j[z], count, slack, s.lack[z], dual, s.per_slack[z], want, k,
            s.residual[z], s.right[z],
        )  # fmt: skip
        s.tau[z] = solve_block(
            s.factor[z], s.first[z], g, ground_h, sigma, s.right[z], s.whole[z], s.v[z]
        )


@njit(nogil=True, cache=True, error_model="numpy")
def correct_all(low, high, s, d_slack_of, d_dual_of, mu, primal, other):
    """Solve blocks for a step towards slack * dual = mu.

    With step lengths 0 this is Mehrotra's corrector: the affine step's second-order term is
    compensated. Otherwise Gondzio's: rows that a step of these lengths would leave far off the
    centre are pulled back towards it.
    """
    for z in range(low, high):
        count = s.count[z]
        slack, dual, want = s.slack[z], s.dual[z], s.want[z]
        d_slack, d_dual = d_slack_of[z], d_dual_of[z]
        if primal == 0.0:
            for r in range(count):
                want[r] = mu - slack[r] * dual[r] - d_slack[r] * d_dual[r]
        else:
            for r in range(count):
                product = (slack[r] + primal * d_slack[r]) * (dual[r] + other * d_dual[r])
                if product < 0.3 * mu:
                    want[r] += 0.3 * mu - product
                elif product > 3.0 * mu:
                    want[r] += max(3.0 * mu - product, -3.0 * mu)
        s.whole[z] = right_side(
            s.rows_i[z], s.rows_j[z], count, slack, s.lack[z], dual, s.per_slack[z], want, s.k[z],
            s.residual[z], s.right[z],
        )  # fmt: skip
        s.tau[z] = solve_block(
            s.factor[z], s.first[z], s.ground[z], s.ground_h[z], s.sigma[z], s.right[z], s.whole[z],
            s.v[z],
        )  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy")
def direct_all(low, high, s, db, d_slack, d_dual, u):
    """Finish the step once the coupling says db; note how far each block could go."""
    n = s.k.shape[1]
    full = np.empty(n)
    for z in range(low, high):
        total = s.whole[z]
        for x in range(n):
            push = s.k[z, x] * db[x]
            full[x] = s.right[z, x] + push
            total += push
        v = u[z]
        tau = solve_block(
            s.factor[z], s.first[z], s.ground[z], s.ground_h[z], s.sigma[z], full, total, v
        )
        s.primal[z], s.other[z] = row_steps(
            s.rows_i[z], s.rows_j[z], s.count[z], s.slack[z], s.lack[z], s.dual[z], s.per_slack[z],
            s.per_dual[z], s.want[z], v, tau, d_slack[z], d_dual[z],
        )  # fmt: skip
        for x in range(n):
            v[x] += tau


@njit(nogil=True, cache=True, error_model="numpy")
def products_all(low, high, s, d_slack, d_dual, products):
    """Work out the products that `after` needs, besides slack * dual."""
    for z in range(low, high):
        rows = s.count[z]
        products[z, 1] = _product(rows, d_slack[z], s.dual[z])
        products[z, 2] = _product(rows, s.slack[z], d_dual[z])
        products[z, 3] = _product(rows, d_slack[z], d_dual[z])


@njit(nogil=True, cache=True, error_model="numpy")
def limit_all(low, high, s, pairs, u):
    """Note how far each block could go before a pair not constrained yet is violated too much."""
    for z in range(low, high):
        s.primal[z] = far_off(s.k[z], u[z], s.active[z], pairs)


@njit(nogil=True, cache=True, error_model="numpy")
def factor_coupling(matrix):
    """Factor the coupling matrix, of which there is the lower triangle; return 0 if it could be."""
    n = len(matrix)
    root = np.zeros((n, padded(n)))
    for x in range(n):
        for y in range(x + 1):
            root[y, x] = matrix[x, y]
    return root, cholesky(root, np.zeros(n, np.int64))


@njit(nogil=True, cache=True, error_model="numpy")
def pushed(bounds, s):
    """Return, for each part, what its columns would add up to after the step."""
    n = s.k.shape[1]
    total = np.zeros((len(bounds) - 1, n))
    for part in range(len(bounds) - 1):
        for z in range(bounds[part], bounds[part + 1]):
            for x in range(n):
                total[part, x] += s.k[z, x] * (1.0 + s.v[z, x] + s.tau[z])
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def by_part(bounds, values):
    """Return the sum of some (m, q) values of blocks over each part."""
    total = np.zeros((len(bounds) - 1, values.shape[1]))
    for part in range(len(bounds) - 1):
        for z in range(bounds[part], bounds[part + 1]):
            total[part] += values[z]
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def told(bounds, s):
    """Return the least reduced costs, each part's loss and totals, the largest entries, the rows.

    A part's totals are what its columns add up to; the largest entries are those of each column.
    """
    m, n = s.k.shape
    parts = len(bounds) - 1
    reduced, loss, largest = np.full(n, np.inf), np.zeros((parts, 1)), np.zeros(m)
    totals = np.zeros((parts, n))
    most, rows = 0, 0
    for part in range(len(bounds) - 1):
        for z in range(bounds[part], bounds[part + 1]):
            most, rows = max(most, s.count[z]), rows + s.count[z]
            for x in range(n):
                loss[part, 0] += s.cost[z, x] * s.k[z, x]
                totals[part, x] += s.k[z, x]
                largest[z] = max(largest[z], s.k[z, x])
                reduced[x] = min(reduced[x], s.reduced[z, x])
    return reduced, loss, totals, largest, most, rows


@njit(nogil=True, cache=True, error_model="numpy")
def couple(root, push):
    """Return the change of b that makes every input's probabilities add up to 1."""
    right = 1.0 - push
    solve_factored(root, np.zeros(len(root), np.int64), right)
    return right


@njit(nogil=True, cache=True, error_model="numpy")
def after(products, primal, other):
    """Return sum slack * dual after steps of these lengths, from sums of products.

    Those are slack * dual, (change of slack) * dual, slack * (change of dual), and both changes.
    """
    whole, there, here, both = products
    return whole + primal * there + other * here + primal * other * both


@njit(nogil=True, cache=True, error_model="numpy")
def advance_all(low, high, s, pairs, d_slack, d_dual, u, primal, other, mu, b):
    """Take the step, constrain the pairs that came near, work out reduced costs."""
    n = s.k.shape[1]
    multiplier = np.empty(s.rows_i.shape[1])
    for z in range(low, high):
        k, i, j, dual, before = s.k[z], s.rows_i[z], s.rows_j[z], s.dual[z], s.count[z]
        move_rows(
            j, before, s.slack[z], s.lack[z], dual, d_slack[z], d_dual[z], u[z], primal, other
        )
        for x in range(n):
            k[x] *= 1.0 + primal * u[z, x]
        settle(k, i, j, before, s.slack[z], s.lack[z], dual, pairs.shrink_of)
        count = join(k, b, pairs, s.active[z], mu, i, j, before, s.slack[z], s.lack[z], dual)
        s.count[z] = count
        reduced, shrink_of = s.reduced[z], pairs.shrink_of
        reduced_cost(s.cost[z], k, i, j, count, dual, shrink_of, reduced, multiplier)
        for x in range(n):
            s.residual[z, x] = reduced[x] - b[x]
        clean(b, s.cost[z], i, j, count, shrink_of, s.order[z], reduced, multiplier)


@njit(nogil=True, cache=True, error_model="numpy")
def clean_all(low, high, s, pairs, b, reduced, multiplier):
    """Work out multipliers and reduced costs afresh, and clean them."""
    shrink_of = pairs.shrink_of
    for z in range(low, high):
        i, j, count, y = s.rows_i[z], s.rows_j[z], s.count[z], multiplier[z]
        reduced_cost(s.cost[z], s.k[z], i, j, count, s.dual[z], shrink_of, reduced[z], y)
        clean(b, s.cost[z], i, j, count, shrink_of, s.order[z], reduced[z], y)


@njit(nogil=True, cache=True, error_model="numpy")
def merge(into, more, s, pairs):
    """Add a column to that of a block. The multipliers y stay."""
    k = s.k[into]
    for r in range(s.count[into]):
        i, j = s.rows_i[into, r], s.rows_j[into, r]
        share = k[j] / (k[j] + more[j])
        gained = (1.0 - pairs.shrink_of[i, j] * more[i] / more[j]) * (1.0 - share)
        s.slack[into, r] = s.slack[into, r] * share + max(gained, 0.0)
        s.lack[into, r] = s.lack[into, r] * share + max(-gained, 0.0)
        s.dual[into, r] /= share
    for x in range(len(k)):
        k[x] += more[x]


@njit(nogil=True, cache=True, error_model="numpy")
def shortfall(k, interior, pairs):
    """Return the least share of the interior columns that makes the columns private.

    Both k and interior are (m, n). (1 - t) k + t interior obeys a pair if
    (1 - t) (k_j - q k_i) + t (interior_j - q interior_i) >= 0.
    """
    share = 0.0
    for z in range(len(k)):
        for e in range(len(pairs.left)):
            i, j, q = pairs.left[e], pairs.right[e], pairs.shrink[e]
            here = k[z, j] - q * k[z, i]
            if here < 0.0:
                there = interior[z, j] - q * interior[z, i]
                share = max(share, here / (here - there))
    return share


@njit(nogil=True, cache=True, error_model="numpy")
def longest(inverse, share):
    """Return the step that goes this share of the way to the nearest limit, 1 at most."""
    return min(1.0, share / max(inverse, 1e-300))


@njit(nogil=True, cache=True, error_model="numpy")
def further_than(length):
    """Return the step that a corrector is to make possible."""
    return min(1.0, 1.1 * length + 0.3)


@njit(nogil=True, cache=True, error_model="numpy")
def target(products, primal, other, rows):
    """Return the slack * dual to aim for: the smaller, the more the affine step would achieve."""
    return products[0] / rows * max(after(products, primal, other) / products[0], 1e-4) ** 3


@njit(nogil=True, cache=True, error_model="numpy")
def step_alone(s, pairs, b, mu, share, correctors, long):
    """Take one whole step without leaving compiled code: for programs too small to share out.

    It does what `step.Iterate.step` does with a single part, number for number.
    Return whether it could, the new b, the new mu, and how the blocks are now.
    """
    m, n = s.k.shape
    bounds = np.array([0, m])
    matrix, products = np.empty((n, n)), np.zeros((m, 4))
    factor_all(0, 1, bounds, s, b, matrix, products)
    if s.stop[0] != 0 or s.trouble.any():
        return False, b, mu, told(bounds, s)
    root, trouble = factor_coupling(matrix)
    if trouble != 0:
        return False, b, mu, told(bounds, s)
    d_slack, d_dual, try_slack, try_dual = s.d_slack, s.d_dual, s.try_slack, s.try_dual
    u, try_u = np.empty((m, n)), np.empty((m, n))
    rows = s.count.sum()
    direct_all(0, m, s, couple(root, pushed(bounds, s)[0]), d_slack, d_dual, u)
    products_all(0, m, s, d_slack, d_dual, products)
    sums = by_part(bounds, products)[0]
    primal, other = longest(s.primal.max(), 1.0), longest(s.other.max(), 1.0)
    aim = target(sums, primal, other, rows)
    correct_all(0, m, s, d_slack, d_dual, aim, 0.0, 0.0)
    db = couple(root, pushed(bounds, s)[0])
    direct_all(0, m, s, db, d_slack, d_dual, u)
    primal, other = longest(s.primal.max(), share), longest(s.other.max(), share)
    for _ in range(correctors):
        if primal + other > long:
            break
        further, beyond = further_than(primal), further_than(other)
        correct_all(0, m, s, d_slack, d_dual, aim, further, beyond)
        try_db = couple(root, pushed(bounds, s)[0])
        direct_all(0, m, s, try_db, try_slack, try_dual, try_u)
        try_primal = longest(s.primal.max(), share)
        try_other = longest(s.other.max(), share)
        if not try_primal + try_other > primal + other + 0.02:
            break
        db, primal, other = try_db, try_primal, try_other
        u, try_u = try_u, u
        d_slack, try_slack = try_slack, d_slack
        d_dual, try_dual = try_dual, d_dual
    limit_all(0, m, s, pairs, u)
    products_all(0, m, s, d_slack, d_dual, products)
    sums = by_part(bounds, products)[0]
    primal = min(primal, longest(s.primal.max(), share))
    if not (np.isfinite(primal + other) and np.isfinite(db).all() and np.isfinite(u).all()):
        return False, b, mu, told(bounds, s)
    b = b + other * db
    mu = after(sums, primal, other) / rows
    advance_all(0, m, s, pairs, d_slack, d_dual, u, primal, other, mu, b)
    return True, b, mu, told(bounds, s)
