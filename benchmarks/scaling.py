"""Many users and many machines, measured: what docs/scaling.md says, and its picture.

    python benchmarks/scaling.py [--users 200] [--many 10000] [--picture docs/images/scaling.png]

Everything is in one run, because the machine is shared: a batch on one process, on two, and on a
Ray cluster of two nodes of a core each; one solve here and on that cluster; many small profiles end
to end; what a user costs and what a block costs, and the model through those points.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh
from whereish.batch import open_engine, open_output, run_batch
from whereish.distributed import ray_solver
from whereish.distributed.cluster import join_cluster, leave_cluster
from whereish.format import mechanism_bytes
from whereish.limits import TOLERANCE
from whereish.profiles import People, write_profiles
from whereish.solvers import Program, Progress, Structured, solve_on
from whereish.spec import BuildOptions

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from clusters import Nodes

EPSILON = 1.07
Row = dict[str, Any]


def grid(n: int) -> wh.Places:
    columns = {9: 3, 20: 5, 25: 5, 50: 10, 75: 15, 100: 10, 200: 20, 300: 20, 400: 20, 1000: 40}[n]
    return wh.Places.from_xy([[0.658 * (i % columns), 0.712 * (i // columns)] for i in range(n)])


def people(count: int, n: int, shared: bool = True) -> dict[str, wh.Profile]:
    """Make up people as skewed as real ones, on the same places or a few metres off each."""
    chance = np.random.default_rng(n)
    where, made = grid(n), {}
    for i in range(count):
        prior = chance.gamma(0.3, size=n) + 1e-9
        places = where if shared else wh.Places.from_xy(where.xy + chance.normal(0, 0.02, (n, 2)))
        made[f"user-{i:05}"] = wh.Profile(places, prior / prior.sum())
    return made


class Memory:
    """Watches the memory of this process and its children while something runs."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, float]] = []  # seconds, here, largest child, in MB
        self._end = threading.Event()
        self._start = time.perf_counter()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            here = _resident("self")
            task = Path("/proc/self/task")
            children = [
                pid for one in task.iterdir() for pid in (one / "children").read_text().split()
            ]
            largest = max((_resident(pid) for pid in children), default=0.0)
            self.seen.append((time.perf_counter() - self._start, here, largest))

    def end(self) -> list[tuple[float, float, float]]:
        self._end.set()
        self._thread.join()
        return self.seen


def _resident(pid: str) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1e6


def batch(source: Path, output: Path, tell: Callable[[float], object], **where: Any) -> Row:
    """Build everybody; the rate is that after the first piece, when all are warm."""
    start = time.perf_counter()
    engine = open_engine(**where)
    ended: list[float] = []

    def note(share: float) -> None:
        ended.append(time.perf_counter())
        tell(share)

    try:
        done = run_batch(
            People(source), BuildOptions(epsilon_per_km=EPSILON, keep_prior=True),
            open_output(str(output)), engine,
            lambda row, now: note(now.ended / now.people),
        )  # fmt: skip
    finally:
        engine.close()
    if not done.built:
        return {"built": 0, "failed": done.failed, "seconds": time.perf_counter() - start}
    warm = [when for when in ended if when > ended[0] + 0.01]
    return {
        "built": done.built,
        "failed": done.failed,
        "seconds": time.perf_counter() - start,
        "a_second": len(warm) / (ended[-1] - ended[0]),
    }


def counts(folder: Path) -> dict[str, bytes]:
    return {
        file.name: wh.load_mechanism(file)[0].counts.tobytes() for file in folder.glob("*.whereish")
    }


def three_ways(users: int, address: str, folder: Path) -> list[Row]:
    """The same people on one process, two, and a cluster: equal, and every file audited."""
    source = folder / "people.parquet"
    write_profiles(source, people(users, 50))
    ways: list[tuple[str, Row]] = [
        ("one process", {"workers": 1}),
        ("two processes", {"workers": 2}),
        ("a Ray cluster of two nodes", {"cluster": address}),
    ]
    rows, found = [], []
    for name, where in ways:
        output = folder / name.replace(" ", "-")
        row = {"where": name, **batch(source, output, show(name), **where)}
        audited = [wh.audit_file(file)["certified"] for file in output.glob("*.whereish")]
        found.append(counts(output))
        row |= {"audited": sum(audited), "equal": found[-1] == found[0]}
        rows.append(row)
        print(
            f"\r{name}: {row['built']} of {users} people of 50 places in {row['seconds']:.1f} s, "
            f"{row['a_second']:.1f} a second once warm, {row['audited']} audited, "
            f"{'equal' if row['equal'] else 'DIFFERENT'}",
            file=sys.stderr,
        )
    return rows


def program_of(n: int) -> tuple[Program, Any]:
    """Return the program of a grid, and a prior as skewed as people's."""
    prior = np.random.default_rng(0).gamma(0.3, size=n)
    distances = wh.euclidean(grid(n))
    spanner = wh.greedy_spanner(distances, 1.0)
    exponents = EPSILON * spanner.lengths
    program = Program(distances, spanner.edges, exponents, EPSILON * distances)
    return program, prior / prior.sum()


