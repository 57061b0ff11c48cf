"""The edges of the Voronoi diagram of a set of places, unbounded edges included.

The Voronoi cell of a place holds the points that are nearer to it than to any other place. The edge
between two cells is the part of the bisector of their places where no third place is nearer. Each
edge is computed from that definition alone, so places on a line, a single pair, or the four corners
of a square are not special cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.places.points import Places
from whereish.places.validation import Array

_FIRST_LOOK = 24


@dataclass(frozen=True, eq=False)
class CellEdges:
    """Voronoi edges: the points ``middle + t * along`` for t from ``start`` to ``end``.

    In the direction ``along``, the cell of place ``left`` is on the left, that of ``right`` on the
    right. ``start`` may be -inf and ``end`` +inf. Lengths are in km.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    middle: Array
    along: Array
    start: Array
    end: Array


def cell_edges(places: Places) -> CellEdges:
    """Return all edges of the Voronoi diagram of a set of places."""
    xy = places.xy
    found: list[Array] = []
    pairs: list[NDArray[np.int64]] = []
    for i in range(len(xy)):
        offset = np.delete(xy - xy[i], i, axis=0)
        number = np.delete(np.arange(len(xy)), i)
        distance = np.hypot(offset[:, 0], offset[:, 1])
        nearest = np.argsort(distance, kind="stable")
        towards = (offset / distance[:, None])[nearest]
        half, number = distance[nearest] / 2, number[nearest]
        candidates = np.flatnonzero(number > i)
        # The nearest few places exclude almost every pair; all places decide about the rest.
        for look in (slice(0, _FIRST_LOOK), slice(0, None)):
            start, end = _free_part(candidates, towards, half, look)
            candidates = candidates[start < end]
        keep = start < end
        found.append(np.column_stack([start[keep], end[keep]]))
        pairs.append(np.column_stack([np.full(len(candidates), i), number[candidates]]))
    left, right = np.concatenate(pairs).T
    start, end = np.concatenate(found).T
    toward = xy[right] - xy[left]
    toward /= np.hypot(toward[:, 0], toward[:, 1])[:, None]
    along = np.column_stack([-toward[:, 1], toward[:, 0]])
    return CellEdges(left, right, (xy[left] + xy[right]) / 2, along, start, end)


def _free_part(
    candidates: NDArray[np.intp], towards: Array, half: Array, look: slice
) -> tuple[Array, Array]:
    """Return the interval of t in which the bisector of each candidate is an edge.

    Relative to the place, a point of the bisector is ``half n + t u``, with u orthogonal to n. It
    is not nearer to another place as long as t (n' u) <= half' - half (n' n).
    """
    normal = towards[candidates]
    across = np.column_stack([-normal[:, 1], normal[:, 0]])
    slope = across @ towards[look].T
    room = half[look] - half[candidates][:, None] * (normal @ towards[look].T)
    itself = candidates[:, None] == np.arange(len(half))[look]
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = room / slope
    end = np.where((slope > 0) & ~itself, limit, np.inf).min(axis=1, initial=np.inf)
    start = np.where((slope < 0) & ~itself, limit, -np.inf).max(axis=1, initial=-np.inf)
    hidden = ((slope == 0) & (room < 0) & ~itself).any(axis=1)
    end[hidden] = -np.inf
    return start, end
