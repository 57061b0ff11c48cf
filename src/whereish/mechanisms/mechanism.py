"""Mechanism: a stochastic matrix together with its privacy guarantee."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError
from whereish.measures import (
    TOTAL,
    Counts,
    Limits,
    Proof,
    Verdict,
    audit_counts,
    best_remap,
    check_private,
    check_rows,
    loss_between,
)
from whereish.mechanisms.arguments import metric_or_euclidean
from whereish.mechanisms.build import Build, epsilon_unit
from whereish.places import (
    Array,
    Immutable,
    Places,
    as_epsilon,
    as_numbers,
    as_whole,
    euclidean,
    readonly,
)
from whereish.places.frames import frame_of
from whereish.release import (
    Reports,
    Rounded,
    Snapped,
    check_outside,
    cumulative,
    draw,
    round_private,
    snap,
    to_counts,
)
from whereish.showing import Shown, plotting
from whereish.units import hidden_in_words, percent

_MOST_REPORTS = 10**9


@dataclass(frozen=True, eq=False)
class Mechanism(Immutable, Shown):
    """A location obfuscation mechanism: row x is the distribution of reports from place x.

    The constructor checks every ratio of a mechanism with an epsilon, with code that is
    independent of the code that built it, and raises GuaranteeError if one is too large.

    Attributes
    ----------
    matrix
        (inputs, outputs) probabilities, read-only.
    inputs, outputs
        The possible true places, and the places that may be reported.
    epsilon
        The privacy level per unit of `privacy_metric` (per km, unless that is in other units);
        None for a mechanism without a guarantee.
    privacy_metric
        (inputs, inputs) d_X, read-only: the metric that epsilon refers to.
    build
        The record of how it was built.
    proof
        Dual multipliers that prove the lower bound on its loss, for the prior it was built for; see
        `whereish.lower_bound`. None without a bound.
    verdict
        The result of the check; None without an epsilon.
    """

    matrix: Array
    inputs: Places
    outputs: Places
    epsilon: float | None = None
    privacy_metric: Array | None = None
    build: Build = field(default_factory=lambda: Build("given"))
    proof: Proof | None = None
    verdict: Verdict | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            if not isinstance(getattr(self, name), Places):
                raise InputError(f"{name} must be Places, got {type(getattr(self, name)).__name__}")
        matrix = as_numbers("matrix", self.matrix, (len(self.inputs), len(self.outputs)))
        _check_stochastic("matrix", matrix)
        object.__setattr__(self, "matrix", readonly(matrix))
        if self.epsilon is None:
            object.__setattr__(self, "privacy_metric", None)
            return
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))
        metric = metric_or_euclidean(self.privacy_metric, self.inputs)
        object.__setattr__(self, "privacy_metric", readonly(metric))
        object.__setattr__(self, "verdict", check_private(self.matrix, self.epsilon, metric))

    def __repr__(self) -> str:
        level = "no epsilon"
        if self.epsilon is not None:
            level = f"epsilon={self.epsilon:g} {self.epsilon_unit}"
        n, m = self.matrix.shape
        return f"Mechanism({self.build.method}, {n} places -> {m} outputs, {level})"

    def _facts(self) -> list[tuple[str, str]]:
        n, m = self.matrix.shape
        rows = [("method", self.build.method), ("places", f"{n:,} -> {m:,} outputs")]
        if self.epsilon is None:
            return [*rows, ("guarantee", "none: it has no epsilon")]
        rows.append(("epsilon", f"{self.epsilon:.4g} {self.epsilon_unit}"))
        if self.is_per_km:
            rows.append(("what it hides", hidden_in_words(self.epsilon)))
        if self.verdict is not None:
            rows.append(("checked", f"{self.verdict.ratios:,} ratios, none too large"))
        if self.build.gap is not None:
            rows.append(("loss", f"at most {percent(self.build.gap)} above the least possible"))
        return rows

    def plot(
        self, place: int | None = None, *, prior: ArrayLike | None = None, ax: Any = None
    ) -> Any:
        """Draw where one place is reported to, and return the axes of matplotlib.

        Parameters
        ----------
        place
            Its index; by default the likeliest one of the prior, or the first without a prior.
        prior
            (inputs,) the probability of each place, for the loss in the title.
        ax
            The axes to draw into; new ones if not given.
        """
        return plotting().plot_reports(self, place, prior, ax)

    def to_frame(self) -> Any:
        """Return the probabilities as a pandas DataFrame: a row for each place.

        The labels are those of the places, or their numbers. It needs pandas.
        """
        return frame_of(self.matrix, self.inputs, self.outputs)

    @classmethod
    def of_counts(
        cls,
        counts: Counts,
        inputs: Places,
        outputs: Places,
        epsilon: float | None = None,
        privacy_metric: Array | None = None,
        build: Build | None = None,
        proof: Proof | None = None,
        rounding_mix: float = 0.0,
    ) -> Mechanism:
        """Make a mechanism of released counts, which are audited exactly.

        Raises
        ------
        GuaranteeError
            If a row does not sum to 2^63, or a ratio is too large for epsilon.
        """
        for name, places in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(places, Places):
                raise InputError(f"{name} must be Places, got {type(places).__name__}")
        if build is not None and not isinstance(build, Build):
            raise InputError(f"build must be a Build, got {type(build).__name__}")
        counts = readonly(check_rows(counts))
        if counts.shape != (len(inputs), len(outputs)):
            raise InputError(
                f"counts must have {len(inputs)} rows and {len(outputs)} columns, got "
                f"{counts.shape[0]} and {counts.shape[1]}"
            )
        matrix = counts.astype(np.float64) / TOTAL
        mechanism = cls(matrix, inputs, outputs, build=build or Build("given"), proof=proof)
        verdict = None
        if epsilon is not None:
            metric = metric_or_euclidean(privacy_metric, inputs)
            limits = _limits(inputs, as_epsilon(epsilon), metric)
            verdict = audit_counts(counts, limits)
            for name, value in (
                ("epsilon", limits.epsilon),
                ("privacy_metric", readonly(metric)),
                ("verdict", verdict),
            ):
                object.__setattr__(mechanism, name, value)
            mechanism.__dict__["limits"] = limits
        mechanism.__dict__["released"] = Rounded(counts, rounding_mix, verdict)
        return mechanism

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the constructor and its arguments, for pickle: a copy is checked again."""
        arguments = (
            self.inputs, self.outputs, self.epsilon, self.privacy_metric, self.build, self.proof,
        )  # fmt: skip
        if "released" in self.__dict__:
            return Mechanism.of_counts, (self.counts, *arguments, self.released.mix)
        return Mechanism, (self.matrix, *arguments)

    @cached_property
    def limits(self) -> Limits:
        """Rational lower bounds of exp(eps d), for the audit."""
        if self.epsilon is None or self.privacy_metric is None:
            raise InputError("a mechanism without an epsilon has no limits to its ratios")
        return _limits(self.inputs, self.epsilon, self.privacy_metric)

    @cached_property
    def released(self) -> Rounded:
        """The audited counts that are sampled and written to files; computed at first use."""
        if self.epsilon is None:
            rounded = Rounded(to_counts(self.matrix), 0.0, None)
        else:
            rounded = round_private(self.matrix, self.limits)
        return replace(rounded, counts=readonly(rounded.counts))

    @property
    def counts(self) -> Counts:
        """(inputs, outputs) integers: place x reports z with probability counts[x, z] / 2^63."""
        return self.released.counts

    @cached_property
    def _sums(self) -> Counts:
        return cumulative(self.counts)

    def sample(
        self,
        at: Any,
        size: int | None = None,
        *,
        outside: str = "error",
        rng: np.random.Generator | None = None,
    ) -> Reports:
        """Draw reports from the released counts, with the operating system's randomness.

        Parameters
        ----------
        at
            The true location: the index of a place, or several; or a point, or (n, 2) points, in
            degrees for places on the earth and in km otherwise. A point snaps to the nearest
            place. A tuple of two numbers is a point; [4, 8] are two places.
        size
            The number of reports of a single place or point. k of them cost k epsilon.
        outside
            The policy for points outside the area of the places: "error"; "nearest"; or
            "planar-laplace", noise around the point itself. The guarantee does not cover the last
            two: a report may reveal that somebody is outside.
        rng
            A seeded generator, for studies only; the result says that it was seeded.

        >>> import whereish as wh
        >>> places = wh.Places.from_xy([[0, 0], [1, 0], [2, 0]])
        >>> m = wh.optimal(places, [0.2, 0.5, 0.3], epsilon=1.0)
        >>> len(m.sample(1, size=1000))
        1000
        >>> m.sample([0.9, 0.2]).snapped_km.round(3)
        array([0.224])
        """
        snapped = snap(self.inputs, at)
        check_outside(snapped, self.inputs, outside)
        if size is not None:
            size = as_whole("size", size, 0)
            if size > _MOST_REPORTS:
                raise InputError(f"size must be at most {_MOST_REPORTS:,} at a time, got {size:,}")
            if len(snapped.rows) != 1:
                raise InputError(f"size must not be given for several places, got {size}")
            snapped = Snapped(*(np.repeat(part, size, axis=0) for part in vars(snapped).values()))
        outputs = draw(self._sums, snapped.rows, rng)
        xy = self.outputs.xy[outputs]
        plane, latlon = self.outputs.plane, self.outputs.latlon
        degrees = None if latlon is None else latlon[outputs]
        noisy = snapped.outside if outside == "planar-laplace" else np.zeros(len(outputs), bool)
        if noisy.any():
            from whereish.mechanisms.planar_laplace import noise_near

            if self.epsilon is None or not self.is_per_km:
                raise InputError(f"planar Laplace needs an epsilon per km, got {self!r}")
            outputs[noisy] = -1
            xy[noisy] = noise_near(self.inputs, snapped.xy[noisy], self.epsilon, rng)
            if degrees is not None and plane is not None:
                degrees[noisy] = plane.to_latlon(xy[noisy])
        return Reports(outputs, xy, degrees, snapped.snapped_km, snapped.outside, rng is not None)

    @cached_property
    def is_per_km(self) -> bool:
        """Whether epsilon is per km of Euclidean distance, and not of another metric."""
        return self.privacy_metric is not None and np.array_equal(
            self.privacy_metric, euclidean(self.inputs)
        )

    @property
    def epsilon_unit(self) -> str:
        """The unit of epsilon, in words."""
        return epsilon_unit(self.is_per_km, self.build.metric)

    def then(self, other: Mechanism | ArrayLike, outputs: Places | None = None) -> Mechanism:
        """Return this mechanism followed by another: the product K H.

        Post-processing of a report costs no privacy (Section 3.4 of the paper), so the product
        keeps this epsilon.

        Parameters
        ----------
        other
            A mechanism from these outputs, or its (outputs, m) stochastic matrix.
        outputs
            The places of the m columns, where ``other`` is a matrix; by default
            the outputs of this mechanism.
        """
        if isinstance(other, Mechanism):
            follow, places = other.matrix, other.outputs
            if not other.inputs.same_as(self.outputs):
                raise InputError("then needs a mechanism whose inputs are the outputs of this one")
        else:
            follow = as_numbers("other", other, (len(self.outputs), None))
            places = self.outputs if outputs is None else outputs
            if not isinstance(places, Places):
                raise InputError(f"outputs must be Places, got {type(places).__name__}")
            if len(places) != follow.shape[1]:
                raise InputError(
                    f"other must have one column per output place, got {follow.shape[1]} columns "
                    f"and {len(places)} places"
                )
            _check_stochastic("other", follow)
        return self._followed(self.matrix @ follow, places, "then")

    def remap(self, prior: ArrayLike, metric: ArrayLike | None = None) -> Mechanism:
        """Return this mechanism with every report remapped to the best guess.

        The best guess is the place with the least expected loss given the report and the prior. The
        remap costs no privacy. It does not improve a mechanism of `optimal` for this prior.

        Parameters
        ----------
        prior
            (inputs,) the probability of each place.
        metric
            (inputs, inputs) loss of a guess; Euclidean distance if not given.
        """
        loss = loss_between("metric", metric, self.inputs, self.inputs)
        to = best_remap(self, prior, loss)
        moved = np.zeros((len(self.inputs), len(self.inputs)))
        np.add.at(moved.T, to, self.matrix.T)
        return self._followed(moved, self.inputs, "remap")

    def with_metadata(self, build: Build, proof: Proof | None = None) -> Mechanism:
        """Return a mechanism with the same checked numbers, and another build record and proof."""
        other: Mechanism = object.__new__(Mechanism)
        other.__dict__.update(self.__dict__, build=build, proof=proof)
        return other

    telling = with_metadata  # the former name

    def _followed(self, matrix: Array, outputs: Places, by: str) -> Mechanism:
        from whereish.mechanisms.repairing import checked_or_repaired

        build = replace(self.build, method=f"{self.build.method}+{by}")
        return checked_or_repaired(
            matrix, self.inputs, outputs, self.epsilon, self.privacy_metric, build
        )


def _limits(inputs: Places, epsilon: float, metric: Array) -> Limits:
    """Return the limits of a metric; a Euclidean one is recomputed exactly from the places."""
    is_euclidean = np.array_equal(metric, euclidean(inputs))
    return Limits(epsilon, inputs.xy, None if is_euclidean else metric)


def _check_stochastic(name: str, matrix: Array) -> None:
    if (matrix < 0).any():
        x, z = (int(i) for i in np.argwhere(matrix < 0)[0])
        raise InputError(f"{name} must be non-negative, and the number at [{x}, {z}] is not")
    sums = matrix.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-9:
        raise InputError(f"{name}: rows must sum to 1, and row {worst} does not")
