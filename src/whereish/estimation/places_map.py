"""Estimate where people are from their reports: maximum likelihood with a certificate.

References
----------
.. [1] Agrawal, Aggarwal: On the design and quantification of privacy preserving data mining
   algorithms. PODS 2001: expectation maximisation for noisy reports.
.. [2] ElSalamouny, Palamidessi: Generalized iterative Bayesian update and applications to
   mechanisms for privacy protection. EuroS&P 2020: many mechanisms at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.estimation.counting import Counted, counted
from whereish.estimation.errors import confused_groups, spread
from whereish.measures.channel import Channel, checked
from whereish.places import Array, Immutable, Places, as_number, readonly
from whereish.profiles import Profile
from whereish.solvers.mixture import GAP, NEWTON_UP_TO, maximise

_SHOWN = 12  # places of a group that a sentence lists


@dataclass(frozen=True, eq=False)
class MapEstimate(Immutable):
    """The estimated share of people at each place.

    Attributes
    ----------
    places
        The places of the mechanisms.
    shares
        (n,) the maximum-likelihood estimate, with sum 1.
    standard_errors, low, high
        (n,) standard errors and 95 % intervals; NaN, 0 and 1 for a place that cannot be told apart
        from others.
    gap
        A proved bound on how much larger the mean log-likelihood of a report could be.
    log_likelihood
        The mean log-likelihood of a report, in nats.
    reports, repeated, outside
        Reports that counted; repetitions of sticky reports and points with noise, which did not.
    rank
        The rank of the mechanisms together. Below the number of places, some cannot be told apart.
    groups
        The groups of places that cannot be told apart: only the share of a whole group is known.
    warnings
        Sentences about what is not known.
    steps
        Steps of the solve.
    """

    places: Places = field(repr=False)
    shares: Array = field(repr=False)
    standard_errors: Array = field(repr=False)
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    gap: float
    log_likelihood: float
    reports: int
    repeated: int
    outside: int
    rank: int
    groups: tuple[tuple[int, ...], ...]
    warnings: tuple[str, ...]
    steps: int

    def __post_init__(self) -> None:
        for name in ("shares", "standard_errors", "low", "high"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

    def __repr__(self) -> str:
        return f"MapEstimate({len(self.places)} places, {self.reports} reports)"

    @property
    def profile(self) -> Profile:
        """The places with the estimated shares as prior: a public prior for a mechanism."""
        return Profile(self.places, self.shares)


def estimate(
    mechanisms: Channel | Sequence[Channel],
    reports: Any,
    *,
    people: Any = None,
    periods: Any = None,
    gap: float = GAP,
) -> MapEstimate:
    """Estimate the shares of the true places from reports of many people.

    Maximises L(p) = sum over reports z of q(z) log sum_x p(x) k(x, z), where q(z) are the shares of
    the reports. With several mechanisms the likelihoods add up. The result has a certificate:
    L* - L(p) <= max_x g(x) - 1 with g = K (q / K'p).

    The privacy of the reports is untouched: this is post-processing. An optimal mechanism is a bad
    choice for this purpose, because it merges places: docs/guides/statistics.md says which is good.

    Parameters
    ----------
    mechanisms
        A mechanism between places, or several with the same inputs.
    reports
        `Reports`, numbers of outputs, or (n, 2) points in degrees (in km for places in a plane);
        for several mechanisms, a list with the reports of each.
    people, periods
        Who sent each report, and in which period, such as the date. Equal reports of a person in a
        period count once: a `Reporter` repeats its report, and a repetition tells nothing new. For
        several mechanisms, lists.
    gap
        The certified gap of the mean log-likelihood at which the search may end.

    Notes
    -----
    Standard errors come from the Fisher information on the places with a positive estimate. At an
    estimate of zero, the interval is [0, 1.96 s], which covers more than 95 %. Above 2,000 places
    there are no standard errors.

    >>> import whereish as wh
    >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
    >>> m = wh.tight_constraints(places, epsilon=2.0)
    >>> found = wh.estimate(m, [0] * 20 + [1] * 50 + [2] * 30)
    >>> found.shares.round(2).tolist()
    [0.14, 0.6, 0.26]
    >>> found.gap <= 1e-6
    True
    """
    several = _listed(mechanisms)
    many = not hasattr(mechanisms, "matrix")
    parts = [reports] if not many else _each("reports", reports, len(several))
    whose = [people] if not many else _each("people", people, len(several))
    when = [periods] if not many else _each("periods", periods, len(several))
    groups = [
        counted(one, some, who, period)
        for one, some, who, period in zip(several, parts, whose, when, strict=True)
    ]
    return from_counts(several, groups, as_number("gap", gap))


def from_counts(
    mechanisms: Sequence[Channel], groups: Sequence[Counted], gap: float = GAP
) -> MapEstimate:
    """Estimate the shares from the counts of the outputs of each mechanism."""
    matrix = np.concatenate([np.asarray(one.matrix) for one in mechanisms], axis=1)
    counts = np.concatenate([group.counts for group in groups])
    total = int(counts.sum())
    if total == 0:
        raise InputError("reports must hold at least one report that counts, got none")
    places, n = mechanisms[0].inputs, len(matrix)
    # The statistics need a gap that is small for all reports together, too.
    found = maximise(matrix, counts / total, min(gap, max(0.01 / total, 1e-10)))
    if found.gap > gap:
        found = maximise(matrix, counts / total, gap)
    errors, low, high = np.full(n, np.nan), np.zeros(n), np.ones(n)
    confused: tuple[tuple[int, ...], ...] = ()
    rank, warnings = n, list[str]()
    if n <= NEWTON_UP_TO:
        each = [np.full(len(g.counts), float(g.counts.sum())) for g in groups]
        around = spread(matrix, np.concatenate(each), found.weights, total)
        errors, low, high = around.errors, around.low, around.high
        rank, confused = confused_groups(matrix)
        warnings = _warnings(rank, confused, errors, n)
    else:
        warnings.append(f"there are no standard errors for more than {NEWTON_UP_TO:,} places")
    if found.gap > gap:
        warnings.append(f"the search ended at a gap of {found.gap:.1e}, above {gap:.1e}")
    seen = counts > 0
    fitted = found.weights @ matrix[:, seen]
    return MapEstimate(
        places, found.weights, errors, low, high, max(found.gap, 0.0),
        float(counts[seen] / total @ np.log(fitted)), total,
        sum(group.repeated for group in groups), sum(group.outside for group in groups), rank,
        confused, tuple(warnings), found.steps,
    )  # fmt: skip


def _warnings(rank: int, groups: tuple[tuple[int, ...], ...], errors: Array, n: int) -> list[str]:
    said = []
    if groups:
        lists = "; ".join(_numbers(group) for group in groups[:3])
        more = "" if len(groups) <= 3 else f"; and {len(groups) - 3} groups more"
        said.append(
            f"the mechanism has rank {rank} for {n} places and cannot tell these places apart: "
            f"{lists}{more}; only the share of a whole group is known"
        )
    hardly = np.flatnonzero(errors > 1 / n)
    if len(hardly):
        said.append(
            "the standard error is above the mean share of a place at places with these numbers: "
            f"{_numbers(hardly.tolist())}; more reports, a larger epsilon or fewer places help"
        )
    return said


def _numbers(places: Sequence[int]) -> str:
    shown = ", ".join(map(str, places[:_SHOWN]))
    return f"{shown} and {len(places) - _SHOWN} more" if len(places) > _SHOWN else shown


def _listed(mechanisms: Channel | Sequence[Channel]) -> list[Channel]:
    several: list[Any] = [mechanisms]
    if isinstance(mechanisms, list | tuple) and mechanisms:
        several = list(mechanisms)
    for one in several:
        if not checked(one).inputs.same_as(several[0].inputs):
            raise InputError("mechanisms must have the same inputs in the same order")
    return several


def _each(name: str, values: Any, count: int) -> list[Any]:
    if values is None and name != "reports":
        return [None] * count
    if not isinstance(values, list | tuple) or len(values) != count:
        raise InputError(f"{name} must be a list with one entry for each of {count} mechanisms")
    return list(values)
