"""The search for the optimal mechanism: choose solvers, repair and check, keep the best.

`Setting` is the problem without the prior; several priors on the same places share it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.deadline import Deadline
from whereish.errors import GuaranteeError, SolveError
from whereish.limits import BOUND_TOLERANCE
from whereish.measures import Decay, Proof
from whereish.mechanisms.arguments import (
    check_places,
    chosen_outputs,
    metric_or_euclidean,
    quality_matrix,
)
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.plan import plan
from whereish.mechanisms.repairing import repair_and_check
from whereish.places import Array, Places, as_epsilon
from whereish.programs import Spanner, check_dilation, least_loss, privacy_multipliers, spanner_of
from whereish.release import prune
from whereish.solvers import (
    Program,
    Progress,
    Structured,
    attempts,
    solve_on,
)

# Below this many constraints HiGHS takes a moment, and is exact to the last digit.
STRUCTURED_FROM = 3_000
# Above this many HiGHS takes more than an hour; a result with a gap is better.
HIGHS_UP_TO = 300_000
# A loss below this share of the largest possible one counts as zero: its gap does not matter.
NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class Setting:
    """The problem without the prior: places, privacy level, metrics, dilation, deadline."""

    inputs: Places
    targets: Places
    level: float
    metric: Array
    loss: Array
    dilation: float
    deadline: Deadline = field(default_factory=Deadline)

    @cached_property
    def spanner(self) -> Spanner:
        """The greedy spanner of the privacy metric."""
        return spanner_of(self.metric, self.dilation, self.deadline)

    @cached_property
    def programs(self) -> dict[float, Program]:
        """The prepared programs of the structured solver, by privacy level."""
        return {}

    @cached_property
    def decay(self) -> Decay:
        """The values of exp(-eps d) that lower bounds need."""
        return Decay(self.level)

    def program(self, level: float) -> Program:
        """Return the program of the structured solver for a level, prepared once."""
        if level not in self.programs:
            lengths = level * self.spanner.lengths
            self.programs[level] = Program(
                self.loss, self.spanner.edges, lengths, level * self.metric
            )
        return self.programs[level]

    def prepare(self) -> None:
        """Compute now what several threads will share, if the structured solver will be used."""
        if self.constraints >= STRUCTURED_FROM:
            for level in {self.edge_epsilon, self.level}:
                self.program(level)

    @property
    def constraints(self) -> int:
        """The number of constraints of the linear program."""
        n, m = self.loss.shape
        return plan("exact", n, m, len(self.spanner.edges), None, np.inf).constraints

    @property
    def edge_epsilon(self) -> float:
        """The level on the edges of the spanner that makes all pairs private."""
        return self.spanner.edge_epsilon(self.level)


def setting_of(
    places: Places,
    epsilon: float,
    dilation: float,
    privacy_metric: ArrayLike | None,
    quality_metric: ArrayLike | None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None,
    deadline: Deadline | None = None,
) -> Setting:
    """Validate the arguments of a build, except the prior."""
    inputs = check_places(places)
    level = as_epsilon(epsilon)
    check_dilation(dilation)
    metric = metric_or_euclidean(privacy_metric, inputs)
    targets = chosen_outputs(inputs, outputs)
    if privacy_metric is None and quality_metric is None and outputs is None:
        loss = metric
    else:
        loss = quality_matrix(inputs, targets, outputs, quality_metric)
    return Setting(inputs, targets, level, metric, loss, dilation, deadline or Deadline())


@dataclass(frozen=True, eq=False)
class Task:
    """A solve: the problem, the prior, the tolerance, and how to run it."""

    setting: Setting
    prior: Array
    tolerance: float
    progress: Callable[[Progress], object] | None = None
    threads: int | None = None
    stop: NDArray[np.uint8] | None = None
    cluster: str | None = None

    def structured(self, level: float, tolerance: float) -> Structured:
        """Run the structured solver on the spanner at a level, within the deadline."""
        program = self.setting.program(level)
        limit = self.setting.deadline.seconds
        if self.cluster is not None:
            from whereish.distributed.ray_solver import solve_on_cluster

            return solve_on_cluster(
                self.cluster, program, self.prior, tolerance, limit, self.progress, self.stop
            )
        return solve_on(
            program, self.prior, tolerance, limit, self.progress, self.threads, self.stop
        )


@dataclass(frozen=True, eq=False)
class _Answer:
    """The matrix of a solver, fields of its build record, and the proof of its lower bound."""

    matrix: Array
    build_fields: dict[str, Any] = field(default_factory=dict)
    proof: Proof | None = None
    bound: float | None = None
    notes: tuple[str, ...] = ()


def _answers(task: Task, solver: str, form: str | None, constraints: int) -> Iterator[_Answer]:
    """Yield the answer of the requested solver, or of several in the best order for the size."""
    setting, spanner = task.setting, task.setting.spanner
    deadline = setting.deadline
    # Only the structured solver has a result when the time is up.
    suits = constraints >= STRUCTURED_FROM or deadline.seconds is not None
    structured = solver == "structured" or (solver == "auto" and form is None and suits)
    dilated = spanner.exact_dilation > 1 + 1e-9
    proof: Proof | None = None
    if structured:
        deadline.check("before the search began")
        found = task.structured(setting.edge_epsilon, task.tolerance)
        stopped = found.stopped if found.stopped in ("time", "asked") else None
        # At the full epsilon, multipliers of any pairs bound the loss of every mechanism with this
        # privacy. With a dilation, the best multipliers there differ from those found here.
        proof = _proof(found, setting.level)
        if dilated and stopped is None and not deadline.passed:
            proof = _proof(task.structured(setting.level, BOUND_TOLERANCE), setting.level)
        fields = {"solver": "structured", "stopped": stopped}
        yield _Answer(found.matrix, fields, proof, found.bound, _cluster_note(found, task.cluster))
        # A caller that continues needs a smaller gap.
        if solver == "structured" or stopped is not None or constraints > HIGHS_UP_TO:
            return
    if not deadline.passed:
        exponents = setting.edge_epsilon * spanner.lengths
        program = least_loss(task.prior, setting.loss, spanner.edges, exponents)
        n, m = setting.loss.shape
        for solution in attempts(program, solver, form, deadline.seconds):
            matrix = solution.values.reshape(m, n).T
            fields = {"solver": solution.solver, "form": solution.form}
            if not dilated:
                rows = privacy_multipliers(solution.multipliers, m, spanner.edges, exponents)
                proof = Proof(setting.level, *rows)
            elif proof is None and solver == "auto":
                proof = _proof(task.structured(setting.level, BOUND_TOLERANCE), setting.level)
            yield _Answer(matrix, fields, proof, solution.objective if dilated else None)


def _proof(found: Structured, level: float) -> Proof:
    y = found.multipliers
    return Proof(level, y.output, y.left, y.right, y.value)


def _cluster_note(found: Structured, cluster: str | None) -> tuple[str, ...]:
    if cluster is None:
        return ()
    if found.machines == 1:
        return ("solved on one machine: the program is small, or the cluster has one machine",)
    megabytes = found.moved_bytes / 1e6
    return (
        f"{found.machines} machines of a cluster shared the program: {megabytes:,.0f} MB were sent "
        f"between them in {found.iterations} iterations",
    )


def best_of(task: Task, solver: str, form: str | None, start: float) -> Mechanism:
    """Return the best mechanism of all solvers, repaired and checked."""
    setting, weights, tolerance = task.setting, task.prior, task.tolerance
    spanner, (n, m) = setting.spanner, setting.loss.shape
    chosen = plan("exact", n, m, len(spanner.edges), None, np.inf)
    weighted_loss = weights[:, None] * setting.loss
    common = Build(
        method="optimal",
        edges=len(spanner.edges),
        variables=chosen.variables,
        constraints=chosen.constraints,
        dilation=spanner.dilation,
        requested_dilation=spanner.requested,
        notes=_notes(spanner, n),
    )
    best: Mechanism | None = None
    problem = "no solver had an answer within the time allowed"
    try:
        for answer in _answers(task, solver, form, chosen.constraints):
            fields = dict(answer.build_fields)
            if answer.proof is not None:
                proof, bound = prune(
                    answer.proof, weights, setting.loss, setting.metric, setting.decay
                )
                answer = replace(answer, proof=proof)
                fields["lower_bound_km"] = max(bound, 0.0)
            notes = (*common.notes, *answer.notes)
            build = replace(common, **fields, seconds=time.perf_counter() - start, notes=notes)
            try:
                found = repair_and_check(
                    answer.matrix, setting.inputs, setting.targets, setting.level, setting.metric,
                    build, weighted_loss, answer.proof, answer.bound,
                )  # fmt: skip
            except GuaranteeError as broken:
                problem = f"{build.solver} returned a matrix that cannot be used: {broken}"
                continue
            # A later answer replaces an earlier one with a gap if it is as good.
            loss = float((weighted_loss * found.matrix).sum())
            best_loss = np.inf if best is None else float((weighted_loss * best.matrix).sum())
            if loss <= (1 + tolerance) * best_loss:
                best = found
            gap = found.build.program_gap
            if gap is None or gap <= tolerance or loss <= NOTHING * weighted_loss.sum():
                break
    except SolveError:
        if best is None:
            raise
    if best is None:
        raise SolveError(problem)
    return best


def _notes(spanner: Spanner, n: int) -> tuple[str, ...]:
    """Describe the cost of a spanner. At dilation 1 it costs nothing: it implies all pairs."""
    pairs = n * (n - 1) // 2
    edges = len(spanner.edges)
    if spanner.requested > 1 and spanner.dilation > 1 + 1e-9:
        return (
            f"a spanner of {edges:,} of {pairs:,} pairs was constrained, at epsilon / "
            f"{spanner.dilation:.4g}: as private as asked, with slightly more loss",
        )
    return ()