def ticking(ticks: list[float]) -> Callable[[object], None]:
    return lambda _: ticks.append(time.perf_counter())


def one_solve(n: int, address: str, limit: float | None = None) -> list[Row]:
    """One solve here and on two machines: seconds a step, bytes a step, equal or not.

    With a limit it is about the seconds of a step only.
    """
    program, prior = program_of(n)
    join_cluster(address)
    groups: list[ray_solver.Moved] = []
    group: Any = ray_solver._Group
    begin = group.__init__

    def watched(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        groups.append(self.moved)

    def solve(where: str, ticks: list[float]) -> Structured:
        more: Row = {"time_limit_s": limit, "progress": ticking(ticks)}
        if where == "two members":
            return ray_solver.solve_on_cluster(address, program, prior, TOLERANCE, **more)
        return solve_on(program, prior, threads=1 if where == "one thread" else 2, **more)

    group.__init__ = watched
    rows: list[Row] = []
    first: Structured | None = None
    for name in ("one thread", "two threads", "two members"):
        best: Row = {"step_s": np.inf}
        for _ in range(2 if limit is None else 1):
            ticks: list[float] = []
            found = solve(name, ticks)
            first = first or found
            row = {
                "where": name,
                "seconds": found.seconds,
                "steps": found.iterations,
                # The same steps of each: later ones cost more.
                "step_s": float(np.median(np.diff(ticks)[: None if limit is None else 25])),
                "equal": bool((found.matrix == first.matrix).all()),
                "loss_differs_by": abs(found.loss - first.loss),
                "moved_mb": found.moved_bytes / 1e6,
                "moved_mb_a_step": found.moved_bytes / 1e6 / max(found.iterations, 1),
            }
            best = min(best, row, key=lambda one: one["step_s"])
        rows.append(best)
        print(
            f"{n} places, {name}: {best['seconds']:.1f} s, {best['steps']} steps of "
            f"{1000 * best['step_s']:.0f} ms, {best['moved_mb_a_step']:.2f} MB moved a step, "
            f"{'equal' if best['equal'] else 'DIFFERENT'}",
            file=sys.stderr,
        )
    group.__init__ = begin
    last = groups[-1]
    rows[-1] |= {
        "all_reduces_a_step": last.reduces / rows[-1]["steps"],
        "sums_mb": last.sums / 1e6,
        "checkpoints_mb": last.checkpoints / 1e6,
    }
    return rows


def many(count: int, folder: Path) -> Row:
    """Many small profiles end to end, and the memory over the run."""
    source = folder / "many.parquet"
    write_profiles(source, people(count, 9))
    memory = Memory()
    row = batch(source, folder / "many", show(f"{count} profiles"), workers=2)
    seen = memory.end()
    quarters = [part for part in np.array_split(np.array(seen), 4) if len(part)]
    again = batch(source, folder / "many", show("once more"), workers=2)
    row["kept_a_second"] = count / again["seconds"]
    row["memory_mb"] = [
        {"here": float(np.median(part[:, 1])), "worker": float(np.median(part[:, 2]))}
        for part in quarters
    ]
    print(
        f"\r{count:,} profiles of 9 places: {row['seconds']:.0f} s, {row['a_second']:.0f} a second;"
        " MB in each quarter of the run, here and in the largest worker: "
        + ", ".join(f"{one['here']:.0f} and {one['worker']:.0f}" for one in row["memory_mb"])
        + f". Once more, with nothing to do: {row['kept_a_second']:,.0f} a second",
        file=sys.stderr,
    )
    return row


def costs(folder: Path) -> list[Row]:
    """What a person costs a core, by the number of places, shared with others or not."""
    rows = []
    for n, count in ((20, 160), (50, 80), (75, 48), (100, 32)):
        row: Row = {"places": n}
        for shared in (True, False):
            source = folder / f"cost-{n}-{shared}.parquet"
            write_profiles(source, people(count, n, shared))
            output = folder / f"cost-{n}-{shared}"
            told = batch(source, output, show(f"{n} places"), workers=1)
            row["shared_s" if shared else "alone_s"] = 1 / told["a_second"]
        files = [file.stat().st_size for file in output.glob("*.whereish")]
        row["file_kb"] = float(np.mean(files)) / 1e3
        without = [
            len(mechanism_bytes(wh.load_mechanism(file)[0], None))
            for file in list(output.glob("*.whereish"))[:8]
        ]
        row["file_without_prior_kb"] = float(np.mean(without)) / 1e3
        rows.append(row)
        print(
            f"\ra person of {n} places: {1000 * row['shared_s']:.0f} ms of a core on places that "
            f"others share, {1000 * row['alone_s']:.0f} ms on their own; a file of "
            f"{row['file_kb']:.0f} kB, {row['file_without_prior_kb']:.0f} kB without the prior",
            file=sys.stderr,
        )
    return rows


def blocks(sizes: list[int]) -> list[Row]:
    """Measure what a block costs in a step, and holds: memory above that of the program."""
    rows = []
    for n in sizes:
        program, prior = program_of(n)
        before = _resident("self")
        seen: list[tuple[float, int, float]] = []

        def note(now: Progress, seen: list[Any] = seen) -> None:
            seen.append((time.perf_counter(), now.outputs, _resident("self")))

        limit = None if n <= 200 else 60.0 if n <= 400 else 150.0
        found = solve_on(program, prior, threads=1, time_limit_s=limit, progress=note)
        steps = [(now - then) / used for (then, used, _), (now, _, _) in itertools.pairwise(seen)]
        rows.append({
            "places": n,
            "block_step_ms": 1000 * float(np.median(steps)),
            "block_mb": float(np.median([(held - before) / used for _, used, held in seen])),
            "blocks": seen[0][1],
            "steps": found.iterations,
        })  # fmt: skip
        print(
            f"a block of {n} places: {rows[-1]['block_step_ms']:.2f} ms a step on a core, "
            f"{rows[-1]['block_mb']:.2f} MB; {rows[-1]['blocks']} blocks at first",
            file=sys.stderr,
        )
    return rows


def power(x: list[float], y: list[float]) -> tuple[float, float]:
    """Return a, b of the y = a x^b that goes through the points best."""
    b, a = np.polyfit(np.log(x), np.log(y), 1)
    return float(np.exp(a)), float(b)


def draw(told: Row, path: Path) -> None:
    """Draw the measured points beside the models."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    ways = told["three_ways"]
    rates = [row["a_second"] for row in ways]
    names = ["1 process", "2 processes", "Ray, 2 nodes"]
    left.bar(names, rates, color="#3b6ea5", width=0.55)
    left.plot([-0.3, 2.3], [2 * rates[0]] * 2, "--", color="#999999", label="twice one process")
    for at, rate in enumerate(rates):
        left.annotate(f"{rate:.0f}", (at, 0.9 * rate), ha="center", va="top", color="white")
    left.set(ylabel="people a second", title="People of 50 places, exact")
    left.set_ylim(0, 2.4 * rates[0])
    left.legend(frameon=False, loc="upper left")
    sizes = [row["places"] for row in told["costs"]]
    for key, label, colour in (
        ("shared_s", "places shared with others", "#3b6ea5"),
        ("alone_s", "places of their own", "#c2693f"),
    ):
        points = [row[key] for row in told["costs"]]
        middle.loglog(sizes, points, "o", color=colour, label=label)
        a, b = power(sizes, points)
        middle.loglog(sizes, [a * n**b for n in sizes], "--", color=colour, label=f"∝ n^{b:.1f}")
    middle.set(xlabel="places", ylabel="seconds of a core", title="A person")
    sizes = [row["places"] for row in told["blocks"]]
    points = [row["block_step_ms"] / 1000 for row in told["blocks"]]
    a, b = power(sizes, points)
    further = [*sizes, 1000, 2000]
    right.loglog(sizes, points, "o", color="#3b6ea5", label="measured")
    right.loglog(further, [a * n**b for n in further], "--", color="#3b6ea5", label=f"∝ n^{b:.1f}")
    right.set(xlabel="places", ylabel="seconds of a core", title="A step of one block")
    for axes in (middle, right):
        axes.legend(frameon=False)
        axes.set_xticks([20, 50, 100] if axes is middle else [50, 100, 200, 400, 1000, 2000])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.xaxis.set_minor_formatter("")
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def show(what: str) -> Callable[[float], None]:
    """Return what tells how far something is, on standard error."""
    last = 0.0

    def tell(share: float) -> None:
        nonlocal last
        if time.perf_counter() - last > 1:
            last = time.perf_counter()
            print(f"\r{what}: {share:.0%}  ", end="", file=sys.stderr, flush=True)

    return tell


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--users", type=int, default=200)
    options.add_argument("--many", type=int, default=10_000)
    options.add_argument("--places", type=int, default=200)
    options.add_argument("--picture", type=Path)
    options.add_argument("--large", action="store_true", help="a block of 1,000 places as well")
    asked = options.parse_args()
    sizes = [75, 100, 200, 400, *([1000] if asked.large else [])]
    folder = Path(tempfile.mkdtemp(prefix="whereish-scaling-"))
    nodes = Nodes()
    try:
        told: Row = {
            "three_ways": three_ways(asked.users, nodes.address, folder),
            "one_solve": one_solve(asked.places, nodes.address),
            "larger": one_solve(2 * asked.places, nodes.address, 45.0),
        }
        leave_cluster(join_cluster(nodes.address))
        nodes.stop()
        told |= {"many": many(asked.many, folder), "costs": costs(folder), "blocks": blocks(sizes)}
    finally:
        nodes.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if asked.picture is not None:
        draw(told, asked.picture)
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
