"""Slow, obvious certificates. Nothing here imports the library: a judge of its own."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

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
    """LB(y) = sum over x of min over z of c - A'y, in exact arithmetic, for rows (z, i, j, y)."""
    return float(least_proved_bound(rows, prior, loss, epsilon, metric))


def least_proved_bound(
    rows: Sequence[tuple[int, int, int, float]],
    prior: Sequence[float],
    loss: Sequence[Sequence[float]] | None,
    epsilon: float,
    metric: Sequence[Sequence[float]],
) -> Fraction:
    """A rational number not above LB(y), and within about 2^-190 of it.

    A row says k(j, z) >= exp(-eps d(i, j)) k(i, z). Without a loss, both loss and metric are the
    true Euclidean distances of the points that ``metric`` then is.
    """
    n = len(prior)

    def away(i: int, j: int, up: int) -> Fraction:
        if loss is not None:
            return max(Fraction(metric[i][j]), Fraction(metric[j][i]))
        return distance_lower(metric[i], metric[j]) + Fraction(up, 1 << 200)

    rest = [
        [
            Fraction(prior[x]) * (Fraction(loss[x][z]) if loss is not None else away(x, z, 0))
            for z in range(len(loss[x]) if loss is not None else n)
        ]
        for x in range(n)
    ]
    shrink: dict[tuple[int, int], Fraction] = {}
    for z, i, j, y in rows:
        assert y >= 0
        if (i, j) not in shrink:
            shrink[i, j] = 1 / exp_upper(Fraction(epsilon) * away(i, j, 1))
        rest[j][z] -= Fraction(y)
        rest[i][z] += Fraction(y) * shrink[i, j]
    return sum((min(row) for row in rest), Fraction(0))


def exp_upper(exponent: Fraction) -> Fraction:
    """A rational number just above exp(exponent): its error is below 2^-200 of it."""
    return exp_lower(exponent) * (1 + Fraction(1, 1 << 200))


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


def slow_visits(
    rows: Sequence[tuple[str, datetime, Any]], zone: str
) -> set[tuple[str, datetime, int, date, Any]]:
    """Say who was in which region in which hour of the clock, one point at a time.

    Rows are user, moment and region. The hour is told by when it began (UTC), so that the hour
    that comes twice when clocks are put back is two.
    """
    found = set()
    for user, moment, region in rows:
        wall = moment.astimezone(ZoneInfo(zone))
        past = timedelta(minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond)
        found.add((user, moment - past, wall.hour, wall.date(), region))
    return found


