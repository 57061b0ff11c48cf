"""Pictures: a prior, a spanner, the reports of one place, a comparison of mechanisms."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.files import check_writable, write_whole
from whereish.maps import MapFile
from whereish.measures import quality_loss
from whereish.mechanisms import Mechanism
from whereish.places import Array, LocalPlane
from whereish.plotting.ground import draw_ground
from whereish.profiles import Profile
from whereish.programs import Spanner
from whereish.units import km

KINDS = ("png", "pdf", "svg")
_INK, _PAPER, _WATER = "#22303c", "#fbfaf7", "#a9c9dd"
_PRIOR_MAP, _REPORT_MAP = "YlOrBr", "BuPu"
_ACCENT = "#c8102e"
_NUMBERED = 100
_TITLE_POINTS, _LETTER_INCHES, _TITLE_LETTERS = 11, 0.076, 30


def picture_kind(path: str | Path) -> str:
    """Return the format of a picture by the end of its name; raise InputError for others."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in KINDS:
        raise InputError(f"a picture must end in .png, .pdf or .svg, got {Path(path).name!r}")
    check_writable(path)
    return kind


def draw_profile(
    profile: Profile,
    path: str | Path,
    spanner: Spanner | None = None,
    background: MapFile | None = None,
) -> None:
    """Draw the prior and, if there is one, a spanner beside it; a map file under both."""
    figure, axes = panels_of(profile, 1 if spanner is None else 2, path, background)
    for axis in axes:
        draw_ground(axis, background, profile.places.plane)
    draw_prior(axes[0], profile, background is not None)
    if spanner is not None:
        _draw_spanner(axes[1], profile, spanner)
    finish(figure, path)


def draw_mechanism(
    mechanism: Mechanism,
    profile: Profile,
    path: str | Path,
    place: int | None = None,
    spanner: Spanner | None = None,
    prior_known: bool = True,
    background: MapFile | None = None,
) -> None:
    """Draw the prior, the spanner if there is one, and the distribution of reports of one place.

    Parameters
    ----------
    place
        The index of the place; by default the most likely one.
    prior_known
        Whether to draw the prior.
    background
        A map file of ``whereish map`` to draw under it.
    """
    chosen = int(np.argmax(profile.prior)) if place is None else place
    panels = 1 + (spanner is not None) + prior_known
    figure, axes = panels_of(profile, panels, path, background)
    for axis in axes:
        draw_ground(axis, background, profile.places.plane)
    if prior_known:
        draw_prior(axes[0], profile, background is not None)
    if spanner is not None:
        _draw_spanner(axes[-2], profile, spanner)
    draw_reports(axes[-1], profile, mechanism, chosen, prior_known, background is not None)
    finish(figure, path)


def draw_comparison(rows: list[tuple[str, float]], epsilon: float, path: str | Path) -> None:
    """Draw the quality loss of several mechanisms at one privacy level, as bars."""
    picture_kind(path)
    figure, (axis,) = new_figure((7.2, 0.9 + 0.5 * len(rows)))
    names, losses = zip(*rows, strict=True)
    colours = [_ACCENT if name.startswith("optimal") else "#8fa3b0" for name in names]
    bars = axis.barh(range(len(rows)), losses, color=colours, height=0.62)
    axis.bar_label(bars, [km(loss) for loss in losses], padding=4, color=_INK, fontsize=9)
    axis.set_yticks(range(len(rows)), names, color=_INK)
    axis.invert_yaxis()
    axis.set_xlim(0, max(losses) * 1.15)
    axis.set_xlabel("how far off a report is on average (km)", color=_INK)
    axis.set_title(f"The same privacy (epsilon {epsilon:.3g} per km), less lost", loc="left")
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0)
    finish(figure, path)


def draw_prior(axis: Any, profile: Profile, see_through: bool) -> None:
    """Draw the prior of a profile into axes; over a map, small values are clear."""
    draw_values(axis, profile, profile.prior, _PRIOR_MAP, "probability", see_through)
    titled(axis, "Where the person is: the prior")


