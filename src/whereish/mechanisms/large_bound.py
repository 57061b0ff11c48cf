"""A lower bound for sets of places that are too large for an exact solve.

There are three ways. Where columns are short, programs with small supports (`local`) have nearly
optimal prices, and most of the flows that prove them. Where they are longer, such a program with
some of the outputs has good prices; the flows for all outputs are found by an auction
(`price_bound`). Otherwise the prices are those of a coarser program (`coarse`), raised in passes.
Each step is made smaller if there is less time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from whereish.deadline import Deadline
from whereish.errors import SolveError
from whereish.limits import BOUND_PLACES, BOUND_POWER, BOUND_S
from whereish.measures import Proof, relative_gap, streamed_bound
from whereish.mechanisms.coarse import Coarse, solve_coarse
from whereish.mechanisms.local import Local, has_time, local_proofs, solve_in_rounds
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.price_bound import (
    EFFORTS,
    GOOD_RAISE,
    RAISE,
    Problem,
    improved,
    nearly_covered,
    pass_seconds,
    proofs,
)
from whereish.mechanisms.supports import spread_outputs
from whereish.places import Array
from whereish.solvers import estimate

Progress = Callable[[int, int], object]

_SIZES = (500, 400, 350, 300, 250, 200, 150, 100, 60)  # clusters of the program for all places
_WHOLE_SHARE = 0.3  # of the time, for the program of all places
_COARSE_S = 0.5  # of the estimated time of a solve, which is for a smaller gap
_CLUSTERING_S = 7e-8  # seconds to choose clusters, times the square of the number of places
_LARGEST_GAP = 0.1  # of a coarser program that is preferred to the smallest one
_LOCAL_CLUSTERS = 150  # of the program with which those with small supports begin
_LOCAL_OUTPUTS = 400  # of these, where there is no time for all
_LOCAL_SHARE, _SOME_SHARE = 0.78, 0.45  # of the time, for programs with all outputs, with some
_STEPS = 200  # of all these programs together, about
_GOOD_GAP = 0.2  # with a larger one, the bound of a coarser program is tried too
_MOST_LOCAL = 6_000  # for more places, the Schur complement needs too much memory
# A proof of lower prices is faster, and costs less than a less thorough one.
_WAYS = (
    *((EFFORTS[0], share) for share in (1.0, 0.97, 0.94, 0.9)),
    *((effort, 1.0) for effort in EFFORTS[1:]),
)
# A proof with more multipliers, or for more pairs of places and outputs, is not kept.
_KEPT_ROWS, _KEPT_PAIRS = 5_000_000, 10_000_000


def allowed_seconds(n: int, time_limit_s: float | None) -> float:
    """Return the time of all steps: the limit, or where there is none what n places may take."""
    if time_limit_s is not None:
        return time_limit_s
    return float(BOUND_S * max(1.0, n / BOUND_PLACES) ** BOUND_POWER)


def whole_program(problem: Problem, seconds: float) -> tuple[Coarse | None, float]:
    """Solve one coarser program for all places, as large as the time allows.

    The smallest one comes first. It tells how fast the machine is now, and it is there if there is
    no time for a larger one. Also returns how many times longer than expected it took.
    """
    deadline = Deadline(seconds * _WHOLE_SHARE)
    clustering = _CLUSTERING_S * len(problem.prior) ** 2

    def expected(clusters: int) -> float:
        return clustering + _COARSE_S * estimate(clusters, clusters, 0).seconds

    smallest = min(_SIZES)
    start = time.perf_counter()
    # There is no bound without it, and it is small.
    first = solve_coarse(*_parts(problem), smallest)
    slow = max(1.0, (time.perf_counter() - start) / expected(smallest))
    clusters = next((c for c in _SIZES if slow * expected(c) <= deadline.left), smallest)
    if clusters > smallest and len(problem.prior) > smallest:
        found = solve_coarse(*_parts(problem), clusters, max(deadline.left, 0.0))
        # A solve that was ended early may have prices that are worse than coarse ones.
        if found is not None and (first is None or found.gap < _LARGEST_GAP):
            return found, slow
    return first, slow


def _parts(problem: Problem) -> tuple[Array, Array, float, Array]:
    return problem.prior, problem.loss, problem.epsilon, problem.metric


def local_program(
    problem: Problem, deadline: Deadline, progress: Progress | None = None
) -> Local | None:
    """Solve programs with small supports, if there is time and memory for them.

    If there is no time for all outputs, for some.
    """
    n, m = problem.loss.shape
    if n > _MOST_LOCAL:
        return None
    sizes = [
        (outputs, share)
        for outputs, share in ((m, _LOCAL_SHARE), (_LOCAL_OUTPUTS, _SOME_SHARE))
        if outputs <= m and has_time(problem, outputs, Deadline(share * deadline.left))
    ]
    first = solve_coarse(*_parts(problem), _LOCAL_CLUSTERS) if sizes else None
    if first is None:
        return None
    decay, done = problem.decay(), 0

    def tell() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done, _STEPS - 1), _STEPS)

    for outputs, share in sizes:
        chosen = spread_outputs(problem, first, outputs) if outputs < m else np.arange(m)
        until = Deadline(share * deadline.left)
        try:
            found = solve_in_rounds(problem, chosen, first, decay, until, tell)
        except SolveError:  # the core refuses the numbers, or memory is short: see `coarse_bound`
            return None
        if found is not None:
            return found
    return None


@dataclass(frozen=True, eq=False)
class PriceBound:
    """A lower bound, its proof if that is small enough, and a sentence about both."""

    bound: float
    proof: Proof | None
    note: str


def _price_bound(
    problem: Problem, prices: Array, deadline: Deadline, progress: Progress | None, note: str,
    raised: float = RAISE,
) -> PriceBound:  # fmt: skip
    """Bound the loss of every private mechanism.

    Where a thorough proof would be late, a less thorough one is made. The least thorough one is
    made at any rate: it takes a small part of the time of the mechanism itself.
    """
    decay = problem.decay()
    effort, pass_s, proof_s = EFFORTS[-1], 0.0, 0.0
    if not deadline.passed:
        wanted = nearly_covered(problem, prices, decay)
        for effort, share in _WAYS:
            prices = share * wanted
            pass_s, proof_s = pass_seconds(problem, prices, decay, effort)
            if deadline.left > proof_s:
                break
    if deadline.left > pass_s + proof_s or effort == EFFORTS[-1]:
        ready = deadline.earlier(proof_s)
        prices = improved(problem, prices, decay, progress, ready, effort, raised)
    return _checked(problem, proofs(problem, prices, decay, effort, deadline), note)


def _checked(problem: Problem, multipliers: Iterator[Proof], note: str) -> PriceBound:
    """Compute the bound that multipliers prove, and keep them if they are few."""
    kept: list[Proof] = []
    n, m = problem.loss.shape
    count = 0

    def parts() -> Iterator[Proof]:
        nonlocal count
        for part in multipliers:
            count += len(part.value)
            if n * m <= _KEPT_PAIRS and count <= _KEPT_ROWS:
                kept.append(part)
            else:
                kept.clear()
            yield part

    bound = max(0.0, streamed_bound(parts(), problem.prior, problem.loss, problem.metric))
    proof = None
    if kept and sum(len(part.value) for part in kept) == count:
        proof = Proof(
            problem.epsilon,
            np.concatenate([part.output for part in kept]),
            np.concatenate([part.left for part in kept]),
            np.concatenate([part.right for part in kept]),
            np.concatenate([part.value for part in kept]),
        )
    if proof is None:
        note += f"; its proof of {count:,} multipliers was checked and is not kept"
    return PriceBound(bound, proof, note)


def local_bound(
    problem: Problem, local: Local, deadline: Deadline, progress: Progress | None = None
) -> PriceBound:
    """Bound the loss by the prices of programs with small supports."""
    note = f"the lower bound is from columns up to {local.radius:g} / epsilon long"
    if len(local.outputs) == problem.loss.shape[1]:
        return _checked(problem, local_proofs(problem, local, problem.decay()), note)
    note += f", of {len(local.outputs):,} outputs"
    prices = local.solution.prices
    return _price_bound(problem, prices, deadline, progress, note, GOOD_RAISE)


def coarse_bound(
    problem: Problem, whole: Coarse, deadline: Deadline, progress: Progress | None = None
) -> PriceBound:
    """Bound the loss by the prices of a coarser program."""
    note = f"the lower bound is from the prices of {len(whole.medoids)} clusters of places"
    return _price_bound(problem, whole.prices, deadline, progress, note)


def large_bound(
    problem: Problem, local: Local | None, loss: float, deadline: Deadline,
    progress: Progress | None = None, whole: Coarse | None = None,
) -> PriceBound | None:  # fmt: skip
    """Bound the loss of every private mechanism; None if there is no time for any bound.

    Parameters
    ----------
    local
        What `local_program` returned.
    loss
        Of the mechanism that the bound is for.
    whole
        A coarser program, if it is known.
    """
    found = None if local is None else local_bound(problem, local, deadline, progress)
    if found is not None and (found.bound >= (1 - _GOOD_GAP) * loss or deadline.passed):
        return found
    if whole is None:
        whole, _ = whole_program(problem, max(deadline.left, 0.0))
    if whole is None:
        return found
    other = coarse_bound(problem, whole, deadline, progress)
    return other if found is None or other.bound > found.bound else found


def loss_of(mechanism: Mechanism, problem: Problem) -> float:
    """Return the quality loss of a mechanism."""
    rows = zip(problem.prior, problem.loss, mechanism.matrix, strict=True)
    return float(sum(weight * (row @ chances) for weight, row, chances in rows))


def with_bound(mechanism: Mechanism, problem: Problem, found: PriceBound | None) -> Mechanism:
    """Return a mechanism with a lower bound and its gap, if there is a bound."""
    build = mechanism.build
    if found is None:
        notes = (*build.notes, "there was no time for a lower bound")
        return mechanism.with_metadata(replace(build, notes=notes))
    build = replace(
        build, lower_bound_km=found.bound,
        gap=relative_gap(loss_of(mechanism, problem), found.bound),
        notes=(*build.notes, found.note),
    )  # fmt: skip
    return mechanism.with_metadata(build, found.proof)
