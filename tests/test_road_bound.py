"""Lower bounds for mechanisms on streets: never above a loss, and not far below it."""

from __future__ import annotations

import numpy as np
import pytest

import whereish as wh
from test_roads_build import EPSILON, GOOD, NETWORK, POINTS, WEIGHTS
from whereish.everywhere import road_search
from whereish.everywhere.on_roads import as_road_visits
from whereish.everywhere.road_bound import reports_for, road_bound
from whereish.places import RoadPoints, Subdivision


@pytest.mark.slow
@pytest.mark.thorough
def test_more_vertices_lose_less_and_never_less_than_the_bound() -> None:
    losses, bounds = [], []
    for vertices in (len(NETWORK.nodes), 60, 240):
        m = wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=vertices)
        losses.append(m.build.loss_km)
        bounds.append(m.build.lower_bound_km)
        assert m.build.program_gap < 2e-5  # type: ignore[operator]
    assert losses[0] > losses[1] > losses[2] > bounds[2] > 0  # type: ignore[operator]
    assert bounds[2] > bounds[0]  # type: ignore[operator]
    assert losses[2] < 1.06 * bounds[2]  # type: ignore[operator]


def test_the_bound_is_the_optimum_of_the_discrete_program() -> None:
    """A general solver finds the same optimum, so the bound is valid and has not much to gain."""
    points, weights = NETWORK.snap(POINTS[::5]), [0.5, *[0.5 / 11] * 11]
    outputs = NETWORK.at(np.arange(10), np.full(10, 0.3))
    visits = as_road_visits(NETWORK, points, weights)
    vertices = cut_at(visits.points)
    vertices = road_search.refined(vertices, np.ones(len(vertices.pieces.width)), 50)
    metric = NETWORK.distances(vertices.vertices, vertices.vertices)
    loss = NETWORK.distances(vertices.vertices, outputs)
    prior = np.zeros(len(vertices))
    prior[NETWORK.distances(visits.points, vertices.vertices).argmin(axis=1)] = visits.weights
    best = wh.optimal(
        wh.Places.from_xy([[k, 0] for k in range(len(vertices))]), prior, EPSILON,
        privacy_metric=metric, quality_metric=loss, solver="highs-ipm",
        outputs=wh.Places.from_xy([[k, 1] for k in range(10)]),
    )  # fmt: skip
    optimum = wh.quality_loss(best, prior, loss)
    bound = road_bound(visits, EPSILON, vertices, outputs, None)
    assert bound is not None
    assert optimum * (1 - 2e-4) < bound <= optimum * (1 + 1e-7)


def cut_at(points: RoadPoints) -> Subdivision:
    order = np.lexsort((points.steps, points.edge))
    inside = (points.steps > 2**25) & (points.to_ends[:, 1] > 2**25)
    order = order[inside[order]]
    return Subdivision(NETWORK, points.edge[order], points.steps[order])


def test_points_that_are_no_vertices_give_a_smaller_bound() -> None:
    """Every visit counts at its nearest vertex, less exp(-eps r): never more than it should."""
    visits = as_road_visits(NETWORK, POINTS, WEIGHTS)
    fine = cut_at(visits.points)
    coarse = Subdivision(NETWORK, np.empty(0, np.int64), np.empty(0, np.int64))
    found = [
        road_bound(visits, EPSILON, vertices, GOOD.outputs, None) for vertices in (coarse, fine)
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert 0.5 * found[1] < found[0] < found[1] < wh.expected_loss(GOOD, POINTS, WEIGHTS)


def test_the_bound_knows_that_points_of_a_vertex_can_be_told_apart() -> None:
    """Two points that count at the same vertex: they do not have its row."""
    network = wh.RoadNetwork([[0, 0], [1, 0]], [[0, 1]])
    points = network.at([0, 0], [0.1, 0.4])
    m = wh.optimal_on_roads(network, points, None, 50.0, vertices=100)
    ends = Subdivision(network, np.empty(0, np.int64), np.empty(0, np.int64))
    bound = road_bound(as_road_visits(network, points, None), 50.0, ends, points, None)
    assert bound is not None
    assert 0 < bound < m.build.loss_km < 0.01  # type: ignore[operator]


@pytest.mark.slow
def test_the_bound_holds_for_reports_anywhere_on_the_streets() -> None:
    """Nodes and visited points are enough: outputs everywhere are not better than the bound."""
    shares = np.tile(np.linspace(0.05, 0.95, 6), len(NETWORK.edges))
    anywhere = NETWORK.at(np.repeat(np.arange(len(NETWORK.edges)), 6), shares)
    bound = GOOD.build.lower_bound_km
    assert bound is not None
    m = wh.optimal_on_roads(NETWORK, POINTS, WEIGHTS, EPSILON, vertices=300, outputs=anywhere)
    assert bound < m.build.loss_km < 1.2 * bound  # type: ignore[operator]
    reports = reports_for(as_road_visits(NETWORK, POINTS, WEIGHTS), GOOD.outputs)
    at = NETWORK.distances(reports, NETWORK.snap(POINTS))
    assert (at.min(axis=0) == 0).all()
    assert (NETWORK.distances(reports, NETWORK.snap(NETWORK.nodes)).min(axis=0) == 0).all()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_guarantee_for_all_points_costs_more_than_one_between_nodes() -> None:
    """Visits at nodes: the mechanism on streets is private between nodes too, so it loses more."""
    rng = np.random.default_rng(5)
    prior = rng.dirichlet(np.full(len(NETWORK.nodes), 0.3))
    by_road = wh.graph_metric(len(NETWORK.nodes), NETWORK.edges, NETWORK.lengths)
    nodes = wh.optimal(
        NETWORK.nodes, prior, EPSILON, privacy_metric=by_road, quality_metric=by_road
    )
    loss = wh.quality_loss(nodes, prior, by_road)
    ours = wh.optimal_on_roads(NETWORK, NETWORK.nodes, prior, EPSILON, vertices=300)
    assert loss < ours.build.lower_bound_km < ours.build.loss_km  # type: ignore[operator]
    assert ours.build.loss_km < 1.15 * loss  # type: ignore[operator]
