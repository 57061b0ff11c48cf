"""How other people move in the plane, and a forward filter with it.

`MovementModel` is a chain on some fifty places. The protocol needs a model that is as fine as the
draws, so this one has two parts, both counted from other people's traces: how much time they spend
in each square of a grid, and how far they are from a point after a given time.

The filter is that of `whereish.device.filtering`, on a grid around the last draw. With the draws
z_1, ..., z_k of planar Laplace noise of epsilon e (which may change from draw to draw),

    a_k(x)  proportional to  exp(-e |x - z_k|) b_k(x),
    b_k(x) = (1 - f) * sum over u of a_{k-1}(u) D(|x - u|) + f p(x),

where D is the distance moved in the time between the draws, p the time spent and f the share of an
expert that forgets the past. What is sent is the point with the least expected distance. It is a
function of draws that are paid for, of public times and of other people: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.lazy import fft, ndimage
from whereish.places import Array
from whereish.studies.trace_protocol import Trace

CELL_KM = 0.05  # of the counts of other people
GAPS_S = (60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)
_HALF = 16  # cells of the filter's window, on each side
_CELLS_PER_NOISE = 0.5  # the size of a cell, times epsilon
_FORGETS = 0.05  # f
_UNKNOWN = 0.1  # of the time is spent anywhere in the area
_STEPS = 6  # of the search for the geometric median
_MARGIN_KM = 1.0  # around the area
_RINGS_KM = np.concatenate([[0.0], np.geomspace(0.01, 40.0, 60)])

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlaneModel:
    """Where other people are, and how far they move.

    Attributes
    ----------
    origin
        (2,) km, the corner of the grid.
    counts
        (east, north) the minutes that other people spend in each square of 50 m, each person alike.
    moved
        (gaps, rings) the share of pairs of points a gap of `GAPS_S` apart whose distance is in a
        ring of `_RINGS_KM`.
    """

    origin: Array
    counts: Array = field(repr=False)
    moved: Array = field(repr=False)

    @classmethod
    def without(
        cls, traces: Sequence[Trace], fold: NDArray[np.int64], folds: int, corners: Array
    ) -> list[PlaneModel]:
        """Return for each fold the model of all people who are not in it.

        The traces of one person weigh as much as those of another.

        Parameters
        ----------
        fold
            (n,) the fold of each trace; all traces of a person are in the same one.
        corners
            (2, 2) km: the south-west and north-east corners of the area, which is public.
        """
        if not traces:
            raise InputError("traces of other people must be given, got none")
        points = np.concatenate([trace.xy for trace in traces])
        origin = np.floor(corners[0]) - _MARGIN_KM
        shape = np.ceil((corners[1] + _MARGIN_KM - origin) / CELL_KM).astype(int)
        counts = np.zeros((folds, *shape))
        moved = np.zeros((folds, len(GAPS_S), len(_RINGS_KM) - 1))
        weights = np.repeat(_equal_weights(traces), [len(trace) for trace in traces])
        cells = np.clip(np.floor((points - origin) / CELL_KM).astype(int), 0, shape - 1)
        np.add.at(counts, (np.repeat(fold, [len(t) for t in traces]), *cells.T), weights)
        for trace, own, one in zip(traces, fold.tolist(), _equal_weights(traces), strict=True):
            for number, gap in enumerate(GAPS_S):
                moved[own, number] += one * _distances(trace, gap)
        return [
            cls._smoothed(
                origin, *(np.delete(part, own, axis=0).sum(axis=0) for part in (counts, moved))
            )
            for own in range(folds)
        ]

    @classmethod
    def _smoothed(cls, origin: Array, counts: Array, moved: Array) -> PlaneModel:
        """Return the model of counts; every distance is possible."""
        rings = moved + 1e-3 * moved.sum(axis=1, keepdims=True) / moved.shape[1] + 1e-12
        return cls(origin, counts, rings / rings.sum(axis=1, keepdims=True))

    @cached_property
    def _kept(self) -> dict[tuple[str, int, int], Array]:
        return {}

    @cached_property
    def _moves(self) -> dict[int, NDArray[np.complex128]]:
        return {}

    def spent(self, size: int) -> Array:
        """Return the share of the time in each square of `size` cells, smoothed; kept."""
        key = ("spent", size, 0)
        if key not in self._kept:
            padded = np.pad(self.counts, [(0, -n % size) for n in self.counts.shape])
            east, north = (n // size for n in padded.shape)
            coarse = padded.reshape(east, size, north, size).sum(axis=(1, 3))
            soft = ndimage.gaussian_filter(coarse, 1.0)
            soft /= soft.sum()
            self._kept[key] = (1 - _UNKNOWN) * soft + _UNKNOWN / soft.size
        return self._kept[key]

    def kernel(self, gap: int, size: int, half: int = _HALF) -> Array:
        """Return D for a gap on squares of `size` cells: (2 half + 1)^2 shares; kept."""
        key = ("kernel", gap, size * 1000 + half)
        if key not in self._kept:
            axis = np.arange(-half, half + 1) * (size * CELL_KM)
            away = np.hypot(axis[:, None], axis[None, :])
            edges = np.append(_RINGS_KM[:-1], np.inf)
            # Within the middle cell, all rings that are smaller than it.
            inside = size * CELL_KM / np.sqrt(np.pi)
            areas = np.pi * np.diff(np.append(_RINGS_KM, 2 * _RINGS_KM[-1])[: len(edges)] ** 2)
            density = self.moved[gap] / areas
            ring = np.clip(np.searchsorted(edges, away, side="right") - 1, 0, len(density) - 1)
            found = density[ring] * (size * CELL_KM) ** 2
            centre = np.interp(inside, _RINGS_KM[1:], np.cumsum(self.moved[gap]))
            found[half, half] = 0.0
            found *= (1 - centre) / max(found.sum(), 1e-12)
            found[half, half] = centre
            self._kept[key] = found
        return self._kept[key]

    def filtered(
        self, times_s: Sequence[Array], draws: Sequence[Array], levels: Array
    ) -> list[Array]:
        """Return what is sent for the draws of several traces: for each, (k, 2) km.

        Parameters
        ----------
        times_s, draws
            For each trace, (k,) when, and (k, 2) km.
        levels
            (k,) epsilon of the draws by their number, per km. The cells follow it.
        """
        span = np.arange(-_HALF, _HALF + 1)
        sent = [np.empty_like(one) for one in draws]
        order = sorted(range(len(draws)), key=lambda number: -len(draws[number]))
        belief, corner, last = np.empty((0, len(span), len(span))), np.empty((0, 2)), 0
        for k in range(max(map(len, draws), default=0)):
            size = max(1, round(_CELLS_PER_NOISE / levels[k] / CELL_KM))
            side = size * CELL_KM
            axis = span * side
            going = [number for number in order if len(draws[number]) > k]
            drawn = np.array([draws[number][k] for number in going])
            centre = np.floor((drawn - self.origin) / side).astype(np.int64)
            middle = self.origin + (centre + 0.5) * side
            expected = windows(self.spent(size)[None], centre[:, :, None] + span)
            expected /= expected.sum(axis=(1, 2), keepdims=True)
            if k > 0:
                gaps = np.array([times_s[n][k] - times_s[n][k - 1] for n in going])
                spread = self._moved(belief[: len(going)], nearest_gap(gaps), last)
                points = middle[:, :, None] + axis - corner[: len(going), :, None]
                cells = np.floor(points / (last * CELL_KM)).astype(np.int64)
                moving = windows(np.pad(spread, ((0, 0), (1, 1), (1, 1))), cells + 1)
                moving *= (size / last) ** 2
                expected = (1 - _FORGETS) * moving + _FORGETS * expected
            off = (middle - drawn)[:, :, None] + axis
            away = np.hypot(off[:, 0, :, None], off[:, 1, None, :])
            belief = expected * np.exp(-levels[k] * away)
            corner, last = middle - (_HALF + 0.5) * side, size
            belief /= belief.sum(axis=(1, 2), keepdims=True)
            for number, one in zip(going, middle + _medians(belief, axis), strict=True):
                sent[number][k] = one
        return sent

    def _moved(self, belief: Array, gap: Whole, size: int) -> Array:
        """Return beliefs after moves in these gaps, on the same windows; what leaves is lost."""
        span = belief.shape[1]
        half, shape = span // 2, (fft.next_fast_len(2 * span - 1, real=True),) * 2
        if size not in self._moves:
            kernels = np.array([self.kernel(number, size) for number in range(len(GAPS_S))])
            self._moves[size] = fft.rfft2(kernels, shape)
        wide = fft.irfft2(fft.rfft2(belief, shape) * self._moves[size][gap], shape)
        return np.maximum(wide[:, half : half + span, half : half + span], 0.0)


def windows(grids: Array, cells: Whole) -> Array:
    """Return parts of grids; outside of a grid, its first corner's value.

    Parameters
    ----------
    grids
        (n, east, north), or one grid for all.
    cells
        (n, 2, span) the columns and the rows of each part.

    >>> windows(np.arange(9.0).reshape(1, 3, 3), np.array([[[-1, 0, 1], [0, 1, 2]]])).tolist()
    [[[0.0, 0.0, 0.0], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]
    """
    east, north = cells[:, 0, :, None], cells[:, 1, None, :]
    inside = (east >= 0) & (east < grids.shape[1]) & (north >= 0) & (north < grids.shape[2])
    rows = (np.arange(len(cells)) if len(grids) > 1 else np.zeros(len(cells), int))[:, None, None]
    found = grids[rows, np.clip(east, 0, grids.shape[1] - 1), np.clip(north, 0, grids.shape[2] - 1)]
    return np.asarray(np.where(inside, found, grids[rows, 0, 0]))


def _medians(belief: Array, axis: Array) -> Array:
    """Return the points with the least expected distance, by Weiszfeld's iteration: (n, 2)."""
    points = np.column_stack([belief.sum(axis=2) @ axis, belief.sum(axis=1) @ axis])
    blunt = 0.1 * (axis[1] - axis[0])
    for _ in range(_STEPS):
        off = axis - points[:, :, None]
        square = off[:, 0, :, None] ** 2 + off[:, 1, None, :] ** 2 + blunt**2
        weight = belief / np.sqrt(square)
        sums = np.column_stack([weight.sum(axis=2) @ axis, weight.sum(axis=1) @ axis])
        points = np.asarray(sums / weight.sum(axis=(1, 2))[:, None])
    return points


def nearest_gap(seconds: Array) -> Whole:
    """Return the number of the gap in `GAPS_S` that is nearest, as a ratio."""
    ratios = np.log(np.maximum(np.asarray(seconds), 1.0))[..., None] - np.log(np.array(GAPS_S))
    return np.asarray(np.abs(ratios).argmin(axis=-1))


def _equal_weights(traces: Sequence[Trace]) -> Array:
    """Return a weight for each trace: that of a person's points is 1 in all."""
    points: dict[str, int] = {}
    for trace in traces:
        points[trace.user] = points.get(trace.user, 0) + len(trace)
    return np.array([1.0 / points[trace.user] for trace in traces])


def _distances(trace: Trace, gap_s: float) -> Array:
    """Return how often a distance is in each ring, for points that are a gap apart."""
    later = np.searchsorted(trace.times_s, trace.times_s + gap_s - 0.5)
    there = later < len(trace)
    later = np.minimum(later, len(trace) - 1)
    there &= trace.times_s[later] - trace.times_s <= 1.5 * gap_s
    away = np.hypot(*(trace.xy[later] - trace.xy).T)[there]
    rings = len(_RINGS_KM) - 1
    ring = np.minimum(np.searchsorted(_RINGS_KM, away, side="right") - 1, rings - 1)
    return np.bincount(ring, minlength=rings).astype(np.float64)
