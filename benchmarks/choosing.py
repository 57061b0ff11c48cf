"""Choosing a level: is the target met, and how long does a trade-off of 20 levels take?

    python benchmarks/choosing.py

50 generated instances; then 20 levels of 50 places, the best of five, in seconds as they passed and
in CPU seconds.
"""

from __future__ import annotations

import time

import numpy as np

import whereish as wh


def instances() -> None:
    rng = np.random.default_rng(1)
    misses, solves, start = [], [], time.process_time()
    for _ in range(50):
        n = int(rng.integers(5, 31))
        places = wh.Places.from_xy(rng.uniform(0, rng.choice([0.5, 2, 8]), (n, 2)))
        prior = rng.dirichlet(np.full(n, rng.choice([0.1, 0.5, 2])))
        most = float((prior @ wh.euclidean(places)).min())
        target = most * float(rng.choice([0.02, 0.1, 0.3, 0.5, 0.8, 0.95]))
        kind = str(rng.choice(["loss", "adversary_error"]))
        found = wh.epsilon_for(places, prior, **{kind: target})  # type: ignore[arg-type]
        again = wh.optimal(places, prior, found.epsilon)
        measure = wh.quality_loss if kind == "loss" else wh.adversary_error
        misses.append(abs(measure(again, prior) / target - 1))
        solves.append(found.solves)
    print(
        f"50 instances: largest relative miss {max(misses):.1e}, {np.mean(solves):.1f} solves on "
        f"average, at most {max(solves)}; {time.process_time() - start:.1f} CPU seconds in all"
    )


def levels() -> None:
    rng = np.random.default_rng(0)
    cells = [[0.7 * i, 0.7 * j] for i in range(10) for j in range(5)]
    for what, places in (
        ("50 cells of a grid", wh.Places.from_xy(cells)),
        ("50 scattered places", wh.Places.from_xy(rng.uniform(0, 6, (50, 2)))),
    ):
        prior, passed, used = rng.dirichlet(np.full(50, 0.5)), [], []
        for _ in range(5):
            start = time.process_time()
            table = wh.trade_off(places, prior)
            passed.append(table.seconds)
            used.append(time.process_time() - start)
        gap = float(np.nanmax(table.column("gap")))
        print(f"20 levels of {what}: {min(passed):.2f} s, {min(used):.2f} CPU s, gap {gap:.0e}")


if __name__ == "__main__":
    instances()
    levels()
