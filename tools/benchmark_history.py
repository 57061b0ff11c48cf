"""Keep the results of `make bench` for each version, and draw them over the versions.

    python tools/benchmark_history.py record FILE [--note TEXT]    FILE of benchmarks/solvers.py
    python tools/benchmark_history.py draw                         table and picture, from all files

A kept file has ratios from one run: seconds of the fastest other solver over ours. Seconds of
different machines cannot be compared, ratios can, roughly. It names no machine, person or folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from release.versions import source_version

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "benchmarks" / "results"
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "images" / "benchmarks.png"
BEGIN, END = "<!-- tools/benchmark_history.py writes this part -->", "<!-- to here -->"
FIELDS = ("version", "commit", "date", "note", "machine", "ratios", "process_s")


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many times faster ours is than the fastest peer, for each size and dilation.

    Seconds are medians over seeds. A peer counts if it solved all of them.
    """
    found = []
    for places, dilation in sorted({(row["places"], row["dilation"]) for row in rows}):
        seconds: dict[str, list[float]] = {}
        for row in rows:
            if (row["places"], row["dilation"]) == (places, dilation):
                took = row["seconds"] if row["state"] == "solved" else float("inf")
                seconds.setdefault(row["method"], []).append(took)
        middle = {
            method: statistics.median(tries)
            for method, tries in seconds.items()
            if max(tries) < float("inf")
        }
        ours = middle.pop("structured")
        peer = min(middle, key=lambda method: middle[method], default=None)
        if peer is not None:
            ratio = float(f"{middle[peer] / ours:.3g}")
            found.append({"places": places, "dilation": dilation, "ratio": ratio, "peer": peer})
    return found


def summary(document: dict[str, Any], version: str, commit: str, note: str) -> dict[str, Any]:
    """Return what is kept of a run."""
    about = document["about"]
    return {
        "version": version,
        "commit": commit,
        "date": datetime.now(UTC).date().isoformat(),
        "note": note,
        "machine": {name: about[name] for name in ("machine", "instruction_set", "cores")},
        "ratios": ratios(document["rows"]),
        "process_s": float(f"{document['fresh']['process_s']:.3g}"),
    }


def kept() -> list[dict[str, Any]]:
    """Return the kept results, the oldest version first."""
    found = [json.loads(file.read_text()) for file in KEPT.glob("[0-9]*.json")]
    return sorted(found, key=lambda one: (one["date"], one["version"]))


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a table in Markdown: a row for each version."""
    cells = sorted({(r["places"], r["dilation"]) for one in results for r in one["ratios"]})
    names = [f"{places} places, dilation {dilation:g}" for places, dilation in cells]
    head = ["version", "date", *names, "first mechanism", "remark"]
    lines = [head, ["---"] * len(head)]
    for one in results:
        known = {(r["places"], r["dilation"]): r["ratio"] for r in one["ratios"]}
        shown = [f"{known[cell]:g}" if cell in known else "" for cell in cells]
        first = f"{one['process_s']:g} s"
        lines.append([one["version"], one["date"], *shown, first, one["note"]])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw the ratios over the versions, a line for each size and dilation."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 3.6))
    versions = [one["version"] for one in results]
    cells = sorted({(r["places"], r["dilation"]) for one in results for r in one["ratios"]})
    for places, dilation in cells:
        points = [
            (k, r["ratio"])
            for k, one in enumerate(results)
            for r in one["ratios"]
            if (r["places"], r["dilation"]) == (places, dilation)
        ]
        label = f"{places} places, dilation {dilation:g}"
        axis.plot(*zip(*points, strict=True), marker="o", label=label)
    axis.set(yscale="log", ylabel="times faster than the best other solver")
    for of in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
        of("{x:g}")  # 40, and not 4 x 10^1
    axis.set_xticks(range(len(versions)), versions)
    axis.set_xlim(-0.5, len(versions) - 0.5)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def page(text: str, results: list[dict[str, Any]]) -> str:
    """Return the page with its written part replaced."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n\n" + table(results) + "\n\n" + END + rest.partition(END)[2]


def record(file: Path, note: str) -> None:
    """Keep a run as that of the stated version."""
    version, git = source_version(), ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603
    told = summary(json.loads(file.read_text()), version, commit.strip(), note)
    (KEPT / f"{version}.json").write_text(json.dumps(told, indent=1) + "\n")
    sys.stdout.write(f"benchmarks/results/{version}.json: {len(told['ratios'])} ratios\n")


def main() -> None:
    """Record a run, then write table and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=["record", "draw"])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--note", default="", help="such as: under load, --quick")
    asked = parser.parse_args()
    if asked.what == "record":
        if asked.file is None:
            parser.error("record needs the file of a run")
        record(asked.file, asked.note)
    PAGE.write_text(page(PAGE.read_text(), kept()))
    draw(kept(), PICTURE)


if __name__ == "__main__":
    main()
