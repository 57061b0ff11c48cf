"""What the places outside the supports mean for a program with small supports.

For prices b, the gain of place x for output z is c_z(x) - b(x), with c_z(x) = prior(x) d_Q(x, z).
The proof must cover places with a negative gain by flows from places with a positive one (see
docs/proofs/price-bound.md). Inside a support the solver finds these flows. Outside:

- **Common flows** serve all outputs at once. They cover the places for the least cost that a place
  has for any output that it is not near to. For an output, those between places that are not near
  to it are used.
- **Border flows** cover, for one output, what the common flows of places near to it would cover.
- What is still uncovered is **charged** to a place of the support: its cost is lowered.
- What is left outside goes to the nearest place of the support as its **tail**: the cost of the
  probability that the column must have outside raises the cost of that place.

So the costs of a support are those of all places, at prices that are known from an earlier solve.
All of these flows are multipliers of the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.mechanisms.price_bound import Effort, Problem, cover
from whereish.parallel import in_order
from whereish.places import Array
from whereish.solvers.local import Supports

AT_ONCE = 32  # outputs in a piece of work
_RESERVE = 0.02  # common flows cover so much more than the prices
_TAIL_SHARE = 0.9  # of what is left outside that is given to the support
_TAIL_REACH = 6.0  # tails end at this distance from what is near, in units of 1 / eps
_CHARGED = 0.9  # the share of the cost of a place that may be charged
_KEPT = 0.3  # the share of its price that may not
_SMALL = 1e-6  # a smaller share of a price that is uncovered is not charged
_COMMON = Effort(80, np.exp(-4.5), 1 << 24)
_BORDER = Effort(20, np.exp(-3.5), 1 << 18)

Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], Array]


def applied(reduced: Array, rows: Rows, problem: Problem) -> Array:
    """Return reduced costs (outputs, n) after flows: a row takes from right, and adds to left."""
    output, left, right, value = rows
    n = reduced.shape[1]
    taken = np.bincount(output * n + right, value, reduced.size)
    reach = np.exp(-problem.epsilon * problem.metric[left, right])
    added = np.bincount(output * n + left, value * reach, reduced.size)
    return np.asarray(reduced + (added - taken).reshape(reduced.shape))


def joined(parts: list[Rows]) -> Rows:
    """Return the rows of all parts."""
    if not parts:
        empty = np.empty(0, np.int32)
        return np.empty(0, np.int64), empty, empty, np.empty(0)
    output, left, right, value = zip(*parts, strict=True)
    return (
        np.concatenate(output), np.concatenate(left), np.concatenate(right), np.concatenate(value)
    )  # fmt: skip


def slices(m: int) -> list[slice]:
    """Return the outputs in pieces of work."""
    return [slice(first, min(first + AT_ONCE, m)) for first in range(0, m, AT_ONCE)]


@dataclass(frozen=True, eq=False)
class Common:
    """Flows that serve all outputs, and the costs (n,) that they cover."""

    cost: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array

    def rows(self, blocked: NDArray[np.bool_]) -> Rows:
        """Return the flows of each output between places that are not blocked, (outputs, n)."""
        output, flow = np.nonzero(~(blocked[:, self.left] | blocked[:, self.right]))
        return output, self.left[flow], self.right[flow], self.value[flow]


def common_flows(
    problem: Problem, cost: Array, prices: Array, decay: NDArray[np.float32]
) -> Common:
    """Cover prices at a cost that is at most that of every output for which the flows are used."""
    found = cover(
        np.ascontiguousarray(cost[None]), np.ascontiguousarray(prices), decay, _COMMON,
        10 * len(cost),
    )  # fmt: skip
    return Common(cost, found.left, found.right, found.value)


def least_far_cost(problem: Problem, supports: Supports) -> Array:
    """Return prior(x) times the least d_Q(x, z) over the outputs z that x is not near to."""
    least = np.full(len(problem.prior), np.inf)
    for output, loss in enumerate(problem.loss.T):
        near = supports.of(output)[: supports.near[output]]
        kept = least[near]
        np.minimum(least, loss, out=least)
        least[near] = kept
    return np.asarray(problem.prior * np.where(np.isfinite(least), least, 0.0))


@dataclass(frozen=True, eq=False)
class Outside:
    """The flows outside the supports at some prices.

    Attributes
    ----------
    prices
        (n,) for which they were found.
    costs
        By support: the costs of the program.
    common
        Flows that serve all outputs.
    given, charged
        For each piece of outputs: flows from places outside, which may give less at other prices;
        and flows from places of the support, which its costs already contain.
    """

    prices: Array
    costs: Array
    common: Common
    given: list[Rows]
    charged: list[Rows]


def near_and_inside(
    supports: Supports, some: slice, n: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which places are near to each output, and which are in its support."""
    near = np.zeros((some.stop - some.start, n), bool)
    inside = near.copy()
    for at, output in enumerate(range(some.start, some.stop)):
        places = supports.of(output)
        inside[at, places] = True
        near[at, places[: supports.near[output]]] = True
    return near, inside


