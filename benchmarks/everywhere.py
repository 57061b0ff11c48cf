"""Mechanisms for all points: loss against planar Laplace, refinement of the lattice, exact checks.

    python benchmarks/everywhere.py people --epsilon 1.07 --vertices 600
    python benchmarks/everywhere.py curve --epsilon 1.07
    python benchmarks/everywhere.py checks --people 200 --pairs 1000000 --pairs-people 20

`people` have 7 spots of 80 m and 4 % of their visits elsewhere, in 6 x 6 km. `checks` generates
clustered, skewed and collinear people, one spot, and spots at the border of the area, with epsilon
from 0.2 to 10 per km, and checks every corner and random pairs of raw points with tests/checks.py,
in rational numbers. A pair that is clear in doubles, by 1e-12, is not repeated.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh
from whereish.places.lattice import to_units

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

KINDS = ("clustered", "skewed", "line", "diagonal", "spot", "border")
LEVELS = (0.2, 0.5, 1.07, 2.0, 4.0, 10.0)


def person(seed: int, points: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    spots = rng.uniform(0.6, 5.4, (7, 2))
    at = rng.choice(7, points, p=rng.dirichlet(np.full(7, 0.7)))
    xy = spots[at] + rng.normal(0, 0.08, (points, 2))
    rare = points // 25
    xy[:rare] = rng.uniform(0, 6, (rare, 2))
    return xy, np.full(points, 1 / points)


def generated(seed: int) -> tuple[str, float, Any, Any]:
    rng = np.random.default_rng(seed)
    kind, epsilon = KINDS[seed % len(KINDS)], LEVELS[seed // len(KINDS) % len(LEVELS)]
    count = int(rng.integers(2, 120))
    xy = rng.uniform(-3, 3, (count, 2))
    if kind == "clustered":
        xy = xy[rng.integers(0, min(6, count), count)] + rng.normal(0, 0.08, (count, 2))
    elif kind == "line":
        xy[:, seed % 2] = 1.25
    elif kind == "diagonal":
        xy[:, 1] = 2 * xy[:, 0]
    elif kind == "spot":
        xy[:] = xy[0] + rng.normal(0, 0.02, (count, 2))
    elif kind == "border":
        xy[:4] = np.array([[-3, -3], [3, 3], [-3, 3], [3, -3]])[: len(xy[:4])]
    weights = rng.gamma(0.2 if kind == "skewed" else 1.0, size=count) + 1e-12
    return kind, epsilon, xy, weights / weights.sum()


def on_lattice(xy: Any, weights: Any, epsilon: float, vertices: int) -> wh.EverywhereMechanism:
    m = wh.optimal_everywhere(xy, weights, epsilon, vertices=vertices, method="lattice")
    assert isinstance(m, wh.EverywhereMechanism)
    return m


def line(name: str, m: wh.EverywhereMechanism, seconds: float, other: float) -> float:
    build = m.build
    loss = build.loss_km or 0.0
    print(
        f"{name:>10}  {len(m.lattice.xs)} x {len(m.lattice.ys)} vertices  {len(m.outputs)} outputs"
        f"  {seconds:.1f} s  loss {loss:.4f} km  gap {build.program_gap:.1e}  lower bound "
        f"{build.lower_bound_km or 0:.4f}  planar Laplace {other:.4f}  ratio {loss / other:.3f}",
        flush=True,
    )
    return loss / other


def people(args: Any) -> None:
    ratios = []
    for seed in range(1, args.people + 1):
        xy, weights = person(seed)
        start = time.perf_counter()
        m = on_lattice(xy, weights, args.epsilon, args.vertices)
        seconds = time.perf_counter() - start
        other = wh.planar_laplace_everywhere(xy, weights, args.epsilon)
        ratios.append(line(str(seed), m, seconds, wh.expected_loss(other, xy, weights)))
    print(f"ratio: largest {max(ratios):.3f}, median {np.median(ratios):.3f}")


def curve(args: Any) -> None:
    xy, weights = person(args.seed)
    other = wh.planar_laplace_everywhere(xy, weights, args.epsilon)
    loss = wh.expected_loss(other, xy, weights)
    for vertices in (50, 100, 200, 400, 800, 1600):
        start = time.perf_counter()
        m = on_lattice(xy, weights, args.epsilon, vertices)
        line(str(vertices), m, time.perf_counter() - start, loss)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of the process: {memory:.0f} MB at most")


def broken_pairs(m: wh.EverywhereMechanism, pairs: int, seed: int) -> tuple[int, int]:
    """Return how many random pairs are broken, and how many needed rational numbers."""
    from fractions import Fraction

    import checks

    rng = np.random.default_rng(seed)
    low = np.array([m.lattice.xs[0], m.lattice.ys[0]]) - 1 / m.epsilon
    high = np.array([m.lattice.xs[-1], m.lattice.ys[-1]]) + 1 / m.epsilon
    counts = m.counts.tolist()
    xs, ys = (axis.tolist() for axis in m.lattice)
    broken = exact = 0
    for first in range(0, pairs, 50_000):
        size = min(50_000, pairs - first)
        one = rng.uniform(low, high, (size, 2))
        far = 10.0 ** rng.uniform(-9, 1, (size, 1)) / m.epsilon
        two = one + far * rng.normal(0, 1, (size, 2))
        whole = [to_units(part) for part in (one, two)]
        away = np.hypot(*((whole[0] - whole[1]) / 2.0**40).T)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.nan_to_num(np.log(m.probabilities(one)) - np.log(m.probabilities(two)))
        unclear = np.abs(logs).max(axis=1) > m.epsilon * away * (1 - 1e-12) - 1e-12
        for k in np.flatnonzero(unclear):
            exact += 1
            ends = [[Fraction(int(v), 2**40) for v in part[k]] for part in whole]
            rows = [checks.lattice_probabilities(counts, xs, ys, end) for end in ends]
            squared = sum(((a - b) ** 2 for a, b in zip(*ends, strict=True)), Fraction(0))
            broken += checks.broken_pair(rows[0], rows[1], m.epsilon, squared)
    return broken, exact


def check(args: Any) -> None:
    import checks

    corners = outputs = 0
    for seed in range(args.people):
        kind, epsilon, xy, weights = generated(seed)
        m = on_lattice(xy, weights, epsilon, args.vertices)
        sides = [axis.tolist() for axis in m.lattice]
        bad = checks.broken_corners(m.counts.tolist(), sides[0], sides[1], epsilon)
        corners += len(bad)
        outputs += m.verdict.corners
        told = ""
        if seed < args.pairs_people:
            broken, exact = broken_pairs(m, args.pairs, seed)
            told = f"  {broken} of {args.pairs:,} pairs broken ({exact:,} in rational numbers)"
        if bad or told or seed % 20 == 0:
            print(f"{seed} {kind} {epsilon:g}: {m}, {len(bad)} corners broken{told}", flush=True)
    print(f"{args.people} people: {corners} of {outputs:,} corners broken")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("people", "curve", "checks"))
    parser.add_argument("--epsilon", type=float, default=1.07)
    parser.add_argument("--vertices", type=int, default=600)
    parser.add_argument("--people", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--pairs-people", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    {"people": people, "curve": curve, "checks": check}[args.what](args)


if __name__ == "__main__":
    main()
