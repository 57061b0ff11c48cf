"""The people of an evaluation: GeoLife, taxis of T-Drive, or a synthetic city."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.profiles import (
    ALL_DAY,
    PAPER_CELL_KM,
    PERIODS,
    Cohort,
    Profile,
    SquareCells,
    SyntheticCity,
    Visits,
    count_visits,
    paper_profiles,
    traces_by_file,
)
from whereish.traces import open_traces

DATASETS = ("synthetic", "geolife", "t-drive")
BEIJING = (39.68, 116.08, 40.18, 116.72)  # the area inside the 6th Ring Road
_BEIJING_ZONE = "Asia/Shanghai"
_SHARE_OF_TAXIS = 0.05


@dataclass(frozen=True)
class Choice:
    """The choice of a data set, and the parameters of its cohort; by default those of the paper.

    Attributes
    ----------
    dataset, data
        One of `DATASETS`, and its folder.
    users
        The number of people of the synthetic city, or of taxis that are drawn (by default 5 %).
    days, seed
        Of the synthetic city; the seed also draws the taxis.
    places, top, at_least, window_days, cell_km, periods
        Of the pipeline, see `paper_profiles`.
    """

    dataset: str = "synthetic"
    data: Path | None = None
    users: int | None = None
    days: int = 90
    seed: int = 0
    places: int = 50
    top: int = 30
    at_least: int = 20
    window_days: int = 90
    cell_km: tuple[float, float] = PAPER_CELL_KM
    periods: Mapping[str, tuple[int, int]] = field(default_factory=lambda: dict(PERIODS))

    def __post_init__(self) -> None:
        if ALL_DAY not in self.periods:
            raise InputError(f"periods must hold {ALL_DAY!r}, got {', '.join(self.periods)}")
        if self.dataset not in DATASETS:
            raise InputError(f"dataset must be one of {', '.join(DATASETS)}, got {self.dataset!r}")
        if (self.data is None) != (self.dataset == "synthetic"):
            need = "needs no data" if self.dataset == "synthetic" else "needs its folder: data"
            raise InputError(f"dataset {self.dataset} {need}, got {self.data}")


@dataclass(frozen=True, eq=False)
class People:
    """A cohort to evaluate, and the data that it was made of.

    Attributes
    ----------
    cohort
        People on the same places.
    title
        A description of the people.
    recipe
        What the cohort depends on, as JSON: the same recipe gives the same people.
    visits, choice
        The visits that the cohort was made of, and the choice.
    twin
        A second cohort, for which the comparison is repeated, as the paper does for T-Drive.
    """

    cohort: Cohort
    title: str
    recipe: Any
    visits: Visits
    choice: Choice
    twin: Cohort | None = None

    def sizes(self, sizes: tuple[int, ...]) -> dict[int, Profile]:
        """Return the profile of one person on each number of places that the data allow."""
        found = {}
        for size in sizes:
            cohort = self.cohort
            if size != len(cohort.places):
                cohort = _cohort(self.visits, replace(self.choice, places=size))
            # A person whose all-day prior has the median skew.
            if len(cohort.places) == size:
                found[size] = cohort.profile(_typical(cohort))
        return found


def load_people(choice: Choice, *, progress: Any = None, cache: Path | None = None) -> People:
    """Read or generate the people of a choice."""
    if choice.dataset == "synthetic":
        return _synthetic(choice)
    users = _some_taxis(choice) if choice.dataset == "t-drive" else None
    traces = open_traces(choice.data or "", choice.dataset, users=users)
    cells = SquareCells.over(*BEIJING, choice.cell_km)
    visits = count_visits(traces, cells, _BEIJING_ZONE, progress=progress, cache=cache)
    if choice.dataset == "geolife":
        visits = traces_by_file(visits, traces)
        title = "GeoLife"
    else:
        title = f"T-Drive, {len(traces.users or ())} taxis drawn at random"
    return People(_cohort(visits, choice), title, traces.digest(), visits, choice)


def _synthetic(choice: Choice) -> People:
    city = SyntheticCity(users=choice.users or 100, days=choice.days, seed=choice.seed)
    title = f"a synthetic city of {city.users} people, {city.days} days each"
    recipe = ["city", city.users, city.days, city.seed]
    visits = _city_visits(city, choice)
    twin = _cohort(_city_visits(replace(city, seed=city.seed + 1), choice), choice)
    return People(_cohort(visits, choice), title, recipe, visits, choice, twin)


def _city_visits(city: SyntheticCity, choice: Choice) -> Visits:
    import polars as pl

    cells = SquareCells.over(*city.area, choice.cell_km)
    return count_visits(pl.concat(city.people()), cells, city.zone)


def _cohort(visits: Visits, choice: Choice) -> Cohort:
    return paper_profiles(
        visits, window_days=choice.window_days, at_least=choice.at_least, top=choice.top,
        places=choice.places, periods=choice.periods,
    )  # fmt: skip


def _some_taxis(choice: Choice) -> list[str]:
    """Draw some of the taxis at random, as in Section 4.4; there is a file for each taxi."""
    taxis = sorted(
        {file for _, files in open_traces(choice.data or "", "t-drive").groups for file in files}
    )
    names = [file.name.partition(".")[0] for file in taxis]
    count = choice.users or max(1, round(_SHARE_OF_TAXIS * len(names)))
    rng = np.random.default_rng(choice.seed)
    return sorted(rng.choice(names, min(count, len(names)), replace=False).tolist())


def _typical(cohort: Cohort) -> str:
    """Return the person whose prior is nearest to the median skew, the sum of squares."""
    skew = {user: float((cohort.priors[user][ALL_DAY] ** 2).sum()) for user in cohort.users}
    middle = float(np.median(list(skew.values())))
    return min(skew, key=lambda user: (abs(skew[user] - middle), user))
