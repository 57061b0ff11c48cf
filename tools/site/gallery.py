"""The gallery: every example is run, and gets a page with its picture, its code and its output."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sources import ROOT, Sources

FOLDER = "gallery"


@dataclass(frozen=True)
class Example:
    """A script of examples/, and what its page says."""

    name: str
    title: str
    shows: str
    pictures: tuple[str, ...]  # the files that the script writes; the first one is on the card
    alt: str


EXAMPLES = (
    Example(
        "first_steps", "First steps",
        "The optimal mechanism for a small town, beside planar Laplace at the same epsilon. The "
        "optimal one reports places that are near to where the person usually is.",
        ("first-steps.png",), "Reports from home: the optimal mechanism and planar Laplace",
    ),
    Example(
        "from_traces", "From traces to a mechanism",
        "The traces of a synthetic person become a profile, and the profile a mechanism. An "
        "adversary who knows that it is night has fewer places to consider.",
        ("from-traces.png",), "The prior of a whole day and of the nights",
    ),
    Example(
        "other_priors", "An adversary who knows more",
        "Three mechanisms with the same quality loss, against an adversary who knows that it is "
        "night. The guarantee of geo-indistinguishability holds for every prior; the mechanism of "
        "Shokri et al. has no such guarantee.",
        ("other-priors.png",), "The expected error of the best guess for three mechanisms",
    ),
    Example(
        "averaging", "Averaging repeated reports",
        "The mean of independent reports of one place converges to it. A Reporter repeats its "
        "report, and averaging gains nothing.",
        ("averaging.png",), "The error of the mean of k reports, with and without a Reporter",
    ),
    Example(
        "attacks", "Attacks on reports over time",
        "Synthetic people report every ten minutes, under each policy. The adversary knows how the "
        "other people move, and looks for homes, ways and names.",
        ("attacks.png",), "What the attacks find under each policy",
    ),
    Example(
        "road_network", "Distances along roads",
        "A privacy metric from a graph: two crossings are as far apart as the way between them. "
        "The constraints of the edges are enough, and nothing is lost.",
        ("road-network.png",), "Six crossings, their roads, and the reports from one of them",
    ),
    Example(
        "streets", "Every point of the streets",
        "A guarantee between any two points of a street network, along the streets. Between the "
        "vertices, probabilities are interpolated.",
        ("streets.png",), "A small street grid with the reports from home",
    ),
    Example(
        "notebook", "In a notebook",
        "Six cells: places from a GeoDataFrame, a matrix that is checked, the trade-off between "
        "privacy and quality, two priors, roads, and a map from the reports of many people.",
        ("notebook-maps.png", "notebook-trade-off.png"), "A prior, and the reports from one place",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What a script printed, and the seconds of CPU that it took."""

    output: str
    cpu_s: float


def run(example: Example, folder: Path) -> Run:
    """Run a script in a folder, with warnings as errors, and check that its pictures are there."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{example.name}.py")]
    # One thread: on small arrays, more of them wait for each other and use CPU.
    environment = {**os.environ, "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"examples/{example.name}.py failed:\n{done.stderr}")
    for name in example.pictures:
        if not (folder / name).is_file():
            raise RuntimeError(f"examples/{example.name}.py must write {name}, and has not")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(done.stdout, seconds)


def page(example: Example, made: Run) -> str:
    """Return the page of an example."""
    code = (ROOT / "examples" / f"{example.name}.py").read_text().rstrip()
    pictures = "\n\n".join(f"![{example.alt}]({name})" for name in example.pictures)
    return (
        f"# {example.title}\n\n{example.shows}\n\n{pictures}\n\n"
        f"## Output\n\n```text\n{made.output.rstrip()}\n```\n\n"
        f"## Code\n\n`examples/{example.name}.py`, {made.cpu_s:.1f} s of CPU when this page was "
        f"made.\n\n```python\n{code}\n```\n"
    )


def index() -> str:
    """Return the first page of the gallery: a card for each example."""
    cards = "\n\n".join(
        f"-   [![{one.alt}]({one.pictures[0]})]({one.name}.md)\n\n"
        f"    **[{one.title}]({one.name}.md)**\n\n    {one.shows.partition('. ')[0].rstrip('.')}."
        for one in EXAMPLES
    )
    return (
        "# Gallery\n\nScripts of `examples/`, run when this site was built. Each page has the "
        f'picture, the output and the code.\n\n<div class="cards" markdown>\n\n{cards}\n\n</div>\n'
    )


def add(sources: Sources) -> float:
    """Run all examples and add their pages; return the seconds of CPU."""
    folder = sources.folder / FOLDER
    folder.mkdir(parents=True)
    total = 0.0
    for example in EXAMPLES:
        made = run(example, folder)
        total += made.cpu_s
        print(f"examples/{example.name}.py: {made.cpu_s:.1f} s of CPU", flush=True)  # noqa: T201
        sources.add_page(f"{FOLDER}/{example.name}.md", page(example, made))
    sources.add_page(f"{FOLDER}/index.md", index())
    return total
