"""Estimates of time and memory, before anything is solved: structured, general, closed form.

Seconds are measured ones, on two cores with other load, with the power of n that goes through them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from whereish.parallel import cores

_GENERAL_BYTES = 450  # a constraint, in a general solver: measured at 50 to 300 places
# Edges per place of a spanner in the plane, times sqrt(dilation - 1): at most 1.9 was measured, on
# grids, clusters, lines, circles and random places. Below this dilation a circle has more.
_EDGES, _MEASURED_FROM = 3.0, 1.05


@dataclass(frozen=True)
class Estimate:
    """About how long a solve takes on this machine, and how much memory."""

    seconds: float
    bytes: int

    @property
    def gigabytes(self) -> float:
        """The memory in GB."""
        return self.bytes / 1e9


def estimate(n: int, outputs: int, edges: int) -> Estimate:
    """Estimate a solve of the structured solver; measured at 50 to 1,000 places.

    Two thirds of the outputs are expected to be in use at first: each has an n x n matrix, a byte
    for every pair and direction, and some tens of rows for each input.
    """
    in_use = outputs if outputs <= 24 else 2 * outputs // 3
    memory = in_use * (8 * n * (n + 16) + 2 * edges + 88 * 32 * n) + 34 * 8 * n * n
    seconds = 0.5 * (n / 100) ** 2.5 * (outputs / 100) * 2 / cores()
    return Estimate(max(0.01, seconds), memory)


def estimate_general(constraints: int) -> Estimate:
    """Estimate a solve of HiGHS or GLPK, which hold the whole program."""
    return Estimate(10 * (constraints / 1e5) ** 1.5, constraints * _GENERAL_BYTES)


def estimate_closed_form(n: int, outputs: int) -> Estimate:
    """Estimate a closed form with its check; measured at 250 to 2,000 places."""
    seconds = 4e-6 * n**2 + 5e-10 * n**3 + check_seconds(n, outputs)
    return Estimate(seconds, 128 * n**2 + 32 * n * outputs)


def expected_edges(n: int, dilation: float, *, straight: bool) -> int:
    """Estimate the number of edges of a spanner from above, before it is built.

    For Euclidean distances the estimate is measured. For a dilation close to 1, and for any other
    metric, it is all pairs: the discrete metric needs all of them below a dilation of 2.
    """
    pairs = n * (n - 1) // 2
    if not straight or dilation < _MEASURED_FROM:
        return pairs
    return min(pairs, int(n * (2 + _EDGES / math.sqrt(dilation - 1))))


def check_seconds(n: int, outputs: int) -> float:
    """Estimate the seconds of the repair of a matrix and the check of its ratios."""
    return 1e-6 * n**2 + 1e-9 * n**2 * outputs


def spanner_seconds(n: int, edges: int) -> float:
    """Estimate the seconds of the construction of a spanner."""
    return 2e-5 * edges * (1 + n / 1000)


def overtime_seconds(n: int, outputs: int) -> float:
    """Return how many seconds after the time limit of a search a service waits for its file.

    The result is repaired, checked, compared with the closed form, rounded to counts, packed and
    audited. A busy machine may take three times as long as estimated.
    """
    release = 1e-5 * n**2 + 1e-8 * n**2 * outputs
    return 30 + 3 * (check_seconds(n, outputs) + estimate_closed_form(n, outputs).seconds + release)
