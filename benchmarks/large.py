"""Thousands of places: time, memory, loss and proved gap of `method="auto"`, one table row each.

    python benchmarks/large.py                     2,500 places, six priors at four levels
    python benchmarks/large.py --prior gamma few   two of the priors
    python benchmarks/large.py --places 10000      10,000 places, one prior at one level

A row takes up to the time limit: a minute for 2,500 places, ten for 10,000. Every row runs in a
process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import whereish as wh

EPSILONS = {2500: (0.5, 1.07, 2.0, 4.0), 10000: (1.07,)}
SECONDS = {2500: 60.0, 10000: 600.0}
CELL_KM = 0.5
Floats = NDArray[np.float64]


def centres(rng: np.random.Generator, xy: Floats) -> Floats:
    """Twelve centres of different sizes, with lognormal noise."""
    where = rng.uniform(0, xy.max(), (12, 2))
    weights, widths = rng.pareto(1.5, 12) + 0.2, rng.uniform(0.4, 2.0, 12)
    squares = ((xy[:, None] - where[None]) ** 2).sum(axis=-1)
    shares = (weights * np.exp(-squares / (2 * widths**2)) / widths**2).sum(axis=1)
    return np.asarray(shares * rng.lognormal(0, 1.5, len(xy)) + 1e-9)


def few(rng: np.random.Generator, xy: Floats) -> Floats:
    """Six places with 90 % of the probability."""
    prior = np.full(len(xy), 0.1 / len(xy))
    prior[rng.choice(len(xy), 6, replace=False)] += 0.15
    return prior


def home(rng: np.random.Generator, xy: Floats) -> Floats:
    """Home with 40 %, work with 25 %, and visits elsewhere."""
    prior = rng.gamma(0.2, size=len(xy))
    prior *= 0.35 / prior.sum()
    prior[rng.choice(len(xy), 2, replace=False)] += (0.4, 0.25)
    return np.asarray(prior)


PRIORS: dict[str, Callable[[np.random.Generator, Floats], Any]] = {
    "gamma": lambda rng, xy: rng.gamma(0.3, size=len(xy)),
    "few": few,
    "centres": centres,
    "lognormal": lambda rng, xy: rng.lognormal(0, 1.5, len(xy)),
    "home": home,
    "uniform": lambda _rng, xy: np.ones(len(xy)),
}


def row(n: int, epsilon: float, prior: str, seed: int) -> dict[str, Any]:
    """Build one mechanism on a square grid."""
    side = round(n**0.5)
    xy = np.array([[CELL_KM * i, CELL_KM * j] for j in range(side) for i in range(side)])
    weights = PRIORS[prior](np.random.default_rng(seed), xy)
    places = wh.Places.from_xy(xy)
    start = time.perf_counter()
    built = wh.optimal(
        places, weights, epsilon, method="auto", time_limit_s=SECONDS[n], normalise=True
    )
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "method": built.build.method,
        "loss_km": wh.quality_loss(built, weights / weights.sum()),
        "gap": np.nan if built.build.gap is None else built.build.gap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, choices=sorted(EPSILONS), default=2500)
    parser.add_argument("--prior", nargs="+", choices=sorted(PRIORS))
    parser.add_argument("--epsilon", nargs="+", type=float)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args()
    epsilons = told.epsilon or EPSILONS[told.places]
    priors = told.prior or (sorted(PRIORS) if told.places == min(EPSILONS) else ["centres"])
    if told.one:
        print(json.dumps(row(told.places, epsilons[0], priors[0], told.seed)))
        return
    names = ("places", "prior", "epsilon per km", "method", "seconds", "GB", "loss km", "gap %")
    table, stderr = Table(*names), Console(stderr=True)
    for epsilon in epsilons:
        for prior in priors:
            command = [
                sys.executable, __file__, "--one", "--places", str(told.places), "--prior", prior,
                "--epsilon", str(epsilon), "--seed", str(told.seed),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            one = json.loads(done.stdout.splitlines()[-1])
            cells = (
                f"{told.places:,}", prior, f"{epsilon:g}", one["method"], f"{one['seconds']:.0f}",
                f"{one['memory_gb']:.1f}", f"{one['loss_km']:.3f}", f"{100 * one['gap']:.1f}",
            )  # fmt: skip
            stderr.print(*cells)
            table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
