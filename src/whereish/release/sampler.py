"""Draw reports from released integers, with the operating system's randomness.

One uniform 63-bit integer a report, compared with the cumulative counts of a row. Every comparison
is made: how long it takes does not depend on what is drawn. There is no state to be copied by a
fork or to be guessed, and no fallback: without entropy there is an error.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError, WhereishError
from whereish.measures import TOTAL, Counts

_AT_ONCE = 1 << 16


def cumulative(counts: Counts) -> Counts:
    """Return the running sums of each row, outputs x inputs; the last is 2^63."""
    sums: Counts = np.ascontiguousarray(np.cumsum(counts, axis=1, dtype=np.uint64).T)
    sums.flags.writeable = False
    return sums


def uniform(size: int, rng: np.random.Generator | None = None) -> Counts:
    """Return uniform integers from 0 to 2^63 - 1.

    Raises
    ------
    WhereishError
        If the operating system has no randomness to give.
    """
    if rng is not None:
        return rng.integers(0, TOTAL, size=size, dtype=np.uint64)
    try:
        noise = os.urandom(8 * size)
    except (OSError, NotImplementedError) as wrong:
        raise WhereishError(
            f"nothing was drawn: the operating system has no randomness to give ({wrong})"
        ) from None
    drawn: Counts = np.frombuffer(noise, dtype="<u8") >> np.uint64(1)
    return drawn


def draw(
    sums: Counts, rows: NDArray[np.int64], rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Draw a report for each of these rows (inputs by number).

    Parameters
    ----------
    sums
        What `cumulative` returned.
    rng
        For studies only: reports that can be repeated can be undone.
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator, got {type(rng).__name__}")
    reports = np.zeros(len(rows), dtype=np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        at = rows[start : start + _AT_ONCE]
        here = reports[start : start + _AT_ONCE]
        drawn = uniform(len(at), rng)
        same = bool((at == at[0]).all())
        for column in sums:
            # One more for every running sum that is not above what was drawn.
            here += drawn >= (column[at[0]] if same else column[at])
    return reports
