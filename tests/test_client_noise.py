"""The probabilities of planar Laplace noise in the client: an integral, compared with another."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import lambertw

import whereish as wh

CLIENT = Path(__file__).parent.parent / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
pytestmark = [
    pytest.mark.xdist_group("client"),
    pytest.mark.skipif(NODE is None, reason="there is no node to run the client in"),
]
SHARES = """
import { readFileSync } from "node:fs";
const { readMechanism } = await import(process.argv[1]);
const mechanism = await readMechanism(readFileSync(process.argv[2]), { warn: false });
const refused = (act) => {
  try {
    act();
    return null;
  } catch (wrong) {
    return wrong.constructor.name;
  }
};
process.stdout.write(JSON.stringify({
  shares: JSON.parse(readFileSync(0, "utf8")).map(([x, y]) => mechanism.probabilitiesKm(x, y)),
  refused: [[NaN, 0], [0, "1"], [3401, 0]].map(([x, y]) =>
    refused(() => mechanism.probabilitiesKm(x, y))),
}));
"""


def around(made: wh.PlanarLaplaceEverywhere, point: Any, rings: int, turns: int) -> Any:
    """Return the shares of outputs for noise in equally likely rings and directions."""
    below = (np.arange(rings) + 0.5) / rings  # 1 - (1 + r) exp(-r), solved for r
    radius = -(1 + np.real(lambertw((below - 1) / np.e, -1))) / made.epsilon
    # Every ring is turned by another angle, so that no border lies along the directions.
    turned = np.arange(turns) + (np.arange(rings)[:, None] * 0.6180339887) % 1
    angle = 2 * np.pi * turned / turns
    x = (point[0] + radius[:, None] * np.cos(angle)).ravel()
    y = (point[1] + radius[:, None] * np.sin(angle)).ravel()
    xs, ys = made.borders
    row, column = np.searchsorted(ys, y, side="right"), np.searchsorted(xs, x, side="right")
    return np.bincount(made.table[row, column], minlength=len(made.outputs)) / x.size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "km"), [(0.2, 3.0), (1.07, 1.0), (1.07, 10.0), (10.0, 10.0), (30.0, 3.0)]
)
def test_probabilities_are_those_of_the_noise(tmp_path: Path, epsilon: float, km: float) -> None:
    rng = np.random.default_rng(5)
    where = wh.Places.from_latlon(
        np.array([48.85, 2.33]) + rng.normal(0, km / 100, (12, 2)) * [1, 1.5]
    )
    made = wh.planar_laplace_everywhere(where, rng.dirichlet(np.ones(12)), epsilon)
    wh.save_mechanism(tmp_path / "k", made)
    far = [[60 * km, -80 * km]]  # outside the table
    points = np.vstack([where.xy[:3], rng.uniform(-2 * km, 2 * km, (3, 2)), far])
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", SHARES, str(CLIENT / "whereish.js"),
         str(tmp_path / "k")],
        input=json.dumps(points.tolist()), capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    shares = np.array(said["shares"])
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(points)), abs=1e-12)
    for found, point in zip(shares, points, strict=True):
        assert np.abs(found - around(made, point, 1200, 900)).max() < 5e-5
    assert made.outputs.plane is not None
    inside = made.outputs.plane.to_latlon(points[:-1])
    assert np.abs(shares[:-1] - made.probabilities(inside)).max() < 1e-5  # Python's: off by 1e-7
    drawn = made.sample(made.outputs.plane.to_latlon(where.xy[:1])[0], size=4000, rng=rng).outputs
    often = np.bincount(drawn, minlength=len(made.outputs)) / 4000
    assert np.abs(often - shares[0]).max() < 0.05
    assert said["refused"] == ["InputError"] * 3
