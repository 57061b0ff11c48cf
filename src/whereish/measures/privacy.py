"""The check of geo-indistinguishability: k(x, z) <= exp(eps d(x, x')) k(x', z) for all x, x', z.

It does not know how a mechanism was built, and shares no code with the constructors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from whereish.compiled import for_rows
from whereish.errors import GuaranteeError, InputError
from whereish.measures.channel import Channel, checked
from whereish.places import Array, as_epsilon, as_metric, euclidean


class TightestEpsilon(float):
    """A privacy level, with the pair of inputs and the output that attain it."""

    pair: tuple[int, int]
    output: int

    def __new__(cls, value: float, pair: tuple[int, int], output: int) -> TightestEpsilon:
        """Make the number and set the pair and the output."""
        number = super().__new__(cls, value)
        number.pair = pair
        number.output = output
        return number

    def __reduce__(self) -> tuple[object, ...]:
        """Return the constructor and its arguments, for pickle."""
        return TightestEpsilon, (float(self), self.pair, self.output)


@dataclass(frozen=True)
class Verdict:
    """The result of a check of privacy.

    Attributes
    ----------
    ratios
        The number of ratios that were compared: ordered pairs of different inputs, times outputs.
    slack
        The smallest value of eps d(x, x') - ln(k(x, z) / k(x', z)).
    pair, output
        The x, x' and z that attain it.
    """

    ratios: int
    slack: float
    pair: tuple[int, int]
    output: int


def tightest_epsilon(mechanism: Channel, metric: ArrayLike | None = None) -> TightestEpsilon:
    """Return the smallest epsilon (per km) for which a mechanism is private.

    The maximum of ln(k(x, z) / k(x', z)) / d(x, x') over x, x', z. It is infinite if one place may
    report z and another never does. The result is a float with two attributes: ``.pair`` (x, x')
    and ``.output`` z attain the maximum.

    Parameters
    ----------
    metric
        d_X; if not given, the metric of the mechanism, or Euclidean distance for a mechanism
        without an epsilon.
    """
    distances = _privacy_metric(checked(mechanism), metric)
    logs = _worst_logs(mechanism.matrix)
    per_distance = np.divide(logs, distances, out=np.zeros_like(logs), where=distances > 0)
    pair = _where(per_distance.argmax(), logs.shape)
    return TightestEpsilon(per_distance[pair], pair, _output(mechanism.matrix, pair))


def check_private(matrix: Array, epsilon: float, metric: ArrayLike) -> Verdict:
    """Check every ratio of a matrix against epsilon.

    The comparison has a margin for its own rounding, so a matrix that passes satisfies the
    definition in exact arithmetic: a quotient, a logarithm and a product of floats are wrong by a
    few units in the last place, and the margin ``guard`` is tens of them.

    Raises
    ------
    GuaranteeError
        If a ratio is too large: the message names the pair and the output.
    """
    level = as_epsilon(epsilon)
    distances = np.asarray(metric, dtype=np.float64)
    _check_stochastic(matrix)
    room = _worst_logs(matrix)
    for x, row in enumerate(distances):  # by rows: n x n numbers are 0.8 GB at 10,000 places
        exponents = level * row
        guard = 1e-15 * (8 + 4 * exponents)
        room[x] = np.maximum(exponents - guard, 0.0) - room[x]
    np.fill_diagonal(room, np.inf)
    pair = _where(room.argmin(), room.shape)
    slack, output = float(room[pair]), _output(matrix, pair)
    if slack < 0:
        raise GuaranteeError(
            f"not private: place {pair[0]} reports output {output} with probability "
            f"{matrix[pair[0], output]:g}, place {pair[1]} with {matrix[pair[1], output]:g}; "
            f"at epsilon {level:g} and distance {distances[pair]:g} the ratio may be at most "
            f"exp({level * distances[pair]:g})"
        )
    n, m = matrix.shape
    return Verdict(n * (n - 1) * m, slack, pair, output)


def _check_stochastic(matrix: Array) -> None:
    if not np.isfinite(matrix).all() or matrix.min() < 0:
        raise GuaranteeError(f"not a mechanism: a probability is {np.nanmin(matrix)}")
    sums = matrix.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-12:
        raise GuaranteeError(f"not a mechanism: row {worst} sums to {sums[worst]!r}, not 1")


def _worst_logs(matrix: Array) -> Array:
    """Return, for all x and x', the largest ln(k(x, z) / k(x', z)) over z; 0 / 0 counts as 1."""
    worst = np.empty((len(matrix), len(matrix)))
    used = np.ascontiguousarray(matrix[:, matrix.max(axis=0) > 0], dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.ascontiguousarray((1 / used).T)
    # The NaN of 0 / 0 is ignored there. A row has a positive entry, so a number remains.
    for_rows("wi_worst_ratios", *used.shape, used, inverse, worst)
    logs = np.log(worst, out=worst)
    if np.isinf(logs).any():
        # Infinite because of a zero, or because the ratio overflows: then its logarithm does not.
        zeros = (matrix > 0).astype(np.float32) @ (matrix == 0).astype(np.float32).T > 0
        for x, other in np.argwhere(np.isinf(logs) & ~zeros):
            both = matrix[x] > 0
            logs[x, other] = (np.log(matrix[x, both]) - np.log(matrix[other, both])).max()
    return logs


def _output(matrix: Array, pair: tuple[int, int]) -> int:
    """Return the output that attains the largest ratio of a pair."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return int(np.nanargmax(matrix[pair[0]] / matrix[pair[1]]))


def _where(flat: np.intp, shape: tuple[int, ...]) -> tuple[int, int]:
    x, other = np.unravel_index(int(flat), shape)
    return int(x), int(other)


def _privacy_metric(mechanism: Channel, metric: ArrayLike | None) -> Array:
    if metric is not None:
        return as_metric("metric", metric, len(mechanism.inputs))
    if mechanism.privacy_metric is not None:
        return mechanism.privacy_metric
    if len(mechanism.inputs) < 2:
        raise InputError("tightest_epsilon needs at least two places, got one")
    return euclidean(mechanism.inputs)
