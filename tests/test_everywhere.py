"""Mechanisms on a lattice: exact audit, exact interpolation, exact draws, for every raw point."""

from __future__ import annotations

import os
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import checks
import whereish as wh
from effort import examples
from whereish.measures import TOTAL, audit_lattice, steepest
from whereish.places import Lattice
from whereish.places.lattice import UNITS_PER_KM, to_units
from whereish.release import choose_upper, release_lattice, to_counts

UNIT = Fraction(1, 2**40)
SIDES = np.array([-1.0, 1.0])


@st.composite
def lattices(draw: DrawFn) -> Lattice:
    """Graded lattices, lines and single vertices, from streets to cities."""
    scale = draw(st.sampled_from([0.02, 0.3, 2.0]))

    def axis() -> Any:
        steps = draw(st.lists(st.floats(0.05, 1.0), min_size=0, max_size=4))
        return scale * np.cumsum([draw(st.floats(-3, 3)), *steps])

    return Lattice(axis(), axis())


def nearly_private(lattice: Lattice, epsilon: float, outputs: int, seed: int) -> Any:
    """A matrix on the edge of the cones: random rows, mixed with the uniform ones as needed."""
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(outputs, 0.4), size=len(lattice))
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        mixed = (1 - middle) * matrix + middle / outputs
        fine = not checks.broken_corners(
            to_counts(mixed).tolist(), lattice.xs.tolist(), lattice.ys.tolist(), epsilon
        )
        low, high = (low, middle) if fine else (middle, high)
    return (1 - high) * matrix + high / outputs


@st.composite
def mechanisms(draw: DrawFn) -> wh.EverywhereMechanism:
    lattice = draw(lattices())
    epsilon = draw(st.sampled_from([0.2, 1.07, 3.0, 10.0]))
    outputs = draw(st.integers(1, 4))
    matrix = nearly_private(lattice, epsilon, outputs, draw(st.integers(0, 2**32 - 1)))
    counts = release_lattice(matrix, lattice, epsilon).counts
    places = wh.Places.from_xy([[k, 0.5] for k in range(outputs)])
    return wh.EverywhereMechanism(counts, lattice, places, epsilon)


def fixed(epsilon: float = 1.07) -> wh.EverywhereMechanism:
    lattice = Lattice(np.array([0, 0.3, 1.0, 1.1]), np.array([-1, 0.5, 1.5]))
    counts = release_lattice(nearly_private(lattice, epsilon, 4, 5), lattice, epsilon).counts
    places = wh.Places.from_xy([[0, 0], [1, 0], [0, 1], [1, 1]])
    return wh.EverywhereMechanism(counts, lattice, places, epsilon)


FIXED = fixed()
STEEP = fixed(10.0)


def exact_rows(m: wh.EverywhereMechanism, points: Any) -> list[list[Fraction]]:
    """The probabilities at raw points, in rational numbers: rounded to units as is documented."""
    found = []
    for point in np.asarray(points).tolist():
        rounded = [
            Fraction((Fraction(value) * 2**40 + Fraction(1, 2)).__floor__(), 2**40)
            for value in point
        ]
        found.append(
            checks.lattice_probabilities(
                m.counts.tolist(), m.lattice.xs.tolist(), m.lattice.ys.tolist(), rounded
            )
        )
    return found


# The audit.


@given(mechanisms())
@examples(40)
def test_no_corner_is_broken_in_rational_numbers(m: wh.EverywhereMechanism) -> None:
    xs, ys = (axis.tolist() for axis in m.lattice)
    counts = m.counts.tolist()
    assert checks.broken_corners(counts, xs, ys, m.epsilon) == []
    assert m.verdict.tightest <= m.epsilon
    value, vertex, output = steepest(m.counts, m.lattice)
    assert value == wh.tightest_epsilon_everywhere(m)
    if value > 0:
        # The tightest epsilon passes, and one that is smaller in the last digits does not.
        assert checks.broken_corners(counts, xs, ys, value) == []
        broken = checks.broken_corners(counts, xs, ys, value * (1 - 1e-15))
        assert (vertex, output) in [(v, z) for v, _, z in broken]


