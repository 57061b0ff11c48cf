"""The people of a study of mechanisms: a synthetic city, GeoLife, or check-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whereish.places import Array, Places
from whereish.profiles import (
    ALL_DAY,
    PAPER_CELL_KM,
    PERIODS,
    Cohort,
    area_cells,
    count_visits,
    paper_profiles,
)
from whereish.studies.datasets import Choice, load_people
from whereish.traces import open_traces

CITY, GEOLIFE, CHECK_INS = "synthetic", "geolife", "check-ins"
_RADIUS_KM = 10.0  # of the area with the most check-ins
_ENOUGH = 20  # check-ins of a person at the places

Tell = Callable[[str, float], object]


@dataclass(frozen=True, eq=False)
class FieldData:
    """Some people on the same places. A person is a number; the data's own names are not kept.

    Attributes
    ----------
    name, title
        Of the data: a word, and some words.
    places, priors
        The places, and the prior of each person.
    recipe
        What they depend on, as JSON.
    """

    name: str
    title: str
    places: Places = field(repr=False)
    priors: tuple[Array, ...] = field(repr=False)
    recipe: Any = field(repr=False)

    def other(self, person: int) -> Array | None:
        """Return the prior of another person: the next one; None if there is no other."""
        return None if len(self.priors) < 2 else self.priors[(person + 1) % len(self.priors)]


def load_city(users: int, days: int, places: int, people: int, seed: int) -> FieldData:
    """Make a synthetic city, and take some of its people."""
    found = load_people(Choice(users=users, days=days, places=places, seed=seed))
    return _some(CITY, found.title, found.cohort, people, seed, found.recipe)


def load_geolife(
    folder: Path, places: int, people: int, seed: int, tell: Tell | None = None
) -> FieldData:
    """Read GeoLife, and take some of its people; priors are those of the paper."""
    choice = Choice(dataset=GEOLIFE, data=folder, places=places, seed=seed)
    found = load_people(choice, progress=_told(tell))
    return _some(GEOLIFE, found.title, found.cohort, people, seed, found.recipe)


def load_check_ins(
    file: Path, places: int, people: int, seed: int, tell: Tell | None = None
) -> FieldData:
    """Read check-ins in the format of SNAP, in the area with the most of them.

    The cells are those of the paper, within 10 km. People have at least twenty check-ins there.
    """
    traces = open_traces(file, "snap")
    cells = area_cells(traces, PAPER_CELL_KM, _RADIUS_KM, progress=_told(tell))
    visits = count_visits(traces, cells, progress=_told(tell))
    cohort = paper_profiles(
        visits, window_days=None, at_least=_ENOUGH, places=places,
        periods={ALL_DAY: PERIODS[ALL_DAY]},
    )  # fmt: skip
    title = "check-ins in the area with the most of them"
    return _some(CHECK_INS, title, cohort, people, seed, traces.digest())


def _some(name: str, title: str, cohort: Cohort, people: int, seed: int, recipe: Any) -> FieldData:
    order = np.random.default_rng(seed).permutation(len(cohort.users))[:people]
    users = sorted(cohort.users)
    priors = tuple(cohort.priors[users[k]][ALL_DAY] for k in order.tolist())
    made_of = [name, recipe, len(cohort.places), people, seed]
    return FieldData(name, title, cohort.places, priors, made_of)


def _told(tell: Tell | None) -> Any:
    if tell is None:
        return None
    return lambda done, files, rows: tell(f"{rows:,} points", done / max(files, 1))
