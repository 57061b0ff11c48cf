"""The tracker of a device: reports of a person who moves, within a privacy budget over time."""

from __future__ import annotations

import hashlib
import json
import time as _clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from whereish.device.budget_manager import BudgetManager
from whereish.device.drawing import DeviceMechanism
from whereish.device.filtering import Movement
from whereish.device.policies import POLICIES, Runs, TracePolicy
from whereish.device.reporter import Reporter, digest_of
from whereish.device.run_steps import NOWHERE, Plan, Spent, Step
from whereish.errors import InputError, described
from whereish.units import utc

_FIRST = np.zeros(1, dtype=np.int64)  # the run of the only person


@dataclass(frozen=True)
class TrackedReport:
    """A report that may be sent to a service, and what it cost.

    Attributes
    ----------
    output
        The index of the reported place.
    xy_km, latlon
        Its coordinates.
    fresh
        Whether it was drawn now; False if an earlier report is repeated, or if it follows from
        earlier ones.
    cost, spent, budget
        Epsilon of this report, of this period so far, and of a whole period. The reports of the
        period change the odds of any two sequences of locations by at most exp(spent d), where d is
        the largest distance between the two at the same time. For sticky reports this holds only
        for sequences of the same pattern (docs/theory/repeated-reports.md).
    spent_per_stay
        The largest epsilon that the reports of one stay can have cost in this period, those of a
        `Reporter` or of other trackers in the same ledger included.
    period_ends
        The end of this period in UTC: ``2026-11-17T00:00:00Z``.
    """

    output: int
    xy_km: tuple[float, float]
    latlon: tuple[float, float] | None
    fresh: bool
    cost: float
    spent: float
    budget: float
    spent_per_stay: float
    period_ends: str


