"""Attacks on synthetic people at equal budget: why sticky reports alone are not enough.

People of a synthetic city report every ten minutes, for days. Each policy has its own epsilon for a
draw, such that all policies spend the same in a day, on average over the people. The truth is
known: where people live, and when they move. A sticky report is repeated exactly while somebody
stays, so the reports show every move; and every day has a new draw for the home.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whereish.attacks import Exposure, Walk, expose, population_models, simulate, walks_of
from whereish.lazy import pl
from whereish.mechanisms import Mechanism, optimal
from whereish.places import Array
from whereish.profiles import MovementModel, SyntheticCity, personal_profile
from whereish.release import snap
from whereish.studies.runs import Part, Row

EQUAL = "equal budget"
EQUAL_POLICIES = ("independent", "sticky", "predictive", "filtered")
_ROUNDS = 3  # of dividing the epsilon of a draw by what was spent too much
_DAY_S, _REPORTS_PER_DAY = 86400.0, 144


@dataclass(frozen=True)
class EqualDesign:
    """The people and the budget of the comparison.

    Attributes
    ----------
    people, days
        Of the synthetic city.
    budget
        Epsilon per km and day: by default that of twelve draws at 1.07.
    places
        Of the mechanism, in cells of 500 m.
    seed
        Of the city, and of all draws.
    """

    people: int = 10
    days: int = 14
    budget: float = 12.84
    places: int = 50
    seed: int = 1


def equal_budget_parts(design: EqualDesign) -> list[Part]:
    """Return a part for each policy."""
    if design.people == 0:
        return []
    return [Part(EQUAL, name, _rows(design, name), 6.0) for name in EQUAL_POLICIES]


def _rows(design: EqualDesign, policy: str) -> Callable[[], list[Row]]:
    return lambda: city_of(design).rows(policy)


@dataclass(frozen=True, eq=False)
class City:
    """The walks of synthetic people, on places; and how the others move."""

    design: EqualDesign
    zone: str
    walks: dict[str, Walk]
    mechanism: Callable[[float], Mechanism]
    models: dict[str, MovementModel]
    homes: dict[str, dict[str, Array]]

    @classmethod
    def of(cls, design: EqualDesign) -> City:
        """Return the people of a design."""
        city = SyntheticCity(users=design.people, days=design.days, seed=design.seed)
        paths = pl.concat([city.whole_path(number) for number in range(design.people)])
        everybody = paths.with_columns(user=pl.lit("everybody"))
        profile = personal_profile(
            everybody, design.places, zone=city.zone, cell_km=(0.5, 0.5)
        ).profile
        places = profile.places

        @lru_cache(maxsize=4)
        def mechanism(epsilon: float) -> Mechanism:
            return optimal(places, profile.prior, epsilon, dilation=1.1)

        walks = {}
        for user, walk in walks_of(paths).items():
            there = ~snap(places, walk.latlon).outside
            walks[user] = Walk(user, walk.times_s[there], walk.latlon[there])
        homes = {}
        for number in range(design.people):
            where = Walk(city.name(number), np.arange(2.0), city.home_and_work(number)).xy(places)
            homes[city.name(number)] = {"home": where[0], "work": where[1]}
        models = population_models(walks, places, city.zone)
        return cls(design, city.zone, walks, mechanism, models, homes)

    def rows(self, policy: str) -> list[Row]:
        """Return one row for each day of reports: the errors of the guessed homes."""
        epsilon, spent = self.level(policy)
        mechanism = self.mechanism(epsilon)
        rng = np.random.default_rng(self.design.seed)
        found = expose(
            mechanism, self.walks, policy, models=self.models, zone=self.zone, homes=self.homes,
            rng=rng,
        )  # fmt: skip
        best = _best(found)
        moves = float(np.mean([self.moves_told(policy, mechanism, user) for user in self.walks]))
        homes = [one.found["home"] for one in found if "home" in one.found]
        days = min(len(home.errors_km) for home in homes)
        common = {
            "policy": policy, "people": len(found), "epsilon_of_draw": epsilon,
            "epsilon_per_day": spent, "attack": best,
            "report_error_km": float(np.mean([one.report_error_km for one in found])),
            "attack_error_km": float(np.mean([one.scores[best].mean_error_km for one in found])),
            "attack_success": float(np.mean([one.scores[best].success_rate for one in found])),
            "recognised": sum(one.rank == 1 for one in found),
            "moves_told": moves,
        }  # fmt: skip
        return [
            {
                "day": day + 1, **common,
                "home_error_km": float(np.median([home.errors_km[day] for home in homes])),
                "homes_within_300m": sum(home.errors_km[day] <= 0.3 for home in homes),
            }
            for day in range(days)
        ]  # fmt: skip

    def level(self, policy: str) -> tuple[float, float]:
        """Return the epsilon of a draw that spends the budget, and what is spent in a day."""
        epsilon = self.design.budget / _REPORTS_PER_DAY
        spent = self._spent(policy, epsilon)
        for _ in range(_ROUNDS):
            if abs(spent / self.design.budget - 1) < 0.01:
                break
            epsilon *= self.design.budget / spent
            spent = self._spent(policy, epsilon)
        return epsilon, spent

    def _spent(self, policy: str, epsilon: float) -> float:
        """Return what is spent in a day, on average over the people."""
        rng = np.random.default_rng(self.design.seed)
        if policy == "filtered":
            policy = "independent"  # the same draws
        mechanism = self.mechanism(epsilon)
        each = []
        for user, walk in self.walks.items():
            run = simulate(policy, mechanism, self.models[user], walk.times_s, walk.latlon, rng)
            each.append(run.epsilon / len(np.unique(np.floor(walk.times_s / _DAY_S))))
        return float(np.mean(each))

    def moves_told(self, policy: str, mechanism: Mechanism, user: str) -> float:
        """Return how well "the report has changed" tells that somebody has moved to another place.

        It is the mean of the share of moves with a change and the share of stays without one: 0.5
        tells nothing, 1 everything.
        """
        walk = self.walks[user]
        rng = np.random.default_rng(self.design.seed)
        run = simulate(policy, mechanism, self.models[user], walk.times_s, walk.latlon, rng)
        place = snap(mechanism.inputs, walk.latlon).rows
        return balanced(np.diff(place) != 0, np.diff(run.outputs) != 0)


@lru_cache(maxsize=1)
def city_of(design: EqualDesign) -> City:
    """Return the people of a design: the same for all policies."""
    return City.of(design)


def balanced(truth: NDArray[np.bool_], said: NDArray[np.bool_]) -> float:
    """Return the balanced accuracy of a yes or no.

    >>> balanced(np.array([True, True, False, False]), np.array([True, False, False, False]))
    0.75
    """
    return float((said[truth].mean() + (~said[~truth]).mean()) / 2)


def _best(found: list[Exposure]) -> str:
    """Return the attack on the way with the smallest mean error."""
    return min(
        found[0].scores,
        key=lambda name: float(np.mean([one.scores[name].mean_error_km for one in found])),
    )
