"""Time the structured solver beside its peers in one run: table, plot and JSON in results/.

    python benchmarks/solvers.py            places x dilation x seed x method, about half an hour
    python benchmarks/solvers.py --quick    the same in small, under three minutes
    python benchmarks/solvers.py --large    200 and 400 places, the structured solver alone

Every cell is the same program for all: prior, loss, pairs and exponents. Seconds are those of the
solver's call, the best of a few. A cell's speed-up is against the fastest other method in it.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import whereish as wh
from whereish.measures import lower_bound
from whereish.parallel import cores
from whereish.solvers import Structured, solve_structured
from whereish.solvers.structured import blocks, passes

HERE = Path(__file__).parent
RESULTS = HERE / "results"
EPSILON = 1.07
PEERS = (
    "highs-dual-simplex/dual",
    "highs-dual-simplex/primal",
    "highs-ipm/primal",
    "clarabel",
    "qif",
    "glpk-dual-simplex/primal",
)
GRIDS = {25: (5, 5), 50: (10, 5), 75: (15, 5), 100: (10, 10), 200: (20, 10), 400: (20, 20)}
Task = dict[str, Any]


def grid(n: int) -> wh.Places:
    columns, rows = GRIDS[n]
    xy = [[0.658 * i, 0.712 * j] for j in range(rows) for i in range(columns)]
    return wh.Places.from_xy(xy)


def task(n: int, dilation: float, seed: int, limit: float) -> Task:
    """One program: cells of 0.658 x 0.712 km, a prior as skewed as people's."""
    prior = np.random.default_rng(seed).gamma(0.3, size=n)
    distances = wh.euclidean(grid(n))
    spanner = wh.greedy_spanner(distances, dilation)
    level = EPSILON / spanner.exact_dilation
    return {
        "prior": prior / prior.sum(),
        "loss": distances,
        "edges": spanner.edges,
        "exponents": level * spanner.lengths,
        "reach": level * distances,
        "level": level,
        "limit": limit,
    }


def ours(one: Task, tolerance: float = 1e-6, **options: Any) -> Structured:
    program = {name: one[name] for name in ("prior", "loss", "edges", "exponents", "reach")}
    return solve_structured(**program, tolerance=tolerance, **options)


def time_ours(one: Task, repeat: int, tolerance: float = 1e-6) -> dict[str, Any]:
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        found = ours(one, tolerance)
        best = min(best, time.perf_counter() - start)
    y = found.multipliers
    proof = wh.Proof(one["level"], y.output, y.left, y.right, y.value)
    bound = lower_bound(proof, one["prior"], one["loss"], one["loss"])
    return {
        "state": "solved",
        "seconds": best,
        "loss_km": found.loss,
        "gap": 1 - bound / found.loss,
        "iterations": found.iterations,
        "outputs_used": int((found.matrix.max(axis=0) > 1e-6).sum()),
    }


def time_peer(one: Task, method: str) -> dict[str, Any]:
    """Run a peer in a process of its own; again if it was quick, and take the best."""
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in one.items()}
    best: dict[str, Any] = {"state": "over"}
    for _ in range(2):
        try:
            done = subprocess.run(
                [sys.executable, str(HERE / "peers.py")],
                input=json.dumps({**plain, "method": method}),
                capture_output=True,
                text=True,
                check=False,
                timeout=one["limit"] + 8,
            )
            said = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return best
        except (IndexError, ValueError):
            return {"state": "error", "said": done.stderr[-200:]}
        if said["state"] != "solved" or said["seconds"] > one["limit"]:
            return best if best["state"] == "solved" else {**said, "state": said["state"]}
        if best["state"] != "solved" or said["seconds"] < best["seconds"]:
            best = said
        if said["seconds"] > 5:
            break
    return best


