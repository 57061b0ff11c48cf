"""Estimates of the structured solver, against solves that were measured and one that is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from whereish.solvers import estimates
from whereish.solvers.estimates import estimate

# Inputs, outputs, pairs; then the peak of the resident memory in MB and half of the CPU time in
# seconds, of whole solves to a gap of 1e-5, on two cores. Of two runs, the higher peak.
MEASURED = [
    (100, 100, 3106, 13.8, 0.08),  # a grid
    (100, 100, 630, 10.1, 0.07),  # and its spanner of dilation 1.05
    (100, 100, 4950, 17.8, 0.15),  # at random
    (100, 100, 524, 11.4, 0.14),
    (200, 200, 12292, 71.8, 1.48),
    (200, 200, 1353, 46.2, 0.77),
    (200, 200, 19879, 70.9, 1.74),
    (200, 200, 1109, 42.7, 1.49),
    (200, 200, 19879, 97.8, 0.24),  # eps 0.2 per km
    (200, 200, 19879, 59.2, 2.00),  # eps 4 per km
    (200, 200, 19877, 51.8, 0.78),  # clusters
    (200, 200, 884, 29.1, 0.56),
    (300, 60, 44812, 93.4, 1.82),
    (400, 24, 79694, 83.1, 1.48),
    (400, 48, 79694, 128.9, 2.45),
    (400, 400, 2850, 178.1, 13.75),
    (400, 400, 79694, 468.5, 35.37),
    (1000, 24, 6183, 267.3, 4.54),
]


@pytest.mark.parametrize(("n", "outputs", "edges", "peak_mb", "seconds"), MEASURED)
def test_the_estimate_is_that_of_measured_solves(
    n: int, outputs: int, edges: int, peak_mb: float, seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Never a tenth below, so that a solve that is accepted fits; and not far above."""
    monkeypatch.setattr(estimates, "cores", lambda: 2)
    guess = estimate(n, outputs, edges)
    assert 0.9 * peak_mb <= guess.bytes / 1e6 <= 2.2 * peak_mb
    assert guess.seconds >= 0.9 * seconds


def test_unknown_pairs_are_all_pairs() -> None:
    for n in (1, 2, 50, 1000):
        assert estimate(n, n, 0) == estimate(n, n, n * (n - 1) // 2)


def test_more_of_anything_needs_more() -> None:
    base = estimate(300, 300, 9000)
    for more in (estimate(400, 300, 9000), estimate(300, 400, 9000), estimate(300, 300, 20000)):
        assert more.bytes > base.bytes
        assert more.seconds > base.seconds


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize("dilation", [1.0, 1.05])
@pytest.mark.thorough
def test_a_solve_stays_within_its_estimate(dilation: float) -> None:
    """The core of today, in a process of its own, against the estimate."""
    code = f"""
import json, re
import numpy as np
import whereish as wh
from whereish.solvers.estimates import estimate
from whereish.solvers.structured import solve_structured
n = 150
rng = np.random.default_rng(n)
xy = rng.uniform(0, 6, (n, 2))
d = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
prior = rng.gamma(0.3, size=n)
spanner = wh.greedy_spanner(d, {dilation})
exponents = spanner.edge_epsilon(1.07) * spanner.lengths
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
before = peak()
found = solve_structured(prior / prior.sum(), d, spanner.edges, exponents, 1.07 * d, 1e-5)
guess = estimate(n, n, len(spanner.edges))
print(json.dumps([found.stopped, peak() - before, guess.bytes]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    stopped, used, expected = json.loads(done.stdout)
    assert stopped == "solved"
    assert 0.2 * expected < used <= 1.1 * expected
