"""AIPO's rule for points off the grid, rebuilt, against bilinear mechanisms with the same epsilon.

    python benchmarks/aipo.py --seeds 3 --vertices 600 1600
    python benchmarks/aipo.py --seeds 1 --epsilon 1.6 --checks
    python benchmarks/aipo.py --chosen                 20 outputs chosen by us, and as many as help

AIPO (Anchor-Interpolated Privacy Optimization; C. Qiu, "Interpolation-Based Optimization for
Enforcing lp-Norm Metric Differential Privacy in Continuous and Fine-Grained Domains", 2026,
arXiv:2601.09946) is rebuilt from what is public: its abstract, the README of its artifact, and the
settings and constraints that its MATLAB files state. None of its code is copied or run, and its
published losses are not reproduced: their data are not in the public copy. Assumptions:

- Anchors are the 12 x 12 corners of cells of h = 4.77 km. Only neighbours along an axis are
  constrained: by exp(eps_x h / 2) along x and exp(eps_y h / 2) along y, with eps_x^2 + eps_y^2 =
  eps^2. The best of eps_x = 0.1 eps, ..., 0.9 eps is taken, by its true loss. We also try
  eps_x = eps_y.
- The probabilities of anchors are at least 1e-6, so that they have logarithms. The objective of the
  linear program is the linear surrogate: the loss as if the interpolation were bilinear.
- The row of a point is the geometric mean of the corners of its cell, with the bilinear weights,
  divided by its sum. The division may double the slope of the logarithm: hence the halves.
- Its own check takes 1,000 points and counts the pairs and outputs with
  k(x, z) > exp(eps d) k(x', z) + 0.01.
- The published data are nodes of road networks, with a loss along roads. They are not used here:
  the loss is the distance, every point has the same weight, and 20 of the points, at random, are
  the outputs. `square`: 2,000 points at random over the area. `city`: normally distributed around
  its centre, with a standard deviation of 7 km.

So built, AIPO does have its guarantee, in real numbers: in a cell, the logarithms before the
division are bilinear with slopes of at most eps_x / 2 and eps_y / 2, a gradient of at most eps / 2;
the logarithm of the sum has a gradient that is a mean of those.

`scaled` is AIPO with more than eps: as much as the steepest slope at 81 points per cell allows.
This has no proof; it is the most that its construction may hope for. `floor` is the loss of the
nearest output, without any privacy. Where it is a large part of a loss, ratios are close to 1; the
ratio above the floor is that of the losses minus the floor.

AIPO's outputs are given; our mechanism chooses its own where nothing is given. `--chosen` compares
AIPO on the 20 random outputs with what a user of this library gets: the 20 outputs are the means of
20 clusters, or the number of outputs is free (at most 40). AIPO on the same 20 means is next to it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.vq import kmeans2
from scipy.optimize import linprog

import whereish as wh
from whereish.places.lattice import Lattice

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

CELL_KM, CORNERS, OUTPUTS = 4.77, 12, 20
LEAST = 1e-6
SHARES = (*(k / 10 for k in range(1, 10)), 0.5**0.5)


def data(kind: str, seed: int, points: int = 2000) -> tuple[Any, Any]:
    """Return points of equal weight, and the outputs."""
    rng = np.random.default_rng(seed)
    side = CELL_KM * (CORNERS - 1)
    xy = rng.uniform(0, side, (points, 2))
    if kind == "city":
        xy = np.clip(rng.normal(side / 2, 7, (points, 2)), 0, side)
    return xy, xy[rng.choice(points, OUTPUTS, replace=False)]


class Aipo:
    """The rule on one lattice, for given points and outputs."""

    def __init__(self, lattice: Lattice, xy: Any, outputs: Any) -> None:
        self.lattice, self.xy = lattice, xy
        self.away = np.hypot(*(xy[:, None] - outputs[None]).transpose(2, 0, 1))
        self.costs = lattice.spread(xy, self.away / len(xy))
        at = np.arange(len(lattice)).reshape(len(lattice.ys), len(lattice.xs))
        self.pairs = [(at[:, :-1].ravel(), at[:, 1:].ravel()), (at[:-1].ravel(), at[1:].ravel())]

    def anchors(self, along_x: float, along_y: float) -> Any:
        """Return the anchors' rows of the linear program, for an epsilon along each axis."""
        n, m = self.costs.shape
        blocks = []
        for (a, b), level in zip(self.pairs, (along_x, along_y), strict=True):
            factor = np.exp(level * CELL_KM)
            rows = np.arange(len(a))
            for one, two in ((a, b), (b, a)):
                part = sp.coo_matrix((np.ones(len(a)), (rows, one)), (len(a), n))
                blocks.append(
                    part - factor * sp.coo_matrix((np.ones(len(a)), (rows, two)), part.shape)
                )
        block = sp.vstack(blocks)
        found = linprog(
            self.costs.T.ravel(),
            sp.block_diag([block] * m, "csr"),
            np.zeros(block.shape[0] * m),
            sp.hstack([sp.eye(n)] * m, "csr"),
            np.ones(n),
            (LEAST, 1.0),
            "highs-ipm",
        )
        if found.status != 0 or found.x is None:
            raise RuntimeError(f"the linear program of AIPO was not solved: {found.message}")
        return found.x.reshape(m, n).T

    def rows(self, anchors: Any, xy: Any) -> Any:
        """Return the rows of points: geometric means of the corners, divided by their sums."""
        corners, weights = self.lattice.weights(xy)
        found = np.exp(np.einsum("nk,nkm->nm", weights, np.log(anchors)[corners]))
        return found / found.sum(axis=1, keepdims=True)

    def loss(self, anchors: Any) -> float:
        return float((self.rows(anchors, self.xy) * self.away).sum() / len(self.xy))

    def best(self, epsilon: float) -> tuple[float, Any, float]:
        """Return the least loss over the shares of the axes, with its anchors and share."""
        tried = []
        for share in SHARES:
            anchors = self.anchors(share * epsilon / 2, (1 - share**2) ** 0.5 * epsilon / 2)
            tried.append((self.loss(anchors), share, anchors))
        loss, share, anchors = min(tried, key=lambda one: one[:2])
        return loss, anchors, share

    def slope(self, anchors: Any, steps: int = 8) -> float:
        """Return the steepest slope of a logarithm at (steps + 1)^2 points of every cell."""
        logs = np.log(anchors).reshape(len(self.lattice.ys), len(self.lattice.xs), -1)
        low_left, low_right, up_left, up_right = (
            logs[:-1, :-1],
            logs[:-1, 1:],
            logs[1:, :-1],
            logs[1:, 1:],
        )
        most = 0.0
        for s in np.linspace(0, 1, steps + 1):
            for t in np.linspace(0, 1, steps + 1):
                middle = (1 - t) * ((1 - s) * low_left + s * low_right) + t * (
                    (1 - s) * up_left + s * up_right
                )
                shares = np.exp(middle)
                shares /= shares.sum(axis=2, keepdims=True)
                squared: Any = 0.0
                for rise in (
                    (1 - t) * (low_right - low_left) + t * (up_right - up_left),
                    (1 - s) * (up_left - low_left) + s * (up_right - low_right),
                ):
                    mean = (shares * rise).sum(axis=2, keepdims=True)
                    squared = squared + ((rise - mean) / CELL_KM) ** 2
                most = max(most, float(squared.max()))
        return float(np.sqrt(most))

    def scaled(self, epsilon: float, share: float) -> tuple[float, float]:
        """Return the loss with as much epsilon as the measured slope allows, and the factor."""
        low, high, loss = 1.0, 2.0, float("inf")
        for _ in range(6):
            middle = (low + high) / 2
            inner = middle * epsilon / 2
            anchors = self.anchors(share * inner, (1 - share**2) ** 0.5 * inner)
            if self.slope(anchors) <= epsilon:
                low, loss = middle, self.loss(anchors)
            else:
                high = middle
        return loss, low


