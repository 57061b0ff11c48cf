"""Which objects of OpenStreetMap a map shows, by their tags: the one table of kinds and classes.

A feature of a map file has a ``kind`` (how it is drawn) and a ``class`` (at which zoom, how wide).
Lines come from ways, areas from closed ways and multipolygons, names from points.
"""

from __future__ import annotations

from collections.abc import Mapping

Kind = tuple[str, str]  # kind, class
COAST: Kind = ("water", "coast")  # a map file has the sea instead

_LINES: dict[str, dict[str, Kind]] = {
    "highway": {
        "motorway": ("road", "motorway"), "motorway_link": ("road", "motorway"),
        "trunk": ("road", "trunk"), "trunk_link": ("road", "trunk"),
        "primary": ("road", "primary"), "primary_link": ("road", "primary"),
        "secondary": ("road", "secondary"), "secondary_link": ("road", "secondary"),
        "tertiary": ("road", "tertiary"), "tertiary_link": ("road", "tertiary"),
        "residential": ("road", "street"), "unclassified": ("road", "street"),
        "living_street": ("road", "street"), "pedestrian": ("road", "street"),
        "road": ("road", "street"),
    },
    "railway": {
        "rail": ("rail", "rail"), "light_rail": ("rail", "rail"), "narrow_gauge": ("rail", "rail"),
    },
    "waterway": {
        "river": ("water", "river"), "canal": ("water", "canal"), "stream": ("water", "stream"),
    },
    "natural": {"coastline": COAST},
}  # fmt: skip
_AREAS: dict[str, dict[str, Kind]] = {
    "natural": {
        "water": ("water", "lake"), "bay": ("water", "lake"), "wood": ("park", "wood"),
        "grassland": ("park", "grass"), "heath": ("park", "grass"),
    },
    "waterway": {"riverbank": ("water", "lake"), "dock": ("water", "lake")},
    "landuse": {
        "reservoir": ("water", "lake"), "basin": ("water", "lake"), "forest": ("park", "wood"),
        "cemetery": ("park", "grass"), "recreation_ground": ("park", "grass"),
        "grass": ("park", "grass"), "meadow": ("park", "grass"),
    },
    "leisure": {
        "park": ("park", "park"), "garden": ("park", "park"), "nature_reserve": ("park", "wood"),
        "golf_course": ("park", "grass"),
    },
}  # fmt: skip
# Names of places, the most important first.
PLACES = (
    "city", "town", "borough", "suburb", "village", "quarter", "neighbourhood", "hamlet",
)  # fmt: skip
# Left out first if a map is too large for a page.
LEFT_OUT_FIRST: tuple[Kind, ...] = (
    ("water", "stream"), ("park", "grass"), ("road", "street"), ("rail", "rail"),
    ("road", "tertiary"), ("water", "canal"), ("road", "secondary"), ("park", "wood"),
    ("park", "park"), ("road", "primary"), ("water", "river"), ("road", "trunk"),
)  # fmt: skip


def tag_pairs() -> list[tuple[str, str]]:
    """Return every pair of key and value that a map may show: the filter of the reader."""
    pairs = [(key, value) for table in (_LINES, _AREAS) for key in table for value in table[key]]
    return sorted({*pairs, *(("place", value) for value in PLACES)})


def area_pairs() -> list[tuple[str, str]]:
    """Return the pairs of key and value of areas."""
    return [(key, value) for key in _AREAS for value in _AREAS[key]]


def line_kind(tags: Mapping[str, str]) -> Kind | None:
    """Return what a way is drawn as; None if it is not drawn, like a tunnel.

    >>> line_kind({"highway": "trunk_link"})
    ('road', 'trunk')
    """
    if tags.get("tunnel", "no") != "no" or tags.get("area") == "yes":
        return None
    return _first(_LINES, tags)


def area_kind(tags: Mapping[str, str]) -> Kind | None:
    """Return what an area is drawn as; None if it is not drawn.

    >>> area_kind({"leisure": "park", "name": "A garden"})
    ('park', 'park')
    """
    return _first(_AREAS, tags)


def _first(table: dict[str, dict[str, Kind]], tags: Mapping[str, str]) -> Kind | None:
    found = (table[key].get(tags[key]) for key in table if key in tags)
    return next((kind for kind in found if kind is not None), None)
