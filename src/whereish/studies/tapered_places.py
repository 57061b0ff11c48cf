"""Tapered against constant filtered reports, with certified mechanisms on places, at equal budget.

People of a synthetic city ask on each day for a number of reports that nobody knows in advance, one
every ten minutes. A day has a budget. A constant epsilon divides it by the number of draws that
cover most of the reports of other people; tapered epsilons have the same sum and number, and follow
from the shares of the draws that other people made. Everything is the code of a device: the
mechanisms are optimal ones, audited at their own epsilon, and `whereish.device.policies` draws and
filters. So both cover the same reports, and promise the same before a day begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whereish.attacks import Walk, simulate
from whereish.device.draw_schedule import tapered_epsilons
from whereish.mechanisms import Mechanism
from whereish.places import Array
from whereish.studies.equal_budget import EqualDesign, city_of
from whereish.studies.runs import Part, Row

TAPERED_PLACES = "tapered"
CONSTANT, FALLING = "filtered", "filtered, tapered"
_DAY_S = 86400.0
_STOPS = 0.12  # the probability that a report is the last one of a day
_MOST = 36  # reports of a day
_COVERAGE = 0.95  # of the reports of other people
_DECIMALS = 2  # of an epsilon: a mechanism is built for each


def tapered_parts(design: EqualDesign) -> list[Part]:
    """Return a part for each of the two."""
    if design.people < 2:
        return []
    return [Part(TAPERED_PLACES, name, _rows(design, name), 6.0) for name in (CONSTANT, FALLING)]


def _rows(design: EqualDesign, policy: str) -> Callable[[], list[Row]]:
    return lambda: [tapered_row(design, policy)]


def tapered_row(design: EqualDesign, policy: str) -> Row:
    """Return the mean error of a policy, its coverage, and what it spends in a day."""
    city = city_of(design)
    days = {user: days_of(walk, [design.seed, k]) for k, (user, walk) in
            enumerate(city.walks.items())}  # fmt: skip
    build = lru_cache(maxsize=None)(city.mechanism)
    errors, covered, spent, asked, draws = [], [], [], 0, []
    rng = np.random.default_rng(design.seed)
    for user, own in days.items():
        others = [len(day) for other, theirs in days.items() if other != user for day in theirs]
        levels = epsilons_of(policy, design.budget, np.array(others))
        first, *later = [build(level) for level in levels]
        draws.append(len(levels))
        if policy == CONSTANT:
            later = []
        wrong: list[float] = []
        for day in own:
            part = day[: len(levels)]
            walk = city.walks[user]
            run = simulate(
                "filtered", first, city.models[user], walk.times_s[part], walk.latlon[part], rng,
                later=later,
            )  # fmt: skip
            wrong += _errors(first, walk, part, run.outputs)
            spent.append(run.epsilon)
            asked += len(day)
        covered.append(len(wrong))
        errors.append(float(np.mean(wrong)))
    return {
        "policy": policy, "people": len(days), "days": len(spent), "mean_error_km":
        float(np.mean(errors)), "coverage": sum(covered) / asked, "draws": float(np.mean(draws)),
        "budget_per_day": design.budget, "epsilon_per_day": float(np.mean(spent)),
        "most_epsilon_per_day": float(np.max(spent)),
    }  # fmt: skip


def days_of(walk: Walk, seed: list[int]) -> list[NDArray[np.int64]]:
    """Return the reports of each day: a stretch that begins at any time, and ends at any report."""
    rng = np.random.default_rng(seed)
    day = np.floor(walk.times_s / _DAY_S)
    found = []
    for number in np.unique(day).tolist():
        rows = np.flatnonzero(day == number)
        begin = int(rng.integers(len(rows)))
        count = min(int(rng.geometric(_STOPS)), _MOST)
        found.append(rows[begin : begin + count])
    return found


def epsilons_of(policy: str, budget: float, others: NDArray[np.int64]) -> tuple[float, ...]:
    """Return the epsilons of the draws of a day.

    Parameters
    ----------
    others
        The numbers of reports on the days of other people.

    >>> epsilons_of(CONSTANT, 12.0, np.array([1, 2, 4, 4]))
    (3.0, 3.0, 3.0, 3.0)
    >>> epsilons_of(FALLING, 12.0, np.array([1, 2, 4, 4]))
    (3.65, 3.16, 2.58, 2.58)
    """
    made = np.array([(others > k).sum() for k in range(int(others.max()))], np.float64)
    shares = made / made.sum()
    needed = int(np.searchsorted(np.cumsum(shares), _COVERAGE - 1e-9)) + 1
    if policy == CONSTANT:
        shares = np.full(needed, 1.0 / needed)
    return tapered_epsilons(budget, shares[:needed], _DECIMALS)


def _errors(
    mechanism: Mechanism, walk: Walk, part: NDArray[np.int64], outputs: NDArray[np.int64]
) -> list[float]:
    true: Array = Walk(walk.user, walk.times_s[part], walk.latlon[part]).xy(mechanism.outputs)
    return [float(one) for one in np.hypot(*(mechanism.outputs.xy[outputs] - true).T)]