def own_check(rows: Any, xy: Any, epsilon: float, slack: float) -> float:
    """Return the share of pairs and outputs that a check with this absolute slack counts."""
    limit = np.exp(epsilon * np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1)))
    broken = sum(int((column[:, None] > limit * column[None] + slack).sum()) for column in rows.T)
    return float(broken / (len(xy) * (len(xy) - 1) * rows.shape[1]))


def exact_pairs(rule: Aipo, anchors: Any, epsilon: float, pairs: int) -> tuple[int, int]:
    """Return how many random pairs break exp(eps d) in rational numbers, of how many.

    The rows are those in doubles. Pairs are from 1 m to 10 km apart.
    """
    from fractions import Fraction

    import checks

    rng = np.random.default_rng(1)
    side = CELL_KM * (CORNERS - 1)
    one = rng.uniform(0, side, (pairs, 2))
    turn, far = rng.uniform(0, 2 * np.pi, pairs), 10 ** rng.uniform(-3, 1, pairs)
    two = np.clip(one + far[:, None] * np.column_stack([np.cos(turn), np.sin(turn)]), 0, side)
    rows = [rule.rows(anchors, xy) for xy in (one, two)]
    broken = 0
    for k in range(pairs):
        both = [[Fraction(float(v)) for v in part[k]] for part in rows]
        ends = [[Fraction(float(v)) for v in part[k]] for part in (one, two)]
        squared = sum(((a - b) ** 2 for a, b in zip(*ends, strict=True)), Fraction(0))
        broken += checks.broken_pair(both[0], both[1], epsilon, squared)
    return broken, pairs


