"""Flags and words of ``whereish obfuscate --policy``: reports over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whereish.cli.console import say
from whereish.cli.words import read_budget
from whereish.device.people_budgets import Totals
from whereish.device.trace_rows import OverTime
from whereish.errors import InputError
from whereish.format import load_mechanism
from whereish.profiles import load_movement
from whereish.units import duration_s, km


def asked_over_time(
    policy: str | None,
    budget: str | None,
    rate: str | None,
    model: Path | None,
    exceed: bool,
    later: str | None = None,
) -> OverTime | None:
    """Return what the flags ask for; None without a policy."""
    if policy is None:
        if exceed or any(given is not None for given in (budget, rate, model, later)):
            raise InputError(
                "policy must be given with a budget, a rate, a model or later mechanisms, got "
                "none: --policy predictive"
            )
        return None
    epsilon, new_places, period = read_budget(budget, None, None)
    return OverTime(
        policy, new_places, epsilon, period or "day",
        None if rate is None else duration_s(rate, "rate"),
        None if model is None else load_movement(model), exceed=exceed,
        later=later_mechanisms(later),
    )  # fmt: skip


def later_mechanisms(files: str | None) -> tuple[Any, ...]:
    """Return the mechanisms of the files of ``--later A,B``."""
    names = [] if files is None else [name.strip() for name in files.split(",")]
    if not all(names):
        raise InputError("later must be names of mechanism files, like B.whereish,C.whereish")
    return tuple(load_mechanism(Path(name))[0] for name in names)


def say_over_time(spent: Totals, unit: str) -> None:
    """Say what traces have spent, in both readings, what was left out, and the error."""
    limit = "without a limit" if spent.budget is None else f"of {spent.budget:.4g}"
    people = f"{spent.people:,} {'person' if spent.people == 1 else 'people'}"
    say(
        f"Reports over time, {spent.policy}: {people}, {spent.draws:,} draws and {spent.tests:,} "
        f"tests in {spent.periods:,} {spent.period}s."
    )
    say(
        f"Spent by one person in a {spent.period}: epsilon {spent.most_spent:.4g} {limit} {unit} "
        f"at most, {spent.mean_spent:.4g} on average. That bounds what the {spent.period} reveals, "
        "times the largest distance between two traces."
    )
    say(
        f"By the reports of one stay: at most {spent.most_spent_per_stay:.4g}. By one person in "
        f"all: at most {spent.most_spent_by_person:.4g}."
    )
    if spent.policy == "sticky":
        say(
            "Careful: sticky reports show when a person moves and comes back. The bound holds only "
            "for traces that move at the same times."
        )
    error = "" if spent.mean_error_km is None else f" Mean error: {km(spent.mean_error_km)}."
    total = spent.published + spent.left_out
    share = f" ({spent.published / total:.1%})" if total else ""
    say(
        f"Published: {spent.published:,} of {total:,} points{share}. Left out, because the budget "
        f"was spent: {spent.left_out:,}.{error}"
    )
    if spent.over_budget:
        say(
            f"CAREFUL: over the budget, as you asked: {spent.over_budget:,} {spent.period}s of a "
            "person."
        )
