"""Policies: how a device reports over time, as an adversary sees it.

A policy makes the reports of a person who moves, and the evidence that they are for an adversary
who knows the policy, the mechanism and the movement model. Policies are in a registry; those of
`whereish.device.policies` are added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.attacks.evidence import (
    Evidence,
    independent_evidence,
    likelihoods,
    sticky_evidence,
)
from whereish.device import policies as tracker
from whereish.device.ledger_file import PERIODS
from whereish.device.reporter import square_of
from whereish.errors import InputError, described
from whereish.everywhere import AnyMechanism, Everywhere
from whereish.everywhere.mechanism import points_of
from whereish.mechanisms import check_not_by_time
from whereish.places import Array
from whereish.profiles.movement import MovementModel
from whereish.release import snap

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Run:
    """The reports of one person over time.

    Attributes
    ----------
    times_s
        (T,) when.
    outputs
        (T,) what was sent: numbers of outputs.
    evidence
        What they tell.
    draws
        How many reports were drawn.
    epsilon
        The sum of the epsilons of all draws and tests.
    """

    times_s: Array
    outputs: Whole
    evidence: Evidence
    draws: int
    epsilon: float


Simulate = Callable[[AnyMechanism, MovementModel, Array, Array, "np.random.Generator | None"], Run]
_POLICIES: dict[str, Simulate] = {}
# Policies of the tracker, without "sticky", which is here.
_SPORADIC_S = 3600.0
TAPERED = ("filtered", "sporadic")  # policies that take mechanisms of later draws


def register_policy(name: str, simulate: Simulate) -> None:
    """Add a policy: a function of mechanism, model, times, points and generator."""
    _POLICIES[name] = simulate


def policy_names() -> tuple[str, ...]:
    """Return the names of all policies."""
    return tuple(_policies())


def simulate(
    policy: str,
    mechanism: AnyMechanism,
    model: MovementModel,
    times_s: Array,
    points: Array,
    rng: np.random.Generator | None = None,
    *,
    later: Sequence[AnyMechanism] = (),
) -> Run:
    """Make the reports of a person who moves, and their evidence.

    Parameters
    ----------
    policy
        One of `policy_names`.
    model
        The model of the adversary. Its places are the hypotheses.
    times_s, points
        When the person reports, and from where: (T, 2) degrees, or km for places in a plane.
    rng
        A seeded generator, for studies only.
    later
        Tapered draws: the mechanisms of the second, third ... draw of a day, for "filtered" and
        "sporadic". See `whereish.Tracker`.
    """
    for one in (mechanism, *later):
        check_not_by_time(one, "an attack")
    known = _policies()
    if policy not in known:
        raise InputError(f"policy must be one of {', '.join(known)}, got {described(policy)}")
    times = np.asarray(times_s, np.float64)
    if len(times) == 0 or len(times) != len(points):
        raise InputError("times_s and points must be of the same length, at least one")
    where = np.asarray(points, np.float64)
    if later:
        if policy not in TAPERED:
            raise InputError(
                f"later mechanisms are for {' and '.join(TAPERED)} reports, got them for {policy}"
            )
        return _tracked(policy, later)(mechanism, model, times, where, rng)
    return known[policy](mechanism, model, times, where, rng)


def _policies() -> dict[str, Simulate]:
    found = dict(_POLICIES)
    for name in tracker.POLICIES:
        found.setdefault(name, _tracked(name))
    return found


def _independent(
    mechanism: AnyMechanism,
    model: MovementModel,
    times: Array,
    points: Array,
    rng: np.random.Generator | None,
) -> Run:
    outputs = mechanism.sample(_located(mechanism, points), rng=rng).outputs
    evidence = independent_evidence(mechanism, times, outputs, model.places)
    return Run(times, outputs, evidence, len(outputs), _epsilon(mechanism) * len(outputs))


def _sticky(
    mechanism: AnyMechanism,
    model: MovementModel,
    times: Array,
    points: Array,
    rng: np.random.Generator | None,
) -> Run:
    """Report as a `Reporter` with a period of a day, without a limit on new places."""
    if isinstance(mechanism, Everywhere):
        xy = mechanism.projected(points_of(mechanism.outputs, points)[0])
        places = [square_of(one[None]) for one in xy]
    else:
        places = _located(mechanism, points).tolist()
    day = np.floor(times / PERIODS["day"]).astype(np.int64).tolist()
    first: dict[tuple[int, int], int] = {}
    drawn_at = [first.setdefault(key, t) for t, key in enumerate(zip(day, places, strict=True))]
    fresh = sorted(set(drawn_at))
    outputs = np.zeros(len(times), np.int64)
    outputs[fresh] = mechanism.sample(_located(mechanism, points[fresh]), rng=rng).outputs
    outputs = outputs[drawn_at]
    evidence = sticky_evidence(mechanism, times, outputs, model.places)
    return Run(times, outputs, evidence, len(fresh), _epsilon(mechanism) * len(fresh))


def _tracked(name: str, later: Sequence[AnyMechanism] = ()) -> Simulate:
    """Return a policy of the tracker.

    The adversary knows which reports were drawn, what was drawn and what the tests said. That is
    the whole public run, at least as much as the reports that are sent.
    """

    def simulate(
        mechanism: AnyMechanism,
        model: MovementModel,
        times: Array,
        points: Array,
        rng: np.random.Generator | None,
    ) -> Run:
        rate = _SPORADIC_S if name == "sporadic" else None
        movement = model if name == "filtered" else None
        policy = tracker.TracePolicy(name, mechanism, rate_s=rate, model=movement, later=later)
        runs, who = tracker.Runs(), np.zeros(1, np.int64)
        runs.grow(1)
        at = _located(mechanism, points)
        tables = [likelihoods(one, model.places) for one in (mechanism, *later)]
        outputs, draws, spent = np.zeros(len(times), np.int64), 0, 0.0
        logs = np.zeros((len(times), len(model.places)))
        for t in range(len(times)):
            now = times[t : t + 1]
            if not policy.due(runs, who, now)[0]:
                outputs[t] = policy.repeated(runs, who, now)[0]
                continue
            tested = bool(policy.tested(runs, who)[0])
            guess = int(policy.guesses(runs, who, now)[0]) if tested else -1
            level = int(policy.levels(runs, who, now)[0])
            taken = policy.take(runs, who, at[t : t + 1], now, rng)
            outputs[t], fresh = taken.outputs[0], bool(taken.fresh[0])
            seen = np.ones(len(model.places))
            if tested and policy.tests is not None:
                seen = seen * policy.tests.likelihood(guess, model.places)[:, int(fresh)]
                spent += policy.manager.epsilon_test
            if fresh:
                seen = seen * tables[level][:, runs.guess[0]]
                draws, spent = draws + 1, spent + policy.prices_at(level).draw
            with np.errstate(divide="ignore"):
                logs[t] = np.log(seen)
        return Run(times, outputs, Evidence(model.places, times, logs), draws, spent)

    return simulate


def _located(mechanism: AnyMechanism, points: Array) -> Array | Whole:
    """Return what a mechanism draws from: points, or the numbers of the nearest places."""
    if isinstance(mechanism, Everywhere):
        return points
    return snap(mechanism.inputs, points).rows


def _epsilon(mechanism: AnyMechanism) -> float:
    return float(mechanism.epsilon or np.inf)


register_policy("independent", _independent)
register_policy("sticky", _sticky)
