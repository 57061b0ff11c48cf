"""Attack the core: build many mechanisms of every kind, and look for one broken ratio or file.

    python benchmarks/attack.py [--mechanisms 2000] [--damages 5] [--seed 0]

Every mechanism is written, read again, and its integers are judged by `tests/checks.py`, which
shares no code with the library: for all x, x', z in exact arithmetic. Then its file is damaged at
random: whatever is still read must be the same mechanism. Exit code 1 if anything broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import checks  # noqa: E402

Random = np.random.Generator


def places(chance: Random) -> wh.Places:
    """Return scattered places, a grid, a line, or clusters of a few metres."""
    n = int(chance.integers(2, 13))
    kind = chance.integers(4)
    if kind == 0:
        points = chance.uniform(0, 10 ** chance.uniform(-1, 2), (n, 2))
    elif kind == 1:
        points = np.array([[i % 4, i // 4] for i in range(n)]) * 10 ** chance.uniform(-2, 1)
    elif kind == 2:
        points = np.column_stack([np.arange(n) * chance.uniform(0.1, 3), np.zeros(n)])
    else:
        centres = chance.uniform(0, 20, (3, 2))
        points = centres[chance.integers(3, size=n)] + chance.normal(0, 0.003, (n, 2))
    return wh.Places.from_xy(points)


def prior(chance: Random, n: int) -> Any:
    """Return a prior as skewed as people's, with places that are never visited, or one only."""
    weights = chance.gamma(10 ** chance.uniform(-1.5, 0.5), size=n) + 1e-300
    if chance.random() < 0.2:
        weights[chance.random(n) < 0.5] = 0.0
    if chance.random() < 0.05 or not weights.sum() > 1e-200:
        weights = np.eye(n)[chance.integers(n)]
    return weights / weights.sum()


def build(chance: Random) -> tuple[str, wh.Mechanism]:
    """Build a mechanism of some kind; what is refused in words is not one."""
    where = places(chance)
    n = len(where)
    weights = prior(chance, n)
    level = float(10 ** chance.uniform(-2, 1.7))
    kind = str(chance.choice([
        "optimal", "spanner", "closed form", "structured", "graph", "outputs", "planar Laplace",
        "exponential", "tight constraints", "remapped", "stopped",
    ]))  # fmt: skip
    if kind == "optimal":
        return kind, wh.optimal(where, weights, level)
    if kind == "spanner":
        return kind, wh.optimal(where, weights, level, float(chance.uniform(1.01, 2)))
    if kind == "closed form":
        return kind, wh.optimal(where, weights, level, method="closed-form")
    if kind == "structured":
        return kind, wh.optimal(where, weights, level, solver="structured")
    if kind == "graph":
        edges = [[i, i + 1] for i in range(n - 1)]
        metric = wh.graph_metric(n, edges, chance.uniform(0.1, 2, n - 1))
        return kind, wh.optimal(where, weights, level, privacy_metric=metric)
    if kind == "outputs":
        some = sorted(chance.choice(n, int(chance.integers(1, n + 1)), replace=False).tolist())
        return kind, wh.optimal(where, weights, level, outputs=some)
    if kind == "planar Laplace":
        return kind, wh.planar_laplace(where, level)
    if kind == "exponential":
        return kind, wh.exponential(where, level)
    if kind == "tight constraints":
        return kind, wh.tight_constraints(where, level)
    if kind == "remapped":
        return kind, wh.planar_laplace(where, level).remap(weights)
    return kind, wh.optimal(where, weights, level, solver="structured", time_limit_s=1e-3)


def attack(mechanisms: int, damages: int, seed: int) -> dict[str, Any]:
    """Build, judge and damage; return what was counted."""
    chance = np.random.default_rng(seed)
    count: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    begun, shown = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "k.whereish")
        while count["mechanisms"] < mechanisms:
            try:
                kind, made = build(chance)
            except wh.WhereishError:
                count["refused"] += 1
                continue
            wh.save_mechanism(file, made)
            read, _ = wh.load_mechanism(file)
            # Per km the definition is between the points themselves, not between rounded distances.
            assert read.epsilon is not None
            metric = None if read.is_per_km else read.privacy_metric
            broken = checks.broken_counts(
                read.counts.tolist(), read.epsilon, read.inputs.xy.tolist(),
                None if metric is None else metric.tolist(),
            )  # fmt: skip
            n, m = read.counts.shape
            kinds[kind] += 1
            count["mechanisms"] += 1
            count["ratios"] += n * (n - 1) * m
            count["broken"] += len(broken)
            content = file.read_bytes()
            for _ in range(damages):
                other = damaged(content, chance)
                file.write_bytes(other)
                count["damaged"] += 1
                try:
                    again, _ = wh.load_mechanism(file)
                    same = other == content or (again.counts == read.counts).all()
                    count["damage not noticed"] += not same
                except wh.WhereishError:
                    count["damage refused"] += 1
            if sys.stderr.isatty() and time.monotonic() - shown > 1:
                shown = time.monotonic()
                sys.stderr.write(f"\r{count['mechanisms']:,} of {mechanisms:,} ")
    return {
        **count, "broken": count["broken"], "damage not noticed": count["damage not noticed"],
        "kinds": dict(kinds), "seconds": round(time.monotonic() - begun, 1), "seed": seed,
    }  # fmt: skip


def damaged(content: bytes, chance: Random) -> bytes:
    """Return a file with some bytes changed, cut out, doubled or cut off."""
    body = bytearray(content)
    where = int(chance.integers(len(body)))
    length = int(chance.integers(1, 9))
    kind = chance.integers(4)
    if kind == 0:
        body[where] ^= int(chance.integers(1, 256))
    elif kind == 1:
        del body[where : where + length]
    elif kind == 2:
        body[where:where] = body[where : where + length]
    else:
        del body[where:]
    return bytes(body)


def main() -> int:
    """Run the attack and print what was counted, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mechanisms", type=int, default=2000)
    parser.add_argument("--damages", type=int, default=5, help="damaged files a mechanism")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    found = attack(told.mechanisms, told.damages, told.seed)
    print(json.dumps(found, indent=1))
    return int(found["broken"] > 0 or found["damage not noticed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
