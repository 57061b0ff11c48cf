"""Profile: places, and how likely a person is to be at each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.places import (
    Array,
    Immutable,
    Places,
    as_number,
    as_prior,
    normalised,
    readonly,
)
from whereish.profiles.time_prior import TimeDependentPrior, check_same_prior
from whereish.showing import Shown, plotting


@dataclass(frozen=True)
class Backdrop:
    """Lines and names that a picture shows behind the places, in degrees (lat, lon)."""

    lines: tuple[tuple[tuple[float, float], ...], ...] = ()
    names: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class VisitedPoints(Immutable):
    """Points that a person visits, and how often. Both are personal: repr shows neither.

    Attributes
    ----------
    places
        The points.
    weights
        (n,) shares of the time, read-only.
    """

    places: Places = field(repr=False)
    weights: Array = field(repr=False)

    def __post_init__(self) -> None:
        weights = as_prior(self.weights, len(self.places), "weights")
        object.__setattr__(self, "weights", readonly(weights))

    def __repr__(self) -> str:
        """Say how many points there are, but not where."""
        return f"VisitedPoints({len(self.places)} points)"


@dataclass(frozen=True, eq=False)
class Profile(Immutable, Shown):
    """Places and a prior over them. Both are personal: repr shows neither.

    Attributes
    ----------
    places
        Where the person may be.
    prior
        (n,) probabilities, read-only.
    regions
        Shapes (shapely, in degrees) that the places stand for, where known.
    backdrop
        What to draw behind them, where known.
    visited
        The points that the person visits, in clusters, where known: for a mechanism with a
        guarantee for every point.
    by_time
        The prior of each period of the day, where it was counted: its sum over the periods is
        `prior`.
    """

    places: Places = field(repr=False)
    prior: Array = field(repr=False)
    regions: tuple[Any, ...] | None = field(default=None, repr=False)
    backdrop: Backdrop | None = field(default=None, repr=False)
    visited: VisitedPoints | None = field(default=None, repr=False)
    by_time: TimeDependentPrior | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Say how many places there are, but not where."""
        return f"Profile({len(self.places)} places)"

    def _facts(self) -> list[tuple[str, str]]:
        rows = [("places", f"{len(self.places):,}")]
        if self.visited is not None:
            rows.append(("visited points", f"{len(self.visited.places):,}"))
        if self.by_time is not None:
            rows.append(("periods of the day", str(len(self.by_time.periods))))
        return [*rows, ("where, how often", "personal, so not shown here: plot() draws it")]

    @classmethod
    def from_geodataframe(cls, frame: Any, prior: str) -> Profile:
        """Make a profile of a GeoDataFrame: a place for each row, and a column with the prior.

        The index becomes the labels of the places. Polygons become regions, which pictures show.

        Parameters
        ----------
        prior
            The name of a column. Its numbers are divided by their sum.
        """
        places = Places.from_geodataframe(frame)
        if prior not in frame:
            raise InputError(f"prior must name a column of the frame, got {prior!r}")
        shapes = frame.geometry.to_crs(4326)
        areas = bool(shapes.geom_type.isin(["Polygon", "MultiPolygon"]).all())
        share = normalised(frame[prior].to_numpy())
        return cls(places, share, regions=tuple(shapes) if areas else None)

    def to_geodataframe(self) -> Any:
        """Return the places and the prior as a GeoDataFrame. It needs geopandas."""
        return self.places.to_geodataframe(prior=self.prior)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the prior on the places, and return the axes of matplotlib.

        Parameters
        ----------
        ax
            The axes to draw into; new ones if not given.
        """
        return plotting().plot_prior(self, ax)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", readonly(as_prior(self.prior, len(self.places))))
        if self.visited is not None and not isinstance(self.visited, VisitedPoints):
            raise InputError(f"visited must be VisitedPoints, got {type(self.visited).__name__}")
        if self.by_time is not None:
            check_same_prior(self.by_time, self.prior)

    @property
    def as_points(self) -> Profile:
        """The visited points as places, with their weights as the prior.

        Raises
        ------
        InputError
            If they are not known.
        """
        if self.visited is None:
            raise InputError(
                "the profile must hold the visited points, and it holds places only: make it again "
                "from the traces, with whereish profile (of a group: with --points)"
            )
        return Profile(self.visited.places, self.visited.weights)


def blur_prior(prior: ArrayLike, share: float, public: ArrayLike | None = None) -> Array:
    """Return (1 - share) prior + share public: a prior that reveals less about a person.

    A mechanism reveals most of the prior that it was built for (docs/limitations.md). One built
    for a blurred prior is as private and loses a little more quality. An adversary who knows the
    share and the public prior can undo most of the blur; a share of 1 reveals nothing about the
    person.

    Parameters
    ----------
    share
        From 0 (the prior as it is) to 1 (the public one).
    public
        (n,) a prior that everybody may know, on the same places; uniform if not given.

    >>> blur_prior([1.0, 0.0], 0.2).tolist()
    [0.9, 0.1]
    """
    own = as_prior(prior, np.size(prior))
    check_blur(share)
    other = np.full(len(own), 1 / len(own)) if public is None else as_prior(public, len(own))
    if share == 0:
        return own
    return as_prior((1 - share) * own + share * other, len(own))


def check_blur(share: float) -> float:
    """Check the share of a public prior that is mixed in."""
    if not 0 <= as_number("prior_blur", share, above=-1) <= 1:
        raise InputError(f"prior_blur must be a share from 0 to 1, got {share!r:.20}")
    return float(share)