def _draw_spanner(axis: Any, profile: Profile, spanner: Spanner) -> None:
    _backdrop(axis, profile, names=False)
    xy = profile.places.xy
    for a, b in spanner.edges:
        axis.plot(*xy[[a, b]].T, color="#31688e", linewidth=0.8, alpha=0.75, zorder=3)
    axis.scatter(*xy.T, s=14, color=_INK, zorder=4)
    if len(xy) <= _NUMBERED:
        for number, (x, y) in enumerate(xy):
            axis.annotate(
                str(number), (x, y), (3, 3), textcoords="offset points", fontsize=6, color=_INK,
                zorder=5, bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"},
            )  # fmt: skip
    pairs = len(xy) * (len(xy) - 1) // 2
    longest = f"(each path in it is at most {spanner.dilation:.3f} times the straight distance)"
    titled(axis, f"A spanner: {len(spanner.edges):,} of {pairs:,} pairs\n{longest}")


def draw_reports(
    axis: Any,
    profile: Profile,
    mechanism: Mechanism,
    place: int,
    prior_known: bool,
    see_through: bool,
) -> None:
    """Draw where one place of a mechanism is reported to, into axes."""
    if not 0 <= place < len(mechanism.inputs):
        raise InputError(f"place must be from 0 to {len(mechanism.inputs) - 1}, got {place}")
    reports = mechanism.matrix[place]
    outputs = Profile(mechanism.outputs, reports, backdrop=profile.backdrop)
    draw_values(axis, outputs, reports, _REPORT_MAP, "chance of this report", see_through)
    x, y = mechanism.inputs.xy[place]
    axis.scatter([x], [y], s=190, marker="*", color=_ACCENT, edgecolor="white", zorder=6)
    labels = mechanism.inputs.labels
    name = f"the starred place (number {place})" if labels is None else f"{labels[place]} (star)"
    title = f"Where {name} is reported to"
    if prior_known:
        loss = quality_loss(mechanism, profile.prior)
        title += f"\n(reports are {km(loss)} off on average over the prior)"
    titled(axis, title)


def draw_values(
    axis: Any,
    profile: Profile,
    values: Array,
    colours: str,
    label: str,
    see_through: bool,
    top: float | None = None,
) -> None:
    """Colour the cells, regions or discs of places by value; over a map, small values are clear.

    The darkest colour is that of the largest value, or of ``top``.
    """
    import matplotlib as mpl
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.ticker import FuncFormatter

    _backdrop(axis, profile)
    places = profile.places
    top = float(values.max()) if top is None else top
    scale = mpl.colors.PowerNorm(0.5, 0.0, top)
    patches: list[Any] = []
    colour_of: list[float] = []
    if profile.regions is not None and places.plane is not None:
        for region, value in zip(profile.regions, values, strict=True):
            for outline in _outlines(region, places.plane):
                patches.append(PathPatch(outline))
                colour_of.append(float(value))
    elif places.cell_km is not None:
        width, height = places.cell_km
        corner = places.xy - [width / 2, height / 2]
        patches = [Rectangle((x, y), width, height) for x, y in corner]
        colour_of = values.tolist()
    if patches:
        cells = PatchCollection(
            patches, cmap=colours, norm=scale, alpha=0.78, edgecolor="white", linewidth=0.6,
            zorder=2,
        )  # fmt: skip
        cells.set_array(np.asarray(colour_of))
        if see_through:
            cells.set_alpha([0.2 + 0.55 * float(np.sqrt(value / top)) for value in colour_of])
        drawn: Any = axis.add_collection(cells)
    else:
        size = 30 + 500 * np.sqrt(values / top)
        drawn = axis.scatter(
            *places.xy.T, c=values, s=size, cmap=colours, norm=scale, edgecolor=_INK,
            linewidth=0.4, alpha=0.85, zorder=2,
        )  # fmt: skip
    percent = FuncFormatter(lambda value, _: f"{100 * value:.3g}%")
    scale_of = mpl.cm.ScalarMappable(scale, colours) if see_through else drawn
    bar = axis.figure.colorbar(scale_of, ax=axis, shrink=0.7, pad=0.02, format=percent)
    bar.set_label(label, color=_INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, colors=_INK)
    bar.outline.set_visible(False)


