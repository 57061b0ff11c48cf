"""The exact audit of counts on streets: a guarantee for all points of all streets.

Between the vertices of a street, probabilities are interpolated linearly. With respect to the
distance along the streets, the mechanism is eps-geo-indistinguishable at all points if for every
two neighbouring vertices u and v of a street, w apart, and every output

    |N_u - N_v| <= eps w min(N_u, N_v),

and only then. Distances are whole units of 2^-40 km and eps is a double, so both sides are
rational, and the comparison is one of integers. Clear cases are decided in floating point, with a
margin that covers its rounding; the others in Python's integers. The audit goes along every street
itself, from the ends, lengths and cuts: it does not use the pieces that the builder used. The proof
is in docs/proofs/roads.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from whereish.errors import GuaranteeError, InputError
from whereish.measures.audit import Counts, check_rows
from whereish.places import Array, Subdivision, as_epsilon
from whereish.places.lattice import UNITS_PER_KM

# Each side of a comparison is at most 4 roundings of 2^-53 away from its true value.
_MARGIN = 2.0**-48


@dataclass(frozen=True)
class RoadVerdict:
    """The result of an audit on streets.

    Attributes
    ----------
    comparisons
        Pairs of neighbouring vertices, times outputs.
    tightest
        The smallest epsilon, per km, for which the counts pass, rounded up to a double: the
        largest of |N_u - N_v| / (w min(N_u, N_v)). Never above epsilon.
    pair, output
        The neighbouring vertices and the output that attain it.
    """

    comparisons: int
    tightest: float
    pair: tuple[int, int]
    output: int


def audit_roads(counts: Counts, vertices: Subdivision, epsilon: float) -> RoadVerdict:
    """Check every row and every two neighbouring vertices of released counts, exactly.

    Raises
    ------
    GuaranteeError
        If a row or a pair is wrong: the message names the vertices and the output.
    """
    level = as_epsilon(epsilon)
    check_rows(counts)
    if len(counts) != len(vertices):
        raise InputError(f"counts must have {len(vertices)} rows, got {len(counts)}")
    pairs = neighbours(vertices)
    rate = level / UNITS_PER_KM  # exact: a division by a power of two
    exact_rate = Fraction(rate)
    best, at = Fraction(0), (pairs[0][0], pairs[0][1], 0)
    steepest = 0.0
    for u, v, width in pairs:
        change, least = _sides(counts, u, v)
        unclear = ~(change * (1 + _MARGIN) <= rate * width * least)
        for z in np.flatnonzero(unclear).tolist():
            one, other = int(counts[u, z]), int(counts[v, z])
            if abs(one - other) > exact_rate * width * min(one, other):
                raise GuaranteeError(
                    f"not private along the streets: output {z} changes too fast between the "
                    f"vertices {u} and {v} for epsilon {level:g}"
                )
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.nan_to_num(change / (width * least), nan=0.0)
        # Only what may be the largest is computed again, exactly.
        for z in np.flatnonzero(slopes >= max(steepest, 1e-300) * (1 - _MARGIN)).tolist():
            one, other = int(counts[u, z]), int(counts[v, z])
            exact = Fraction(abs(one - other), width * min(one, other))
            if exact > best:
                best, at = exact, (u, v, z)
        steepest = max(steepest, float(slopes.max(initial=0.0)))
    tightest = _above(best * Fraction(UNITS_PER_KM))
    return RoadVerdict(len(pairs) * counts.shape[1], tightest, at[:2], at[2])


def neighbours(vertices: Subdivision) -> list[tuple[int, int, int]]:
    """Return all neighbouring vertices of all streets, with their distance in units."""
    network = vertices.network
    cuts: list[list[tuple[int, int]]] = [[] for _ in network.edges]
    for number, (street, steps) in enumerate(
        zip(vertices.street.tolist(), vertices.steps.tolist(), strict=True)
    ):
        cuts[street].append((steps, len(network.nodes) + number))
    found = []
    for (first, last), length, inside in zip(
        network.edges.tolist(), network.units.tolist(), cuts, strict=True
    ):
        along = [(0, first), *sorted(inside), (length, last)]
        for (begin, u), (end, v) in itertools.pairwise(along):
            if end <= begin:
                raise GuaranteeError("not a subdivision of the streets: a cut is not inside one")
            found.append((u, v, end - begin))
    return found


def _sides(counts: Counts, u: int, v: int) -> tuple[Array, Array]:
    """Return |N_u - N_v|, exact before the conversion to floats, and the smaller count."""
    least, most = np.minimum(counts[u], counts[v]), np.maximum(counts[u], counts[v])
    return (most - least).astype(np.float64), least.astype(np.float64)


def _above(value: Fraction) -> float:
    """Return the smallest double that is not below a rational number."""
    guess = float(value)
    return guess if Fraction(guess) >= value else math.nextafter(guess, math.inf)
