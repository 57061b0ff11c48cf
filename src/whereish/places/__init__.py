"""WHERE: places, grids, the local plane, and metrics on places."""

from whereish.places.frames import network_metric
from whereish.places.grids import grid_layout, square_grid
from whereish.places.lattice import Lattice
from whereish.places.map_metric import KINDS, MapMetric, MetricKind
from whereish.places.metrics import (
    METRICS,
    discrete,
    euclidean,
    geodesic,
    graph_metric,
    metric_names,
    named_metric,
    register_metric,
    shortest_paths,
    symmetric_graph,
)
from whereish.places.points import LocalPlane, Places
from whereish.places.roads import RoadNetwork, RoadPoints
from whereish.places.subdivision import Subdivision
from whereish.places.validation import (
    Array,
    Immutable,
    as_epsilon,
    as_loss,
    as_metric,
    as_number,
    as_numbers,
    as_prior,
    as_whole,
    check_order,
    normalised,
    readonly,
)
from whereish.places.voronoi import CellEdges, cell_edges

__all__ = [
    "KINDS", "METRICS", "Array", "CellEdges", "Immutable", "Lattice", "LocalPlane", "MapMetric",
    "MetricKind", "Places", "RoadNetwork", "RoadPoints", "Subdivision", "as_epsilon", "as_loss",
    "as_metric", "as_number", "as_numbers", "as_prior", "as_whole", "cell_edges", "check_order",
    "discrete", "euclidean", "geodesic", "graph_metric", "grid_layout", "metric_names",
    "named_metric", "network_metric", "normalised", "readonly", "register_metric",
    "shortest_paths", "square_grid", "symmetric_graph",
]  # fmt: skip