def _backdrop(axis: Any, profile: Profile, *, names: bool = True) -> None:
    plane = profile.places.plane
    if profile.backdrop is None or plane is None:
        return
    for line in profile.backdrop.lines:
        axis.plot(
            *plane.to_xy(line).T, color=_WATER, linewidth=6, alpha=0.75, zorder=2.5,
            solid_capstyle="round",
        )  # fmt: skip
    for name, lat, lon in profile.backdrop.names if names else ():
        x, y = plane.to_xy([[lat, lon]])[0]
        axis.text(
            x, y, name, fontsize=7, color=_INK, alpha=0.85, ha="center", va="center", zorder=5
        )


def _outlines(region: Any, plane: LocalPlane) -> list[Any]:
    """Return the outlines of a region in the plane, with its holes."""
    from matplotlib.path import Path as Outline

    shapes = [shape for shape in getattr(region, "geoms", [region]) if hasattr(shape, "exterior")]
    return [
        Outline.make_compound_path(
            *(
                Outline(plane.to_xy(np.asarray(ring.coords)[:, [1, 0]]), closed=True)
                for ring in (shape.exterior, *shape.interiors)
            )
        )
        for shape in shapes
    ]


def frame_of_profile(profile: Profile, wide: bool) -> tuple[Array, Array]:
    """Return two corners of the area that a picture shows, with a margin: a wide one for a map."""
    places = profile.places
    points = [places.xy]
    if profile.regions is not None and places.plane is not None:
        outlines = [o for region in profile.regions for o in _outlines(region, places.plane)]
        points += [outline.vertices for outline in outlines]
    everything = np.concatenate(points)
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = np.full(2, 0.08 * max(float((high - low).max()), 1e-3))
    if places.cell_km is not None:
        room = np.array(places.cell_km) / 2
    if wide:
        room = room + 0.1 * float((high - low).max())
    return low - room, high + room


def panels_of(
    profile: Profile, panels: int, path: str | Path, background: MapFile | None
) -> tuple[Any, list[Any]]:
    """Return a figure with panels side by side that show the area of a profile."""
    return panels_between(*frame_of_profile(profile, background is not None), panels, path)


def panels_between(low: Array, high: Array, panels: int, path: str | Path) -> tuple[Any, list[Any]]:
    """Return a figure with panels side by side that show the area between two corners, in km."""
    picture_kind(path)
    width, height = high - low
    tall = float(np.clip(4.2 * height / width, 2.2, 8.0))
    figure, axes = new_figure((5.6 * panels, tall + 1.1), panels)
    for axis in axes:
        show_area(axis, low, high)
    return figure, axes


def show_area(axis: Any, low: Array, high: Array) -> None:
    """Let axes show the area between two corners, in km."""
    axis.set_aspect("equal")
    axis.set_facecolor(_PAPER)
    axis.set_xlim(low[0], high[0])
    axis.set_ylim(low[1], high[1])
    axis.set_xlabel("km east", color=_INK, fontsize=9)
    axis.set_ylabel("km north", color=_INK, fontsize=9)
    axis.tick_params(labelsize=8, colors=_INK)
    for spine in axis.spines.values():
        spine.set_color("#d5d0c4")


def new_figure(size: tuple[float, float], panels: int = 1) -> tuple[Any, list[Any]]:
    """Return an empty figure with panels side by side."""
    # Without pyplot there is no window system and no state that pictures share.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, facecolor="white", layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    return figure, list(axes)


def finish(figure: Any, path: str | Path) -> None:
    """Write a figure to a file that only its owner may read."""
    kind = picture_kind(path)
    stream = io.BytesIO()
    figure.draw_without_rendering()
    for axis in figure.axes:
        _wrap_title(axis)
    # With a tight box no title is cut off.
    figure.savefig(stream, format=kind, bbox_inches="tight", pad_inches=0.1)
    # A picture may show where somebody lives.
    write_whole(path, stream.getvalue(), private=True)


def titled(axis: Any, text: str) -> None:
    """Set the title of a panel."""
    axis.set_title(text, loc="left", color=_INK, fontsize=_TITLE_POINTS)


def _wrap_title(axis: Any) -> None:
    """Wrap a title that would overlap the next panel."""
    title = axis.get_title(loc="left")
    if title:
        inches = axis.get_window_extent().width / axis.figure.dpi
        wide = max(_TITLE_LETTERS, int(inches / _LETTER_INCHES))
        lines = [textwrap.fill(line, wide) for line in title.split("\n")]
        titled(axis, "\n".join(lines))
