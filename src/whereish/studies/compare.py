"""The paper's mechanisms side by side for one profile and one privacy level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from whereish.errors import WhereishError
from whereish.limits import DILATION
from whereish.measures import (
    adversary_error,
    conditional_entropy,
    quality_loss,
    report_radius,
    tightest_epsilon,
    worst_case_loss,
)
from whereish.mechanisms import MECHANISMS, Mechanism, Request, optimal
from whereish.profiles import Profile


@dataclass(frozen=True)
class Row:
    """One mechanism, measured. ``problem`` says why there are no numbers, if there are none."""

    name: str
    mechanism: Mechanism | None = None
    epsilon_per_km: float | None = None
    tightest_epsilon_per_km: float | None = None
    quality_loss_km: float | None = None
    adversary_error_km: float | None = None
    worst_case_loss_km: float | None = None
    report_radius_95_km: float | None = None
    conditional_entropy_bits: float | None = None
    constraints: int | None = None
    variables: int | None = None
    edges: int | None = None
    dilation: float | None = None
    solver: str | None = None
    seconds: float | None = None
    problem: str | None = None


def measure(name: str, mechanism: Mechanism, profile: Profile) -> Row:
    """Take every measure of one mechanism under a profile's prior."""
    return Row(
        name=name,
        mechanism=mechanism,
        epsilon_per_km=mechanism.epsilon,
        tightest_epsilon_per_km=tightest_epsilon(mechanism),
        quality_loss_km=quality_loss(mechanism, profile.prior),
        adversary_error_km=adversary_error(mechanism, profile.prior),
        worst_case_loss_km=worst_case_loss(mechanism),
        report_radius_95_km=report_radius(mechanism, profile.prior, 0.95),
        conditional_entropy_bits=conditional_entropy(mechanism, profile.prior),
        constraints=mechanism.build.constraints,
        variables=mechanism.build.variables,
        edges=mechanism.build.edges,
        dilation=mechanism.build.dilation,
        solver=mechanism.build.solver,
        seconds=mechanism.build.seconds,
    )


def compare(
    profile: Profile,
    epsilon: float,
    dilation: float = DILATION,
    solver: str = "auto",
    time_limit_s: float | None = None,
) -> Iterator[Row]:
    """Build and measure the mechanisms of the paper and its peers, one row at a time.

    First those with the same epsilon, then those with the same quality loss as the optimal one
    (Section 4.2), in the order of the registry. One that does not exist or cannot be solved is a
    row that says so.
    """
    best = optimal(
        profile.places, profile.prior, epsilon, dilation, solver=solver, time_limit_s=time_limit_s
    )
    if best.build.stopped == "asked":
        raise KeyboardInterrupt  # half an optimum is nothing to compare with
    yield measure("optimal", best, profile)
    asked = Request(
        profile.places, profile.prior, epsilon, quality_loss(best, profile.prior), dilation,
        solver=solver, time_limit_s=time_limit_s,
    )  # fmt: skip
    for name, make in _others(asked):
        try:
            yield measure(name, make(), profile)
        except WhereishError as wrong:
            yield Row(name, problem=str(wrong))


def _others(asked: Request) -> Iterator[tuple[str, Callable[[], Mechanism]]]:
    """List the rows after the first: name and constructor."""
    shown = [entry for entry in MECHANISMS.values() if entry.title and entry.name != "exact"]
    private = [(entry, make) for entry in shown if (make := entry.for_epsilon) is not None]
    for entry, make in private:
        if entry.remaps:
            yield f"{entry.title} + remap", partial(_remapped, make, asked)
    for entry, make in private:
        yield str(entry.title), partial(make, asked)
    for entry in shown:
        if entry.for_loss is not None:
            yield f"{entry.title}, equal loss", partial(entry.for_loss, asked)


def _remapped(make: Callable[[Request], Mechanism], asked: Request) -> Mechanism:
    return make(asked).remap(asked.prior)