class Tracker:
    """Draw reports of a person over time, within a privacy budget for each period.

    Except for sticky reports, the budget bounds what all reports of a period reveal together: for
    any two sequences of locations x and x', the odds of the reports change by at most
    exp(spent * max of d(x_t, x'_t)). The times of the requests are not hidden. The proof is in
    docs/proofs/traces.md.

    Parameters
    ----------
    mechanism
        A mechanism with an epsilon, between places or between all points; or a `MechanismByTime`,
        of which the time of a report chooses one.
    ledger
        The file of the ledger; a missing one is created. A `Reporter` may share it.
    policy
        ======================  ================================================================
        "predictive" (default)  a private test decides whether the last drawn report is still
                                near: then it is repeated, otherwise a new one is drawn
        "sporadic"              a draw after every `rate`, repeated in between
        "filtered"              draws as for "sporadic" (for every report without a rate); sent is
                                the best report that follows from all draws and the model
        "sticky"                as `Reporter`: shows whether somebody has moved
        ======================  ================================================================
    budget, period
        Epsilon per "hour", "day" (the default) or "week". A new ledger needs this or `new_places`.
    new_places
        The budget as a number of draws per period. A test costs a part of a draw.
    rate
        Seconds between two draws, or two tests. In between, the last report is repeated wherever
        the person is.
    model
        A movement model, see `whereish.profiles.movement`.
    manager
        The `BudgetManager` of the tests: by default the constants of the authors.
    later
        Tapered draws, for "filtered" and "sporadic": the mechanisms of the second draw of a period,
        of the third one and so on, each with its own epsilon. The last one also makes all draws
        after it; `mechanism` makes the first. See `tapered_epsilons`. `new_places` is then the
        number of draws whose epsilons are the budget.
    outside
        See `Reporter`.
    clock
        Returns the time in seconds since 1970, for requests without a time.

    >>> import tempfile
    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tracker = Tracker(m, folder + "/ledger", policy="sporadic", rate=600, new_places=2)
    ...     reports = [tracker.report(1, time) for time in (0, 300, 900)]
    >>> [report.cost for report in reports], reports[2].spent
    ([1.0, 0.0, 1.0], 2.0)
    >>> less = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tracker = Tracker(
    ...         m, folder + "/ledger", policy="sporadic", rate=600, new_places=3, later=[less]
    ...     )
    ...     reports = [tracker.report(1, time) for time in (0, 900, 1800)]
    >>> [report.cost for report in reports], reports[2].budget
    ([1.0, 0.5, 0.5], 2.0)
    """

    def __init__(
        self,
        mechanism: DeviceMechanism,
        ledger: str | Path,
        policy: str = "predictive",
        budget: float | None = None,
        period: str | None = None,
        *,
        new_places: int | None = None,
        rate: float | None = None,
        model: Movement | None = None,
        manager: BudgetManager | None = None,
        later: Sequence[DeviceMechanism] = (),
        outside: str = "error",
        clock: Callable[[], float] = _clock.time,
    ) -> None:
        if not isinstance(policy, str) or policy not in POLICIES:
            raise InputError(
                f"policy must be one of {', '.join(POLICIES)}, got {described(policy)}"
            )
        self.clock = clock
        self._policy = None
        if policy != "sticky":
            # The length of a period may be that of an old ledger: it is set below.
            self._policy = TracePolicy(
                policy, mechanism, manager=manager, rate_s=rate, model=model, later=later
            )
        elif later or any(given is not None for given in (rate, model, manager)):
            raise InputError(
                "sticky reports take no rate, model, manager or later mechanisms, and one was given"
            )
        limit: float | Fraction | None = budget
        if later and new_places is not None and budget is None and self._policy is not None:
            limit, new_places = self._policy.schedule.budget_of(new_places), None
        self._reporter = Reporter(
            mechanism, ledger, limit, period, new_places=new_places, outside=outside,
            clock=lambda: self._now,
        )  # fmt: skip
        self.mechanism, self.ledger, self.policy = mechanism, self._reporter.ledger, policy
        self._now = 0.0
        if self._policy is not None:
            terms = [self._reporter.digest, policy, repr(self._policy.prices), repr(rate)]
            terms += [repr(self._policy.manager.threshold), str(self._places())]
            if later:
                self._policy.schedule = replace(
                    self._policy.schedule, period_s=self.ledger.period_s
                )
                terms += map(digest_of, later)
            self._run = hashlib.sha256(json.dumps(terms).encode()).hexdigest()

    def report(self, at: Any, time: float | None = None) -> TrackedReport:
        """Return the report of a place or point at a time; see `Mechanism.sample` for `at`.

        Parameters
        ----------
        time
            Seconds since 1970; by default the time of the clock.

        Raises
        ------
        BudgetError
            If the budget of this period does not cover what the report may cost. Nothing is tested,
            drawn or reported.
        """
        self._now = self.clock() if time is None else time
        if self._policy is None:
            return self._sticky(at)
        step = _TracedStep(
            self._policy, lambda: self._reporter.locate(at), self._now, self._places()
        )
        spent = self.ledger.step(self._run, self._now, step.plan)
        return self._tracked(step.output, step.fresh, spent)

    def _sticky(self, at: Any) -> TrackedReport:
        made = self._reporter.report(at)
        epsilon = float(self.mechanism.epsilon or 0.0)
        stay = self.ledger.spent_per_sticky_stay(self._reporter.digest, epsilon, self._now)
        return TrackedReport(
            made.output, made.xy_km, made.latlon, made.fresh, made.cost, made.spent, made.budget,
            stay, made.period_ends,
        )  # fmt: skip

    def _tracked(self, output: int, fresh: bool, spent: Spent) -> TrackedReport:
        places = self.mechanism.outputs
        east, north = places.xy[output].tolist()
        degrees = None if places.latlon is None else places.latlon[output].tolist()
        return TrackedReport(
            output, (east, north), None if degrees is None else (degrees[0], degrees[1]), fresh,
            spent.cost, spent.spent, spent.budget, spent.stay,
            utc(spent.period_ends, "%Y-%m-%dT%H:%M:%SZ") or "far from now",
        )  # fmt: skip

    def _places(self) -> int | None:
        """Return the number of places of the filter."""
        filtered = None if self._policy is None else self._policy.filter
        return None if filtered is None else len(filtered.places)


class _TracedStep:
    """One step of the run of one person.

    Parameters
    ----------
    locate
        Returns the number of the true place, and the location to draw from. It is called only if
        a test or a draw is due.
    """

    def __init__(
        self,
        policy: TracePolicy,
        locate: Callable[[], tuple[int, Any]],
        now: float,
        places: int | None,
    ) -> None:
        self.policy, self.locate, self.now, self.places = policy, locate, float(now), places
        self.output, self.fresh = NOWHERE, False

    def plan(self, public: str | None) -> Plan:
        """Plan the step from the public state and the clock: nothing looks at the location yet."""
        outputs, times = len(self.policy.mechanism.outputs), np.array([self.now])
        if public is None:
            runs = Runs()
            runs.grow(1)
        else:
            runs = Runs.of_json(json.loads(public), outputs, self.places)
        if not self.policy.due(runs, _FIRST, times)[0]:
            self.output = int(self.policy.repeated(runs, _FIRST, times)[0])
            return Plan(0.0, lambda: Step(0.0, "", NOWHERE))
        prices = self.policy.prices_at(int(self.policy.levels(runs, _FIRST, times)[0]))
        tested = bool(self.policy.tested(runs, _FIRST)[0])

        def make() -> Step:
            place, true = self.locate()
            taken = self.policy.take(runs, _FIRST, np.asarray(true)[None], times)
            self.output, self.fresh = int(taken.outputs[0]), bool(taken.fresh[0])
            cost = prices.both if self.fresh else prices.test
            return Step(cost if tested else prices.draw, json.dumps(runs.as_json(0)), place)

        return Plan(prices.both if tested else prices.draw, make)
