"""Draw reports from the released counts, with the randomness of the operating system.

A report takes one uniform 63-bit integer, which is compared with all cumulative counts of a row: so
the time does not depend on the result. There is no state that a fork could copy or an attacker
could guess, and no fallback: without entropy there is an error.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError, WhereishError
from whereish.measures import TOTAL, Counts

_AT_ONCE = 1 << 16


def cumulative(counts: Counts) -> Counts:
    """Return the cumulative counts of each row, (outputs, inputs); the last ones are 2^63."""
    sums: Counts = np.ascontiguousarray(np.cumsum(counts, axis=1, dtype=np.uint64).T)
    sums.flags.writeable = False
    return sums


def uniform(size: int, rng: np.random.Generator | None = None) -> Counts:
    """Return uniform integers from 0 to 2^63 - 1.

    Raises
    ------
    WhereishError
        If the operating system has no randomness.
    """
    if rng is not None:
        return rng.integers(0, TOTAL, size=size, dtype=np.uint64)
    try:
        noise = os.urandom(8 * size)
    except (OSError, NotImplementedError) as wrong:
        raise WhereishError(
            f"no report was drawn: the operating system has no randomness ({wrong})"
        ) from None
    drawn: Counts = np.frombuffer(noise, dtype="<u8") >> np.uint64(1)
    return drawn


def draw(
    sums: Counts, rows: NDArray[np.int64], rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Draw a report for each of these rows, which are indices of inputs.

    Parameters
    ----------
    sums
        The result of `cumulative`.
    rng
        A seeded generator, for studies only: its reports can be reproduced, so they protect nobody.
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator, got {type(rng).__name__}")
    reports = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        at = rows[start : start + _AT_ONCE]
        reports[start : start + _AT_ONCE] = pick(sums, at, uniform(len(at), rng))
    return reports


def pick(sums: Counts, rows: NDArray[np.int64], drawn: Counts) -> NDArray[np.int64]:
    """Return the report of each row for a uniform integer below 2^63, every comparison made."""
    reports = np.zeros(len(rows), dtype=np.int64)
    if len(rows) == 0:
        return reports
    same = bool((rows == rows[0]).all())
    for column in sums:
        # The index of the report is the number of cumulative counts at or below the draw.
        reports += drawn >= (column[rows[0]] if same else column[rows])
    return reports
