"""The sea of an area, from its coastlines: OpenStreetMap has no polygon of it.

A coastline has land on its left and water on its right. The coastlines cut the rectangle of the
area into faces; a face is sea if every coastline on its border has the face on its right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whereish.lazy import shapely
from whereish.maps.area import Area

_ASIDE = 1e-7  # degrees: a centimetre


def sea_of(coasts: list[Any], area: Area) -> list[Any]:
    """Return the polygons of the sea; none if the coastlines do not cut the area.

    A face with water on one side of its coastlines and land on the other is left out: a coastline
    is broken there, or ends inside the area.
    """
    box = shapely.box(area.west, area.south, area.east, area.north)
    clipped = shapely.clip_by_rect(np.array(coasts, dtype=object), *box.bounds)
    lines = shapely.line_merge(shapely.union_all(clipped))
    if lines.is_empty:
        return []
    faces = shapely.polygonize([shapely.union_all([lines, box.exterior])]).geoms
    rights, lefts = _beside(coasts)  # as they were drawn: clipping may turn a line round
    tree_right, tree_left = shapely.STRtree(rights), shapely.STRtree(lefts)
    sea = []
    for face in faces:
        right = len(tree_right.query(face, predicate="contains"))
        left = len(tree_left.query(face, predicate="contains"))
        if right and not left:
            sea.append(face)
    return sea


def _beside(lines: Any) -> tuple[Any, Any]:
    """Return points just right and just left of the middle of every segment."""
    right, left = [], []
    for part in shapely.get_parts(lines):
        if part.geom_type != "LineString":
            continue
        xy = shapely.get_coordinates(part)
        step = np.diff(xy, axis=0)
        length = np.hypot(*step.T)
        used = length > 4 * _ASIDE
        middle = ((xy[1:] + xy[:-1]) / 2)[used]
        aside = (step[used] / length[used, None])[:, ::-1] * [1, -1] * _ASIDE
        right.append(middle + aside)
        left.append(middle - aside)
    empty = np.empty((0, 2))
    return shapely.points(np.concatenate([empty, *right])), shapely.points(
        np.concatenate([empty, *left])
    )
