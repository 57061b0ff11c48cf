"""Generated street networks, and slow exact rows of mechanisms on them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import street_checks
import whereish as wh
from whereish.places import RoadPoints, Subdivision

KINDS = ("tree", "grid", "cycle", "single", "parallel", "uneven")


def network_of(kind: str, seed: int, scale: float = 1.0) -> wh.RoadNetwork:
    """A small network: a tree, a grid with missing streets, a cycle, one street, and so on."""
    rng = np.random.default_rng(seed)
    if kind == "grid":
        return grid(3, 3, seed, scale=scale)
    n = {"single": 2, "parallel": 3}.get(kind, int(rng.integers(4, 7)))
    xy = scale * (rng.uniform(-1, 1, (n, 2)) + np.arange(n)[:, None])
    edges = [[int(rng.integers(0, k)), k] for k in range(1, n)]
    if kind == "cycle":
        edges = [[k, (k + 1) % n] for k in range(n)]
    elif kind == "parallel":
        edges += [[1, 0], [0, 1]]
    lengths = np.hypot(*(xy[[a for a, _ in edges]] - xy[[b for _, b in edges]]).T)
    lengths *= rng.uniform(0.8, 1.6, len(edges))  # shorter than the straight line, and longer
    if kind == "uneven":
        lengths *= 10.0 ** rng.uniform(-4, 0.5, len(edges))
    return wh.RoadNetwork(xy, edges, lengths)


def grid(
    columns: int, rows: int, seed: int, missing: float = 0.15, scale: float = 1.0
) -> wh.RoadNetwork:
    """A grid of streets with some missing: the largest part that is connected."""
    rng = np.random.default_rng(seed)
    xy = scale * (
        np.array([[i, j] for j in range(rows) for i in range(columns)], float)
        + rng.normal(0, 0.1, (rows * columns, 2))
    )
    beside = [
        [j * columns + i, j * columns + i + 1] for j in range(rows) for i in range(columns - 1)
    ]
    above = [
        [j * columns + i, (j + 1) * columns + i] for j in range(rows - 1) for i in range(columns)
    ]
    edges = [edge for edge in beside + above if rng.random() >= missing]
    lengths = [float(np.hypot(*(xy[a] - xy[b]))) * rng.uniform(1, 1.3) for a, b in edges]
    return wh.RoadNetwork.largest_part(xy, edges, lengths)


@st.composite
def networks(draw: DrawFn) -> wh.RoadNetwork:
    return network_of(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.sampled_from([0.05, 0.4, 2.0])),
    )


def some_points(network: wh.RoadNetwork, count: int, rng: np.random.Generator) -> RoadPoints:
    """Points on streets: anywhere, at nodes, in pairs close to each other."""
    shares = rng.random(count)
    shares[: count // 6] = rng.integers(0, 2, count // 6)
    edges = rng.integers(0, len(network.edges), count)
    third = count // 3
    edges[count - third :] = edges[:third]
    near = shares[:third] + rng.normal(0, 1, third) * 10.0 ** rng.uniform(-9, -1, third)
    shares[count - third :] = np.clip(near, 0, 1)
    return network.at(edges, shares)


def random_cuts(network: wh.RoadNetwork, count: int, rng: np.random.Generator) -> Subdivision:
    street = np.sort(rng.integers(0, len(network.edges), count))
    steps = (rng.uniform(0.02, 0.98, count) * network.units[street]).astype(np.int64)
    order = np.lexsort((steps, street))
    street, steps = street[order], steps[order]
    apart = np.r_[True, (np.diff(street) > 0) | (np.diff(steps) > 2**21)] if count else street > 0
    apart &= (steps > 2**21) & (network.units[street] - steps > 2**21)
    return Subdivision(network, street[apart], steps[apart])


def pieces_of(vertices: Subdivision) -> Any:
    network = vertices.network
    cuts = list(zip(vertices.street.tolist(), vertices.steps.tolist(), strict=True))
    return street_checks.street_pieces(
        network.edges.tolist(), network.lengths.tolist(), len(network.nodes), cuts
    )


def positions(points: RoadPoints) -> list[tuple[int, Fraction]]:
    return [
        (street, Fraction(steps, 1 << 40))
        for street, steps in zip(points.edge.tolist(), points.steps.tolist(), strict=True)
    ]


def exact_rows(m: wh.RoadMechanism, points: RoadPoints) -> list[list[Fraction]]:
    """The probabilities at points of streets, in rational numbers."""
    counts, pieces = m.counts.tolist(), pieces_of(m.vertices)
    return [
        street_checks.street_probabilities(counts, pieces, street, at)
        for street, at in positions(points)
    ]


def exact_distances(points: RoadPoints) -> list[list[Fraction]]:
    network = points.network
    return street_checks.street_distances(
        len(network.nodes), network.edges.tolist(), network.lengths.tolist(), positions(points)
    )
