"""The epsilon that meets a target: a quality loss, an adversary error, or a ratio in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.choosing.levels import Person, person_of
from whereish.errors import InputError, SolveError
from whereish.limits import DILATION, LARGEST_EPSILON, SMALLEST_EPSILON, TOLERANCE
from whereish.measures import adversary_error as error_of
from whereish.measures import quality_loss
from whereish.mechanisms import Mechanism
from whereish.places import Places, as_number, euclidean
from whereish.profiles import Profile
from whereish.units import km, length_km

Target = Literal["loss", "adversary_error", "ratio"]
ACCURACY = 1e-3  # relative, of what is reached
_AIM = 0.3  # the search ends at this share of the accuracy
_MOST_STEPS = 100
_NARROW = 1e-9  # of log epsilon: what still differs at its two ends is a jump


@dataclass(frozen=True, eq=False)
class ChosenLevel:
    """An epsilon, and what it reaches.

    Attributes
    ----------
    epsilon
        The privacy level, per km (or per unit of the privacy metric).
    target
        "loss", "adversary_error" or "ratio".
    wanted, reached
        The target in km and what the optimal mechanism at this epsilon has; for "ratio", the ratio.
    hit
        Whether they agree to 1e-3 of the target. False only for an adversary error that jumps over
        the target; then the epsilon is on the private side, with the larger error.
    solves
        The number of programs that were solved; 0 for a ratio.
    mechanism
        The optimal mechanism at this epsilon, checked and certified; None for a ratio.
    words
        The result in one sentence.
    """

    epsilon: float
    target: Target
    wanted: float
    reached: float
    hit: bool
    solves: int
    words: str
    mechanism: Mechanism | None = field(default=None, repr=False)

    def __float__(self) -> float:
        return self.epsilon


def epsilon_for(
    places: Places | Profile,
    prior: ArrayLike | None = None,
    *,
    loss: float | None = None,
    adversary_error: float | None = None,
    ratio: float | None = None,
    within: float | str | None = None,
    dilation: float = DILATION,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, float, float], object] | None = None,
) -> ChosenLevel:
    """Find the epsilon at which the optimal mechanism meets a target. Give exactly one target.

    The loss of the optimal mechanism, L(eps), is continuous and does not increase: a mechanism that
    is eps-private is private at every larger epsilon. So a bracket of log eps closes around each
    target between L at infinity and L(0), the loss of the best constant report. Every step is a
    solve with a certificate.

    With the same metric for quality and adversary, and all places as outputs, the adversary error
    of the optimal mechanism is its loss (Section 3.4 of the paper). With another quality metric it
    may jump.

    Parameters
    ----------
    places, prior
        As in `optimal`; or a `Profile`, and no prior.
    loss
        The expected quality loss, in km (or in the unit of ``quality_metric``).
    adversary_error
        The expected error of the best guess of an adversary who knows the prior, in km.
    ratio, within
        No report is more than ``ratio`` times likelier from one of two places than from the other,
        if they are at most ``within`` apart: km, or text such as "650m". Then eps = ln(ratio) /
        within, without a solve.
    dilation, privacy_metric, quality_metric, outputs, tolerance
        As in `optimal`.
    progress
        Called after each solve with the number of solves, the epsilon and what it reached.

    Raises
    ------
    InputError
        If no epsilon meets the target. The message names no figure of the prior; `trade_off` shows
        which targets can be met.
    SolveError
        If the solves are too inexact to meet the target: with a large tolerance.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> found = wh.epsilon_for(places, [0.2, 0.5, 0.3], loss=0.3)
    >>> abs(found.reached - 0.3) < 3e-4
    True
    >>> round(wh.epsilon_for(places, ratio=2, within="650m").epsilon, 3)
    1.066
    """
    given = {"loss": loss, "adversary_error": adversary_error, "ratio": ratio}
    targets = [name for name, value in given.items() if value is not None]
    if len(targets) != 1 or (within is not None) != (ratio is not None):
        raise InputError(
            "exactly one target must be given: loss, adversary_error, or ratio with within; got "
            f"{', '.join([*targets, *['within'] * (within is not None)]) or 'none'}"
        )
    if ratio is not None and within is not None:
        return _for_ratio(ratio, within)
    person = person_of(
        places, prior, dilation, privacy_metric, quality_metric, outputs, tolerance
    )  # fmt: skip
    if loss is not None:
        return _Search(person, "loss", as_number("loss", loss, unit="km"), progress).run()
    wanted = as_number("adversary_error", adversary_error, unit="km")
    return _Search(person, "adversary_error", wanted, progress).run()


def _for_ratio(ratio: float, within: float | str) -> ChosenLevel:
    times = as_number("ratio", ratio, above=1)
    apart = length_km(within) if isinstance(within, str) else as_number("within", within, unit="km")
    words = f"within {km(apart)}, no report is more than {times:g} times likelier from one place"
    return ChosenLevel(
        math.log(times) / apart, "ratio", times, times, True, 0, f"{words} than from another"
    )


class _Search:
    """The bracket around the target, in log epsilon, and the solves at its ends."""

    def __init__(
        self,
        person: Person,
        target: Target,
        wanted: float,
        progress: Callable[[int, float, float], object] | None,
    ) -> None:
        self.person, self.target, self.wanted, self.progress = person, target, wanted, progress
        self.solves = 0

    def run(self) -> ChosenLevel:
        self._check_target()
        private, exposed = self._bracket()
        last = None
        for step in range(_MOST_STEPS):
            narrow = exposed.log_level - private.log_level < _NARROW
            if narrow or self._hit(private) or self._hit(exposed):
                break
            here = self._at(_between(private, exposed, step))
            side = here.excess > 0
            if side:
                private, exposed = here, exposed.halved() if last == side else exposed
            else:
                private, exposed = private.halved() if last == side else private, here
            last = side
        best = min((private, exposed), key=lambda point: abs(point.reached / self.wanted - 1))
        if not self._close(best):
            if self.target == "loss":
                raise SolveError(
                    "the search did not meet the target: its solves are too inexact; use a smaller "
                    "tolerance"
                )
            best = private
        return self._result(best)

    def _check_target(self) -> None:
        """Refuse a target that no epsilon meets."""
        person, wanted = self.person, self.wanted
        most, least = person.constant_loss, person.least_loss
        if self.target == "adversary_error":
            # Without a report, the adversary guesses one place; with exact reports, the right one.
            guesses = euclidean(person.setting.inputs)
            most, least = float((person.prior @ guesses).min()), 0.0
        whose = {
            "loss": "the loss of the best constant report, which hides everything",
            "adversary_error": "the error of the best guess without a report",
        }[self.target]
        if wanted >= most * (1 - ACCURACY / 2):
            raise InputError(
                f"{self.target} must be below {whose}; no epsilon reaches {wanted:g} km: "
                "trade_off, or whereish trade-off without a target, shows what can be reached"
            )
        if wanted <= least * (1 + ACCURACY / 2):
            raise InputError(
                f"{self.target} must be above the least with these outputs without any privacy; no "
                f"epsilon reaches {wanted:g} km: trade_off, or whereish trade-off without a "
                "target, shows what can be reached"
            )

    def _bracket(self) -> tuple[_Point, _Point]:
        """Return two levels with the target between them, from a guess.

        Planar Laplace noise is 2 / eps off; at ln(100) / distance, places are easy to tell apart.
        """
        distances = self.person.setting.metric
        easy = math.log(100) / float(np.median(distances[distances > 0]))
        low, high = math.log(SMALLEST_EPSILON), math.log(LARGEST_EPSILON)
        here = self._at(min(max(math.log(min(2 / self.wanted, easy)), low), high))
        step, side = math.log(2.0), here.excess > 0
        while True:
            way = step if side else -step
            if self._hit(here):
                return here, here
            there = self._at(min(max(here.log_level + way, low), high))
            if (there.excess > 0) != side:
                return (here, there) if side else (there, here)
            if there.log_level in (low, high):
                raise InputError(
                    f"{self.target} must be further from its limits: no epsilon from "
                    f"{SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g} reaches {self.wanted:g} km"
                )
            here, step = there, 2 * step

    def _at(self, log_level: float) -> _Point:
        mechanism = self.person.at(math.exp(log_level))
        self.solves += 1
        if self.target == "loss":
            loss = self.person.setting.loss
            reached = quality_loss(mechanism, self.person.prior, loss)
        else:
            reached = error_of(mechanism, self.person.prior)
        if self.progress is not None:
            self.progress(self.solves, math.exp(log_level), reached)
        # On a logarithmic scale a loss is close to a straight line.
        excess = math.log(max(reached, 1e-300) / self.wanted)
        return _Point(log_level, excess, reached, mechanism)

    def _hit(self, point: _Point) -> bool:
        return abs(point.reached / self.wanted - 1) <= _AIM * ACCURACY

    def _close(self, point: _Point) -> bool:
        return abs(point.reached / self.wanted - 1) <= ACCURACY

    def _result(self, point: _Point) -> ChosenLevel:
        level, hit = math.exp(point.log_level), self._close(point)
        what = {"loss": "a report is", "adversary_error": "the best guess of an adversary is"}
        unit = point.mechanism.epsilon_unit
        words = (
            f"at epsilon {level:.4g} {unit}, {what[self.target]} {km(point.reached)} off on average"
        )
        if not hit:
            words += f"; it jumps there, and no epsilon reaches {km(self.wanted)}"
        return ChosenLevel(
            level, self.target, self.wanted, point.reached, hit, self.solves, words, point.mechanism
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Point:
    """A level with its solve. ``excess`` is log(reached / wanted), or less, for the next step."""

    log_level: float
    excess: float
    reached: float
    mechanism: Mechanism

    def halved(self) -> _Point:
        """Return the point with half its excess: the Illinois method, so that both ends move."""
        return _Point(self.log_level, self.excess / 2, self.reached, self.mechanism)


def _between(private: _Point, exposed: _Point, step: int) -> float:
    """Return the next level: the secant kept off the ends; the middle in every third step."""
    width = exposed.log_level - private.log_level
    share = private.excess / max(private.excess - exposed.excess, 1e-300)
    return private.log_level + width * (0.5 if step % 3 == 2 else min(max(share, 0.02), 0.98))