@given(mechanisms(), st.integers(0, 2**32 - 1))
@examples(40)
def test_any_two_raw_points_keep_their_ratio(m: wh.EverywhereMechanism, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (x0, x1), (y0, y1) = ((axis[0] - 1, axis[-1] + 1) for axis in m.lattice)
    points = rng.uniform((x0, y0), (x1, y1), (12, 2))
    points[6:] = points[:6] + rng.normal(0, 1, (6, 2)) * 10.0 ** rng.uniform(-9, 0, (6, 1))
    points[0] = m.lattice.xs[0], m.lattice.ys[-1]
    rows = exact_rows(m, points)
    whole = to_units(points).tolist()
    for i in range(12):
        assert sum(rows[i]) == 1
        for j in range(i):
            squared = sum((a - b) ** 2 for a, b in zip(whole[i], whole[j], strict=True)) * UNIT**2
            assert not checks.broken_pair(rows[i], rows[j], m.epsilon, squared)


@given(mechanisms(), st.integers(0, 2**32 - 1))
@examples(40)
def test_one_count_decides(m: wh.EverywhereMechanism, seed: int) -> None:
    """Move single counts at the tightest corner: the audit and the slow checker always agree."""
    level = m.verdict.tightest
    if level == 0 or len(m.outputs) == 1:
        return
    rng = np.random.default_rng(seed)
    xs, ys = (axis.tolist() for axis in m.lattice)
    for _ in range(6):
        counts = m.counts.copy()
        row, other = m.verdict.vertex, (m.verdict.output + 1) % len(m.outputs)
        step = np.uint64(rng.integers(1, 4))
        one, two = (m.verdict.output, other) if rng.random() < 0.5 else (other, m.verdict.output)
        counts[row, one] += step
        counts[row, two] -= step
        broken = checks.broken_corners(counts.tolist(), xs, ys, level)
        try:
            audit_lattice(counts, m.lattice, level)
        except wh.GuaranteeError:
            assert broken
        else:
            assert not broken


def test_a_zero_that_faces_a_positive_count_is_refused() -> None:
    counts = FIXED.counts.copy()
    counts[5, 0] += counts[5, 2]
    counts[5, 2] = 0
    with pytest.raises(wh.GuaranteeError, match="output 2 changes too fast at vertex"):
        wh.EverywhereMechanism(counts, FIXED.lattice, FIXED.outputs, 1e9)
    assert steepest(counts, FIXED.lattice)[0] == np.inf


def test_rows_must_sum_to_two_to_the_63() -> None:
    counts = FIXED.counts.copy()
    counts[3, 1] += np.uint64(1)
    with pytest.raises(wh.GuaranteeError, match="row 3 sums to"):
        wh.EverywhereMechanism(counts, FIXED.lattice, FIXED.outputs, FIXED.epsilon)


def test_a_copy_is_checked_again() -> None:
    again = pickle.loads(pickle.dumps(FIXED))
    assert (again.counts == FIXED.counts).all()
    assert again.verdict == FIXED.verdict
    with pytest.raises(ValueError, match="read-only"):
        again.counts[0, 0] = 1


# Interpolation and draws.


@given(mechanisms(), st.integers(0, 2**32 - 1))
@examples(40)
def test_probabilities_are_the_interpolated_ones(m: wh.EverywhereMechanism, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = np.vstack([rng.uniform(-8, 8, (5, 2)), m.lattice.vertices[:3]])
    exact = np.array([[float(p) for p in row] for row in exact_rows(m, points)])
    assert np.abs(m.probabilities(points) - exact).max() < 1e-14
    assert np.abs(m.probabilities(points[0]) - exact[0]).max() < 1e-14


class Bits:
    """A source of words that a test chooses; the rest are random, from a seed."""

    def __init__(self, chosen: list[int], seed: int = 0) -> None:
        self.words = [word << 1 for word in chosen]
        self.rng = np.random.default_rng(seed)
        self.used = 0

    def __call__(self, size: int) -> bytes:
        assert size % 8 == 0
        self.used += size // 8
        taken, self.words = self.words[: size // 8], self.words[size // 8 :]
        rest = self.rng.bytes(size - 8 * len(taken))
        return b"".join(word.to_bytes(8, "little") for word in taken) + rest


def slow_report(m: wh.EverywhereMechanism, point: Any, words: list[int]) -> int:
    """One report from chosen words, as docs/proofs/everywhere.md describes it."""
    xs, ys = (axis.tolist() for axis in m.lattice)
    index = []
    for axis, value, word in zip((xs, ys), point, words[:2], strict=True):
        whole = [int(Fraction(side) * 2**40) for side in axis]
        at = (Fraction(value) * 2**40 + Fraction(1, 2)).__floor__()
        at = min(max(at, whole[0]), whole[-1])
        if len(whole) == 1:
            index.append(0)
            continue
        k = max(k for k in range(len(whole) - 1) if whole[k] <= at)
        share = Fraction(at - whole[k], whole[k + 1] - whole[k])
        index.append(k + (Fraction(word + 1, 2**63) <= share or Fraction(word, 2**63) < share))
    row = m.counts[index[1] * len(xs) + index[0]].tolist()
    return next(z for z in range(len(row)) if words[2] < sum(row[: z + 1]))


@given(mechanisms(), st.integers(0, 2**32 - 1))
@examples(40)
def test_the_same_bits_give_the_same_report(m: wh.EverywhereMechanism, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for point in (*rng.uniform(-8, 8, (4, 2)), m.lattice.vertices[-1], m.lattice.vertices[0]):
        words = [int(word) for word in rng.integers(0, TOTAL, 3, dtype=np.uint64)]
        words[:2] = [words[0] >> int(rng.integers(0, 4)), words[1] | 1 << int(rng.integers(55, 63))]
        with pytest.MonkeyPatch.context() as patch:
            bits = Bits(words)
            patch.setattr(os, "urandom", bits)
            found = m.sample(point)
        assert found.outputs.tolist() == [slow_report(m, point, words)]
        assert bits.used == 3


@given(st.integers(1, 2**53), st.data())
def test_the_upper_end_is_chosen_with_its_exact_probability(width: int, data: Any) -> None:
    """A word decides as the first 63 bits of the quotient do, and a tie goes to the next word."""
    step = data.draw(st.integers(0, width))
    quotient, rest = divmod(step << 63, width)
    steps, widths = np.array([step]), np.array([width])

    def chosen(word: int, more: list[int]) -> bool:
        taken = iter(more)
        found = choose_upper(
            np.array([word], np.uint64), steps, widths,
            lambda size: np.array([next(taken)], np.uint64),
        )  # fmt: skip
        assert list(taken) == []
        return bool(found[0])

    if quotient > 0:
        assert chosen(quotient - 1, [])
    if quotient + 1 < TOTAL:
        assert not chosen(quotient + 1, [])
    if quotient == TOTAL:
        return
    if rest == 0:
        assert not chosen(quotient, [])
        return
    second, rest = divmod(rest << 63, width)
    if second > 0:
        assert chosen(quotient, [second - 1])
    if second + 1 < TOTAL:
        assert not chosen(quotient, [second + 1])
    if rest == 0:
        assert not chosen(quotient, [second])
    else:
        third = (rest << 63) // width
        assert not chosen(quotient, [second, third + 1])


def chi_square(m: wh.EverywhereMechanism, point: Any, size: int) -> float:
    expected = np.array([float(p) for p in exact_rows(m, [point])[0]]) * size
    counted = np.bincount(m.sample(point, size=size).outputs, minlength=len(expected))
    return float(((counted - expected) ** 2 / expected).sum())


@pytest.mark.slow
def test_draws_have_the_probabilities_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e6 draws at three raw points: chi-square with 3 degrees of freedom, p = 1e-6 at 30.7."""
    monkeypatch.setattr(os, "urandom", Bits([], seed=11))
    for point in ((0.71, 0.1), (0.15, 1.2), (7.0, -9.0)):
        assert chi_square(STEEP, point, 1_000_000) < 30.7


@pytest.mark.slow
def test_a_biased_corner_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose corners with probabilities rounded to 1 / 8: the chi-square test must see it."""
    from whereish.release import corners

    def coarse(drawn: Any, steps: Any, widths: Any, words: Any) -> Any:
        return drawn < (np.floor(8 * steps / widths) / 8 * TOTAL).astype(np.uint64)

    monkeypatch.setattr(os, "urandom", Bits([], seed=11))
    monkeypatch.setattr(corners, "choose_upper", coarse)
    assert max(chi_square(STEEP, p, 1_000_000) for p in ((0.71, 0.1), (0.15, 1.2))) > 100


def test_points_of_the_earth() -> None:
    places = wh.Places.from_latlon([[48.85, 2.34], [48.86, 2.36]])
    m = wh.EverywhereMechanism(
        np.full((4, 2), TOTAL // 2, np.uint64), Lattice(SIDES, SIDES), places, epsilon=0.5
    )
    reports = m.sample([[48.85, 2.35], [40.0, -3.0]])
    assert reports.latlon is not None
    assert reports.outside.tolist() == [False, True]
    assert 1000 < reports.snapped_km[1] < 1100
    with pytest.raises(wh.InputError, match="within 3400 km"):
        m.sample((-33.0, 151.0))


def test_a_unit_is_exact_in_doubles() -> None:
    assert UNITS_PER_KM == 2**40
    points = np.array([[4095.999, -4096.0], [1e12, -1e12], [0.1, -0.1]])
    assert to_units(points).tolist() == [
        [int((Fraction(v) * 2**40 + Fraction(1, 2)).__floor__()) for v in row]
        for row in np.clip(points, -8192, 8192).tolist()
    ]


@pytest.mark.parametrize(
    ("xs", "ys", "words"),
    [
        ([0, 1, 0.5], [0], r"xs must be increasing by a millimetre or more .* at \[2\] it is not"),
        ([0], [0, 1e-9], r"ys must be increasing"),
        ([0, np.nan], [0], "xs must be finite"),
        ([], [0], "xs must hold at least one coordinate"),
        ([0, 5000], [0], "xs must be within 4096 km of the origin"),
        ([[0, 1]], [0], "xs must be n numbers"),
    ],
)
def test_a_lattice_that_cannot_be_used(xs: Any, ys: Any, words: str) -> None:
    with pytest.raises(wh.InputError, match=words):
        Lattice(xs, ys)


@pytest.mark.parametrize("at", [(np.nan, 1.0), (1.0,), (48.123456, 2, 3), "here", [], [[1, 2, 3]]])
def test_a_point_that_cannot_be_used_is_not_repeated(at: Any) -> None:
    for ask in (FIXED.sample, FIXED.probabilities):
        with pytest.raises(wh.InputError, match="at must be points of two coordinates") as told:
            ask(at)
        assert "48" not in str(told.value)


def test_the_number_of_reports() -> None:
    assert len(FIXED.sample((0, 0), size=0)) == 0
    with pytest.raises(wh.InputError, match="size must not be given for several points"):
        FIXED.sample([[0, 0], [1, 1]], size=2)
    with pytest.raises(wh.InputError, match="size must be at most"):
        FIXED.sample((0, 0), size=10**10)
    with pytest.raises(wh.InputError, match="rng must be a numpy Generator"):
        FIXED.sample((0, 0), rng=3)  # type: ignore[arg-type]
    assert FIXED.sample((0, 0), rng=np.random.default_rng(1)).seeded
