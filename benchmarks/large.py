"""Thousands of places: time, memory, loss and proved gap of `method="auto"`, one table row each.

    python benchmarks/large.py                  2,500 places at three levels, about two minutes
    python benchmarks/large.py --places 10000   and 10,000 places at one, about six minutes

Every row runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import whereish as wh

EPSILONS = {2500: (0.5, 1.07, 2.0), 10000: (1.07,)}
SECONDS = {2500: 60.0, 10000: 600.0}


def row(n: int, epsilon: float) -> dict[str, float]:
    """Build one mechanism: a square grid of 0.5 km, a prior as skewed as people's."""
    side = round(n**0.5)
    places = wh.Places.from_xy([[0.5 * i, 0.5 * j] for j in range(side) for i in range(side)])
    prior = np.random.default_rng(n).gamma(0.3, size=side * side)
    start = time.perf_counter()
    built = wh.optimal(
        places, prior, epsilon, method="auto", time_limit_s=SECONDS[n], normalise=True
    )
    seconds = time.perf_counter() - start
    return {
        "places": side * side,
        "epsilon": epsilon,
        "seconds": seconds,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "loss_km": wh.quality_loss(built, prior / prior.sum()),
        "gap": np.nan if built.build.gap is None else built.build.gap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, choices=sorted(EPSILONS), default=2500)
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.one is not None:
        print(json.dumps(row(told.places, told.one)))
        return
    table = Table("places", "epsilon per km", "seconds", "memory GB", "loss km", "gap %")
    for epsilon in EPSILONS[told.places]:
        command = [sys.executable, __file__, "--places", str(told.places), "--one", str(epsilon)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        one = json.loads(done.stdout.splitlines()[-1])
        table.add_row(
            f"{one['places']:,}", f"{epsilon:g}", f"{one['seconds']:.0f}",
            f"{one['memory_gb']:.1f}", f"{one['loss_km']:.3f}", f"{100 * one['gap']:.1f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
