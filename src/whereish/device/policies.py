"""Policies for reports over time, for the runs of one person or of many at once.

A run is what an observer may know: the times of the reports, the results of the tests and the
draws. Every decision here depends on the run and the clock only: whether a report is due, the
guess, whether a draw is behind a test, and which mechanism draws. The true location is used in two
places, the private test and the draw; both are audited mechanisms. So the costs along a run bound
what it reveals (docs/proofs/traces.md).

============  =====================================================================================
sporadic      draw after every `rate`, repeat the last report in between
filtered      the same, and send the best report that follows from the draws and a movement model
predictive    test whether the guess is near; repeat it if so, and draw otherwise
============  =====================================================================================

Sticky reports are no policy of this kind: whether a report is repeated depends on the true place.
`Reporter` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.device.budget_manager import BudgetManager, Prices
from whereish.device.draw_schedule import NO_PERIOD, DrawSchedule
from whereish.device.drawing import DeviceMechanism, draw_at, mechanisms_of
from whereish.device.filtering import Belief, ForwardFilter, Movement
from whereish.errors import InputError, described
from whereish.everywhere import Everywhere
from whereish.everywhere.private_test import LatticeTests
from whereish.mechanisms.private_test import FAR, PlaceTests
from whereish.places import Array, as_number

POLICIES = ("sticky", "predictive", "filtered", "sporadic")
NOTHING = -1  # no report yet

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(eq=False)
class Runs:
    """The public state of the runs of n people.

    Attributes
    ----------
    guess
        (n,) the last report that was drawn; `NOTHING` before the first.
    shown
        (n,) the last report that was sent.
    decided
        (n,) the time of the last test or draw, in seconds since 1970.
    beliefs
        What the filter made of each run.
    made, period
        (n,) for tapered draws: how many draws there were in the period of the last one, and the
        number of that period.
    """

    guess: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    shown: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    decided: Array = field(default_factory=lambda: np.zeros(0))
    beliefs: dict[int, Belief] = field(default_factory=dict)
    made: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    period: Whole = field(default_factory=lambda: np.zeros(0, np.int64))

    def grow(self, people: int) -> None:
        """Begin the runs of further people, up to this number."""
        new = people - len(self.guess)
        if new > 0:
            nothing = np.full(max(new, len(self.guess)), NOTHING, dtype=np.int64)
            self.guess = np.concatenate([self.guess, nothing])
            self.shown = np.concatenate([self.shown, nothing])
            self.decided = np.concatenate([self.decided, np.full(len(nothing), -np.inf)])
            self.made = np.concatenate([self.made, np.zeros_like(nothing)])
            self.period = np.concatenate([self.period, np.full_like(nothing, NO_PERIOD)])

    def as_json(self, who: int) -> list[Any]:
        """Return one run as plain values."""
        belief = self.beliefs.get(who)
        values = [
            int(self.guess[who]), int(self.shown[who]), float(self.decided[who]),
            None if belief is None else belief.as_json(),
        ]  # fmt: skip
        counted = [int(self.made[who]), int(self.period[who])]
        return [*values, *counted] if counted[0] else values

    @classmethod
    def of_json(cls, value: Any, outputs: int, places: int | None) -> Runs:
        """Return the run of one person from the values of `as_json`."""
        runs = cls()
        runs.grow(1)
        guess, shown, decided, belief, *counted = value
        if not (0 <= guess < outputs and 0 <= shown < outputs):
            raise InputError("the ledger holds a run that this mechanism cannot have made")
        runs.guess[0], runs.shown[0], runs.decided[0] = guess, shown, decided
        if belief is not None and places is not None:
            runs.beliefs[0] = Belief.of_json(belief, places)
        if counted:
            runs.made[0], runs.period[0] = counted
        return runs


@dataclass(frozen=True, eq=False)
class Taken:
    """What happened in one step of several runs.

    Attributes
    ----------
    outputs
        The reports to send.
    fresh
        Which of them were drawn now.
    """

    outputs: Whole
    fresh: Flags


class TracePolicy:
    """Decides when to draw, when to test and what to send.

    Parameters
    ----------
    name
        "predictive", "filtered" or "sporadic".
    mechanism
        Draws the reports; it has an epsilon.
    manager
        The cost of a test and its threshold, for "predictive": by default the authors' constants
        for a fixed utility.
    rate_s
        Seconds between two decisions. In between, the last report is repeated, wherever the person
        is. None decides anew for every report.
    model
        A movement model. "filtered" needs one; "predictive" takes its guess from it, if given.
    later, period_s
        The mechanisms of the second draw of a period, the third one and so on, for "filtered" and
        "sporadic"; and the length of a period in seconds. See `DrawSchedule`.
    """

    def __init__(
        self,
        name: str,
        mechanism: DeviceMechanism,
        *,
        manager: BudgetManager | None = None,
        rate_s: float | None = None,
        model: Movement | None = None,
        later: Sequence[DeviceMechanism] = (),
        period_s: float = 86400.0,
    ) -> None:
        if name not in POLICIES[1:]:
            raise InputError(f"policy must be one of {', '.join(POLICIES)}, got {described(name)}")
        if mechanism.epsilon is None:
            raise InputError(f"a policy needs a mechanism with an epsilon, got {mechanism!r}")
        if name == "sporadic" and rate_s is None:
            raise InputError("rate must be given for sporadic reports, got none: like 30min")
        if name == "filtered" and model is None:
            raise InputError(
                "a movement model must be given for filtered reports, got none: count one from the "
                "traces of other people"
            )
        if manager is not None and name != "predictive":
            raise InputError(f"a budget manager is for predictive reports, got one for {name}")
        if manager is not None and manager.epsilon_draw != mechanism.epsilon:
            raise InputError(
                f"the manager must be for draws of epsilon {mechanism.epsilon:g}, that of the "
                f"mechanism, got {manager.epsilon_draw:g}"
            )
        self.name, self.mechanism = name, mechanism
        self.schedule = DrawSchedule.of(mechanism, later, period_s)
        if later and name == "predictive":
            raise InputError(
                "later mechanisms are for filtered and sporadic reports, got them for predictive "
                "ones: their tests and draws have one epsilon each"
            )
        self.rate_s = None if rate_s is None else float(as_number("rate", rate_s))
        self.filter = None if model is None else ForwardFilter(mechanism, model, later)
        self.manager = manager or BudgetManager.for_draw(mechanism.epsilon)
        test = self.manager.epsilon_test if name == "predictive" else 0.0
        self.prices = Prices.of(float(mechanism.epsilon), test)
        self._later_prices = [Prices.of(one, 0.0) for one in self.schedule.epsilons[1:]]
        self.tests: PlaceTests | LatticeTests | None = None
        if name == "predictive":
            # Mechanisms by time have the same places and metric, so one set of tests serves all.
            first, threshold = mechanisms_of(mechanism)[0], self.manager.threshold
            self.tests = (
                LatticeTests(first.outputs, test, threshold)
                if isinstance(first, Everywhere)
                else PlaceTests(first, test, threshold)
            )

    def due(self, runs: Runs, who: Whole, times: Array) -> Flags:
        """Return who needs a test or a draw now; the others repeat. Decided by the clock alone.

        A clock that goes back by more than the rate counts as one that has gone on.
        """
        begun: Flags = runs.shown[who] != NOTHING
        if self.rate_s is None:
            return np.ones(len(who), dtype=bool)
        return ~begun | (np.abs(times - runs.decided[who]) >= self.rate_s)

    def tested(self, runs: Runs, who: Whole) -> Flags:
        """Return whose next draw is behind a test: all but the first ones of the run."""
        if self.tests is None:
            return np.zeros(len(who), dtype=bool)
        return np.asarray(runs.guess[who] != NOTHING)

    def levels(self, runs: Runs, who: Whole, times: Array) -> Whole:
        """Return the number of the mechanism of each next draw, by the run and the clock alone."""
        made, _ = self.schedule.made_before(runs.made[who], runs.period[who], times)
        return self.schedule.level(made)

    def prices_at(self, level: int) -> Prices:
        """Return what a step costs whose draw is from the mechanism of this number."""
        return self._later_prices[level - 1] if level else self.prices

    def repeated(self, runs: Runs, who: Whole, times: Array) -> Whole:
        """Return what those send who are not due: the last report, or what the filter expects."""
        outputs = runs.shown[who].copy()
        if self.filter is not None and self.name == "filtered":
            for k, person in enumerate(who.tolist()):
                belief = self.filter.predicted(runs.beliefs[person], float(times[k]))
                outputs[k] = self.filter.best(belief, int(outputs[k]))
        return outputs

    def guesses(self, runs: Runs, who: Whole, times: Array) -> Whole:
        """Return the predictions, which depend on the runs only."""
        guesses = runs.guess[who].copy()
        if self.filter is not None:
            for k, person in enumerate(who.tolist()):
                belief = self.filter.predicted(runs.beliefs[person], float(times[k]))
                guesses[k] = self.filter.best(belief, int(guesses[k]))
        return guesses

    def take(
        self,
        runs: Runs,
        who: Whole,
        at: Any,
        times: Array,
        rng: np.random.Generator | None = None,
    ) -> Taken:
        """Test and draw for people who are due, and whose budget covers both. Changes `runs`.

        Parameters
        ----------
        who
            Different people.
        at
            Their true locations: numbers of places; for a mechanism for all points (n, 2) points,
            in degrees or km as it takes them.
        """
        fresh = np.ones(len(who), dtype=bool)
        outputs = np.full(len(who), NOTHING, dtype=np.int64)
        behind = self.tested(runs, who)
        if self.tests is not None and behind.any():
            guesses = self.guesses(runs, who[behind], times[behind])
            far = self.tests.draw(guesses, at[behind], rng) == FAR
            fresh[behind], outputs[behind] = far, guesses
            self._learn_tests(runs, who[behind], times[behind], guesses, far)
        if fresh.any():
            levels = self.levels(runs, who[fresh], times[fresh])
            drawn = self._draw(levels, at[fresh], times[fresh], rng)
            runs.guess[who[fresh]] = outputs[fresh] = drawn
            self._count_draws(runs, who[fresh], times[fresh])
            outputs[fresh] = self._learn_draws(runs, who[fresh], times[fresh], drawn, levels)
        runs.shown[who], runs.decided[who] = outputs, times
        return Taken(outputs, fresh)

    def _draw(self, levels: Whole, at: Any, times: Array, rng: np.random.Generator | None) -> Whole:
        """Draw for each person from the mechanism of this number."""
        drawn = np.full(len(levels), NOTHING, dtype=np.int64)
        for level in np.unique(levels).tolist():
            rows = levels == level
            mechanism = self.schedule.mechanisms[level]
            drawn[rows] = draw_at(mechanism, at[rows], times[rows], rng).outputs
        return drawn

    def _count_draws(self, runs: Runs, who: Whole, times: Array) -> None:
        if len(self.schedule) > 1:
            made, period = self.schedule.made_before(runs.made[who], runs.period[who], times)
            runs.made[who], runs.period[who] = made + 1, period

    def _learn_tests(
        self, runs: Runs, who: Whole, times: Array, guesses: Whole, far: Flags
    ) -> None:
        if self.filter is None or self.tests is None:
            return
        for k, person in enumerate(who.tolist()):
            seen = self.tests.likelihood(int(guesses[k]), self.filter.places)[:, int(far[k])]
            runs.beliefs[person] = self.filter.observed(
                runs.beliefs.get(person), float(times[k]), seen
            )

    def _learn_draws(
        self, runs: Runs, who: Whole, times: Array, drawn: Whole, levels: Whole
    ) -> Whole:
        """Return the reports to send for these draws."""
        if self.filter is None:
            return drawn
        sent = drawn.copy()
        for k, person in enumerate(who.tolist()):
            seen = self.filter.likelihood(int(drawn[k]), float(times[k]), int(levels[k]))
            belief = self.filter.observed(runs.beliefs.get(person), float(times[k]), seen)
            runs.beliefs[person] = belief
            sent[k] = self.filter.best(belief, int(drawn[k]))
        return sent
