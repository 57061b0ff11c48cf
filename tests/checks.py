"""Slow, obvious certificates. Nothing here imports the library: a judge of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

_SCALE = 1 << 256


def exp_lower(exponent: Fraction) -> Fraction:
    """A rational number just below exp(exponent), for exponent >= 0.

    exp(t) = exp(t / 2^k)^(2^k): the Taylor sum of the root is a lower bound because every term
    is positive, and every step is rounded down.
    """
    assert exponent >= 0
    halvings = max(0, exponent.numerator.bit_length() - exponent.denominator.bit_length() + 8)
    root = exponent / (1 << halvings)
    scaled = root.numerator * _SCALE // root.denominator
    total = term = _SCALE
    k = 1
    while term:
        term = term * scaled // (_SCALE * k)
        total += term
        k += 1
    value = Fraction(total, _SCALE)
    for _ in range(halvings):
        square = value * value
        value = Fraction(square.numerator * _SCALE // square.denominator, _SCALE)
    return value


def distance_lower(a: Sequence[float], b: Sequence[float]) -> Fraction:
    """A rational number just below the Euclidean distance of two points given as floats."""
    squares = sum((Fraction(p) - Fraction(q)) ** 2 for p, q in zip(a, b, strict=True))
    scaled = squares.numerator * (1 << 400) // squares.denominator
    return Fraction(math.isqrt(scaled), 1 << 200)


def broken_ratios(
    matrix: Sequence[Sequence[float]],
    epsilon: float,
    xy: Sequence[Sequence[float]] | None = None,
    metric: Sequence[Sequence[float]] | None = None,
) -> list[tuple[int, int, int]]:
    """All (x, x', z) with k(x, z) > exp(eps d(x, x')) k(x', z), in exact arithmetic.

    The distance is that of the points ``xy``, or the entry of ``metric``. Every float stands for
    exactly the rational number it is.
    """
    rows = [[Fraction(value) for value in row] for row in matrix]
    broken = []
    for x, y in itertools.permutations(range(len(rows)), 2):
        if metric is not None:
            distance = Fraction(metric[x][y])
        else:
            assert xy is not None
            distance = distance_lower(xy[x], xy[y])
        limit = exp_lower(Fraction(epsilon) * distance)
        broken += [
            (x, y, z)
            for z, (here, there) in enumerate(zip(rows[x], rows[y], strict=True))
            if here.numerator * there.denominator * limit.denominator
            > limit.numerator * there.numerator * here.denominator
        ]
    return broken


def is_stochastic(matrix: Sequence[Sequence[float]], tolerance: float = 1e-12) -> bool:
    return all(min(row) >= 0 and abs(math.fsum(row) - 1) <= tolerance for row in matrix)


def expected_distance(
    matrix: Sequence[Sequence[float]],
    prior: Sequence[float],
    distance: Sequence[Sequence[float]],
) -> float:
    """Section 2.1, letter by letter."""
    return math.fsum(
        prior[x] * matrix[x][z] * distance[x][z]
        for x in range(len(matrix))
        for z in range(len(matrix[0]))
    )


def product(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> list[list[float]]:
    return [
        [
            math.fsum(row[k] * second[k][j] for k in range(len(second)))
            for j in range(len(second[0]))
        ]
        for row in first
    ]


def adversary_error_by_trying(
    matrix: Sequence[Sequence[float]],
    prior: Sequence[float],
    distance: Sequence[Sequence[float]],
) -> float:
    """The least expected distance over ALL deterministic remappings, tried one by one."""
    outputs, guesses = len(matrix[0]), len(distance[0])
    best = math.inf
    for strategy in itertools.product(range(guesses), repeat=outputs):
        remap = [[1.0 if g == strategy[z] else 0.0 for g in range(guesses)] for z in range(outputs)]
        best = min(best, expected_distance(product(matrix, remap), prior, distance))
    return best


def shortest_ways(
    n: int, edges: Sequence[tuple[int, int]], lengths: Sequence[float]
) -> list[list[float]]:
    """Floyd and Warshall's three loops."""
    way = [[0.0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for (a, b), length in zip(edges, lengths, strict=True):
        way[a][b] = way[b][a] = min(way[a][b], length)
    for k, i, j in itertools.product(range(n), repeat=3):
        way[i][j] = min(way[i][j], way[i][k] + way[k][j])
    return way


def proved_bound(
    rows: Sequence[tuple[int, int, int, float]],
    prior: Sequence[float],
    loss: Sequence[Sequence[float]],
    epsilon: float,
    metric: Sequence[Sequence[float]],
) -> float:
    """LB(y) = sum over x of min over z of c - A'y, in exact arithmetic, for rows (z, i, j, y).

    A row says k(j, z) >= exp(-eps d(i, j)) k(i, z). exp is rounded the other way than a proof
    would like, by less than 2^-200.
    """
    rest = [
        [Fraction(p) * Fraction(value) for value in row] for p, row in zip(prior, loss, strict=True)
    ]
    shrink: dict[tuple[int, int], Fraction] = {}
    for z, i, j, y in rows:
        assert y >= 0
        if (i, j) not in shrink:
            shrink[i, j] = 1 / exp_lower(Fraction(epsilon) * Fraction(metric[i][j]))
        rest[j][z] -= Fraction(y)
        rest[i][z] += Fraction(y) * shrink[i, j]
    return float(sum(min(row) for row in rest))


def broken_counts(
    counts: Sequence[Sequence[int]],
    epsilon: float,
    xy: Sequence[Sequence[float]] | None = None,
    metric: Sequence[Sequence[float]] | None = None,
) -> list[tuple[int, int, int]]:
    """All (x, x', z) where integers break their ratio, and (x, x, -1) where a row is not 2^63."""
    broken = [(x, x, -1) for x, row in enumerate(counts) if sum(row) != 1 << 63]
    for x, y in itertools.combinations(range(len(counts)), 2):
        if metric is not None:
            distance = Fraction(metric[x][y])
        else:
            assert xy is not None
            distance = distance_lower(xy[x], xy[y])
        limit = exp_lower(Fraction(epsilon) * distance)
        top, bottom = limit.numerator, limit.denominator
        for z, (one, other) in enumerate(zip(counts[x], counts[y], strict=True)):
            if one * bottom > top * other:
                broken.append((x, y, z))
            if other * bottom > top * one:
                broken.append((y, x, z))
    return broken


def counted_loss(
    counts: Sequence[Sequence[int]], prior: Sequence[float], loss: Sequence[Sequence[float]]
) -> float:
    """The quality loss of integers, added up as rational numbers."""
    total = Fraction(0)
    for row, weight, far in zip(counts, prior, loss, strict=True):
        if weight:
            inner = sum(Fraction(away) * count for away, count in zip(far, row, strict=True))
            total += Fraction(weight) * inner
    return float(total / (1 << 63))
