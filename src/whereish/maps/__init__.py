"""Maps under one's own data: an OpenStreetMap extract reduced to a small GeoJSON file."""

from __future__ import annotations

from whereish.maps.area import Area, area_around, parse_area
from whereish.maps.extract import read_extract
from whereish.maps.map_file import ATTRIBUTION, MapFile, read_map, write_map
from whereish.maps.reduce import LARGEST_BYTES, Kept, reduce_map

__all__ = [
    "ATTRIBUTION",
    "LARGEST_BYTES",
    "Area",
    "Kept",
    "MapFile",
    "area_around",
    "parse_area",
    "read_extract",
    "read_map",
    "reduce_map",
    "write_map",
]
