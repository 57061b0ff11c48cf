"""All runs of a tracker with their exact probabilities, and the bound that they must obey.

A `Chooser` stands in for the randomness: it takes every outcome in turn, and multiplies the counts
of what it took. The code under test is the real tracker; the ledger here is a simple one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import checks
import whereish as wh

DAY = 86400.0
REFUSED: tuple[Any, ...] = ("refused",)


@dataclass
class Chooser:
    """Takes prescribed outcomes; beyond them the first one that is possible."""

    script: list[int]
    options: list[list[int]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    public: list[int] = field(default_factory=list)
    probability: Fraction = Fraction(1)

    def pick(self, sums: Any, rows: Any, drawn: Any) -> Any:
        """Stand in for the sampler: the outcome is public."""
        outputs = []
        for row in np.asarray(rows).tolist():
            ends = [int(end) for end in sums[:, row]]
            counts = [high - low for low, high in zip([0, *ends], ends, strict=False)]
            outputs.append(self._choose([Fraction(count, 2**63) for count in counts]))
        self.public += outputs
        return np.array(outputs, dtype=np.int64)

    def upper(self, drawn: Any, steps: Any, widths: Any, words: Any) -> Any:
        """Stand in for the choice of a corner of a cell, which nobody sees."""
        chosen = [
            self._choose([1 - Fraction(step, width), Fraction(step, width)])
            for step, width in zip(steps.ravel().tolist(), widths.ravel().tolist(), strict=True)
        ]
        return np.array(chosen, dtype=bool).reshape(steps.shape)

    def _choose(self, shares: list[Fraction]) -> int:
        possible = [z for z, share in enumerate(shares) if share > 0]
        at = len(self.taken)
        z = self.script[at] if at < len(self.script) else possible[0]
        self.options.append(possible)
        self.taken.append(z)
        self.probability *= shares[z]
        return z

    def next_script(self) -> list[int] | None:
        """Return the script of the next run, in the order of an odometer; None after the last."""
        for at in reversed(range(len(self.taken))):
            later = [z for z in self.options[at] if z > self.taken[at]]
            if later:
                return [*self.taken[:at], later[0]]
        return None


class SimpleLedger:
    """A budget for each day, in memory."""

    def __init__(self, budget: Fraction) -> None:
        self.budget, self.spent, self.states = budget, dict[int, Fraction](), dict[str, str]()

    def step(self, run: str, now: float, plan: Callable[[str | None], Any]) -> Any:
        day = int(now // DAY)
        planned = plan(self.states.get(run))
        cost = Fraction(0)
        if planned.reserve > 0:
            used = self.spent.get(day, Fraction(0))
            if used + Fraction(repr(planned.reserve)) > self.budget:
                raise wh.BudgetError("refused")
            made = planned.make()
            cost = Fraction(repr(made.cost))
            self.spent[day] = used + cost
            self.states[run] = made.public
        return SimpleNamespace(
            cost=float(cost), spent=float(self.spent.get(day, 0)), budget=0.0, stay=0.0,
            period_ends=0.0,
        )  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What an observer knows of a run, and what the tracker says that each step cost."""

    seen: tuple[Any, ...]
    costs: tuple[Fraction, ...]


Ask = Callable[[Any, float], Any]  # at, time -> report


def all_runs(
    patch: pytest.MonkeyPatch,
    make: Callable[[], Ask],
    trace: Sequence[Any],
    times: Sequence[float],
) -> dict[tuple[Any, ...], tuple[Fraction, Run]]:
    """Return every run of a trace with its exact probability."""
    found: dict[tuple[Any, ...], tuple[Fraction, Run]] = {}
    script: list[int] | None = []
    while script is not None:
        chooser = Chooser(script)
        for module in ("release.sampler", "release.corners", "mechanisms.private_test"):
            patch.setattr(f"whereish.{module}.pick", chooser.pick)
        patch.setattr("whereish.release.corners.choose_upper", chooser.upper)
        ask, seen, costs = make(), list[Any](), list[Fraction]()
        for at, time in zip(trace, times, strict=True):
            begun = len(chooser.public)
            try:
                report = ask(at, time)
            except wh.BudgetError:
                seen.append(REFUSED)
                costs.append(Fraction(0))
                assert len(chooser.public) == begun, "a refused report was tested or drawn"
                continue
            seen.append((tuple(chooser.public[begun:]), report.output))
            costs.append(Fraction(repr(report.cost)))
        run = Run(tuple(seen), tuple(costs))
        before, same = found.get(run.seen, (Fraction(0), run))
        assert same == run, "the same reports have cost more or less"
        found[run.seen] = before + chooser.probability, run
        script = chooser.next_script()
    assert sum(p for p, _ in found.values()) == 1
    return found


@lru_cache(maxsize=100_000)
def _limit(exponent: Fraction) -> Fraction:
    return checks.exp_lower(exponent)


def violations(
    patch: pytest.MonkeyPatch,
    make: Callable[[], Ask],
    traces: Sequence[Sequence[Any]],
    times: Sequence[float],
    distance: Callable[[Any, Any], Fraction],
    budget: Fraction,
    alike: Callable[[Sequence[Any], Sequence[Any]], bool] = lambda one, other: True,
) -> Iterator[str]:
    """Yield what is wrong: for all pairs of traces and all runs, in exact arithmetic."""
    of = {tuple(trace): all_runs(patch, make, trace, times) for trace in traces}
    yield from judged(of, times, distance, budget, alike)


def judged(
    of: dict[tuple[Any, ...], dict[tuple[Any, ...], tuple[Fraction, Run]]],
    times: Sequence[float],
    distance: Callable[[Any, Any], Fraction],
    budget: Fraction,
    alike: Callable[[Sequence[Any], Sequence[Any]], bool] = lambda one, other: True,
) -> Iterator[str]:
    """Yield what is wrong with the runs of these traces, as `all_runs` returns them."""
    for trace, runs in of.items():
        for _, run in runs.values():
            days: dict[int, Fraction] = {}
            for cost, time in zip(run.costs, times, strict=True):
                days[int(time // DAY)] = days.get(int(time // DAY), Fraction(0)) + cost
            if max(days.values()) > budget:
                yield f"over the budget at {trace}"
    for one, other in itertools.permutations(of, 2):
        if not alike(one, other):
            continue
        apart = [distance(x, y) for x, y in zip(one, other, strict=True)]
        for seen, (here, run) in of[one].items():
            there, same = of[other].get(seen, (Fraction(0), run))
            if run.costs != same.costs:
                yield f"the costs of a run depend on the trace: {one}, {other}"
            # A double means its decimal digits, which differ from it by less than 1e-15.
            by_step = sum((c * d for c, d in zip(run.costs, apart, strict=True)), Fraction(0))
            if here > _limit(by_step * (1 + Fraction(1, 10**15))) * there:
                yield f"more is revealed than was spent: {one}, {other}"
            at_most = sum(run.costs, Fraction(0)) * max(apart)
            if here > _limit(at_most * (1 + Fraction(1, 10**15))) * there:
                yield f"more is revealed than the sum of the period: {one}, {other}"
