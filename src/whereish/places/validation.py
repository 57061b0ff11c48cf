"""Validate arguments: numbers, priors, losses, metrics. Messages never repeat their values."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError, described
from whereish.limits import LARGEST, LARGEST_EPSILON, PRIOR_TOLERANCE, SMALLEST_EPSILON

Array = NDArray[np.float64]

_ROUNDING = 1e-14
METRIC_TOLERANCE = 1e-9
GEODESIC_NOISE_KM = 5e-11


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array that stays read-only: a bytes object owns its memory."""
    dense = np.ascontiguousarray(array)
    if dense.size == 0:
        dense = dense.copy()
        dense.setflags(write=False)
        return dense
    return np.frombuffer(dense.tobytes(), dtype=dense.dtype).reshape(dense.shape)


class Immutable:
    """Base of frozen dataclasses: a copy is the object itself, a pickle is validated on load."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        names = [field.name for field in fields(cast(Any, self)) if field.init]
        return type(self), tuple(getattr(self, name) for name in names)


def as_whole(name: str, value: Any, least: int = 1) -> int:
    """Check an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}, got {described(value)}")
    return int(value)


def as_numbers(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """Convert to finite floats of a given shape (None: any length)."""
    wanted = " x ".join("n" if side is None else str(side) for side in shape)
    check_order(name, value)
    try:
        raw = np.asarray(value)
        if np.iscomplexobj(raw):
            raise TypeError
        array = raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be {wanted} numbers, got {described(value)}") from None
    sides = zip(shape, array.shape, strict=False)
    if array.ndim != len(shape) or any(want not in (None, side) for want, side in sides):
        got = " x ".join(map(str, array.shape)) or "a single number"
        raise InputError(f"{name} must be {wanted} numbers, got {got}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        at = ", ".join(map(str, where))
        raise InputError(f"{name} must be finite, got {array[where]} at [{at}]")
    if array.size and np.abs(array).max() > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST:g}, and a number in it is larger")
    return array


def check_order(name: str, value: Any, labels: tuple[str, ...] = ("index", "columns")) -> None:
    """Refuse a labelled table, such as a pandas Series, whose labels are not 0, 1, 2 and so on.

    Values are assigned to places by position. Labels in another order would be ignored, and the
    values would belong to the wrong places.
    """
    for axis in labels:
        axis_labels = getattr(value, axis, None)
        if axis_labels is None or callable(axis_labels):  # the index of a list is a method
            continue
        try:
            found = np.asarray(axis_labels)
        except (TypeError, ValueError):
            continue
        if found.ndim != 1 or (axis == "columns" and found.dtype.kind not in "iuf"):
            continue  # names of columns, like lat and lon
        if found.dtype.kind not in "iuf" or not np.array_equal(found, np.arange(len(found))):
            raise InputError(
                f"{name} must be in the order of the places, and its {axis} is not 0, 1, 2 and so "
                "on: pass places.align(values), or put it in that order and pass .to_numpy()"
            )


def as_number(
    name: str, value: Any, *, above: float = 0.0, unit: str = "", or_equal: bool = False
) -> float:
    """Convert to a finite float above a bound, or equal to it if `or_equal`."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number{_in(unit)}, got {described(value)}") from None
    if not np.isfinite(number) or number < above or (number == above and not or_equal):
        bound = "positive" if above == 0 else f"above {above:g}"
        bound = f"at least {above:g}" if or_equal else bound
        raise InputError(f"{name} must be {bound} and finite{_in(unit)}, got {number}")
    return number


def as_epsilon(value: Any) -> float:
    """Check a privacy level, per km.

    >>> as_epsilon(-1)
    Traceback (most recent call last):
    whereish.errors.InputError: epsilon must be positive and finite (per km), got -1.0
    """
    level = as_number("epsilon", value, unit="per km")
    if not SMALLEST_EPSILON <= level <= LARGEST_EPSILON:
        bounds = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
        raise InputError(f"epsilon must be {bounds} per km, got {level:g}")
    return level


def as_prior(value: ArrayLike, n: int, name: str = "prior") -> Array:
    """Check that a prior is n non-negative numbers with sum 1, and correct rounding in the sum.

    >>> as_prior([0.5, 0.6], 2)
    Traceback (most recent call last):
    whereish.errors.InputError: prior must sum to 1, and it sums to more: divide it by its sum, \
--normalise on the command line
    """
    if hasattr(value, "places") and hasattr(value, "prior"):  # like a Profile
        kind = type(value).__name__
        raise InputError(f"{name} must be numbers, got {kind}: use the prior of the {kind}: .prior")
    prior = as_numbers(name, value, (n,))
    if (prior < 0).any():
        where = int(np.argmax(prior < 0))
        raise InputError(f"{name} must be non-negative, and the number at [{where}] is not")
    total = float(prior.sum())
    if abs(total - 1) > PRIOR_TOLERANCE:
        raise InputError(
            f"{name} must sum to 1, and it sums to {'more' if total > 1 else 'less'}: divide it by "
            "its sum, --normalise on the command line"
        )
    # A sum of 1 up to rounding is not touched: normalising twice gives the same bits as once.
    return prior if abs(total - 1) <= _ROUNDING else prior / total


def normalised(prior: ArrayLike) -> Array:
    """Divide a prior by its sum. An argument that is no prior is returned for `as_prior` to refuse.

    >>> normalised([1, 3]).tolist()
    [0.25, 0.75]
    """
    check_order("prior", prior)
    try:
        weights = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"prior must be numbers, got {described(prior)}") from None
    if not weights.any() or not np.isfinite(weights).all() or (weights < 0).any():
        return weights
    shares = weights / weights.max()
    return np.asarray(shares / shares.sum())


def as_loss(name: str, value: ArrayLike, n: int, m: int, *, same: bool) -> Array:
    """Check a quality or adversary metric d_Q or d_A: finite and non-negative, (n, m).

    If rows and columns are the same places (`same`), it must be symmetric with a zero diagonal.
    The triangle inequality is not required: no theorem of the paper needs it of d_Q or d_A,
    and losses such as the squared distance, or zero within 500 m, are useful.
    """
    loss = as_numbers(name, value, (n, m))
    if (loss < 0).any():
        x, z = _first(loss < 0)
        raise InputError(f"{name} must be non-negative, and the number at [{x}, {z}] is not")
    if same:
        _check_symmetric(name, loss)
    return loss


def as_metric(name: str, value: ArrayLike, n: int | None = None) -> Array:
    """Check the axioms of a metric: zero diagonal, symmetric, positive, triangle inequality.

    >>> as_metric("privacy_metric", [[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    Traceback (most recent call last):
    whereish.errors.InputError: privacy_metric must satisfy the triangle inequality, but \
d[0, 2] is longer than the way through 1
    """
    metric = as_distances(name, value, n)
    for x, row in enumerate(metric):
        through = row[:, None] + metric
        short = through.min(axis=0)
        broken = row > short * (1 + METRIC_TOLERANCE) + GEODESIC_NOISE_KM
        if broken.any():
            y = int(np.argmax(broken))
            via = int(through[:, y].argmin())
            raise InputError(
                f"{name} must satisfy the triangle inequality, but d[{x}, {y}] is longer than the "
                f"way through {via}"
            )
    return metric


def as_distances(name: str, value: ArrayLike, n: int | None = None) -> Array:
    """Check the axioms of a metric except the triangle inequality, which takes O(n^3) time."""
    metric = as_numbers(name, value, (n, n))
    if metric.shape[0] != metric.shape[1]:
        rows, columns = metric.shape
        raise InputError(f"{name} must be square, got {rows} x {columns}")
    _check_symmetric(name, metric)
    off = metric + np.eye(len(metric))
    if (off <= 0).any():
        x, y = _first(off <= 0)
        raise InputError(
            f"{name} must be positive between different places, and is not at [{x}, {y}]"
        )
    return metric


def _check_symmetric(name: str, metric: Array) -> None:
    if np.diagonal(metric).any():
        x = int(np.argmax(np.diagonal(metric) != 0))
        raise InputError(f"{name} must be zero on the diagonal, and is not at [{x}, {x}]")
    skew = np.abs(metric - metric.T) > METRIC_TOLERANCE * np.abs(metric)
    if skew.any():
        x, y = _first(skew)
        raise InputError(f"{name} must be symmetric, and differs at [{x}, {y}] and [{y}, {x}]")


def _first(mask: NDArray[np.bool_]) -> tuple[int, int]:
    row, column = np.argwhere(mask)[0]
    return int(row), int(column)


def _in(unit: str) -> str:
    return f" ({unit})" if unit else ""
