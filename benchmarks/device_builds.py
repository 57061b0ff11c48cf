"""Build mechanisms with the JavaScript client in Node.js, and audit every file with Python.

    python benchmarks/device_builds.py --count 1000

Places at random, in clusters, on a line and on a grid; skewed priors; 2 to 60 places; epsilon 0.05
to 20 per km; half of the files with the prior and the proof of the lower bound. A file is broken if
Python's audit refuses it. The losses are compared with `wh.optimal` for every tenth instance. With
--everywhere, mechanisms for every point: 1 to 80 visited points, some of them equal, on a line or
within a millimetre.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh
from whereish.errors import WhereishError

CLIENT = Path(__file__).parent.parent / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
SHAPES = ("random", "clusters", "line", "grid")


def instance(seed: int) -> dict[str, Any]:
    """Return the options of a build: places of one shape, a skewed prior, a level."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 61))
    shape = SHAPES[seed % len(SHAPES)]
    width = 10 ** rng.uniform(-1, 2)  # km
    if shape == "random":
        xy = rng.uniform(-width / 2, width / 2, (n, 2))
    elif shape == "clusters":
        centres = rng.uniform(-width / 2, width / 2, (1 + n // 8, 2))
        xy = centres[rng.integers(len(centres), size=n)] + rng.normal(0, width / 40, (n, 2))
    elif shape == "line":
        xy = np.outer(np.sort(rng.uniform(-width / 2, width / 2, n)), [0.8, 0.6])
    else:
        side = math.ceil(math.sqrt(n))
        xy = np.column_stack(np.divmod(np.arange(n), side)) * (width / side)
    apart = np.hypot(*(xy[:, None] - xy).T) + np.triu(np.full((n, n), np.inf))
    xy = xy[apart.min(axis=1) > 1e-5]  # not at the same spot as an earlier one
    n = len(xy)
    lat, lon = rng.uniform(-70, 70), rng.uniform(-180, 180)
    plane = wh.places.LocalPlane(lat, lon)
    weights = rng.gamma(rng.choice([0.05, 0.3, 2.0]), size=n) * (rng.random(n) < 0.9)
    weights[int(rng.integers(n))] += 0.1
    return {
        "places": plane.to_latlon(xy).tolist(),
        "prior": (weights / weights.sum()).tolist(),
        "epsilon": float(10 ** rng.uniform(math.log10(0.05), math.log10(20))),
        "dilation": float(rng.choice([1.0, 1.0, 1.1])),
        "keepPrior": bool(seed // 4 % 2 == 0),
    }


def everywhere_instance(seed: int) -> dict[str, Any]:
    """Return the options of a build for every point."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(1, 81)), 10 ** rng.uniform(-3, 2.5)
    xy = rng.uniform(-width / 2, width / 2, (n, 2))
    shape = seed % 6
    if shape == 1:
        xy[:, 0] = 0
    elif shape == 2:
        xy[:] = xy[0]
    elif shape == 3:
        xy = xy[rng.integers(n, size=n)]
    elif shape == 4:
        xy = np.outer(rng.uniform(-width, width, n), [0.6, 0.8])
    elif shape == 5:
        xy = xy[0] + rng.normal(0, 1e-6, (n, 2))
    weights = rng.gamma(rng.choice([0.05, 0.3, 2.0]), size=n) * (rng.random(n) < 0.9)
    weights[0] += 0.1
    plane = wh.places.LocalPlane(rng.uniform(-70, 70), rng.uniform(-180, 180))
    return {
        "points": plane.to_latlon(xy).tolist(),
        "weights": (weights / weights.sum()).tolist(),
        "epsilon": float(10 ** rng.uniform(math.log10(0.05), math.log10(20))),
        "vertices": int(rng.integers(4, 91)),
        "method": ("lattice", "planar-laplace", "auto")[seed // 6 % 3],
        "keepPoints": bool(seed // 2 % 2),
    }


def built(instances: list[dict[str, Any]], folder: Path) -> Iterator[dict[str, Any]]:
    """Build in one process of Node.js, and yield its answers."""
    lines = "".join(
        json.dumps({**one, "file": str(folder / f"{k}.whereish")}) + "\n"
        for k, one in enumerate(instances)
    )
    command = [str(NODE), str(CLIENT / "test" / "build-driver.js")]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    yield from map(json.loads, done.stdout.splitlines())


def main() -> int:
    """Build, audit, compare, and print what was found; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first instance")
    parser.add_argument("--everywhere", action="store_true", help="mechanisms for every point")
    asked = parser.parse_args()
    make = everywhere_instance if asked.everywhere else instance
    seeds = range(asked.first, asked.first + asked.count)
    broken, refused, gaps, seconds, off = 0, 0, [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        instances = [make(seed) for seed in seeds]
        for k, answer in enumerate(built(instances, folder)):
            one = instances[k]
            if "error" in answer:
                refused += 1
                print(f"seed {seeds[k]}: {answer['error']}: {answer['message']}")
                continue
            try:
                wh.audit_file(folder / f"{k}.whereish")
            except WhereishError as wrong:
                broken += 1
                print(f"seed {seeds[k]}: {wrong}")
                continue
            gaps.append(1.0 if answer["build"]["gap"] is None else answer["build"]["gap"])
            seconds.append(answer["build"]["seconds"])
            if k % 10 == 0 and not asked.everywhere:
                places = wh.Places.from_latlon(one["places"])
                prior = np.array(one["prior"])
                best = wh.optimal(places, prior, one["epsilon"], one["dilation"], normalise=True)
                loss = wh.quality_loss(best, prior / prior.sum())
                off.append(abs(answer["build"]["lossKm"] - loss) / max(loss, 1e-3))
    print(
        f"{len(instances)} instances: {broken} files broken, {refused} builds refused; gap median "
        f"{np.median(gaps):.1e}, 99 % {np.quantile(gaps, 0.99):.1e}, largest {max(gaps):.1e}; "
        f"seconds median {np.median(seconds):.2f}, largest {max(seconds):.2f}"
    )
    if off:
        print(
            f"loss differs from wh.optimal's by at most {max(off):.1e} of it, or of a metre "
            f"({len(off)} compared)"
        )
    return 1 if broken or refused else 0


if __name__ == "__main__":
    sys.exit(main())
