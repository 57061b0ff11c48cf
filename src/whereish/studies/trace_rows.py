"""The rows of the study of traces: all policies in the authors' setting, at equal budget.

Every policy has the same budget for a trace. The predictive mechanism has the authors' constants;
those of the others are chosen on other people (`trace_tuning.py`), and so is the movement model.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whereish.device.budget_manager import BudgetManager
from whereish.places import Array
from whereish.studies.runs import Part, Row
from whereish.studies.trace_attacks import attack, mean_score
from whereish.studies.trace_people import TracePeople
from whereish.studies.trace_policies import (
    INDEPENDENT,
    PREDICTIVE,
    SPORADIC,
    STICKY,
    Constants,
    Sent,
    send,
)
from whereish.studies.trace_protocol import BUDGET, MINUTE_S, Sampling, Trace, sample_all
from whereish.studies.trace_scores import TraceScores, mean_over_people
from whereish.studies.trace_tuning import (
    candidates,
    choose,
    few_of_each,
    ranking,
    rates_above,
    tapered,
)

AUTHORS, OURS, FILTERED = "predictive, authors", "predictive, ours", "filtered"
TAPERED = "filtered, tapered"  # the epsilon of draws falls: see `tapered`
POLICIES = (AUTHORS, OURS, TAPERED, FILTERED, SPORADIC, INDEPENDENT, STICKY)
_KINDS = {OURS: PREDICTIVE, FILTERED: SPORADIC, SPORADIC: SPORADIC,
          INDEPENDENT: INDEPENDENT, STICKY: STICKY}  # fmt: skip
_SHORTLIST = 5  # constants of sporadic reports that are tried with the filter
_FEWEST = 3  # reports that are worth an attack
PROTOCOL, ATTACKED = "protocol", "attack"

Tried = dict[Constants, TraceScores]


@dataclass(frozen=True)
class TraceDesign:
    """What is studied; by default the authors' settings.

    Attributes
    ----------
    budget
        Epsilon per km of a whole trace.
    rates
        (PR, n): the budget is for n reports, of which a share PR is easy.
    utilities
        (PR, alpha): draws are within alpha km in 9 of 10 cases.
    gaps_min
        Minutes between two reports.
    jumps
        Probabilities of a jump of 30 or 60 minutes between reports that are a minute apart.
    tuned
        Traces of each person on which constants are chosen.
    attacked
        People whose reports are attacked.
    seed
        Of all draws.
    """

    budget: float = BUDGET
    rates: tuple[tuple[float, int], ...] = ((0.6, 10), (0.75, 30))
    utilities: tuple[tuple[float, float], ...] = ((0.6, 1.0), (0.7, 3.0))
    gaps_min: tuple[float, ...] = (1.0, 10.0, 60.0)
    jumps: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    tuned: int = 2
    attacked: int = 40
    seed: int = 0

    def settings(self) -> dict[str, Constants]:
        """Return the authors' constants in each of their settings, by name.

        >>> list(TraceDesign().settings())
        ['10 reports', '30 reports', 'within 1 km', 'within 3 km']
        """
        found = {
            f"{n} reports": BudgetManager.fixed_rate(self.budget, n, easy)
            for easy, n in self.rates
        }  # fmt: skip
        for _, alpha in self.utilities:
            found[f"within {alpha:g} km"] = BudgetManager.fixed_utility(alpha)
        return {name: Constants.of(manager) for name, manager in found.items()}

    def samplings(self) -> list[Sampling]:
        """Return when devices report."""
        fixed = [Sampling(f"every {gap:g} min", gap * MINUTE_S) for gap in self.gaps_min]
        return fixed + [Sampling(f"jumps {p:g}", MINUTE_S, p) for p in self.jumps if p > 0]


def protocol_parts(people: TracePeople, design: TraceDesign) -> list[Part]:
    """Return a part for each sampling, and for each attack."""
    parts = []
    for sampling in design.samplings():
        parts.append(Part(PROTOCOL, sampling.name, _rows(people, sampling, design), 10.0))
        if sampling.jump == 0 and design.attacked > 0:
            parts.append(Part(ATTACKED, sampling.name, _attacks(people, sampling, design), 5.0))
    return parts


def _rows(people: TracePeople, sampling: Sampling, design: TraceDesign) -> Callable[[], list[Row]]:
    return lambda: _bench(people, sampling, design).rows()


def _attacks(
    people: TracePeople, sampling: Sampling, design: TraceDesign
) -> Callable[[], list[Row]]:
    return lambda: _bench(people, sampling, design).attacks()


class Bench:
    """All policies on the traces of some people, reported at some times."""

    def __init__(self, people: TracePeople, sampling: Sampling, design: TraceDesign) -> None:
        self.people, self.sampling, self.design = people, sampling, design
        self.traces = sample_all(people.traces, sampling, design.seed)
        self._few = few_of_each(self.traces, design.tuned)
        self._few_folds = self._folds_of(self._few)
        self._chosen: dict[tuple[str, Constants], list[Constants]] = {}
        self._tried: dict[str, Tried] = {}
        self._filtered: Tried = {}
        self._kept: dict[tuple[int, Constants], TraceScores] = {}

    def rows(self) -> list[Row]:
        """Return a row for each setting and policy."""
        found = []
        for name, authors in self.design.settings().items():
            for policy in POLICIES:
                chosen = self.chosen(policy, authors)
                scores = [
                    self.scores(self._of_fold(fold), chosen[fold], policy in (FILTERED, TAPERED))
                    for fold in range(self.people.folds)
                    if self._of_fold(fold)
                ]
                level = float(np.mean([one.draw for one in chosen]))
                rate = float(np.median([one.rate_s for one in chosen]))
                found.append({
                    "sampling": self.sampling.name, "gap_s": self.sampling.gap_s,
                    "jump": self.sampling.jump, "setting": name, "policy": policy,
                    **TraceScores.joined(scores).row(),
                    "epsilon_of_draw": level, "rate_s": rate,
                })  # fmt: skip
        return found

    def attacks(self) -> list[Row]:
        """Return a row for each policy, in the first of the settings."""
        name, authors = next(iter(self.design.settings().items()))
        long = [trace for trace in few_of_each(self.traces, 1) if len(trace) >= _FEWEST]
        some = long[: self.design.attacked]
        found: list[Row] = []
        for policy in POLICIES if some else ():
            chosen = self.chosen(policy, authors)
            scores = []
            for trace in some:
                constants = chosen[self.people.fold[trace.user]]
                sent = self._sent([trace], constants)
                scores.append(attack(
                    trace, sent.reports[0], sent.drawn[0], sent.tested[0], constants,
                    self.people.model(self.people.fold[trace.user]), self.sampling.gap_s,
                ))  # fmt: skip
            error, success = mean_score(scores)
            found.append({
                "sampling": self.sampling.name, "setting": name, "policy": policy,
                "people": len(some), "attack_error_km": error, "attack_success": success,
            })  # fmt: skip
        return found

    def chosen(self, policy: str, authors: Constants) -> list[Constants]:
        """Return the constants for the people of each fold, chosen on the others."""
        if policy == AUTHORS:
            return [authors] * self.people.folds
        if (policy, authors) not in self._chosen:
            self._chosen[policy, authors] = self._choose(policy, authors)
        return self._chosen[policy, authors]

    def _choose(self, policy: str, authors: Constants) -> list[Constants]:
        covers = self.scores(self._few, authors)
        if policy == TAPERED:
            return [self._tapered(covers, fold) for fold in range(self.people.folds)]
        kind = _KINDS[policy]
        if kind not in self._tried:
            gap = self.sampling.gap_s
            self._tried[kind] = {
                one: self.scores(self._few, one)
                for one in candidates(kind, self.design.budget, gap)
            }
        found = []
        for fold in range(self.people.folds):
            others = self._few_folds != fold
            enough = _covered(covers, others)
            if policy != FILTERED:
                found.append(choose(self._tried[kind], others, enough))
                continue
            best = ranking(self._tried[kind], others, enough)[:_SHORTLIST]
            for one in best:
                if one not in self._filtered:
                    self._filtered[one] = self.scores(self._few, one, True)
            found.append(choose({one: self._filtered[one] for one in best}, others, enough))
        return found

    def _tapered(self, covers: TraceScores, fold: int) -> Constants:
        """Return the falling epsilons for a fold, with the rate that is best for the others."""
        others = self._few_folds != fold
        few = [trace for trace, other in zip(self._few, others.tolist(), strict=True) if other]
        enough = _covered(covers, others)
        tried: Tried = {}
        for rate in rates_above(self.sampling.gap_s):
            one = tapered(few, self.design.budget, rate, enough)
            if (fold, one) not in self._kept:
                self._kept[fold, one] = self.scores(few, one, True)
            tried[one] = self._kept[fold, one]
        return choose(tried, np.ones(len(few), bool), enough)

    def scores(
        self, traces: Sequence[Trace], constants: Constants, filtered: bool = False
    ) -> TraceScores:
        """Send the reports of traces, filtered or not, and compare them with the truth."""
        sent = self._sent(traces, constants)
        made = self._after_filter(traces, sent, constants) if filtered else None
        return TraceScores.of(traces, sent, made)

    def _sent(self, traces: Sequence[Trace], constants: Constants) -> Sent:
        # The same traces with the same constants get the same reports, in whatever order.
        key = f"{constants!r} {traces[0].user} {traces[0].times_s[0]} {self.sampling!r}"
        rng = np.random.default_rng([self.design.seed, zlib.crc32(key.encode()), len(traces)])
        return send(traces, constants, self.design.budget, rng)

    def _after_filter(
        self, traces: Sequence[Trace], sent: Sent, constants: Constants
    ) -> list[Array]:
        rows = [np.flatnonzero(drawn) for drawn in sent.drawn]
        found: list[Array] = [reports.copy() for reports in sent.reports]
        folds, most = self._folds_of(traces), max(map(len, rows))
        for fold in np.unique(folds).tolist():
            mine = np.flatnonzero(folds == fold).tolist()
            better = self.people.model(fold).filtered(
                [traces[k].times_s[rows[k]] for k in mine],
                [sent.reports[k][rows[k]] for k in mine],
                constants.levels(np.arange(most)),
            )
            for k, one in zip(mine, better, strict=True):
                found[k] = one[np.cumsum(sent.drawn[k]) - 1]
        return found

    def _of_fold(self, fold: int) -> list[Trace]:
        return [trace for trace in self.traces if self.people.fold[trace.user] == fold]

    def _folds_of(self, traces: Sequence[Trace]) -> NDArray[np.int64]:
        return np.array([self.people.fold[trace.user] for trace in traces], np.int64)


@lru_cache(maxsize=1)
def _bench(people: TracePeople, sampling: Sampling, design: TraceDesign) -> Bench:
    """Return the bench of a sampling: the rows and the attack choose the same constants."""
    return Bench(people, sampling, design)


def _covered(scores: TraceScores, others: NDArray[np.bool_]) -> float:
    users = np.asarray(scores.users)[others].tolist()
    return mean_over_people(users, scores.coverage[others])
