"""The figures of reports over time: error, coverage and budget, each person counted alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.studies.runs import Row
from whereish.studies.trace_policies import Sent
from whereish.studies.trace_protocol import Trace

NEAR_KM = 0.3
_MOST = 0.9  # the quantile of the errors


@dataclass(frozen=True, eq=False)
class TraceScores:
    """The figures of some traces, each an array with one number for each trace.

    Attributes
    ----------
    users
        Whose the traces are.
    error_km, most_km
        Mean and 90th percentile of the distance between report and truth, over the points that are
        covered.
    coverage
        The share of the points that are reported before the budget ends.
    spent
        Epsilon per km for each point that is covered.
    within
        The share of the reports within 300 m of the truth.
    """

    users: tuple[str, ...]
    error_km: Array
    most_km: Array
    coverage: Array
    spent: Array
    within: Array

    def __repr__(self) -> str:
        return f"TraceScores({len(self.users)} traces)"

    @classmethod
    def of(
        cls, traces: Sequence[Trace], sent: Sent, reports: Sequence[Array] | None = None
    ) -> TraceScores:
        """Compare what was sent with the truth.

        Parameters
        ----------
        reports
            What was made of the draws, if that was sent instead of `sent.reports`.
        """
        made = sent.reports if reports is None else reports
        counts = np.array([len(part) for part in made])
        true = np.concatenate([t.xy[:c] for t, c in zip(traces, counts.tolist(), strict=True)])
        errors = np.hypot(*(true - np.concatenate(made)).T)
        begin = np.cumsum(counts) - counts
        return cls(
            tuple(trace.user for trace in traces),
            np.add.reduceat(errors, begin) / counts,
            _quantiles(errors, begin, counts),
            counts / np.array([len(trace) for trace in traces]),
            sent.spent / counts,
            np.add.reduceat((errors <= NEAR_KM).astype(np.float64), begin) / counts,
        )

    @classmethod
    def joined(cls, parts: Sequence[TraceScores]) -> TraceScores:
        """Return the traces of several parts."""
        names = ("error_km", "most_km", "coverage", "spent", "within")
        return cls(
            tuple(user for part in parts for user in part.users),
            *(np.concatenate([getattr(part, name) for part in parts]) for name in names),
        )

    def row(self) -> Row:
        """Return means over people: nothing in it is of one person, if there are several."""
        return {
            "people": len(set(self.users)),
            "traces": len(self.users),
            "mean_error_km": mean_over_people(self.users, self.error_km),
            "p90_error_km": mean_over_people(self.users, self.most_km),
            "coverage": mean_over_people(self.users, self.coverage),
            "epsilon_per_point": mean_over_people(self.users, self.spent),
            "reports_within_300m": mean_over_people(self.users, self.within),
        }


def mean_over_people(users: Sequence[str], values: Array) -> float:
    """Return the mean over people of the means over their traces.

    >>> mean_over_people(["a", "a", "b"], np.array([1.0, 3.0, 5.0]))
    3.5
    """
    return mean_over_groups(np.unique(np.asarray(users), return_inverse=True)[1], values)


def mean_over_groups(group: NDArray[np.int64], values: Array) -> float:
    """Return the mean over groups, given by numbers, of the means over their values."""
    sums, counts = np.bincount(group, values), np.bincount(group)
    return float((sums[counts > 0] / counts[counts > 0]).mean())


def _quantiles(errors: Array, begin: NDArray[np.int64], counts: NDArray[np.int64]) -> Array:
    """Return the 90th percentile of each trace, with linear interpolation."""
    trace = np.repeat(np.arange(len(counts)), counts)
    ordered = errors[np.lexsort((errors, trace))]
    at = begin + _MOST * (counts - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, begin + counts - 1)
    return np.asarray(ordered[low] + (at - low) * (ordered[high] - ordered[low]))
