"""``whereish attack``: what somebody who sees the reports of people learns."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np

import whereish as wh
from whereish.attacks.exposure import Exposure, expose
from whereish.attacks.policies import TAPERED
from whereish.attacks.walks import Walk, walks_of
from whereish.cli import options as opt
from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.over_time import later_mechanisms
from whereish.errors import InputError
from whereish.places import as_whole
from whereish.plotting import draw_exposure, picture_kind
from whereish.profiles import MovementModel, load_movement
from whereish.traces import check_zone
from whereish.units import duration_s, km, length_km

_WHO, _HOW, _KNOWS = "Whose reports", "How they report", "What the adversary knows"
_DAY_S = 86400


@command
def attack(
    mechanism: Path = opt.MECHANISM,
    traces: Path = opt.option(
        ..., "Traces of the people who report: a file or a folder.", _WHO, "TRACES"
    ),
    people: int = opt.option(10, "At most so many people.", _WHO),
    days: int = opt.option(14, "The first so many days of each.", _WHO),
    zone: str = opt.option("UTC", "Time zone of night and day, like Europe/Paris.", _WHO, "ZONE"),
    policy: list[str] = opt.option(
        [], "{names}; all if not given.", _HOW, "NAME", choices=wh.attacks.policy_names
    ),
    every: str = opt.option("10m", "Time between two reports.", _HOW, "TIME"),
    later: str | None = opt.option(None, "Mechanisms of later draws of a day.", _HOW, "A,B"),
    model: Path | None = opt.option(
        None, "A movement model; by default that of the other people.", _KNOWS, "FILE"
    ),
    within: str = opt.option(
        "300m", "A guess this near to the truth is a success.", None, "LENGTH"
    ),
    picture: Path | None = opt.option(None, "Draw what is learned over time.", opt.OUTPUT, "FILE"),
    as_json: bool = opt.AS_JSON,
) -> Facts:
    """Attack the reports of people, and say what is learned.

    The people report with a mechanism along their traces. The adversary sees the
    reports, knows the mechanism and how other people move, and looks for homes,
    places of work, ways and names. No coordinate is printed.
    """
    policies = _checked_policies(policy)
    if later is not None and not set(policies) & set(TAPERED):
        raise InputError(f"later must go with a policy {' or '.join(TAPERED)}, got others")
    radius_km, every_s = length_km(within), duration_s(every, "every")
    as_whole("people", people)
    as_whole("days", days)
    check_zone(zone)
    if picture is not None:
        picture_kind(picture)
    attacked, _ = wh.load_mechanism(mechanism)
    others = later_mechanisms(later)
    known = None if model is None else _checked_model(load_movement(model), attacked)
    walks = _walks(traces, every_s, people, days)
    models = None if known is None else dict.fromkeys(walks, known)
    found: dict[str, list[Exposure]] = {}
    with waiting(f"attacking the reports of {_people(len(walks))}") as tell:
        for name in policies:
            tell(name)
            found[name] = expose(
                attacked, walks, name, models=models, zone=zone, radius_km=radius_km,
                later=others if name in TAPERED else (),
            )  # fmt: skip
    _say_walks(found, every, days)
    for name, exposures in found.items():
        _say_policy(name, exposures, radius_km)
    if picture is not None:
        draw_exposure(found, picture, radius_km)
        say(f"Wrote {picture} (readable by you only).")
    return {
        "radius_km": radius_km,
        "every_s": every_s,
        "policies": {name: [_facts(one) for one in exposures] for name, exposures in found.items()},
    }


def _checked_policies(asked: list[str]) -> list[str]:
    names = wh.attacks.policy_names()
    for name in asked:
        if name not in names:
            raise InputError(f"policy must be one of {', '.join(names)}, got {name!r:.40}")
    return list(dict.fromkeys(asked)) or list(names)


def _checked_model(model: MovementModel, mechanism: object) -> MovementModel:
    inputs = getattr(mechanism, "inputs", None)
    if inputs is not None and not model.places.same_as(inputs):
        raise InputError("model must be on the places of the mechanism, in their order, and is not")
    return model


def _walks(traces: Path, every_s: float, people: int, days: int) -> dict[str, Walk]:
    found = wh.open_traces(traces)
    if not found.timed:
        raise InputError("traces must have times, and these have none")
    walks = walks_of(found, every_s)
    longest = sorted(walks.values(), key=lambda walk: (-len(walk), walk.user))[:people]
    chosen = sorted(longest, key=lambda walk: walk.user)
    if not chosen:
        raise InputError("traces must hold at least one point that can be used, got none")
    return {
        walk.user: walk.part(walk.times_s[0], walk.times_s[0] + days * _DAY_S) for walk in chosen
    }


def _say_walks(found: dict[str, list[Exposure]], every: str, days: int) -> None:
    people = next(iter(found.values()))
    reports = sum(one.reports for one in people)
    say(f"{_people(len(people))}, {reports:,} reports, one every {every}, at most {days} days.")


def _say_policy(name: str, exposures: list[Exposure], radius_km: float) -> None:
    """Say what is learned from the reports of a policy."""
    draws, spent = (
        median(getattr(one, part) for one in exposures) for part in ("draws", "epsilon")
    )
    say(f"{name}: {draws:,.0f} reports drawn, epsilon {spent:,.0f} per km in all"
        + (" (median)" if len(exposures) > 1 else ""))  # fmt: skip
    for anchor in ("home", "work"):
        say(f"  {anchor:<13} {_anchor_words(anchor, exposures, radius_km)}")
    names = list(exposures[0].scores)
    errors = {
        one: float(np.mean([e.scores[one].mean_error_km for e in exposures])) for one in names
    }
    best = min(names, key=lambda one: errors[one])
    rate = float(np.mean([one.scores[best].success_rate for one in exposures]))
    say(
        f"  way           off by {km(errors[best])} on average, within {km(radius_km)} in "
        f"{rate:.0%} of the time ({best})"
    )
    told = float(np.mean([one.report_error_km for one in exposures]))
    say(f"  reports       off by {km(told)} themselves")
    ranks = [one.rank for one in exposures if one.rank is not None]
    if ranks:
        say(
            f"  name          {sum(rank == 1 for rank in ranks)} of {_people(len(ranks))} "
            "recognised by a day of reports"
        )


def _anchor_words(anchor: str, exposures: list[Exposure], radius_km: float) -> str:
    """Say how soon homes are found: within 300 m after 5 days."""
    found = [one.found[anchor] for one in exposures if anchor in one.found]
    if not found:
        return "not known: no reports in its hours"
    last = median(one.errors_km[-1] for one in found)
    days = [one.days for one in found if one.days is not None]
    after = f"after {_days(len(max((one.errors_km for one in found), key=len)))}"
    if len(found) == 1:
        if days:
            return f"within {km(radius_km)} after {_days(days[0])}"
        return f"not within {km(radius_km)} {after}: off by {km(last)}"
    words = f"within {km(radius_km)} for {len(days)} of {_people(len(found))}"
    if days:
        words += f", after {_days(median(days))}"
    return f"{words}; off by {km(last)} {after} (median)"


def _people(count: int) -> str:
    return f"{count} people" if count != 1 else "1 person"


def _days(count: float) -> str:
    return f"{count:g} days" if count != 1 else "1 day"


def _facts(one: Exposure) -> dict[str, object]:
    return {
        "user": one.user,
        "reports": one.reports,
        "draws": one.draws,
        "epsilon": one.epsilon,
        "report_error_km": one.report_error_km,
        "attacks": {name: asdict(score) for name, score in one.scores.items()},
        "found": {name: asdict(found) for name, found in one.found.items()},
        "rank": one.rank,
        "people": one.people,
    }
