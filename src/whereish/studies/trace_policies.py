"""Policies for reports over time in the plane, for many traces at once, within a budget.

As in the authors' evaluation, draws are planar Laplace noise and the test adds Laplace noise to a
threshold. The decisions are those of `whereish.device.policies`, which works with audited
mechanisms between places or on a lattice: a step is refused unless the budget covers what it may
cost, and the trace sends nothing after that. `tests/test_study_traces.py` compares both.

============  =====================================================================================
independent   a draw for every report
sporadic      a draw after every `rate_s`, repeated in between
predictive    a private test of the last draw, after every `rate_s`; a draw if it says "far"
sticky        a draw for every new square of 100 m: **not** private for traces, see
              docs/theory/repeated-reports.md
============  =====================================================================================

Filtered reports are made of the draws of sporadic ones by `trace_model.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.device.budget_manager import BudgetManager
from whereish.device.reporter import squares_of
from whereish.errors import InputError
from whereish.mechanisms import planar_laplace_noise
from whereish.mechanisms.private_test import near_probabilities
from whereish.places import Array, as_epsilon
from whereish.studies.trace_protocol import Trace

INDEPENDENT, SPORADIC, PREDICTIVE, STICKY = "independent", "sporadic", "predictive", "sticky"
KINDS = (INDEPENDENT, SPORADIC, PREDICTIVE, STICKY)
_ROUNDED = 1 + 1e-9  # a budget of k draws is for k draws, whatever their sum as floats
TOLERANCE_S = 0.5

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Constants:
    """A policy with its constants.

    Attributes
    ----------
    kind
        One of `KINDS`.
    draw
        Epsilon of a draw, per km.
    test, threshold_km
        Epsilon of a test, and its threshold: for "predictive".
    rate_s
        Seconds between two decisions; 0 decides at every report.
    schedule
        For "sporadic": the epsilon of each draw, in their order; `draw` is the first. Nothing is
        drawn after the last. Without it, every draw has the epsilon `draw`.
    """

    kind: str
    draw: float
    test: float = 0.0
    threshold_km: float = 0.0
    rate_s: float = 0.0
    schedule: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r:.40}")
        as_epsilon(self.draw)
        if (self.kind == PREDICTIVE) != (self.test > 0):
            raise InputError("predictive reports must have a test with an epsilon, and no others")
        if self.schedule and (self.kind != SPORADIC or self.schedule[0] != self.draw):
            raise InputError("a schedule must be of sporadic reports, and begin with their draw")

    def levels(self, number: NDArray[np.int64]) -> Array:
        """Return the epsilon of draws by their number, from 0; infinite after a schedule."""
        if not self.schedule:
            return np.full(np.shape(number), self.draw)
        known = np.array([*self.schedule, np.inf])
        return np.asarray(known[np.minimum(number, len(self.schedule))])

    @classmethod
    def of(cls, manager: BudgetManager, rate_s: float = 0.0) -> Constants:
        """Return predictive reports with the epsilons and the threshold of a budget manager."""
        return cls(
            PREDICTIVE, manager.epsilon_draw, manager.epsilon_test, manager.threshold, rate_s
        )


@dataclass(frozen=True, eq=False)
class Sent:
    """What was sent along some traces. True points and reports are personal: repr hides them.

    Attributes
    ----------
    reports
        For each trace, (c, 2) km: the reports of its first c points, those before the budget ends.
    drawn
        For each trace, (c,) whether a report was drawn then.
    tested
        For each trace, (c,) whether a test was made.
    spent
        (n,) epsilon of each trace, in all.
    """

    reports: list[Array]
    drawn: list[Flags]
    tested: list[Flags]
    spent: Array

    def __repr__(self) -> str:
        return f"Sent({len(self.reports)} traces)"


def send(
    traces: Sequence[Trace], constants: Constants, budget: float, rng: np.random.Generator
) -> Sent:
    """Send the reports of traces until their budgets end.

    Parameters
    ----------
    budget
        Epsilon of each trace, per km.
    rng
        For a study only: reports of a device are drawn from the operating system's randomness.
    """
    if constants.kind == STICKY:
        return _sticky(traces, constants, budget, rng)
    count, steps = len(traces), max(map(len, traces))
    lengths = np.array([len(trace) for trace in traces])
    times, true = np.zeros((count, steps)), np.zeros((count, steps, 2))
    for number, trace in enumerate(traces):
        times[number, : len(trace)], true[number, : len(trace)] = trace.times_s, trace.xy
    reports, spent = np.zeros((count, steps, 2)), np.zeros(count)
    drawn, tested = np.zeros((count, steps), bool), np.zeros((count, steps), bool)
    guess, decided = np.zeros((count, 2)), np.full(count, -np.inf)
    covered, going = np.zeros(count, np.int64), np.ones(count, bool)
    made = np.zeros(count, np.int64)  # draws of each trace
    limit = budget * _ROUNDED
    for step in range(steps):
        going = going & (step < lengths)
        now, begun = times[:, step], np.isfinite(decided)
        due = going & (~begun | (now - decided >= constants.rate_s - TOLERANCE_S))
        tests = due & begun & (constants.test > 0)
        level = constants.levels(made)
        reserve = level + np.where(tests, constants.test, 0.0)
        refused = due & (spent + reserve > limit)
        going, due, tests = going & ~refused, due & ~refused, tests & ~refused
        if not going.any():
            break
        draws = due.copy()
        rows = np.flatnonzero(tests)
        if len(rows):
            away = np.hypot(*(true[rows, step] - guess[rows]).T)
            near, _ = near_probabilities(away, constants.test, constants.threshold_km)
            draws[rows] = rng.random(len(rows)) >= near
        for one in np.unique(level[draws]).tolist():
            rows = np.flatnonzero(draws & (level == one))
            guess[rows] = planar_laplace_noise(true[rows, step], one, rng)
        decided[due] = now[due]
        spent += np.where(tests, constants.test, 0.0) + np.where(draws, level, 0.0)
        made += draws
        reports[:, step], drawn[:, step], tested[:, step] = guess, draws, tests
        covered[going] = step + 1
    cut = covered.tolist()
    return Sent(
        [reports[k, :c] for k, c in enumerate(cut)], [drawn[k, :c] for k, c in enumerate(cut)],
        [tested[k, :c] for k, c in enumerate(cut)], spent,
    )  # fmt: skip


def _sticky(
    traces: Sequence[Trace], constants: Constants, budget: float, rng: np.random.Generator
) -> Sent:
    """Send as a `Reporter` does: the same square gets the same report again."""
    most = int(budget * _ROUNDED / constants.draw)
    reports, drawn, tested, spent = [], [], [], []
    for trace in traces:
        _, first, square = np.unique(squares_of(trace.xy), return_index=True, return_inverse=True)
        fresh = np.zeros(len(trace), bool)
        fresh[first] = True
        over = np.flatnonzero(np.cumsum(fresh) > most)
        covered = int(over[0]) if len(over) else len(trace)
        points = trace.xy.copy()
        points[first] = planar_laplace_noise(trace.xy[first], constants.draw, rng)
        reports.append(points[first[square.reshape(-1)]][:covered])
        drawn.append(fresh[:covered])
        tested.append(np.zeros(covered, bool))
        spent.append(constants.draw * int(fresh[:covered].sum()))
    return Sent(reports, drawn, tested, np.array(spent))
