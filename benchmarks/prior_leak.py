"""What a mechanism tells of the prior it was built for: inverse optimisation from its counts.

    python benchmarks/prior_leak.py [--people 10] [--levels 0.3,0.65,1.3] [--quick]

The attacker holds a file without a prior: places, epsilon and the counts K. K is optimal for a
prior p exactly if there are multipliers y >= 0 of the privacy rows and u of the row sums with

    p(x) d(x, z) - (A'y)(x, z) - u(x) >= 0 for all x, z    and    sum of u = loss of K under p:

weak duality without a gap (docs/theory/programs.md). All of it is linear in (p, y, u), so that the
priors for which K is optimal, up to the gap that a solver leaves, form a polytope. The guess is
the mean of vertices in random directions. The people are made up (SyntheticCity), on the 48 cells
of the embedded city; the first one is the embedded city's.

Reported: total variation between guess and prior (0: found, 1: disjoint), correlation, how often
the likeliest place is found, and how many of the five likeliest. With a blur, once for an attacker
who does not know of it, and once for one who knows its share and what was mixed in.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import whereish as wh
from whereish.measures import TOTAL
from whereish.profiles import ALL_DAY, PERIODS, SquareCells, count_visits, region_priors

Array = NDArray[np.float64]
LEVELS_KM = (0.3, 0.65, 1.3)  # twice as likely, at most, at this distance
BLURS: tuple[float, ...] = (0.1, 0.3, 0.5)
VERTICES = 32
_NEARLY_TIGHT = 0.02  # rows of the program with more room in the exponent have no multiplier
_CUTS_AT_ONCE, _BROKEN = 20, 1e-6
_SUM = 1000.0  # the priors sum to this in the program: HiGHS' tolerances are absolute
_RESULTS = Path(__file__).parent / "results" / "prior_leak.json"
_CELLS = {"south": 48.843, "west": 2.29, "north": 48.891, "east": 2.3845}


@dataclass(frozen=True)
class Leak:
    """How near a guess is to a prior."""

    total_variation: float
    correlation: float
    home_found: bool
    top_five_found: int


@dataclass(frozen=True)
class Row:
    """One guess, against whom and by whom."""

    person: int
    within_km: float
    blur: float
    mixed_with: str
    attacker: str
    leak: Leak
    loss_km: float
    least_loss_km: float


def compared(guess: Array, prior: Array) -> Leak:
    """Compare a guess with the truth."""
    top = {int(x) for x in np.argsort(-prior, kind="stable")[:5]}
    guessed = {int(x) for x in np.argsort(-guess, kind="stable")[:5]}
    flat = guess.std() == 0 or prior.std() == 0
    return Leak(
        float(np.abs(guess - prior).sum() / 2),
        0.0 if flat else float(np.corrcoef(guess, prior)[0, 1]),
        bool(guess.argmax() == prior.argmax()) and not flat,
        0 if flat else len(top & guessed),
    )


class Inversion:
    """The polytope of priors for which given counts are optimal, and points of it."""

    def __init__(
        self,
        counts: NDArray[np.uint64],
        distance: Array,
        epsilon: float,
        loss_km: float | None = None,
        at_least: Array | None = None,
    ) -> None:
        """Write the program.

        Parameters
        ----------
        loss_km
            A loss or a bound that stands in the file: one more equation.
        at_least
            (n,) what the prior has at least: share times public prior, of a blur that is known.
        """
        n = len(distance)
        self._n, self._floor = n, np.zeros(n) if at_least is None else at_least
        channel = counts.astype(np.float64) / TOTAL
        matrix = _program(channel, distance, epsilon)
        self._cuts = _useless(channel, distance, epsilon)
        self._columns = matrix.shape[1]
        reported = (channel * distance).sum(axis=1)
        more = np.zeros((3, self._columns))
        more[0, :n] = 1.0  # the prior sums to 1
        more[1, :n], more[1, n : 2 * n] = reported, -1.0  # the duality gap
        more[2, :n] = reported  # the loss
        rows = sparse.vstack([matrix, sparse.csr_matrix(more)]).tocsc()
        known = np.array([-np.inf, np.inf])
        if loss_km is not None:
            known = _SUM * loss_km * np.array([1 - 1e-6, 1 + 1e-6])
        zero = np.zeros(matrix.shape[0])
        low = np.concatenate([zero, [_SUM, -np.inf, known[0]]])
        high = np.concatenate([zero + np.inf, [_SUM, np.inf, known[1]]])
        self._highs = self._model(rows, low, high)
        # How good the best prior is, and then all that are as good or nearly.
        self._best = self._solve(more[1])
        gap = float(more[1] @ self._best)
        room = 2 * max(gap, 0.0) + 1e-6 * float(reported @ self._best[:n])
        self._highs.changeRowBounds(matrix.shape[0] + 1, -highspy.kHighsInf, room)

    def guess(self, vertices: int = VERTICES, seed: int = 0) -> Array:
        """Return the mean of vertices in random directions."""
        rng = np.random.default_rng(seed)
        found = [self._best[: self._n]] if vertices == 0 else []
        for _ in range(vertices):
            cost = np.zeros(self._columns)
            cost[: self._n] = rng.normal(size=self._n)
            found.append(self._solve(cost)[: self._n])
        mean = np.maximum(np.mean(found, axis=0) / _SUM, 0.0)
        return np.asarray(mean / mean.sum())

    def _solve(self, cost: Array) -> Array:
        """Solve, add the cuts that the answer breaks, and solve again until there is none."""
        names = np.arange(self._columns, dtype=np.int32)
        self._highs.changeColsCost(self._columns, names, cost)
        while True:
            found = self._run()
            value = self._cuts @ found[: 2 * self._n]
            broken = np.argsort(value)[:_CUTS_AT_ONCE]
            broken = broken[value[broken] < -_BROKEN]
            if not len(broken):
                return found
            for row in self._cuts[broken]:
                self._highs.addRow(0.0, highspy.kHighsInf, len(row), names[: len(row)], row)
            self._cuts = np.delete(self._cuts, broken, axis=0)

    def _run(self) -> Array:
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self._highs.clearSolver()  # from nothing, without what the last answer left
            self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS: {self._highs.getModelStatus()}")
        return np.array(self._highs.getSolution().col_value)

    def _model(self, rows: Any, low: Array, high: Array) -> Any:
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = rows.shape
        least = np.zeros(self._columns)
        least[: self._n] = _SUM * self._floor
        least[self._n : 2 * self._n] = -highspy.kHighsInf
        model.col_lower_, model.col_upper_ = least, np.full(self._columns, highspy.kHighsInf)
        model.col_cost_ = np.zeros(self._columns)
        model.row_lower_ = np.maximum(low, -highspy.kHighsInf)
        model.row_upper_ = np.minimum(high, highspy.kHighsInf)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = rows.indptr, rows.indices
        model.a_matrix_.value_ = rows.data
        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.passModel(model)
        return highs


def _program(matrix: Array, distance: Array, epsilon: float) -> Any:
    """Return the rows p(x) d(x, z) - (A'y)(x, z) - u(x) >= 0 of the outputs that are reported.

    Its columns are p, u and y. A multiplier of the row k(b, z) >= exp(-eps d(a, b)) k(a, z) counts
    + y at (b, z) and - y exp(-eps d) at (a, z).
    """
    n = len(distance)
    x, apart = np.arange(n), ~np.eye(n, dtype=bool)
    rows, columns, values = [], [], []
    used, here = 2 * n, 0
    for z in np.flatnonzero(matrix.max(axis=0) > 0):
        logs = np.log(matrix[:, z])
        room = logs[None, :] - logs[:, None] + epsilon * distance
        a, b = np.nonzero((room < _NEARLY_TIGHT) & apart)
        names = used + np.arange(len(a))
        used += len(a)
        rows += [here + b, here + a, here + x, here + x]
        columns += [names, names, x, n + x]
        values += [
            -np.ones(len(a)), np.exp(-epsilon * distance[a, b]), distance[:, z], -np.ones(n),
        ]  # fmt: skip
        here += n
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_matrix(entries, shape=(here, used))


def _useless(matrix: Array, distance: Array, epsilon: float) -> Array:
    """Return rows in p and u which say that an output that is never reported does not pay.

    sum of k(x) (p(x) d(x, z) - u(x)) >= 0 must hold for every private column k: the steepest
    around each place are taken.
    """
    steepest = np.exp(-epsilon * distance)
    unused = np.flatnonzero(matrix.max(axis=0) == 0)
    rows = [np.hstack([steepest * distance[:, z], -steepest]) for z in unused]
    return np.concatenate([np.empty((0, 2 * len(distance))), *rows])


def people(count: int, first: int = 0) -> tuple[wh.Places, list[Array]]:
    """Return the cells of the embedded city, and how likely each made-up person is at each."""
    cells = SquareCells.over(**_CELLS, cell_km=(0.87, 0.89))
    city = wh.SyntheticCity(first + count, seed=57, lat=cells.plane.lat, lon=cells.plane.lon)
    priors = []
    for number in range(first, first + count):
        visits = count_visits(city.person(number), cells, city.zone)
        (found,) = region_priors(visits, cells.all_ids, {ALL_DAY: PERIODS[ALL_DAY]}).values()
        priors.append(np.asarray(found[ALL_DAY]))
    return cells.places(cells.all_ids), priors


def attacks(
    person: int, places: wh.Places, prior: Array, public: Array, within_km: float,
    blurs: tuple[float, ...] = BLURS, vertices: int = VERTICES,
) -> Iterator[Row]:  # fmt: skip
    """Attack one person's mechanism at one level, with and without a blur."""
    distance, epsilon = wh.euclidean(places), math.log(2) / within_km
    best = wh.optimal(places, prior, epsilon)
    least = wh.quality_loss(best, prior)

    def row(blur: float, mixed: str, who: str, guess: Array, loss: float) -> Row:
        leak = compared(guess, prior)
        return Row(person, within_km, blur, mixed, who, leak, loss, least)

    n = len(prior)
    flat = np.full(n, 1 / n)
    yield row(0.0, "", "no file, uniform guess", flat, least)
    yield row(0.0, "", "no file, public guess", public, least)
    yield row(0.0, "", "counts", Inversion(best.counts, distance, epsilon).guess(vertices), least)
    told = Inversion(best.counts, distance, epsilon, best.build.lower_bound_km)
    yield row(0.0, "", "counts and lower_bound_km", told.guess(vertices), least)
    for name, other in (("uniform", flat), ("public", public)):
        for blur in blurs:
            mixed = wh.blur_prior(prior, blur, other)
            made = wh.optimal(places, mixed, epsilon)
            loss = wh.quality_loss(made, prior)
            guess = Inversion(made.counts, distance, epsilon).guess(vertices)
            yield row(blur, name, "blur not known", guess, loss)
            known = Inversion(made.counts, distance, epsilon, at_least=blur * other)
            own = np.maximum((known.guess(vertices) - blur * other) / (1 - blur), 0.0)
            yield row(blur, name, "blur known, undone", own / own.sum(), loss)
        made = wh.optimal(places, other, epsilon)
        loss = wh.quality_loss(made, prior)
        yield row(1.0, name, "any", other, loss)


def table(rows: list[Row]) -> str:
    """Return the means as a table in Markdown."""
    lines = [
        "| twice at | blur | attacker | total variation | correlation | home found "
        "| of the five likeliest | loss | more than without a blur |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    seen: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row.within_km, row.blur, row.mixed_with, row.attacker)
        seen.setdefault(key, []).append(row)
    for (within, blur, mixed, attacker), some in seen.items():
        leaks = [row.leak for row in some]
        tv = [leak.total_variation for leak in leaks]
        home = sum(leak.home_found for leak in leaks)
        more = np.mean([row.loss_km - row.least_loss_km for row in some]) * 1000
        what = f"{blur:.0%} {mixed}" if blur else "none"
        lines.append(
            f"| {within * 1000:.0f} m | {what} | {attacker} | {np.mean(tv):.2f} "
            f"({min(tv):.2f} to {max(tv):.2f}) | {np.mean([x.correlation for x in leaks]):.2f} "
            f"| {home} of {len(some)} | {np.mean([x.top_five_found for x in leaks]):.1f} "
            f"| {np.mean([row.loss_km for row in some]) * 1000:.0f} m | {more:.0f} m |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=10)
    parser.add_argument("--levels", default=",".join(map(str, LEVELS_KM)), help="km, with commas")
    parser.add_argument("--quick", action="store_true", help="two people, one level, one blur")
    flags = parser.parse_args()
    levels = tuple(float(part) for part in flags.levels.split(","))
    count, blurs = flags.people, BLURS
    if flags.quick:
        count, levels, blurs = 2, (0.65,), (0.3,)
    places, priors = people(count)
    # What a town's statistics might say: the mean of twenty others.
    public = np.mean(people(20, first=100)[1], axis=0)
    rows: list[Row] = []
    begun = time.perf_counter()
    for within_km in levels:
        for person, prior in enumerate(priors):
            rows += attacks(person, places, prior, public, within_km, blurs)
            took = time.perf_counter() - begun
            print(f"{within_km} km, person {person}: {took:.0f} s", file=sys.stderr, flush=True)
            told = {"python": platform.python_version(), "vertices": VERTICES}
            _RESULTS.parent.mkdir(exist_ok=True)
            _RESULTS.write_text(json.dumps({**told, "rows": [asdict(row) for row in rows]}))
    print(table(rows))


if __name__ == "__main__":
    main()
