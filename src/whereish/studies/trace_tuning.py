"""Constants of the policies, chosen on other people.

People are divided into folds. The constants for the people of a fold are chosen on the people of
the other folds: of those that cover at least as much of the traces as the authors' predictive
mechanism does there, the ones with the smallest mean error. The budget is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from whereish.device.draw_schedule import tapered_epsilons
from whereish.places import Array
from whereish.studies.trace_policies import (
    INDEPENDENT,
    PREDICTIVE,
    SPORADIC,
    STICKY,
    TOLERANCE_S,
    Constants,
)
from whereish.studies.trace_protocol import Trace
from whereish.studies.trace_scores import TraceScores, mean_over_groups

FOLDS = 5
_DRAWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 40)  # a budget is for so many
RATES_S = (0.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
_TESTED_DRAWS, _TESTED_RATES_S = (2, 3, 4, 6, 8, 12, 20), (0.0, 300.0, 1200.0)
_TEST_SHARES, _THRESHOLDS = (0.1, 0.25), (0.8, 1.25)  # e_t / e_N and l e_t


def candidates(kind: str, budget: float, gap_s: float) -> list[Constants]:
    """Return the constants that are tried for a policy; rates below the gap are the same as 0.

    >>> len(candidates("sporadic", 20.0, 60.0)), len(candidates("sporadic", 20.0, 3600.0))
    (70, 10)
    """
    if kind in (INDEPENDENT, STICKY):
        return [Constants(kind, budget / draws) for draws in _DRAWS]
    if kind == SPORADIC:
        rates = rates_above(gap_s)
        return [Constants(kind, budget / draws, rate_s=rate) for draws in _DRAWS for rate in rates]
    rates = [rate for rate in _TESTED_RATES_S if rate == 0 or rate > gap_s]
    return [
        Constants(PREDICTIVE, budget / draws, share * budget / draws,
                  level / (share * budget / draws), rate)
        for draws in _TESTED_DRAWS for rate in rates
        for share in _TEST_SHARES for level in _THRESHOLDS
    ]  # fmt: skip


def rates_above(gap_s: float) -> list[float]:
    """Return the rates that are tried for reports this far apart."""
    return [rate for rate in RATES_S if rate == 0 or rate > gap_s]


def folds_of(traces: Sequence[Trace], seed: int, folds: int = FOLDS) -> dict[str, int]:
    """Return the fold of each person, drawn at random; as many folds as people, if they are few."""
    people = sorted({trace.user for trace in traces})
    order = np.random.default_rng(seed).permutation(len(people)).tolist()
    count = max(2, min(folds, len(people)))
    return {people[number]: place % count for place, number in enumerate(order)}


def choose(
    tried: Mapping[Constants, TraceScores], others: NDArray[np.bool_], coverage: float
) -> Constants:
    """Return the constants with the smallest error of those that cover enough.

    Parameters
    ----------
    tried
        The scores of all constants, on the same traces.
    others
        Which of these traces are of other people.
    coverage
        What must be covered of their traces. If no constants do, those that cover most are chosen.
    """
    return ranking(tried, others, coverage)[0]


def ranking(
    tried: Mapping[Constants, TraceScores], others: NDArray[np.bool_], coverage: float
) -> list[Constants]:
    """Return all constants, best first; see `choose`."""
    first = next(iter(tried.values()))
    person = np.unique(np.asarray(first.users), return_inverse=True)[1][others]

    def key(constants: Constants) -> tuple[float, float]:
        scores = tried[constants]
        covered = mean_over_groups(person, scores.coverage[others])
        return max(0.0, coverage - covered), mean_over_groups(person, scores.error_km[others])

    return sorted(tried, key=key)


def tapered(others: Sequence[Trace], budget: float, rate_s: float, coverage: float) -> Constants:
    """Return sporadic reports whose first draws get more of the budget than later ones.

    The epsilons are those of `tapered_epsilons`, for the share of the points that follow each draw,
    in the mean over other people. So traces that last long, which are few, are covered without
    taking much from all others.

    Parameters
    ----------
    coverage
        There are as many draws as cover this share of the points of other people.

    >>> short, long = (Trace(name, np.arange(n) * 60.0, np.zeros((n, 2))) for name, n in
    ...                (("a", 1), ("b", 2)))
    >>> [round(level, 2) for level in tapered([short, long], 10.0, 0.0, 1.0).schedule]
    [6.34, 3.66]
    """
    shares = _shares(others, rate_s)
    needed = int(np.searchsorted(np.cumsum(shares), min(coverage, shares.sum()) - 1e-9)) + 1
    schedule = tapered_epsilons(budget, shares[:needed], decimals=None)
    return Constants(SPORADIC, schedule[0], rate_s=rate_s, schedule=schedule)


def _shares(traces: Sequence[Trace], rate_s: float) -> Array:
    """Return the share of the points that follow each draw: the mean over people."""
    people: dict[str, list[list[float]]] = {}
    for trace in traces:
        begins, now = [0], 0
        while True:
            later = trace.times_s[now] + max(rate_s - TOLERANCE_S, 0.0)
            now = max(now + 1, int(np.searchsorted(trace.times_s, later)))
            if now >= len(trace):
                break
            begins.append(now)
        counts = np.diff([*begins, len(trace)]) / len(trace)
        people.setdefault(trace.user, []).append(counts.tolist())
    most = max(len(shares) for own in people.values() for shares in own)
    total = np.zeros(most)
    for own in people.values():
        for shares in own:
            total[: len(shares)] += np.array(shares) / (len(own) * len(people))
    return total


def few_of_each(traces: Sequence[Trace], most: int) -> list[Trace]:
    """Return the first traces of each person."""
    seen: dict[str, int] = {}
    found = []
    for trace in traces:
        seen[trace.user] = seen.get(trace.user, 0) + 1
        if seen[trace.user] <= most:
            found.append(trace)
    return found