def outside_of(
    problem: Problem,
    supports: Supports,
    centres: NDArray[np.int64],
    prices: Array,
    decay: NDArray[np.float32],
) -> Outside:
    """Find the flows outside the supports, and the costs of the supports that follow."""
    n, m = problem.loss.shape
    far_cost = least_far_cost(problem, supports)
    covered = np.where(prices > far_cost, prices * (1 + _RESERVE), prices)
    common = common_flows(problem, far_cost, covered, decay)

    def piece(some: slice) -> tuple[list[Array], Rows, Rows]:
        near, inside = near_and_inside(supports, some, n)
        cost = problem.cost(some)
        with_common = applied(cost, common.rows(near), problem)
        gain = np.where(inside, 0.0, with_common - prices)
        border = cover(np.ascontiguousarray(gain + prices), prices, decay, _BORDER)
        rows: Rows = (border.output.astype(np.int64), border.left, border.right, border.value)
        gain = applied(gain, rows, problem)
        given, charged, costs = [rows], [], []
        for at, output in enumerate(range(some.start, some.stop)):
            places = supports.of(output)
            own = with_common[at, places]
            own[: supports.near[output]] = cost[at, places[: supports.near[output]]]
            edge = problem.metric[centres[output], places[supports.near[output] - 1]]
            left = np.where(inside[at], 0.0, gain[at])
            own, lacking = _charge(problem, prices, places, own, left, at)
            own, tail = _add_tail(problem, centres[output], float(edge), places, own, left, at)
            charged.append(lacking)
            given.append(tail)
            costs.append(own)
        return costs, joined(given), joined(charged)

    found = list(in_order(piece, slices(m)))
    costs = np.concatenate([own for each, _, _ in found for own in each])
    return Outside(
        prices, np.maximum(costs, 0.0), common, [each[1] for each in found],
        [each[2] for each in found],
    )  # fmt: skip


def _charge(
    problem: Problem, prices: Array, places: NDArray[np.int32], own: Array, left: Array, at: int
) -> tuple[Array, Rows]:
    """Charge what is uncovered outside to the place of the support that can give most."""
    lacking = np.flatnonzero(left < -_SMALL * np.abs(prices))
    if not len(lacking):
        return own, joined([])
    decay = np.exp(-problem.epsilon * problem.metric[np.ix_(lacking, places)])
    spare = np.maximum(own - _KEPT * np.maximum(prices[places], 0.0), 0.0)
    giver = (decay * spare).argmax(axis=1)
    value = -left[lacking] / decay[np.arange(len(lacking)), giver]
    wanted = np.bincount(giver, value, len(places))
    share = np.minimum(1.0, _CHARGED * spare / np.maximum(wanted, 1e-300))
    value = value * share[giver]
    rows = (np.full(len(lacking), at), lacking.astype(np.int32), places[giver], value)
    return own - np.bincount(giver, value, len(places)), rows


def _add_tail(
    problem: Problem, centre: int, edge: float, places: NDArray[np.int32], own: Array, left: Array,
    at: int,
) -> tuple[Array, Rows]:  # fmt: skip
    """Give a share of what is left outside to the nearest place of the support."""
    far = problem.epsilon * (problem.metric[centre] - edge)
    tail = np.flatnonzero((left > 0) & (far < _TAIL_REACH))
    if not len(tail):
        return own, joined([])
    metric = problem.metric[np.ix_(tail, places)]
    nearest = metric.argmin(axis=1)
    value = _TAIL_SHARE * left[tail]
    worth = value * np.exp(-problem.epsilon * metric[np.arange(len(tail)), nearest])
    rows = (np.full(len(tail), at), places[nearest], tail.astype(np.int32), value)
    return own + np.bincount(nearest, worth, len(places)), rows
