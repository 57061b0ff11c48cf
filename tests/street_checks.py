"""Slow, obvious certificates for streets. Nothing here imports the library."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from checks import exp_lower


def street_pieces(
    edges: Sequence[Sequence[int]],
    lengths: Sequence[float],
    nodes: int,
    cuts: Sequence[tuple[int, int]],
) -> list[tuple[int, int, int, Fraction, Fraction]]:
    """All pieces of streets: (street, vertex, next vertex, km from the first node to each of them).

    A cut is (street, units of 2^-40 km from its first node); the first one is vertex ``nodes``.
    """
    pieces = []
    for street, ((first, last), length) in enumerate(zip(edges, lengths, strict=True)):
        stops = [(Fraction(0), first), (Fraction(length), last)]
        stops += [
            (Fraction(steps, 1 << 40), nodes + number)
            for number, (where, steps) in enumerate(cuts)
            if where == street
        ]
        stops.sort()
        for (begin, u), (end, v) in itertools.pairwise(stops):
            pieces.append((street, u, v, begin, end))
    return pieces


def broken_pieces(
    counts: Sequence[Sequence[int]],
    pieces: Sequence[tuple[int, int, int, Fraction, Fraction]],
    epsilon: float,
) -> list[tuple[int, int, int]]:
    """All (u, v, z) whose counts exceed the ratio 1 + eps w of a piece; (v, -1, -1) for a row."""
    broken = [(v, -1, -1) for v, row in enumerate(counts) if sum(row) != 1 << 63]
    for _, one, other, begin, end in pieces:
        ratio = 1 + Fraction(epsilon) * (end - begin)
        for u, v in ((one, other), (other, one)):
            for z, (here, there) in enumerate(zip(counts[u], counts[v], strict=True)):
                if here > ratio * there:
                    broken.append((u, v, z))
    return broken


def street_probabilities(
    counts: Sequence[Sequence[int]],
    pieces: Sequence[tuple[int, int, int, Fraction, Fraction]],
    street: int,
    at: Fraction,
) -> list[Fraction]:
    """The probability of every output at a point of a street, so many km from its first node."""
    u, v, begin, end = next(
        piece[1:] for piece in pieces if piece[0] == street and piece[3] <= at <= piece[4]
    )
    share = (at - begin) / (end - begin)
    return [
        ((1 - share) * one + share * other) / (1 << 63)
        for one, other in zip(counts[u], counts[v], strict=True)
    ]


def street_distances(
    nodes: int,
    edges: Sequence[Sequence[int]],
    lengths: Sequence[float],
    points: Sequence[tuple[int, Fraction]],
) -> list[list[Fraction]]:
    """Distances along the streets between points (street, km from its first node).

    Every point becomes a node, and streets are cut there. Floyd and Warshall do the rest.
    """
    total = nodes + len(points)
    far = 1 + sum(Fraction(length) for length in lengths)
    way = [[Fraction(0 if i == j else far) for j in range(total)] for i in range(total)]
    for street, ((first, last), length) in enumerate(zip(edges, lengths, strict=True)):
        stops = [(Fraction(0), first), (Fraction(length), last)]
        stops += [(at, nodes + k) for k, (where, at) in enumerate(points) if where == street]
        for (begin, u), (end, v) in itertools.pairwise(sorted(stops)):
            way[u][v] = way[v][u] = min(way[u][v], end - begin)
    for k, i, j in itertools.product(range(total), repeat=3):
        if way[i][k] + way[k][j] < way[i][j]:
            way[i][j] = way[i][k] + way[k][j]
    return [[Fraction(value) for value in row[nodes:]] for row in way[nodes:]]


def broken_ratio(
    one: Sequence[Fraction], other: Sequence[Fraction], epsilon: float, distance: Fraction
) -> bool:
    """Whether two rows break exp(eps d), for points at this distance."""
    limit = exp_lower(Fraction(epsilon) * distance)
    return any(a > limit * b or b > limit * a for a, b in zip(one, other, strict=True))
