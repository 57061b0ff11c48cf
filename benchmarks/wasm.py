"""Time the solver as WebAssembly in Node.js and in Chromium, beside the native one.

    python benchmarks/wasm.py [--places 25 50 100] [--repeats 5]

Scattered places, a skewed prior, eps 1.07 per km, gap 1e-6, one thread. Each time is the best of
the repeats, but the first; a solve in a worker includes the start of the worker.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from whereish.compiled import instruction_set
from whereish.programs import greedy_spanner
from whereish.solvers import solve_structured

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from littlesite import CHROMIUM, CLIENT, chromium, site  # noqa: E402

EPSILON = 1.07
IN_A_PAGE = """async ([programs, repeats]) => {
  const { timed } = await import("/benchmarks/wasm.mjs");
  return await timed(await import("/client/solve.js"), programs, repeats);
}"""


def program(n: int, dilation: float) -> dict[str, Any]:
    """Return a program with a skewed prior."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0, math.sqrt(n) / 2, (n, 2))
    apart = places[:, None] - places[None]
    distances = np.hypot(apart[..., 0], apart[..., 1])
    prior = rng.gamma(0.3, size=n) + 1e-4
    spanner = greedy_spanner(distances, dilation)
    return {
        "prior": prior / prior.sum(),
        "loss": distances,
        "pairs": spanner.edges,
        "exponents": spanner.edge_epsilon(EPSILON) * spanner.lengths,
        "reach": EPSILON * distances,
    }


def native(one: dict[str, Any], repeats: int) -> tuple[float, float]:
    """Return the best time of the native core on one thread, and the loss."""
    found = [
        solve_structured(
            one["prior"], one["loss"], one["pairs"], one["exponents"], one["reach"], threads=1
        )
        for _ in range(repeats)
    ]
    return min(each.seconds for each in found), found[0].loss


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    cases = [(n, dilation) for n in asked.places for dilation in (1.0, 1.1)]
    programs = [program(*case) for case in cases]
    plain = [{name: values.tolist() for name, values in one.items()} for one in programs]
    hosts: dict[str, list[dict[str, Any]]] = {}
    if node := shutil.which("node"):
        done = subprocess.run(
            [node, str(ROOT / "benchmarks" / "wasm.mjs"), "--node"],
            input=json.dumps({"programs": plain, "repeats": asked.repeats}),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        hosts["node"] = json.loads(done.stdout)
    if CHROMIUM:
        with site(benchmarks=ROOT / "benchmarks") as address, chromium() as browser:
            page = browser.new_page()
            page.goto(address)
            hosts["chromium"] = page.evaluate(IN_A_PAGE, [plain, asked.repeats])
    module = (CLIENT / "dist" / "whereish.wasm").read_bytes()
    print(f"module: {len(module)} bytes, {len(gzip.compress(module, 9))} compressed")
    print(f"{'places':>6} {'dilation':>8} {'':<10} {'first':>7} {'worker':>7} {'here':>7}"
          f" {'core':>7}  difference of the loss")  # fmt: skip
    for k, (n, dilation) in enumerate(cases):
        seconds, loss = native(programs[k], asked.repeats)
        print(f"{n:>6} {dilation:>8} {instruction_set():<10} {'':>23} {seconds:>7.3f}")
        for host, rows in hosts.items():
            row = rows[k]
            times = " ".join(f"{row[name]:>7.3f}" for name in ("first", "worker", "here", "core"))
            print(f"{n:>6} {dilation:>8} {host:<10} {times}  {row['loss'] / loss - 1:.0e}")


if __name__ == "__main__":
    main()
