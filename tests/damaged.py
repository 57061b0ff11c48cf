"""Files of version 2 with damaged arrays, and a certificate that is right for what they hold."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import whereish as wh
from forgeries import Arrays, Texts, plain, taken_apart
from lattice_files import POINTS, lattice_file, parts_of, small_lattice
from whereish.format import mechanism_bytes
from whereish.format.everywhere_certificate import certify_everywhere
from whereish.format.plain import as_plain

Parts = tuple[Arrays, Any, Texts]
PROOF: Arrays = {
    "proof_centres": np.array(POINTS[0])[:2].copy(),
    "proof_cluster": np.array([0, 1, 1], np.int32),
    "proof_output": np.array([0, 2], np.int32), "proof_left": np.array([0, 1], np.int32),
    "proof_right": np.array([1, 0], np.int32), "proof_value": np.array([0.01, 0.02]),
}  # fmt: skip


def bases() -> dict[str, Parts]:
    """Return the parts of honest files of both kinds: with points, with a proof, without."""
    found = {}
    for name, m in (("earth", small_lattice()), ("plane", small_lattice(3.0, earth=False))):
        arrays, told, claimed = parts_of(m, *POINTS)
        found[f"a lattice, {name}"] = {**arrays, **PROOF}, told, claimed
    rng = np.random.default_rng(8)
    where = wh.Places.from_latlon(np.array([48.85, 2.33]) + rng.normal(0, 0.01, (12, 2)))
    on_earth = wh.planar_laplace_everywhere(where, None, 1.0)
    found["noise, earth"] = taken_apart(mechanism_bytes(on_earth, (where, None)))
    in_plane = wh.planar_laplace_everywhere(where.xy, None, 1.0)
    found["noise, plane"] = taken_apart(mechanism_bytes(in_plane))
    return found


def certified(path: Path, arrays: Arrays, told: Any, claimed: Texts) -> bool:
    """Write a file; if Python loads it, with the certificate that it should have. Tell whether."""
    path.write_bytes(lattice_file(arrays, told, claimed))
    try:
        mechanism, visits = wh.load_mechanism(path)
    except (wh.FormatError, wh.GuaranteeError):
        return False
    fresh = claimed
    with contextlib.suppress(wh.GuaranteeError, ValueError, OverflowError):  # of a useless proof
        fresh = as_plain(certify_everywhere(mechanism, visits))
    path.write_bytes(lattice_file(arrays, told, fresh))
    return True


def by_design() -> Iterator[tuple[str, Parts]]:
    """Yield files with one rule of the format broken, or nearly broken, by name."""
    found = bases()
    for kind in ("a lattice, earth", "noise, earth"):
        arrays, told, claimed = found[kind]
        for name, array in {**PROOF, **arrays}.items():
            for what, changed in _shapes(array):
                yield f"{kind}: {name} {what}", ({**arrays, name: changed}, told, claimed)
            rest = {key: value for key, value in arrays.items() if key != name}
            yield f"{kind}: no {name}", (rest, told, claimed)
        for some in (("points",), ("weights",), ("points", "weights"), tuple(PROOF)):
            rest = {key: value for key, value in arrays.items() if key not in some}
            yield f"{kind}: without {', '.join(some)}", (rest, told, claimed)
    arrays, told, claimed = found["noise, earth"]
    assigned = np.arange(len(arrays["points"]), dtype=np.int32) % 2
    proof = {**PROOF, "proof_cluster": assigned}
    yield "a whole proof with noise", ({**arrays, **proof}, told, claimed)
    for name, change in _proofs():
        arrays, told, claimed = found["a lattice, earth"]
        yield name, ({**arrays, **change}, told, claimed)
    for name, change in _points():
        for kind in ("a lattice, earth", "a lattice, plane"):
            arrays, told, claimed = found[kind]
            yield f"{kind}: {name}", ({**arrays, **change}, told, claimed)
    yield from _outputs(found)


def _shapes(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield an array in other shapes and types."""
    yield "of none", array[:0].copy()
    yield "with one less", array[:-1].copy()
    yield "twice", np.concatenate([array, array])
    yield "as a column", array.reshape(-1, 1)
    yield "as a row", array.reshape(1, -1)
    for kind in (np.int32, np.int64, np.uint64, np.float64):
        yield f"as {np.dtype(kind)}", np.abs(array).astype(kind)
    if array.dtype == np.float64:
        for value in (np.nan, np.inf, -np.inf, -0.0, 1e12, 1.1e12, -1e-300):
            for at in (0, -1):
                changed = array.copy()
                changed.reshape(-1)[at] = value
                yield f"with {value} at {at}", changed
    elif array.dtype == np.int32:
        for value in (-1, -(2**31), 2**31 - 1):
            changed = array.copy()
            changed.reshape(-1)[-1] = value
            yield f"with {value}", changed


