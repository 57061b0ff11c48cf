"""Record the digests of the counts of many builds, through every door, and their losses.

Run ``python tools/record_counts.py FILE`` before and after a change that must not change any
result, on the same machine: the second run compares. Where the counts differ, the losses must be
equal to a relative 1e-9. It uses public names, commands and HTTP paths only; every mechanism is
audited when it is made and when its file is read.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from serving import serving, wait_for

Built = Iterator[tuple[str, tuple[str, float]]]
SAME_LOSS = 1e-9


def digest(mechanism: wh.Mechanism, prior: Any = None, quality: Any = None) -> tuple[str, float]:
    """Return a digest of counts, outputs and epsilon, and the loss for the prior of the build."""
    content = hashlib.sha256(mechanism.counts.tobytes())
    content.update(np.ascontiguousarray(mechanism.outputs.xy).tobytes())
    content.update(repr(mechanism.epsilon).encode())
    loss = -1.0 if prior is None else float(wh.quality_loss(mechanism, prior, quality))
    return content.hexdigest(), loss


def scattered(n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return n scattered points and a skewed prior."""
    chance = np.random.default_rng(seed)
    weights = chance.gamma(0.4, size=n) + 1e-6
    return chance.uniform(0, 7, (n, 2)).round(4), weights / weights.sum()


def library() -> Built:
    """Build from Python."""
    for n, seed in ((6, 1), (16, 2), (50, 3)):
        points, prior = scattered(n, seed)
        places = wh.Places.from_xy(points)
        for dilation in (1.0, 1.1):
            yield (
                f"library optimal {n} {dilation}",
                digest(wh.optimal(places, prior, 1.07, dilation), prior),
            )
        yield f"library planar_laplace {n}", digest(wh.planar_laplace(places, 1.07))
        yield f"library exponential {n}", digest(wh.exponential(places, 1.07))
        yield f"library tight_constraints {n}", digest(wh.tight_constraints(places, 20.0))
        yield f"library closed_form {n}", digest(wh.closed_form(places, prior, 1.07))
        remapped = wh.planar_laplace(places, 1.07).remap(prior)
        yield f"library remap {n}", digest(remapped)
    points, prior = scattered(12, 4)
    places = wh.Places.from_xy(points)
    edges = [(i, i + 1) for i in range(11)] + [(0, 11), (2, 7)]
    lengths = [float(np.hypot(*(points[a] - points[b]))) for a, b in edges]
    roads = wh.graph_metric(12, edges, lengths)
    yield (
        "library graph metric",
        digest(wh.optimal(places, prior, 1.07, privacy_metric=roads), prior),
    )
    yield (
        "library discrete loss",
        digest(
            wh.optimal(places, prior, 1.07, quality_metric=wh.discrete(12)), prior, wh.discrete(12)
        ),
    )
    yield (
        "library outputs by number",
        digest(wh.optimal(places, prior, 1.07, outputs=[1, 4, 7, 9]), prior),
    )
    elsewhere = wh.Places.from_xy([[1.0, 1.0], [3.5, 3.5], [6.0, 2.0]])
    yield "library other outputs", digest(wh.optimal(places, prior, 1.07, outputs=elsewhere), prior)
    for solver in ("structured", "highs-ipm", "highs-dual-simplex", "highs-primal-simplex"):
        yield f"library {solver}", digest(wh.optimal(places, prior, 1.07, solver=solver), prior)
    yield (
        "library optimal_privacy",
        (
            hashlib.sha256(
                wh.optimal_privacy(places, prior, 0.8).matrix.round(9).tobytes()
            ).hexdigest(),
            -1.0,
        ),
    )
    yield "library planar_laplace_for_loss", digest(wh.planar_laplace_for_loss(places, prior, 1.0))
    city = wh.embedded_city()
    yield (
        "library geodesic",
        digest(
            wh.optimal(city.places, city.prior, 1.07, privacy_metric=wh.geodesic(city.places)),
            city.prior,
        ),
    )
    both = [prior, prior[::-1]]
    for i, one in enumerate(wh.optimal_each(places, both, 1.07)):
        yield f"library optimal_each {i}", digest(one, both[i])
    blurred = wh.blur_prior(prior, 0.3)
    yield "library blurred", digest(wh.optimal(places, blurred, 1.07), blurred)


