"""Slow, obvious checks of metrics from maps. Nothing here imports the library."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def floyd_warshall(n: int, edges: Sequence[tuple[int, int, float]]) -> list[list[float]]:
    """The shortest ways of an undirected graph, by three loops."""
    away = [[0.0 if x == y else math.inf for y in range(n)] for x in range(n)]
    for x, y, length in edges:
        away[x][y] = min(away[x][y], length)
        away[y][x] = min(away[y][x], length)
    for via in range(n):
        for x in range(n):
            for y in range(n):
                away[x][y] = min(away[x][y], away[x][via] + away[via][y])
    return away


def nearest_on(p: Sequence[float], a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """How far a point is from a segment, and the share of the segment at its nearest point."""
    along = (b[0] - a[0], b[1] - a[1])
    square = along[0] ** 2 + along[1] ** 2
    share = ((p[0] - a[0]) * along[0] + (p[1] - a[1]) * along[1]) / square
    share = min(1.0, max(0.0, share))
    at = (a[0] + share * along[0], a[1] + share * along[1])
    return math.dist(p, at), share


def slow_road_metric(
    nodes: Matrix, edges: Sequence[tuple[int, int]], points: Matrix, chosen: Sequence[int]
) -> list[list[float]]:
    """Distances between points: to the nearest street, along the streets, and from there.

    Every point is a node of its own, joined to a node on its street; streets are cut there.
    ``chosen`` is the street of each point: one of the nearest, if there are several.
    """
    n, k = len(nodes), len(points)
    cuts: dict[int, list[tuple[float, int]]] = {}
    graph: list[tuple[int, int, float]] = []
    for i, p in enumerate(points):
        found = [(*nearest_on(p, nodes[a], nodes[b]), e) for e, (a, b) in enumerate(edges)]
        away, share, street = found[chosen[i]]
        assert away <= min(one[0] for one in found) + 1e-12
        cuts.setdefault(street, []).append((share, n + i))
        graph.append((n + i, n + k + i, away))
    for e, (a, b) in enumerate(edges):
        length = math.dist(nodes[a], nodes[b])
        stops = [(0.0, a), *sorted(cuts.get(e, [])), (1.0, b)]
        for (s, x), (t, y) in itertools.pairwise(stops):
            graph.append((x, y, (t - s) * length))
    away_all = floyd_warshall(n + 2 * k, graph)
    return [row[n + k :] for row in away_all[n + k :]]


def is_metric(matrix: Matrix, tolerance: float = 1e-9) -> bool:
    """Zero on the diagonal, positive elsewhere, symmetric, and no way round is shorter."""
    every = range(len(matrix))
    return all(
        (matrix[x][y] == 0) == (x == y)
        and abs(matrix[x][y] - matrix[y][x]) <= tolerance * matrix[x][y]
        and all(matrix[x][y] <= (matrix[x][z] + matrix[z][y]) * (1 + tolerance) for z in every)
        for x in every
        for y in every
    )


def meets_requirement(row: Sequence[float], mass: Sequence[float], upto: float) -> bool:
    """Whether the mass within l is at least (l / ln 2)^2 for all l from 0 to ``upto``, at a cell.

    The mass is constant between two distances, so the requirement is strictest just before the
    next one. ``row`` has the distances of all cells from this one.
    """
    steps = sorted({min(d, upto) for d in row} | {upto})
    for before, then in itertools.pairwise(steps):
        inside = sum(m for d, m in zip(row, mass, strict=True) if d <= before)
        if inside < (then / math.log(2)) ** 2 * (1 - 1e-9):
            return False
    inside = sum(m for d, m in zip(row, mass, strict=True) if d <= upto)
    return inside >= (upto / math.log(2)) ** 2 * (1 - 1e-9)


def ball_holds_enough(
    edges: Sequence[tuple[int, int, float]], mass: Sequence[float], cell: int, upto: float
) -> bool:
    """The same for one cell of a large graph, by Dijkstra with a heap of Python."""
    arcs: dict[int, list[tuple[int, float]]] = {}
    for x, y, length in edges:
        arcs.setdefault(x, []).append((y, length))
        arcs.setdefault(y, []).append((x, length))
    held, inside, heap = 0.0, set(), [(0.0, cell)]
    while heap:
        d, x = heapq.heappop(heap)
        if x in inside:
            continue
        if held < (d / math.log(2)) ** 2 * (1 - 1e-9):
            return False
        inside.add(x)
        held += mass[x]
        for y, length in arcs[x]:
            if y not in inside and d + length <= upto:
                heapq.heappush(heap, (d + length, y))
    return held >= (upto / math.log(2)) ** 2 * (1 - 1e-9)
