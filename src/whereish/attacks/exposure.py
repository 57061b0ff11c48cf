"""Exposure: what somebody who sees the reports of people learns, with all attacks at once.

The adversary knows the mechanism, the policy, and how other people move. For re-identification the
adversary also knows where each person was in the first half of the time; the reports are of the
second half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from whereish.attacks.estimate import RADIUS_KM, Estimate, Score, Whole, errors_km, score
from whereish.attacks.home_and_work import HOME, WORK, Anchor, find_anchor
from whereish.attacks.policies import Run, simulate
from whereish.attacks.reidentification import reidentify
from whereish.attacks.sequences import ATTACKS, smoother
from whereish.attacks.unknown_prior import without_prior
from whereish.attacks.walks import Walk
from whereish.day_periods import period_of
from whereish.errors import InputError
from whereish.everywhere import AnyMechanism, Everywhere
from whereish.mechanisms import check_not_by_time
from whereish.places import Array, Places
from whereish.profiles.movement import HOURS, MovementModel, count_movement
from whereish.release import snap

DAY_S = 86400
REPORT, LEARNED = "the report itself", "smoother, prior from the reports"
_STAY_S = 3600.0  # of a person about whom nothing is known
_GRID = 20  # hypotheses on each side, for a mechanism for every point
_RANKED = 144  # reports that re-identification uses: a day of them


@dataclass(frozen=True)
class Found:
    """How well a home or a place of work was found.

    Attributes
    ----------
    errors_km
        Of the guess, after each day with reports in its hours.
    days
        After how many of these days the guess is within the radius and stays so; None if never.
    """

    errors_km: tuple[float, ...]
    days: int | None


@dataclass(frozen=True, eq=False)
class Exposure:
    """What the reports of one person reveal.

    Attributes
    ----------
    user, policy
        Whose reports, and how they were made.
    reports, draws, epsilon
        How many, how many of them were drawn, and the sum of their epsilons (per km).
    report_error_km
        Mean distance between the reports and the truth.
    scores
        Of the attacks on the sequence, by name.
    found
        "home" and "work", where the truth is known.
    rank
        The position of the person among all people, by likelihood: 1 is found. None for one person.
    people
        How many people were compared.
    """

    user: str
    policy: str
    reports: int
    draws: int
    epsilon: float
    report_error_km: float
    scores: dict[str, Score] = field(repr=False)
    found: dict[str, Found] = field(repr=False)
    rank: int | None = None
    people: int = 1


def hypotheses(mechanism: AnyMechanism) -> Places:
    """Return the places that an adversary considers: the inputs, or a grid of 20 x 20 cells."""
    check_not_by_time(mechanism, "an attack")
    if not isinstance(mechanism, Everywhere):
        return mechanism.inputs
    low, high = mechanism.outputs.xy.min(axis=0), mechanism.outputs.xy.max(axis=0)
    cell = np.maximum((high - low) / _GRID, 0.05)
    axes = [low[k] + (np.arange(_GRID) + 0.5) * cell[k] for k in range(2)]
    xy = np.array([(x, y) for y in axes[1] for x in axes[0]])
    plane = mechanism.outputs.plane
    latlon = None if plane is None else plane.to_latlon(xy)
    return Places(xy, latlon, plane, (float(cell[0]), float(cell[1])))


def model_without_data(places: Places) -> MovementModel:
    """Return the model of an adversary who knows nothing: stays of an hour, then anywhere."""
    n = len(places)
    flat = MovementModel(places, 600.0, (0,), np.full((1, n, n), 1 / n), np.full((1, n), 1 / n))
    return flat.with_stays(_STAY_S)


def population_models(
    walks: Mapping[str, Walk], places: Places, zone: str = "UTC"
) -> dict[str, MovementModel]:
    """Return, for each person, the movement of all others; with one person, of nobody."""
    paths = {user: (walk.times_s, _numbers(walk, places)) for user, walk in walks.items()}
    if len(walks) < 2:
        return {user: model_without_data(places) for user in walks}
    return {
        user: count_movement(paths, places, hours=HOURS, leave_out=user, zone=zone)
        for user in walks
    }


def expose(
    mechanism: AnyMechanism,
    walks: Mapping[str, Walk],
    policy: str,
    *,
    models: Mapping[str, MovementModel] | None = None,
    zone: str = "UTC",
    radius_km: float = RADIUS_KM,
    homes: Mapping[str, Mapping[str, Array]] | None = None,
    later: Sequence[AnyMechanism] = (),
    rng: np.random.Generator | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Exposure]:
    """Let people report with a policy, attack their reports, and compare with the truth.

    Parameters
    ----------
    walks
        Where each person was; see `walks_of`. Points outside the area are left out.
    models
        The adversary's model for each person, on the same places; by default counted from the other
        people.
    homes
        For each person, where "home" and "work" are, in km in the plane of the places; by default
        where the person mostly is in their hours.
    later
        See `simulate`.
    rng
        A seeded generator, for studies only.
    """
    places = _places_of(mechanism, models)
    inside = {user: _inside(walk, mechanism) for user, walk in walks.items()}
    inside = {user: walk for user, walk in inside.items() if len(walk) > 1}
    if not inside:
        raise InputError("traces must hold two reports in the area of the mechanism, got none")
    known = population_models(inside, places, zone) if models is None else models
    priors = _first_halves(inside, known, places)
    found = []
    for number, (user, walk) in enumerate(inside.items()):
        run = simulate(policy, mechanism, known[user], walk.times_s, walk.latlon, rng, later=later)
        true = walk.xy(places)
        told = mechanism.outputs.in_plane_of(places).xy[run.outputs]
        anchors = dict(homes[user]) if homes is not None else _anchors(walk, places, zone)
        rank = None
        if len(inside) > 1:
            rank = _rank(mechanism, walk, policy, known[user], priors, rng, later)
        found.append(
            Exposure(
                user, policy, len(walk), run.draws, run.epsilon,
                float(np.hypot(*(told - true).T).mean()),
                _scores(run, known[user], told, true, radius_km),
                _found(run, known[user], anchors, zone, radius_km), rank, len(inside),
            )
        )  # fmt: skip
        if progress is not None:
            progress(number + 1)
    return found


def _places_of(mechanism: AnyMechanism, models: Mapping[str, MovementModel] | None) -> Places:
    if models:
        return next(iter(models.values())).places
    return hypotheses(mechanism)


def _inside(walk: Walk, mechanism: AnyMechanism) -> Walk:
    if isinstance(mechanism, Everywhere):
        return walk
    there = ~snap(mechanism.inputs, walk.latlon).outside
    return Walk(walk.user, walk.times_s[there], walk.latlon[there])


def _numbers(walk: Walk, places: Places) -> Array:
    return np.asarray(snap(places, walk.latlon).rows)


def _first_halves(
    walks: Mapping[str, Walk], known: Mapping[str, MovementModel], places: Places
) -> dict[str, Array]:
    """Return the prior of each person in the first half of the time."""
    found = {}
    for user, walk in walks.items():
        first = walk.part(-np.inf, _half(walk))
        counts = np.bincount(_numbers(first, places), minlength=len(places)) + known[user].prior
        found[user] = counts / counts.sum()
    return found


def _half(walk: Walk) -> float:
    return float(np.median(walk.times_s))


def _rank(
    mechanism: AnyMechanism,
    walk: Walk,
    policy: str,
    population: MovementModel,
    priors: Mapping[str, Array],
    rng: np.random.Generator | None,
    later: Sequence[AnyMechanism],
) -> int:
    """Return the rank of a person. All are compared with one population, without this person.

    With a population of one's own each, everybody but this person would know the person's ways.
    """
    second = walk.part(_half(walk), np.inf)
    times, latlon = second.times_s[:_RANKED], second.latlon[:_RANKED]
    run = simulate(policy, mechanism, population, times, latlon, rng, later=later)
    models = {user: population.reweighted(own, keep_stays=True) for user, own in priors.items()}
    return reidentify(run.evidence, models).rank(walk.user)


def _anchors(walk: Walk, places: Places, zone: str) -> dict[str, Array]:
    known = {anchor.name: walk.anchor(places, anchor, zone) for anchor in (HOME, WORK)}
    return {name: where for name, where in known.items() if where is not None}


def _scores(
    run: Run, model: MovementModel, told: Array, true: Array, radius_km: float
) -> dict[str, Score]:
    believed = Estimate(model.places, run.times_s, *_as_reported(told, model.places), 0.0)
    scores = {REPORT: score(believed, true, radius_km)}
    scores |= {
        name: score(attack(run.evidence, model), true, radius_km)
        for name, attack in ATTACKS.items()
        if name != "averaging"  # it is for a person who stays: home and work
    }
    learned = without_prior(run.evidence, model)
    scores[LEARNED] = score(smoother(run.evidence, learned), true, radius_km)
    return scores


def _as_reported(told: Array, places: Places) -> tuple[Array, Whole]:
    """Return the belief that every report is true, and the places nearest to the reports."""
    nearest = places.tree.query(told)[1].astype(np.int64)
    return np.eye(len(places))[nearest], nearest


def _found(
    run: Run, model: MovementModel, anchors: Mapping[str, Array], zone: str, radius_km: float
) -> dict[str, Found]:
    found = {}
    for anchor in (HOME, WORK):
        _, inside = anchor.days(run.times_s, zone)
        if anchor.name not in anchors or not inside.any():
            continue
        guessed = find_anchor(run.evidence, _usual(model, anchor), anchor, zone=zone)
        truth = np.tile(anchors[anchor.name], (len(guessed.guesses), 1))
        errors = errors_km(guessed, truth)
        found[anchor.name] = Found(tuple(errors.tolist()), _stays_below(errors, radius_km))
    return found


def _usual(model: MovementModel, anchor: Anchor) -> Array:
    """Return where people are in the middle of the hours of an anchor."""
    period = int(period_of(model.hours, (anchor.begin + anchor.end) // 2))
    return np.asarray(model.initial[period])


def _stays_below(errors: Array, radius_km: float) -> int | None:
    """Return after how many errors all later ones are within the radius.

    >>> _stays_below(np.array([0.1, 2.0, 0.2, 0.1]), 0.3)
    3
    """
    above = np.flatnonzero(errors > radius_km)
    days = int(above[-1]) + 2 if len(above) else 1
    return days if days <= len(errors) else None
