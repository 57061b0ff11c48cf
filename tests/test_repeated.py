"""The privacy of sequences of sticky reports, by enumeration: docs/theory/repeated-reports.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from whereish.device import Ledger

PLACES = wh.Places.from_xy([[0.0, 0.0], [1.0, 0.2], [0.3, 1.4]])
PRIOR = [0.7, 0.2, 0.1]
EPSILON = 0.8
DAY = 86400.0


def which_draws(path: Path, asked: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Ask a ledger for places in periods, and say of each report which draw it was."""
    ledger = Ledger(path, 1000.0)
    drawn = itertools.count()
    return tuple(
        ledger.spend("m", place, 1.0, period * DAY, lambda: next(drawn)).output
        for period, place in asked
    )


def distribution(matrix: Any, asked: Any, draws: Sequence[int]) -> dict[tuple[int, ...], float]:
    """Return how likely each sequence of reports is, if report i is draw number draws[i]."""
    behind = {draw: place for draw, (_, place) in zip(draws, asked, strict=True)}
    found = {}
    for reports in itertools.product(range(len(matrix)), repeat=len(draws)):
        of_draw: dict[int, int] = {}
        agree = all(of_draw.setdefault(d, z) == z for d, z in zip(draws, reports, strict=True))
        found[reports] = (
            math.prod(matrix[behind[draw]][z] for draw, z in of_draw.items()) if agree else 0.0
        )
    return found


def pattern(asked: Sequence[tuple[int, int]]) -> tuple[tuple[bool, ...], ...]:
    """Return which of some places in periods are equal."""
    return tuple(tuple(one == other for other in asked) for one in asked)


@pytest.mark.parametrize("periods", [(1, 1, 1), (1, 1, 2), (1, 2, 3)])
@pytest.mark.parametrize("optimal", [True, False])
def test_the_bound_holds_for_sequences_of_one_pattern_and_no_other(
    tmp_path: Path, periods: tuple[int, ...], optimal: bool
) -> None:
    mechanism = wh.optimal(PLACES, PRIOR, EPSILON) if optimal else wh.exponential(PLACES, EPSILON)
    matrix, metric = np.asarray(mechanism.matrix), wh.euclidean(PLACES)
    asked = [
        tuple(zip(periods, places, strict=True))
        for places in itertools.product(range(3), repeat=len(periods))
    ]
    told = {}
    for number, sequence in enumerate(asked):
        draws = which_draws(tmp_path / f"l{number}", sequence)
        told[sequence] = distribution(matrix, sequence, draws)
        assert math.isclose(sum(told[sequence].values()), 1.0)
    kept = broken = 0
    for one, other in itertools.permutations(asked, 2):
        ratio = max(
            math.inf if q == 0 else p / q
            for p, q in zip(told[one].values(), told[other].values(), strict=True)
            if p > 0
        )
        if pattern(one) == pattern(other):
            # A place counts once a period, however often it was asked for.
            pairs = {(t, x, y) for (t, x), (_, y) in zip(one, other, strict=True)}
            bound = math.exp(EPSILON * sum(metric[x, y] for _, x, y in pairs))
            assert ratio <= bound * (1 + 1e-9)
            kept += 1
        elif not optimal:
            # More reports can differ than could: somebody has moved, and that shows.
            more = sum(map(sum, pattern(one))) < sum(map(sum, pattern(other)))
            assert ratio == math.inf or not more
            broken += ratio == math.inf
    assert kept > 0
    assert optimal or broken > 0 or len(set(periods)) == len(periods)


def test_staying_and_moving_are_told_apart_with_certainty(tmp_path: Path) -> None:
    """(a, a) and (a, b): the formula that was on the page gives exp(eps d), the truth is more."""
    matrix = np.asarray(wh.exponential(PLACES, EPSILON).matrix)
    stayed, moved = ((1, 0), (1, 0)), ((1, 0), (1, 1))
    told = [
        distribution(matrix, asked, which_draws(tmp_path / f"l{number}", asked))
        for number, asked in enumerate((stayed, moved))
    ]
    assert told[0][0, 1] == 0.0
    assert told[1][0, 1] > 0.1
