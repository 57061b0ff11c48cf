"""Obfuscate whole traces of many people: one policy, and a budget for each person and period.

The rows of a batch are taken in rounds: the first row of every person, then the second one, and so
on. So the rows of one person are in their order, and those of different people are drawn at once.
All that is kept between two batches is one line of numbers for each person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from whereish.device.budget_manager import BudgetManager
from whereish.device.draw_schedule import budget_of
from whereish.device.drawing import DeviceMechanism, draw_at
from whereish.device.filtering import Movement
from whereish.device.ledger_file import PERIODS
from whereish.device.people_budgets import PeopleBudgets, Totals
from whereish.device.policies import NOTHING, POLICIES, Flags, Runs, TracePolicy, Whole
from whereish.device.reporter import squares_of
from whereish.device.table_rows import Batch, RowObfuscator
from whereish.device.table_times import check_times, seconds_of
from whereish.errors import InputError, described
from whereish.everywhere import Everywhere
from whereish.everywhere.mechanism import points_of
from whereish.places import Array, as_number
from whereish.release import snap


@dataclass(frozen=True, eq=False)
class OverTime:
    """How the traces of a table are reported: a policy, and a budget for each person and period.

    Attributes
    ----------
    policy
        "predictive", "filtered", "sporadic" or "sticky": see `whereish.Tracker`.
    new_places, budget
        The budget of a period: as a number of draws, or as epsilon. Without either there is none,
        which only a rate allows.
    period
        "hour", "day" or "week", in UTC.
    rate
        Seconds between two draws, or two tests.
    model, manager, later
        See `whereish.Tracker`.
    exceed
        Publish the rows beyond the budget too. Otherwise they are left out.
    """

    policy: str = "predictive"
    new_places: int | None = None
    budget: float | None = None
    period: str = "day"
    rate: float | None = None
    model: Movement | None = None
    manager: BudgetManager | None = None
    exceed: bool = False
    later: tuple[DeviceMechanism, ...] = ()

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(
                f"policy must be one of {', '.join(POLICIES)}, got {described(self.policy)}"
            )
        if self.period not in PERIODS:
            raise InputError(
                f"period must be one of {', '.join(PERIODS)}, got {described(self.period)}"
            )
        if self.new_places is not None and self.budget is not None:
            raise InputError("either budget or new_places must be given, got both")
        if self.new_places is None and self.budget is None and self.rate is None:
            raise InputError(
                'a budget or a rate must be given for reports over time, got neither: like "12 '
                'places a day" or 30min'
            )
        if self.policy == "sticky" and self.rate is not None:
            raise InputError("sticky reports take no rate, and one was given")
        if self.policy == "sticky" and self.later:
            raise InputError("sticky reports take no later mechanisms, and some were given")

    def epsilon_budget(self, epsilons: Sequence[float]) -> Fraction | None:
        """Return the budget of a period in epsilon, exactly; None without a limit."""
        if self.new_places is not None:
            return budget_of(epsilons, self.new_places)
        if self.budget is None:
            return None
        return Fraction(repr(float(as_number("budget", self.budget))))


@dataclass
class TraceObfuscator(RowObfuscator):
    """Obfuscates batches of rows with a policy over time."""

    over_time: OverTime = field(default_factory=OverTime)
    backwards: int = 0
    published: int = 0
    distance_km: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        asked, epsilon = self.over_time, self.mechanism.epsilon
        if epsilon is None:
            raise InputError(f"a policy needs a mechanism with an epsilon, got {self.mechanism!r}")
        self._people: dict[Any, int] = {}
        self._runs, self._trace_policy = Runs(), None
        test = 0.0
        epsilons: tuple[float, ...] = (float(epsilon),)
        if asked.policy != "sticky":
            self._trace_policy = TracePolicy(
                asked.policy, self.mechanism, manager=asked.manager, rate_s=asked.rate,
                model=asked.model, later=asked.later, period_s=PERIODS[asked.period],
            )  # fmt: skip
            test = self._trace_policy.prices.test
            epsilons = self._trace_policy.schedule.epsilons
        self._budgets = PeopleBudgets(
            epsilons, test, asked.epsilon_budget(epsilons), PERIODS[asked.period], asked.exceed
        )
        self._sticky: dict[int, dict[int, int]] = {}

    def obfuscated(self, helpers: ThreadPoolExecutor, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches with reports, one after the other: each needs the state before it."""
        for frame in batches:
            self.check_stopped()
            yield self._count(self._obfuscate(frame))

    def _obfuscate(self, frame: Any) -> Batch:
        import polars as pl

        read = self._read_points(frame)
        usable = np.flatnonzero(read.usable)
        reported = np.full(read.points.shape, np.nan)
        keep, outside = ~read.known, 0
        if len(usable) and not self.wrong and not read.wrong:
            times = seconds_of(frame[self.columns.time])[usable]
            self.untimed += int((~np.isfinite(times)).sum())
            located = self._locate(read.points[usable])
            outputs = np.full(len(usable), NOTHING, dtype=np.int64)
            if not self.untimed:
                outputs = self._reports_of(self._numbers(frame)[usable], located, times)
            sent = outputs != NOTHING
            places = self.mechanism.outputs
            self.distance_km += float(
                np.hypot(*(places.xy[outputs[sent]] - located.xy[sent]).T).sum()
            )
            self.published += int(sent.sum())
            keep[usable[sent]] = True
            shown = places.xy if places.latlon is None else places.latlon
            reported[usable[sent]] = shown[outputs[sent]]
            outside = located.outside
        after = self._with_reports(frame, reported).filter(pl.Series(keep))
        return Batch(after, frame, read.points, read.wrong, read.beyond, outside)

    def _locate(self, points: Array) -> _Located:
        if isinstance(self.mechanism, Everywhere):
            xy, _ = points_of(self.mechanism.outputs, points)
            onto = self.mechanism.projected(xy)
            return _Located(points, squares_of(onto), xy, int((onto != xy).any(axis=1).sum()))
        snapped = snap(self.mechanism.inputs, points)
        return _Located(snapped.rows, snapped.rows, snapped.xy, int(snapped.outside.sum()))

    def _numbers(self, frame: Any) -> Whole:
        """Return the number of the person of each row; all rows are of one person without users."""
        import polars as pl

        if self.columns.user is None:
            self._grow({None: 0})
            return np.zeros(len(frame), dtype=np.int64)
        users = frame[self.columns.user]
        known = pl.DataFrame({"who": users.unique(maintain_order=True)})
        for person in known["who"].to_list():
            self._people.setdefault(person, len(self._people))
        self._grow(self._people)
        codes = [self._people[person] for person in known["who"].to_list()]
        table = known.with_columns(code=pl.Series(codes, dtype=pl.Int64))
        found = pl.DataFrame({"who": users}).join(
            table, on="who", how="left", nulls_equal=True, maintain_order="left"
        )
        return np.asarray(found["code"].to_numpy(), dtype=np.int64)

    def _grow(self, people: dict[Any, int]) -> None:
        self._people = people
        self._runs.grow(len(people))
        self._budgets.grow(len(people))

    def _reports_of(self, who: Whole, located: _Located, times: Array) -> Whole:
        """Return the reports of rows, `NOTHING` for those that the budget does not cover."""
        outputs = np.full(len(who), NOTHING, dtype=np.int64)
        self.backwards += self._budgets.out_of_order(who, times)
        if self._trace_policy is None:
            return self._sticky_reports(who, located, times)
        for rows in rounds(who):
            self.check_stopped()
            outputs[rows] = self._round(
                self._trace_policy, who[rows], located.of(rows), times[rows]
            )
        return outputs

    def _round(self, policy: TracePolicy, who: Whole, located: _Located, times: Array) -> Whole:
        """Take one row of each of several people."""
        outputs = np.full(len(who), NOTHING, dtype=np.int64)
        self._budgets.advance(who, times)
        due, tested = policy.due(self._runs, who, times), policy.tested(self._runs, who)
        levels = policy.levels(self._runs, who, times)
        covered = due & self._budgets.covered(who, tested, levels)
        rest = ~due
        if rest.any():
            outputs[rest] = policy.repeated(self._runs, who[rest], times[rest])
        if covered.any():
            taken = policy.take(self._runs, who[covered], located.at[covered], times[covered])
            outputs[covered] = taken.outputs
            self._budgets.charge(
                who[covered], tested[covered], taken.fresh, located.place[covered], levels[covered]
            )
        return outputs

    def _sticky_reports(self, who: Whole, located: _Located, times: Array) -> Whole:
        """Return the same report for the same place in a period, as `Reporter` does."""
        outputs = np.full(len(who), NOTHING, dtype=np.int64)
        # Drawn for all rows at once. A draw that is not needed is never seen.
        drawn = draw_at(self.mechanism, located.at, times).outputs
        for rows in rounds(who):
            people = who[rows]
            for person in people[self._budgets.advance(people, times[rows])].tolist():
                self._sticky.pop(person, None)
            places = located.place[rows].tolist()
            known = [
                self._sticky.setdefault(person, {}).get(place, NOTHING)
                for person, place in zip(people.tolist(), places, strict=True)
            ]
            found = np.array(known, dtype=np.int64)
            new = found == NOTHING
            untested = np.zeros(len(rows), dtype=bool)
            first = np.zeros(len(rows), dtype=np.int64)
            new &= self._budgets.covered(people, untested, first)
            found[new] = drawn[rows[new]]
            for k in np.flatnonzero(new).tolist():
                self._sticky[int(people[k])][places[k]] = int(found[k])
            self._budgets.charge(
                people[new], untested[new], np.ones(int(new.sum()), bool), located.place[rows[new]],
                first[new],
            )  # fmt: skip
            outputs[rows] = found
        return outputs

    def finish(self) -> None:
        """Raise InputError if values, times or columns are unusable."""
        check_times(self.columns.time, self.untimed)
        if self.backwards:
            raise InputError(
                f"the rows of each person must be in the order of time, and {self.backwards:,} are "
                "before the row above them: sort the table by time first"
            )
        super().finish()

    def totals(self) -> Totals:
        """Return what was spent, published and left out."""
        known = self.rows - self.blank
        mean = self.distance_km / self.published if self.published else None
        return self._budgets.totals(
            self.over_time.policy, self.over_time.period, self.published, known - self.published,
            mean,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Located:
    """True locations: for draws, as numbers of places, in km; and how many are outside."""

    at: Any
    place: Whole
    xy: Array
    outside: int = 0

    def of(self, rows: Whole) -> _Located:
        """Return those of some rows."""
        return _Located(self.at[rows], self.place[rows], self.xy[rows])


def rounds(who: Whole) -> Iterator[Whole]:
    """Yield rows, at most one of each person at a time, so that each person's are in order.

    >>> [rows.tolist() for rows in rounds(np.array([7, 8, 7, 7, 8]))]
    [[0, 1], [2, 4], [3]]
    """
    order = np.argsort(who, kind="stable")
    ordered = who[order]
    first: Flags = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(who)]
    starts = np.flatnonzero(first)
    lengths = np.diff([*starts, len(who)])
    ranks = np.arange(len(who)) - np.repeat(starts, lengths)
    by_rank = order[np.argsort(ranks, kind="stable")]
    begin = 0
    for end in np.cumsum(np.bincount(ranks)).tolist():
        yield by_rank[begin:end]
        begin = end
