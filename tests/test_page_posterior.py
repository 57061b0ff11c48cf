"""What the page says that a report tells, against Bayes' rule in plain rational numbers."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from page_node import NODE, run_page
from whereish.format import mechanism_bytes

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node to run the page's code in")
CONCLUDE = """
import { readFileSync } from "node:fs";
import {
  averageChance, bestGuess, columnOf, posterior, ratioNear, rowsOf, uniform,
} from "./posterior.js";
import { spotsOf } from "./measures.js";
import { readMechanism } from "./vendor/whereish.js";
const [file, told] = process.argv.slice(2);
const { prior, points } = JSON.parse(readFileSync(told, "utf8"));
const mechanism = await readMechanism(readFileSync(file), { warn: false });
const spots = spotsOf(mechanism, points);
const rows = rowsOf(mechanism, spots);
const reports = [...Array(mechanism.reports).keys()];
const of = (before) => ({
  after: reports.map((z) => posterior(before, columnOf(rows, z))).map((p) => p && [...p]),
  average: averageChance(before, rows), before: bestGuess(before),
});
process.stdout.write(JSON.stringify({
  prior: of(prior), uniform: of(uniform(spots.length)),
  near: reports.map((z) => spots.map((_, x) =>
    ratioNear(mechanism, spots, columnOf(rows, z), x, 3))),
}));
"""
SQUARES = """
import { readFileSync } from "node:fs";
import { rectangle, squaresOf } from "./posterior.js";
process.stdout.write(JSON.stringify(JSON.parse(readFileSync(process.argv[2], "utf8"))
  .map(([points, margin, most]) => {
    const box = rectangle(points, margin);
    return { box, ...squaresOf(box, most) };
  })));
"""


def concluded(made: Any, scratch: Path, prior: list[float], points: Any = None) -> Any:
    """Return the page's conclusions from every report of a mechanism."""
    scratch.mkdir(exist_ok=True)
    (scratch / "k.whereish").write_bytes(mechanism_bytes(made))
    (scratch / "told.json").write_text(json.dumps({"prior": prior, "points": points}))
    return run_page(CONCLUDE, scratch, "k.whereish", "told.json")


def by_bayes(prior: list[Fraction], column: list[Fraction]) -> list[Fraction] | None:
    """Return p(x | z) by definition; None if the report cannot be seen."""
    joint = [p * k for p, k in zip(prior, column, strict=True)]
    return [part / sum(joint) for part in joint] if sum(joint) else None


def check(found: Any, prior: list[Fraction], rows: list[list[Fraction]], off: float) -> None:
    """Compare all that the page concludes with the definition."""
    total = Fraction(0)
    assert len(found["after"]) == len(rows[0])
    for z, after in enumerate(found["after"]):
        wanted = by_bayes(prior, [row[z] for row in rows])
        if wanted is None:
            assert after is None
            continue
        assert after == pytest.approx([float(share) for share in wanted], abs=off)
        total += max(p * row[z] for p, row in zip(prior, rows, strict=True))
    assert found["average"] == pytest.approx(float(total), abs=off)
    assert found["before"]["chance"] == pytest.approx(float(max(prior)), abs=off)
    assert prior[found["before"]["spot"]] == max(prior)


@pytest.mark.parametrize("seed", range(6))
def test_the_posterior_is_that_of_bayes_rule(seed: int, tmp_path: Path) -> None:
    """Places with a skewed prior, some of it zero, and mechanisms of several kinds."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    places = wh.Places.from_xy(rng.uniform(0, 4, (n, 2)).tolist())
    prior = rng.gamma(0.3, size=n) * (rng.random(n) < 0.8)
    prior[int(rng.integers(n))] += 0.5
    prior /= prior.sum()
    epsilon = float(rng.uniform(0.2, 6))
    made = (wh.optimal(places, prior, epsilon), wh.exponential(places, epsilon))[seed % 2]
    rows = [[Fraction(int(c), 2**63) for c in row] for row in made.counts]
    found = concluded(made, tmp_path / "page", prior.tolist())
    check(found["prior"], [Fraction(p) for p in prior.tolist()], rows, 1e-12)
    check(found["uniform"], [Fraction(1, n)] * n, rows, 1e-12)
    # The example in the words: a ratio of this report, its distance, and the limit there.
    distance = np.hypot(*(places.xy[:, None] - places.xy).T)
    for z, spots in enumerate(found["near"]):
        for x, one in enumerate(spots):
            near = sorted(set(range(n)) - {x}, key=lambda y: distance[x, y])[:3]
            ratios = {y: rows[x][z] / rows[y][z] for y in near if rows[y][z]}
            if not ratios or not any(ratios.values()):
                continue  # the report is never sent from here
            assert one["ratio"] == pytest.approx(float(max(ratios.values())), rel=1e-12)
            assert one["km"] == pytest.approx(distance[x, one["x"]], abs=1e-9)
            assert one["ratio"] <= one["limit"] * (1 + 1e-12)
            assert one["limit"] == pytest.approx(np.exp(epsilon * one["km"]), rel=1e-12)


def test_the_posterior_over_visited_points(tmp_path: Path) -> None:
    """A mechanism for every point: its probabilities at raw points, not at places."""
    places = wh.Places.from_latlon([[52.5, 13.3], [52.51, 13.33], [52.52, 13.36], [52.49, 13.4]])
    weights = [0.7, 0.2, 0.1, 0.0]
    lattice = wh.optimal_everywhere(places, weights, 1.0, vertices=64, method="lattice")
    noise = wh.planar_laplace_everywhere(places, weights, 1.0)
    assert places.latlon is not None
    for made, off in ((lattice, 1e-7), (noise, 2e-4)):
        rows = made.probabilities(places.latlon.tolist())
        exact = [[Fraction(float(share)) for share in row] for row in rows]
        found = concluded(made, tmp_path / "page", weights, places.latlon.tolist())
        check(found["prior"], [Fraction(w) for w in weights], exact, off)


def test_squares_cover_the_area(tmp_path: Path) -> None:
    """The picture of a uniform prior: equal squares over the rectangle, at most so many."""
    rng = np.random.default_rng(4)
    cases = [
        (
            rng.uniform(-9, 9, (5, 2)) * [1, float(rng.uniform(0.001, 1))],
            float(rng.uniform(0, 2)),
            m,
        )
        for m in (1, 7, 300, 1600)
        for _ in range(5)
    ]
    cases.append((np.zeros((1, 2)), 0.0, 10))
    scratch = tmp_path / "page"
    scratch.mkdir()
    told = [(points.tolist(), margin, most) for points, margin, most in cases]
    (scratch / "told.json").write_text(json.dumps(told))
    for (points, margin, most), found in zip(
        cases, run_page(SQUARES, scratch, "told.json"), strict=True
    ):
        low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
        assert found["box"] == [pytest.approx(low), pytest.approx(high)]
        centres, side = np.array(found["centres"]), found["sideKm"]
        assert 1 <= len(centres) <= most
        assert (centres.min(axis=0) - side / 2 <= low + 1e-9).all()
        assert (centres.max(axis=0) + side / 2 >= high - 1e-9).all()
        # No two overlap: their centres are on a grid of this side.
        steps = (centres - centres[0]) / side
        assert np.abs(steps - steps.round()).max() < 1e-6
        assert len(np.unique(steps.round(), axis=0)) == len(centres)
