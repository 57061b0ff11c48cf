"""Profile: places, and how likely a person is to be at each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whereish.places import Array, Immutable, Places, as_prior, readonly


@dataclass(frozen=True)
class Backdrop:
    """What a picture may show behind the places: lines and names, in degrees (lat, lon)."""

    lines: tuple[tuple[tuple[float, float], ...], ...] = ()
    names: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Profile(Immutable):
    """Places and a prior over them: a map of somebody's life. repr shows neither.

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
    """

    places: Places = field(repr=False)
    prior: Array = field(repr=False)
    regions: tuple[Any, ...] | None = field(default=None, repr=False)
    backdrop: Backdrop | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Say how many places there are, but not where."""
        return f"Profile({len(self.places)} places)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", readonly(as_prior(self.prior, len(self.places))))
