"""Maps: an OpenStreetMap extract as a small map under one's own data, and as a metric."""

from __future__ import annotations

from whereish.maps.area import Area, area_around, parse_area
from whereish.maps.extract import read_extract
from whereish.maps.map_file import ATTRIBUTION, MapFile, read_map, write_map
from whereish.maps.reduce import LARGEST_BYTES, Kept, reduce_map
from whereish.maps.streets import cells_with_roads, read_roads, road_metric

__all__ = [
    "ATTRIBUTION",
    "LARGEST_BYTES",
    "Area",
    "Kept",
    "MapFile",
    "area_around",
    "cells_with_roads",
    "parse_area",
    "read_extract",
    "read_map",
    "read_roads",
    "reduce_map",
    "road_metric",
    "write_map",
]
