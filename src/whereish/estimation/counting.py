"""Reports as numbers of outputs, and their counts: sticky reports count once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.measures.channel import Channel, checked
from whereish.places import Array, Places, as_numbers
from whereish.release import Reports

Whole = NDArray[np.int64]
# A report lies on an output up to what rounding to five digits of a degree leaves, in km.
_NEAR_KM = 0.002


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """How often each output was reported, and the reports that were left out.

    Attributes
    ----------
    counts
        (outputs,).
    repeated
        Reports of a person that repeat one of the same period: sticky reports count once.
    outside
        Reports that are no output: points outside the area, with noise of their own.
    """

    counts: Whole
    repeated: int = 0
    outside: int = 0


class WrongReportError(InputError):
    """A report that is no output of the mechanism; ``row`` counts reports from 0."""

    def __init__(self, wrong: NDArray[np.bool_], must: str, advice: str) -> None:
        self.row = int(np.flatnonzero(wrong)[0])
        self.must, self.advice = must, advice
        self.count, self.reports = int(wrong.sum()), len(wrong)
        super().__init__(self.words(f"report {self.row}, counted from 0"))

    def words(self, where: str) -> str:
        """Return the message, with other words for where the first wrong report is."""
        return (
            f"reports must be {self.must}, and {self.count:,} of {self.reports:,} are not; the "
            f"first one is {where}: {self.advice}"
        )


def counted(mechanism: Channel, reports: Any, people: Any = None, periods: Any = None) -> Counted:
    """Count the reports of one mechanism; see `whereish.estimate` for the arguments."""
    outputs = output_numbers(mechanism, reports)
    kept = outputs >= 0
    outside = int((~kept).sum())
    repeated = 0
    if people is not None:
        keys = [outputs]
        for name, given in (("people", people), ("periods", periods)):
            if given is not None:
                keys.append(_codes(name, given, len(outputs)))
        rows = np.unique(np.column_stack(keys)[kept], axis=0)
        repeated = int(kept.sum()) - len(rows)
        numbers = rows[:, 0]
    elif periods is not None:
        raise InputError("periods must go with people: a report is sticky for one person")
    else:
        numbers = outputs[kept]
    counts = np.bincount(numbers, minlength=len(mechanism.outputs)).astype(np.int64)
    return Counted(counts, repeated, outside)


def output_numbers(mechanism: Channel, reports: Any) -> Whole:
    """Return the output of each report: `Reports`, numbers of outputs, or points.

    Raises
    ------
    InputError
        If a report is no output of the mechanism, or one that it never draws. The message says
        which report is the first such one. No coordinate is shown.
    """
    numbers = _numbers(checked(mechanism).outputs, reports)
    never = (numbers >= 0) & (np.asarray(mechanism.matrix).max(axis=0) <= 0)[numbers]
    if never.any():
        raise WrongReportError(
            never, "outputs that the mechanism draws", "give the mechanism that drew them"
        )
    return numbers


def _numbers(outputs: Places, reports: Any) -> Whole:
    if isinstance(reports, Reports):
        return np.asarray(reports.outputs, np.int64)
    given = np.asarray(reports)
    if given.ndim == 2 and given.shape[1] == 2:
        return _nearest(outputs, as_numbers("reports", reports, (None, 2)))
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(
            "reports must be Reports, the numbers of outputs, or (n, 2) points, got an array of "
            f"{given.dtype} with {given.ndim} dimensions"
        )
    numbers = given.astype(np.int64)
    if numbers.size and (numbers.min() < -1 or numbers.max() >= len(outputs)):
        raise WrongReportError(
            (numbers < -1) | (numbers >= len(outputs)),
            f"numbers of outputs from 0 to {len(outputs) - 1}, or -1 for a point outside",
            "give the mechanism that drew them",
        )
    return numbers


def _nearest(outputs: Places, points: Array) -> Whole:
    """Return the output at each point."""
    plane = outputs.plane
    wrong: NDArray[np.bool_] = np.zeros(len(points), bool)
    if plane is not None:  # what is no latitude or longitude is no output, and has no place
        wrong = np.asarray((np.abs(points) > [90, 180]).any(axis=1))
        points = plane.to_xy(np.where(wrong[:, None], 0.0, points))
    far, nearest = outputs.tree.query(points)
    wrong |= far > _NEAR_KM
    if wrong.any():
        raise WrongReportError(
            wrong,
            "outputs of the mechanism",
            "give the mechanism that drew them, and leave out points reported with noise",
        )
    return np.asarray(nearest, np.int64)


def _codes(name: str, values: Any, length: int) -> Whole:
    """Number the different values of a column."""
    column = np.asarray(values)
    if column.shape != (length,):
        raise InputError(f"{name} must have one value for each of the {length:,} reports")
    _, codes = np.unique(column.astype(str) if column.dtype == object else column,
                         return_inverse=True)  # fmt: skip
    return np.asarray(codes, np.int64)
