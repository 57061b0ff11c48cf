"""The tightest epsilon between any two points of the plane."""

from __future__ import annotations

import numpy as np

from whereish.errors import InputError
from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.planar_laplace import PlanarLaplaceEverywhere
from whereish.measures import steepest
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import cell_edges


class TightestEverywhere(float):
    """A privacy level between any two points of the plane.

    Attributes
    ----------
    output
        The output that attains it.
    vertex
        The vertex of the lattice where it is attained; None for a mechanism on places.
    pair
        The two places with a common border where raw points are told apart best; None on a lattice.
    factor
        The largest factor between the probabilities of a report on the two sides of a border,
        however close the two points are; 1 for a mechanism without borders.
    """

    output: int | None = None
    vertex: int | None = None
    pair: tuple[int, int] | None = None
    factor: float = 1.0


def tightest_epsilon_everywhere(
    mechanism: EverywhereMechanism | PlanarLaplaceEverywhere | Mechanism,
) -> TightestEverywhere:
    """Return the smallest epsilon, per km, that holds between any two points of the plane.

    For a mechanism on a lattice this is exact: the largest slope at a corner, rounded up to a
    double. For planar Laplace noise it is the epsilon of the noise; the remap may have made it
    smaller. For a mechanism on places, raw points are moved to their nearest place first. Two
    points on either side of a border may be as close as you like and have different probabilities:
    no epsilon holds, and the result is infinite, unless all reports have the same probability on
    both sides of every border. ``.factor`` is what such two points really are told apart by.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
    >>> found = wh.tightest_epsilon_everywhere(m)
    >>> float(found), round(found.factor, 3)
    (inf, 2.718)
    """
    if isinstance(mechanism, EverywhereMechanism):
        value, vertex, output = steepest(mechanism.counts, mechanism.lattice)
        result = TightestEverywhere(value)
        result.vertex, result.output = vertex, output
        return result
    if isinstance(mechanism, PlanarLaplaceEverywhere):
        return TightestEverywhere(mechanism.epsilon)
    if isinstance(mechanism, Mechanism):
        return _of_places(mechanism)
    raise InputError(
        f"mechanism must be an EverywhereMechanism or a Mechanism, got {type(mechanism).__name__}"
    )


def _of_places(mechanism: Mechanism) -> TightestEverywhere:
    """Return infinity, and the largest ratio across a border; 0 if no border changes anything."""
    borders = cell_edges(mechanism.inputs) if len(mechanism.inputs) > 1 else None
    factor, pair, output = 1.0, None, None
    for left, right in [] if borders is None else zip(borders.left, borders.right, strict=True):
        for a, b in ((int(left), int(right)), (int(right), int(left))):
            one, other = (mechanism.counts[k].astype(np.float64) for k in (a, b))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.nan_to_num(one / other, nan=1.0, posinf=np.inf)
            if ratios.max() > factor:
                factor, pair, output = float(ratios.max()), (a, b), int(ratios.argmax())
    result = TightestEverywhere(0.0 if pair is None else np.inf)
    result.pair, result.output, result.factor = pair, output, factor
    return result
