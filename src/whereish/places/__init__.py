"""WHERE: places, grids, the local plane, and the distances between places."""

from whereish.places.cells import CellEdges, cell_edges
from whereish.places.checks import (
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
    readonly,
)
from whereish.places.metrics import discrete, euclidean, geodesic, graph_metric
from whereish.places.points import LocalPlane, Places, grid_layout, square_grid

__all__ = [
    "Array",
    "CellEdges",
    "Immutable",
    "LocalPlane",
    "Places",
    "as_epsilon",
    "as_loss",
    "as_metric",
    "as_number",
    "as_numbers",
    "as_prior",
    "as_whole",
    "cell_edges",
    "check_order",
    "discrete",
    "euclidean",
    "geodesic",
    "graph_metric",
    "grid_layout",
    "readonly",
    "square_grid",
]
