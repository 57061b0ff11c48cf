r"""Maximise a mixture likelihood: L(p) = sum_z q(z) log (K'p)(z) over probabilities p.

This is the likelihood of reports with shares q under a mechanism K and a distribution p of the true
places. It is also, with other letters, the program of the Blahut-Arimoto algorithm. L is concave.
With g = K (q / K'p), the gradient, every p has

    L* - L(p) <= log(max_x g(x)) <= max_x g(x) - 1,

because L(p*) - L(p) = sum_z q log (K'p*/K'p) <= log sum_z q (K'p*/K'p) = log(p* . g). So a solve
ends with a certificate, whatever the method was.

Two methods: for a few thousand unknowns Newton's method inside the simplex (a primal-dual interior
point, about ten factors of an n x n matrix); otherwise expectation maximisation, p <- p g, with
steps by SQUAREM [1]_, which needs only products.

References
----------
.. [1] Varadhan, Roland: Simple and globally convergent methods for accelerating the convergence of
   any EM algorithm. Scandinavian Journal of Statistics 35, 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whereish.places import Array

GAP = 1e-6
NEWTON_UP_TO = 2_000  # unknowns: a factor takes a second
_NEWTON_STEPS = 100
_EM_STEPS = 20_000
_TO_BORDER = 0.995  # of the way to the border of the positive numbers, in a Newton step
_TINY = 1e-300


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """A distribution, and how far its likelihood is from the largest one.

    Attributes
    ----------
    weights
        p, with sum 1.
    gap
        max_x g(x) - 1, at least L* - L(p): of the mean log-likelihood of a report.
    gradient
        g. It is 1 where p > 0, and at most 1 elsewhere, up to the gap.
    steps
        Newton steps, or evaluations of the gradient.
    """

    weights: Array
    gap: float
    gradient: Array
    steps: int


def maximise(matrix: Array, shares: Array, gap: float = GAP, most: int | None = None) -> Mixture:
    """Maximise sum_z shares(z) log (matrix' p)(z); end at the gap, or after the most steps.

    Parameters
    ----------
    matrix
        (n, m), non-negative; every column with a positive share has a positive entry.
    shares
        (m,), non-negative with sum 1.
    """
    seen = shares > 0
    columns, q = np.ascontiguousarray(matrix[:, seen]), shares[seen]
    n = len(columns)
    start = np.full(n, 1 / n)
    if n <= NEWTON_UP_TO:
        found = newton(columns, q, gap, most or _NEWTON_STEPS)
        if found.gap <= gap or most is not None:
            return found
        start = found.weights

    def gradient(p: Array) -> Array:
        return np.asarray(columns @ (q / np.maximum(p @ columns, _TINY)))

    def likelihood(p: Array) -> float:
        return float(q @ np.log(np.maximum(p @ columns, _TINY)))

    return squarem(gradient, likelihood, start, gap, most or _EM_STEPS)


def squarem(
    gradient: Callable[[Array], Array],
    likelihood: Callable[[Array], float],
    start: Array,
    gap: float = GAP,
    most: int = _EM_STEPS,
) -> Mixture:
    """Run expectation maximisation, p <- p g(p), accelerated by SQUAREM, from a positive start.

    Two steps p, p1, p2 give a direction r = p1 - p and its change v = p2 - p1 - r. The long step
    p - 2 a r + a^2 v with a = -|r| / |v| is taken if the likelihood is no smaller than at p2.
    """
    p = start / start.sum()
    best: tuple[float, Array, Array] = (np.inf, p, p)
    steps = 0
    while steps < most:
        steps += 2
        g = gradient(p)
        best = min(best, (float(g.max()) - 1, p, g), key=lambda one: one[0])
        if best[0] <= gap:
            break
        first = p * g
        second = first * gradient(first)
        r = first - p
        v = second - first - r
        length = -float(np.linalg.norm(r)) / max(float(np.linalg.norm(v)), _TINY)
        p = second / second.sum()
        if length < -1:
            far = np.maximum(first - r - 2 * length * r + length**2 * v, 1e-3 * second)
            far /= far.sum()
            if likelihood(far) >= likelihood(p):
                p = far
    return Mixture(best[1], best[0], best[2], steps)


def newton(columns: Array, q: Array, gap: float, most: int) -> Mixture:
    """Solve p >= 0, s >= 0, s = 1 - g(p), p s = 0 by predictor and corrector steps.

    These are the conditions of the optimum; sum p = 1 follows from p . g = sum q = 1.
    """
    n = len(columns)
    p = np.full(n, 1 / n)
    best: tuple[float, Array, Array] = (np.inf, p, p)
    s = np.maximum(1 - columns @ (q / (p @ columns)), 0.0) + 0.1
    step = 0
    while step < most:
        step += 1
        here = p / p.sum()
        g = columns @ (q / (here @ columns))
        best = min(best, (float(g.max()) - 1, here, g), key=lambda one: one[0])
        if best[0] <= gap:
            break
        f = p @ columns
        g = columns @ (q / f)
        system = (columns * (q / f**2)) @ columns.T
        system[np.diag_indices(n)] += s / p
        try:
            predict, slope = _step(system, g, p, s, 0.0, 0.0)
            mean = float(p @ s) / n
            reach, drop = _length(p, predict), _length(s, slope)
            after = float((p + reach * predict) @ (s + drop * slope)) / n
            centre = (after / mean) ** 3 * mean
            dp, ds = _step(system, g, p, s, centre, predict * slope)
        except np.linalg.LinAlgError:
            break
        p = np.maximum(p + _length(p, dp) * dp, _TINY)
        s = np.maximum(s + _length(s, ds) * ds, _TINY)
        if not (np.isfinite(p).all() and np.isfinite(s).all()):
            break
    return Mixture(best[1], best[0], best[2], step)


def _step(
    system: Array, g: Array, p: Array, s: Array, centre: float, corrector: Array | float
) -> tuple[Array, Array]:
    dp: Array = np.linalg.solve(system, g - 1 + (centre - corrector) / p).astype(np.float64)
    return dp, (centre - corrector - p * s - s * dp) / p


def _length(x: Array, dx: Array) -> float:
    """Return the longest step, at most 1, that keeps all numbers positive."""
    return min(1.0, _TO_BORDER / max(float((-dx / x).max()), _TINY))