def recipes() -> dict[str, dict[str, Any]]:
    """Return the documents that the JSON and HTTP doors are given."""
    points, prior = scattered(20, 5)
    base = {"places": {"xy_km": points.tolist()}, "prior": prior.tolist(), "epsilon_per_km": 1.07}
    edges = [[i, i + 1, 0.5 + i / 10] for i in range(19)]
    square = [[float(np.hypot(*(a - b))) for b in points] for a in points]
    paris = wh.embedded_city()
    return {
        "plain": base,
        "dilation": {**base, "dilation": 1.1},
        "closed form": {**base, "method": "closed-form"},
        "planar laplace": {**base, "method": "planar-laplace"},
        "auto": {**base, "method": "auto"},
        "outputs": {**base, "outputs": [0, 3, 5, 8, 13]},
        "edges": {**base, "privacy_metric": {"edges": edges}},
        "matrix": {**base, "privacy_metric": {"matrix": square}},
        "discrete": {**base, "quality_metric": "discrete"},
        "blur": {**base, "prior_blur": 0.3},
        "prior kept": {**base, "keep_prior": True},
        "geodesic": {
            "places": {"latlon": paris.places.latlon.tolist()},  # type: ignore[union-attr]
            "prior": paris.prior.tolist(),
            "epsilon_per_km": 1.07,
            "privacy_metric": "geodesic",
        },
    }


def command(folder: Path, *words: str) -> None:
    """Run a command in a folder."""
    subprocess.run(  # noqa: S603  (the words are ours)
        [sys.executable, "-m", "whereish", *words], cwd=folder, check=True, capture_output=True
    )


def commands(folder: Path) -> Built:
    """Build by the command line: from a profile with flags, from JSON, for many people."""
    points, prior = scattered(20, 5)
    table = [f"{x},{y},{p!r}" for (x, y), p in zip(points, prior.tolist(), strict=True)]
    (folder / "me.csv").write_text("\n".join(["x_km,y_km,prior", *table]) + "\n")
    flags = {
        "plain": ["--epsilon", "1.07"],
        "words": ["--ratio", "2", "--within", "650m"],
        "dilation": ["--epsilon", "1.07", "--dilation", "1.1"],
        "closed form": ["--epsilon", "1.07", "--method", "closed-form"],
        "highs": ["--epsilon", "1.07", "--solver", "highs-ipm", "--form", "dual"],
        "blur": ["--epsilon", "1.07", "--prior-blur", "0.3"],
        "prior kept": ["--epsilon", "1.07", "--keep-prior"],
    }
    for name, some in flags.items():
        command(folder, "build", "me.csv", "-o", "flags.whereish", *some)
        yield f"flags {name}", digest(wh.load_mechanism(folder / "flags.whereish")[0], prior)
    for name, document in recipes().items():
        (folder / "recipe.json").write_text(json.dumps(document))
        command(folder, "build", "recipe.json", "-o", "json.whereish")
        yield (
            f"json {name}",
            digest(wh.load_mechanism(folder / "json.whereish")[0], document["prior"]),
        )
    rows = [f"{who},{line}" for who in ("ann", "bob") for line in table]
    (folder / "people.csv").write_text("\n".join(["user,x_km,y_km,prior", *rows]) + "\n")
    for name, some in (
        ("exact", []),
        ("dilation", ["--dilation", "1.1"]),
        ("blur", ["--prior-blur", "0.3"]),
    ):
        made = folder / f"batch-{name}"
        command(folder, "batch", "people.csv", "-o", str(made), "--epsilon", "1.07", *some)
        for file in sorted(made.rglob("*.whereish")):
            yield f"batch {name} {file.stem}", digest(wh.load_mechanism(file)[0], prior)


def http(folder: Path) -> Built:
    """Build by the service."""
    with serving(folder / "service") as served, served.client() as client:
        for name, document in recipes().items():
            job = client.post("/v1/mechanisms", json=document).raise_for_status().json()["id"]
            state = wait_for(client, job)["state"]
            if state != "done":
                raise RuntimeError(f"{name}: {state}")
            made = client.get(f"/v1/mechanisms/{job}/file").raise_for_status().content
            file = folder / "served.whereish"
            file.write_bytes(made)
            yield f"http {name}", digest(wh.load_mechanism(file)[0], document["prior"])


def main() -> None:
    """Write the digests, or compare them with a file that is there."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        found = {**dict(library()), **dict(commands(Path(place))), **dict(http(Path(place)))}
    if not target.exists():
        target.write_text(json.dumps(found, indent=1) + "\n")
        sys.stdout.write(f"{len(found)} digests are in {target}\n")
        return
    before = json.loads(target.read_text())
    other = sorted(
        name
        for name in before.keys() | found.keys()
        if name not in before or name not in found or before[name][0] != found[name][0]
    )
    worse = [name for name in other if not _same_loss(before.get(name), found.get(name))]
    sys.stdout.write(f"{len(before)} digests, {len(other)} differ: {', '.join(other) or 'none'}\n")
    sys.stdout.write(f"losses that differ by more than {SAME_LOSS:g}: {worse or 'none'}\n")
    sys.exit(1 if worse else 0)


def _same_loss(before: Any, found: Any) -> bool:
    """Tell whether two builds have the same loss, to a relative 1e-9."""
    if before is None or found is None or before[1] < 0 or found[1] < 0:
        return False
    return bool(abs(before[1] - found[1]) <= SAME_LOSS * before[1])


if __name__ == "__main__":
    main()
