"""Mechanisms on streets: loss against a mechanism on the nodes, and exact checks.

    python benchmarks/roads.py people --seeds 3
    python benchmarks/roads.py checks --builds 120 --pairs 2000

`people` have 7 spots of 20 m and 4 % of their visits elsewhere, on a grid of 6 x 6 crossings 300 m
apart, with 15 % of the streets missing. Loss is the distance along the streets between the point of
the street and the report. "nodes" is `wh.optimal` on the crossings with `wh.graph_metric`: a point
is moved to the nearest crossing first, so two points in the middle of a street can be told apart by
the factor given. `checks` generates networks of all kinds with epsilon from 0.2 to 10 per km, and
checks every piece and random pairs of points with tests/street_checks.py, in rational numbers. A
pair that is clear in doubles, by 1e-12, is not repeated.
"""

from __future__ import annotations

import argparse
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

LEVELS = (0.2, 0.5, 1.07, 2.0, 4.0, 10.0)


def person(network: wh.RoadNetwork, seed: int, points: int = 120) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    streets = rng.integers(0, len(network.edges), 7 + points // 25)
    at = network.at(streets, rng.random(len(streets))).xy
    xy = at[rng.choice(7, points, p=rng.dirichlet(np.full(7, 0.7)))]
    xy = xy + rng.normal(0, 0.02, (points, 2))
    xy[: points // 25] = at[7:]
    return xy, np.full(points, 1 / points)


def on_nodes(network: wh.RoadNetwork, points: Any, epsilon: float) -> tuple[float, float]:
    """Return the loss of the optimal mechanism on the nodes, and its factor across a street."""
    at = network.snap(points)
    nodes = network.snap(network.nodes)
    nearest = network.distances(at, nodes).argmin(axis=1)
    prior = np.bincount(nearest, minlength=len(nodes)) / len(at)
    by_road = network.distances(nodes, nodes)
    m = wh.optimal(network.nodes, prior, epsilon, privacy_metric=by_road, quality_metric=by_road)
    loss = (m.matrix[nearest] * network.distances(at, nodes)).sum() / len(at)
    used = m.matrix[:, m.matrix.max(axis=0) > 0]
    one, other = used[network.edges[:, 0]], used[network.edges[:, 1]]
    return float(loss), float(np.maximum(one / other, other / one).max())


def people(seeds: int) -> None:
    import streets

    print("seed  eps  nodes km (factor)   150 vertices   600 vertices    bound   seconds")
    for seed in range(1, seeds + 1):
        network = streets.grid(6, 6, seed, scale=0.3)
        points, weights = person(network, seed)
        for epsilon in (1.07, 2.0, 4.0):
            loss, factor = on_nodes(network, points, epsilon)
            start = time.perf_counter()
            coarse, fine = (
                wh.optimal_on_roads(network, points, weights, epsilon, vertices=vertices).build
                for vertices in (150, 600)
            )
            print(
                f"{seed:4} {epsilon:4} {loss:9.4f} ({factor:.2f}) {coarse.loss_km:14.4f} "
                f"{fine.loss_km:14.4f} {fine.lower_bound_km:10.4f} "
                f"{time.perf_counter() - start:6.1f}",
                flush=True,
            )


def checked(builds: int, pairs: int) -> None:
    import street_checks
    import streets

    pieces_checked = pairs_checked = exact_pairs = broken = 0
    start = time.perf_counter()
    for seed in range(builds):
        rng = np.random.default_rng(seed)
        network = streets.network_of(
            streets.KINDS[seed % len(streets.KINDS)], seed, float(rng.choice([0.05, 0.4, 2.0]))
        )
        epsilon = LEVELS[seed // len(streets.KINDS) % len(LEVELS)]
        visits = streets.some_points(network, int(rng.integers(1, 60)), rng)
        weights = rng.gamma(0.2, size=len(visits)) + 1e-12
        m = wh.optimal_on_roads(network, visits, weights, epsilon, vertices=60, normalise=True)
        pieces = streets.pieces_of(m.vertices)
        broken += len(street_checks.broken_pieces(m.counts.tolist(), pieces, epsilon))
        pieces_checked += len(pieces) * len(m.outputs)
        side = int(np.sqrt(2 * pairs)) + 1
        points = streets.some_points(network, side, rng)
        rows, away = m.probabilities(points), network.distances(points, points)
        i, j = np.triu_indices(side, 1)
        room = np.exp(epsilon * away[i, j])[:, None] * np.minimum(rows[i], rows[j])
        clear = (np.maximum(rows[i], rows[j]) * (1 + 1e-12) <= room).all(axis=1)
        pairs_checked += len(i)
        exact = streets.exact_rows(m, points)
        for a, b in zip(i[~clear].tolist(), j[~clear].tolist(), strict=True):
            exact_pairs += 1
            broken += street_checks.broken_ratio(
                exact[a], exact[b], epsilon, Fraction(float(away[a, b]))
            )
    print(
        f"{builds} builds: {pieces_checked:,} pieces x outputs, {pairs_checked:,} pairs of points, "
        f"{exact_pairs:,} of them in rational numbers: {broken} broken, "
        f"{time.perf_counter() - start:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["people", "checks"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--builds", type=int, default=120)
    parser.add_argument("--pairs", type=int, default=2000)
    asked = parser.parse_args()
    if asked.what == "people":
        people(asked.seeds)
    else:
        checked(asked.builds, asked.pairs)


if __name__ == "__main__":
    main()
