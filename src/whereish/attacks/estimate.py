"""Estimates: what an adversary believes and guesses, and how good the guesses are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.places import Array, Immutable, Places, as_number, as_numbers, euclidean, readonly

Whole = NDArray[np.int64]
RADIUS_KM = 0.3


@dataclass(frozen=True, eq=False)
class Estimate(Immutable):
    """The belief of an adversary after each report, and the guess that follows from it.

    Attributes
    ----------
    places
        The places that the adversary considers.
    times_s
        (T,) when.
    posterior
        (T, n) the probability of each place.
    guesses
        (T,) numbers of places: those with the least expected distance, unless the attack chooses
        otherwise (Viterbi: the likeliest path).
    log_likelihood
        Logarithm of the probability of all reports under the model; minus infinity if it rules
        them out.
    """

    places: Places
    times_s: Array
    posterior: Array = field(repr=False)
    guesses: Whole = field(repr=False)
    log_likelihood: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "posterior", readonly(self.posterior))
        object.__setattr__(self, "guesses", readonly(np.asarray(self.guesses, np.int64)))

    def __repr__(self) -> str:
        return f"Estimate({len(self.times_s)} times, {len(self.places)} places)"

    @property
    def expected_error_km(self) -> Array:
        """(T,) the distance to the truth that the adversary expects, under the own belief."""
        away = euclidean(self.places)[:, self.guesses]
        return np.asarray(np.einsum("tn,nt->t", self.posterior, away))


@dataclass(frozen=True)
class Score:
    """How good the guesses of an attack are, if the truth is known.

    Attributes
    ----------
    mean_error_km, median_error_km
        Of the distance between guess and truth.
    success_rate
        Share of the guesses within `radius_km` of the truth.
    expected_error_km
        The mean error that the adversary expects.
    """

    mean_error_km: float
    median_error_km: float
    success_rate: float
    radius_km: float
    expected_error_km: float


def best_guesses(posterior: Array, places: Places) -> Whole:
    """Return the guesses with the least expected distance; of equal ones, the first."""
    return np.asarray((posterior @ euclidean(places)).argmin(axis=1), np.int64)


def score(estimate: Estimate, truth: ArrayLike, radius_km: float = RADIUS_KM) -> Score:
    """Compare the guesses of an attack with the truth.

    Parameters
    ----------
    truth
        (T,) numbers of places, or (T, 2) km in the plane of the places.
    """
    radius = as_number("radius_km", radius_km, unit="km")
    errors = errors_km(estimate, truth)
    return Score(
        float(errors.mean()), float(np.median(errors)), float((errors <= radius).mean()), radius,
        float(estimate.expected_error_km.mean()),
    )  # fmt: skip


def errors_km(estimate: Estimate, truth: ArrayLike) -> Array:
    """Return the distance between each guess and the truth, (T,) km; see `score`."""
    where, xy = np.asarray(truth), estimate.places.xy
    if where.ndim == 1 and where.dtype.kind in "iu":
        if len(where) and (where.min() < 0 or where.max() >= len(xy)):
            raise InputError(f"truth must be numbers of places from 0 to {len(xy) - 1}")
        where = xy[where]
    points = as_numbers("truth", where, (len(estimate.guesses), 2))
    return np.asarray(np.hypot(*(xy[estimate.guesses] - points).T))
