"""Pictures of a mechanism with a guarantee for every point: lattice, reports, arrows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.everywhere import Everywhere, EverywhereMechanism, Visits, loss_of
from whereish.maps import MapFile
from whereish.places import Array
from whereish.plotting import pictures
from whereish.plotting.ground import draw_ground
from whereish.units import km

_INK, _ACCENT, _LINE = "#22303c", "#c8102e", "#9fb4c0"
_ARROWS = 12  # on an axis


def draw_everywhere(
    mechanism: Everywhere,
    visits: Visits | None,
    path: str | Path,
    place: int | None = None,
    background: MapFile | None = None,
) -> None:
    """Draw the lattice with its outputs, the reports from one point, and the mean report of many.

    Parameters
    ----------
    visits
        The visited points, drawn if given.
    place
        The number of the vertex to draw reports from; by default the visited point with the largest
        weight, or the middle of the lattice.
    background
        A map file of ``whereish map`` to draw under it.
    """
    point, name = _point(mechanism, visits, place)
    low, high = _frame(mechanism, visits)
    figure, axes = pictures.panels_between(low, high, 3, path)
    for axis in axes:
        draw_ground(axis, background, mechanism.outputs.plane)
    _draw_lattice(axes[0], mechanism, visits)
    _draw_reports(axes[1], mechanism, point, name, visits)
    _draw_arrows(axes[2], mechanism, low, high)
    pictures.finish(figure, path)


def _point(mechanism: Everywhere, visits: Visits | None, place: int | None) -> tuple[Array, str]:
    """Return the point to draw reports from, in km, and its name."""
    if place is not None:
        if not isinstance(mechanism, EverywhereMechanism):
            raise InputError("place must not be given for planar Laplace: it has no vertices")
        count = len(mechanism.lattice)
        if not 0 <= place < count:
            raise InputError(f"place must be a vertex from 0 to {count - 1}, got {place}")
        return mechanism.lattice.vertices[place], f"vertex {place}"
    if visits is not None:
        return visits.xy[int(visits.weights.argmax())], "the starred point"
    if isinstance(mechanism, EverywhereMechanism):
        return np.array([np.mean(axis[[0, -1]]) for axis in mechanism.lattice]), "the middle"
    return np.asarray(mechanism.outputs.xy.mean(axis=0)), "the middle"


def _frame(mechanism: Everywhere, visits: Visits | None) -> tuple[Array, Array]:
    points = [mechanism.outputs.xy]
    if isinstance(mechanism, EverywhereMechanism):
        points.append(mechanism.lattice.vertices[[0, -1]])
    if visits is not None:
        points.append(visits.xy)
    every = np.concatenate(points)
    low, high = every.min(axis=0), every.max(axis=0)
    # A line needs some height to be seen.
    room = 0.06 * max(float((high - low).max()), 1e-3)
    short = np.maximum(0.2 * float((high - low).max()) - (high - low), 0) / 2
    return low - room - short, high + room + short


def _draw_lattice(axis: Any, mechanism: Everywhere, visits: Visits | None) -> None:
    xy = mechanism.outputs.xy
    if isinstance(mechanism, EverywhereMechanism):
        xs, ys = mechanism.lattice
        axis.vlines(xs, ys[0], ys[-1], color=_LINE, linewidth=0.6, zorder=1)
        axis.hlines(ys, xs[0], xs[-1], color=_LINE, linewidth=0.6, zorder=1)
        title = f"The lattice: {len(xs)} x {len(ys)} vertices, {len(xy)} outputs"
    else:
        _draw_table(axis, mechanism)
        title = f"The table of the noisy point: {mechanism.table.size:,} cells, {len(xy)} outputs"
    if visits is not None:
        size = 4 + 70 * visits.weights / visits.weights.max()
        axis.scatter(*visits.xy.T, s=size, color="#e08e0b", alpha=0.45, linewidth=0, zorder=2)
        title += "\n(orange: the visited points)"
    axis.scatter(*xy.T, s=20, marker="s", color=_INK, zorder=3)
    pictures.titled(axis, title)


def _draw_table(axis: Any, mechanism: Any) -> None:
    """Colour the cells of a table by their outputs; neighbouring numbers get different colours."""
    low, high = axis.get_xlim(), axis.get_ylim()
    edges = [
        np.concatenate([[min(a, borders[0] - 1)], borders, [max(b, borders[-1] + 1)]])
        for borders, (a, b) in zip(mechanism.borders, (low, high), strict=True)
    ]
    shades = (mechanism.table * 0.61803398875) % 1
    axis.pcolormesh(*edges, shades, cmap="Pastel1", vmin=0, vmax=1, zorder=0, rasterized=True)
    axis.set_xlim(*low)
    axis.set_ylim(*high)


def _draw_reports(
    axis: Any, mechanism: Everywhere, point: Array, name: str, visits: Visits | None
) -> None:
    from matplotlib.ticker import FuncFormatter

    chances = _rows(mechanism, point[None, :])[0]
    top = float(chances.max())
    drawn = axis.scatter(
        *mechanism.outputs.xy.T, c=100 * chances, s=20 + 500 * chances / top, cmap="BuPu",
        vmin=0, edgecolor=_INK, linewidth=0.4, alpha=0.85, zorder=2,
    )  # fmt: skip
    axis.scatter(*point[:, None], s=190, marker="*", color=_ACCENT, edgecolor="white", zorder=6)
    bar = axis.figure.colorbar(
        drawn, ax=axis, shrink=0.7, pad=0.02, format=FuncFormatter(lambda value, _: f"{value:.3g}%")
    )
    bar.set_label("chance of this report", color=_INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, colors=_INK)
    bar.outline.set_visible(False)
    title = f"Where {name} is reported to"
    if visits is not None:
        title += f"\n(reports are {km(loss_of(mechanism, visits))} off on average)"
    pictures.titled(axis, title)


def _draw_arrows(axis: Any, mechanism: Everywhere, low: Array, high: Array) -> None:
    """Draw arrows from points to the mean of their reports."""
    if isinstance(mechanism, EverywhereMechanism):
        lines = [borders[_spread(len(borders))] for borders in mechanism.lattice]
    else:
        lines = [np.linspace(a, b, _ARROWS) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, 2)
    moved = _rows(mechanism, points) @ mechanism.outputs.xy - points
    axis.quiver(
        *points.T, *moved.T, np.hypot(*moved.T), angles="xy", scale_units="xy", scale=1,
        cmap="viridis_r", width=0.004, alpha=0.9, zorder=2,
    )  # fmt: skip
    axis.scatter(*mechanism.outputs.xy.T, s=12, marker="s", color=_INK, zorder=3)
    pictures.titled(axis, "From points to the mean of their reports")


def _spread(count: int) -> Any:
    return np.unique(np.linspace(0, count - 1, min(count, _ARROWS)).round().astype(int))


def _rows(mechanism: Everywhere, points: Array) -> Array:
    plane = mechanism.outputs.plane
    return mechanism.probabilities(points if plane is None else plane.to_latlon(points))