def _proofs() -> Iterator[tuple[str, Arrays]]:
    """Yield proofs at and beyond the rules of the format."""
    third = np.array([[5.0, 5.0]])
    near, at = PROOF["proof_centres"].copy(), PROOF["proof_centres"][:1]
    near[1] = near[0] + [1.1e-6, 0]
    yield "centres just above a millimetre apart", {**PROOF, "proof_centres": near.copy()}
    for off in ([0.9e-6, 0], [0, 0], [0, -0.9e-6], [7e-7, 7e-7]):
        near[1] = near[0] + off
        yield f"centres {off} km apart", {**PROOF, "proof_centres": near.copy()}
    more = np.vstack([PROOF["proof_centres"], third])
    yield "a centre without a point", {**PROOF, "proof_centres": more}
    every = {"proof_centres": more, "proof_cluster": np.array([2, 0, 1], np.int32)}
    yield "a centre for each point", {**PROOF, **every}
    yield "a centre of no row", {**PROOF, **every, "proof_left": np.array([2, 1], np.int32)}
    yield "a row of a centre that is not there", {**PROOF, "proof_left": np.array([2, 1], np.int32)}
    for cluster in ([0, 0, 0], [1, 1, 1], [0, 2, 2], [-1, 0, 1], [1, 0, 0], [0, 1, 1, 1]):
        yield f"clusters {cluster}", {**PROOF, "proof_cluster": np.array(cluster, np.int32)}
    none = {name: array[:0].copy() for name, array in PROOF.items()}
    rows = ("proof_output", "proof_left", "proof_right", "proof_value")
    yield "no rows", {**PROOF, **{name: none[name] for name in rows}}
    yield "nothing in the proof", {**PROOF, **none}
    one = {"proof_centres": at, "proof_cluster": np.zeros(3, np.int32)}
    yield "one centre and no rows", {**PROOF, **one, **{name: none[name] for name in rows}}
    yield "one centre and rows", {**PROOF, **one}
    for count in (6, 7):  # at most m c (c - 1), with 3 outputs and 2 centres
        yield f"{count} rows", {**PROOF, **{name: np.resize(PROOF[name], count) for name in rows}}
    yield "a centre beside itself", {**PROOF, "proof_right": np.array([1, 1], np.int32)}
    for value in ([0.0, 0.0], [-0.0, 1.0], [1e99, 0.0], [1e300, 0.0], [-1e-300, 0.0]):
        yield f"multipliers {value}", {**PROOF, "proof_value": np.array(value)}
    for c in (10_000, 10_001):
        centres = np.column_stack([np.arange(c) / 100, np.zeros(c)])
        visits = {"points": centres.copy(), "weights": np.full(c, 1 / c)}
        yield f"{c} centres", {
            **PROOF, **visits, "proof_centres": centres,
            "proof_cluster": np.arange(c, dtype=np.int32),
            **{name: none[name] for name in rows},
        }  # fmt: skip


def _points() -> Iterator[tuple[str, Arrays]]:
    """Yield visited points and weights at and beyond the rules of the format."""
    points, weights = (np.array(part, float) for part in POINTS)
    for east in (3399.0, 3500.0, 4097.0, 9000.0, 1e12):
        far = points.copy()
        far[1] = east, -0.5
        yield f"a point at {east:g} km", {"points": far}
    for name, given in (
        ("sum 1 + 9e-7", weights * (1 + 9e-7)), ("sum 1 + 2e-6", weights * (1 + 2e-6)),
        ("sum 1 - 9e-7", weights * (1 - 9e-7)), ("sum 1 - 2e-6", weights * (1 - 2e-6)),
        ("a tiny weight", np.array([0.5, 0.5, 5e-324])),
        ("a weight of 0", np.array([0.5, 0.5, 0.0])),
        ("a weight of -0", np.array([0.5, 0.5, -0.0])),
        ("a negative weight", np.array([0.7, 0.5, -0.2])),
    ):  # fmt: skip
        yield name, {"weights": given}
    yield "equal points", {"points": np.repeat(points[:1], 3, axis=0)}


