"""Snap true locations to the nearest place, and find those outside the area."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError, described
from whereish.places import Array, Places, as_numbers
from whereish.showing import Shown

OUTSIDE = ("error", "nearest", "planar-laplace")


@dataclass(frozen=True, eq=False)
class Reports(Shown):
    """Drawn reports.

    Attributes
    ----------
    outputs
        The indices of the reported places; -1 for a point outside the area that was reported with
        planar Laplace noise instead.
    xy
        (n, 2) km in the plane of the places.
    latlon
        (n, 2) degrees, where the places lie on the earth.
    snapped_km
        The distance of each point to the place that it snapped to; 0 for a place given by index.
        It depends on the true location: do not pass it on.
    outside
        Which points were outside the area of the places.
    seeded
        Whether a seeded generator was used: then the reports protect nobody.
    """

    outputs: NDArray[np.int64]
    xy: Array
    latlon: Array | None
    snapped_km: Array
    outside: NDArray[np.bool_]
    seeded: bool

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        seeded = ", seeded: for studies only" if self.seeded else ""
        return f"Reports({len(self)}{seeded})"

    def _facts(self) -> list[tuple[str, str]]:
        rows = [("reports", f"{len(self):,}")]
        rows.append(("different", f"{len(np.unique(self.outputs)):,}"))
        return (
            [*rows, ("seeded", "yes: for studies only, they protect nobody")]
            if self.seeded
            else rows
        )


@dataclass(frozen=True, eq=False)
class Snapped:
    """The place that each point snaps to, its distance, and whether the point is outside."""

    rows: NDArray[np.int64]
    xy: Array
    snapped_km: Array
    outside: NDArray[np.bool_]


def snap(places: Places, at: Any) -> Snapped:
    """Return the nearest place of each point, or places by index.

    Parameters
    ----------
    at
        An integer or several: indices of places. A tuple of two numbers, or (n, 2) points:
        latitude and longitude in degrees for places on the earth, otherwise km in the plane.
    """
    try:
        values = np.asarray(at)
    except ValueError:
        values = np.empty(0, dtype=object)
    point = isinstance(at, tuple) and len(at) == 2  # (48, 2) is a point, [48, 2] two places
    if values.dtype.kind in "iu" and values.ndim <= 1 and not point:
        rows = values.reshape(-1).astype(np.int64)
        if len(rows) == 0 or rows.min() < 0 or rows.max() >= len(places):
            raise InputError(f"at must be the number of a place, from 0 to {len(places) - 1}")
        inside = np.zeros(len(rows), dtype=bool)
        return Snapped(rows, places.xy[rows], np.zeros(len(rows)), inside)
    shaped = values.shape == (2,) or (values.ndim == 2 and values.shape[1] == 2)
    if values.dtype.kind not in "fiu" or not shaped or values.size == 0:
        raise InputError("at must be the number of a place, or points of two coordinates each")
    try:
        points = as_numbers("at", values.reshape(-1, 2), (None, 2))
        xy = points if places.plane is None else places.plane.to_xy(points)
    except InputError:
        # The message must not contain the numbers: they are the true location.
        raise InputError(
            "at must be latitude from -90 to 90 and longitude from -180 to 180 degrees, in this "
            "order, or finite km in a plane"
        ) from None
    away, rows = places.tree.query(xy)
    return Snapped(rows.astype(np.int64), xy, away, away > places.largest_snap_km * (1 + 1e-9))


def check_outside(
    snapped: Snapped, places: Places, outside: str, choices: tuple[str, ...] = OUTSIDE
) -> None:
    """Raise InputError if points are outside the area and the policy is "error"."""
    if not isinstance(outside, str) or outside not in choices:
        raise InputError(f"outside must be one of {', '.join(choices)}, got {described(outside)}")
    if outside == "error" and snapped.outside.any():
        count = int(snapped.outside.sum())
        raise InputError(
            f"{count} of {len(snapped.rows)} points must be inside the area, within "
            f"{places.largest_snap_km:.3g} km of a place, and are not; to report them anyway, set "
            f"outside to {' or '.join(choices[1:])}"
        )
