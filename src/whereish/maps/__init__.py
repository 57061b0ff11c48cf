"""Maps: an OpenStreetMap extract as a small map under one's own data, and as a metric."""

from __future__ import annotations

from whereish.maps.area import Area, area_around, parse_area
from whereish.maps.elastic import Cells, elastic_metric, make_cells, make_elastic
from whereish.maps.extract import read_extract
from whereish.maps.map_file import ATTRIBUTION, MapFile, read_map, write_map
from whereish.maps.masses import parse_weights, read_masses
from whereish.maps.reduce import LARGEST_BYTES, Kept, reduce_map
from whereish.maps.streets import cells_with_roads, read_roads, road_metric

__all__ = [
    "ATTRIBUTION",
    "LARGEST_BYTES",
    "Area",
    "Cells",
    "Kept",
    "MapFile",
    "area_around",
    "cells_with_roads",
    "elastic_metric",
    "make_cells",
    "make_elastic",
    "parse_area",
    "parse_weights",
    "read_extract",
    "read_map",
    "read_masses",
    "read_roads",
    "reduce_map",
    "road_metric",
    "write_map",
]
