"""The paper's mechanisms side by side for one profile and one privacy level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from whereish.errors import WhereishError
from whereish.measures import (
    adversary_error,
    conditional_entropy,
    quality_loss,
    report_radius,
    tightest_epsilon,
    worst_case_loss,
)
from whereish.mechanisms import (
    Mechanism,
    exponential,
    optimal,
    optimal_privacy,
    planar_laplace,
    planar_laplace_for_loss,
    tight_constraints,
)
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
    dilation: float = 1.0,
    solver: str = "auto",
    time_limit_s: float | None = None,
) -> Iterator[Row]:
    """Build and measure the mechanisms of the paper and its peers, one row at a time.

    First those with the same epsilon, then those with the same quality loss as the optimal one
    (Section 4.2). One that does not exist or cannot be solved is a row that says so.
    """
    places, prior = profile.places, profile.prior
    best = optimal(places, prior, epsilon, dilation, solver=solver, time_limit_s=time_limit_s)
    if best.build.stopped == "asked":
        raise KeyboardInterrupt  # half an optimum is nothing to compare with
    yield measure("optimal", best, profile)
    loss = quality_loss(best, prior)
    makers: list[tuple[str, Callable[[], Mechanism]]] = [
        ("tight constraints + remap", lambda: tight_constraints(places, epsilon).remap(prior)),
        ("planar Laplace + remap", lambda: planar_laplace(places, epsilon).remap(prior)),
        ("tight constraints", lambda: tight_constraints(places, epsilon)),
        ("planar Laplace", lambda: planar_laplace(places, epsilon)),
        ("exponential", lambda: exponential(places, epsilon)),
        ("planar Laplace, equal loss", lambda: planar_laplace_for_loss(places, prior, loss)),
        (
            "Shokri et al., equal loss",
            lambda: optimal_privacy(places, prior, loss, solver=solver, time_limit_s=time_limit_s),
        ),
    ]
    for name, make in makers:
        try:
            yield measure(name, make(), profile)
        except WhereishError as wrong:
            yield Row(name, problem=str(wrong))
