"""Statistics from reports: time, coverage of the intervals, and which mechanism suits maps.

    python benchmarks/estimation.py [--quick]

Times are CPU seconds of one thread, the best of three. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

import whereish as wh

MECHANISMS = ("optimal", "planar Laplace", "tight constraints", "exponential", "Blahut-Arimoto")


def built(name: str, places: wh.Places, prior: np.ndarray, epsilon: float) -> wh.Mechanism:
    if name == "optimal":
        return wh.optimal(places, prior, epsilon)
    if name == "Blahut-Arimoto":
        return wh.blahut_arimoto(places, prior, epsilon)
    makers = {
        "planar Laplace": wh.planar_laplace,
        "tight constraints": wh.tight_constraints,
        "exponential": wh.exponential,
    }
    return makers[name](places, epsilon)


def drawn(mechanism: wh.Mechanism, prior: np.ndarray, reports: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(reports, prior @ mechanism.matrix)
    return np.repeat(np.arange(len(counts)), counts)


def speed() -> None:
    print("\n408 cells, 123,025 reports: CPU seconds to a certified gap of 1e-6")
    places = wh.Places.from_xy([[0.5 * i, 0.5 * j] for i in range(24) for j in range(17)])
    prior = np.random.default_rng(0).dirichlet(np.full(408, 0.3))
    for epsilon in (1.07, 2.0, 4.0):
        for name in ("planar Laplace", "tight constraints"):
            try:
                mechanism = built(name, places, prior, epsilon)
            except wh.SolveError:
                print(f"  epsilon {epsilon:4}  {name:18} does not exist")
                continue
            reports = drawn(mechanism, prior, 123_025, 1)
            best = np.inf
            for _ in range(3):
                start = time.process_time()
                found = wh.estimate(mechanism, reports)
                best = min(best, time.process_time() - start)
            error = np.abs(found.shares - prior).sum() / 2
            print(f"  epsilon {epsilon:4}  {name:18} {best:.2f} s, gap {found.gap:.1e}, "
                  f"{found.steps} steps, total variation {error:.3f}")  # fmt: skip


def coverage(simulations: int) -> None:
    print(f"\nCoverage of the 95 % intervals, {simulations:,} simulations")
    city = wh.embedded_city()
    interior = np.random.default_rng(7).dirichlet(np.full(48, 3.0))
    for what, prior, reports in (
        ("all shares well above 0", interior, 100_000),
        ("the skewed prior of the city", np.asarray(city.prior), 100_000),
    ):
        for epsilon in (2.0, 4.0):
            mechanism = wh.planar_laplace(city.places, epsilon)
            expected = prior @ mechanism.matrix
            information = reports * (mechanism.matrix / expected) @ mechanism.matrix.T
            variance = np.diag(np.linalg.inv(information)) - prior**2 / reports
            inner = prior > 3 * np.sqrt(variance)
            inside = []
            for seed in range(simulations):
                found = wh.estimate(mechanism, drawn(mechanism, prior, reports, seed))
                inside.append((found.low <= prior) & (prior <= found.high))
            share = np.array(inside)
            border = f"{share[:, ~inner].mean():.2%}" if (~inner).any() else "none"
            print(f"  {what}, epsilon {epsilon}: {inner.sum()} interior places "
                  f"{share[:, inner].mean():.2%}; others {border}", flush=True)  # fmt: skip


def city_table(people: int) -> None:
    print("\nMap error (total variation) of the synthetic city, mean of 10 draws of 10,000 reports")
    city = wh.embedded_city()
    print(f"  {'mechanism':18}" + "".join(f"{f'epsilon {e}':>16}" for e in (1.07, 2.0, 4.0)))
    for name in MECHANISMS:
        cells = []
        for epsilon in (1.07, 2.0, 4.0):
            try:
                mechanism = built(name, city.places, np.asarray(city.prior), epsilon)
            except wh.SolveError:
                cells.append("none")
                continue
            error = wh.expected_map_error(mechanism, city.prior)
            loss = wh.quality_loss(mechanism, city.prior)
            rank = np.linalg.matrix_rank(mechanism.matrix, tol=1e-9)
            cells.append(f"{error:.3f} {loss:.2f}km {rank:2d}")
        print(f"  {name:18}" + "".join(f"{one:>16}" for one in cells), flush=True)
    print(f"  The same after {people:,} reports, epsilon 2.0:")
    for name in MECHANISMS:
        mechanism = built(name, city.places, np.asarray(city.prior), 2.0)
        print(f"  {name:18}{wh.expected_map_error(mechanism, city.prior, people):16.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer simulations")
    asked = parser.parse_args()
    speed()
    city_table(154_128)
    coverage(50 if asked.quick else 1000)
