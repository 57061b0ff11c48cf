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
_LAYERS_FROM = 500  # inputs from which every thread adds up several layers of sums (MANY_INPUTS)


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
    """Estimate a solve of the structured solver, on all cores, to a gap of 1e-5.

    An output in use has a factor in strips of the envelope (`core/envelope.c`), rows (40 bytes, as
    many for the snapshot, 40 for the directions of a step), and a byte for every pair and
    direction, twice. There is room to grow by a quarter. The sums of the inverses are n x n.

    Measured as the peak of the resident memory of a process, on two cores: 50, 100, 200 and 400
    places, on grids and at random, dilation 1 and 1.05, eps 0.2 to 4 per km, with all outputs and
    with 24, 48 and 60 (`tests/test_estimates.py` has the peaks). The estimate was never below the
    peak, and at most about twice it. Seconds are half of the CPU time of the same solves.

    Parameters
    ----------
    n, outputs
        The numbers of inputs and of outputs.
    edges
        The number of pairs of the spanner; 0 if it is not known: all pairs.
    """
    edges = edges or n * (n - 1) // 2
    few = outputs <= max(24, n // 2)  # few outputs are all in use, and share more pairs
    in_use = outputs if few else 2 * outputs // 3
    rows = min(22.0 if few else 12.0, 5 + 0.1 * edges / max(n, 1))  # for each input
    band = min(n / 2, (rows - 2.5) * math.sqrt(n))  # mean height of the envelope
    block = n * (10 * (band + 32) + 150 * rows + 100) + 4 * edges
    sums = 24 + cores() * (8.5 if n >= _LAYERS_FROM else 0.5)
    memory = in_use * block + 8 * n * n * sums + 45 * n * outputs
    share = min(1.0, 2.4 * band / max(n, 1))  # of the work that is not skipped
    seconds = 0.18 * (n / 100) ** 3 * (outputs / 100) * share * 2 / cores()
    return Estimate(max(0.01, seconds), int(memory))


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
