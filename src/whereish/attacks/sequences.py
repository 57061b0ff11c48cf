"""Attacks on sequences of reports: filter, smoother, Viterbi; and two that ignore movement.

Let x_1, ..., x_T be where a person is, a Markov chain with the transitions M_t of a movement model,
and z_1, ..., z_T the reports. All attacks compute with

    P(x, z) = p(x_1) L_1(x_1) * product over t > 1 of A_t(x_{t-1}, x_t),

    A_t(x, y) = M_t(x, y) L_t(y)                                  for a report that was drawn,
                M_t(x, y) (1 if x = y, else L_t(y))               for one that repeats the last,
                M_t(x, y) (0 if x = y, else L_t(y))               after a move,

where L_t(y) is the probability of the report at y (`Evidence`). Everything is in logarithms, so
that thousands of reports neither overflow nor vanish. If the model rules out the reports, the
attack starts again at that time, from where people are at that time of day.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whereish.attacks.estimate import Estimate, best_guesses
from whereish.attacks.evidence import CHANGED, REPEATED, Evidence
from whereish.errors import InputError
from whereish.places import Array
from whereish.profiles.movement import MovementModel

_KEPT_LOGS = 64
_RESTART = 1e-12  # no place is impossible after reports that the model rules out


def single_report(evidence: Evidence, model: MovementModel) -> Estimate:
    """Guess from each report alone: the posterior is p(x) L_t(x), divided by its sum.

    This is the adversary of `adversary_error`, with the prior of the model.
    """
    _check(evidence, model)
    joint = _log(model.prior) + evidence.log_likelihood
    return _estimate(evidence, *_normalised(joint, evidence.log_likelihood))


def averaging(evidence: Evidence, model: MovementModel) -> Estimate:
    """Guess from all reports so far, as if the person had not moved: p(x) L_1(x) ... L_t(x).

    Reports that repeat the one before count once.
    """
    _check(evidence, model)
    drawn = np.where(evidence.drawn[:, None], evidence.log_likelihood, 0.0)
    joint = _log(model.prior) + np.cumsum(drawn, axis=0)
    posterior, total = _normalised(joint, evidence.log_likelihood)
    return _estimate(evidence, posterior, total[-1:])


def forward_filter(evidence: Evidence, model: MovementModel) -> Estimate:
    """Guess where the person is at each report, from it and the earlier ones.

    The posterior is P(x_t | z_1, ..., z_t).
    """
    chain = _Chain(evidence, model)
    return _estimate(evidence, np.exp(chain.forward), chain.likelihood)


def smoother(evidence: Evidence, model: MovementModel) -> Estimate:
    """Guess where the person was at each report, from all of them: P(x_t | z_1, ..., z_T)."""
    chain = _Chain(evidence, model)
    posterior, _ = _normalised(chain.forward + chain.backward, chain.forward)
    return _estimate(evidence, posterior, chain.likelihood)


def viterbi(evidence: Evidence, model: MovementModel) -> Estimate:
    """Guess the likeliest sequence of places. The posterior is that of the smoother."""
    chain = _Chain(evidence, model)
    posterior, _ = _normalised(chain.forward + chain.backward, chain.forward)
    best, came = chain.first(), []
    for t in range(1, len(evidence)):
        ways = best[:, None] + chain.step(t)
        came.append(ways.argmax(axis=0))
        best = ways.max(axis=0)
    path = [int(best.argmax())]
    for back in reversed(came):
        path.append(int(back[path[-1]]))
    total = float(chain.likelihood.sum())
    return Estimate(evidence.places, evidence.times_s, posterior, np.array(path[::-1]), total)


# Attacks on sequences by name: in the order of what they use.
ATTACKS = {
    "single report": single_report,
    "averaging": averaging,
    "forward filter": forward_filter,
    "smoother": smoother,
    "Viterbi": viterbi,
}


class _Chain:
    """The joint distribution of places and reports, in logarithms."""

    def __init__(self, evidence: Evidence, model: MovementModel) -> None:
        _check(evidence, model)
        self.evidence, self.model = evidence, model
        self.restarts: set[int] = set()
        self._logs: dict[int, tuple[Array, Array]] = {}
        self.likelihood = np.zeros(len(evidence))  # log P(z_t | z_1, ..., z_{t-1})

    def first(self) -> Array:
        """Log p(x_1) L_1(x_1)."""
        if 0 in self.restarts:
            return self._restart(0)
        initial = self.model.initial_at(float(self.evidence.times_s[0]))
        return np.asarray(_log(initial) + self.evidence.log_likelihood[0])

    def step(self, t: int) -> Array:
        """Log A_t, (n, n)."""
        logs, link = self.evidence.log_likelihood[t], self.evidence.links[t]
        if t in self.restarts:
            return np.tile(self._restart(t), (len(logs), 1))
        start, end = self.evidence.times_s[t - 1 : t + 1].tolist()
        matrix = self.model.transition(start, end)
        # The model returns the same array for the same steps: its logarithms are kept with it.
        if id(matrix) not in self._logs:
            if len(self._logs) >= _KEPT_LOGS:
                self._logs.clear()
            self._logs[id(matrix)] = matrix, _log(matrix)
        moves = self._logs[id(matrix)][1]
        found = np.asarray(moves + logs)
        if link in (REPEATED, CHANGED):
            np.fill_diagonal(found, np.diagonal(moves) if link == REPEATED else -np.inf)
        return found

    def _restart(self, t: int) -> Array:
        initial = self.model.initial_at(float(self.evidence.times_s[t]))
        return np.asarray(_log(initial + _RESTART) + self.evidence.log_likelihood[t])

    @cached_property
    def forward(self) -> Array:
        """(T, n) log P(x_t | z_1, ..., z_t)."""
        rows = np.empty(self.evidence.log_likelihood.shape)
        for t in range(len(rows)):
            row = self.first() if t == 0 else log_sum(rows[t - 1][:, None] + self.step(t))
            self.likelihood[t] = log_sum(row)
            if not np.isfinite(self.likelihood[t]):
                self.restarts.add(t)
                row = self._restart(t)
            rows[t] = row - log_sum(row)
        return rows

    @cached_property
    def backward(self) -> Array:
        """(T, n) log P(z_{t+1}, ..., z_T | x_t), up to a constant in each row."""
        _ = self.forward  # finds where the chain starts again
        rows = np.zeros(self.evidence.log_likelihood.shape)
        for t in range(len(rows) - 1, 0, -1):
            row = log_sum((self.step(t) + rows[t]).T)
            rows[t - 1] = row - row.max()
        return rows


def _check(evidence: Evidence, model: MovementModel) -> None:
    if not isinstance(evidence, Evidence) or not isinstance(model, MovementModel):
        raise InputError(
            "an attack needs Evidence and a MovementModel, got "
            f"{type(evidence).__name__} and {type(model).__name__}"
        )
    if not evidence.places.same_as(model.places):
        raise InputError("evidence and model must be about the same places, and they are not")


def _estimate(evidence: Evidence, posterior: Array, likelihood: Array) -> Estimate:
    guesses = best_guesses(posterior, evidence.places)
    return Estimate(
        evidence.places, evidence.times_s, posterior, guesses, float(np.sum(likelihood))
    )


def _normalised(joint: Array, otherwise: Array) -> tuple[Array, Array]:
    """Return rows that sum to 1, and the logarithms of the sums of the rows as they were.

    Where the prior rules out a row, it is taken without the prior.
    """
    total = log_sum(joint.T)
    ruled_out = ~np.isfinite(total)
    rows = np.where(ruled_out[:, None], otherwise, joint)
    posterior = np.exp(rows - log_sum(rows.T)[:, None])
    return posterior, total


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def log_sum(logs: Array) -> NDArray[np.float64]:
    """Return log of the sum of exp over the first axis; minus infinity for an impossible sum."""
    top = logs.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    return _log(np.exp(logs - shift).sum(axis=0)) + shift
