"""A map file under a picture: water, parks, roads and names, with who made it."""

from __future__ import annotations

from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.lazy import shapely
from whereish.maps import MapFile
from whereish.places import Array, LocalPlane

_WATER, _PARK, _RAIL, _INK = "#c3d9e6", "#dfe8d2", "#bdb8af", "#4a5058"
# Width in points where a panel shows 10 km; thinner where it shows more.
_ROADS = {
    "street": ("#e3dfd3", 0.5), "tertiary": ("#d9d3c4", 0.8), "secondary": ("#d1c9b5", 1.1),
    "primary": ("#cbbf9c", 1.5), "trunk": ("#c6ad74", 1.7), "motorway": ("#c6ad74", 2.0),
}  # fmt: skip
_RIVERS = {"stream": 0.4, "canal": 0.9, "river": 1.6}
_ZORDER = {"park": 0.2, "water": 0.3, "rail": 0.4, "road": 0.5}
_MOST_NAMES, _APART = 9, 0.16  # names of a panel, and how far apart: a share of its width
_LONG_KM = 60.0  # a panel that shows more has no streets


def draw_ground(axis: Any, background: MapFile | None, plane: LocalPlane | None) -> None:
    """Draw a map file under a panel whose limits are set, and its attribution in the corner.

    Raises
    ------
    InputError
        If the places of the picture are not on the earth.
    """
    if background is None:
        return
    if plane is None:
        raise InputError("a map must go with places in degrees (lat, lon): these are in km only")
    (x0, x1), (y0, y1) = axis.get_xlim(), axis.get_ylim()
    frame = shapely.box(x0, y0, x1, y1)
    inner = frame.buffer(-0.06 * min(x1 - x0, y1 - y0), join_style="mitre")  # a name has room
    thin = min(1.5, 10.0 / max(x1 - x0, 1.0)) ** 0.5
    names: list[tuple[str, float, float]] = []
    for feature in background.document["features"]:
        told, geometry = feature["properties"], shapely.geometry.shape(feature["geometry"])
        flat = shapely.transform(geometry, lambda lonlat: plane.to_xy(lonlat[:, ::-1]))
        if told["kind"] == "name":
            if inner.contains(flat):
                names.append((told["name"], flat.x, flat.y))
            continue
        seen = shapely.clip_by_rect(flat, *frame.bounds)
        if not seen.is_empty and not (told["class"] == "street" and x1 - x0 > _LONG_KM):
            _draw(axis, told["kind"], told["class"], seen, thin)
    _draw_names(axis, names, x1 - x0)
    axis.text(
        0.99, 0.012, background.attribution, transform=axis.transAxes, ha="right", va="bottom",
        fontsize=5.5, color=_INK, zorder=6,
        bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1},
    )  # fmt: skip


def _draw(axis: Any, kind: str, name: str, seen: Any, thin: float) -> None:
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.path import Path as Outline

    parts = shapely.get_parts(shapely.get_parts(seen))
    areas = [one for one in parts if one.geom_type == "Polygon"]
    if areas:
        outlines = [
            Outline.make_compound_path(
                *(Outline(_xy(ring), closed=True) for ring in (one.exterior, *one.interiors))
            )
            for one in areas
        ]
        colour = _WATER if kind == "water" else _PARK
        axis.add_collection(
            PathCollection(outlines, facecolor=colour, linewidth=0, zorder=_ZORDER[kind]),
            autolim=False,
        )
    lines = [_xy(one) for one in parts if one.geom_type == "LineString"]
    if lines and (kind != "road" or name in _ROADS):
        colour, width = _ROADS.get(name, (_WATER, _RIVERS.get(name, 0.5)))
        if kind == "rail":
            colour, width = _RAIL, 0.6
        axis.add_collection(
            LineCollection(
                lines, colors=colour, linewidths=width * thin, zorder=_ZORDER[kind] + width / 100,
                capstyle="butt" if kind == "rail" else "round",
                linestyles="dashed" if kind == "rail" else "solid",
            ),
            autolim=False,
        )  # fmt: skip


def _xy(line: Any) -> Array:
    found: Array = np.asarray(shapely.get_coordinates(line))
    return found


def _draw_names(axis: Any, names: list[tuple[str, float, float]], width: float) -> None:
    """Write the most important names that have room."""
    from matplotlib.patheffects import withStroke

    kept: list[tuple[float, float]] = []
    for name, x, y in names:
        if all(abs(x - u) > _APART * width or abs(y - v) > _APART * width / 3 for u, v in kept):
            kept.append((x, y))
            axis.text(
                x, y, name, fontsize=6.5, color=_INK, ha="center", va="center", zorder=5,
                clip_on=True,
                path_effects=[withStroke(linewidth=1.8, foreground="white", alpha=0.8)],
            )  # fmt: skip
        if len(kept) == _MOST_NAMES:
            return