def slow_traces(moments: Sequence[datetime], zone: str) -> Counter[date]:
    """Count the traces of one person by the day they begin: more than 20 minutes apart."""
    steps = sorted({int(moment.timestamp() // 300) for moment in moments})
    begun: Counter[date] = Counter()
    for number, step in enumerate(steps):
        if number == 0 or step - steps[number - 1] > 4:
            start = datetime.fromtimestamp(step * 300, UTC).astimezone(ZoneInfo(zone))
            begun[start.date()] += 1
    return begun


def slow_period(clock: int) -> str:
    """Name the part of the day as Section 4 does."""
    if 7 <= clock < 12:
        return "morning"
    return "afternoon" if 12 <= clock < 19 else "night"


def slow_pipeline(
    rows: Sequence[tuple[str, datetime, Any]],
    zone: str,
    *,
    window: int,
    at_least: int,
    top: int,
    places: int,
) -> tuple[list[str], list[Any], list[str], dict[str, dict[str, dict[Any, float]]]]:
    """Do Section 4.2 by hand. A region is None outside the area, and else can be compared.

    Returns the people after the first filter, the chosen regions, the people after the second,
    and their priors by period and region.
    """
    people = sorted({user for user, _, _ in rows})
    visits = slow_visits(rows, zone)
    kept = {}
    for user in people:
        begun = slow_traces([moment for who, moment, _ in rows if who == user], zone)
        best = max(
            sorted(begun),
            key=lambda day: sum(
                count for other, count in begun.items() if 0 <= (other - day).days < window
            ),
        )
        kept[user] = [
            (clock, region)
            for who, _, clock, day, region in visits
            if who == user and 0 <= (day - best).days < window and region is not None
        ]

    def enough(points: list[tuple[int, Any]]) -> bool:
        parts = Counter(slow_period(clock) for clock, _ in points)
        each = all(parts[name] >= at_least for name in ("morning", "afternoon", "night"))
        return each and bool(points)

    first = [user for user in people if enough(kept[user])]
    total = Counter(region for user in first for _, region in kept[user])
    score: Counter[Any] = Counter()
    for user in first:
        own = Counter(region for _, region in kept[user])
        score.update(sorted(own, key=lambda r: (-own[r], -total[r], r))[:top])
    chosen = sorted(sorted(score, key=lambda r: (-score[r], -total[r], r))[:places])
    there = {user: [p for p in kept[user] if p[1] in set(chosen)] for user in first}
    second = [user for user in first if enough(there[user])]
    priors: dict[str, dict[str, dict[Any, float]]] = {}
    for user in second:
        priors[user] = {}
        for name in ("all day", "morning", "afternoon", "night"):
            part = [r for clock, r in there[user] if name in ("all day", slow_period(clock))]
            counts = Counter(part)
            if part:
                priors[user][name] = {r: counts[r] / len(part) for r in chosen}
    return first, chosen, second, priors


def broken_corners(
    counts: Sequence[Sequence[int]], xs: Sequence[float], ys: Sequence[float], epsilon: float
) -> list[tuple[int, int, int]]:
    """All (v, cell, z) where a corner of a cell of a lattice is too steep; (v, -1, -1) for a row.

    Cell by cell and corner by corner, in rational numbers. A line is a lattice with one x or y.
    """
    broken = [(v, -1, -1) for v, row in enumerate(counts) if sum(row) != 1 << 63]
    wide, high = max(1, len(xs) - 1), max(1, len(ys) - 1)
    for cell in range(wide * high):
        ix, iy = cell % wide, cell // wide
        corners = {(ix + dx, iy + dy) for dx in (0, 1) for dy in (0, 1)}
        corners = {(i, j) for i, j in corners if i < len(xs) and j < len(ys)}
        for i, j in sorted(corners):
            others = [(a, b) for a, b in corners if (a == i) != (b == j)]
            for z, here in enumerate(counts[j * len(xs) + i]):
                square = Fraction(0)
                for a, b in others:
                    away = abs(
                        Fraction(xs[a]) - Fraction(xs[i]) + Fraction(ys[b]) - Fraction(ys[j])
                    )
                    square += (Fraction(counts[b * len(xs) + a][z] - here) / away) ** 2
                if square > (Fraction(epsilon) * here) ** 2:
                    broken.append((j * len(xs) + i, cell, z))
    return broken


def lattice_probabilities(
    counts: Sequence[Sequence[int]],
    xs: Sequence[float],
    ys: Sequence[float],
    point: Sequence[Fraction],
) -> list[Fraction]:
    """The probability of every output at a point: the textbook's bilinear interpolation."""
    x, y = (
        min(max(value, Fraction(axis[0])), Fraction(axis[-1]))
        for value, axis in zip(point, (xs, ys), strict=True)
    )

    def hats(axis: Sequence[float], at: Fraction) -> list[Fraction]:
        sides = [Fraction(value) for value in axis]
        found = []
        for k, middle in enumerate(sides):
            if at == middle:
                height = Fraction(1)
            elif at < middle:
                low = sides[k - 1] if k > 0 else middle
                height = (at - low) / (middle - low) if low < at else Fraction(0)
            else:
                top = sides[k + 1] if k + 1 < len(sides) else middle
                height = (top - at) / (top - middle) if at < top else Fraction(0)
            found.append(height)
        return found

    across, up = hats(xs, x), hats(ys, y)
    assert sum(across) == sum(up) == 1
    total = [Fraction(0)] * len(counts[0])
    for j, one in enumerate(up):
        for i, other in enumerate(across):
            if one * other:
                row = counts[j * len(xs) + i]
                total = [t + one * other * n for t, n in zip(total, row, strict=True)]
    return [value / (1 << 63) for value in total]


def broken_pair(
    one: Sequence[Fraction], other: Sequence[Fraction], epsilon: float, squared: Fraction
) -> bool:
    """Whether two rows break exp(eps d), for points whose squared distance is this."""
    scaled = squared.numerator * (1 << 400) // squared.denominator
    limit = exp_lower(Fraction(epsilon) * Fraction(math.isqrt(scaled), 1 << 200))
    return any(a > limit * b or b > limit * a for a, b in zip(one, other, strict=True))
