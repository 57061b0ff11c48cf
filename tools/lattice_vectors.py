"""Write the test vectors that Python and the JavaScript client share for mechanisms on a lattice.

Each vector has a point, random words, and what must follow from them: the cell, the whole numbers
that say where the point is in the cell, the corner that is chosen, and the report.
``tests/test_client_lattice.py`` checks the vectors with this library and with slow code of its own,
``clients/js/test/lattice.test.js`` with the client. Run this after a change of the file format or
of the sampler only: the vectors are there to notice changes that nobody wanted.

    python tools/lattice_vectors.py

Points in km, with coordinates that are doubles, must be handled alike bit for bit. Points in
degrees are projected by PROJ here and by Vincenty's formulas in the client. The two differ by less
than `TOLERANCE` units at these distances, and the words are at least twice as far from every
threshold (docs/client.md).
"""

from __future__ import annotations

import base64
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import whereish as wh
from whereish.format import mechanism_bytes
from whereish.measures import TOTAL, steepest
from whereish.places import LocalPlane
from whereish.places.lattice import Lattice, to_units
from whereish.release import choose_upper, release_lattice, to_counts

FILE = Path(__file__).parent.parent / "clients" / "js" / "test" / "lattice-vectors.json"
TOLERANCE = 1100  # units: a micrometre; the largest seen within 100 km is 800
SEED = 19


def mechanisms() -> dict[str, wh.EverywhereMechanism]:
    """Return a mechanism for each shape of a lattice, on the earth or in a plane."""
    rng = np.random.default_rng(SEED)
    paris, dateline, north = (
        LocalPlane(48.86, 2.35),
        LocalPlane(-17.8, 179.99),
        LocalPlane(78, 15),
    )

    def graded(count: int, width: float) -> Any:
        return np.cumsum(rng.uniform(0.2, 1, count)) / count * width - width / 3

    return {
        "city": _mechanism(Lattice(graded(7, 8.0), graded(5, 6.0)), 1.07, 5, paris),
        "streets": _mechanism(Lattice(graded(4, 0.1), graded(6, 0.2)), 10.0, 3, dateline),
        "wide": _mechanism(Lattice(graded(5, 90.0), graded(3, 90.0)), 0.2, 4, north),
        "plane": _mechanism(_lattice([-4096, -1.5, 0.1, 4096], [0, 1e-6, 3.7]), 3.0, 3, None),
        "line": _mechanism(_lattice([2.5], graded(5, 4.0)), 2.0, 4, None),
        "vertex": _mechanism(_lattice([0.0], [0.0]), 1.0, 4, paris),
    }


def _lattice(xs: Any, ys: Any) -> Lattice:
    return Lattice(np.array(xs, float), np.array(ys, float))


def _mechanism(
    lattice: Lattice, epsilon: float, outputs: int, plane: LocalPlane | None
) -> wh.EverywhereMechanism:
    """Return random rows, mixed with uniform ones until the tightest corner is at its limit."""
    rng = np.random.default_rng([SEED, len(lattice), outputs])
    rows = rng.dirichlet(np.full(outputs, 0.4), size=len(lattice))
    low, high = 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2
        fits = steepest(to_counts((1 - share) * rows + share / outputs), lattice)[0] <= epsilon
        low, high = (low, share) if fits else (share, high)
    counts = release_lattice((1 - high) * rows + high / outputs, lattice, epsilon).counts
    xy = rng.uniform(-3, 3, (outputs, 2))
    places = wh.Places(xy, None if plane is None else plane.to_latlon(xy), plane)
    return wh.EverywhereMechanism(counts, lattice, places, epsilon)


