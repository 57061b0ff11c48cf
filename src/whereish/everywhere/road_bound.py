"""A lower bound for every mechanism that is private between all points of the streets.

Restricted to finitely many points, such a mechanism is a discrete private one for the distance
along the streets. The points are the vertices v of a subdivision, visited or not. A visited point x
with weight p counts at its nearest vertex, r away: k(x, z) >= exp(-eps r) k(v, z). So the loss is
at least the sum over v and z of k(v, z) C(v, z), with

    C(v, z) = sum over the x of v of p exp(-eps r) d_Q(x, z),

and the least value of that over the discrete private mechanisms is a bound. The program differs
from that of the mechanism in its exponents: eps w instead of log(1 + eps w) for a piece of length
w. So with more vertices the two values approach each other.
"""

from __future__ import annotations

import numpy as np

from whereish.errors import WhereishError
from whereish.everywhere.points import QualityMetric
from whereish.everywhere.road_search import RoadVisits, program_edges, road_quality
from whereish.measures import Proof, lower_bound
from whereish.places import Array, RoadPoints, Subdivision
from whereish.places.roads import node_positions
from whereish.solvers import solve_structured

MOST_VISITED = MOST_NODES = 300  # visited points and nodes that a bound has among its reports
_TOLERANCE = 1e-4
_ROUNDING = 1e-14  # relative errors of a product and an exponential: a few units of 2^-53
_AT_ONCE = 2_000_000


def road_bound(
    visits: RoadVisits,
    epsilon: float,
    vertices: Subdivision,
    outputs: RoadPoints,
    metric: QualityMetric | None,
    time_limit_s: float | None = None,
) -> float | None:
    """Return a lower bound in km on the loss of every mechanism with this epsilon and outputs.

    It is rounded down. None if no bound was found.
    """
    points = vertices.vertices
    away = vertices.network.distances(points, points)
    costs, prior = _costs(visits, epsilon, points, outputs, metric)
    loss = road_quality(points, outputs, metric)
    seen = prior > 0
    loss[seen] = costs[seen] / prior[seen, None]
    pairs, _ = program_edges(vertices, epsilon)
    exponents = epsilon * away[pairs[:, 0], pairs[:, 1]]
    try:
        found = solve_structured(
            prior, loss, pairs, exponents, epsilon * away, _TOLERANCE, time_limit_s
        )
        rows = found.multipliers
        proof = Proof(epsilon, rows.output, rows.left, rows.right, rows.value)
        return max(0.0, lower_bound(proof, prior, loss, away))
    except WhereishError:
        return None


def reports_for(visits: RoadVisits, outputs: RoadPoints) -> RoadPoints:
    """Return nodes, the visited points with the most weight, and the outputs of a mechanism.

    Of more than 300 nodes, those nearest to visited points.

    With all nodes and visited points among them, and the distance along the streets as d_Q, no
    other report is better (docs/proofs/roads.md): a bound for these is one for all reports on the
    streets.
    """
    often = np.argsort(-visits.weights, kind="stable")[:MOST_VISITED]
    nodes = node_positions(outputs.network)
    if len(nodes) > MOST_NODES:
        points = RoadPoints(outputs.network, nodes[:, 0], nodes[:, 1])
        away = outputs.network.distances(points, visits.points.subset(often)).min(axis=1)
        nodes = nodes[np.argsort(away, kind="stable")[:MOST_NODES]]
    edge = np.concatenate([nodes[:, 0], visits.points.edge[often], outputs.edge])
    steps = np.concatenate([nodes[:, 1], visits.points.steps[often], outputs.steps])
    return RoadPoints(outputs.network, edge, steps).merged()[0]


def _costs(
    visits: RoadVisits,
    epsilon: float,
    points: RoadPoints,
    outputs: RoadPoints,
    metric: QualityMetric | None,
) -> tuple[Array, Array]:
    """Return the costs C(v, z), rounded down, and the weights of the vertices."""
    costs, prior = np.zeros((len(points), len(outputs))), np.zeros(len(points))
    step = max(1, _AT_ONCE // max(len(points), len(outputs)))
    for first in range(0, len(visits), step):
        some = np.arange(first, min(first + step, len(visits)))
        here = visits.points.subset(some)
        between = points.network.distances(here, points)
        nearest = between.argmin(axis=1)
        shrink = np.exp(-epsilon * between.min(axis=1) * (1 + _ROUNDING))
        shares = visits.weights[some] * shrink
        np.add.at(costs, nearest, shares[:, None] * road_quality(here, outputs, metric))
        np.add.at(prior, nearest, visits.weights[some])
    # A sum of n positive numbers is off by less than n 2^-52 of itself.
    costs *= 1 - 4 * _ROUNDING - len(visits) * 2.0**-52
    return costs, prior / prior.sum()
