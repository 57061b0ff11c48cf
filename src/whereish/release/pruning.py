"""Prune a proof of a lower bound: fewer multipliers that prove the same bound.

An interior-point method returns multipliers inside the set of the optimal ones: thousands for each
output, all of them positive. A proof needs at most n - 1 of them for each output.

The multipliers of one output z are a flow. The row (left, right) with multiplier y takes y from its
right place; exp(-eps d) y arrives at its left place. The reduced cost of place x,

    r(x, z) = prior(x) d_Q(x, z) - (A'y)(x, z),

is what x has at first, less what is taken from it, plus what arrives. The bound is the sum over x
of the least r(x, z) over z. So a flow may be replaced by any other one that makes no r(x, z)
smaller.

1. **Cancel cycles.** Take a cycle of rows, in either direction. Change the flow along it by a small
   step: rows along the direction get larger, rows against it smaller, and each place passes on what
   it receives. At one place, the apex, the arriving amount differs from the amount needed there.
   Reversing the direction reverses the sign of the difference, so in one direction the apex has a
   surplus, and no r(x, z) becomes smaller. In this direction some row gets smaller: if all rows
   were along it, the factors exp(-eps d) < 1 would make a loss. Take the largest step that leaves
   all rows >= 0. A row is then 0 and is left out. In the end there is no cycle: the rows of an
   output are a forest, at most n - 1 rows on n places.
2. **Return what is not needed.** Where r(x, z) is above the least one over the outputs, the
   difference is spare: a row that ends at x is reduced by as much as that allows, down to 0. Its
   right place then has more to spare. Outputs that no optimal mechanism uses need fewer rows so.

This is cycle cancelling for generalised flows [1]_ with free disposal. In exact arithmetic the
bound does not become lower. Rounding may lower it in its last digits. It is therefore computed
again from the rows that are left, and only this bound is recorded. docs/proofs/bound.md has the
argument.

References
----------
.. [1] Ahuja, Magnanti, Orlin: Network Flows, chapter 15: Generalized flows. Prentice Hall, 1993.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.measures import Decay, Proof, lower_bound, valid_rows
from whereish.parallel import parallel_for
from whereish.places import Array

Numbers = NDArray[np.int64]
# The bound of a pruned proof may be lower by this share of the bound of the whole one: rounding.
LOST = 2.0**-40
# The rounding error of a reduced cost in doubles, as a share of the sum of all its terms.
_ROOM = 2.0**-44
# exp(-eps d) below this is not divided by. Rows of such pairs prove nothing that a double can hold.
_FAINTEST = 1e-200
_MANY = 200_000  # rows, from which threads are worth their start


def prune(
    proof: Proof,
    prior: Array,
    quality_metric: Array,
    privacy_metric: Array,
    decay: Decay | None = None,
) -> tuple[Proof, float]:
    """Return a proof with at most m (n - 1) multipliers, and the lower bound that it proves.

    The bound is that of `lower_bound` for the returned proof. It is lower than that of the given
    proof by at most a relative `LOST`. Where rounding would cost more, the given proof is returned.

    Raises
    ------
    GuaranteeError
        If these are not multipliers of rows.
    """
    cost = prior[:, None] * quality_metric
    n, m = cost.shape
    rows = _ordered(proof, n, m, privacy_metric)
    fewer = _pruned(rows, cost, proof.epsilon)
    bound = lower_bound(fewer, prior, quality_metric, privacy_metric, decay)
    # The bound of the given proof takes longer than the pruning. Doubles are enough to tell that
    # it is not higher, unless it is many digits smaller than the costs.
    reduced, error = _reduced(cost, rows)
    whole = float((reduced + error).min(axis=0).sum())
    if bound < whole - LOST * abs(whole):
        whole = lower_bound(proof, prior, quality_metric, privacy_metric, decay)
        if bound < whole - LOST * abs(whole):
            return proof, whole
    return fewer, bound


def _pruned(rows: _Rows, cost: Array, epsilon: float) -> Proof:
    """Cancel all cycles of each output's rows, then return what is not needed."""
    from whereish.release.compiled_pruning import cancel_cycles, return_spare

    n, m = cost.shape
    left_over = rows.positive()
    _for_outputs(cancel_cycles, m, n, *left_over.by_output(m))
    left_over = left_over.positive()
    reduced, error = _reduced(cost, left_over)
    spare = np.maximum(reduced - reduced.min(axis=0) - error.max(axis=0), 0.0)
    _for_outputs(return_spare, m, spare, *left_over.by_output(m))
    left_over = left_over.positive()
    output, left, right = (
        part.astype(np.int32) for part in (left_over.output, left_over.left, left_over.right)
    )
    return Proof(epsilon, output, left, right, left_over.y)


@dataclass(frozen=True)
class _Rows:
    """Rows by output: y leaves the right place, gain y arrives at the left place."""

    output: Numbers
    left: Numbers
    right: Numbers
    gain: Array
    y: Array

    def by_output(self, m: int) -> tuple[Numbers, Numbers, Numbers, Array, Array]:
        """Return where the rows of each output begin, and the arrays of the compiled loops."""
        first = np.searchsorted(self.output, np.arange(m + 1))
        return first, self.left, self.right, self.gain, self.y

    def positive(self) -> _Rows:
        """Return a copy of the rows with a multiplier above 0 that reach their left place."""
        kept = np.flatnonzero((self.y > 0) & (self.gain > _FAINTEST))
        return _Rows(*(part[kept] for part in vars(self).values()))


def _ordered(proof: Proof, n: int, m: int, metric: Array) -> _Rows:
    """Return the rows by output; those of an output by multiplier, the largest first.

    Large multipliers enter the forest first, so that few rows of it are replaced later. The bits of
    positive floats are in the order of the floats.
    """
    output, left, right, y = valid_rows(proof, n, m)
    bits = np.minimum(y, 1e30).astype(np.float32).view(np.int32)
    order = np.argsort((output << 32) - bits, kind="stable")
    decay = np.exp(-proof.epsilon * np.maximum(metric, metric.T))
    left, right = left[order], right[order]
    return _Rows(output[order], left, right, decay[left, right], y[order])


def _reduced(cost: Array, rows: _Rows) -> tuple[Array, Array]:
    """Return (m, n) reduced costs in doubles, and how far each may be off by rounding."""
    n, m = cost.shape
    arrives = np.bincount(rows.output * n + rows.left, rows.gain * rows.y, m * n).reshape(m, n)
    leaves = np.bincount(rows.output * n + rows.right, rows.y, m * n).reshape(m, n)
    return cost.T + arrives - leaves, _ROOM * (cost.T + arrives + leaves)


def _for_outputs(kernel: Callable[..., Any], m: int, *arguments: Any) -> None:
    """Run a compiled loop over all outputs; the outputs are independent of one another."""
    if len(arguments[-1]) < _MANY:
        kernel(0, m, *arguments)
    else:
        parallel_for(kernel, m, *arguments)
