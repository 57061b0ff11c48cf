"""pandas, geopandas and networkx, where they are installed: places in, tables out.

A label is the index of a row or the name of a node. Values are matched by label, never by position
in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import InputError, described
from whereish.extras import require
from whereish.places.points import Places
from whereish.places.validation import Array, as_numbers

_DEGREES = 4326  # the EPSG number of WGS84 degrees
_KM = {"m": 1e-3, "km": 1.0}


def places_of_geometries(frame: Any) -> Places:
    """Return the places of a GeoDataFrame or GeoSeries; see `Places.from_geodataframe`."""
    geometry = getattr(frame, "geometry", None)
    if geometry is None or getattr(geometry, "crs", None) is None:
        raise InputError(
            "a GeoDataFrame must have a geometry and a coordinate reference system, and this has "
            "not: set it with frame.set_crs(...)"
        )
    if len(geometry) == 0 or bool(geometry.isna().any()) or bool(geometry.is_empty.any()):
        raise InputError("every row of a GeoDataFrame must have a geometry, and one has none")
    if not bool((geometry.geom_type == "Point").all()):
        # A centroid in degrees would be wrong near the poles and on the date line.
        plane = geometry.to_crs(geometry.estimate_utm_crs())
        geometry = plane.centroid
    degrees = geometry.to_crs(_DEGREES)
    found = Places.from_latlon(np.column_stack([degrees.y, degrees.x]))
    return with_labels(found, frame.index)


def with_labels(places: Places, labels: Iterable[Any]) -> Places:
    """Return the same places with these labels."""
    return Places(places.xy, places.latlon, places.plane, places.cell_km, tuple(labels))


def labels_of(places: Places) -> tuple[Any, ...]:
    """Return the labels of places: their own, or 0, 1, 2 and so on."""
    return places.labels if places.labels is not None else tuple(range(len(places)))


def aligned(places: Places, values: Any) -> Array:
    """Return one number for each place, matched by label; see `Places.align`."""
    index = values if isinstance(values, Mapping) else getattr(values, "index", None)
    if index is None or callable(index):
        raise InputError(
            f"values must have labels, like a pandas Series or a dict, got {type(values).__name__}"
        )
    keys = list(index)
    found = dict(zip(keys, values.values() if isinstance(values, Mapping) else values, strict=True))
    labels = labels_of(places)
    if len(found) != len(keys):
        raise InputError("labels must differ, and two of the values have the same")
    missing = sum(label not in found for label in labels)
    extra = len(found) - (len(labels) - missing)
    if missing or extra:
        raise InputError(
            f"values must have exactly the labels of the {len(labels)} places: {missing} of them "
            f"have no value, and {extra} values belong to no place"
        )
    return as_numbers("values", [found[label] for label in labels], (len(labels),))


def frame_of(matrix: Array, rows: Places, columns: Places) -> Any:
    """Return a matrix between places as a pandas DataFrame with their labels."""
    pandas = require("pandas", "to_frame")
    return pandas.DataFrame(matrix, index=labels_of(rows), columns=labels_of(columns))


def geodataframe_of(places: Places, columns: Mapping[str, ArrayLike]) -> Any:
    """Return places and columns as a GeoDataFrame; see `Places.to_geodataframe`."""
    geopandas = require("geopandas", "to_geodataframe")
    if places.latlon is None:
        raise InputError("to_geodataframe needs places on the earth: make them with from_latlon")
    lat, lon = places.latlon.T
    data = {name: as_numbers(name, values, (len(places),)) for name, values in columns.items()}
    points = geopandas.points_from_xy(lon, lat)
    return geopandas.GeoDataFrame(data, index=labels_of(places), geometry=points, crs=_DEGREES)


def places_of_nodes(graph: Any, lat: str = "y", lon: str = "x") -> Places:
    """Return the nodes of a networkx graph as places, labelled with their names.

    Parameters
    ----------
    lat, lon
        The attributes of a node that have its latitude and longitude in degrees. The defaults are
        those of graphs of OSMnx.
    """
    nodes = dict(graph.nodes(data=True))
    try:
        degrees = [[node[lat], node[lon]] for node in nodes.values()]
    except KeyError:
        raise InputError(f"every node must have the attributes {lat!r} and {lon!r}") from None
    return with_labels(Places.from_latlon(degrees), nodes)


def network_metric(graph: Any, places: Places, length: str = "length", unit: str = "m") -> Array:
    """Return the shortest-path distances between places in a networkx graph, in km.

    The label of a place is the name of its node. Paths may go through nodes that are no places.

    Parameters
    ----------
    graph
        An undirected graph: a metric is the same in both directions. Of a graph of one-way streets
        take ``graph.to_undirected()``.
    length, unit
        The attribute of an edge that has its length, and its unit: "m" or "km".

    >>> import networkx, whereish as wh
    >>> graph = networkx.Graph()
    >>> graph.add_node("a", x=2.0, y=48.0)
    >>> graph.add_node("b", x=2.01, y=48.0)
    >>> graph.add_node("c", x=2.02, y=48.0)
    >>> networkx.add_path(graph, "abc", length=800)
    >>> places = wh.Places.from_networkx(graph)
    >>> wh.network_metric(graph, places)[0].tolist()
    [0.0, 0.8, 1.6]
    """
    from whereish.places.metrics import shortest_paths

    if unit not in _KM:
        raise InputError(f'unit must be "m" or "km", got {described(unit)}')
    if graph.is_directed():
        raise InputError("graph must be undirected: take graph.to_undirected()")
    number = {name: k for k, name in enumerate(graph.nodes)}
    missing = sum(label not in number for label in labels_of(places))
    if missing:
        raise InputError(f"the label of every place must be a node, and {missing} are not")
    edges = [(number[a], number[b], data) for a, b, data in graph.edges(data=True)]
    if any(length not in data for *_, data in edges):
        raise InputError("every edge must have the attribute that length names, and one has not")
    lengths = as_numbers("length", [data[length] for *_, data in edges], (len(edges),)) * _KM[unit]
    if (lengths <= 0).any():
        raise InputError("length must be positive on every edge, and is not on one")
    pairs = np.array([[a, b] for a, b, _ in edges], dtype=np.int64).reshape(-1, 2)
    chosen = [number[label] for label in labels_of(places)]
    metric = shortest_paths(len(number), pairs, lengths)[np.ix_(chosen, chosen)]
    if np.isinf(metric).any():
        raise InputError("graph must connect all places, and there is no path between two of them")
    return metric
