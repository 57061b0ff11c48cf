"""Draw reports at raw points: choose a corner of the point's cell, then draw from its row.

On a street, choose an end of the point's piece in the same way: two words instead of three.

A report takes three words of 63 bits: for the column of the corner, for its row, and for the
report. With a point `steps` units from the lower end of an interval of `width` units, the upper end
is chosen with probability exactly steps / width. The word u decides: u < floor(2^63 steps / width)
chooses the upper end, a larger u the lower one, and in the case of equality, of probability 2^-63,
the next word is compared with the next 63 bits of the quotient, and so on. No renormalisation, no
rejection, and the number of words does not depend on the point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.measures import Counts
from whereish.places.lattice import Lattice, Position, Whole
from whereish.places.subdivision import OnPieces
from whereish.release.sampler import pick, uniform

_DIGIT = np.int64(9)  # bits of a step of the division: 53 + 9 bits are an int64
_AT_ONCE = 1 << 16

Words = Callable[[int], Counts]  # returns so many uniform integers below 2^63


def draw_at(
    sums: Counts,
    lattice: Lattice,
    at: Position,
    rng: np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Draw a report at each position.

    Parameters
    ----------
    sums
        The result of `cumulative` for the counts of the vertices.
    rng
        A seeded generator, for studies only: its reports can be reproduced, so they protect nobody.
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator, got {type(rng).__name__}")

    def words(size: int) -> Counts:
        return uniform(size, rng)

    reports = np.empty(len(at.steps), dtype=np.int64)
    for start in range(0, len(reports), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        drawn = words(3 * len(reports[some])).reshape(-1, 3)
        upper = choose_upper(drawn[:, :2], at.steps[some], at.widths[some], words)
        ix, iy = np.where(upper, at.upper[some], at.lower[some]).T
        reports[some] = pick(sums, iy * len(lattice.xs) + ix, drawn[:, 2])
    return reports


def draw_between(
    sums: Counts, at: OnPieces, rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Draw a report at each point of a street: from the row of one end of its piece.

    Parameters
    ----------
    sums
        The result of `cumulative` for the counts of the vertices.
    rng
        A seeded generator, for studies only: its reports can be reproduced, so they protect nobody.
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator, got {type(rng).__name__}")

    def words(size: int) -> Counts:
        return uniform(size, rng)

    reports = np.empty(len(at.steps), dtype=np.int64)
    for start in range(0, len(reports), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        drawn = words(2 * len(reports[some])).reshape(-1, 2)
        upper = choose_upper(drawn[:, 0], at.steps[some], at.widths[some], words)
        rows = np.where(upper, at.upper[some], at.lower[some])
        reports[some] = pick(sums, rows, drawn[:, 1])
    return reports


def choose_upper(drawn: Counts, steps: Whole, widths: Whole, words: Words) -> NDArray[np.bool_]:
    """Return whether the upper end is chosen, for arrays of words, steps and widths.

    Further words are drawn only where a word and 63 bits of the quotient are equal.
    """
    quotients, rests = _divided(steps, widths)
    upper: NDArray[np.bool_] = drawn < quotients
    for where in np.argwhere((drawn == quotients) & (rests > 0)):
        index = tuple(where)
        rest, width = int(rests[index]), int(widths[index])
        while rest:
            quotient, rest = divmod(rest << 63, width)
            word = int(words(1)[0])
            if word != quotient:
                upper[index] = word < quotient
                break
    return upper


def _divided(steps: Whole, widths: Whole) -> tuple[Counts, Whole]:
    """Return floor(2^63 steps / widths) and the remainder, for 0 <= steps <= widths <= 2^53."""
    quotients, rests = np.zeros(steps.shape, np.uint64), steps.copy()
    for _ in range(63 // int(_DIGIT)):
        digit, rests = np.divmod(rests << _DIGIT, widths)
        quotients = (quotients << np.uint64(_DIGIT)) + digit.astype(np.uint64)
    return quotients, rests