def cells(
    sizes: list[int], dilations: list[float], seeds: int, limit: float, console: Console
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    too_slow: set[tuple[str, float]] = set()
    table = Table("places", "dilation", "structured", "gap", *PEERS, "times faster")
    for n in sizes:
        for dilation in dilations:
            mine: dict[str, list[dict[str, Any]]] = {}
            for seed in range(seeds):
                one = task(n, dilation, seed, limit)
                mine.setdefault("structured", []).append(time_ours(one, 5 if n <= 50 else 3))
                for peer in PEERS:
                    if peer == "qif" and dilation > 1:
                        continue  # it knows no spanners
                    skip = (peer, dilation) in too_slow
                    told = {"state": "over"} if skip else time_peer(one, peer)
                    if told["state"] != "solved":
                        too_slow.add((peer, dilation))
                    mine.setdefault(peer, []).append(told)
            for method, tries in mine.items():
                rows += [
                    {"places": n, "dilation": dilation, "seed": s, "method": method} | told
                    for s, told in enumerate(tries)
                ]
            others = [v for v in (middle(mine.get(p, [])) for p in PEERS) if v is not None]
            us = middle(mine["structured"]) or np.nan
            faster = f"{min(others) / us:.0f}" if others else f"> {limit / us:.0f}"
            gap = max(told["gap"] for told in mine["structured"])
            texts = [text(mine.get(peer, [])) for peer in PEERS]
            table.add_row(str(n), f"{dilation:g}", f"{us:.3f}", f"{gap:.0e}", *texts, faster)
            console.print(f"{n} places, dilation {dilation:g}: {us:.3f} s, {faster} times faster")
    console.print(table)
    return rows


def middle(tries: list[dict[str, Any]]) -> float | None:
    """Return the median of the seconds, if all were solved."""
    if not tries or any(told["state"] != "solved" for told in tries):
        return None
    return float(np.median([told["seconds"] for told in tries]))


def text(tries: list[dict[str, Any]]) -> str:
    seconds = middle(tries)
    if seconds is not None:
        return f"{seconds:.2f}"
    return next((told["state"] for told in tries if told["state"] != "solved"), "")


def many_priors(console: Console, count: int = 86) -> dict[str, Any]:
    """Build for many people on the same 50 places, exact, gap 1e-5, every mechanism checked."""
    priors = np.random.default_rng(1).gamma(0.3, size=(count, 50))
    priors /= priors.sum(axis=1, keepdims=True)
    start = time.perf_counter()
    built = wh.optimal_each(grid(50), priors, EPSILON, tolerance=1e-5)
    seconds = time.perf_counter() - start
    gap = max(m.build.gap or 0.0 for m in built)
    console.print(f"{count} priors on the same 50 places: {seconds:.1f} s, gap <= {gap:.0e}")
    return {"priors": count, "seconds": seconds, "largest_gap": gap}


def where_time_goes(console: Console, n: int) -> dict[str, Any]:
    """Split a solve on one thread into factors, directions, passes over pairs, and the rest."""
    kinds = {
        "factors and inverses": ("factor_all", "factor_coupling"),
        "directions": ("correct_all", "direct_all", "products_all", "pushed", "couple"),
        "pairs, steps and bounds": ("limit_all", "advance_all"),
    }
    spent = dict.fromkeys(kinds, 0.0)
    kept = {name: getattr(passes, name) for names in kinds.values() for name in names}

    def watch(kind: str, kernel: Any) -> Any:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            said = kernel(*arguments)
            spent[kind] += time.perf_counter() - start
            return said

        return call

    one = task(n, 1.0, 0, 0.0)
    worth = blocks._WORTH_THREADS
    blocks._WORTH_THREADS = 0.0  # so that kernels are called one by one
    try:
        ours(one, threads=1)
        for kind, names in kinds.items():
            for name in names:
                setattr(passes, name, watch(kind, kept[name]))
        start = time.perf_counter()
        ours(one, threads=1)
        total = time.perf_counter() - start
    finally:
        blocks._WORTH_THREADS = worth
        for name, kernel in kept.items():
            setattr(passes, name, kernel)
    shares = {kind: seconds / total for kind, seconds in spent.items()}
    shares["rest"] = 1 - sum(shares.values())
    words = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    console.print(f"where the time goes at {n} places, one thread: {words}")
    return {"places": n, "seconds": total, **shares}


def growth(rows: list[dict[str, Any]], console: Console) -> float | None:
    """Fit seconds = a n^b to the structured solver's medians at dilation 1."""
    sizes = sorted({r["places"] for r in rows if r["dilation"] == 1 and r["places"] >= 50})
    if len(sizes) < 2:
        return None
    seconds = [
        np.median([r["seconds"] for r in rows if is_ours(r) and r["places"] == n]) for n in sizes
    ]
    power = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    console.print(f"seconds grow like n^{power:.1f} from {sizes[0]} to {sizes[-1]} places")
    return power


def is_ours(row: dict[str, Any]) -> bool:
    return bool(row["method"] == "structured" and row["dilation"] == 1)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    dilations = sorted({r["dilation"] for r in rows})
    figure, axes = plt.subplots(
        1, len(dilations), figsize=(3.4 * len(dilations), 3.8), sharey=True, squeeze=False
    )
    marks = dict(zip(("structured", *PEERS), "os^vDPX", strict=True))
    for axis, dilation in zip(axes[0], dilations, strict=True):
        for number, method in enumerate(marks):
            points: dict[int, list[float]] = {}
            for r in rows:
                if (r["method"], r["dilation"], r["state"]) == (method, dilation, "solved"):
                    points.setdefault(r["places"], []).append(r["seconds"])
            if points:
                sizes = sorted(points)
                axis.plot(
                    sizes, [np.median(points[n]) for n in sizes], marker=marks[method],
                    color=f"C{number}", label=method, lw=2.5 if number == 0 else 1,
                )  # fmt: skip
        axis.set(yscale="log", xlabel="places", title=f"dilation {dilation:g}")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("seconds (median over seeds)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, under three minutes")
    parser.add_argument("--large", action="store_true", help="200 and 400 places, ours alone")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds a peer may take")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    console = Console(width=170)
    for n in (25, 100):  # load what is loaded at the first use
        ours(task(n, 1.0, 0, 0.0))
    RESULTS.mkdir(exist_ok=True)
    document: dict[str, Any] = {
        "about": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": cores(),
            "epsilon_per_km": EPSILON,
            "limit_s": options.limit,
        }
    }
    if options.large:
        name, rows = "large", []
        for n, tolerance in ((200, 1e-5), (400, 1e-4)):
            told = time_ours(task(n, 1.0, 0, 0.0), 1, tolerance)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            console.print(
                f"{n} places: {told['seconds']:.1f} s, gap {told['gap']:.1e}, {memory:.1f} GB"
            )
            row = {"places": n, "dilation": 1.0, "seed": 0, "method": "structured"}
            rows.append({**row, **told, "peak_memory_gb": memory})
        document["where"] = where_time_goes(console, 200)
    else:
        name = "quick" if options.quick else "solvers"
        sizes, dilations = (
            ([25, 50], [1.0, 1.1]) if options.quick else ([25, 50, 75, 100], [1.0, 1.05, 1.1, 1.5])
        )
        limit, seeds = (10.0, 1) if options.quick else (options.limit, options.seeds)
        rows = cells(sizes, dilations, seeds, limit, console)
        document["where"] = [where_time_goes(console, n) for n in sizes if n >= 50]
        document["many_priors"] = many_priors(console)
        draw(rows, RESULTS / f"{name}.png")
    document["growth_exponent"] = growth(rows, console)
    document["rows"] = rows
    target = RESULTS / f"{name}.json"
    target.write_text(json.dumps(document, indent=1) + "\n")
    console.print(f"wrote {target.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
