"""The rows of a study of mechanisms: data x person x epsilon x mechanism, and their medians."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec

import numpy as np

from whereish.errors import SolveError, WhereishError
from whereish.measures import quality_loss
from whereish.mechanisms import Request, optimal
from whereish.studies.field.map_error import REPORTS
from whereish.studies.field.people import FieldData
from whereish.studies.field.registry import FIELD, FieldMechanism
from whereish.studies.field.scores import MEASURES, NONE, scores
from whereish.studies.runs import Part, Row

PEOPLE, SUMMARY, CLAIMS, MECHANISMS = "people", "summary", "claims", "mechanisms"
_PACKAGES = ("numpy", "scipy", "highspy", "qif")
_WEIGHTS = {"qif": 20.0, "joint optimum": 3.0}  # seconds of the slow ones, for the progress


@dataclass(frozen=True)
class FieldDesign:
    """What is studied.

    Attributes
    ----------
    epsilons
        Per km.
    seed
        Of the people and of the reports for the map.
    reports
        For the map.
    time_limit_s
        Of each mechanism.
    """

    epsilons: tuple[float, ...] = (0.5, 1.07, 2.0)
    seed: int = 0
    reports: int = REPORTS
    time_limit_s: float = 600.0


def field_parts(
    data: Sequence[FieldData], design: FieldDesign, mechanisms: dict[str, FieldMechanism]
) -> list[Part]:
    """Return a part for each data set, epsilon, person and mechanism: one row."""
    parts = []
    for some in data:
        for epsilon in design.epsilons:
            for person in range(len(some.priors)):
                for entry in mechanisms.values():
                    name = f"{some.name}, person {person}, epsilon {epsilon:g}, {entry.name}"
                    work = _row(some, person, epsilon, entry, design)
                    parts.append(Part(PEOPLE, name, work, _WEIGHTS.get(entry.name, 0.5)))
    return parts


def _row(
    data: FieldData, person: int, epsilon: float, entry: FieldMechanism, design: FieldDesign
) -> Callable[[], list[Row]]:
    def work() -> list[Row]:
        start: Row = {
            "data": data.name, "person": person, "places": len(data.places),
            "asked_epsilon_per_km": epsilon, "mechanism": entry.name,
        }  # fmt: skip
        prior = data.priors[person]
        try:
            asked = Request(
                data.places, prior, epsilon, _least_loss(data, person, epsilon),
                time_limit_s=design.time_limit_s,
            )  # fmt: skip
            clock, processor = time.perf_counter(), _cpu_s()
            made = entry.make(asked)
            used, spent = _cpu_s() - processor, time.perf_counter() - clock
            # All mechanisms of a person and an epsilon are measured with the same reports' seed.
            key = zlib.crc32(f"{data.name} {person} {epsilon!r}".encode())
            measured = scores(
                made, data.places, prior, data.other(person), [design.seed, key], design.reports
            )
        except WhereishError as wrong:
            return [{**start, "problem": str(wrong)}]
        except Exception as wrong:
            if entry.name not in FIELD:
                raise
            # The words of an error of somebody's constructor may hold a place or a share.
            return [{**start, "problem": f"its constructor raised {type(wrong).__name__}"}]
        return [{**start, **measured, "cpu_s": used, "seconds": spent, "problem": None}]

    return work


@lru_cache(maxsize=64)
def _least_loss(data: FieldData, person: int, epsilon: float) -> float:
    """Return the loss of the optimal mechanism: what others are given as their loss."""
    best = optimal(data.places, data.priors[person], epsilon)
    if best.build.stopped is not None:
        raise SolveError(f"the optimal mechanism was not finished: {best.build.stopped}")
    return quality_loss(best, data.priors[person])


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the median over people for each data set, epsilon and mechanism.

    A mechanism that could not be built for some people has the median of the others, and how many
    these are. It has a guarantee only if it has it for all of them.
    """
    found = []
    keys = ("data", "asked_epsilon_per_km", "mechanism")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in keys) == key]
        built = [row for row in mine if row["problem"] is None]
        kinds = {row["guarantee"] for row in built}
        levels = [row["epsilon_per_km"] for row in built]
        found.append({
            **dict(zip(keys, key, strict=True)),
            "places": mine[0]["places"], "people": len(mine), "built": len(built),
            "guarantee": kinds.pop() if len(kinds) == 1 else NONE,
            "epsilon_per_km": None if None in levels else _median(levels),
            **{name: _median([row[name] for row in built]) for name in MEASURES},
            "problem": next((row["problem"] for row in mine if row["problem"]), None),
        })  # fmt: skip
    return found


def _median(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.median(numbers)) if numbers else None


def versions(version: str) -> str:
    """Return the versions that the numbers depend on, in one line."""
    there = [name for name in _PACKAGES if find_spec(name) is not None]
    return ", ".join([f"whereish {version}", *(f"{n} {metadata.version(n)}" for n in there)])


def _cpu_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return float(sum(os.times()[:4]))
