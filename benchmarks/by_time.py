"""What a prior for each period of the day buys, on people and days that it was not built for.

For each person, places and priors come from the first half of the recorded hours, and the loss is
measured on the second half, at the places of the first. `one` is the optimal mechanism for the
prior of the whole day, `by time` one for each period, at the same epsilon. Only medians over the
people are printed.

    python benchmarks/by_time.py                       # synthetic people
    python benchmarks/by_time.py --geolife DATA        # GeoLife: people with enough points
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

import whereish as wh
from whereish.profiles import ELSEWHERE, prior_by_time, profile_from_visits

BEIJING = (39.70, 116.10, 40.10, 116.70)
CELL_KM = (0.5, 0.5)
LEAST = 100  # visits in each half


@dataclass(frozen=True)
class Person:
    """Places of the first half, and the priors of both halves."""

    places: wh.Places
    train: wh.TimeDependentPrior
    test: wh.TimeDependentPrior
    visits: int


def halves(visits: wh.Visits, hours: tuple[int, ...], places: int) -> Iterator[Person]:
    periods = wh.DayPeriods(hours, visits.zone)
    inside = visits.table.filter(pl.col("region") != ELSEWHERE)
    for user in visits.users:
        own = inside.filter(user=user)
        if len(own) < 2 * LEAST:
            continue
        middle = own["hour"].sort()[len(own) // 2]
        first, second = own.filter(pl.col("hour") < middle), own.filter(pl.col("hour") >= middle)
        if min(len(first), len(second)) < LEAST:
            continue
        where = profile_from_visits(replace(visits, table=first), user, places).profile.places
        lat, lon = np.asarray(where.latlon).T
        ids = np.sort(visits.regions.of(lat, lon))
        train, test = (_counted(half, ids, periods) for half in (first, second))
        if train is not None and test is not None:
            yield Person(where, train, test, len(first))


def _counted(
    half: pl.DataFrame, ids: NDArray[np.int64], periods: wh.DayPeriods
) -> wh.TimeDependentPrior | None:
    """Count the priors of one half at the places, without smoothing; None for too few visits."""
    at, clock = half["region"].to_numpy(), half["clock"].to_numpy()
    there = np.isin(at, ids)
    if there.sum() < LEAST:
        return None
    return prior_by_time(np.searchsorted(ids, at[there]), clock[there], len(ids), periods, 0.0)


def losses(person: Person, epsilon: float, smoothings: tuple[float, ...]) -> dict[str, float]:
    """Return the loss in km of each choice, on the first and on the second half."""
    train = person.train
    shares = [visits / (person.visits + visits) for visits in smoothings]
    own = [(1 - share) * train.priors + share * train.prior for share in shares]
    each = wh.optimal_each(person.places, np.vstack([train.prior[None], *own]), epsilon, threads=1)
    away = wh.euclidean(person.places)
    rows = np.array([(made.matrix * away).sum(axis=1) for made in each])
    found = {}
    for half, joint in (("first", train.joint), ("second", person.test.joint)):
        found[f"one, {half}"] = float((joint.sum(axis=0) * rows[0]).sum())
        for k, visits in enumerate(smoothings):
            part = rows[1 + k * len(joint) : 1 + (k + 1) * len(joint)]
            found[f"by time {visits:g}, {half}"] = float((joint * part).sum())
    return found


def synthetic(people: int, whole: bool) -> wh.Visits:
    city = wh.SyntheticCity(users=people, days=120, seed=7)
    tables = [city.whole_path(k) if whole else city.person(k) for k in range(people)]
    regions = wh.SquareCells.over(*city.area, CELL_KM)
    return wh.count_visits(pl.concat(tables), regions, city.zone)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--geolife")
    asked.add_argument("--whole", action="store_true", help="synthetic people at all hours")
    asked.add_argument("--people", type=int, default=30)
    asked.add_argument("--places", type=int, default=50)
    asked.add_argument("--hours", default="0,7,18")
    asked.add_argument("--epsilons", default="0.5,1.07,2")
    asked.add_argument("--smoothings", default="0,200", help="visits")
    given = asked.parse_args()
    hours = tuple(map(int, given.hours.split(",")))
    smoothings = tuple(map(float, given.smoothings.split(",")))
    if given.geolife:
        traces = wh.open_traces(given.geolife, "geolife")
        regions = wh.SquareCells.over(*BEIJING, CELL_KM)
        visits = wh.count_visits(traces, regions, "Asia/Shanghai")
    else:
        visits = synthetic(given.people, given.whole)
    everybody = list(halves(visits, hours, given.places))[: given.people]
    weights = np.median([person.train.weights for person in everybody], axis=0).round(2)
    count = np.median([person.visits for person in everybody])
    print(f"{len(everybody)} people, {given.places} places, hours {hours}, weights {weights}, "
          f"{count:.0f} visits in the first half")  # fmt: skip
    for epsilon in map(float, given.epsilons.split(",")):
        rows = [losses(person, epsilon, smoothings) for person in everybody]
        for half in ("first", "second"):
            one = np.array([row[f"one, {half}"] for row in rows])
            print(f"epsilon {epsilon:g}, {half} half: one {np.median(one):.3f} km")
            for visits_ in smoothings:
                own = np.array([row[f"by time {visits_:g}, {half}"] for row in rows])
                ratio, better = np.median(own / one), float((own < one).mean())
                print(f"  by time, smoothing {visits_:g}: {np.median(own):.3f} km, ratio to one "
                      f"{ratio:.3f}, better for {better:.0%}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