def vectors_of(m: wh.EverywhereMechanism, seed: int) -> list[dict[str, Any]]:
    """Return the vectors of a mechanism: raw points, vertices, borders of cells, and ties."""
    rng = np.random.default_rng([SEED, seed])
    (west, east), (south, north) = ((axis[0], axis[-1]) for axis in m.lattice)
    margin = 0.2 * max(east - west, north - south, 0.1)
    found = []
    spread = rng.uniform((west - margin, south - margin), (east + margin, north + margin), (24, 2))
    sides = [rng.choice(axis, 8) for axis in m.lattice]
    beside = np.column_stack([sides[0], rng.uniform(south, north, 8)])
    half = np.column_stack(sides) + rng.choice([-1.5, -0.5, 0.5, 1.5], (8, 2)) * 2.0**-40
    for point in (*spread, *beside, *half, *m.lattice.vertices[:: max(1, len(m.lattice) // 6)]):
        found.append(_vector(m, point, _words(rng)))
        found += [_vector(m, point, words) for words in _ties(m, point, rng)]
    if m.outputs.plane is not None:
        inside = rng.uniform((west, south), (east, north), (16, 2))
        for degrees in m.outputs.plane.to_latlon(np.vstack([spread[:16], inside])):
            xy = m.outputs.plane.to_xy([degrees])[0]
            words = _words(rng)
            while not _clear(m, xy, words):
                words = _words(rng)
            found.append({"degrees": degrees.tolist(), **_vector(m, xy, words)})
    return found


def _words(rng: np.random.Generator) -> list[int]:
    return [int(word) for word in rng.integers(0, TOTAL, 3, dtype=np.uint64)]


def _ties(m: wh.EverywhereMechanism, point: Any, rng: np.random.Generator) -> list[list[int]]:
    """Return words at, just below and just above a threshold, with the further words they need."""
    at = m.lattice.position([point])
    found = []
    for axis in range(2):
        steps, width = int(at.steps[0, axis]), int(at.widths[0, axis])
        quotient, rest = divmod(steps << 63, width)
        second, last = divmod(rest << 63, width)
        for word, more in product((quotient - 1, quotient, quotient + 1), (-1, 1)):
            if not 0 <= word < TOTAL or (word != quotient and more == 1):
                continue
            words = _words(rng)
            words[axis] = word
            if word == quotient and rest > 0:
                if not 0 <= second + more < TOTAL:
                    continue
                words.append(second + more)
            found.append(words)
        if rest > 0 and last > 0:
            third = (last << 63) // width
            words = _words(rng)
            words[axis] = quotient
            found.append([*words, second, min(third + 1, TOTAL - 1)])
    return found if rng.random() < 0.07 else []


def _clear(m: wh.EverywhereMechanism, xy: Any, words: list[int]) -> bool:
    """Tell whether a point that is 2 `TOLERANCE` away gives the same report from these words."""
    here = _vector(m, xy, words)
    moved = [_vector(m, xy + np.array(step) * 2 * TOLERANCE * 2.0**-40, words)
             for step in product((-1, 0, 1), (-1, 0, 1))]  # fmt: skip
    same = ("cell", "corner", "vertex", "output")
    return all(here[name] == other[name] for other in moved for name in same)


def _vector(m: wh.EverywhereMechanism, xy: Any, words: list[int]) -> dict[str, Any]:
    """Return a vector, computed with the parts that the library draws with."""
    at = m.lattice.position([xy])
    rest = iter(words[3:])

    def further(size: int) -> Any:
        return np.array([next(rest) for _ in range(size)], np.uint64)

    drawn = np.array([words[:2]], np.uint64)
    upper = choose_upper(drawn, at.steps, at.widths, further)
    ix, iy = np.where(upper, at.upper, at.lower)[0].tolist()
    vertex = iy * len(m.lattice.xs) + ix
    sums = np.cumsum(m.counts[vertex], dtype=np.uint64)
    if list(rest):
        raise ValueError("all words of a vector must be needed")
    lower = at.lower[0].tolist()
    return {
        "km": np.asarray(xy).tolist(),
        "units": to_units(np.array([xy]))[0].tolist(),
        "words": [str(word) for word in words],
        "cell": lower[1] * max(1, len(m.lattice.xs) - 1) + lower[0],
        "corner": lower,
        "steps": at.steps[0].tolist(),
        "widths": at.widths[0].tolist(),
        "vertex": vertex,
        "output": int((np.uint64(words[2]) >= sums).sum()),
    }


def main() -> int:
    """Write the file."""
    made = [
        {
            "name": name,
            "file": base64.b64encode(mechanism_bytes(m)).decode("ascii"),
            "vectors": vectors_of(m, seed),
        }
        for seed, (name, m) in enumerate(mechanisms().items())
    ]
    lines = [json.dumps({**part, "vectors": None})[:-5] + "[\n"
             + ",\n".join(json.dumps(vector) for vector in part["vectors"]) + "\n]}"
             for part in made]  # fmt: skip
    head = f'{{"tolerance_units": {TOLERANCE}, "mechanisms": [\n'
    FILE.write_text(head + ",\n".join(lines) + "\n]}\n", encoding="ascii")
    sys.stdout.write(f"{FILE.name}: {sum(len(part['vectors']) for part in made)} vectors\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
