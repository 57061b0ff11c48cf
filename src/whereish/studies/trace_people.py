"""The people of the study of traces: GeoLife, or a synthetic city; and models of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.places import Array, LocalPlane
from whereish.profiles import SyntheticCity
from whereish.studies.datasets import BEIJING
from whereish.studies.trace_model import PlaneModel
from whereish.studies.trace_protocol import Rules, Trace, select_traces
from whereish.studies.trace_tuning import folds_of
from whereish.traces import open_traces

TRACE_DATASETS = ("synthetic", "geolife")


@dataclass(frozen=True, eq=False)
class TracePeople:
    """Traces of people who are divided into folds; the model of a fold is of the other folds.

    Attributes
    ----------
    dataset, title
        One of `TRACE_DATASETS`, and the people in words.
    traces
        The traces that the rules of the protocol select.
    corners
        (2, 2) km: the south-west and north-east corners of the area.
    recipe
        What the traces depend on, as JSON.
    seed
        Draws the folds.
    """

    dataset: str
    title: str
    traces: list[Trace] = field(repr=False)
    corners: Array = field(repr=False)
    recipe: Any = field(repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.people) < 2:
            raise InputError(
                "the traces of at least two people must fit the protocol, and they do not: at "
                "least 20 points and 20 minutes, below 15 km/h, in the area"
            )

    @cached_property
    def people(self) -> list[str]:
        """The people, in order."""
        return sorted({trace.user for trace in self.traces})

    @cached_property
    def fold(self) -> dict[str, int]:
        """The fold of each person."""
        return folds_of(self.traces, self.seed)

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return max(self.fold.values()) + 1

    def model(self, fold: int) -> PlaneModel:
        """Return the model for the people of a fold: counted from all others."""
        return self._models[fold]

    @cached_property
    def _models(self) -> list[PlaneModel]:
        fold = np.array([self.fold[trace.user] for trace in self.traces])
        return PlaneModel.without(self.traces, fold, self.folds, self.corners)


def load_trace_people(
    dataset: str = "synthetic",
    data: Path | None = None,
    *,
    users: int = 60,
    days: int = 20,
    rules: Rules | None = None,
    seed: int = 0,
    progress: Callable[[str, float], object] | None = None,
) -> TracePeople:
    """Read or generate people, and select their traces.

    Parameters
    ----------
    data
        The folder of GeoLife.
    users, days
        Of the synthetic city.
    progress
        Called with what was read, and the share that is done.
    """
    if dataset not in TRACE_DATASETS:
        raise InputError(f"dataset must be one of {', '.join(TRACE_DATASETS)}, got {dataset!r:.40}")
    if (data is None) != (dataset == "synthetic"):
        need = "needs no data" if dataset == "synthetic" else "needs its folder: --data"
        raise InputError(f"dataset {dataset} {need}")
    tell = progress or (lambda words, share: None)
    if dataset == "synthetic":
        city = SyntheticCity(users=users, days=days, seed=seed)
        tables = city.people(lambda done: tell(f"{done} people", done / users))
        plane = LocalPlane(city.lat, city.lon)
        found = select_traces(tables, plane, city.area, rules, seed=seed)
        title = f"a synthetic city of {users} people, {days} days each"
        recipe = ["city", users, days, seed, repr(rules)]
        return TracePeople(dataset, title, found, _corners(plane, city.area), recipe, seed)
    source = open_traces(data or "", "geolife")
    plane = LocalPlane((BEIJING[0] + BEIJING[2]) / 2, (BEIJING[1] + BEIJING[3]) / 2)
    found = select_traces(
        source, plane, BEIJING, rules, seed=seed,
        progress=lambda done, files, rows: tell(f"{rows:,} points", done / files),
    )  # fmt: skip
    recipe = [source.digest(), seed, repr(rules)]
    return TracePeople(dataset, "GeoLife", found, _corners(plane, BEIJING), recipe, seed)


def _corners(plane: LocalPlane, area: tuple[float, float, float, float]) -> Array:
    """Return the corners of a rectangle around an area, whose borders are curved in the plane."""
    south, west, north, east = area
    xy = plane.to_xy([[lat, lon] for lat in (south, north) for lon in (west, east)])
    return np.array([xy.min(axis=0), xy.max(axis=0)])
