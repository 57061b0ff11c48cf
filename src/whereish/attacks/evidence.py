"""Evidence: what reports tell an adversary who knows the mechanism and the policy.

For each report there is the probability of it at every place that the adversary considers. For
reports that may repeat an earlier one, there is also how it relates to the report before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.device.ledger_file import PERIODS
from whereish.errors import InputError, described
from whereish.everywhere import AnyMechanism, Everywhere
from whereish.mechanisms import check_not_by_time
from whereish.places import Array, Immutable, Places, as_numbers, readonly
from whereish.release import snap

# How a report relates to the one before it.
FREE, REPEATED, CHANGED = 0, 1, 2
Links = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Evidence(Immutable):
    """What a sequence of reports tells about where somebody was.

    Attributes
    ----------
    places
        The n places that the adversary considers: the hypotheses.
    times_s
        (T,) times of the reports, in seconds since 1970, not decreasing.
    log_likelihood
        (T, n) logarithm of the probability of each report at each place; minus infinity where a
        place cannot make the report.
    links
        (T,) `FREE`: the report was drawn, whether or not the person has moved. `REPEATED`: it is
        the one before, because the person has stayed, or by chance after a move. `CHANGED`: the
        person has moved since the one before.
    """

    places: Places
    times_s: Array
    log_likelihood: Array = field(repr=False)
    links: Links = field(default_factory=lambda: np.zeros(0, np.int8), repr=False)

    def __post_init__(self) -> None:
        times = as_numbers("times_s", self.times_s, (None,))
        if len(times) == 0:
            raise InputError("reports must be at least one, got none")
        if (np.diff(times) < 0).any():
            raise InputError("times_s must not decrease, and they do: sort the reports by time")
        logs = np.asarray(self.log_likelihood, np.float64)
        if logs.shape != (len(times), len(self.places)) or np.isnan(logs).any():
            raise InputError(
                f"log_likelihood must be {len(times)} x {len(self.places)} numbers, got "
                f"{' x '.join(map(str, logs.shape))}"
            )
        if not np.isfinite(logs.max(axis=1)).all():
            raise InputError("every report must be possible at a place, and one is not")
        links = np.asarray(self.links if len(self.links) else np.zeros(len(times)), np.int8)
        if links.shape != times.shape or not np.isin(links, (FREE, REPEATED, CHANGED)).all():
            raise InputError("links must be FREE, REPEATED or CHANGED, one for each report")
        if links[0] != FREE:
            raise InputError("the first report must be FREE: there is none before it")
        for name, array in (("times_s", times), ("log_likelihood", logs), ("links", links)):
            object.__setattr__(self, name, readonly(array))

    def __len__(self) -> int:
        return len(self.times_s)

    def __repr__(self) -> str:
        return f"Evidence({len(self)} reports, {len(self.places)} places)"

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """Which reports are evidence of their own: all but those that repeat the one before."""
        return np.asarray(self.links != REPEATED)

    def of(self, chosen: NDArray[np.bool_]) -> Evidence:
        """Return some of the reports, as if nothing were known of the others."""
        links = self.links[chosen].copy()
        links[:1] = FREE
        return Evidence(self.places, self.times_s[chosen], self.log_likelihood[chosen], links)


def likelihoods(mechanism: AnyMechanism, places: Places | None = None) -> Array:
    """Return the probability of every output at each place that the adversary considers, (n, m).

    Parameters
    ----------
    places
        By default the inputs of the mechanism. A mechanism with a guarantee for every point needs
        them, for instance a grid. For a mechanism between places, each is moved to the nearest
        input first, as a device does.
    """
    check_not_by_time(mechanism, "an attack")
    if isinstance(mechanism, Everywhere):
        if places is None:
            raise InputError("places must be given for a mechanism for every point, got none")
        return np.asarray(mechanism.probabilities(_coordinates(places)))
    if places is None or places.same_as(mechanism.inputs):
        return np.asarray(mechanism.matrix)
    return np.asarray(mechanism.matrix[snap(mechanism.inputs, _coordinates(places)).rows])


def _coordinates(places: Places) -> Array:
    return places.xy if places.latlon is None else places.latlon


def independent_evidence(
    mechanism: AnyMechanism,
    times_s: ArrayLike,
    outputs: ArrayLike,
    places: Places | None = None,
) -> Evidence:
    """Return the evidence of reports that are drawn independently."""
    known, logs = _logs(mechanism, outputs, places)
    return Evidence(known, np.asarray(times_s), logs)


def sticky_evidence(
    mechanism: AnyMechanism,
    times_s: ArrayLike,
    outputs: ArrayLike,
    places: Places | None = None,
    period: str = "day",
) -> Evidence:
    """Return the evidence of a `Reporter`: in a period, a place gets the same report again.

    A report that is the one before was repeated, or drawn after a move. Another report in the same
    period says that the person has moved. If it was seen earlier in the period, it is taken as
    that one, and says nothing new about where.
    """
    if period not in PERIODS:
        raise InputError(f"period must be one of {', '.join(PERIODS)}, got {described(period)}")
    known, logs = _logs(mechanism, outputs, places)
    times = as_numbers("times_s", times_s, (len(logs),))
    number = np.floor(times / PERIODS[period]).astype(np.int64).tolist()
    reports = np.asarray(outputs).tolist()
    links = np.full(len(reports), FREE, np.int8)
    seen: set[int] = set()
    for t, report in enumerate(reports):
        if t == 0 or number[t] != number[t - 1]:
            seen = set()
        elif report == reports[t - 1]:
            links[t] = REPEATED
        else:
            links[t] = CHANGED
            if report in seen:
                logs[t] = 0.0
        seen.add(report)
    return Evidence(known, times, logs, links)


def _logs(
    mechanism: AnyMechanism, outputs: ArrayLike, places: Places | None
) -> tuple[Places, Array]:
    reports = np.asarray(outputs)
    count = len(mechanism.outputs)
    if reports.ndim != 1 or reports.dtype.kind not in "iu" or len(reports) == 0:
        raise InputError("outputs must be numbers of outputs, at least one")
    if reports.min() < 0 or reports.max() >= count:
        raise InputError(f"outputs must be from 0 to {count - 1}, and one is not")
    table = likelihoods(mechanism, places)
    if places is None:
        places = mechanism.inputs  # type: ignore[union-attr]  # an everywhere mechanism has raised
    with np.errstate(divide="ignore"):
        return places, np.log(table.T[reports])
