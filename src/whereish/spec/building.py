"""From the description of a build to its plan and its mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whereish import limits
from whereish.errors import InputError, SolveError
from whereish.everywhere import Everywhere, optimal_everywhere, plan_everywhere
from whereish.mechanisms import MECHANISMS, Plan, Request
from whereish.mechanisms.plan import plan
from whereish.solvers import Progress
from whereish.solvers.estimates import estimate_general, expected_edges

if TYPE_CHECKING:
    from whereish.spec.build_spec import BuildSpec

PLACES, EVERYWHERE = GUARANTEES = ("places", "everywhere")


def plan_of(spec: BuildSpec, memory_limit_gb: float) -> Plan:
    """Say how it will be built, how long that takes and how much memory: `BuildSpec.plan`."""
    if spec.guarantee == EVERYWHERE:
        return _plan_everywhere(spec, memory_limit_gb)
    n = len(spec.places)
    edges = expected_edges(n, spec.dilation, straight=spec.privacy_metric is None)
    method = spec.method if MECHANISMS[spec.method].is_planned else "closed-form"
    try:
        made = plan(method, n, spec.reports, edges, spec.time_limit_s, memory_limit_gb)
    except SolveError as wrong:
        raise InputError(f"places must fit into the memory: {wrong}", "places") from None
    if made.method == "closed-form" or spec.solver in ("auto", "structured"):
        return made
    general = estimate_general(made.constraints)
    memory = general.gigabytes
    if memory > memory_limit_gb:
        raise InputError(
            f"solver {spec.solver} needs about {memory:.2g} GB for {made.constraints:,} "
            f"constraints, and {memory_limit_gb:g} GB is allowed: take auto", "solver",
        )  # fmt: skip
    return replace(made, seconds=general.seconds, memory_gb=memory)


def build_of(
    spec: BuildSpec,
    memory_limit_gb: float,
    announce: Callable[[Plan], object] | None,
    progress: Callable[[Progress], object] | None,
    stage: Callable[[str], object] | None,
    cluster: str | None,
) -> Any:
    """Build the mechanism that is described: `BuildSpec.build`."""
    if spec.guarantee == EVERYWHERE:
        if cluster is not None:
            raise InputError("cluster must be left out with guarantee everywhere", "cluster")
        return _build_everywhere(spec, memory_limit_gb, announce, progress, stage)
    entry = MECHANISMS[spec.method]
    make = entry.for_epsilon
    if cluster is not None and not entry.is_planned:
        raise InputError(f"cluster must be left out with {spec.method}, which needs no solver")
    assert make is not None  # noqa: S101  (a method is a mechanism with an epsilon)
    return make(
        Request(
            spec.places, spec.built_for, spec.epsilon_per_km, None, spec.dilation, spec.method,
            spec.solver, spec.form, spec.tolerance, spec.time_limit_s, memory_limit_gb,
            spec.distances("privacy_metric"), spec.distances("quality_metric"), spec.outputs,
            announce, progress, cluster,
        )
    )  # fmt: skip


def _plan_everywhere(spec: BuildSpec, memory_limit_gb: float) -> Plan:
    most, reports = spec.vertices or limits.VERTICES, spec.outputs and len(spec.outputs)
    try:
        return plan_everywhere(
            spec.method, len(spec.places), most, reports, spec.time_limit_s, memory_limit_gb
        )
    except SolveError as wrong:
        raise InputError(f"vertices must fit into the memory: {wrong}", "vertices") from None


def _build_everywhere(
    spec: BuildSpec,
    memory_limit_gb: float,
    announce: Callable[[Plan], object] | None,
    progress: Callable[[Progress], object] | None,
    stage: Callable[[str], object] | None,
) -> Everywhere:
    planned = _plan_everywhere(spec, memory_limit_gb)
    if announce is not None:
        announce(planned)
    return optimal_everywhere(
        spec.places, spec.prior, spec.epsilon_per_km,
        vertices=spec.vertices or limits.VERTICES,
        outputs=None if spec.outputs is None else spec.places.subset(list(spec.outputs)),
        method=_method(planned.method, spec.lattice_only),
        tolerance=spec.tolerance, time_limit_s=spec.time_limit_s, progress=progress,
        stage=stage, memory_limit_gb=memory_limit_gb, normalise=True,
    )  # fmt: skip


def _method(planned: str, lattice_only: bool) -> str:
    if planned == "closed-form":
        return "planar-laplace"
    return "lattice" if lattice_only else "auto"
