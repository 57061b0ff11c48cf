"""The picture of an estimated map: the shares of the places, and their standard errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from whereish.estimation import MapEstimate
from whereish.maps import MapFile
from whereish.places import Array
from whereish.plotting import pictures
from whereish.plotting.ground import draw_ground
from whereish.profiles import Profile


def draw_estimate(found: MapEstimate, path: str | Path, background: MapFile | None = None) -> None:
    """Draw the estimated shares beside their standard errors; a map file under both.

    The colours of both panels mean the same numbers. A place whose error is not known is marked
    with a cross.
    """
    profile = Profile(found.places, found.shares)
    known = np.isfinite(found.standard_errors)
    figure, (left, right) = pictures.panels_of(profile, 2, path, background)
    errors: Array = np.where(known, found.standard_errors, 0.0)
    top = max(float(found.shares.max()), float(errors.max()))
    for axis, values in ((left, found.shares), (right, errors)):
        draw_ground(axis, background, found.places.plane)
        pictures.draw_values(axis, profile, values, "YlOrBr", "share", background is not None, top)
    if not known.all():
        right.scatter(*found.places.xy[~known].T, marker="x", s=28, color="#22303c", zorder=6)
    pictures.titled(left, f"Where people are, estimated from {found.reports:,} reports")
    unknown = "" if known.all() else f"\n(x: not known at {int((~known).sum())} places)"
    pictures.titled(right, f"Standard error of the share{unknown}")
    pictures.finish(figure, path)
