"""Draw into axes of matplotlib: what the methods called `plot` do, in notebooks and scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.mechanisms import Mechanism
from whereish.places import as_prior, as_whole
from whereish.plotting.pictures import draw_prior, draw_reports, frame_of_profile, show_area
from whereish.profiles import Profile


def plot_prior(profile: Profile, ax: Any = None) -> Any:
    """Draw the prior of a profile; see `Profile.plot`."""
    axis = _prepared(profile, ax)
    draw_prior(axis, profile, see_through=False)
    return axis


def plot_reports(
    mechanism: Mechanism, place: int | None = None, prior: ArrayLike | None = None, ax: Any = None
) -> Any:
    """Draw where one place is reported to; see `Mechanism.plot`."""
    count = len(mechanism.inputs)
    known = prior is not None
    shares = as_prior(prior, count) if prior is not None else np.full(count, 1 / count)
    chosen = int(np.argmax(shares)) if place is None else as_whole("place", place, 0)
    profile = Profile(mechanism.inputs, shares)
    axis = _prepared(profile, ax)
    draw_reports(axis, profile, mechanism, chosen, prior_known=known, see_through=False)
    return axis


def _prepared(profile: Profile, ax: Any) -> Any:
    """Return the axes, new ones if there are none, with the area of the places."""
    if ax is None:
        import matplotlib.pyplot as plt  # a notebook shows what pyplot has made

        _, ax = plt.subplots(figsize=(5.6, 5.0), layout="constrained")
    show_area(ax, *frame_of_profile(profile, wide=False))
    return ax