def compare(kind: str, seed: int, epsilon: float, args: Any) -> dict[str, float]:
    xy, outputs = data(kind, seed)
    axis = np.array([CELL_KM * k for k in range(CORNERS)])
    rule = Aipo(Lattice(axis, axis), xy, outputs)
    start = time.perf_counter()
    theirs, anchors, share = rule.best(epsilon)
    spent = time.perf_counter() - start
    scaled, factor = rule.scaled(epsilon, share)
    print(
        f"{kind} {seed}, eps {epsilon:g}: AIPO {theirs:.3f} km (eps_x = {share:.2f} eps, slope "
        f"{rule.slope(anchors):.3f}, {spent:.0f} s), scaled by {factor:.2f} {scaled:.3f} km",
        flush=True,
    )
    floor = float(rule.away.min(axis=1).mean())
    figures = {"AIPO": theirs, "scaled": scaled, "floor": floor}
    places = wh.Places.from_xy(outputs)
    runs: list[tuple[str, dict[str, Any]]] = [("same corners", {"lattice": (axis, axis)})]
    runs += [(f"{vertices} vertices", {"vertices": vertices}) for vertices in args.vertices]
    for name, options in runs:
        start = time.perf_counter()
        m = wh.optimal_everywhere(xy, None, epsilon, outputs=places, method="lattice", **options)
        assert isinstance(m, wh.EverywhereMechanism)
        tightest = wh.tightest_epsilon_everywhere(m)
        assert tightest <= epsilon
        loss = wh.expected_loss(m, xy)
        figures[name] = loss
        print(
            f"    {name:>14}: {loss:.3f} km, ratio {loss / theirs:.3f}, to scaled "
            f"{loss / scaled:.3f}, above the floor {(loss - floor) / (theirs - floor):.3f}  "
            f"(lower bound {m.build.lower_bound_km or 0:.3f} km, "
            f"{time.perf_counter() - start:.0f} s)",
            flush=True,
        )
    other = wh.planar_laplace_everywhere(xy, None, epsilon, outputs=places)
    figures["planar Laplace"] = wh.expected_loss(other, xy)
    figures["the better"] = min(figures["planar Laplace"], figures[runs[-1][0]])
    print(
        f"    planar Laplace + remap {figures['planar Laplace']:.3f} km, floor {floor:.3f} km",
        flush=True,
    )
    if args.checks:
        chosen = np.random.default_rng(seed).choice(len(xy), 1000, replace=False)
        for name, rows in (
            ("AIPO", anchors),
            ("not halved, not split", rule.anchors(epsilon, epsilon)),
        ):
            told = [
                own_check(rule.rows(rows, xy[chosen]), xy[chosen], epsilon, slack)
                for slack in (0.01, 0.0)
            ]
            broken, pairs = exact_pairs(rule, rows, epsilon, args.pairs)
            print(
                f"    {name}: its check counts {told[0]:.3%}, without the slack {told[1]:.3%}; "
                f"{broken} of {pairs:,} pairs broken in rational numbers; slope "
                f"{rule.slope(rows):.3f}",
                flush=True,
            )
    return figures


def compare_chosen(kind: str, seed: int, epsilon: float, args: Any) -> dict[str, float]:
    """Compare AIPO on random outputs with mechanisms on outputs that are chosen for the points."""
    xy, outputs = data(kind, seed)
    axis = np.array([CELL_KM * k for k in range(CORNERS)])
    means, _ = kmeans2(xy, OUTPUTS, minit="++", rng=np.random.default_rng(seed))
    figures = {}
    for name, some in (("AIPO", outputs), ("AIPO, 20 means", means)):
        rule = Aipo(Lattice(axis, axis), xy, some)
        figures[name] = rule.best(epsilon)[0]
    figures["floor"] = float(rule.away.min(axis=1).mean())
    for name, places in (("20 means", wh.Places.from_xy(means)), ("free outputs", None)):
        m = wh.optimal_everywhere(xy, None, epsilon, outputs=places, vertices=args.vertices[-1])
        figures[name] = wh.expected_loss(m, xy)
        print(f"{kind} {seed}, eps {epsilon:g}, {name}: {m.build.method}, {len(m.outputs)} outputs")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each kind of data")
    parser.add_argument("--kinds", nargs="+", default=["square", "city"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 1.6])
    parser.add_argument("--vertices", type=int, nargs="+", default=[600])
    parser.add_argument("--checks", action="store_true", help="check AIPO's rule, too")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--chosen", action="store_true", help="outputs chosen by us")
    args = parser.parse_args()
    for kind in args.kinds:
        for epsilon in args.epsilon:
            how = compare_chosen if args.chosen else compare
            all_figures = [how(kind, seed, epsilon, args) for seed in range(1, args.seeds + 1)]
            for name in all_figures[0]:
                ratios = [one[name] / one["AIPO"] for one in all_figures]
                above = [
                    (one[name] - one["floor"]) / (one["AIPO"] - one["floor"]) for one in all_figures
                ]
                print(
                    f"{kind}, eps {epsilon:g}: {name}: median "
                    f"{np.median([one[name] for one in all_figures]):.3f} km, to AIPO "
                    f"{np.median(ratios):.3f}, largest {max(ratios):.3f}, above the floor "
                    f"{np.median(above):.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