def _outputs(found: dict[str, Parts]) -> Iterator[tuple[str, Parts]]:
    """Yield outputs at and beyond the rules of the format."""
    for kind in ("a lattice, earth", "noise, earth"):
        arrays, told, claimed = found[kind]
        for off in (9e-7, 1.1e-6, -9e-7, -1.1e-6):
            for column in (0, 1):
                moved = arrays["outputs"].copy()
                moved[1, column] += off
                yield f"{kind}: coordinate {column} of an output {off} km off", (
                    {**arrays, "outputs": moved}, told, claimed)  # fmt: skip
        plane = wh.LocalPlane(*told["outputs"]["plane"])
        for away in (1500.0, 3000.0, 9000.0):
            for off in (0.0, 9e-7, 1.3e-6):
                if away > 3400 and off > 0:
                    continue  # the two projections differ there
                xy = arrays["outputs"].copy()
                xy[0] = -away, 0.5 * away
                degrees = plane.to_latlon(xy)
                xy[0, 1] += off
                change = {"outputs": xy, "outputs_latlon": degrees}
                yield f"{kind}: an output {away} km away, {off} km off", (
                    {**arrays, **change}, told, claimed)  # fmt: skip
    arrays, told, claimed = found["noise, plane"]
    m = len(arrays["outputs"])
    for value in (0, m - 1, m, -1):
        table = arrays["table"].copy()
        table[-1, 0] = value
        yield f"a table with {value} of {m}", ({**arrays, "table": table}, told, claimed)
    for gap in (1_099_511, 1_099_512):
        xs = arrays["xs"].copy()
        xs[1] = xs[0] + gap
        yield f"borders {gap} units apart", ({**arrays, "xs": xs}, told, claimed)
    for build in ('"gap":1e999', '"loss_km":-1e999', '"seconds":1e308', '"other_loss_km":null'):
        rest = plain({name: value for name, value in told.items() if name != "build"})
        said = rest[:-1] + ',"build":{"method":"given",' + build + "}}"
        yield f"build {build}", (arrays, said, claimed)


def at_random(count: int, seed: int) -> Iterator[tuple[str, Parts]]:
    """Yield so many files with one or two arrays changed; most of the changes are in proofs."""
    chance = random.Random(seed)
    found = list(bases().items())
    for number in range(count):
        kind, (arrays, told, claimed) = chance.choice(found[:2] if number % 3 else found)
        arrays = dict(arrays)
        for _ in range(chance.choice([1, 1, 2])):
            names = [name for name in arrays if name.startswith("proof_")]
            if not names or chance.random() < 0.3:
                names = list(arrays)
            name = chance.choice(names)
            arrays[name] = _changed(arrays[name].copy(), chance)
        yield f"{number}: {kind}", (arrays, told, claimed)


def _changed(array: NDArray[Any], chance: random.Random) -> NDArray[Any]:
    """Change some numbers of an array, their order, or its shape."""
    kind = chance.random()
    if array.size == 0 or kind < 0.06:
        return array[: chance.randrange(len(array) + 1)].copy()
    if kind < 0.12:
        return np.concatenate([array, array[: chance.randrange(1, len(array) + 1)]])
    if kind < 0.16:
        return array.reshape(*chance.choice([(-1,), (-1, 1), (1, -1)]))
    if kind < 0.3:
        order = list(range(len(array)))
        chance.shuffle(order)
        return array[order].copy()
    if kind < 0.4:
        array[chance.randrange(len(array))] = array[chance.randrange(len(array))]
        return array
    flat = array.reshape(-1)
    for _ in range(chance.choice([1, 1, 3])):
        at = chance.randrange(flat.size)
        old = flat[at]
        if array.dtype == np.float64:
            near = [float(old) + off for off in (1e-7, 2e-6, 0.1, 1.0)]
            flat[at] = chance.choice([*near, 0.0, -0.0, -1.0, np.nan, np.inf, 1e12, 1e13, 1e300])
        elif array.dtype == np.uint64:
            flat[at] = chance.choice([int(old), int(old) + 1, 0, 2**62])
        elif array.dtype == np.int64:
            flat[at] = int(old) + chance.choice([1, -1, 2**20, 2**30, -(2**39), 2**52])
        else:
            flat[at] = chance.choice([0, 1, 2, 3, -1, 11, 12, 50_000, int(old) + 1])
    return array
