"""The two linear programs of the paper: least quality loss, and most privacy.

References
----------
.. [1] Bordenabe, Chatzikokolakis, Palamidessi: Optimal geo-indistinguishable mechanisms for
   location privacy. CCS 2014, Section 3.
.. [2] Shokri, Theodorakopoulos, Troncoso, Hubaux, Le Boudec: Protecting location privacy: optimal
   strategy against localization attacks. CCS 2012.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.programs.linear import LinearProgram

# For a large eps d, exp(eps d) has too many digits for an LP solver: it drops coefficients below
# 1e-9 as zero, and with them the privacy of that pair. A limit of exp(40) on the ratio is stricter,
# changes a probability by less than 1e-17, and can be represented.
LARGEST_EXPONENT = 40.0


@dataclass(frozen=True)
class Size:
    """The size of a program, known before it is built or solved."""

    variables: int
    constraints: int


def least_loss_size(inputs: int, outputs: int, edges: int) -> Size:
    """Return the size of `least_loss`: two rows per edge and output, one per input.

    >>> least_loss_size(50, 50, 872)  # the paper's delta = 1 (Section 4.3)
    Size(variables=2500, constraints=87250)
    """
    return Size(inputs * outputs, 2 * edges * outputs + inputs)


def least_loss(
    prior: Array, loss: Array, edges: NDArray[np.int64], exponents: Array
) -> LinearProgram:
    """Return the program whose optimum is the private mechanism with the least quality loss.

    Sections 3.1 and 3.2 of the paper [1]_: minimise the sum of prior(x) loss(x, z) k(x, z) over
    stochastic matrices k with k(x, z) <= exp(exponent) k(x', z) for every z, and for both
    directions of every edge (x, x').

    Each privacy row is divided by exp(exponent / 2), so that its two coefficients are
    exp(+-exponent / 2): neither overflows, and neither is dropped as zero.

    Parameters
    ----------
    prior, loss
        (n,) and (n, m).
    edges, exponents
        (e, 2) pairs x, x' and (e,) values of eps d(x, x') (or eps d / delta on a spanner).

    Returns
    -------
    LinearProgram
        Variable z * n + x is k(x, z). Rows: for each z the edges in one direction, then in the
        other; last the n row sums of k.
    """
    from scipy.sparse import block_diag, coo_array, eye_array, hstack, vstack

    n, m = loss.shape
    half = _half(exponents)
    one, other = edges[:, 0], edges[:, 1]
    greater, smaller = np.r_[other, one], np.r_[one, other]
    rows = np.arange(len(greater))
    privacy = coo_array(
        (
            np.r_[half, half, -1 / half, -1 / half],
            (np.r_[rows, rows], np.r_[greater, smaller]),
        ),
        shape=(len(rows), n),
    ).tocsr()
    per_output = block_diag([privacy] * m, format="csr")
    sums = hstack([eye_array(n, format="csr")] * m, format="csr")
    size = least_loss_size(n, m, len(edges))
    equal = np.arange(size.constraints) >= size.constraints - n
    return LinearProgram(
        cost=(prior[:, None] * loss).T.ravel(),
        matrix=vstack([per_output, sums], format="csr"),
        right=equal.astype(np.float64),
        equal=equal,
        free=np.zeros(size.variables, dtype=bool),
    )


def privacy_multipliers(
    multipliers: Array, m: int, edges: NDArray[np.int64], exponents: Array
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Array]:
    """Return the positive multipliers of the privacy rows of `least_loss`, row by row.

    As multipliers of k(right, z) >= exp(-exponent) k(left, z), which is the row of the program
    without its scale.

    Parameters
    ----------
    multipliers
        Of all rows of the program. A solver may return some that are slightly negative.
    m
        Number of outputs.

    Returns
    -------
    tuple of arrays
        Output z, left place, right place, multiplier.
    """
    y = multipliers[: 2 * len(edges) * m].reshape(m, 2, len(edges)) * _half(exponents)
    output, direction, edge = np.nonzero(y > 0)
    left, right = edges[edge, direction], edges[edge, 1 - direction]
    one, two, three = (part.astype(np.int32) for part in (output, left, right))
    return one, two, three, y[output, direction, edge]


def _half(exponents: Array) -> Array:
    """Return exp(exponent / 2), by which each privacy row is divided."""
    return np.exp(np.minimum(exponents, LARGEST_EXPONENT) / 2)


def most_privacy(prior: Array, loss: Array, adversary: Array, largest_loss: float) -> LinearProgram:
    """Return the program of Shokri et al. [2]_: the largest adversary error at a quality loss.

    Maximise sum_z e(z) subject to e(z) <= sum_x prior(x) adversary(x, guess) k(x, z) for every z
    and guess, sum prior(x) loss(x, z) k(x, z) <= largest_loss, and rows of k that sum to 1.

    Parameters
    ----------
    prior, loss, adversary
        (n,), (n, m) and (n, guesses).

    Returns
    -------
    LinearProgram
        Variables: k(x, z) at z * n + x, then the m values e(z).
    """
    from scipy.sparse import block_diag, coo_array, csr_array, eye_array, hstack, vstack

    n, m = loss.shape
    guesses = adversary.shape[1]
    errors = csr_array((prior[:, None] * adversary).T)
    per_output = block_diag([errors] * m, format="csr")
    rows = np.arange(m * guesses)
    minus_error = coo_array(
        (-np.ones(m * guesses), (rows, rows // guesses)), shape=(m * guesses, m)
    )
    cost = (prior[:, None] * loss).T.ravel()
    quality = csr_array(np.r_[-cost, np.zeros(m)][None, :])
    sums = hstack([eye_array(n, format="csr")] * m + [csr_array((n, m))], format="csr")
    constraints = m * guesses + 1 + n
    equal = np.arange(constraints) > m * guesses
    return LinearProgram(
        cost=np.r_[np.zeros(n * m), -np.ones(m)],
        matrix=vstack([hstack([per_output, minus_error]), quality, sums], format="csr"),
        right=np.r_[np.zeros(m * guesses), -largest_loss, np.ones(n)],
        equal=equal,
        free=np.zeros(n * m + m, dtype=bool),
    )
