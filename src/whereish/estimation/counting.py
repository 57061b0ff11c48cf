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
        If a report is no output of the mechanism. No coordinate is shown.
    """
    outputs = checked(mechanism).outputs
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
        raise InputError(
            f"reports must be numbers of outputs from 0 to {len(outputs) - 1}, or -1 for a point "
            "outside, and some are not"
        )
    return numbers


def _nearest(outputs: Places, points: Array) -> Whole:
    """Return the output at each point."""
    plane = outputs.plane
    xy = points if plane is None else plane.to_xy(points)
    far, nearest = outputs.tree.query(xy)
    wrong = int((far > _NEAR_KM).sum())
    if wrong:
        raise InputError(
            f"reports must be outputs of the mechanism, and {wrong:,} of {len(xy):,} points are "
            "not: give the mechanism that drew them, and leave out points reported with noise"
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
